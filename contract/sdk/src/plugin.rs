//! The plugin itself: what it is, and the devices it finds.

use crate::{Device, HostServices, Result};

/// What a plugin is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PluginInfo {
    /// Short lower-case name, as in `name:index`.
    pub name: &'static str,
    /// Version of the plugin.
    pub version: &'static str,
    /// Another one for every build whose blobs or figures may differ, as [`build_id!`](crate::build_id) makes it; part of
    /// every cache key.
    pub build_id: &'static str,
}

/// The build id of the plugin that calls this, whose build script calls `polychip_build_id::emit`: name, version, and a
/// hash of everything that the build is made of.
#[macro_export]
macro_rules! build_id {
    ($name:literal) => {
        concat!(
            $name,
            "-",
            env!("CARGO_PKG_VERSION"),
            "-",
            env!("POLYCHIP_BUILD_ID")
        )
    };
}

/// A plugin. Dropping the value ends the instance: join every thread that uses the host's services.
pub trait Plugin: Send + Sync + Sized + 'static {
    /// Its devices. All devices of a plugin have one type, so that one can wait for another's fences.
    type Device: Device;
    /// What it is; read before anything runs.
    const INFO: PluginInfo;

    /// Makes an instance; loads the vendor's library. May block.
    ///
    /// # Errors
    /// Where the vendor's library or driver is missing or too old, or the configuration is wrong.
    fn create(host: HostServices) -> Result<Self>;

    /// Counts the devices. May block.
    ///
    /// # Errors
    /// Where the driver does not answer.
    fn device_count(&self) -> Result<u32>;

    /// Opens a device. May block.
    ///
    /// # Errors
    /// Where there is no such device or it cannot be opened.
    fn open(&self, index: u32) -> Result<Self::Device>;
}

//! The plugin itself: its identity and its devices.

use crate::{Device, HostServices, Result};

/// Identity of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PluginInfo {
    /// Short lower-case name, as in `name:index`.
    pub name: &'static str,
    /// Version of the plugin.
    pub version: &'static str,
    /// Identifier of the build, part of every cache key. It differs for every build whose blobs or
    /// figures may differ; [`build_id!`](crate::build_id) makes it.
    pub build_id: &'static str,
}

/// Build id of the plugin that calls this macro: its name, its version, and a hash of everything that it is built from.
/// The plugin's build script must call `polychip_build_id::emit`.
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

/// A plugin instance. Dropping it ends the instance, and must join every thread that uses the host's
/// services.
pub trait Plugin: Send + Sync + Sized + 'static {
    /// Type of all its devices. Because they share a type, a device can wait for the fences of
    /// another one.
    type Device: Device;
    /// Identity, read before any code of the plugin runs.
    const INFO: PluginInfo;

    /// Identity, for a plugin that forwards to another one. Every call returns the same answer.
    fn info() -> PluginInfo {
        Self::INFO
    }

    /// Makes an instance and loads the vendor's library. May block.
    ///
    /// # Errors
    /// The vendor's library or driver is missing or too old, or the configuration is wrong.
    fn create(host: HostServices) -> Result<Self>;

    /// Counts the devices. May block.
    ///
    /// # Errors
    /// The driver does not respond.
    fn device_count(&self) -> Result<u32>;

    /// Opens a device. May block.
    ///
    /// # Errors
    /// The device does not exist or cannot be opened.
    fn open(&self, index: u32) -> Result<Self::Device>;
}

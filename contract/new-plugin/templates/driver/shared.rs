//! What a device shares with its executables and buffers: the user's settings, the chip's description,
//! and the session, which a reset replaces.

use std::sync::{Arc, PoisonError, RwLock};

use polychip_sdk::{Error, ErrorKind, HostServices, Result};

use crate::driver::{DeviceInfo, Driver, Session};

/// What the user set, with `--set xyz.KEY=VALUE` or `Builder::configure`.
pub(crate) struct Settings {
    /// `lib_dir`: the folder of the driver's library; `None`: the system's search path.
    pub(crate) lib_dir: Option<String>,
    /// `memory`: whether the chip uses host memory in place (`shared`), or memory of its own, with
    /// copies (`device`).
    pub(crate) shares_memory: bool,
}

impl Settings {
    /// Reads the settings, and refuses values that have no meaning.
    pub(crate) fn of(host: &HostServices) -> Result<Settings> {
        let shares_memory = match host.configuration("memory").as_deref() {
            None | Some("shared") => true,
            Some("device") => false,
            Some(other) => {
                let text = format!("xyz.memory is '{other}'; expected shared or device");
                return Err(Error::bad_argument(text));
            }
        };
        Ok(Settings {
            lib_dir: host.configuration("lib_dir"),
            shares_memory,
        })
    }
}

/// Of one device.
pub(crate) struct Shared {
    pub(crate) host: HostServices,
    pub(crate) info: DeviceInfo,
    pub(crate) shares_memory: bool,
    /// Build of the plugin and version of the driver: blobs of others are refused.
    pub(crate) made_by: String,
    driver: Driver,
    index: u32,
    session: RwLock<Arc<Session>>,
}

impl Shared {
    /// Opens a chip.
    pub(crate) fn open(
        host: HostServices,
        driver: Driver,
        settings: &Settings,
        index: u32,
        build_id: &str,
    ) -> Result<Shared> {
        let session = driver.open_session(index)?;
        Ok(Shared {
            host,
            info: session.info()?,
            shares_memory: settings.shares_memory,
            made_by: format!("{build_id} driver {}", driver.version()),
            driver,
            index,
            session: RwLock::new(Arc::new(session)),
        })
    }

    /// The session as it is open now.
    pub(crate) fn session(&self) -> Arc<Session> {
        Arc::clone(&self.session.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Opens the chip anew. What was loaded before is lost; a run that hangs keeps the old session.
    pub(crate) fn reopen(&self) -> Result<()> {
        let new = Arc::new(self.driver.open_session(self.index)?);
        *self.session.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// Refuses what was loaded before a reset.
    pub(crate) fn check_open(&self, session: &Session) -> Result<()> {
        if self.session().number() == session.number() {
            return Ok(());
        }
        let what = "the device was reset after this part was loaded";
        Err(Error::new(ErrorKind::DeviceLost, what))
    }
}

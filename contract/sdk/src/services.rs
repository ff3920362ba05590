//! Services of the host for a plugin: log, clock, store, configuration; and the callback of a
//! fence.
//!
//! Invariants:
//! 1. The services live as long as the plugin instance: a plugin joins its threads before it is
//!    dropped.
//! 2. A callback is called at most once.

#![allow(unsafe_code, reason = "calls of the host are made here")]

use std::ffi::c_void;

use polychip_abi::{self as abi, polychip_host_services, polychip_text};

use crate::{Error, ErrorKind, Result, raw};

/// Severity of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum LogLevel {
    /// An operation failed.
    Error = abi::POLYCHIP_LOG_ERROR,
    /// A condition looks wrong, although nothing failed.
    Warn = abi::POLYCHIP_LOG_WARN,
    /// Information for users.
    Info = abi::POLYCHIP_LOG_INFO,
    /// Information for plugin authors.
    Debug = abi::POLYCHIP_LOG_DEBUG,
    /// Every step.
    Trace = abi::POLYCHIP_LOG_TRACE,
}

/// Rates on which a plugin bases its estimates, selected by configuration `rates`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RatesWanted {
    /// Measured rates from the store, else stated ones (`kept`, the default). Nothing is measured.
    #[default]
    Kept,
    /// Stated rates, even if others were measured (`stated`).
    Stated,
    /// Rates from the store, else measured now and stored (`measure`).
    Measured,
    /// Rates measured now, which replace those in the store (`measure-anew`).
    MeasuredAnew,
}

/// The host's services. Cheap to clone, thread-safe; valid only while the plugin instance lives.
#[derive(Clone)]
pub struct HostServices {
    table: polychip_host_services,
}

// SAFETY: the contract lets every call be made from any thread; `user` is only passed back.
unsafe impl Send for HostServices {}
// SAFETY: as above.
unsafe impl Sync for HostServices {}

impl HostServices {
    /// # Safety
    /// `host` is null or keeps the contract of `polychip_host_services` as long as the value is used.
    pub(crate) unsafe fn new(host: *const polychip_host_services) -> Result<HostServices> {
        // SAFETY: as the caller promises.
        let table = unsafe { raw::read(host) }?;
        if table.now_ns.is_none() || table.sleep_until_ns.is_none() {
            return Err(Error::bad_argument("the host's services have no clock"));
        }
        Ok(HostServices { table })
    }

    /// Logs a line.
    pub fn log(&self, level: LogLevel, text: &str) {
        if let Some(log) = self.table.log {
            // SAFETY: the text lives during the call.
            unsafe { log(self.table.user, level as u32, raw::to_text(text)) }
        }
    }

    /// Monotonic time, in nanoseconds; virtual in tests.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        let now = self.table.now_ns.expect("invariant: checked when made");
        // SAFETY: any thread may call.
        unsafe { now(self.table.user) }
    }

    /// Waits until [`HostServices::now_ns`] reaches `until_ns`; advances virtual time to it.
    pub fn sleep_until_ns(&self, until_ns: u64) {
        let sleep = self.table.sleep_until_ns.expect("invariant: checked when made");
        // SAFETY: any thread may call.
        unsafe { sleep(self.table.user, until_ns) }
    }

    /// Reads a value of this plugin's store.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn store_read(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let Some(read) = self.table.store_read else {
            return Ok(None);
        };
        let mut value = vec![0u8; 256];
        loop {
            let mut len = 0u64;
            let capacity = value.len() as u64;
            // SAFETY: the key and `capacity` bytes of value live during the call.
            let status = unsafe {
                read(
                    self.table.user,
                    raw::to_text(key),
                    value.as_mut_ptr(),
                    capacity,
                    &raw mut len,
                )
            };
            match status {
                abi::POLYCHIP_STATUS_OK if len <= capacity => {
                    value.truncate(len as usize);
                    return Ok(Some(value));
                }
                abi::POLYCHIP_STATUS_OK => {
                    let len = usize::try_from(len)
                        .ok()
                        .filter(|&len| len <= isize::MAX as usize);
                    let len = len.ok_or_else(|| {
                        Error::new(ErrorKind::Persistent, "a value of the store does not fit memory")
                    })?;
                    value.resize(len, 0);
                }
                abi::POLYCHIP_STATUS_UNSUPPORTED => return Ok(None),
                status => return Err(store_error(key, status)),
            }
        }
    }

    /// Writes a value to this plugin's store; an empty one removes the key.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn store_write(&self, key: &str, value: &[u8]) -> Result<()> {
        let Some(write) = self.table.store_write else {
            return Err(Error::unsupported("the host has no store"));
        };
        // SAFETY: key and value live during the call.
        let status = unsafe { write(self.table.user, raw::to_text(key), raw::to_bytes(value)) };
        match status {
            abi::POLYCHIP_STATUS_OK => Ok(()),
            status => Err(store_error(key, status)),
        }
    }

    /// Rates on which the host wants estimates to be based. A plugin measures only on request: two
    /// processes must make the same plan, however busy the machine is.
    ///
    /// # Errors
    /// The configuration has an unknown value.
    pub fn rates_wanted(&self) -> Result<RatesWanted> {
        match self.configuration("rates").as_deref().map(str::trim) {
            None | Some("kept") => Ok(RatesWanted::Kept),
            Some("stated") => Ok(RatesWanted::Stated),
            Some("measure") => Ok(RatesWanted::Measured),
            Some("measure-anew") => Ok(RatesWanted::MeasuredAnew),
            Some(other) => Err(Error::bad_argument(format!(
                "configuration rates is '{other}'; expected kept, stated, measure or measure-anew"
            ))),
        }
    }

    /// Returns the configuration string of this plugin for `key`; `None` if it is not set. A user
    /// sets it with `--set PLUGIN.KEY=VALUE` or `Builder::configure`.
    #[must_use]
    pub fn configuration(&self, key: &str) -> Option<String> {
        let read = self.table.configuration?;
        let mut value = polychip_text::default();
        // SAFETY: the key lives during the call, and so does the place for the value.
        let status = unsafe { read(self.table.user, raw::to_text(key), &raw mut value) };
        if status != abi::POLYCHIP_STATUS_OK {
            return None;
        }
        // SAFETY: the host keeps the text as long as the services; it is copied at once.
        unsafe { raw::text(value, "configuration value") }
            .ok()
            .map(str::to_owned)
    }
}

fn store_error(key: &str, status: u32) -> Error {
    Error::new(
        ErrorKind::from_status(status).unwrap_or(ErrorKind::Persistent),
        format!("the host's store failed for key {key} with status {status}"),
    )
}

/// The host's callback for the end of a run.
#[derive(Debug)]
pub struct SignalCallback {
    signalled: unsafe extern "C" fn(user: *mut c_void, status: u32),
    user: *mut c_void,
}

// SAFETY: the contract lets the call come from any thread; `user` is only passed back.
unsafe impl Send for SignalCallback {}
// SAFETY: as above.
unsafe impl Sync for SignalCallback {}

impl SignalCallback {
    /// # Safety
    /// `signalled` may be called once with `user` from any thread.
    pub(crate) unsafe fn new(
        signalled: unsafe extern "C" fn(user: *mut c_void, status: u32),
        user: *mut c_void,
    ) -> SignalCallback {
        SignalCallback { signalled, user }
    }

    /// Reports to the host how the run ended.
    pub fn call(self, result: &Result<()>) {
        let status = match result {
            Ok(()) => abi::POLYCHIP_STATUS_OK,
            Err(error) => error.kind().status(),
        };
        // SAFETY: the one call that the host allowed, as `self` is consumed.
        unsafe { (self.signalled)(self.user, status) }
    }
}

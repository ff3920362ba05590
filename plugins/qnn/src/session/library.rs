//! The vendor's libraries as one plugin instance uses them: log, handles, the chip they are set to.
//!
//! Invariants:
//! 1. Handles end in the order context, device, backend, log: the library lets others end first and then
//!    uses what is gone.
//! 2. What the library is asked about a chip is asked under one lock per process, right after a device of that
//!    chip was the last one created: its answers are for the last device of the process, whoever asks.
//! 3. A code that is not 0 becomes an error with the library's words and the code.
//!
//! Not here: what is compiled (`lower`), queues (`exec`).

use std::ffi::CStr;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use polychip_sdk::{Error, ErrorKind, HostServices, Result};
use polychip_sys::qnn::{self, Qnn};
use polychip_sys::slot;

use super::{log, raw};
use crate::program::{Operation, Program};
use crate::soc::Soc;

/// The chip of the last device that this process created, if known.
static SELECTED: Mutex<Option<u32>> = Mutex::new(None);

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A refusal of the library: its code and words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) code: u64,
    pub(crate) words: String,
}

impl Refused {
    /// The code that the vendor documents.
    pub(crate) fn short(&self) -> u64 {
        self.code & u64::from(qnn::POLYCHIP_QNN_ERROR_CODE_MASK)
    }

    /// The error of a call that performs `what`.
    pub(crate) fn error(&self, what: &str, kind: ErrorKind) -> Error {
        let kind = match self.short() {
            RESTARTED => ErrorKind::DeviceLost,
            _ => kind,
        };
        let text = format!("{what} failed with QNN code {}: {}", self.short(), self.words);
        Error::new(kind, text).with_vendor_code(self.code as i64)
    }
}

/// The subsystem of the NPU restarted: device and contexts are gone.
const RESTARTED: u64 = 1007;

/// The libraries, a backend of theirs, and a device.
pub(crate) struct Session {
    pub(super) qnn: &'static Qnn,
    log: log::Log,
    pub(super) backend: qnn::Backend,
    pub(super) device: Mutex<qnn::Device>,
    /// Live contexts, on this device or an earlier one.
    pub(super) contexts: AtomicUsize,
    pub(super) soc: Soc,
    pub(super) build_id: String,
}

// SAFETY: the library takes calls from any thread; the device is behind a lock, the other handles stay.
unsafe impl Send for Session {}
// SAFETY: as above.
unsafe impl Sync for Session {}

impl Session {
    /// Opens the libraries and a device of a chip.
    ///
    /// # Errors
    /// If a library is missing or of another version, or does not know the chip; the words name library,
    /// version and remedy.
    pub(crate) fn open(folder: Option<&Path>, soc: Soc, host: &HostServices) -> Result<Session> {
        let qnn = Qnn::load(folder).map_err(unusable)?;
        let table = qnn.table();
        let log = log::Log::create(qnn, host);
        let mut backend = ptr::null_mut();
        let create = slot!(table, backend_create).map_err(unusable)?;
        // SAFETY: the log lives as long as the backend; no configuration; the place for the handle is ours.
        let code = unsafe { create(log.handle(), ptr::null(), &raw mut backend) };
        let mut session = Session {
            qnn,
            log,
            backend,
            device: Mutex::new(ptr::null_mut()),
            contexts: AtomicUsize::new(0),
            soc,
            build_id: String::new(),
        };
        session.check(code).map_err(|refused| {
            refused.error(
                &format!("{}: backendCreate", qnn.path().display()),
                ErrorKind::Unsupported,
            )
        })?;
        session.build_id = session.read_build_id()?;
        let device = session.create_device(&mut lock(&SELECTED))?;
        *lock(&session.device) = device;
        Ok(session)
    }

    /// Whether the library emulates the chip.
    pub(crate) fn is_emulated(&self) -> bool {
        self.qnn.is_emulated()
    }

    /// The chip.
    pub(crate) fn soc(&self) -> Soc {
        self.soc
    }

    /// The library's build, and versions of its interfaces: what blobs and answers depend on.
    pub(crate) fn version(&self) -> String {
        format!(
            "{} (core {}, HTP {}, System {})",
            self.build_id,
            self.qnn.core_api(),
            self.qnn.library_api(),
            self.qnn.system_api()
        )
    }

    /// The library file, for messages.
    pub(crate) fn path(&self) -> &Path {
        self.qnn.path()
    }

    pub(super) fn table(&self) -> &'static qnn::Table {
        self.qnn.table()
    }

    fn read_build_id(&self) -> Result<String> {
        let build_id = slot!(self.table(), build_id).map_err(unusable)?;
        let mut text = ptr::null();
        // SAFETY: the place for the text is ours.
        let code = unsafe { build_id(&raw mut text) };
        self.check(code)
            .map_err(|refused| refused.error("buildId", ErrorKind::Persistent))?;
        if text.is_null() {
            return Ok("unknown".to_owned());
        }
        // SAFETY: the library keeps its build id, which ends in zero.
        Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }

    /// A code as a result, with the library's words for it.
    pub(super) fn check(&self, code: u64) -> Result<(), Refused> {
        if code == 0 {
            return Ok(());
        }
        let mut words = ptr::null();
        if let Some(message) = self.table().error_message {
            // SAFETY: the place for the text is ours.
            let found = unsafe { message(code, &raw mut words) };
            if found != 0 {
                words = ptr::null();
            }
        }
        let words = if words.is_null() {
            "the library has no words for it".to_owned()
        } else {
            // SAFETY: the library keeps its messages, which end in zero.
            unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned()
        };
        Err(Refused { code, words })
    }

    /// Makes a device of the session's chip, the last one of the process by that.
    fn create_device(&self, selected: &mut Option<u32>) -> Result<qnn::Device> {
        let create = slot!(self.table(), device_create).map_err(unusable)?;
        // the id lies at byte 4 in some releases and at byte 8 in others, and no version tells which
        let own = qnn::HtpDeviceConfig {
            option: qnn::POLYCHIP_QNN_HTP_DEVICE_SOC,
            soc_at_4: self.soc.id,
            soc_at_8: self.soc.id,
            zero: [0; 5],
        };
        let config = qnn::Config {
            option: qnn::POLYCHIP_QNN_CONFIG_CUSTOM,
            value: qnn::polychip_qnn_config_value {
                custom: (&raw const own).cast(),
            },
        };
        let list = [&raw const config, ptr::null()];
        let mut device = ptr::null_mut();
        // SAFETY: the configuration lives during the call and ends in null; the log outlives the device.
        let code = unsafe { create(self.log.handle(), list.as_ptr(), &raw mut device) };
        self.check(code).map_err(|refused| {
            *selected = None;
            let what = format!(
                "{} (build {}) does not take SoC {} ({}): deviceCreate; set \"soc\" to the id or name of a chip \
                 that this release supports",
                self.path().display(),
                self.build_id,
                self.soc.id,
                self.soc.title()
            );
            refused.error(&what, ErrorKind::Unsupported)
        })?;
        *selected = Some(self.soc.id);
        Ok(device)
    }

    fn free_device(&self, device: qnn::Device) {
        if let Some(free) = self.table().device_free
            && !device.is_null()
        {
            // SAFETY: made by this library, and used by nothing any more: contexts end first.
            let _ = unsafe { free(device) };
        }
    }

    /// Asks the library about one operation of a program that holds its data.
    pub(crate) fn validate(&self, program: &Program, operation: &Operation) -> Result<(), Refused> {
        let Some(validate) = self.table().validate_op_config else {
            // a library that answers nothing refuses nothing
            return Ok(());
        };
        let mut selected = lock(&SELECTED);
        if *selected != Some(self.soc.id) {
            match self.create_device(&mut selected) {
                // the answers stay those of this chip after it is gone
                Ok(device) => self.free_device(device),
                Err(error) => {
                    return Err(Refused {
                        code: error.vendor_code() as u64,
                        words: error.to_string(),
                    });
                }
            }
        }
        let mut raw = raw::Raw::new();
        let op = raw.operation(program, operation, &|_| 0);
        // SAFETY: the operation and all it points to live during the call.
        let (code, heard) = log::hear(|| unsafe { validate(self.backend, op) });
        drop(selected);
        self.check(code).map_err(|refused| Refused {
            // the reason itself is in what it says meanwhile
            words: if heard.is_empty() { refused.words } else { heard },
            ..refused
        })
    }

    /// Ends the log into the host, whose services end before the session may.
    pub(crate) fn hush(&self) {
        self.log.hush();
    }

    /// A new device in place of the lost one. `leak` where a run may still use the old one; a context that is
    /// still being freed keeps it, too.
    ///
    /// # Errors
    /// If the library makes none.
    pub(crate) fn renew_device(&self, leak: bool) -> Result<()> {
        let mut device = lock(&self.device);
        // none is made meanwhile, as that takes the lock of the device
        if !leak && self.contexts.load(Ordering::Acquire) == 0 {
            let old = std::mem::replace(&mut *device, ptr::null_mut());
            self.free_device(old);
        }
        *device = self.create_device(&mut lock(&SELECTED))?;
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let device = *lock(&self.device);
        self.free_device(device);
        if let Some(free) = self.table().backend_free
            && !self.backend.is_null()
        {
            // SAFETY: made by this library; the device is gone, contexts hold the session alive.
            let _ = unsafe { free(self.backend) };
        }
    }
}

/// A library that cannot be used.
pub(super) fn unusable(error: polychip_sys::Error) -> Error {
    Error::unsupported(error.to_string())
}

//! The error of this crate: which device or plugin failed, how, and the vendor's own words.

use std::fmt;

use polychip_abi as abi;

/// What kind of failure an [`Error`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument breaks the contract.
    BadArgument,
    /// The device cannot do this; another may.
    Unsupported,
    /// A passing fault.
    Transient,
    /// The device will fail again.
    Persistent,
    /// The device is gone until it is reset.
    DeviceLost,
    /// The run was cancelled on request.
    Cancelled,
    /// The wait ran out of time; the run goes on.
    Timeout,
    /// Memory ran out.
    OutOfMemory,
    /// A blob is torn, stale or of another build.
    BadBlob,
    /// Memory is in use by a run or by another access.
    InUse,
    /// The plugin broke the contract.
    BadPlugin,
    /// The operating system refused a file, a library or memory.
    System,
}

impl ErrorKind {
    /// The kind of a status code; a code that this build does not know is the plugin's breach.
    pub(crate) fn of_status(status: u32) -> ErrorKind {
        match status {
            abi::POLYCHIP_STATUS_BAD_ARGUMENT => ErrorKind::BadArgument,
            abi::POLYCHIP_STATUS_UNSUPPORTED => ErrorKind::Unsupported,
            abi::POLYCHIP_STATUS_TRANSIENT => ErrorKind::Transient,
            abi::POLYCHIP_STATUS_PERSISTENT => ErrorKind::Persistent,
            abi::POLYCHIP_STATUS_DEVICE_LOST => ErrorKind::DeviceLost,
            abi::POLYCHIP_STATUS_CANCELLED => ErrorKind::Cancelled,
            abi::POLYCHIP_STATUS_TIMEOUT => ErrorKind::Timeout,
            abi::POLYCHIP_STATUS_OUT_OF_MEMORY => ErrorKind::OutOfMemory,
            abi::POLYCHIP_STATUS_BAD_BLOB => ErrorKind::BadBlob,
            _ => ErrorKind::BadPlugin,
        }
    }

    fn words(self) -> &'static str {
        match self {
            ErrorKind::BadArgument => "bad argument",
            ErrorKind::Unsupported => "not supported",
            ErrorKind::Transient => "passing fault",
            ErrorKind::Persistent => "failed",
            ErrorKind::DeviceLost => "device lost",
            ErrorKind::Cancelled => "cancelled",
            ErrorKind::Timeout => "timed out",
            ErrorKind::OutOfMemory => "out of memory",
            ErrorKind::BadBlob => "bad blob",
            ErrorKind::InUse => "in use",
            ErrorKind::BadPlugin => "plugin broke the contract",
            ErrorKind::System => "system error",
        }
    }
}

/// A failure of a plugin, a device or the system.
#[derive(Debug, thiserror::Error)]
pub struct Error(Box<Repr>);

#[derive(Debug)]
struct Repr {
    kind: ErrorKind,
    /// Device (`npu:0`), plugin or file concerned.
    subject: String,
    /// What was being done, or the plugin's words.
    message: String,
    vendor_code: i64,
    node: Option<u32>,
}

/// Result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error about a device, plugin or file, in our own words.
    pub(crate) fn new(kind: ErrorKind, subject: impl Into<String>, message: impl fmt::Display) -> Error {
        let message = message.to_string();
        Error(Box::new(Repr {
            kind,
            subject: subject.into(),
            message,
            vendor_code: 0,
            node: None,
        }))
    }

    /// The error of a call that returned `status` and filled `record`.
    pub(crate) fn of_call(subject: &str, call: &str, status: u32, record: &abi::polychip_error) -> Error {
        let words = record.text();
        let message = if words.is_empty() {
            format!("{call} gave no reason (status {status})")
        } else {
            words
        };
        Error(Box::new(Repr {
            kind: ErrorKind::of_status(status),
            subject: subject.to_owned(),
            message,
            vendor_code: record.vendor_code,
            node: (record.node != abi::POLYCHIP_NO_INDEX).then_some(record.node),
        }))
    }

    /// What kind of failure this is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The device (`npu:0`), plugin or file concerned.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.0.subject
    }

    /// The plugin's words, or ours.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The vendor's own code, 0 where there is none.
    #[must_use]
    pub fn vendor_code(&self) -> i64 {
        self.0.vendor_code
    }

    /// The node concerned, by index in the graph of the call.
    #[must_use]
    pub fn node(&self) -> Option<u32> {
        self.0.node
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Repr {
            kind,
            subject,
            message,
            vendor_code,
            ..
        } = &*self.0;
        write!(f, "{subject}: {}: {message}", kind.words())?;
        if *vendor_code != 0 {
            write!(f, " (vendor code {vendor_code})")?;
        }
        Ok(())
    }
}

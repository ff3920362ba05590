//! The error of this crate: the device or plugin that failed, the kind of failure, and the vendor's
//! message.

use std::fmt;

use polychip_abi as abi;

/// Kind of failure of an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument violates the contract.
    BadArgument,
    /// The device cannot do this; another may.
    Unsupported,
    /// A temporary fault.
    Transient,
    /// The device will fail again.
    Persistent,
    /// The device is unusable until it is reset.
    DeviceLost,
    /// The run was cancelled on request.
    Cancelled,
    /// The wait timed out; the run continues.
    Timeout,
    /// Memory ran out.
    OutOfMemory,
    /// A blob is torn, stale or from another build.
    BadBlob,
    /// Memory is in use by a run or by another access.
    InUse,
    /// The plugin violated the contract.
    BadPlugin,
    /// The operating system refused a file, a library or memory.
    System,
}

impl ErrorKind {
    /// The kind of a status code. A code that this build does not know is a violation by the
    /// plugin.
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
    /// The operation that failed, or the plugin's message.
    message: String,
    vendor_code: i64,
    node: Option<u32>,
}

/// Result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error about a device, plugin or file, with a message of this crate.
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
            format!("{call} failed without a message (status {status})")
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

    /// Kind of failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The device (`npu:0`), plugin or file concerned.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.0.subject
    }

    /// The message of the plugin or of this crate.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The vendor's own code; 0 if there is none.
    #[must_use]
    pub fn vendor_code(&self) -> i64 {
        self.0.vendor_code
    }

    /// Index of the node concerned in the call's graph.
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

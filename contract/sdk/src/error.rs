//! The error of a plugin's call: a class, a message, and optionally the vendor's code and the node
//! or tensor concerned.
//!
//! Invariant: the kind is the status that the host sees; it is never `OK`.

use std::borrow::Cow;
use std::fmt;

use polychip_abi::{self as abi, POLYCHIP_NO_INDEX, polychip_error};

/// Result of a plugin's call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Class of an error, which determines what the host does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument violates the contract; the same call will fail again.
    BadArgument,
    /// The device cannot do this; another device may.
    Unsupported,
    /// A temporary fault; the same call may succeed later.
    Transient,
    /// The device failed and will fail again with this executable.
    Persistent,
    /// The device is unusable until it is reset or opened again.
    DeviceLost,
    /// The run was cancelled on request.
    Cancelled,
    /// A wait timed out; the work continues.
    Timeout,
    /// Host or device memory ran out.
    OutOfMemory,
    /// A blob is torn, stale or from another build.
    BadBlob,
}

impl ErrorKind {
    /// The contract's code for this kind (`POLYCHIP_STATUS_*`).
    #[must_use]
    pub const fn status(self) -> u32 {
        match self {
            ErrorKind::BadArgument => abi::POLYCHIP_STATUS_BAD_ARGUMENT,
            ErrorKind::Unsupported => abi::POLYCHIP_STATUS_UNSUPPORTED,
            ErrorKind::Transient => abi::POLYCHIP_STATUS_TRANSIENT,
            ErrorKind::Persistent => abi::POLYCHIP_STATUS_PERSISTENT,
            ErrorKind::DeviceLost => abi::POLYCHIP_STATUS_DEVICE_LOST,
            ErrorKind::Cancelled => abi::POLYCHIP_STATUS_CANCELLED,
            ErrorKind::Timeout => abi::POLYCHIP_STATUS_TIMEOUT,
            ErrorKind::OutOfMemory => abi::POLYCHIP_STATUS_OUT_OF_MEMORY,
            ErrorKind::BadBlob => abi::POLYCHIP_STATUS_BAD_BLOB,
        }
    }

    /// The kind with this code; `None` for OK. A code of a later contract version becomes
    /// [`ErrorKind::Persistent`].
    #[must_use]
    pub const fn from_status(status: u32) -> Option<Self> {
        Some(match status {
            abi::POLYCHIP_STATUS_OK => return None,
            abi::POLYCHIP_STATUS_BAD_ARGUMENT => ErrorKind::BadArgument,
            abi::POLYCHIP_STATUS_UNSUPPORTED => ErrorKind::Unsupported,
            abi::POLYCHIP_STATUS_TRANSIENT => ErrorKind::Transient,
            abi::POLYCHIP_STATUS_DEVICE_LOST => ErrorKind::DeviceLost,
            abi::POLYCHIP_STATUS_CANCELLED => ErrorKind::Cancelled,
            abi::POLYCHIP_STATUS_TIMEOUT => ErrorKind::Timeout,
            abi::POLYCHIP_STATUS_OUT_OF_MEMORY => ErrorKind::OutOfMemory,
            abi::POLYCHIP_STATUS_BAD_BLOB => ErrorKind::BadBlob,
            _ => ErrorKind::Persistent,
        })
    }
}

/// Reason for a failed call.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: Cow<'static, str>,
    vendor_code: i64,
    node: Option<u32>,
    tensor: Option<u32>,
}

impl Error {
    /// Makes an error of this kind. A literal message needs no allocation.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Error {
        Error {
            kind,
            message: message.into(),
            vendor_code: 0,
            node: None,
            tensor: None,
        }
    }

    /// Makes an error for an argument that violates the contract.
    pub fn bad_argument(message: impl Into<Cow<'static, str>>) -> Error {
        Error::new(ErrorKind::BadArgument, message)
    }

    /// Makes an error for an operation that this device does not offer.
    pub fn unsupported(message: impl Into<Cow<'static, str>>) -> Error {
        Error::new(ErrorKind::Unsupported, message)
    }

    /// Makes an error for a blob that is torn, stale or from another build.
    pub fn bad_blob(message: impl Into<Cow<'static, str>>) -> Error {
        Error::new(ErrorKind::BadBlob, message)
    }

    /// Adds the vendor's own code.
    #[must_use]
    pub fn with_vendor_code(mut self, code: i64) -> Error {
        self.vendor_code = code;
        self
    }

    /// Adds the index of the node concerned, in the call's graph.
    #[must_use]
    pub fn at_node(mut self, node: u32) -> Error {
        self.node = Some(node);
        self
    }

    /// Adds the index of the tensor or port concerned.
    #[must_use]
    pub fn at_tensor(mut self, tensor: u32) -> Error {
        self.tensor = Some(tensor);
        self
    }

    /// Class of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The vendor's own code; 0 without one.
    #[must_use]
    pub fn vendor_code(&self) -> i64 {
        self.vendor_code
    }

    /// Index of the node concerned, in the call's graph.
    #[must_use]
    pub fn node(&self) -> Option<u32> {
        self.node
    }

    /// Index of the tensor or port concerned.
    #[must_use]
    pub fn tensor(&self) -> Option<u32> {
        self.tensor
    }

    /// The record of the contract.
    pub(crate) fn record(&self) -> polychip_error {
        let mut record = <polychip_error as abi::Sized>::sized();
        record.status = self.kind.status();
        record.vendor_code = self.vendor_code;
        record.node = self.node.unwrap_or(POLYCHIP_NO_INDEX);
        record.tensor = self.tensor.unwrap_or(POLYCHIP_NO_INDEX);
        record.set_text(&self.message);
        record
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({:?}, {})", self.kind, self.message)
    }
}

//! Errors of kernel generators.

/// Result of a generator.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a kernel cannot be generated, in general or for this device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl Error {
    /// An error with this message.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Error {
        Error(message.into())
    }
}

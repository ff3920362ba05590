//! What a generator refuses.

/// Result of a generator.
pub type Result<T> = std::result::Result<T, Error>;

/// A kernel that cannot be made, or not for this device.
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

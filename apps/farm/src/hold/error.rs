//! Why a board is not ours.

/// Why a board is not ours.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HoldError {
    /// Somebody else uses it.
    #[error("{words}")]
    InUse {
        /// Who.
        words: String,
    },
    /// It cannot be known.
    #[error("{words}")]
    Failed {
        /// Why.
        words: String,
    },
}

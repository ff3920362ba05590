//! The formats of calls.

/// How a call is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Hermes,
    Mistral,
    Llama,
}

//! Errors of planning and of reading a plan.
//!
//! Invariants: every message names the node, tensor, device or limit concerned and the value seen.
//! Deliberately not here: violations in a finished plan (see `check::Violation`).

/// Why a plan could not be made or read.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Repr>);

/// The class of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Inputs that do not fit together: tables of different sizes, a repeated device, a pin outside
    /// the graph.
    BadInput,
    /// A node that no device can run.
    NoDevice,
    /// A device can run a node at an unknown cost.
    MissingCost,
    /// The sum of costs overflows.
    Overflow,
    /// No placement satisfies links, pins and support together.
    Infeasible,
    /// No placement found holds a memory limit, deadline or energy budget.
    OverLimit,
    /// A plan file that cannot be read.
    Parse,
    /// A plan file of another version.
    Version,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Repr {
    #[error("{0}")]
    BadInput(String),
    #[error("no device can run node {node} ({op}): {reasons}{others}")]
    NoDevice {
        node: usize,
        op: String,
        reasons: String,
        /// Other nodes without a device, by op.
        others: String,
    },
    #[error("no {what} for node {node} ({op}) on any device that can run it: {devices}")]
    MissingCost {
        what: &'static str,
        node: usize,
        op: String,
        devices: String,
    },
    #[error("cost sum overflows: {0}")]
    Overflow(String),
    #[error("no placement satisfies links, pins and support together: {0}")]
    Infeasible(String),
    #[error("{what}: limit {limit}, best plan found needs {seen}")]
    OverLimit {
        what: String,
        limit: String,
        seen: String,
    },
    #[error("plan file: {0}")]
    Parse(#[source] serde_json::Error),
    #[error("plan file has version {seen}, this program reads version {expected}")]
    Version { seen: u32, expected: u32 },
}

impl Error {
    pub(crate) fn bad_input(words: impl Into<String>) -> Self {
        Repr::BadInput(words.into()).into()
    }

    pub(crate) fn parse(error: serde_json::Error) -> Self {
        Repr::Parse(error).into()
    }

    pub(crate) fn version(seen: u32, expected: u32) -> Self {
        Repr::Version { seen, expected }.into()
    }

    /// The class of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match *self.0 {
            Repr::BadInput(_) => ErrorKind::BadInput,
            Repr::NoDevice { .. } => ErrorKind::NoDevice,
            Repr::MissingCost { .. } => ErrorKind::MissingCost,
            Repr::Overflow(_) => ErrorKind::Overflow,
            Repr::Infeasible(_) => ErrorKind::Infeasible,
            Repr::OverLimit { .. } => ErrorKind::OverLimit,
            Repr::Parse(_) => ErrorKind::Parse,
            Repr::Version { .. } => ErrorKind::Version,
        }
    }
}

impl From<Repr> for Error {
    fn from(repr: Repr) -> Self {
        Self(Box::new(repr))
    }
}

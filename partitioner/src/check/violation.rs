//! Violations of the plan rules.

use std::fmt;

/// A rule that a plan breaks, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    kind: ViolationKind,
    words: String,
}

/// The rule that a plan breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ViolationKind {
    /// The plan is of another format version.
    Version,
    /// The plan is for another model.
    OtherModel,
    /// Devices, costs, links or support verdicts do not match the plan or the graph.
    Inputs,
    /// A node in no part, in several, twice in one, or unknown; an empty or unsorted part.
    Nodes,
    /// A part on a device that does not support one of its nodes or is out of use.
    Unsupported,
    /// A path leaves a part and returns to it.
    NotConvex,
    /// Parts depend on each other in a circle.
    Cyclic,
    /// A part is listed before one that it depends on, or lists wrong dependencies.
    Order,
    /// A part's list of inputs or outputs is wrong.
    Boundary,
    /// A crossing is missing, superfluous or wrong.
    Crossing,
    /// A state's reader and writer are on different devices.
    State,
    /// A figure differs from the tables, or a sum does not add up.
    Figure,
    /// A schedule is missing, superfluous or inconsistent with parts and crossings.
    Schedule,
    /// A limit that must hold is exceeded, an exceeded limit is not reported, or a reported value
    /// is wrong.
    Limit,
    /// Replicas of the model share hardware, or are present where only one is allowed.
    Replica,
    /// The certificate contradicts the plan.
    Certificate,
}

impl Violation {
    pub(crate) fn new(kind: ViolationKind, words: impl Into<String>) -> Self {
        Self {
            kind,
            words: words.into(),
        }
    }

    /// The rule broken.
    #[must_use]
    pub fn kind(&self) -> ViolationKind {
        self.kind
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for Violation {}

//! A plan on trial, and its state.

/// Counted pairs that an arm keeps: as many as a trial has.
const PAIRS: usize = 16;

/// The state of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArmState {
    /// It is the current plan.
    Incumbent,
    /// Its outputs are not compared with the incumbent's yet.
    Unchecked,
    /// Its outputs match; its trial has no result yet.
    Open,
    /// It is dropped.
    Dropped(DropReason),
}

/// Why a plan is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// It is slower than the incumbent with statistical confidence.
    Slower,
    /// Its trial ended without showing that it is faster.
    NoFaster,
    /// Its outputs differ from the incumbent's.
    OtherAnswers,
    /// It failed to compile or run.
    Failed,
    /// It was adopted, and then slower than in its trial.
    Regressed,
}

impl DropReason {
    /// Whether the reason may be temporary, so that the plan is worth another trial later.
    #[must_use]
    pub fn may_pass(self) -> bool {
        !matches!(self, DropReason::OtherAnswers | DropReason::Failed)
    }

    /// The reason as text.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            DropReason::Slower => "slower",
            DropReason::NoFaster => "not faster beyond doubt",
            DropReason::OtherAnswers => "its outputs differ",
            DropReason::Failed => "it could not be run",
            DropReason::Regressed => "slower than in its trial",
        }
    }
}

/// A plan and what is known of it.
#[derive(Debug, Clone)]
pub(super) struct Arm {
    pub(super) name: String,
    /// Predicted at first, then measured.
    pub(super) expected_ns: f64,
    /// What a nanosecond of a run is worth: time alone, or time with the energy that the plan draws meanwhile.
    pub(super) value_per_ns: f64,
    pub(super) state: ArmState,
    /// Logarithms of its value over the incumbent's, in turns.
    pub(super) pairs: Vec<f64>,
    /// Blocks of the current trial that ended.
    pub(super) blocks: usize,
    /// Geometric mean of the last trial, and its pairs.
    pub(super) ratio: Option<(f64, usize)>,
}

impl Arm {
    pub(super) fn new(name: &str, expected_ns: f64, value_per_ns: f64) -> Arm {
        Arm {
            name: name.to_owned(),
            expected_ns,
            value_per_ns,
            state: ArmState::Unchecked,
            pairs: Vec::with_capacity(PAIRS),
            blocks: 0,
            ratio: None,
        }
    }

    pub(super) fn expected_value(&self) -> f64 {
        self.expected_ns * self.value_per_ns
    }
}

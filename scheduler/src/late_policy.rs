//! The rule for late runs.

/// What to do with a run that is late before all of its parts are with their devices. Parts that a
/// device already has are not interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Late {
    /// Finish the run and count it as late.
    #[default]
    Finish,
    /// Drop the run once its deadline has passed, with an error
    /// ([`ErrorKind::Dropped`](crate::ErrorKind::Dropped)).
    Drop,
    /// Drop the run if a newer run of its session is submitted before any of its parts is with a
    /// device: the latest frame wins. No deadline is needed.
    Latest,
}

impl Late {
    /// Why this rule drops runs.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Late::Finish => "runs waited for a device for longer than Policy::hang_timeout",
            Late::Drop => "the deadlines of runs passed before all parts were with their devices",
            Late::Latest => "newer runs were submitted before runs had begun",
        }
    }
}

//! The rule for late runs.

/// What to do with a run that is late before all of its parts are submitted to devices. Submitted
/// parts are not interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Late {
    /// Finish the run and count it as late.
    #[default]
    Finish,
    /// Drop the run once its deadline has passed, with an error
    /// ([`ErrorKind::Dropped`](crate::ErrorKind::Dropped)).
    Drop,
    /// Drop the run if the app submits a newer run of the session before any part of this one is
    /// submitted to a device: the latest frame wins. This needs no deadline.
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

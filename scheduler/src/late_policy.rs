//! What becomes of runs that are late, or would be.

/// What becomes of a run whose time has passed before all of its parts are with their devices. Parts that are with a
/// device are not interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Late {
    /// It goes on, and is counted as late.
    #[default]
    Finish,
    /// It is dropped once its deadline has passed, and ends with an error
    /// ([`ErrorKind::Dropped`](crate::ErrorKind::Dropped)).
    Drop,
    /// It is dropped, where none of its parts was with a device yet, once another run of its session was submitted: the
    /// latest frame wins. It need not have a deadline.
    Latest,
}

impl Late {
    /// Why runs of this rule are dropped.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Late::Finish => "runs waited for their turns for longer than Policy::hang_timeout",
            Late::Drop => "the deadlines of runs passed before they had all of their turns",
            Late::Latest => "newer runs came before runs had begun",
        }
    }
}

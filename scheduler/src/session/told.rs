//! Changes of a running session, from text settings or calls.

use std::time::Duration;

use crate::policy::Learn;
use crate::session::govern::hint::Hint;

/// What a session is told while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    Hint(Hint),
    Deadline(Option<Duration>),
    Learn(Learn),
}

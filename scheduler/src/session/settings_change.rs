//! Changes of a running session, from text settings or calls.

use std::time::Duration;

use crate::policy::Learn;
use crate::session::govern::hint::Hint;

/// A change of one setting of a running session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SettingsChange {
    Hint(Hint),
    Deadline(Option<Duration>),
    Learn(Learn),
}

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

impl SettingsChange {
    /// Adds this change to those recorded, in place of an earlier one of the same setting.
    pub(crate) fn record_in(self, changes: &mut Vec<SettingsChange>) {
        changes.retain(|other| std::mem::discriminant(other) != std::mem::discriminant(&self));
        changes.push(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_change_of_a_setting_is_recorded() {
        let mut changes = Vec::new();
        let deadline = |seconds| SettingsChange::Deadline(Some(Duration::from_secs(seconds)));
        for change in [deadline(1), SettingsChange::Learn(Learn::No), deadline(2)] {
            change.record_in(&mut changes);
        }
        assert_eq!(changes, [SettingsChange::Learn(Learn::No), deadline(2)]);
    }
}

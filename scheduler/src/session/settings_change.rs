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
        changes.retain(|other| !self.is_of_setting(other));
        changes.push(self);
    }

    /// Whether both change the same setting.
    fn is_of_setting(&self, other: &SettingsChange) -> bool {
        use std::mem::discriminant;
        match (self, other) {
            (SettingsChange::Hint(one), SettingsChange::Hint(other)) => {
                discriminant(one) == discriminant(other)
            }
            // a deadline becomes a hint in a governed session
            (SettingsChange::Hint(Hint::Deadline(_)), SettingsChange::Deadline(_))
            | (SettingsChange::Deadline(_), SettingsChange::Hint(Hint::Deadline(_))) => true,
            _ => discriminant(self) == discriminant(other),
        }
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

    #[test]
    fn hints_of_different_kinds_are_recorded_beside_each_other() {
        use SettingsChange::{Deadline, Hint as Changed};
        let limit = |second| Some(Duration::from_secs(second));
        let saver = Changed(Hint::BatterySaver(true));
        let mut changes = Vec::new();
        for change in [
            Changed(Hint::Foreground(false)),
            saver,
            Changed(Hint::Foreground(true)),
            Deadline(limit(1)),
            Changed(Hint::Deadline(limit(2))),
        ] {
            change.record_in(&mut changes);
        }
        let foreground = Changed(Hint::Foreground(true));
        assert_eq!(changes, [saver, foreground, Changed(Hint::Deadline(limit(2)))]);
        Deadline(None).record_in(&mut changes);
        assert_eq!(changes, [saver, foreground, Deadline(None)]);
    }
}

//! Settings that can change while a session runs, under the names of
//! [`Policy::with_setting`](crate::Policy::with_setting).
//!
//! Invariant: a change that is impossible is an error with the reason; nothing is ignored silently.
//!
//! Not here: names and values (`settings`), the governor's use of a hint (`govern`), learning
//! (`learn`).

use crate::error::{Error, ErrorKind, Result};
use crate::policy::Learn;
use crate::session::Session;
use crate::session::govern::hint::Hint;
use crate::session::settings_change::SettingsChange;
use crate::session::specialization_state::Inner;
use crate::settings;

impl Session {
    /// Changes a setting, given as text, while the session runs.
    ///
    /// | name | value |
    /// |---|---|
    /// | `learn` | `no`, `watch`, `yes`, or a budget from `2%` to `20%`; a session made with `no` stays so |
    /// | `deadline` | milliseconds, or `no` |
    /// | `background`, `battery-saver` | `yes`, `no`. This row and all rows below are for governed sessions only |
    /// | `frame-period` | milliseconds, or `no` |
    /// | `max-power` | watts, or `no` |
    /// | `max-temperature`, `max-surface-temperature` | degrees Celsius, or `no` |
    /// | `thermal-headroom` | the value of Android's `AThermal_getThermalHeadroom`, where 1 is severe throttling, or `no`. Without a surface sensor, the governor keeps this value at or below 0.85 |
    /// | `battery` | `35%`, `35% charging`, or `no`: as the system reports it |
    ///
    /// ```no_run
    /// # fn main() -> Result<(), polychip::Error> {
    /// # let runtime = polychip::Runtime::builder().build()?;
    /// # let session = runtime.session(&runtime.load("model.onnx")?, polychip::Policy::latency())?;
    /// session.set("learn", "watch")?; // the plan stays from now on
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// For a model with open sizes, the change applies to all current and later sizes.
    ///
    /// # Errors
    /// The setting does not exist, its value is invalid, or the session does not support it: it is
    /// not governed, or it was made without learning.
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        let change = settings::read_change(name, value)?;
        let refused = |words: &str| {
            let words = format!("session setting {name:?}: {words}");
            Error::new(ErrorKind::BadInput, words)
        };
        let policy = &self.0.policy;
        match change {
            SettingsChange::Hint(_) if policy.governing().is_none() => return Err(refused(UNGOVERNED)),
            SettingsChange::Learn(learn) if learn != Learn::No && policy.learning() == Learn::No => {
                return Err(refused(FROZEN));
            }
            _ => {}
        }
        // first, so that sizes that are planned for meanwhile have it too
        self.0.keep(change);
        let all = self.0.all();
        all.iter()
            .try_for_each(|inner| inner.take(change))
            .and_then(|()| self.0.change_variants(change))
            .map_err(refused)
    }
}

const UNGOVERNED: &str = "the session is not governed; make it with the setting governed";
const FROZEN: &str = "the session was made with learn=no; make it with learn=watch to change it later";
const FIXED: &str = "this session does not learn: it has one device, or its plan was given, precompiled, admitted or \
                     governed, or it is for throughput";

impl Inner {
    /// Applies a change of a setting; the error states why that is impossible.
    pub(crate) fn take(&self, change: SettingsChange) -> std::result::Result<(), &'static str> {
        match (change, &self.governing) {
            (SettingsChange::Hint(hint), Some(governing)) => governing.hint(self, hint),
            (SettingsChange::Hint(_), None) => return Err(UNGOVERNED),
            (SettingsChange::Deadline(deadline), Some(governing)) => {
                governing.hint(self, Hint::Deadline(deadline))
            }
            (SettingsChange::Deadline(deadline), None) => self.lateness.set_deadline(deadline),
            (SettingsChange::Learn(learn), _) => match &self.learning {
                Some(learning) => learning.set(learn),
                None if learn == Learn::No => {}
                None => return Err(FIXED),
            },
        }
        Ok(())
    }
}

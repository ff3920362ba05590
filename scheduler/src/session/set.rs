//! What of a session can change while it runs, in the words of [`Policy::with_setting`](crate::Policy::with_setting).
//!
//! Invariant: what cannot be done is an error that says why; nothing is left out in silence.
//!
//! Not here: the words (`settings`), what a governor makes of a hint (`govern`), how a session learns (`learn`).

use crate::error::{Error, ErrorKind, Result};
use crate::policy::Learn;
use crate::session::Session;
use crate::session::govern::hint::Hint;
use crate::session::specialization_state::Inner;
use crate::session::told::Told;
use crate::settings;

impl Session {
    /// Changes a setting while the session runs, in words.
    ///
    /// | name | value |
    /// |---|---|
    /// | `learn` | `no`, `watch`, `yes`, or a budget from `2%` to `20%`; a session that was made with `no` stays so |
    /// | `deadline` | milliseconds, or `no` |
    /// | `background`, `battery-saver` | `yes`, `no`: of a governed session, as all below |
    /// | `frame-period` | milliseconds, or `no` |
    /// | `max-power` | watts, or `no` |
    /// | `max-temperature`, `max-surface` | degrees Celsius, or `no` |
    /// | `thermal-headroom` | what Android's `AThermal_getThermalHeadroom` says, 1 where the system slows down severely, or `no`; the surface is held at 0.85 of it where no sensor reads it |
    /// | `battery` | `35%`, `35% charging`, or `no`: as the system says it |
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
    /// Where the model leaves sizes open, it holds for all sizes, also those that come.
    ///
    /// # Errors
    /// There is no such setting, the value is none of its, or the session is not one that can take it: no governor chooses its
    /// plans, nothing of learning is in it.
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        let told = settings::told(name, value)?;
        let refused = |words: &str| {
            let words = format!("session setting {name:?}: {words}");
            Error::new(ErrorKind::BadInput, words)
        };
        let policy = &self.0.policy;
        match told {
            Told::Hint(_) if policy.governing().is_none() => return Err(refused(UNGOVERNED)),
            Told::Learn(learn) if learn != Learn::No && policy.learning() == Learn::No => {
                return Err(refused(FROZEN));
            }
            _ => {}
        }
        // first, so that sizes that are planned for meanwhile have it too
        self.0.keep(told);
        let all = self.0.all();
        all.iter().try_for_each(|inner| inner.take(told)).map_err(refused)
    }
}

const UNGOVERNED: &str = "no governor chooses the plans of this session; make it with the setting governed";
const FROZEN: &str =
    "the session was made with learn=no, so that nothing of learning is in it; make it with watch";
const FIXED: &str = "nothing is learnt in this session: there is one device, or its plan was given, compiled ahead, admitted or \
                     governed, or it is for throughput";

impl Inner {
    /// Does what the session is told, or says why it cannot.
    pub(crate) fn take(&self, told: Told) -> std::result::Result<(), &'static str> {
        match (told, &self.governing) {
            (Told::Hint(hint), Some(governing)) => governing.hint(self, hint),
            (Told::Hint(_), None) => return Err(UNGOVERNED),
            (Told::Deadline(deadline), Some(governing)) => governing.hint(self, Hint::Deadline(deadline)),
            (Told::Deadline(deadline), None) => self.lateness.set_deadline(deadline),
            (Told::Learn(learn), _) => match &self.learning {
                Some(learning) => learning.set(learn),
                None if learn == Learn::No => {}
                None => return Err(FIXED),
            },
        }
        Ok(())
    }
}

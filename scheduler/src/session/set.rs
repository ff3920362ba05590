//! What of a session can change while it runs, in the words of [`Policy::with_setting`](crate::Policy::with_setting).
//!
//! Invariant: what cannot be done is an error that says why; nothing is left out in silence.
//!
//! Not here: the words (`words`), what a governor makes of a hint (`govern`), how a session learns (`learn`).

use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::policy::Learn;
use crate::session::Session;
use crate::session::govern::Hint;
use crate::session::inner::Inner;
use crate::words::{self, Told};

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
    /// # Errors
    /// There is no such setting, the value is none of its, or the session is not one that can take it: sizes are open, no
    /// governor chooses its plans, nothing of learning is in it.
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        let told = words::told(name, value)?;
        let refused =
            |words: &str| Error::new(ErrorKind::BadInput, format!("session setting {name:?}: {words}"));
        let (Some(inner), false) = (self.0.latest(), self.is_open()) else {
            return Err(refused(
                "the model leaves sizes open, and each size has a plan of its own; set it in the policy",
            ));
        };
        match told {
            Told::Hint(hint) => inner.hinted(hint).ok_or_else(|| {
                refused("no governor chooses the plans of this session; make it with the setting governed")
            }),
            Told::Deadline(deadline) => {
                inner.set_deadline(deadline);
                Ok(())
            }
            Told::Learn(learn) => inner.set_learn(learn).map_err(refused),
        }
    }
}

impl Inner {
    fn hinted(&self, hint: Hint) -> Option<()> {
        self.governing
            .as_ref()
            .map(|governing| governing.hint(self, hint))
    }

    fn set_deadline(&self, deadline: Option<Duration>) {
        if self.hinted(Hint::Deadline(deadline)).is_none() {
            self.lateness.set_deadline(deadline);
        }
    }

    fn set_learn(&self, learn: Learn) -> std::result::Result<(), &'static str> {
        match &self.learning {
            Some(learning) => {
                learning.set(learn);
                Ok(())
            }
            None if learn == Learn::No => Ok(()),
            None if self.policy.learning() == Learn::No => Err(
                "the session was made with learn=no, so that nothing of learning is in it; make it with watch",
            ),
            None => Err(
                "nothing is learnt in this session: there is one device, or its plan was given, compiled ahead, admitted or \
                 governed, or it is for throughput",
            ),
        }
    }
}

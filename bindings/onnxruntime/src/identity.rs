//! The identity of a compiled model's compiler, for apps that ask whether the model fits before
//! they make a session.
//!
//! Invariant: this is only a hint. Stale content itself is refused when the session is made, since
//! only then devices and options are known.

use polychip::{Device, Runtime};
use serde::{Deserialize, Serialize};

use crate::saved::FORM;

/// Compiler of a model.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// Of what nodes hold.
    form: u32,
    polychip: String,
    /// By device: its name, its plugin's version and build, what it is, its driver.
    devices: Vec<(String, String)>,
}

/// Verdict on a compiled model.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    NotOurs,
    /// Nothing has changed.
    Same,
    /// It is refused, unless the session may plan again.
    Stale,
    /// This version cannot read it.
    Unread,
}

impl Identity {
    pub(crate) fn of(runtime: &Runtime) -> Identity {
        let named = |device: &Device| (device.name().to_owned(), device.identity());
        Identity {
            form: FORM,
            polychip: env!("CARGO_PKG_VERSION").to_owned(),
            devices: runtime.devices().iter().map(named).collect(),
        }
    }

    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(crate) fn read(text: &str) -> Option<Identity> {
        serde_json::from_str(text).ok()
    }

    /// Verdict on a model that this compiler made. A missing device may be added by the session's options.
    pub(crate) fn verdict(&self, now: &Identity) -> Verdict {
        if self.form != now.form {
            return Verdict::Unread;
        }
        let changed = |(name, then): &(String, String)| {
            let mut same = now.devices.iter().filter(|(other, _)| other == name);
            same.next().is_some_and(|(_, now)| now != then)
        };
        if self.polychip != now.polychip || self.devices.iter().any(changed) {
            Verdict::Stale
        } else {
            Verdict::Same
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_detects_stale_and_unreadable_models() {
        let identity = |form, polychip: &str, devices: &[(&str, &str)]| Identity {
            form,
            polychip: polychip.to_owned(),
            devices: devices
                .iter()
                .map(|(name, what)| ((*name).to_owned(), (*what).to_owned()))
                .collect(),
        };
        let now = identity(1, "1", &[("cpu", "a"), ("gpu", "b")]);
        let read = Identity::read(&now.to_json()).unwrap();
        assert_eq!((read.verdict(&now), &read), (Verdict::Same, &now));
        let verdict = |then: Identity| then.verdict(&now);
        assert_eq!(verdict(identity(2, "1", &[])), Verdict::Unread);
        assert_eq!(verdict(identity(1, "2", &[("cpu", "a")])), Verdict::Stale);
        assert_eq!(verdict(identity(1, "1", &[("cpu", "a2")])), Verdict::Stale);
        assert_eq!(
            verdict(identity(1, "1", &[("npu", "c"), ("cpu", "a")])),
            Verdict::Same
        );
        assert!(Identity::read("other words").is_none());
    }
}

//! Injected faults. A rule is `call:when=effect`; `;` joins rules.
//!
//! - `call` is one of the emulator's call names.
//! - `when` is a number (the n-th call, from 1), `n..` (the n-th call and all later ones), `*`
//!   (every call) or `op=NAME` (every call that concerns this op).
//! - `effect` is a code or `error:CODE`; `lost` (the device restarts: this call fails, and
//!   everything on the device is lost); `hang` (until the rules are replaced) or `hang:200ms`;
//!   `slow:50ms`; `crash` (the process ends); `wrong` (half of each output is written).
//!
//! Invariants:
//! 1. Each rule counts its calls from the time at which the rules were set.
//! 2. If a rule is malformed, no rule is set.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Clone, PartialEq, Eq, Debug)]
enum When {
    At(u64),
    From(u64),
    Op(String),
}

/// Effect of a rule on a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// It fails with this code of the vendor.
    Fail(i64),
    /// The device restarts.
    Lost,
    /// It takes longer: [`Faults::wait`].
    Wait(Wait),
    /// The process ends there.
    Crash,
    /// It writes half of each output.
    Wrong,
}

/// Additional time of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// This long.
    For(Duration),
    /// Until the rules of this version are replaced.
    Whole(u64),
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Rule {
    call: &'static str,
    when: When,
    effect: Effect,
    seen: u64,
}

#[derive(Default)]
struct Rules {
    list: Vec<Rule>,
    /// Number of replacements of the rules, which a hanging call compares.
    version: u64,
}

/// The rules of one emulator.
pub struct Faults {
    calls: &'static [&'static str],
    rules: Mutex<Rules>,
    replaced: Condvar,
}

impl Faults {
    /// No rules. `calls` lists the names that rules may use.
    #[must_use]
    pub const fn new(calls: &'static [&'static str]) -> Faults {
        Faults {
            calls,
            rules: Mutex::new(Rules {
                list: Vec::new(),
                version: 0,
            }),
            replaced: Condvar::new(),
        }
    }

    /// Sets the rules from an environment variable. If they are malformed, prints that to stderr
    /// and sets none.
    pub fn set_from(&self, variable: &str) {
        let text = std::env::var(variable).unwrap_or_default();
        if let Err(rule) = self.set(&text) {
            eprintln!("{variable}: {rule:?} is not call:when=effect; no fault is injected");
        }
    }

    /// Replaces the rules and returns their number.
    ///
    /// # Errors
    /// Returns the first malformed rule, and leaves the old rules in place.
    pub fn set(&self, text: &str) -> Result<usize, String> {
        let list = text
            .split(';')
            .map(str::trim)
            .filter(|rule| !rule.is_empty())
            .map(|rule| self.rule(rule).ok_or_else(|| rule.to_owned()))
            .collect::<Result<Vec<Rule>, String>>()?;
        let count = list.len();
        let mut rules = self.lock();
        rules.list = list;
        rules.version += 1;
        self.replaced.notify_all();
        Ok(count)
    }

    /// Counts a call and returns the effect of the first rule that applies. `concerns` states
    /// whether the call involves an op of this name.
    ///
    /// # Panics
    /// `call` is not one of the emulator's names.
    pub fn at(&self, call: &str, concerns: impl Fn(&str) -> bool) -> Option<Effect> {
        assert!(self.calls.contains(&call), "no rule can name {call:?}");
        let mut rules = self.lock();
        let version = rules.version;
        let mut effect = None;
        for rule in rules.list.iter_mut().filter(|rule| rule.call == call) {
            rule.seen += 1;
            let applies = match &rule.when {
                When::At(n) => rule.seen == *n,
                When::From(n) => rule.seen >= *n,
                When::Op(name) => concerns(name),
            };
            if applies && effect.is_none() {
                // rules may be replaced before the call begins to wait
                effect = Some(match rule.effect {
                    Effect::Wait(Wait::Whole(_)) => Effect::Wait(Wait::Whole(version)),
                    other => other,
                });
            }
        }
        effect
    }

    /// Counts a call, spends its additional time, and returns its effect. For `crash`, ends the
    /// process.
    pub fn act(&self, call: &str) -> Option<Effect> {
        match self.at(call, |_| false)? {
            Effect::Wait(time) => {
                self.wait(time);
                None
            }
            Effect::Crash => std::process::abort(),
            other => Some(other),
        }
    }

    /// Spends the time of [`Effect::Wait`].
    pub fn wait(&self, wait: Wait) {
        match wait {
            Wait::For(time) => std::thread::sleep(time),
            Wait::Whole(version) => {
                let mut rules = self.lock();
                while rules.version == version {
                    rules = self.replaced.wait(rules).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rule(&self, text: &str) -> Option<Rule> {
        let (call, rest) = text.split_once(':')?;
        let call = *self.calls.iter().find(|known| **known == call)?;
        let (when, effect) = rest.rsplit_once('=')?;
        let when = match when.strip_prefix("op=") {
            Some(name) => When::Op(name.to_owned()),
            None if when == "*" => When::From(1),
            None => match when.strip_suffix("..") {
                Some(from) => When::From(from.parse().ok()?),
                None => When::At(when.parse().ok()?),
            },
        };
        let (name, value) = match effect.split_once(':') {
            Some((name, value)) => (name, Some(value)),
            None => (effect, None),
        };
        let effect = match (name, value) {
            ("lost", None) => Effect::Lost,
            ("crash", None) => Effect::Crash,
            ("wrong", None) => Effect::Wrong,
            ("hang", None) => Effect::Wait(Wait::Whole(0)),
            ("hang" | "slow", Some(value)) => Effect::Wait(Wait::For(duration(value)?)),
            ("error", Some(code)) | (code, None) => {
                Effect::Fail(code.parse().ok().filter(|&code| code != 0)?)
            }
            _ => return None,
        };
        Some(Rule {
            call,
            when,
            effect,
            seen: 0,
        })
    }
}

/// `200ms` or `2s`.
fn duration(text: &str) -> Option<Duration> {
    match text.strip_suffix("ms") {
        Some(count) => Some(Duration::from_millis(count.parse().ok()?)),
        None => Some(Duration::from_secs(text.strip_suffix('s')?.parse().ok()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static CALLS: &[&str] = &["run", "compile"];

    #[test]
    fn rules_apply_to_their_calls() {
        let faults = Faults::new(CALLS);
        assert_eq!(
            faults.set("run:2=-3; compile:op=Gelu=error:6;run:4..=lost"),
            Ok(3)
        );
        assert_eq!(faults.at("run", |_| false), None);
        assert_eq!(faults.at("run", |_| false), Some(Effect::Fail(-3)));
        assert_eq!(faults.at("compile", |op| op == "Relu"), None);
        assert_eq!(faults.at("compile", |op| op == "Gelu"), Some(Effect::Fail(6)));
        assert_eq!(faults.at("run", |_| false), None);
        assert_eq!(faults.at("run", |_| false), Some(Effect::Lost));
        assert_eq!(faults.at("run", |_| false), Some(Effect::Lost));
    }

    #[test]
    fn a_malformed_rule_sets_nothing() {
        let faults = Faults::new(CALLS);
        faults.set("run:*=crash").unwrap();
        for bad in [
            "run",
            "run:1",
            "dance:1=lost",
            "run:x=lost",
            "run:1=0",
            "run:1=slow",
        ] {
            assert_eq!(faults.set(bad), Err(bad.to_owned()));
        }
        assert_eq!(faults.at("run", |_| false), Some(Effect::Crash));
    }

    #[test]
    fn hanging_call_continues_when_rules_change() {
        let faults = Faults::new(CALLS);
        faults.set("run:1=hang").unwrap();
        let Some(Effect::Wait(wait)) = faults.at("run", |_| false) else {
            panic!("no fault");
        };
        std::thread::scope(|scope| {
            let hanging = scope.spawn(|| faults.wait(wait));
            faults.set("").unwrap();
            hanging.join().unwrap();
        });
    }
}

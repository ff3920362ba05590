//! The log of a governor: every event with its decision, as lines of JSON that replay to the same decisions.
//!
//! Invariants:
//! 1. The first line holds what the governor was made of, each other line one event and what was decided.
//! 2. The log is bounded; what was left out is counted, at its end, so that what is there still replays.

use std::fmt;

use polychip_host::Device;
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::governor::{Decision, Event, Governor, Limits, Place, Portfolio, Reason, Settings};

/// Events that a log keeps: some hours at ten samples a second.
const KEPT: usize = 1 << 18;

/// What a governor was made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Start {
    portfolio: Portfolio,
    limits: Limits,
    settings: Settings,
}

/// One event and what was decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    /// What happened, and when.
    pub event: Event,
    /// The answer.
    pub decision: Decision,
}

/// Everything that a session's governor was told and decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionLog {
    start: Start,
    entries: Vec<Decided>,
    left_out: u64,
}

impl DecisionLog {
    pub(crate) fn new(portfolio: Portfolio, limits: Limits, settings: Settings) -> DecisionLog {
        DecisionLog {
            start: Start {
                portfolio,
                limits,
                settings,
            },
            entries: Vec::new(),
            left_out: 0,
        }
    }

    pub(crate) fn add(&mut self, event: Event, decision: Decision) {
        if self.entries.len() < KEPT {
            self.entries.push(Decided { event, decision });
        } else {
            self.left_out += 1;
        }
    }

    /// The events in their order.
    #[must_use]
    pub fn entries(&self) -> &[Decided] {
        &self.entries
    }

    /// The plans at the start.
    #[must_use]
    pub fn portfolio(&self) -> &Portfolio {
        &self.start.portfolio
    }

    /// Events at the end that the log does not hold.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The log as lines of JSON.
    #[must_use]
    pub fn to_json_lines(&self) -> String {
        let written = "invariant: a log has only JSON types";
        let mut text = serde_json::to_string(&self.start).expect(written) + "\n";
        for entry in &self.entries {
            text.push_str(&serde_json::to_string(entry).expect(written));
            text.push('\n');
        }
        text
    }

    /// Reads what [`DecisionLog::to_json_lines`] wrote.
    ///
    /// # Errors
    /// A line is not one of a log.
    pub fn from_json_lines(text: &str) -> Result<DecisionLog> {
        let bad = |line: usize, error: serde_json::Error| {
            Error::caused(
                ErrorKind::BadInput,
                format!("line {line} of a log of decisions"),
                error,
            )
        };
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        let start = serde_json::from_str(first).map_err(|error| bad(1, error))?;
        let entries = lines
            .enumerate()
            .map(|(index, line)| serde_json::from_str(line).map_err(|error| bad(index + 2, error)))
            .collect::<Result<_>>()?;
        Ok(DecisionLog {
            start,
            entries,
            left_out: 0,
        })
    }

    /// Tells a new governor the same events; how many of its decisions are the same.
    ///
    /// # Errors
    /// The first decision that differs, by its line.
    pub fn replay(&self) -> Result<usize> {
        let Start {
            portfolio,
            limits,
            settings,
        } = self.start.clone();
        let mut governor = Governor::new(portfolio, limits, settings)?;
        for (index, entry) in self.entries.iter().enumerate() {
            let decision = governor.step(&entry.event);
            if decision != entry.decision {
                let words = format!(
                    "line {} decides {:?}; the log says {:?}",
                    index + 2,
                    decision,
                    entry.decision
                );
                return Err(Error::new(ErrorKind::BadInput, words));
            }
        }
        Ok(self.entries.len())
    }
}

impl fmt::Display for DecisionLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json_lines())
    }
}

/// A reason in words.
pub(crate) fn words(reason: &Reason, portfolio: &Portfolio, devices: &[Device]) -> String {
    let device = |index: usize| devices.get(index).map_or("a device", Device::name).to_owned();
    let plan = |index: usize| {
        let found = portfolio.candidates.get(index);
        found
            .map_or("a plan", |candidate| candidate.name.as_str())
            .to_owned()
    };
    let place = |place: &Place| match place {
        Place::Device(index) => device(*index),
        Place::Package => "the package".to_owned(),
        Place::Skin => "the case".to_owned(),
    };
    let celsius = |mc: i64| format!("{:.1} °C", mc as f64 / 1e3);
    let watts = |mw: u64| format!("{:.1} W", mw as f64 / 1e3);
    let ms = |ns: u64| format!("{:.2} ms", ns as f64 / 1e6);
    match reason {
        Reason::Hot {
            place: at,
            temperature_mc,
            predicted_mc,
            limit_mc,
        } => format!(
            "{} has {}, {} are predicted, the limit is {}",
            place(at),
            celsius(*temperature_mc),
            celsius(*predicted_mc),
            celsius(*limit_mc)
        ),
        Reason::Power { power_mw, limit_mw } => {
            format!("it takes {}, the limit is {}", watts(*power_mw), watts(*limit_mw))
        }
        Reason::Lost { device: index } => format!("{} is lost", device(*index)),
        Reason::Late {
            latency_ns,
            than_ns,
            deadline_ns,
        } => format!(
            "a run takes {}, here {}, the deadline is {}",
            ms(*latency_ns),
            ms(*than_ns),
            ms(*deadline_ns)
        ),
        Reason::Faster { latency_ns, than_ns } => {
            format!("{} instead of {}", ms(*latency_ns), ms(*than_ns))
        }
        Reason::Frugal { energy_uj, than_uj } => {
            format!("{energy_uj} µJ a run instead of {than_uj} µJ")
        }
        Reason::Sustains {
            permille,
            than_permille,
        } => format!("it sustains {permille} ‰ of the frames instead of {than_permille} ‰"),
        Reason::PredictionOff {
            candidate,
            measured_permille,
        } => format!(
            "{} takes {measured_permille} ‰ of its predicted time",
            plan(*candidate)
        ),
        Reason::NoCandidate => "every plan needs a lost device".to_owned(),
        Reason::Replanned => "planned anew".to_owned(),
        Reason::Pace { from_permille } => format!("the pace was {from_permille} ‰ of the frames"),
        Reason::Steady => "nothing speaks for a change".to_owned(),
        Reason::Waiting { candidate } => {
            format!(
                "{} would be better, the last switch is too near",
                plan(*candidate)
            )
        }
        Reason::Unknown => "the event names a device or plan that is not there".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::governor::{Action, Candidate, Input, Load};

    fn log() -> DecisionLog {
        let on = |device| {
            vec![Load {
                device,
                busy_ns: 1000,
                energy_uj: None,
            }]
        };
        let portfolio = Portfolio {
            devices: vec!["a:0".to_owned(), "b:0".to_owned()],
            candidates: vec![
                Candidate::new("one", 1000, on(0)),
                Candidate::new("two", 2000, on(1)),
            ],
        };
        let (limits, settings) = (Limits::default(), Settings::default());
        let mut governor = Governor::new(portfolio.clone(), limits.clone(), settings.clone()).unwrap();
        let mut log = DecisionLog::new(portfolio, limits, settings);
        for (time_ns, input) in [
            (5, Input::Tick),
            (9, Input::Lost { device: 0 }),
            (12, Input::Tick),
        ] {
            let event = Event { time_ns, input };
            let decision = governor.step(&event);
            log.add(event, decision);
        }
        log
    }

    #[test]
    fn a_log_reads_back_and_replays_to_the_same_decisions() {
        let log = log();
        let read = DecisionLog::from_json_lines(&log.to_json_lines()).unwrap();
        assert_eq!(read, log);
        assert_eq!(read.replay().unwrap(), 3);
        assert!(
            log.entries()
                .iter()
                .any(|entry| entry.decision.switch_to() == Some(1))
        );
    }

    #[test]
    fn a_log_that_was_changed_is_caught() {
        let mut log = log();
        log.entries[2].decision.action = Action::Replan;
        assert!(log.replay().unwrap_err().to_string().contains("line 4"));
        let words = DecisionLog::from_json_lines("{}").unwrap_err().to_string();
        assert!(words.contains("line 1"), "{words}");
    }
}

//! The log of a session's governor: observations and decisions, and reasons as text.
//!
//! Invariant: the log is bounded; events beyond its end are counted, so that what it holds still
//! replays.
//!
//! Not here: the format of the log and its replay (`governor::log`).

use std::fmt;

use polychip_governor::log::{self, Line};
use polychip_governor::{Decision, Governor, Observation, Portfolio, Reason, SensorLocation};
use polychip_host::Device;

use crate::error::Result;

/// Events that a log keeps: some hours at ten samples a second.
const KEPT: usize = 1 << 18;

/// The observations and decisions of a session's governor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionLog {
    /// The first line.
    start: String,
    entries: Vec<Line>,
    left_out: u64,
}

impl DecisionLog {
    /// Of a governor that has not been stepped.
    pub(crate) fn new(governor: &Governor) -> DecisionLog {
        DecisionLog {
            start: log::start(governor),
            entries: Vec::new(),
            left_out: 0,
        }
    }

    pub(crate) fn add(&mut self, observation: Observation, decision: Decision) {
        if self.entries.len() < KEPT {
            self.entries.push(Line {
                observation,
                decision,
            });
        } else {
            self.left_out += 1;
        }
    }

    /// The observations in order.
    #[must_use]
    pub fn entries(&self) -> &[Line] {
        &self.entries
    }

    /// Number of later events that the log does not hold.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The log as lines of JSON, in the format of [`governor::log`](crate::governor::log).
    #[must_use]
    pub fn to_json_lines(&self) -> String {
        let mut text = format!("{}\n", self.start);
        for entry in &self.entries {
            text.push_str(&log::line(&entry.observation, &entry.decision));
            text.push('\n');
        }
        text
    }

    /// Replays the observations with a new governor, and returns the number of equal decisions.
    ///
    /// # Errors
    /// The first decision that differs, by its line.
    pub fn replay(&self) -> Result<usize> {
        Ok(log::replay(&self.to_json_lines())?.len())
    }
}

impl fmt::Display for DecisionLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json_lines())
    }
}

/// A reason as text.
pub(crate) fn words(reason: &Reason, portfolio: &Portfolio, devices: &[Device]) -> String {
    let device = |index: usize| devices.get(index).map_or("a device", Device::name).to_owned();
    let plan = |index: usize| {
        let found = portfolio.candidates.get(index);
        found
            .map_or("a plan", |candidate| candidate.name.as_str())
            .to_owned()
    };
    let place = |place: &SensorLocation| match place {
        SensorLocation::Device(index) => device(*index),
        SensorLocation::Package => "the package".to_owned(),
        SensorLocation::Skin => "the case".to_owned(),
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
            "{} is at {}, predicted {}, limit {}",
            place(at),
            celsius(*temperature_mc),
            celsius(*predicted_mc),
            celsius(*limit_mc)
        ),
        Reason::Power { power_mw, limit_mw } => {
            format!("power is {}, limit {}", watts(*power_mw), watts(*limit_mw))
        }
        Reason::PowerUnknown { candidate, limit_mw } => format!(
            "a device of {} reports no power: the limit of {} applies to the others only",
            plan(*candidate),
            watts(*limit_mw)
        ),
        Reason::Lost { device: index } => format!("{} is lost", device(*index)),
        Reason::Late {
            latency_ns,
            than_ns,
            deadline_ns,
        } => format!(
            "a run takes {} there, {} here, deadline {}",
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
        Reason::Steady => "no reason to change".to_owned(),
        Reason::Waiting { candidate } => {
            format!(
                "{} would be better, but the last switch is too recent",
                plan(*candidate)
            )
        }
        Reason::Unknown => "the observation names an unknown device or plan".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polychip_governor::{Action, Candidate, Input, Load, PolicyLimits, Settings};

    #[test]
    fn log_replays_and_changes_are_detected() {
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
        let mut governor = Governor::new(portfolio, PolicyLimits::default(), Settings::default()).unwrap();
        let mut log = DecisionLog::new(&governor);
        for (time_ns, input) in [
            (5, Input::Tick),
            (9, Input::Lost { device: 0 }),
            (12, Input::Tick),
        ] {
            let observation = Observation { time_ns, input };
            let decision = governor.step(&observation);
            log.add(observation, decision);
        }
        assert_eq!(log.replay().unwrap(), 3);
        assert!(
            log.entries()
                .iter()
                .any(|entry| entry.decision.switch_to() == Some(1))
        );
        log.entries[2].decision.action = Action::Replan;
        assert!(log.replay().unwrap_err().to_string().contains("line 4"));
    }
}

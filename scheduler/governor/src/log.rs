//! The log of a governor: JSON lines that replay to the same decisions.
//!
//! The first line is the start: portfolio, limits, settings. Each other line is an observation with
//! its decision. The caller writes the lines; nothing here opens a file.
//!
//! Invariant: `replay` of the output of `start` and `line` finds the same decisions on every host,
//! or reports the line that differs.

use serde::{Deserialize, Serialize};

use crate::decision::Decision;
use crate::error::{Error, Result};
use crate::observation::{Observation, PolicyLimits};
use crate::portfolio::Portfolio;
use crate::settings::Settings;
use crate::state::Governor;

/// Version of the log.
pub const LOG_VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Start {
    governor_log: u32,
    portfolio: Portfolio,
    limits: PolicyLimits,
    settings: Settings,
}

/// An observation and its decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// The observation.
    #[serde(rename = "event")]
    pub observation: Observation,
    /// The decision.
    pub decision: Decision,
}

/// The first line of the log of a governor before its first step, without a newline.
#[must_use]
pub fn start(governor: &Governor) -> String {
    let start = Start {
        governor_log: LOG_VERSION,
        portfolio: governor.portfolio().clone(),
        limits: governor.limits().clone(),
        settings: governor.settings().clone(),
    };
    serde_json::to_string(&start).expect("invariant: a log has only JSON types")
}

/// A further line, without a newline.
#[must_use]
pub fn line(observation: &Observation, decision: &Decision) -> String {
    let line = Line {
        observation: observation.clone(),
        decision: *decision,
    };
    serde_json::to_string(&line).expect("invariant: a log has only JSON types")
}

/// Replays the observations of a log with a new governor, and returns its decisions.
///
/// # Errors
/// An invalid line, a log of another version, an invalid portfolio, or a decision that differs from
/// the logged one.
pub fn replay(text: &str) -> Result<Vec<Decision>> {
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    let (_, first) = lines.next().ok_or_else(|| Error::log(1, "the log is empty"))?;
    let start: Start = serde_json::from_str(first).map_err(|error| Error::log(1, error))?;
    if start.governor_log != LOG_VERSION {
        let what = format!("version {}; this is {LOG_VERSION}", start.governor_log);
        return Err(Error::log(1, what));
    }
    let mut governor = Governor::new(start.portfolio, start.limits, start.settings)?;
    let mut decisions = Vec::new();
    for (number, line) in lines {
        let logged: Line = serde_json::from_str(line).map_err(|error| Error::log(number, error))?;
        let decision = governor.step(&logged.observation);
        if decision != logged.decision {
            let what = format!("decided {decision:?} instead of {:?}", logged.decision);
            return Err(Error::log(number, what));
        }
        decisions.push(decision);
    }
    Ok(decisions)
}

//! Longest times of a plan's parts, as admission uses them.
//!
//! Invariant: a measured part counts with its 0.99 quantile (the maximum of fewer than a hundred
//! runs), never with its median; any other part with the plan's prediction and a margin. Launch and
//! incoming transfers are included.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::planned::Planned;

/// A part of a plan with its time for admission.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TimedPart {
    /// Its device, `plugin:index`.
    pub device: String,
    /// Its longest time on the device, including launch and incoming transfers, in nanoseconds.
    pub time_ns: u64,
    /// Provenance of the time.
    pub source: TimeSource,
    /// Whether the figure is an emulated device's.
    pub emulated: bool,
}

/// Provenance of a part's time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeSource {
    /// The 0.99 quantile of its runs in the profile, rounded up to a measured one.
    Measured {
        /// How many runs.
        samples: u32,
    },
    /// The time that the plan predicts, plus a margin.
    Predicted {
        /// Where the prediction comes from: composed, predicted, estimated, roofline; measured where the time of a larger
        /// part was measured.
        provenance: &'static str,
        /// What was added, in per cent of the prediction.
        margin_percent: f64,
    },
}

impl fmt::Display for TimeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TimeSource::Measured { samples } => write!(f, "0.99 quantile of {samples} runs"),
            TimeSource::Predicted {
                provenance,
                margin_percent,
            } => write!(f, "{provenance}, plus {margin_percent} %"),
        }
    }
}

impl fmt::Display for TimedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "on {}: {}", self.device, self.source)?;
        if self.emulated {
            f.write_str(", emulated device")
        } else {
            Ok(())
        }
    }
}

impl Planned {
    /// The plan's parts in order, each with its time for admission. `margin_percent` is added to
    /// unmeasured times.
    #[must_use]
    pub fn timed_parts(&self, margin_percent: f64) -> Vec<TimedPart> {
        let plan = self.plan();
        let measured = self.measured();
        let parts = plan.parts.iter().enumerate();
        let timed = parts.map(|(index, part)| {
            let brought = plan.crossings.iter().filter(|crossing| {
                let reads = crossing.to_parts.first().map(|part| part.index());
                // what goes home is charged to the last part
                reads.unwrap_or(plan.parts.len() - 1) == index
            });
            let brought: u64 = brought.map(|crossing| crossing.time.nanoseconds()).sum();
            let beside = part.launch.nanoseconds() + brought;
            let figure = measured.iter().find(|figure| figure.part == Some(index));
            let (time_ns, source) = match figure {
                Some(figure) => {
                    let samples = figure.samples;
                    (figure.p99_ns + beside, TimeSource::Measured { samples })
                }
                None => {
                    let stated = part.cost.time.nanoseconds() + beside;
                    let source = TimeSource::Predicted {
                        provenance: part.cost.provenance.word(),
                        margin_percent,
                    };
                    // `as` saturates: a margin is no negative number
                    let time = (stated as f64 * (1.0 + margin_percent / 100.0)).ceil() as u64;
                    (time, source)
                }
            };
            TimedPart {
                device: plan.devices[part.device.index()].clone(),
                time_ns: time_ns.max(1),
                source,
                emulated: part.cost.emulated,
            }
        });
        timed.collect()
    }
}

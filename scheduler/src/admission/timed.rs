//! How long the parts of a plan take at most, as admission counts on it.
//!
//! Invariant: a measured part counts with its 0.99 quantile (the longest of fewer than a hundred runs), never with its median;
//! any other with what the plan predicts and a margin. Launch and what is brought to the part are in the time.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::planned::Planned;

/// A part of a plan with the time that admission counts on.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TimedPart {
    /// Its device, `plugin:index`.
    pub device: String,
    /// Its longest time on the device, with its launch and what is brought to it from other devices, in nanoseconds.
    pub time_ns: u64,
    /// Where the time comes from.
    pub source: TimeSource,
    /// The figure is an emulated device's.
    pub emulated: bool,
}

/// Where the time of a part comes from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeSource {
    /// The 0.99 quantile of its runs in the profile, rounded up to a measured one.
    Measured {
        /// How many runs.
        samples: u32,
    },
    /// What the plan predicts, and a margin.
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
        match self.emulated {
            true => f.write_str(", emulated device"),
            false => Ok(()),
        }
    }
}

impl Planned {
    /// The parts of the plan in its order, each with the time that admission counts on. `margin_percent` is added to times
    /// that were not measured.
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

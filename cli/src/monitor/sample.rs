//! What `monitor` prints: a line of JSON, or of text, for each sample, each change and the limits.
//!
//! Invariants:
//! 1. A figure that no sensor gives is null, with the reason beside it.
//! 2. What a person reads is of the last second; the sample of the moment is in the JSON.
//!
//! Not here: the whole time (`totals`), how the last second comes about (`recent`).

use polychip::telemetry::{Reading, Sample, Sensor};
use polychip::ChangeReport;
use schemars::JsonSchema;
use serde::Serialize;

use super::limits::LimitLine;
use super::recent::LastSecond;
use super::totals::Summary;

/// A line of `monitor --json`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Line {
    /// Every sensor of Linux, with `--once`.
    Sensors {
        /// The sensors.
        sensors: Vec<SensorLine>,
    },
    /// The limits that were asked for, and what they can be held by; after the first sample.
    Limits {
        /// The limits.
        limits: Vec<LimitLine>,
    },
    /// What was said at one moment.
    Sample(Box<SampleLine>),
    /// The governor changed the plan or the pace.
    Change(ChangeReport),
    /// The whole time.
    Summary(Box<Summary>),
}

/// One sensor of Linux.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SensorLine {
    /// Name.
    pub(super) name: String,
    /// What it measures, and so the unit.
    pub(super) quantity: polychip::telemetry::Quantity,
    /// What it measures that of: cpu, gpu, npu, memory, battery, skin, system, other or a device.
    pub(super) subject: String,
    /// The reading, in thousandths of a degree Celsius, mW, µJ, kHz, mV, mA or thousandths.
    pub(super) value: Option<i64>,
    /// Why there is none.
    pub(super) reason: Option<String>,
    /// Limits of a thermal zone.
    pub(super) trips: Vec<polychip::telemetry::Trip>,
    /// What sets a clock.
    pub(super) governor: Option<String>,
}

/// What was said at one moment.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct SampleLine {
    /// Seconds since the first sample.
    pub(super) seconds: f64,
    /// Devices and battery.
    pub(super) sample: Sample,
    /// Sum of the devices' powers in milliwatts; none where no device says it.
    pub(super) power_mw: Option<i64>,
    /// The plan that the next run takes.
    pub(super) plan: Option<String>,
    /// So many of a thousand frames are to run.
    pub(super) pace_permille: Option<u32>,
    /// Runs that have ended.
    pub(super) runs: Option<u64>,
    /// Runs in a second since the last sample.
    pub(super) runs_per_second: Option<f64>,
    /// Runs that took longer than the deadline, so far.
    pub(super) late: Option<u64>,
    /// Frames that were skipped to keep a limit, so far.
    pub(super) skipped: Option<u64>,
    /// The second up to this sample.
    pub(super) last_second: LastSecond,
}

impl SensorLine {
    pub(super) fn new((sensor, reading): (&Sensor, &Reading)) -> SensorLine {
        SensorLine {
            name: sensor.name.clone(),
            quantity: sensor.quantity,
            subject: sensor.subject.to_string(),
            value: reading.value.as_ref().ok().copied(),
            reason: reading.value.as_ref().err().map(ToString::to_string),
            trips: sensor.trips.clone(),
            governor: sensor.governor.clone(),
        }
    }
}

/// Milliwatts as watts.
pub(super) fn in_watts(mw: i64) -> String {
    format!("{:.1} W", mw as f64 / 1e3)
}

/// Nanoseconds as milliseconds, with as many digits as say something.
pub(super) fn in_ms(ns: u64) -> String {
    let ms = ns as f64 / 1e6;
    match ms {
        _ if ms < 1.0 => format!("{ms:.3} ms"),
        _ if ms < 10.0 => format!("{ms:.2} ms"),
        _ => format!("{ms:.1} ms"),
    }
}

impl SampleLine {
    /// Each device on its own line, with the reasons of what is unknown.
    pub(super) fn in_full(&self) -> String {
        let mut text = String::new();
        for state in &self.sample.devices {
            text.push_str(&format!(
                "{}{}\n",
                state.device,
                if state.emulated { " (emulated)" } else { "" }
            ));
            let mut figure =
                |word: &str, figure: &polychip::telemetry::Figure, shown: &dyn Fn(i64) -> String| {
                    let words = figure.value.map_or_else(|| "unknown".to_owned(), shown);
                    text.push_str(&format!("  {word}: {words} ({})\n", figure.from));
                };
            figure("temperature", &state.temperature_mc, &|mc| {
                format!("{:.1} °C", mc as f64 / 1e3)
            });
            figure("power", &state.power_mw, &in_watts);
            figure("energy", &state.energy_uj, &|uj| {
                format!("{:.3} J", uj as f64 / 1e6)
            });
            figure("clock", &state.frequency_khz, &|khz| {
                format!("{:.2} GHz", khz as f64 / 1e6)
            });
            figure("allowed clock", &state.allowed_khz, &|khz| {
                format!("{:.2} GHz", khz as f64 / 1e6)
            });
            figure("load", &state.load_permille, &|permille| {
                format!("{:.1} %", permille as f64 / 10.0)
            });
            figure("throttle", &state.throttle, &|bits| {
                if bits == 0 {
                    "no".to_owned()
                } else {
                    format!("bits {bits:#x}")
                }
            });
        }
        if let Some(battery) = &self.sample.battery {
            let charge = battery.capacity_permille.value.map_or_else(
                || "unknown".to_owned(),
                |permille| format!("{:.1} %", permille as f64 / 10.0),
            );
            text.push_str(&format!(
                "battery: {charge} ({})\n",
                battery.capacity_permille.from
            ));
        }
        for (place, figure) in [
            ("surface", &self.sample.surface_mc),
            ("package", &self.sample.package_mc),
        ] {
            let words = figure
                .value
                .map_or_else(|| "unknown".to_owned(), |mc| format!("{:.1} °C", mc as f64 / 1e3));
            text.push_str(&format!("{place}: {words} ({})\n", figure.from));
        }
        let heat = &self.sample.heat;
        let used = heat.headroom_permille.value;
        let words = used.map_or_else(
            || "unknown".to_owned(),
            |permille| {
                format!(
                    "{:.1} % of the way to severe slowing down",
                    permille as f64 / 10.0
                )
            },
        );
        text.push_str(&format!("heat: {words} ({})\n", heat.headroom_permille.from));
        text
    }
}

impl std::fmt::Display for SampleLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:8.1} s", self.seconds)?;
        for state in &self.sample.devices {
            write!(f, "  {}", state.device)?;
            if state.lost {
                write!(f, " lost")?;
            }
            if let Some(mc) = state.temperature_mc.value {
                write!(f, " {:.1} °C", mc as f64 / 1e3)?;
            }
            if let Some(mw) = state.power_mw.value {
                write!(f, " {}", in_watts(mw))?;
            }
            if let Some(khz) = state.frequency_khz.value {
                write!(f, " {:.2} GHz", khz as f64 / 1e6)?;
            }
        }
        if let Some(plan) = &self.plan {
            write!(f, "  [{plan}]")?;
        }
        if let Some(pace) = self.pace_permille.filter(|pace| *pace < 1000) {
            write!(f, " at {pace} ‰")?;
        }
        for word in self.last_second.words() {
            write!(f, "  {word}")?;
        }
        Ok(())
    }
}

impl LastSecond {
    /// What there is of it, in words.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        words.extend(self.power_mw.map(|mw| format!("together {}", in_watts(mw))));
        words.extend(self.runs_per_second.map(|rate| format!("{rate:.1} runs/s")));
        if let (Some(median), Some(longest)) = (self.latency_p50_ns, self.latency_max_ns) {
            words.push(format!("median {}, longest {}", in_ms(median), in_ms(longest)));
        }
        if let (Some(late), Some(skipped)) = (self.late, self.skipped) {
            words.push(format!("{late} late, {skipped} skipped"));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_digits_that_say_something() {
        let words = [123_456, 1_234_567, 12_345_678, 1_234_567_890].map(in_ms);
        assert_eq!(words, ["0.123 ms", "1.23 ms", "12.3 ms", "1234.6 ms"]);
    }
}

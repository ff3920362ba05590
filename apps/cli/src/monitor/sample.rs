//! A sample in JSON and in text, as one line or in full.
//!
//! Invariants:
//! 1. A figure without a sensor is null, with the reason next to it.
//! 2. Text shows the last second; JSON holds the current sample.
//!
//! Not here: totals (`totals`), the last second (`recent`), kinds of lines (`line`).

use polychip::telemetry::{Reading, Sample, Sensor};
use schemars::JsonSchema;
use serde::Serialize;

use super::recent::LastSecond;
use super::words::in_watts;

/// One sensor of Linux.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SensorLine {
    /// Name.
    pub(super) name: String,
    /// Quantity, which determines the unit.
    pub(super) quantity: polychip::telemetry::Quantity,
    /// Subject: cpu, gpu, npu, memory, battery, skin, system, other or a device.
    pub(super) subject: String,
    /// The reading, in thousandths of a degree Celsius, mW, µJ, kHz, mV, mA or thousandths.
    pub(super) value: Option<i64>,
    /// Why there is none.
    pub(super) reason: Option<String>,
    /// Limits of a thermal zone.
    pub(super) trips: Vec<polychip::telemetry::Trip>,
    /// The setter of a clock.
    pub(super) governor: Option<String>,
}

/// Readings at one moment.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct SampleLine {
    /// Seconds since the first sample.
    pub(super) seconds: f64,
    /// Devices and battery.
    pub(super) sample: Sample,
    /// Total power of the devices in milliwatts; null without a sensor.
    pub(super) power_mw: Option<i64>,
    /// The plan of the next run.
    pub(super) plan: Option<String>,
    /// Frames to run, in thousandths.
    pub(super) pace_permille: Option<u32>,
    /// Runs that have ended.
    pub(super) runs: Option<u64>,
    /// Runs in a second since the last sample.
    pub(super) runs_per_second: Option<f64>,
    /// Runs over the deadline so far.
    pub(super) late: Option<u64>,
    /// Frames skipped so far to meet a limit.
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
            |permille| format!("{:.1} % of the way to severe throttling", permille as f64 / 10.0),
        );
        text.push_str(&format!("heat: {words} ({})\n", heat.headroom_permille.from));
        text
    }
}

impl std::fmt::Display for SampleLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:8.1} s", self.seconds)?;
        for state in &self.sample.devices {
            let emulated = if state.emulated { " (emulated)" } else { "" };
            write!(f, "  {}{emulated}", state.device)?;
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

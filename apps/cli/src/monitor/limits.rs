//! Which limits a sensor can show to be kept, and which none can.
//!
//! Invariant: a limit that nothing measures is said to be unenforceable, on the dashboard, in text and in JSON, and never looks kept.

use polychip::telemetry::{Figure, Sample};
use polychip::{MilliCelsius, Milliwatts};
use schemars::JsonSchema;
use serde::Serialize;

use super::words::in_watts;

/// A limit that was asked for, and what it can be held by.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct LimitLine {
    /// `power`, `temperature` or `surface`.
    pub(super) limit: String,
    /// The limit, in milliwatts or thousandths of a degree Celsius.
    pub(super) value: i64,
    /// Who says the figure: devices, or `surface`.
    pub(super) held_by: Vec<String>,
    /// Who does not, and why.
    pub(super) not_by: Vec<Unsaid>,
    /// Whether anything says it: otherwise the limit cannot be enforced.
    pub(super) enforceable: bool,
}

/// A figure that no sensor says.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Unsaid {
    /// The device, or `surface`.
    pub(super) name: String,
    /// Why.
    pub(super) reason: String,
}

/// The limits of the command line.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Limits {
    pub(super) power: Option<Milliwatts>,
    pub(super) temperature: Option<MilliCelsius>,
    pub(super) surface: Option<MilliCelsius>,
}

impl Limits {
    /// What each is held by, as a sample shows.
    pub(super) fn judge(&self, sample: &Sample) -> Vec<LimitLine> {
        let mut lines = Vec::new();
        if let Some(limit) = self.power {
            // a counter of energy gives a power after a second of it
            let power = sample.devices.iter().map(|state| {
                let counted = state.energy_uj.value.is_some();
                (
                    state.device.as_str(),
                    counted || state.power_mw.value.is_some(),
                    &state.power_mw,
                )
            });
            let value = i64::try_from(limit.milliwatts()).unwrap_or(i64::MAX);
            lines.push(LimitLine::new("power", value, power));
        }
        if let Some(limit) = self.temperature {
            let heat = sample.devices.iter().map(|state| {
                let figure = &state.temperature_mc;
                (state.device.as_str(), figure.value.is_some(), figure)
            });
            lines.push(LimitLine::new("temperature", limit.millidegrees(), heat));
        }
        if let Some(limit) = self.surface {
            let figure = &sample.surface_mc;
            let surface = [("surface", figure.value.is_some(), figure)];
            lines.push(LimitLine::new(
                "surface",
                limit.millidegrees(),
                surface.into_iter(),
            ));
        }
        lines
    }
}

impl LimitLine {
    fn new<'a>(
        limit: &str,
        value: i64,
        said: impl Iterator<Item = (&'a str, bool, &'a Figure)>,
    ) -> LimitLine {
        let (mut held_by, mut not_by) = (Vec::new(), Vec::new());
        for (name, is_said, figure) in said {
            if is_said {
                held_by.push(name.to_owned());
            } else {
                not_by.push(Unsaid {
                    name: name.to_owned(),
                    reason: figure.from.clone(),
                });
            }
        }
        LimitLine {
            limit: limit.to_owned(),
            value,
            enforceable: !held_by.is_empty(),
            held_by,
            not_by,
        }
    }

    /// What a person should know of it; nothing where all say what it limits.
    pub(super) fn words(&self) -> Option<String> {
        if self.not_by.is_empty() && self.enforceable {
            return None;
        }
        let value = match self.limit.as_str() {
            "power" => in_watts(self.value),
            _ => format!("{:.1} °C", self.value as f64 / 1e3),
        };
        let missing: Vec<String> = self
            .not_by
            .iter()
            .map(|unsaid| format!("{}: {}", unsaid.name, unsaid.reason))
            .collect();
        let missing = missing.join("; ");
        let predicted = match self.limit.as_str() {
            "power" => "; at most what plans are predicted to draw counts",
            _ => "",
        };
        Some(if !self.enforceable {
            format!(
                "the limit of {} of {value} cannot be enforced: no sensor says it ({missing}){predicted}",
                self.limit
            )
        } else {
            format!(
                "the limit of {} of {value} is held by {} only ({missing})",
                self.limit,
                self.held_by.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use polychip::telemetry::{DeviceState, Heat};

    use super::*;

    fn figure(value: Option<i64>) -> Figure {
        Figure {
            value,
            from: if value.is_some() { "a sensor" } else { "no sensor" }.to_owned(),
        }
    }

    /// Devices with their temperature, power and energy.
    fn sample(devices: &[(&str, [Option<i64>; 3])]) -> Sample {
        let state = |(device, [heat, power, energy]): &(&str, [Option<i64>; 3])| DeviceState {
            device: (*device).to_owned(),
            emulated: false,
            lost: false,
            temperature_mc: figure(*heat),
            power_mw: figure(*power),
            energy_uj: figure(*energy),
            frequency_khz: figure(None),
            allowed_khz: figure(None),
            load_permille: figure(None),
            others_permille: figure(None),
            throttle: figure(None),
        };
        Sample {
            time_ns: 0,
            devices: devices.iter().map(state).collect(),
            battery: None,
            heat: Heat {
                status: figure(None),
                headroom_permille: figure(None),
            },
            surface_mc: figure(None),
            package_mc: figure(None),
        }
    }

    fn words(sample: &Sample) -> Vec<Option<String>> {
        let limits = Limits {
            power: Some(Milliwatts::new(5_000)),
            temperature: Some(MilliCelsius::from_celsius(80.0)),
            surface: Some(MilliCelsius::from_celsius(42.0)),
        };
        limits.judge(sample).iter().map(LimitLine::words).collect()
    }

    #[test]
    fn a_limit_that_no_sensor_says_cannot_be_enforced() {
        let said = words(&sample(&[("cpu:0", [None, None, None])]));
        for (said, word) in
            said.iter()
                .zip(["power of 5.0 W", "temperature of 80.0 °C", "surface of 42.0 °C"])
        {
            let said = said.as_deref().unwrap();
            assert!(
                said.contains(word) && said.contains("cannot be enforced"),
                "{said}"
            );
            assert!(said.contains("no sensor"), "{said}");
        }
        assert!(Limits::default().judge(&sample(&[])).is_empty());
    }

    #[test]
    fn a_limit_that_some_devices_say_names_the_others() {
        // the power of the first comes after a second of its energy
        let some = sample(&[
            ("gpu:0", [Some(61_000), None, Some(7)]),
            ("cpu:0", [Some(50_000), None, None]),
        ]);
        let said = words(&some);
        let power = said[0].as_deref().unwrap();
        assert!(power.contains("held by gpu:0 only (cpu:0: no sensor)"), "{power}");
        assert_eq!(said[1], None);
    }
}

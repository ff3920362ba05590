//! Limits that sensors can verify, and limits that they cannot.
//!
//! Invariant: a limit without a sensor is reported as unenforceable on the dashboard, in text and in JSON, and never
//! as met.

use polychip::telemetry::{Figure, Sample};
use polychip::{MilliCelsius, Milliwatts};
use schemars::JsonSchema;
use serde::Serialize;

use super::words::in_watts;

/// A requested limit and its sensors.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct LimitLine {
    /// `power`, `temperature` or `surface`.
    pub(super) limit: String,
    /// The limit, in milliwatts or thousandths of a degree Celsius.
    pub(super) value: i64,
    /// Sources of the figure: devices, or `surface`.
    pub(super) held_by: Vec<String>,
    /// Devices without the figure, and the reason.
    pub(super) not_by: Vec<Unsaid>,
    /// Whether a sensor measures it; otherwise the limit cannot be enforced.
    pub(super) enforceable: bool,
}

/// A figure without a sensor.
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
            "power" => "; only the plans' predicted power counts",
            _ => "",
        };
        Some(if !self.enforceable {
            format!(
                "the {} limit of {value} cannot be enforced: no sensor measures it ({missing}){predicted}",
                self.limit
            )
        } else {
            format!(
                "the {} limit of {value} is enforced on {} only ({missing})",
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
    fn limit_without_a_sensor_is_unenforceable() {
        let said = words(&sample(&[("cpu:0", [None, None, None])]));
        for (said, word) in said.iter().zip([
            "power limit of 5.0 W",
            "temperature limit of 80.0 °C",
            "surface limit of 42.0 °C",
        ]) {
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
    fn partly_measured_limit_names_the_unmeasured_devices() {
        // the power of the first comes after a second of its energy
        let some = sample(&[
            ("gpu:0", [Some(61_000), None, Some(7)]),
            ("cpu:0", [Some(50_000), None, None]),
        ]);
        let said = words(&some);
        let power = said[0].as_deref().unwrap();
        assert!(
            power.contains("enforced on gpu:0 only (cpu:0: no sensor)"),
            "{power}"
        );
        assert_eq!(said[1], None);
    }
}

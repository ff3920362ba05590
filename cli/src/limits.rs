//! Options that limit a plan: its time, its mean power, and how warm devices get.

use std::time::Duration;

use polychip::{Heat, MilliCelsius, Milliwatts, Policy};

/// What a plan must not exceed, where any plan can.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArguments {
    /// Longest predicted time of a run in milliseconds (`33` or `33ms`)
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    deadline: Option<Duration>,
    /// Highest mean power of runs that follow each other in watts (`5` or `5W`); devices whose energy nobody states are
    /// then not used
    #[arg(long, value_name = "WATTS", value_parser = watts)]
    max_power: Option<Milliwatts>,
    /// Highest temperature in degrees Celsius that a device may settle at while runs follow each other, where `--heat`
    /// says how it warms
    #[arg(long, value_name = "CELSIUS", value_parser = celsius)]
    max_temperature: Option<MilliCelsius>,
    /// Leave out devices that are hotter now, in degrees Celsius
    #[arg(long, value_name = "CELSIUS", value_parser = celsius)]
    hottest: Option<MilliCelsius>,
    /// How a device warms: where it settles at rest, and its thermal resistance (`npu:0=30C+9K/W`); may be given several
    /// times
    #[arg(long, value_name = "DEVICE=CELSIUS+KELVIN/W", value_parser = heat)]
    heat: Vec<(String, Heat)>,
}

impl LimitArguments {
    /// The same policy within these limits.
    pub(crate) fn limited(&self, mut policy: Policy) -> Policy {
        if let Some(deadline) = self.deadline {
            policy = policy.deadline(deadline);
        }
        if let Some(limit) = self.max_power {
            policy = policy.power_limit(limit);
        }
        if let Some(limit) = self.max_temperature {
            policy = policy.temperature_limit(limit);
        }
        if let Some(limit) = self.hottest {
            policy = policy.max_temperature(limit);
        }
        let heats = self.heat.iter();
        heats.fold(policy, |policy, (device, heat)| policy.heat(device, *heat))
    }
}

/// Reads `300` or `300W`.
pub(crate) fn watts(text: &str) -> Result<Milliwatts, String> {
    let number = text.trim_end_matches(['W', 'w']).trim();
    match number.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1e6 => Ok(Milliwatts::new((value * 1e3).round() as u64)),
        _ => Err(format!("{text:?} is no power; write 300 or 300W")),
    }
}

/// Reads `80` or `80C`.
pub(crate) fn celsius(text: &str) -> Result<MilliCelsius, String> {
    let number = text.trim_end_matches(['C', 'c', '°']).trim();
    match number.parse::<f64>() {
        Ok(value) if (-50.0..=200.0).contains(&value) => Ok(MilliCelsius::from_celsius(value)),
        _ => Err(format!("{text:?} is no temperature; write 80 or 80C")),
    }
}

/// Reads `33` or `33ms`.
pub(crate) fn milliseconds(text: &str) -> Result<Duration, String> {
    let number = text.strip_suffix("ms").unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1e9 => Ok(Duration::from_secs_f64(value / 1e3)),
        _ => Err(format!("{text:?} is no time; write 33 or 33ms")),
    }
}

/// Reads `DEVICE=CELSIUS+KELVIN/W`.
fn heat(text: &str) -> Result<(String, Heat), String> {
    let shape = || format!("{text:?} says not how a device warms; write npu:0=30C+9K/W");
    let (device, figures) = text.rsplit_once('=').ok_or_else(shape)?;
    let (rest, rise) = figures.split_once('+').ok_or_else(shape)?;
    let rise = rise.strip_suffix("K/W").unwrap_or(rise).trim();
    let resistance = match rise.parse::<f64>() {
        Ok(value) if (0.0..=1e6).contains(&value) => (value * 1e3).round() as u64,
        _ => return Err(shape()),
    };
    let heat = Heat {
        rest: celsius(rest)?,
        resistance_mk_per_w: resistance,
    };
    match device.is_empty() {
        true => Err(shape()),
        false => Ok((device.to_owned(), heat)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_numbers_with_or_without_their_unit() {
        assert_eq!(watts("5W"), watts("5"));
        assert_eq!(watts("0.25").unwrap().milliwatts(), 250);
        assert_eq!(milliseconds("33.5ms"), Ok(Duration::from_micros(33_500)));
        let (device, heat) = super::heat("npu:0=30C+9.5K/W").unwrap();
        assert_eq!((device.as_str(), heat.resistance_mk_per_w), ("npu:0", 9_500));
        assert_eq!(heat.rest.millidegrees(), 30_000);
        for bad in ["npu:0", "npu:0=30C", "=30C+9K/W", "npu:0=30C+-1K/W", "npu:0=x+9"] {
            assert!(super::heat(bad).is_err(), "{bad}");
        }
        assert!(milliseconds("0").is_err() && watts("-1").is_err() && celsius("1000").is_err());
    }
}

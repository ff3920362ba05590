//! Options that limit a plan's time, mean power and device temperatures.

use std::time::Duration;

use polychip::settings::{celsius, heat, milliseconds, watts};
use polychip::{Heat, MilliCelsius, Milliwatts, Policy};

/// Limits that a plan must meet, if any plan can.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArguments {
    /// Maximum predicted time of a run in milliseconds (`33` or `33ms`)
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    deadline: Option<Duration>,
    /// Maximum mean power of consecutive runs in watts (`5` or `5W`); a device without measurements counts with its
    /// stated maximum draw
    #[arg(long, value_name = "WATTS", value_parser = watts)]
    max_power: Option<Milliwatts>,
    /// Maximum steady-state temperature of a device under consecutive runs, in degrees Celsius; needs the device's
    /// `--heat`
    #[arg(long, value_name = "CELSIUS", value_parser = celsius)]
    max_temperature: Option<MilliCelsius>,
    /// Exclude devices hotter than this, in degrees Celsius, now and while a session runs
    #[arg(long, value_name = "CELSIUS", value_parser = celsius)]
    hottest: Option<MilliCelsius>,
    /// Thermal model of a device: idle temperature and thermal resistance, such as `npu:0=30C+9K/W`; repeatable
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

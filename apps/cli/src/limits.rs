//! Options that limit a plan: its time, its mean power, and how warm devices get.

use std::time::Duration;

use polychip::settings::{celsius, heat, milliseconds, watts};
use polychip::{Heat, MilliCelsius, Milliwatts, Policy};

/// What a plan must not exceed, where any plan can.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArguments {
    /// Longest predicted time of a run in milliseconds (`33` or `33ms`)
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    deadline: Option<Duration>,
    /// Highest mean power of runs that follow each other in watts (`5` or `5W`), held against the most that devices may
    /// draw where nobody measured it
    #[arg(long, value_name = "WATTS", value_parser = watts)]
    max_power: Option<Milliwatts>,
    /// Highest temperature in degrees Celsius that a device may settle at while runs follow each other, where `--heat`
    /// says how it warms
    #[arg(long, value_name = "CELSIUS", value_parser = celsius)]
    max_temperature: Option<MilliCelsius>,
    /// Leave out devices that are hotter, in degrees Celsius: now, and while a session runs
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

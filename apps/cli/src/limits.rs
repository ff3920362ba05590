//! Options that limit a plan: its time, its mean power, and how warm devices get.

use std::convert::Infallible;
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
    max_predicted_power: Option<Milliwatts>,
    /// Highest temperature in degrees Celsius that a device may settle at while runs follow each other, where `--heat`
    /// says how it warms
    #[arg(long, value_name = "CELSIUS", value_parser = celsius)]
    max_predicted_temperature: Option<MilliCelsius>,
    /// Leave out devices that are hotter, in degrees Celsius: now, and while a session runs
    #[arg(long, value_name = "CELSIUS", value_parser = celsius)]
    max_temperature: Option<MilliCelsius>,
    #[command(flatten)]
    _renamed: RenamedLimits,
    /// How a device warms: where it settles at rest, and its thermal resistance (`npu:0=30C+9K/W`); may be given several
    /// times
    #[arg(long, value_name = "DEVICE=CELSIUS+KELVIN/W", value_parser = heat)]
    heat: Vec<(String, Heat)>,
}

/// Former names of options, which answer with the current one.
#[derive(Debug, clap::Args)]
struct RenamedLimits {
    #[arg(long = "max-power", hide = true, value_parser = |_: &str| renamed("--max-predicted-power"))]
    _max_power: Option<Infallible>,
    #[arg(long = "hottest", hide = true, value_parser = |_: &str| renamed("--max-temperature"))]
    _hottest: Option<Infallible>,
}

/// The error of an option that has another name now.
pub(crate) fn renamed(name: &str) -> Result<Infallible, String> {
    Err(format!("this option is now {name}"))
}

impl LimitArguments {
    /// The same policy within these limits.
    pub(crate) fn limited(&self, mut policy: Policy) -> Policy {
        if let Some(deadline) = self.deadline {
            policy = policy.deadline(deadline);
        }
        if let Some(limit) = self.max_predicted_power {
            policy = policy.max_predicted_power(limit);
        }
        if let Some(limit) = self.max_predicted_temperature {
            policy = policy.max_predicted_temperature(limit);
        }
        if let Some(limit) = self.max_temperature {
            policy = policy.max_temperature(limit);
        }
        let heats = self.heat.iter();
        heats.fold(policy, |policy, (device, heat)| policy.heat(device, *heat))
    }
}

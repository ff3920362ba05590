//! Options that limit a plan's time, mean power and device temperatures.

use std::convert::Infallible;
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
    /// Maximum predicted mean power of consecutive runs in watts (`5` or `5W`); a device without
    /// measured energy counts with the upper bound of its modelled power
    #[arg(long, value_name = "WATTS", value_parser = watts)]
    max_predicted_power: Option<Milliwatts>,
    /// Maximum predicted steady-state temperature of a device under consecutive runs, in degrees Celsius; needs the device's
    /// `--heat`
    #[arg(long, value_name = "CELSIUS", value_parser = celsius)]
    max_predicted_temperature: Option<MilliCelsius>,
    /// Exclude devices hotter than this, in degrees Celsius, now and while a session runs
    #[arg(long, value_name = "CELSIUS", value_parser = celsius)]
    max_temperature: Option<MilliCelsius>,
    #[command(flatten)]
    _renamed: RenamedLimits,
    /// Thermal model of a device: idle temperature and thermal resistance, such as `npu:0=30C+9K/W`; repeatable
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

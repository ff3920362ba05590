//! Arguments of `polychip serve-sim`.

use std::path::PathBuf;

use polychip::settings::milliseconds;

use crate::setup::RuntimeArguments;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// TOML file of the models that share devices (docs/several-models.md)
    #[arg(value_name = "SET")]
    pub(super) file: PathBuf,
    /// Simulated seconds in which runs arrive; with `--real`, seconds of this machine
    #[arg(long, value_name = "S", default_value_t = 60.0, value_parser = seconds)]
    pub(super) seconds: f64,
    /// Run the models as sessions of one runtime, with their periods, priorities and deadlines, instead of simulating
    /// them; every model needs a path
    #[arg(long)]
    pub(super) real: bool,
    /// Arrivals of runs
    #[arg(long, value_enum, default_value_t = Arriving::Sporadic)]
    pub(super) arrivals: Arriving,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// Maximum part length in milliseconds, without the launch: split longer parts, overriding the file
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub(super) max_part: Option<std::time::Duration>,
    /// Exit with code 1 if the set is refused or a run is late; repeatable
    #[arg(long, value_enum)]
    pub(super) fail_on: Vec<Gate>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) runtime: RuntimeArguments,
}

/// How runs come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Arriving {
    /// All models at 0, then once per period
    Periodic,
    /// At random intervals, no shorter than their periods
    Sporadic,
}

/// What fails the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Gate {
    /// The set is not admitted
    Refused,
    /// A run ended after its deadline
    Missed,
}

/// Reads a number of seconds.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1e5 => Ok(value),
        _ => Err(format!(
            "invalid time {text:?}: expected seconds above 0 and up to 100000"
        )),
    }
}

//! Arguments of `polychip energy`.

use std::time::Duration;

use crate::input::InputArguments;
use crate::setup::{ModelArguments, PlanArguments};

/// Clocks and averages of sensors settle for so long before runs count, and before idle counts.
pub(super) const SETTLE: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) model: ModelArguments,
    #[command(flatten)]
    pub(super) inputs: InputArguments,
    /// Seconds to run each candidate; use at least 10 for published figures, because sensors update at most ten times
    /// a second
    #[arg(long, value_name = "N", default_value_t = 10.0, value_parser = seconds)]
    pub(super) seconds: f64,
    /// Idle seconds before and after each candidate
    #[arg(long, value_name = "N", default_value_t = 5.0, value_parser = seconds)]
    pub(super) idle: f64,
    /// Seconds for clocks and sensors to settle before runs or idle time count
    #[arg(long, value_name = "N", default_value_t = SETTLE.as_secs_f64(), value_parser = seconds)]
    pub(super) settle: f64,
    /// Blocks that a candidate's time is split into to compute the interval
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=100))]
    pub(super) blocks: u32,
    /// Runs in flight; each number is a separate candidate
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,4", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) lanes: Vec<u32>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) plan: PlanArguments,
}

/// Reads a number of seconds.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=86_400.0).contains(&value) => Ok(value),
        _ => Err(format!("invalid time {text:?}: expected seconds from 0 to 86400")),
    }
}

//! `polychip serve-sim`: whether models that share devices meet their deadlines, with the proof, and what happens on virtual
//! time, or with `--real` on this machine.
//!
//! Invariants:
//! 1. The verdict comes from the test alone; the simulation and the real runs show, they prove nothing.
//! 2. All times of the verdict are stated, predicted or from the profile, and the output names
//!    their origin. Without `--real` nothing runs.

mod output;
mod real;
mod set;

use std::path::PathBuf;

use anyhow::Context as _;
use polychip::settings::milliseconds;
use polychip_device_queue::{Pattern, Scenario, TaskSet, admit, deadlines_of, simulate};

use crate::exit::{Code, bad_input, failure, usage};
use crate::output::Output;
use crate::setup::RuntimeArguments;

pub(crate) use output::ServeSimOutput;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// TOML file of the models that share devices (docs/several-models.md)
    #[arg(value_name = "SET")]
    file: PathBuf,
    /// Simulated seconds in which runs arrive; with `--real`, seconds of this machine
    #[arg(long, value_name = "S", default_value_t = 60.0, value_parser = seconds)]
    seconds: f64,
    /// Run the models as sessions of one runtime, with their periods, priorities and deadlines, instead of simulating
    /// them; every model needs a path
    #[arg(long)]
    real: bool,
    /// Arrivals of runs
    #[arg(long, value_enum, default_value_t = Arriving::Sporadic)]
    arrivals: Arriving,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Maximum part length in milliseconds, without the launch: split longer parts, overriding the file
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    max_part: Option<std::time::Duration>,
    /// Exit with code 1 if the set is refused or a run is late; repeatable
    #[arg(long, value_enum)]
    fail_on: Vec<Gate>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    runtime: RuntimeArguments,
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
enum Gate {
    /// The set is not admitted
    Refused,
    /// A run ended after its deadline
    Missed,
}

/// Reads a number of seconds.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1e5 => Ok(value),
        _ => Err(format!(
            "invalid time {text:?}: expected seconds above 0 and up to 100000"
        )),
    }
}

/// Parts that are simulated at most: a minute or so.
const MOST_PARTS: u64 = 100_000_000;

/// Parts that come in so long.
fn parts(set: &TaskSet, until_ns: u64) -> u64 {
    let each = set.tasks.iter().map(|task| {
        let every = task.sporadic().map_or(task.time_ns(), |(period, _)| period);
        (until_ns / every.max(1) + 1).saturating_mul(task.parts.len() as u64)
    });
    each.fold(0, u64::saturating_add)
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    let max_part = arguments.max_part.map(|longest| longest.as_secs_f64() * 1e3);
    let mut read = set::read(&arguments.file, &arguments.runtime, max_part)?;
    let scenario = Scenario {
        seed: arguments.seed,
        until_ns: (arguments.seconds * 1e9) as u64,
        keep_times: true,
        ..Scenario::of(match arguments.arrivals {
            Arriving::Periodic => Pattern::Periodic,
            Arriving::Sporadic => Pattern::Sporadic,
        })
    };
    let admission = admit(&read.set).map_err(bad_input)?;
    let outcome = if arguments.real {
        real::run(&mut read, &scenario).with_context(|| arguments.file.display().to_string())?
    } else {
        let parts = parts(&read.set, scenario.until_ns);
        if parts > MOST_PARTS {
            return Err(usage(format!(
                "--seconds {}: about {parts} parts would arrive; the maximum is {MOST_PARTS}",
                arguments.seconds
            )));
        }
        simulate(&read.set, &deadlines_of(&read.set, &admission), &scenario)
    };
    let answer = ServeSimOutput::of(&arguments.file, &read, &admission, &outcome, arguments, &scenario)?;
    let mut failed = Vec::new();
    if arguments.fail_on.contains(&Gate::Refused) && !answer.admitted {
        failed.push("the set is refused (--fail-on refused)".to_owned());
    }
    if arguments.fail_on.contains(&Gate::Missed) && answer.misses() > 0 {
        failed.push(format!("{} runs were late (--fail-on missed)", answer.misses()));
    }
    if arguments.json {
        out.json(&answer)?
    } else {
        out.text(&answer.to_string())?
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(failure(Code::Differs, failed.join("; ")))
    }
}

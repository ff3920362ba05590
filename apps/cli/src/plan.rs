//! `polychip plan`: plans as files. `diff` reports the changes between two plans, and can fail on
//! some.
//!
//! Invariant: no model, plugin or device is needed: a plan's file records what the devices offered.

use std::path::{Path, PathBuf};

use polychip_partitioner::{Plan, PlanDiff, diff};
use schemars::JsonSchema;
use serde::Serialize;

use crate::exit::{Code, bad_input, failure};
use crate::file;
use crate::output::Output;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Compare two plans: which nodes moved, why, and at what cost
    Diff(DiffArguments),
}

#[derive(Debug, clap::Args)]
struct DiffArguments {
    /// Old plan or lock file
    old: PathBuf,
    /// New plan or lock file
    new: PathBuf,
    /// Exit with code 1 if a node moved to another device, or if the objective grew by more than PERCENT (default:
    /// 0); repeatable
    #[arg(long, value_name = "moved|dearer[=PERCENT]", value_parser = gate)]
    fail_on: Vec<Gate>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What fails a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    /// A node is on another device.
    Moved,
    /// The objective grew by more than so many millionths.
    Dearer(i64),
}

/// Reads `moved` or `dearer[=PERCENT]`.
fn gate(text: &str) -> Result<Gate, String> {
    let percent = match text.split_once('=') {
        None if text == "moved" => return Ok(Gate::Moved),
        None if text == "dearer" => "0",
        Some(("dearer", percent)) => percent,
        _ => return Err("write moved, dearer or dearer=PERCENT".into()),
    };
    match percent.parse::<f64>() {
        // a thousand times as much is no gate any more
        Ok(value) if (0.0..=100_000.0).contains(&value) => {
            Ok(Gate::Dearer((value * 10_000.0).round() as i64))
        }
        _ => Err(format!(
            "invalid percentage {percent:?}: expected a number from 0 to 100000"
        )),
    }
}

/// Output of `plan diff --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PlanDiffOutput {
    /// File of the old plan.
    old: String,
    /// File of the new plan.
    new: String,
    /// What changed.
    #[serde(flatten)]
    diff: PlanDiff,
    /// Failed `--fail-on` gates as text; if there is any, the exit code is 1.
    failed: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    let Command::Diff(arguments) = &arguments.command;
    let diff = diff(&read(&arguments.old)?, &read(&arguments.new)?);
    let failed: Vec<String> = arguments
        .fail_on
        .iter()
        .filter_map(|gate| gate.trips(&diff))
        .collect();
    let words = failed.join("; ");
    if arguments.json {
        out.json(&PlanDiffOutput {
            old: arguments.old.display().to_string(),
            new: arguments.new.display().to_string(),
            diff,
            failed,
        })?;
    } else {
        out.text(&diff.to_string())?;
    }
    if words.is_empty() {
        Ok(())
    } else {
        Err(failure(Code::Differs, words))
    }
}

/// Reads a plan's file.
pub(crate) fn read(path: &Path) -> anyhow::Result<Plan> {
    Plan::from_json(&file::read_text(path)?)
        .map_err(|error| bad_input(format!("{}: not a plan: {error}", path.display())))
}

/// The lock file of a model: its plan, kept beside it.
pub(crate) fn lock_of(model: &Path) -> PathBuf {
    let mut name = model.as_os_str().to_owned();
    name.push(".plan.lock");
    name.into()
}

impl Gate {
    /// Why the comparison fails, if so.
    fn trips(self, diff: &PlanDiff) -> Option<String> {
        match (self, diff.dearer_ppm) {
            (Gate::Moved, _) => (!diff.moved.is_empty()).then(|| {
                format!(
                    "{} of {} nodes moved (--fail-on moved)",
                    diff.moved.len(),
                    diff.nodes
                )
            }),
            (Gate::Dearer(_), None) => {
                Some("unknown whether the new plan costs more (--fail-on dearer)".to_owned())
            }
            (Gate::Dearer(limit), Some(ppm)) => (ppm > limit).then(|| {
                let percent = |ppm: i64| ppm as f64 / 10_000.0;
                format!(
                    "the new plan costs {:.2} % more; the limit is {} % (--fail-on dearer)",
                    percent(ppm),
                    percent(limit)
                )
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_moved_or_dearer_with_a_limit() {
        assert_eq!(gate("moved"), Ok(Gate::Moved));
        assert_eq!(gate("dearer"), Ok(Gate::Dearer(0)));
        assert_eq!(gate("dearer=2.5"), Ok(Gate::Dearer(25_000)));
        for bad in [
            "",
            "move",
            "moved=1",
            "dearer=",
            "dearer=x",
            "dearer=-1",
            "dearer=nan",
            "dearer=1e9",
        ] {
            assert!(gate(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn lock_file_is_next_to_its_model() {
        assert_eq!(lock_of(Path::new("a/m.onnx")), Path::new("a/m.onnx.plan.lock"));
    }
}

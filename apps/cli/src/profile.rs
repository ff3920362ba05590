//! `polychip profile`: measures models and what they consist of, and keeps, merges and compares what was measured.
//!
//! Invariants:
//! 1. Everything that an app could want is the library's; here are the command line, the words and the files.
//! 2. Every batch is stored before the next begins. Ctrl-C loses at most one, and the next call
//!    resumes.

pub(crate) mod exchange;
pub(crate) mod show;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use polychip::{Model, ProfileOptions, ProfileProgress, ProfileReport};
use schemars::JsonSchema;
use serde::Serialize;

use crate::exit::usage;
use crate::output::Output;
use crate::progress::Progress;
use crate::setup::{PlanArguments, dimension};

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    measure: MeasureArguments,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the measurements, the provenance of each figure, and the predictions from them
    #[command(alias = "list")]
    Show(show::Arguments),
    /// Write a profile database as JSON
    Export(exchange::ExportArguments),
    /// Add a JSON profile to a profile database
    Import(exchange::ImportArguments),
    /// Add profiles to a profile database
    Merge(exchange::MergeArguments),
    /// Compare two profiles: which parts became slower or faster
    Diff(exchange::DiffArguments),
}

#[derive(Debug, clap::Args)]
struct MeasureArguments {
    /// ONNX models; with --ops and no model, a built-in list of ops and shapes
    #[arg(required_unless_present = "ops")]
    models: Vec<PathBuf>,
    /// Set the size of a named dimension
    #[arg(long = "dim", value_name = "NAME=N", value_parser = dimension)]
    dims: Vec<(String, usize)>,
    /// Set the shape of an input, and with it the model's open dimensions
    #[arg(long = "shape", value_name = "INPUT=1x3x48x192", value_parser = crate::setup::shape)]
    shapes: Vec<(String, Vec<usize>)>,
    /// Also measure the models' fusion groups and single nodes
    #[arg(long)]
    ops: bool,
    /// With --ops: skip whole models and the parts of plans
    #[arg(long, requires = "ops")]
    no_wholes: bool,
    /// Stop after this many seconds; the next call continues
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    time: Option<Duration>,
    /// Measure a part until the 95 % confidence interval of its median is within this percentage of the median
    #[arg(long, value_name = "PERCENT", default_value_t = 3.0, value_parser = percent)]
    precision_goal: f64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    plan: PlanArguments,
}

/// Reads a number of seconds.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1e7 => Ok(Duration::from_secs_f64(value)),
        _ => Err(format!(
            "invalid time {text:?}: expected seconds above 0 and up to 10000000"
        )),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.01..=100.0).contains(&value) => Ok(value),
        _ => Err(format!(
            "invalid percentage {text:?}: expected a number from 0.01 to 100"
        )),
    }
}

/// Output of `profile --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ProfileOutput {
    /// Model files; without any, the names of the program's own networks.
    models: Vec<String>,
    /// The profile with the measurements.
    profile: String,
    /// What was measured.
    #[serde(flatten)]
    report: ProfileReport,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    match &arguments.command {
        None => measure(&arguments.measure, out),
        Some(Command::Show(arguments)) => show::run(arguments, out),
        Some(Command::Export(arguments)) => exchange::export(arguments, out),
        Some(Command::Import(arguments)) => exchange::import(arguments, out),
        Some(Command::Merge(arguments)) => exchange::merge(arguments, out),
        Some(Command::Diff(arguments)) => exchange::diff(arguments, out),
    }
}

fn measure(arguments: &MeasureArguments, out: &mut Output) -> anyhow::Result<()> {
    let Some(profile) = &arguments.plan.runtime.profile else {
        return Err(usage(
            "no profile given: name the file for the measurements with --profile FILE",
        ));
    };
    if arguments.plan.runtime.has_bundle_for_profile() {
        return Err(usage(format!(
            "{} is a bundle, which is read only: name a database for the measurements with --profile FILE, and the bundle \
             with --bundle",
            profile.display()
        )));
    }
    let runtime = arguments.plan.measuring_runtime()?;
    let mut models = Vec::with_capacity(arguments.models.len());
    {
        let _progress = Progress::of("reading the models");
        for path in &arguments.models {
            let model = runtime.load(path)?;
            let own = |(name, _): &&(String, usize)| model.open_dims().contains(name);
            let dims: Vec<(String, usize)> = arguments.dims.iter().filter(own).cloned().collect();
            let bound: Model = model.bind(dims)?;
            let own = |(name, _): &&(String, Vec<usize>)| bound.graph().input_named(name).is_some();
            let shapes = arguments.shapes.iter().filter(own);
            models.push(bound.bind_shapes(shapes.map(|(name, shape)| (name, shape)))?);
        }
    }
    if models.is_empty() {
        models = Model::signatures()?;
    }
    let options = ProfileOptions {
        ops: arguments.ops,
        wholes: !arguments.no_wholes,
        time: arguments.time,
        goal: arguments.precision_goal / 100.0,
    };
    let progress = Progress::told("what is known");
    let mut watch = |at: &ProfileProgress<'_>| {
        let left = at
            .left
            .map_or_else(String::new, |left| format!(", {} s left", left.as_secs()));
        progress.at(at.done, at.total, format!("{} on {}{left}", at.part, at.device));
        ControlFlow::Continue(())
    };
    let report = runtime.profile_models(&models, &arguments.plan.policy(), &options, &mut watch)?;
    drop(progress);
    if let Some(words) = runtime.profile().trouble() {
        return Err(anyhow::anyhow!("the measurements are not stored: {words}"));
    }
    let answer = ProfileOutput {
        models: models
            .iter()
            .map(|model| model.path().display().to_string())
            .collect(),
        profile: profile.display().to_string(),
        report,
    };
    if arguments.json {
        out.json(&answer)
    } else {
        out.text(&answer.to_string())
    }
}

impl std::fmt::Display for ProfileOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let report = &self.report;
        for one in &report.not_measured {
            writeln!(f, "not measured: {} on {}: {}", one.part, one.device, one.reason)?;
        }
        writeln!(
            f,
            "{} of {} parts are known precisely enough, {} of them before; recorded {} runs in {:.1} s in {}",
            report.known,
            report.parts,
            report.known_before,
            report.measurements,
            report.took_ns as f64 / 1e9,
            self.profile
        )?;
        if report.unsteady > 0 {
            writeln!(
                f,
                "{} batches were measured before the device's times were steady; they are used only if there are no \
                 others",
                report.unsteady
            )?;
        }
        if let Some(ppm) = report.widest_ppm {
            writeln!(
                f,
                "widest interval: within {:.1} % of its median",
                ppm as f64 / 1e4
            )?;
        }
        f.write_str(if report.complete {
            "nothing left to measure"
        } else {
            "the time is up; run the same command again to continue"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn out_of_range_times_and_goals_are_rejected() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(percent("2.5"), Ok(2.5));
        for bad in ["", "0", "-1", "x", "nan", "inf", "1e9"] {
            assert!(seconds(bad).is_err(), "{bad}");
            assert!(percent(bad).is_err(), "{bad}");
        }
    }
}

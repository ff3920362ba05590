//! `polychip profile show`: what was measured, where each figure comes from.

use std::path::PathBuf;

use polychip::bundle::PublicKey;
use polychip::{DevicePrediction, MeasuredEnergy, PartSummary};
use polychip_partitioner::Time;
use schemars::JsonSchema;
use serde::Serialize;

use super::exchange::opened;
use crate::exit::usage;
use crate::output::Output;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Profile database, or a bundle with --trust; same as `--profile`
    file: Option<PathBuf>,
    /// Profile database, or a bundle with --trust
    #[arg(long, value_name = "FILE", conflicts_with = "file", help_heading = "Devices")]
    profile: Option<PathBuf>,
    /// Trust bundles signed with this public key; repeatable
    #[arg(long, value_name = "KEY")]
    trust: Vec<PublicKey>,
    /// Show only parts on devices whose identity contains this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    device: String,
    /// Show each measured whole model's prediction from the other measurements, its error, and the regression models
    /// used
    #[arg(long)]
    fit: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Output of `profile show --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ProfileShowOutput {
    /// The database.
    profile: String,
    /// Measured parts, by device, operating point and time.
    parts: Vec<PartSummary>,
    /// With `--fit`: predictions on each device.
    predictions: Vec<DevicePrediction>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    let Some(path) = arguments.file.as_ref().or(arguments.profile.as_ref()) else {
        return Err(usage("no profile given: name one with --profile FILE"));
    };
    let profile = opened(path, &arguments.trust)?;
    let mut parts = profile.parts()?;
    parts.retain(|part| part.device.contains(&arguments.device));
    let mut predictions = if arguments.fit {
        profile.predictions()?
    } else {
        Vec::new()
    };
    predictions.retain(|one| one.device.contains(&arguments.device));
    let answer = ProfileShowOutput {
        profile: path.display().to_string(),
        parts,
        predictions,
    };
    if arguments.json {
        out.json(&answer)
    } else {
        out.text(&answer.to_string())
    }
}

/// Nanoseconds, with the error in per cent where there is one.
fn predicted(ns: Option<u64>, ppm: Option<i64>) -> String {
    match (ns, ppm) {
        (Some(ns), Some(ppm)) => format!("{} ({:+.1} %)", Time::from_nanoseconds(ns), ppm as f64 / 1e4),
        _ => "not predicted".to_owned(),
    }
}

/// An energy in millijoules, with its interval and its sensor.
fn energy(energy: &MeasuredEnergy) -> String {
    let mj = |uj: u64| format!("{:.3} mJ", uj as f64 / 1e3);
    let mut words = format!(", {}", mj(energy.energy_uj));
    if let Some([low, high]) = energy.interval_uj {
        words += &format!(" ({} to {})", mj(low), mj(high));
    }
    if !energy.sensor.is_empty() {
        words += &format!(" by {}", energy.sensor);
    }
    words
}

fn write_prediction(f: &mut std::fmt::Formatter<'_>, one: &DevicePrediction) -> std::fmt::Result {
    let percent = |ppm: u64| ppm as f64 / 1e4;
    writeln!(
        f,
        "{} {}: each model predicted from the others",
        one.device, one.operating_point
    )?;
    for model in &one.models {
        writeln!(
            f,
            "  {}: {} measured{}, {} composed, {} by regression",
            model.model,
            Time::from_nanoseconds(model.measured_ns),
            model.repeated_ppm.map_or_else(String::new, |ppm| format!(
                " (repeats within {:.1} %)",
                percent(ppm)
            )),
            predicted(model.composed_ns, model.composed_ppm),
            predicted(model.fitted_ns, model.fitted_ppm),
        )?;
    }
    for (word, errors) in [
        ("composed", one.composed),
        ("by regression", one.fitted),
        ("repeated", one.repeated),
    ] {
        writeln!(
            f,
            "  {word}: median {:.1} %, p95 {:.1} %, over {} models",
            percent(errors.p50_ppm),
            percent(errors.p95_ppm),
            errors.models
        )?;
    }
    for model in &one.op_classes {
        writeln!(
            f,
            "  {}: {} ns per fusion group, {:.2} ps per multiply-add, {:.2} ps per byte, {:.2} ps per constant byte",
            model.op_class,
            model.group_ns,
            model.mac_fs as f64 / 1e3,
            model.byte_fs as f64 / 1e3,
            model.constant_fs as f64 / 1e3
        )?;
    }
    Ok(())
}

impl std::fmt::Display for ProfileShowOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let time = |ns: u64| Time::from_nanoseconds(ns).to_string();
        let mut heading = String::new();
        for part in &self.parts {
            let title = match part.operating_point.as_str() {
                "" => part.device.clone(),
                point => format!("{} at {point}", part.device),
            };
            if title != heading {
                writeln!(f, "{title}")?;
                heading = title;
            }
            let name = match part.part.as_str() {
                "" => &part.fingerprint[..12],
                words => words,
            };
            let interval = part.interval.map_or_else(String::new, |interval| {
                format!(
                    " (median within {} to {})",
                    time(interval.low_ns),
                    time(interval.high_ns)
                )
            });
            writeln!(
                f,
                "  {}{interval}, p10 {}, p90 {}{}, {} runs{} in {} of {} batches{}, {}: {name}",
                time(part.p50_ns),
                time(part.p10_ns),
                time(part.p90_ns),
                part.energy.as_ref().map_or_else(String::new, energy),
                part.used_samples,
                if part.emulated { " (emulated)" } else { "" },
                part.used_batches,
                part.batches,
                match part.conditions.as_str() {
                    "" => String::new(),
                    conditions => format!(" at {conditions}"),
                },
                part.sources.join(", "),
            )?;
        }
        for one in &self.predictions {
            write_prediction(f, one)?;
        }
        write!(f, "{} parts in {}", self.parts.len(), self.profile)
    }
}

//! `polychip profile show`: what was measured, where each figure comes from.

use std::path::PathBuf;

use polychip::{PartSummary, Profile};
use polychip_partitioner::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

use crate::exit::bad_input;
use crate::output::Output;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Database of measured times
    profile: PathBuf,
    /// Only parts on devices whose identity holds this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    device: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What `profile show --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Answer {
    /// The database.
    profile: String,
    /// Measured parts, by device, operating point and time.
    parts: Vec<PartSummary>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    let path = &arguments.profile;
    if !path.is_file() {
        return Err(bad_input(format!("{}: there is no such file", path.display())));
    }
    let mut parts = Profile::open(path)?.parts()?;
    parts.retain(|part| part.device.contains(&arguments.device));
    let answer = Answer {
        profile: path.display().to_string(),
        parts,
    };
    if arguments.json {
        out.json(&answer)
    } else {
        out.text(&answer.to_string())
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let time = |ns: u64| Nanos::from_nanoseconds(ns).to_string();
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
                "  {}{interval}, p10 {}, p90 {}, {} runs{}, {}: {name}",
                time(part.p50_ns),
                time(part.p10_ns),
                time(part.p90_ns),
                part.samples,
                if part.emulated { " (emulated)" } else { "" },
                part.sources.join(", "),
            )?;
        }
        write!(f, "{} parts in {}", self.parts.len(), self.profile)
    }
}

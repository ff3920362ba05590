//! `polychip farm report`: farm results for people and continuous integration.

use std::path::{Path, PathBuf};

use polychip_farm_results::compare::Options;
use polychip_farm_results::report::Snapshot;
use polychip_farm_results::{Report, Selection, compare};

use super::compare::{all, select};
use crate::exit::bad_input;
use crate::file;
use crate::output::Output;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Run folders, or folders of run folders, each a snapshot: the newest is shown, with the others as its history
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// Run folders to compare the newest snapshot with, as for `polychip farm compare`
    #[arg(long, value_name = "BASE")]
    against: Option<String>,
    /// Write a self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write CSV: the newest figures, a line per item and board type
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    let mut snapshots = Vec::with_capacity(arguments.runs.len());
    for folder in &arguments.runs {
        snapshots.push(snapshot(folder)?);
    }
    let newest = snapshots.iter().max_by(|a, b| a.order().cmp(&b.order()));
    let comparison = match (&arguments.against, newest) {
        (Some(base), Some(newest)) => Some(compare(&select(base)?, &newest.runs, &Options::default())),
        _ => None,
    };
    let report = Report::new(&snapshots, comparison);
    if let Some(path) = &arguments.html {
        file::write(path, report.html().as_bytes())?;
    }
    if let Some(path) = &arguments.junit {
        file::write(path, report.junit().map_err(bad_input)?.as_bytes())?;
    }
    if let Some(path) = &arguments.csv {
        file::write(path, report.csv().as_bytes())?;
    }
    if arguments.json {
        out.json(&report)
    } else {
        out.text(&report.to_string())
    }
}

/// The runs of a folder, called as the run or as the folder.
fn snapshot(folder: &Path) -> anyhow::Result<Snapshot> {
    let found = all(folder)?;
    let name = match &found[..] {
        [run] => run.header.id.clone(),
        _ => folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
    };
    let mut runs = Selection::new();
    for run in found {
        runs.add(run, None).map_err(bad_input)?;
    }
    Ok(Snapshot { name, runs })
}

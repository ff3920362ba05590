//! `polychip farm compare`: the gate of a pull request.

use std::path::{Path, PathBuf};

use polychip_farm_results::compare::Options;
use polychip_farm_results::{Comparison, Run, Selection, compare, is_of};
use schemars::JsonSchema;
use serde::Serialize;

use crate::exit::{Code, bad_input, failure, usage};
use crate::file;
use crate::output::Output;

/// Smallest change that matters where nothing is said, in per cent.
const RELEVANT: f64 = 2.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Run folders to compare with, separated by commas, or a folder of run folders. `@` and the first digits of a
    /// commit or runner hash select one build's measurements: runs/night@3f9c21
    #[arg(value_name = "BASE")]
    base: String,
    /// Run folders to judge, in the same form
    #[arg(value_name = "NEW")]
    new: String,
    /// Exit with code 1 if an item is slower by PERCENT or more (default: 2), or is newly unsupported or failing
    #[arg(long, value_name = "slower[=PERCENT]", value_parser = gate)]
    fail_on: Option<f64>,
    /// Also fail on times of emulated boards and devices
    #[arg(long, requires = "fail_on")]
    emulated: bool,
    /// Write a Markdown summary for a pull request
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write items that may be slower as JSON, for an alternating rerun, with the boards that measured them and the
    /// pairs needed to decide
    #[arg(long, value_name = "FILE")]
    suspects: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Reads `slower` or `slower=PERCENT`.
fn gate(text: &str) -> Result<f64, String> {
    let percent = match text.split_once('=') {
        None if text == "slower" => return Ok(RELEVANT),
        Some(("slower", percent)) => percent,
        _ => return Err("write slower or slower=PERCENT".into()),
    };
    match percent.parse::<f64>() {
        Ok(value) if (0.1..=1_000.0).contains(&value) => Ok(value),
        _ => Err(format!(
            "invalid percentage {percent:?}: expected a number from 0.1 to 1000"
        )),
    }
}

/// Output of `farm compare --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FarmCompareOutput {
    /// What changed.
    #[serde(flatten)]
    comparison: Comparison,
    /// Reason for exit code 1; null for exit code 0.
    failed: Option<String>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    let options = Options {
        relevant: arguments.fail_on.unwrap_or(RELEVANT) / 100.0,
        emulated: arguments.emulated,
        ..Options::default()
    };
    let (base, new) = (select(&arguments.base)?, select(&arguments.new)?);
    let comparison = compare(&base, &new, &options);
    let regressions = comparison.regressions().count();
    let failed = (arguments.fail_on.is_some() && regressions > 0).then(|| {
        let what = if regressions == 1 {
            "1 item is"
        } else {
            &format!("{regressions} items are")
        };
        format!("{what} slower, or newly unsupported or failing (--fail-on slower)")
    });
    if let Some(path) = &arguments.markdown {
        file::write(path, comparison.markdown().as_bytes())?;
    }
    if let Some(path) = &arguments.suspects {
        let text = serde_json::to_string_pretty(&comparison.suspects())?;
        file::write(path, (text + "\n").as_bytes())?;
    }
    if arguments.json {
        out.json(&FarmCompareOutput {
            comparison,
            failed: failed.clone(),
        })?
    } else {
        out.text(&comparison.to_string())?
    }
    failed.map_or(Ok(()), |words| Err(failure(Code::Differs, words)))
}

/// Reads what a side names.
pub(crate) fn select(side: &str) -> anyhow::Result<Selection> {
    let mut selection = Selection::new();
    for name in side.split(',') {
        if name.is_empty() {
            return Err(usage(format!("{side:?}: empty folder name between two commas")));
        }
        // a folder may have such a sign in its name
        let (folder, build) = match name.rsplit_once('@') {
            Some((folder, build)) if !Path::new(name).exists() => (folder, Some(build)),
            _ => (name, None),
        };
        let mut runs = all(Path::new(folder))?;
        // of a folder of runs, those that have measurements of the build; an unknown build is an error
        if let Some(build) = build
            && runs.len() > 1
        {
            let has = |run: &Run| run.records.iter().any(|record| is_of(&record.build, build));
            if runs.iter().any(has) {
                runs.retain(has);
            }
        }
        for run in runs {
            selection.add(run, build).map_err(bad_input)?;
        }
    }
    Ok(selection)
}

/// Reads the run of a folder, or the runs of all folders in it.
pub(crate) fn all(folder: &Path) -> anyhow::Result<Vec<Run>> {
    let mut folders = run_folders(folder)?;
    // reading it tells what is wrong with it
    if folders.is_empty() {
        folders.push(folder.to_owned());
    }
    folders.iter().map(|folder| read(folder)).collect()
}

/// The folder, if it is a run's, or the run folders in it; none where there are none, or no such folder.
pub(super) fn run_folders(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let is_run = |folder: &Path| folder.join("run.json").exists();
    if is_run(folder) {
        return Ok(vec![folder.to_owned()]);
    }
    let mut folders = Vec::new();
    if folder.is_dir() {
        for entry in std::fs::read_dir(folder).map_err(bad_input)? {
            let path = entry.map_err(bad_input)?.path();
            if is_run(&path) {
                folders.push(path);
            }
        }
        folders.sort();
    }
    Ok(folders)
}

/// Reads the folder of a run.
fn read(folder: &Path) -> anyhow::Result<Run> {
    Run::read(folder).map_err(bad_input)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_slower_with_a_limit() {
        assert_eq!(gate("slower"), Ok(2.0));
        assert_eq!(gate("slower=5"), Ok(5.0));
        for bad in [
            "",
            "faster",
            "slower=",
            "slower=0",
            "slower=-1",
            "slower=nan",
            "slower=1e9",
        ] {
            assert!(gate(bad).is_err(), "{bad}");
        }
    }
}

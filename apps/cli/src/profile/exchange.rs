//! `polychip profile export`, `import`, `merge`, `diff`: profiles as files.
//!
//! Invariant: a file that is only read is not changed, and a file of JSON appears whole or not at all.

use std::path::{Path, PathBuf};

use polychip::bundle::{Bundle, PublicKey, Trust};
use polychip::{LoadedBundle, Merged, Profile, ProfileDiff, ProfileFile};
use schemars::JsonSchema;
use serde::Serialize;

use crate::exit::{Code, bad_input, failure};
use crate::file;
use crate::output::Output;
use crate::setup::check_trust;

#[derive(Debug, clap::Args)]
pub(crate) struct ExportArguments {
    /// JSON file to write; `-` for standard output
    file: PathBuf,
    /// Profile database, or a bundle with --trust
    #[arg(long, value_name = "FILE", help_heading = "Devices")]
    profile: PathBuf,
    /// Trust bundles signed with this public key; repeatable
    #[arg(long, value_name = "KEY", help_heading = "Devices")]
    trust: Vec<PublicKey>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ImportArguments {
    /// JSON file written by `polychip profile export`
    file: PathBuf,
    /// Profile database; created if missing
    #[arg(long, value_name = "FILE", help_heading = "Devices")]
    profile: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct MergeArguments {
    /// Profile database to add to; created if missing
    into: PathBuf,
    /// Profile databases, JSON files, or bundles with --trust to add
    #[arg(required = true)]
    from: Vec<PathBuf>,
    /// Trust bundles signed with this public key; repeatable
    #[arg(long, value_name = "KEY")]
    trust: Vec<PublicKey>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DiffArguments {
    /// Old profile database or JSON file, or a bundle with --trust
    old: PathBuf,
    /// New profile database or JSON file, or a bundle with --trust
    new: PathBuf,
    /// Trust bundles signed with this public key; repeatable
    #[arg(long, value_name = "KEY")]
    trust: Vec<PublicKey>,
    /// Exit with code 1 if a part is slower by more than PERCENT (default: 0) and the two
    /// confidence intervals do not overlap
    #[arg(long, value_name = "slower[=PERCENT]", value_parser = gate)]
    fail_on: Option<i64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Reads `slower` or `slower=PERCENT`, in millionths.
fn gate(text: &str) -> Result<i64, String> {
    let percent = match text.split_once('=') {
        None if text == "slower" => "0",
        Some(("slower", percent)) => percent,
        _ => return Err("write slower or slower=PERCENT".into()),
    };
    match percent.parse::<f64>() {
        Ok(value) if (0.0..=100_000.0).contains(&value) => Ok((value * 10_000.0).round() as i64),
        _ => Err(format!(
            "invalid percentage {percent:?}: expected a number from 0 to 100000"
        )),
    }
}

/// Output of `profile import --json` and `profile merge --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Merge {
    /// Target database.
    into: String,
    /// Added files.
    from: Vec<Added>,
}

/// Additions from a file.
#[derive(Debug, Serialize, JsonSchema)]
struct Added {
    /// The file.
    file: String,
    /// What it added.
    #[serde(flatten)]
    merged: Merged,
}

/// Output of `profile diff --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Diff {
    /// File of before.
    old: String,
    /// File of now.
    new: String,
    /// What changed.
    #[serde(flatten)]
    diff: ProfileDiff,
    /// Reason for exit code 1; null for exit code 0.
    failed: Option<String>,
}

/// Runs `profile export`.
pub(crate) fn export(arguments: &ExportArguments, out: &mut Output) -> anyhow::Result<()> {
    let records = opened(&arguments.profile, &arguments.trust)?.export()?;
    let text = serde_json::to_string_pretty(&records)?;
    if arguments.file.as_os_str() == "-" {
        return out.text(&text);
    }
    file::write(&arguments.file, (text + "\n").as_bytes())
}

/// Runs `profile import`.
pub(crate) fn import(arguments: &ImportArguments, out: &mut Output) -> anyhow::Result<()> {
    add(
        &arguments.profile,
        std::slice::from_ref(&arguments.file),
        &[],
        arguments.json,
        out,
    )
}

/// Runs `profile merge`.
pub(crate) fn merge(arguments: &MergeArguments, out: &mut Output) -> anyhow::Result<()> {
    add(
        &arguments.into,
        &arguments.from,
        &arguments.trust,
        arguments.json,
        out,
    )
}

fn add(
    into: &Path,
    from: &[PathBuf],
    trust: &[PublicKey],
    json: bool,
    out: &mut Output,
) -> anyhow::Result<()> {
    // all files are read before anything is written
    let records = from
        .iter()
        .map(|path| Ok((path, read(path, trust)?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let profile = Profile::open(into)?;
    let mut added = Vec::with_capacity(records.len());
    for (path, records) in records {
        let merged = profile.import(&records, &path.display().to_string())?;
        added.push(Added {
            file: path.display().to_string(),
            merged,
        });
    }
    let answer = Merge {
        into: into.display().to_string(),
        from: added,
    };
    if json {
        out.json(&answer)
    } else {
        out.text(&answer.to_string())
    }
}

/// Runs `profile diff`.
pub(crate) fn diff(arguments: &DiffArguments, out: &mut Output) -> anyhow::Result<()> {
    let diff = ProfileDiff::of(
        &read(&arguments.old, &arguments.trust)?,
        &read(&arguments.new, &arguments.trust)?,
    );
    let failed = arguments.fail_on.and_then(|limit| {
        let over = diff
            .slower
            .iter()
            .filter(|change| change.longer_ppm > limit)
            .count();
        (over > 0).then(|| {
            let percent = limit as f64 / 1e4;
            format!("{over} parts are slower by more than {percent} % (--fail-on slower)")
        })
    });
    if arguments.json {
        out.json(&Diff {
            old: arguments.old.display().to_string(),
            new: arguments.new.display().to_string(),
            diff,
            failed: failed.clone(),
        })?;
    } else {
        out.text(&diff.to_string())?;
    }
    failed.map_or(Ok(()), |words| Err(failure(Code::Differs, words)))
}

/// Reads a database, or a file of JSON.
fn read(path: &Path, trust: &[PublicKey]) -> anyhow::Result<ProfileFile> {
    let is_json = {
        let mut first = [0; 16];
        let mut file = polychip::open_regular(path)
            .map_err(|error| bad_input(format!("{}: {error}", path.display())))?;
        std::io::Read::read(&mut file, &mut first)?;
        !first.starts_with(b"SQLite format 3")
            && first.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
    };
    if is_json {
        let records = ProfileFile::from_json(&file::read_text(path)?);
        return records.map_err(|error| bad_input(format!("{}: {error}", path.display())));
    }
    Ok(opened(path, trust)?.export()?)
}

/// A database that is there, or what a bundle holds, in memory.
pub(super) fn opened(path: &Path, trust: &[PublicKey]) -> anyhow::Result<Profile> {
    if !path.is_file() {
        return Err(bad_input(format!("{}: no such file", path.display())));
    }
    if !LoadedBundle::is_one(path) {
        return Ok(Profile::open(path)?);
    }
    check_trust(path, trust)?;
    let wrong = |error: &dyn std::fmt::Display| bad_input(format!("bundle {}: {error}", path.display()));
    let length = std::fs::metadata(path).map_err(|error| wrong(&error))?.len();
    if length > Bundle::LONGEST {
        return Err(wrong(&format!(
            "{length} bytes; a bundle has at most {}",
            Bundle::LONGEST
        )));
    }
    let bytes = std::fs::read(path).map_err(|error| wrong(&error))?;
    let trust = trust.iter().fold(Trust::new(), |trust, key| trust.key(*key));
    let profile = Profile::in_memory();
    profile
        .load_bundle(&bytes, &trust)
        .map_err(|error| wrong(&error))?;
    Ok(profile)
}

impl std::fmt::Display for Merge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, added) in self.from.iter().enumerate() {
            let Merged {
                batches,
                known,
                measurements,
                links,
                refusals,
                plugin_values,
            } = added.merged;
            if index > 0 {
                writeln!(f)?;
            }
            write!(
                f,
                "{} into {}: {measurements} measurements in {batches} batches, {links} links, {refusals} refusals, \
                 {plugin_values} plugin values; {known} batches were already there",
                added.file, self.into
            )?;
            if plugin_values > 0 {
                write!(
                    f,
                    "\n  plugins receive only values that you stored on this machine; others stay unused"
                )?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_slower_with_a_limit() {
        assert_eq!(gate("slower"), Ok(0));
        assert_eq!(gate("slower=2.5"), Ok(25_000));
        for bad in ["", "faster", "slower=", "slower=-1", "slower=nan", "slower=1e9"] {
            assert!(gate(bad).is_err(), "{bad}");
        }
    }
}

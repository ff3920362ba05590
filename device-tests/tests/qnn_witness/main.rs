//! Witness of the QNN emulator: the same client plays the same sequences against it and against the vendor's library,
//! and the codes are compared call by call.
//!
//! Without `QNN_LIB_DIR` the emulator is held to the codes that were measured on the vendor's library; the vendor's
//! half is then reported as skipped. `POLYCHIP_QNN_WITNESS=FILE` writes all sequences and codes there, as JSON.
//!
//! Invariants:
//! 1. Each sequence has a process of its own: the library's answers are global to the process.
//! 2. Nothing is read from a child's standard output, which the vendor's library writes to.
//! 3. A library that ends the process, or never returns, fails its sequence.
//!
//! Start reading at `facts`.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use anyhow::{Context, Result, bail};
use libtest_mimic::{Arguments, Failed, Trial};
use polychip_device_tests::{Need, libraries, skipped};
use serde::Serialize;

mod client;
mod facts;
mod model;
mod random;
mod raw;
mod sequence;

use client::{ABSENT, Answer};
use sequence::{Expect, Sequence};

/// Number of seeds; with the facts there are more than a hundred sequences.
const SEEDS: u64 = 96;
/// The longest that a sequence may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Set in the client's process: folder, sequence, output.
const FOLDER: &str = "POLYCHIP_QNN_WITNESS_FOLDER";
const NUMBER: &str = "POLYCHIP_QNN_WITNESS_NUMBER";
const OUTPUT: &str = "POLYCHIP_QNN_WITNESS_OUTPUT";
/// Set by a person: where the codes are written.
const REPORT: &str = "POLYCHIP_QNN_WITNESS";

fn sequences() -> Vec<Sequence> {
    let mut all = facts::sequences();
    all.extend((0..SEEDS).map(random::sequence));
    all
}

/// What a library said to a sequence.
#[derive(Debug, Serialize)]
struct Played {
    answers: Vec<Answer>,
    /// How the process ended, unless well.
    ended: Option<String>,
}

#[derive(Serialize)]
struct Entry {
    name: String,
    steps: Vec<String>,
    emulated: Played,
    vendor: Option<Played>,
}

fn main() -> Result<()> {
    if let Some(folder) = env::var_os(FOLDER) {
        let number: usize = env::var(NUMBER)?.parse()?;
        let out = PathBuf::from(env::var_os(OUTPUT).context("the client's output is not named")?);
        return client::play(Path::new(&folder), &sequences()[number], &out);
    }
    let arguments = Arguments::from_args();
    let vendor = env::var_os("QNN_LIB_DIR")
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from);
    let mut trials = vec![Trial::test("there are more than 100 sequences", count)];
    let facts = facts::sequences().len();
    let all = Arc::new(sequences());
    for (name, range) in [("facts", 0..facts), ("seeds", facts..all.len())] {
        let (all, vendor) = (Arc::clone(&all), vendor.clone());
        trials.push(Trial::test(name, move || {
            judge(name, &all, range, vendor.as_deref()).map_err(|error| Failed::from(format!("{error:#}")))
        }));
    }
    if vendor.is_none() {
        trials.push(skipped(
            "comparison with the vendor's library",
            Need::QnnLibrary,
            "QNN_LIB_DIR is not set",
        ));
    }
    libtest_mimic::run(&arguments, trials).exit();
}

fn count() -> Result<(), Failed> {
    let all = sequences();
    let mut names: Vec<&str> = all.iter().map(|sequence| sequence.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    if names.len() < 100 || names.len() != all.len() {
        return Err(format!("{} sequences, {} names", all.len(), names.len()).into());
    }
    Ok(())
}

/// Plays the sequences of a range on the emulator, and on the vendor's library where there is one.
fn judge(kind: &str, all: &[Sequence], range: std::ops::Range<usize>, vendor: Option<&Path>) -> Result<()> {
    let emulator = emulator()?;
    let mut entries = Vec::new();
    let mut findings = Vec::new();
    for number in range {
        let sequence = &all[number];
        let emulated = play(emulator.path(), number)?;
        findings.extend(breaches("emulator", sequence, &emulated));
        let vendor = vendor.map(|folder| play(folder, number)).transpose()?;
        if let Some(vendor) = &vendor {
            findings.extend(breaches("vendor", sequence, vendor));
            findings.extend(differences(sequence, &emulated, vendor));
        }
        entries.push(Entry {
            name: sequence.name.clone(),
            steps: sequence
                .steps
                .iter()
                .map(|(step, _)| format!("{step:?}"))
                .collect(),
            emulated,
            vendor,
        });
    }
    if let Some(report) = env::var_os(REPORT) {
        let report = PathBuf::from(report).with_extension(format!("{kind}.json"));
        fs::write(&report, serde_json::to_vec_pretty(&entries)?)
            .with_context(|| format!("writing {}", report.display()))?;
    }
    let calls: usize = entries.iter().map(|entry| entry.emulated.answers.len()).sum();
    if findings.is_empty() {
        eprintln!("{kind}: {} sequences, {calls} calls (emulated)", entries.len());
        return Ok(());
    }
    bail!("{} findings:\n{}", findings.len(), findings.join("\n"))
}

/// A folder with copies of both emulated libraries, built from the sources as they are: other tests may build them
/// anew while this one runs.
fn emulator() -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    for library in [
        libraries::library("polychip-emulator-qnn", "QnnHtp")?,
        libraries::library("polychip-emulator-qnn-system", "QnnSystem")?,
    ] {
        let name = library.file_name().context("the library has no name")?;
        fs::copy(&library, folder.path().join(name))
            .with_context(|| format!("copying {}", library.display()))?;
    }
    Ok(folder)
}

/// Plays one sequence in a process of its own.
fn play(folder: &Path, number: usize) -> Result<Played> {
    let scratch = tempfile::tempdir()?;
    let out = scratch.path().join("answers");
    let mut command = Command::new(env::current_exe()?);
    // settings of the emulator (faults) are not part of the comparison
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("POLYCHIP_") {
            command.env_remove(name);
        }
    }
    let mut child = command
        .env(FOLDER, folder)
        .env(NUMBER, number.to_string())
        .env(OUTPUT, &out)
        .current_dir(scratch.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(scratch.path().join("errors"))?)
        .spawn()
        .context("starting the client")?;
    let start = Instant::now();
    let ended = loop {
        if let Some(status) = child.try_wait()? {
            break ending(status, scratch.path());
        }
        if start.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            break Some(format!("it did not end within {} s", PATIENCE.as_secs()));
        }
        thread::sleep(Duration::from_millis(5));
    };
    let mut answers = Vec::new();
    for line in fs::read_to_string(&out).unwrap_or_default().lines() {
        answers.push(serde_json::from_str(line).context("reading the client's answers")?);
    }
    Ok(Played { answers, ended })
}

/// How a process ended, unless well.
fn ending(status: ExitStatus, scratch: &Path) -> Option<String> {
    if status.success() {
        return None;
    }
    let errors = fs::read_to_string(scratch.join("errors")).unwrap_or_default();
    let line = errors
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default();
    Some(format!("{status}: {line}"))
}

/// Where a library does not do what was measured.
fn breaches(who: &str, sequence: &Sequence, played: &Played) -> Vec<String> {
    let mut findings = Vec::new();
    if let Some(ended) = &played.ended {
        let after = played.answers.last().map_or_else(String::new, |answer| {
            format!(" after {} of step {}", answer.call, answer.step)
        });
        findings.push(format!(
            "{who}: {}: the process ended{after}: {ended}",
            sequence.name
        ));
    }
    for answer in &played.answers {
        let (step, expect) = sequence.steps[answer.step];
        let expect = match step.about() {
            Some(call) if call != answer.call && expect != Expect::Any => Expect::Is(0),
            _ => expect,
        };
        if !expect.holds(answer.code) {
            findings.push(format!(
                "{who}: {}: {step:?}: {} gave {}, measured is {expect:?}",
                sequence.name,
                answer.call,
                shown(answer.code)
            ));
        }
    }
    findings
}

/// Where two libraries differ.
fn differences(sequence: &Sequence, emulated: &Played, vendor: &Played) -> Vec<String> {
    if emulated.answers.len() != vendor.answers.len() {
        return vec![format!(
            "{}: {} calls on the emulator, {} on the vendor's library",
            sequence.name,
            emulated.answers.len(),
            vendor.answers.len()
        )];
    }
    let pairs = emulated.answers.iter().zip(&vendor.answers);
    pairs
        .filter(|(one, other)| one != other)
        .map(|(one, other)| {
            format!(
                "{}: step {}: {} gives {} on the emulator, {} gives {} on the vendor's library",
                sequence.name,
                one.step,
                one.call,
                shown(one.code),
                other.call,
                shown(other.code)
            )
        })
        .collect()
}

fn shown(code: u64) -> String {
    if code == ABSENT {
        "nothing: the call is not there".to_owned()
    } else {
        code.to_string()
    }
}

//! One model through the crate that apps use, in its own process: the counterpart of `peer.py`.
//!
//! Says in one line of JSON what loading took, then answers lines: `N` with the nanoseconds of N runs, `peak` with the bytes
//! that loading and running added to the process, `check` with the distance of each output from the peer's, `reference` with
//! what the CPU leaves to the scalar reference evaluator.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use polychip::{Policy, Runtime, Session};
use polychip_device_tests::compare::{Tolerance, compare, deviation};
use polychip_device_tests::process::{forget_peak, memory};
use polychip_device_tests::{model, npy};
use polychip_ops::Literal;
use serde::{Deserialize, Serialize};

use crate::steps;

/// Longest that a single run may take.
const LONGEST: Duration = Duration::from_secs(120);

/// The files of a folder that `peer.py` wrote.
#[derive(Deserialize)]
struct Index {
    inputs: BTreeMap<String, String>,
    outputs: BTreeMap<String, String>,
}

/// What loading came to.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Loaded {
    pub(crate) load_ns: u64,
}

/// An output beside the peer's.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Checked {
    pub(crate) output: String,
    /// Largest distance over the largest value.
    pub(crate) deviation: f64,
    /// Another type or shape, or other integers.
    pub(crate) differs: Option<String>,
}

#[derive(clap::Args)]
pub(crate) struct Arguments {
    model: std::path::PathBuf,
    /// Folder written by `peer.py`
    folder: std::path::PathBuf,
    threads: u32,
    /// Devices, named as by `polychip devices`
    devices: Vec<String>,
}

/// Serves one model until its input ends.
///
/// # Errors
/// Whatever a user of the crate would get.
pub(crate) fn serve(arguments: &Arguments) -> Result<()> {
    let text = fs::read_to_string(arguments.folder.join("index.json"))?;
    let index: Index = serde_json::from_str(&text)?;
    let inputs = read(&arguments.folder, &index.inputs)?;
    forget_peak();
    let before = memory("VmRSS");
    let start = Instant::now();
    let runtime = Runtime::builder()
        .only_given_folders()
        .configure("cpu", "threads", arguments.threads.to_string())
        .build()?;
    let model = model::bound(&runtime, &arguments.model, &inputs)?;
    let devices = arguments.devices.iter().map(String::as_str);
    let session = runtime.session(&model, Policy::latency().devices(devices))?;
    let load_ns = nanoseconds(start.elapsed());
    let mut memory_of = Vec::new();
    for spec in session.inputs() {
        let given = inputs
            .get(&spec.name)
            .with_context(|| format!("no input {:?}", spec.name))?;
        let mut input = session.input(&spec.name)?;
        input.write_bytes(&given.bytes)?;
        memory_of.push(input);
    }
    let given: Vec<_> = memory_of.iter().collect();
    let once = || -> Result<u64> {
        let start = Instant::now();
        let outputs = session.submit(&given)?.wait(LONGEST)?;
        let taken = nanoseconds(start.elapsed());
        drop(outputs);
        Ok(taken)
    };
    once()?;
    say(&Loaded { load_ns })?;
    for line in std::io::stdin().lock().lines() {
        match line?.trim() {
            "peak" => say(&memory("VmHWM").saturating_sub(before))?,
            "check" => say(&check(
                &session,
                &inputs,
                &read(&arguments.folder, &index.outputs)?,
            )?)?,
            "reference" => say(&steps::by_reference(&session)?)?,
            count => {
                let times = (0..count.parse::<usize>()?).map(|_| once());
                say(&times.collect::<Result<Vec<u64>>>()?)?;
            }
        }
    }
    Ok(())
}

fn read(folder: &Path, files: &BTreeMap<String, String>) -> Result<BTreeMap<String, Literal>> {
    let read = |(name, file): (&String, &String)| Ok((name.clone(), npy::read(&folder.join(file))?));
    files.iter().map(read).collect()
}

fn check(
    session: &Session,
    inputs: &BTreeMap<String, Literal>,
    wanted: &BTreeMap<String, Literal>,
) -> Result<Vec<Checked>> {
    let found = model::run_session(session, inputs)?;
    let row = |(output, value): (String, Literal)| {
        let wanted = wanted
            .get(&output)
            .with_context(|| format!("the peer has no output {output:?}"))?;
        let same_type = value.shape == wanted.shape && value.dtype == wanted.dtype;
        let deviation = if same_type {
            deviation(&value, wanted)
        } else {
            f64::INFINITY
        };
        // any finite distance will do here: who reads the figure judges it
        let differs = compare(&value, wanted, Tolerance::OfLargest(f64::MAX)).err();
        Ok(Checked {
            output,
            deviation,
            differs,
        })
    };
    found.into_iter().map(row).collect()
}

fn say(value: &impl Serialize) -> Result<()> {
    let mut to = std::io::stdout().lock();
    writeln!(to, "{}", serde_json::to_string(value)?)?;
    to.flush()?;
    Ok(())
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

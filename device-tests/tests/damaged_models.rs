//! Damaged models of the ONNX backend suite: each is refused or runs; none panics.
//!
//! Every model is cut short and has single bytes changed, which also damages shapes, types and attributes;
//! what still loads runs on inputs of its own declared shapes. `POLYCHIP_DAMAGE` sets the changed bytes per
//! model (default 4). `POLYCHIP_SUITE_DEVICE` names the device, as for the suite itself.
//!
//! Not here: memory that runs out; a part of more than 1 MiB of inputs is planned, but does not run.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use libtest_mimic::{Arguments, Failed, Trial};
use polychip::{Policy, Runtime};
use polychip_device_tests::{Need, paths, suite};

const KINDS: [&str; 4] = ["node", "simple", "pytorch-converted", "pytorch-operator"];
/// Longest a damaged model may run; a changed trip count may ask for more.
const PATIENCE: Duration = Duration::from_secs(5);

/// What panicked, on any thread, caught or not.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn main() -> Result<()> {
    let mut arguments = Arguments::from_args();
    // panics of different models must not mix
    arguments.test_threads = Some(1);
    if !paths::suite().is_dir() {
        suite::skip(&arguments, Need::Models, paths::NO_SUITE);
    }
    let device = std::env::var("POLYCHIP_SUITE_DEVICE").unwrap_or_else(|_| "cpu:0".into());
    let changes = match std::env::var("POLYCHIP_DAMAGE") {
        Ok(number) => number.parse().context("POLYCHIP_DAMAGE")?,
        Err(_) => 4,
    };
    let runtime = Arc::new(Runtime::builder().build()?);
    std::panic::set_hook(Box::new(|info| {
        let mut panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
        panics.push(info.to_string().replace('\n', " "));
    }));
    let mut trials = Vec::new();
    for kind in KINDS {
        let (runtime, device) = (Arc::clone(&runtime), device.clone());
        trials.push(Trial::test(format!("{kind} models, damaged"), move || {
            let policy = Policy::latency()
                .devices([device.as_str()])
                .threads(1)
                .in_flight(1);
            sweep(&runtime, &policy, kind, changes)
        }));
    }
    libtest_mimic::run(&arguments, trials).exit()
}

fn sweep(runtime: &Runtime, policy: &Policy, kind: &str, changes: usize) -> Result<(), Failed> {
    let mut models: Vec<PathBuf> = std::fs::read_dir(paths::suite().join(kind))?
        .map(|entry| entry.map(|entry| entry.path().join("model.onnx")))
        .collect::<std::io::Result<_>>()?;
    models.retain(|path| path.is_file());
    models.sort();
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("damaged-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    let file = scratch.join(format!("{kind}.onnx"));
    let mut failures = Vec::new();
    let (mut tried, mut ran) = (0, 0);
    for (number, path) in models.iter().enumerate() {
        let whole = std::fs::read(path)?;
        for (what, bytes) in damaged(&whole, number, changes) {
            // a model in use keeps the file it was loaded from: each variant gets a file of its own
            let _ = std::fs::remove_file(&file);
            std::fs::write(&file, bytes)?;
            tried += 1;
            if std::env::var_os("POLYCHIP_DAMAGE_TRACE").is_some() {
                eprintln!("{}: {what}", path.display());
            }
            let result =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(runtime, policy, &file)));
            ran += usize::from(matches!(result, Ok(Ok(true))));
            let panics = std::mem::take(&mut *PANICS.lock().unwrap_or_else(PoisonError::into_inner));
            for words in panics {
                failures.push(format!("{}, {what}: {words}", path.display()));
            }
        }
    }
    std::fs::remove_dir_all(&scratch)?;
    eprintln!("{kind}: {tried} damaged models, of which {ran} ran");
    if failures.is_empty() {
        Ok(())
    } else {
        Err(format!("{} panics:\n{}", failures.len(), failures.join("\n")).into())
    }
}

/// Variants of a model: four lengths, and `changes` single bytes at places that look random.
fn damaged(whole: &[u8], number: usize, changes: usize) -> Vec<(String, Vec<u8>)> {
    let mut variants = Vec::new();
    for part in [1, 3, 5, 7] {
        let length = whole.len() * part / 8;
        variants.push((format!("cut to {length} bytes"), whole[..length].to_vec()));
    }
    let mut seed = number as u64;
    for _ in 0..changes {
        seed = seed
            .wrapping_add(1)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let at = (seed >> 24) as usize % whole.len().max(1);
        let mask = [0x01, 0x02, 0x04, 0x7f, 0x80, 0xff][(seed >> 8) as usize % 6];
        let mut bytes = whole.to_vec();
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= mask;
        }
        variants.push((format!("byte {at} changed by {mask:#x}"), bytes));
    }
    variants
}

/// Whether the model ran to its end.
fn run(runtime: &Runtime, policy: &Policy, path: &Path) -> Result<bool> {
    let model = runtime.load(path)?;
    // open dims take a size that no model here expects
    let dims: Vec<(String, usize)> = model.open_dims().into_iter().map(|name| (name, 3)).collect();
    let model = model.bind(dims)?;
    let session = runtime.session(&model, policy.clone())?;
    let sizes = session.inputs().map(|spec| {
        let elements = spec
            .shape
            .iter()
            .try_fold(1usize, |all, &dim| all.checked_mul(dim));
        elements.and_then(|elements| spec.dtype.byte_len(elements))
    });
    let total = sizes
        .into_iter()
        .try_fold(0usize, |all, size| all.checked_add(size?));
    if total.is_none_or(|total| total > 1 << 20) {
        return Ok(false);
    }
    let mut inputs = Vec::new();
    for spec in session.inputs() {
        let mut input = session.input(&spec.name)?;
        let length = input.bytes_mut()?.len();
        // data of the wrong size are refused; 0x3f is finite in every float type
        if input.write_bytes(&vec![0; length + 1]).is_ok() {
            panic!("input {:?} takes a byte too many", spec.name);
        }
        // a number of trips of 0x3f3f… would never end
        let byte = if spec.dtype.is_float() { 0x3f } else { 0 };
        input.write_bytes(&vec![byte; length])?;
        inputs.push(input);
    }
    let references: Vec<_> = inputs.iter().collect();
    session.submit(&references)?.wait(PATIENCE)?;
    Ok(true)
}

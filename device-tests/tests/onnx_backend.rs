//! The ONNX backend suite against a device: node, simple, pytorch-converted and pytorch-operator cases.
//!
//! `POLYCHIP_SUITE_DEVICE` names the device (default `cpu:0`; `openvino:0` and `gpu:0` are linked here);
//! `POLYCHIP_SUITE_LIST=FILE` also writes each case's result there. Known failures stand in `expectations/PLUGIN.toml`; one that passes fails here.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use libtest_mimic::{Arguments, Conclusion, Failed, Trial};
use polychip::{ErrorKind, Policy, Runtime};
use polychip_device_tests::compare::{Tolerance, compare};
use polychip_device_tests::expectations::Expectations;
use polychip_device_tests::{gpu, model, openvino, paths};
use polychip_graph::onnx::read_tensor;
use polychip_ops::Literal;

/// The tolerance of ONNX's own runner.
const TOLERANCE: Tolerance = Tolerance::Elementwise {
    relative: 1e-3,
    absolute: 1e-7,
};
const KINDS: [&str; 4] = ["node", "simple", "pytorch-converted", "pytorch-operator"];

struct Suite {
    runtime: Runtime,
    policy: Policy,
    expectations: Expectations,
    passed: [AtomicUsize; 4],
    refused: [AtomicUsize; 4],
    list: Option<Mutex<std::fs::File>>,
}

fn main() -> Result<()> {
    let arguments = Arguments::from_args();
    let folder = paths::suite();
    if !folder.is_dir() {
        let why = "skipped: device-tests/generated is not there (`cargo xtask models` makes it)";
        let trial = Trial::test(why, || Ok(())).with_ignored_flag(true);
        libtest_mimic::run(&arguments, vec![trial]).exit();
    }
    let device = std::env::var("POLYCHIP_SUITE_DEVICE").unwrap_or_else(|_| "cpu:0".into());
    let plugin = device.split(':').next().unwrap_or_default();
    let list = std::env::var_os("POLYCHIP_SUITE_LIST")
        .map(std::fs::File::create)
        .transpose()?;
    let mut runtime = Runtime::builder();
    if plugin == "openvino" {
        match openvino::library() {
            Ok(folder) => {
                let folder = folder.display().to_string();
                runtime = runtime
                    .link(polychip_openvino::query)
                    .configure("openvino", "lib_dir", folder);
            }
            Err(why) => {
                let trial = Trial::test(format!("skipped: {why}"), || Ok(())).with_ignored_flag(true);
                libtest_mimic::run(&arguments, vec![trial]).exit();
            }
        }
    }
    if plugin == "gpu" {
        runtime = runtime.link(polychip_gpu::query);
    }
    let runtime = runtime.build()?;
    if let Some(why) = gpu::missing(&runtime).filter(|_| plugin == "gpu") {
        let trial = Trial::test(format!("skipped: {why}"), || Ok(())).with_ignored_flag(true);
        libtest_mimic::run(&arguments, vec![trial]).exit();
    }
    let suite = Arc::new(Suite {
        runtime,
        policy: Policy::latency()
            .devices([device.as_str()])
            .threads(1)
            .in_flight(1)
            // what a device takes it must compile: nothing moves
            .replan(false),
        expectations: Expectations::load(plugin)?,
        passed: Default::default(),
        refused: Default::default(),
        list: list.map(Mutex::new),
    });
    let mut trials = Vec::new();
    let mut totals = [0; 4];
    let mut names = Vec::new();
    for (index, kind) in KINDS.iter().enumerate() {
        for case in cases(&folder.join(kind))? {
            totals[index] += 1;
            let name = format!(
                "{kind}/{}",
                case.file_name()
                    .and_then(|name| name.to_str())
                    .unwrap_or_default()
            );
            names.push(name.clone());
            let suite = Arc::clone(&suite);
            trials.push(Trial::test(name.clone(), move || {
                suite.judge(index, &name, &case)
            }));
        }
    }
    let strangers: Vec<&str> = suite
        .expectations
        .cases()
        .filter(|case| !names.iter().any(|name| name == case))
        .collect();
    if !strangers.is_empty() {
        bail!(
            "expectations/{plugin}.toml lists cases that do not exist: {}",
            strangers.join(", ")
        );
    }
    let whole = arguments.filter.is_none() && arguments.skip.is_empty() && !arguments.list;
    let conclusion: Conclusion = libtest_mimic::run(&arguments, trials);
    if whole {
        let mut too_few = false;
        for (index, kind) in KINDS.iter().enumerate() {
            let count = |counts: &[AtomicUsize; 4]| counts[index].load(Ordering::Relaxed);
            let (passed, refused, total) = (count(&suite.passed), count(&suite.refused), totals[index]);
            let share = 100.0 * passed as f64 / total.max(1) as f64;
            let mut words = format!("{device}: {kind}: {passed} of {total} cases pass ({share:.1} %)");
            if refused > 0 {
                words += &format!(", {refused} are refused");
            }
            let least = suite.expectations.least(kind);
            if passed < least {
                too_few = true;
                words += &format!("; error: at least {least} should pass");
            }
            eprintln!("{words}");
        }
        if too_few {
            bail!("fewer cases pass than expectations/{plugin}.toml says");
        }
    }
    conclusion.exit()
}

fn cases(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .with_context(|| folder.display().to_string())?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<_>>()?;
    found.retain(|path| path.join("model.onnx").is_file());
    found.sort();
    Ok(found)
}

impl Suite {
    fn judge(&self, kind: usize, name: &str, folder: &Path) -> Result<(), Failed> {
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.run(folder)));
        let result = unwound.unwrap_or_else(|_| Err(anyhow::anyhow!("PANIC")));
        if result.is_ok() {
            self.passed[kind].fetch_add(1, Ordering::Relaxed);
        }
        if let Some(list) = &self.list {
            let words = result
                .as_ref()
                .map_or_else(|error| format!("{error:#}"), |()| "pass".into());
            let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = writeln!(list, "{name}\t{}", words.replace('\n', " "));
        }
        match (result, self.expectations.reason(name)) {
            (Ok(()), None) => Ok(()),
            (Ok(()), Some(reason)) => Err(format!(
                "passes, but is listed as failing because of: {reason}; take it off the list"
            )
            .into()),
            (Err(error), _) if format!("{error:#}").contains("PANIC") => Err("it panicked".into()),
            (Err(_), Some(_)) => Ok(()),
            (Err(error), None) if self.expectations.refusals().is_some() && is_refusal(&error) => {
                self.refused[kind].fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            (Err(error), None) => Err(format!("{error:#}").into()),
        }
    }

    fn run(&self, folder: &Path) -> Result<()> {
        let path = folder.join("model.onnx");
        let names: Vec<String> = {
            let model = self.runtime.load(&path)?;
            let graph = model.graph();
            graph
                .inputs
                .iter()
                .map(|id| graph.tensor(*id).name.clone())
                .collect()
        };
        let mut sets = 0;
        loop {
            let set = folder.join(format!("test_data_set_{sets}"));
            if !set.is_dir() {
                break;
            }
            sets += 1;
            let inputs = data(&set, "input")?;
            if inputs.len() > names.len() {
                bail!("{} inputs given, the model has {}", inputs.len(), names.len());
            }
            let inputs: BTreeMap<String, Literal> = names.iter().cloned().zip(inputs).collect();
            let outputs = model::run(&self.runtime, &self.policy, &path, &inputs)?;
            let wanted = data(&set, "output")?;
            if outputs.len() != wanted.len() {
                bail!("{} outputs instead of {}", outputs.len(), wanted.len());
            }
            for ((name, found), wanted) in outputs.iter().zip(&wanted) {
                compare(found, wanted, TOLERANCE)
                    .map_err(|words| anyhow::anyhow!("output {name:?}: {words}"))?;
            }
        }
        if sets == 0 {
            bail!("the case has no data");
        }
        Ok(())
    }
}

/// Whether a case failed because no device can run it, which was known before anything was compiled.
fn is_refusal(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<polychip::Error>();
    error.is_some_and(|error| error.kind() == ErrorKind::NoDevice)
}

fn data(set: &Path, what: &str) -> Result<Vec<Literal>> {
    let mut values = Vec::new();
    loop {
        let path = set.join(format!("{what}_{}.pb", values.len()));
        if !path.is_file() {
            return Ok(values);
        }
        let bytes = std::fs::read(&path)?;
        let (_, literal) = read_tensor(&bytes).with_context(|| format!("{what}_{}.pb", values.len()))?;
        values.push(literal);
    }
}

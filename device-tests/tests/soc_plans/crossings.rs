//! Chips of all vendors in one system: a model's nodes go from one to the next, over memory that all of them share.
//!
//! Nothing is copied, and the answers are the CPU's, though the emulated Rockchip sees memory otherwise than the processor
//! does: its view is stale until caches are brought together, which its runs do. That a session without that gives other
//! answers is shown too.

#![allow(unsafe_code, reason = "an emulator is asked what it counted")]

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};
use libloading::Library;
use polychip::{Policy, Report, Runtime};
use polychip_device_tests::compare::cosine;
use polychip_device_tests::{emulated, libraries, model, paths};

use crate::filled;
use crate::roundings::FLOATS;
use crate::systems::{SYSTEMS, System};

/// The trial's name.
pub(crate) const NAME: &str = "crossings";
/// The environment of the emulators.
pub(crate) const ENVIRONMENT: &[(&str, &str)] = &[("POLYCHIP_RKNN_INCOHERENT", "1")];
/// So many nodes in a row go to one chip.
const STRIDE: usize = 4;
/// Runs of the session, each on inputs of its own.
const RUNS: u64 = 3;

pub(crate) fn child() -> Result<()> {
    let told = alternate("run")?;
    ensure!(told.cosine >= FLOATS, "an output's cosine is {}", told.cosine);
    ensure!(
        told.report.copies == 0,
        "{} copies of {} bytes",
        told.report.copies,
        told.report.copied_bytes
    );
    let crossings = &told.report.crossings;
    if let Some(copy) = crossings.iter().find(|crossing| crossing.mode == "copy") {
        bail!("{} goes from {} to {} as a copy", copy.tensor, copy.from, copy.to);
    }
    let pairs: BTreeSet<(&str, &str)> = crossings
        .iter()
        .map(|crossing| (&*crossing.from, &*crossing.to))
        .collect();
    for (from, to) in told.devices.iter().zip(told.devices.iter().cycle().skip(1)) {
        ensure!(
            pairs.contains(&(&**from, &**to)),
            "nothing goes from {from} to {to}"
        );
    }
    let (runs, copied) = counted()?;
    ensure!(runs > 0, "another library counted");
    ensure!(copied == 0, "the runtime copied {copied} bytes");
    eprintln!(
        "{} parts, {} crossings of {} kinds, no copy (emulated)",
        told.report.parts.len(),
        crossings.len(),
        pairs.len()
    );
    // were memory not stale without maintenance, this trial would show nothing
    let stale = alternate("access")?;
    ensure!(
        stale.cosine < FLOATS,
        "the answers are right without maintenance of caches too"
    );
    Ok(())
}

/// What came of a session.
struct Told {
    /// In the order in which nodes go to them.
    devices: Vec<String>,
    /// The least of all outputs and runs.
    cosine: f64,
    report: Report,
}

/// The model on all chips in turn. `caches` selects what keeps the Rockchip's view of memory right: each run, or only the
/// host's accesses, for memory that no other chip touches.
fn alternate(caches: &str) -> Result<Told> {
    // a chip with memory of its own has copies, which are announced
    let systems: Vec<&System> = SYSTEMS.iter().filter(|system| system.shares_memory).collect();
    let mut builder = Runtime::builder().only_given_folders();
    for system in &systems {
        builder = builder
            .link(system.query)
            .configure(system.plugin, "precision", "reduced");
        for (key, value) in emulated::configuration(system.plugin)? {
            builder = builder.configure(system.plugin, key, value);
        }
    }
    let runtime = builder.configure("rknn", "caches", caches).build()?;
    let model = runtime.load(paths::models().join("mobilenet_v2.onnx"))?;
    let cpu = "cpu:0".to_owned();
    let mut devices: Vec<String> = systems
        .iter()
        .map(|system| format!("{}:0", system.plugin))
        .collect();
    devices.push(cpu.clone());
    let base = Policy::latency().threads(1).in_flight(1);
    let alone = runtime.session(&model, base.clone().devices([cpu]))?;
    let mut policy = base.devices(devices.clone());
    let own = runtime.plan(&model, &policy)?;
    for (index, (_, node)) in own.graph().nodes().enumerate() {
        let device = &devices[index / STRIDE % devices.len()];
        let column = own.devices().iter().position(|found| found.name() == device);
        let column = column.with_context(|| format!("the plan knows no {device}"))?;
        if own.targets()[column].supports(index) {
            policy = policy.pin(&node.name, device);
        }
    }
    let session = runtime.session(&model, policy)?;
    let mut least = f64::INFINITY;
    for seed in 0..RUNS {
        let (_, inputs) = filled(&model, seed)?;
        let wanted = model::run_session(&alone, &inputs)?;
        let found = model::run_session(&session, &inputs)?;
        for ((_, wanted), (_, found)) in wanted.iter().zip(&found) {
            least = least.min(cosine(found, wanted));
        }
    }
    let report = session.report();
    Ok(Told {
        devices,
        cosine: least,
        report,
    })
}

/// Runs, and bytes that the runtime copied, as the emulator counts them.
fn counted() -> Result<(u64, u64)> {
    /// As the emulator lays it out.
    #[repr(C)]
    #[derive(Default)]
    struct Counts {
        contexts: u64,
        memories: u64,
        runs: u64,
        copied_bytes: u64,
        syncs: u64,
        nanoseconds: u64,
        nanojoules: u64,
    }
    let path = libraries::library("polychip-emulator-rknnrt", "rknnrt")?;
    let mut counts = Counts::default();
    // SAFETY: the emulator of this repository, which is loaded already; its call writes one such structure.
    unsafe {
        let library = Library::new(path)?;
        let call = library.get::<unsafe extern "C" fn(*mut Counts)>("polychip_rknn_counts")?;
        call(&raw mut counts);
    }
    Ok((counts.runs, counts.copied_bytes))
}

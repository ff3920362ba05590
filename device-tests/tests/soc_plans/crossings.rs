//! Chips of all vendors in one system: a model's nodes go from one to the next, over memory that all of them share.
//!
//! Nothing is copied, and the answers are the CPU's, also where one chip sees memory otherwise than the processor does:
//! the emulated Rockchip's view is stale until an access ends or begins (`rknn_mem_sync`), which the host alone sees to.

#![allow(unsafe_code, reason = "an emulator is asked what it counted")]

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use libloading::Library;
use polychip::{Policy, Runtime};
use polychip_device_tests::compare::cosine;
use polychip_device_tests::{libraries, model, paths};

use crate::systems::{SYSTEMS, System};
use crate::{COSINE, filled};

/// The trial's name.
pub(crate) const NAME: &str = "crossings";
/// What the emulators are told.
pub(crate) const ENVIRONMENT: &[(&str, &str)] = &[("POLYCHIP_RKNN_INCOHERENT", "1")];
/// So many nodes in a row go to one chip.
const STRIDE: usize = 4;
/// Runs of the session, each on inputs of its own.
const RUNS: u64 = 3;

pub(crate) fn child() -> Result<()> {
    // a chip whose memory is its own has copies that are announced: nothing is to be shown of it here
    let systems: Vec<&System> = SYSTEMS.iter().filter(|system| system.shares_memory).collect();
    let mut builder = Runtime::builder().only_given_folders();
    for system in &systems {
        builder = builder
            .link(system.query)
            .configure(system.plugin, "precision", "reduced");
        for (key, value) in (system.configuration)()? {
            builder = builder.configure(system.plugin, key, value);
        }
    }
    let runtime = builder.configure("rknn", "caches", "access").build()?;
    let path = paths::models().join("mobilenet_v2.onnx");
    let model = runtime.load(path)?;
    let policy = |devices: Vec<String>| Policy::latency().threads(1).in_flight(1).devices(devices);
    let alone = runtime.session(&model, policy(vec!["cpu:0".to_owned()]))?;
    let names: Vec<String> = systems
        .iter()
        .map(|system| format!("{}:0", system.plugin))
        .collect();
    let mut all = names.clone();
    all.push("cpu:0".to_owned());
    let own = runtime.plan(&model, &policy(all.clone()))?;
    let mut pinned = policy(all.clone());
    let mut turns = all.iter().cycle();
    let nodes: Vec<_> = own.graph().nodes().collect();
    for (index, (_, node)) in nodes.iter().enumerate() {
        if index % STRIDE == 0 {
            turns.next();
        }
        let device = turns.clone().next().context("there are devices")?;
        let column = own.devices().iter().position(|found| found.name() == device);
        let column = column.with_context(|| format!("the plan knows no {device}"))?;
        if own.targets()[column].supports(index) {
            pinned = pinned.pin(&node.name, device);
        }
    }
    let session = runtime.session(&model, pinned)?;
    for seed in 0..RUNS {
        let (_, inputs) = filled(&model, seed)?;
        let wanted = model::run_session(&alone, &inputs)?;
        let found = model::run_session(&session, &inputs)?;
        for ((name, wanted), (_, found)) in wanted.iter().zip(&found) {
            let cosine = cosine(found, wanted);
            ensure!(cosine >= COSINE, "run {seed}, output {name:?}: cosine {cosine}");
        }
    }
    let report = session.report();
    ensure!(
        report.copies == 0,
        "{} copies of {} bytes",
        report.copies,
        report.copied_bytes
    );
    let crossings = report.crossings.iter();
    let pairs: BTreeSet<(&str, &str)> = crossings
        .map(|crossing| (&*crossing.from, &*crossing.to))
        .collect();
    for crossing in &report.crossings {
        ensure!(
            crossing.mode != "copy",
            "{} goes from {} to {} as a copy",
            crossing.tensor,
            crossing.from,
            crossing.to
        );
    }
    for turn in all.iter().zip(all.iter().cycle().skip(1)) {
        let pair = (&**turn.0, &**turn.1);
        ensure!(
            pairs.contains(&pair),
            "nothing goes from {} to {}",
            pair.0,
            pair.1
        );
    }
    let syncs = syncs()?;
    ensure!(syncs > 0, "caches were never brought together");
    eprintln!(
        "{} parts, {} crossings of {} kinds, no copy, {syncs} cache operations (emulated)",
        report.parts.len(),
        report.crossings.len(),
        pairs.len()
    );
    Ok(())
}

/// How often caches were brought together by a call, as the emulator counts it.
fn syncs() -> Result<u64> {
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
    ensure!(
        counts.copied_bytes == 0,
        "the runtime copied {} bytes",
        counts.copied_bytes
    );
    ensure!(counts.runs > 0, "another library counted");
    Ok(counts.syncs)
}

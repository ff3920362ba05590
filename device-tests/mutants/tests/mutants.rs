//! Some thousand mutants of the ONNX backend suite's models: none panics, hangs, ends its process or takes too much memory.
//!
//! `cargo xtask mutants` tries more. `POLYCHIP_SUITE_DEVICE` names the device, as for the suite itself.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use libtest_mimic::{Arguments, Failed, Trial};
use polychip_device_tests::{Need, paths, suite};
use polychip_mutants::{Conditions, drive, models};

const COUNT: u64 = 6000;
/// Longer than a mutant may take, for a build without optimisation on a machine that does other work too.
const PATIENCE: Duration = Duration::from_secs(30);

fn main() {
    let mut arguments = Arguments::from_args();
    // each trial takes all processors
    arguments.test_threads = Some(1);
    if !paths::suite().is_dir() {
        suite::skip(&arguments, Need::Models, paths::NO_SUITE);
    }
    let trial = Trial::test("mutants of the backend suite's models", mutants);
    libtest_mimic::run(&arguments, vec![trial]).exit()
}

fn mutants() -> Result<(), Failed> {
    let report = drive(&Conditions {
        program: PathBuf::from(env!("CARGO_BIN_EXE_polychip-mutants")),
        models: models(&[paths::suite()], 2 << 20)?,
        count: COUNT,
        seed: 1 << 32,
        device: std::env::var("POLYCHIP_SUITE_DEVICE").unwrap_or_else(|_| "cpu:0".into()),
        processes: std::thread::available_parallelism()?.get(),
        patience: PATIENCE,
        memory: 2 << 30,
    })?;
    eprintln!("{report}");
    if report.clean() {
        Ok(())
    } else {
        Err(report.to_string().into())
    }
}

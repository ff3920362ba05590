//! The suite on the plugins of this repository, each a case of this test.
//!
//! Invariant: what cannot be judged here (a vendor's library that is missing) is reported as skipped.

use std::path::PathBuf;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use polychip_conformance::run::{self, Settings};
use polychip_device_tests::expectations::Expectations;
use polychip_device_tests::libraries;

fn program() -> PathBuf {
    env!("CARGO_BIN_EXE_polychip-conform").into()
}

/// A plugin of this repository, with its known failures.
fn settings(plugin: &str) -> Result<Settings, Failed> {
    let mut settings = Settings::new(program(), libraries::plugin(plugin)?);
    settings.expectations = Arc::new(Expectations::load(&format!("conformance-{plugin}"))?);
    settings.cycles = 200;
    Ok(settings)
}

fn conforms(settings: &Settings) -> Result<(), Failed> {
    let report = run::run(settings, &mut ())?;
    if report.conforms() {
        return Ok(());
    }
    Err(report.text().into())
}

fn main() {
    let mut arguments = Arguments::from_args();
    // children share the machine's few cores
    arguments.test_threads.get_or_insert(2);
    let trials = vec![
        Trial::test("cpu", || conforms(&settings("cpu")?)),
        Trial::test("null", || {
            let mut settings = settings("null")?;
            settings
                .configuration
                .insert("script".into(), "[[device]]".into());
            conforms(&settings)
        }),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}

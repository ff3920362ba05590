//! `cargo xtask arm`: the tests on aarch64, cross-built once and run by qemu's emulation of several processors.
//!
//! Invariants:
//! 1. What is missing on this machine is named with how to get it; nothing is installed here.
//! 2. The processors differ in what they have: NEON alone (cortex-a53), dot products and f16 (cortex-a76), all (max). That
//!    the first catches an instruction whose guard is missing is tried each time before any test ([`unguarded`]).
//! 3. A package that is not run stands in the summary with its reason, and so does a test that was skipped.
//!
//! Not here: speed, of which an emulator says nothing; which packages cannot run ([`packages`]).
//! Start reading at [`run`].

mod build;
mod emulator;
mod packages;
mod unguarded;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::root::root;
use build::Program;
use emulator::{Emulator, End};

pub(crate) use build::missing;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Processors to emulate, as `qemu-aarch64 -cpu help` names them
    #[arg(long, value_delimiter = ',', default_value = "cortex-a53,cortex-a76,max")]
    cpu: Vec<String>,
    /// Run the tests of these packages only
    #[arg(long, value_delimiter = ',', value_name = "PACKAGE")]
    only: Vec<String>,
    /// Leave these packages out, beside those that cannot run
    #[arg(long, value_delimiter = ',', value_name = "PACKAGE")]
    without: Vec<String>,
    /// Of the ONNX backend suite, take each Nth case only
    #[arg(long, default_value_t = 1)]
    every: usize,
    /// Cases of each property test that does not say how many it wants
    #[arg(long, default_value_t = 64)]
    cases: u32,
    /// Minutes after which a program of tests is ended, and counts as failed
    #[arg(long, default_value_t = 40)]
    minutes: u64,
    /// Build and run only the tests within libraries, no suites and no tests of integration
    #[arg(long)]
    lib: bool,
    /// Try only that an unguarded instruction is caught, and run no tests
    #[arg(long)]
    unguarded: bool,
    /// Run only the tests whose name holds one of these
    #[arg(last = true, value_name = "NAME")]
    names: Vec<String>,
}

/// What became of one program of tests on one processor.
struct Done {
    program: String,
    end: End,
}

/// Builds the tests and runs them on each processor; whether all passed.
pub(crate) fn run(options: &Options) -> Result<bool> {
    if let Some(why) = missing() {
        bail!("{why}");
    }
    let target = build::target();
    std::fs::create_dir_all(&target)?;
    let unguarded = unguarded::build(&target)?;
    let (chosen, left_out) = if options.unguarded {
        Default::default()
    } else {
        packages::choose(&options.only, &options.without)?
    };
    let programs = if options.unguarded {
        Vec::new()
    } else {
        eprintln!("== building the tests of {} packages for aarch64", chosen.len());
        build::build(&chosen, options.lib)?
    };
    // the kernel starts a program of another processor where it was told how; tests that start our own programs need that
    let starts = unguarded::starts_directly(&unguarded);
    let mut all = true;
    let mut summaries = Vec::new();
    for cpu in &options.cpu {
        let emulator = Emulator {
            cpu: cpu.clone(),
            logs: target.join("logs").join(cpu),
            limit: Duration::from_secs(60 * options.minutes),
            environment: vec![
                ("PROPTEST_CASES", options.cases.to_string()),
                ("POLYCHIP_SUITE_EVERY", options.every.to_string()),
            ],
        };
        let has = unguarded::features(&emulator, &unguarded)?;
        let words = if has.is_empty() { "NEON alone" } else { has.trim() };
        eprintln!("\n== {cpu}, emulated: {words}");
        let proof = unguarded::prove(&emulator, &unguarded, &has);
        let caught = match &proof {
            Ok(words) => words.clone(),
            Err(error) => format!("FAILED: {error:#}"),
        };
        eprintln!("{caught}");
        all &= proof.is_ok();
        let done = on(&emulator, &programs, starts, options)?;
        all &= done.iter().all(|done| !done.end.is_failure());
        summaries.push((format!("{cpu} ({words})"), caught, done));
    }
    summarise(&summaries, &left_out, &target.join("logs"));
    Ok(all)
}

/// Runs all programs on one processor, and says of each how it ended.
fn on(emulator: &Emulator, programs: &[Program], starts: bool, options: &Options) -> Result<Vec<Done>> {
    let mut all = Vec::new();
    for (index, program) in programs.iter().enumerate() {
        let name = program.name();
        let end = if !starts && packages::starts_programs(program) {
            End::Skipped(
                "needs binfmt: it starts programs of ours, and this kernel was not told to start those of aarch64 \
                 (Debian: qemu-user-binfmt)"
                    .to_owned(),
            )
        } else {
            emulator.run(program, &options.names)?
        };
        eprintln!("{:>3}/{} {name}: {end}", index + 1, programs.len());
        all.push(Done { program: name, end });
    }
    Ok(all)
}

fn summarise(
    summaries: &[(String, String, Vec<Done>)],
    left_out: &[packages::LeftOut],
    logs: &std::path::Path,
) {
    eprintln!("\n== summary; every processor was emulated by qemu-user");
    for (package, why) in left_out {
        eprintln!("not run  {package}: {why}");
    }
    for (cpu, caught, done) in summaries {
        let (mut ran, mut skipped) = (0, 0);
        let mut failed = Vec::new();
        for one in done {
            let (some, others) = one.end.counts();
            ran += some;
            skipped += others;
            if one.end.is_failure() {
                failed.push(format!("FAILED   {}: {}", one.program, one.end));
            } else if let End::Skipped(why) = &one.end {
                failed.push(format!("skipped  {}: {why}", one.program));
            }
        }
        eprintln!(
            "\n{cpu}: {} programs, {ran} tests ran, {skipped} skipped; {caught}",
            done.len()
        );
        for line in failed {
            eprintln!("{line}");
        }
    }
    let folder: PathBuf = logs.strip_prefix(root()).unwrap_or(logs).to_owned();
    eprintln!("\nwhat each printed: {}", folder.display());
}

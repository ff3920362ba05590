//! `cargo xtask arm`: the tests on aarch64, cross-built once and run by qemu's emulation of several processors.
//!
//! Invariants:
//! 1. Missing programs are reported with instructions; nothing is installed.
//! 2. The processors differ in features: NEON only (cortex-a53), dot products and f16 (cortex-a76), all (max). Each
//!    run first proves that the first one catches an unguarded instruction ([`unguarded`]).
//! 3. The summary lists every skipped package and test with its reason.
//! 4. `--resume` skips only programs that passed before with the same build and options.
//!
//! Not here: speed, which is meaningless under emulation; packages that cannot run ([`packages`]). Start reading at
//! [`run`].

mod binfmt;
mod build;
mod emulator;
mod packages;
mod program;
mod results;
mod unguarded;

use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};

use crate::root::root;
use binfmt::Starts;
use emulator::{Emulator, End};
use program::Program;
use results::{Last, Results, Trial};

pub(crate) use build::missing;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Processors to emulate, named as in `qemu-aarch64 -cpu help`
    #[arg(long, value_delimiter = ',', default_value = "cortex-a53,cortex-a76,max")]
    cpu: Vec<String>,
    /// Run only the tests of these packages
    #[arg(long, value_delimiter = ',', value_name = "PACKAGE")]
    only: Vec<String>,
    /// Skip these packages, in addition to those that cannot run
    #[arg(long, value_delimiter = ',', value_name = "PACKAGE")]
    without: Vec<String>,
    /// Run only every Nth case of the ONNX backend suite
    #[arg(long, default_value_t = 1)]
    every: usize,
    /// Cases of each property test without a number of its own
    #[arg(long, default_value_t = 64)]
    cases: u32,
    /// Minutes after which a test program is stopped and counts as failed
    #[arg(long, default_value_t = 40)]
    minutes: u64,
    /// Build and run only unit tests of libraries, no suites and no integration tests
    #[arg(long)]
    lib: bool,
    /// Build and run only these integration tests, and no unit tests
    #[arg(long, value_delimiter = ',', value_name = "TEST", conflicts_with = "lib")]
    test: Vec<String>,
    /// Run only these test programs, named as in the summary: `polychip-farm::boards`
    #[arg(long, value_delimiter = ',', value_name = "PROGRAM", conflicts_with_all = ["lib", "test"])]
    program: Vec<String>,
    /// Only check that an unguarded instruction is caught, and run no tests
    #[arg(long)]
    unguarded: bool,
    /// Number of test programs to run concurrently
    #[arg(long, default_value_t = 1, value_name = "N")]
    jobs: usize,
    /// Skip programs that passed before (target/arm/results.json) and were not rebuilt since
    #[arg(long)]
    resume: bool,
    /// Build without running
    #[arg(long, conflicts_with = "unguarded")]
    no_run: bool,
    /// Only print the last results of all programs
    #[arg(long)]
    table: bool,
    /// Run only the tests whose name contains one of these texts
    #[arg(last = true, value_name = "NAME")]
    names: Vec<String>,
}

/// What became of one program of tests on one processor.
struct Done {
    program: String,
    end: End,
}

/// An emulated processor, and what ran on it.
struct Processor {
    emulator: Emulator,
    /// What it has.
    words: String,
    /// What the proof of [`unguarded`] found.
    caught: String,
    done: Mutex<Vec<Done>>,
}

/// A processor's description, what the proof found on it, and its programs by name.
type Summary = (String, String, Vec<Done>);

impl Processor {
    fn into_summary(self) -> Summary {
        let mut done = self
            .done
            .into_inner()
            .expect("invariant: no thread panics with it");
        done.sort_by(|a, b| a.program.cmp(&b.program));
        (
            format!("{} ({})", self.emulator.cpu, self.words),
            self.caught,
            done,
        )
    }
}

/// Builds the tests and runs them on each processor; whether all passed.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let target = build::target();
    std::fs::create_dir_all(&target)?;
    let results = Results::read(target.join("results.json"))?;
    if options.table {
        eprint!("{}", results.table());
        return Ok(true);
    }
    if let Some(why) = missing() {
        bail!("{why}");
    }
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
        let mut built = build::build(&chosen, options.lib, &options.test)?;
        if let Some(name) = options
            .program
            .iter()
            .find(|name| built.iter().all(|one| one.name() != **name))
        {
            bail!("--program {name}: no such program is built; `--table` lists those that ran before");
        }
        built.retain(|one| options.program.is_empty() || options.program.contains(&one.name()));
        built
    };
    if options.no_run {
        eprintln!("{} programs are built", programs.len());
        return Ok(true);
    }
    let starts = Starts::find(&unguarded);
    let path = binfmt::path(&target)?;
    let results = Mutex::new(results);
    let mut all = true;
    let mut processors = Vec::new();
    for cpu in &options.cpu {
        let emulator = Emulator {
            cpu: cpu.clone(),
            logs: target.join("logs").join(cpu),
            limit: Duration::from_secs(60 * options.minutes),
            starts,
            path: path.clone(),
            environment: vec![
                ("PROPTEST_CASES", options.cases.to_string()),
                ("POLYCHIP_SUITE_EVERY", options.every.to_string()),
            ],
        };
        let has = unguarded::features(&emulator, &unguarded)?;
        let words = if has.is_empty() { "NEON alone" } else { has.trim() }.to_owned();
        eprintln!("\n== {cpu}, emulated: {words}");
        let proof = unguarded::prove(&emulator, &unguarded, &has);
        let caught = match &proof {
            Ok(words) => words.clone(),
            Err(error) => format!("FAILED: {error:#}"),
        };
        eprintln!("{caught}");
        all &= proof.is_ok();
        processors.push(Processor {
            emulator,
            words,
            caught,
            done: Mutex::new(Vec::new()),
        });
    }
    on_all(&processors, &programs, &results, options)?;
    let summaries: Vec<_> = processors.into_iter().map(Processor::into_summary).collect();
    all &= summaries
        .iter()
        .all(|(.., done)| done.iter().all(|done| !done.end.is_failure()));
    summarise(&summaries, &left_out, &target.join("logs"));
    if !options.unguarded {
        let results = results.lock().expect("invariant: no thread panics with it");
        eprintln!("\nlast results of all programs:\n{}", results.table());
    }
    Ok(all)
}

/// Runs all programs on each processor, some concurrently, and reports how each ended. What took long before comes last, on
/// whichever processor: a run that is stopped has most of them.
fn on_all(
    processors: &[Processor],
    programs: &[Program],
    results: &Mutex<Results>,
    options: &Options,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let each = processors
        .iter()
        .flat_map(|processor| programs.iter().map(move |program| (processor, program)));
    let mut order: Vec<(&Processor, &Program)> = each.collect();
    {
        let results = results.lock().expect("invariant: no thread panics with it");
        order.sort_by_key(|(_, program)| results.seconds(&program.name()));
    }
    let commit = commit();
    let thread = || -> Result<()> {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(&(Processor { emulator, done, .. }, program)) = order.get(index) else {
                return Ok(());
            };
            let end = one(emulator, program, results, options, &commit)?;
            let name = program.name();
            eprintln!("{:>3}/{} {}, {name}: {end}", index + 1, order.len(), emulator.cpu);
            let mut done = done.lock().expect("invariant: no thread panics with it");
            done.push(Done { program: name, end });
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..options.jobs.max(1)).map(|_| scope.spawn(thread)).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("invariant: its errors are returned"))
    })
}

/// Runs one program unless that is of no use, and keeps its result.
fn one(
    emulator: &Emulator,
    program: &Program,
    results: &Mutex<Results>,
    options: &Options,
    commit: &str,
) -> Result<End> {
    if emulator.starts == Starts::Nothing && packages::starts_programs(program) {
        return Ok(End::Skipped(
            "needs binfmt: it starts aarch64 programs, which this kernel cannot run, even through a user namespace \
             (install Debian's qemu-user-binfmt, or use Linux 6.7 and unshare)"
                .to_owned(),
        ));
    }
    let name = program.name();
    if let Some(why) = packages::cannot_run(&name) {
        return Ok(End::Skipped(why.to_owned()));
    }
    let trial = Trial {
        built_ns: program.built_ns,
        cases: options.cases,
        every: options.every,
        starts: emulator.starts != Starts::Nothing,
    };
    let known = || results.lock().expect("invariant: no thread panics with it");
    if options.resume
        && known()
            .of(&emulator.cpu, &name)
            .is_some_and(|last| last.holds(&trial))
    {
        return Ok(End::Skipped("passed before (--resume)".to_owned()));
    }
    let end = emulator.run(program, &options.names)?;
    // some tests of a program say nothing of the whole
    if options.names.is_empty() {
        known().keep(
            &emulator.cpu,
            &name,
            Last::new(trial, &end, packages::skipped(&name).len(), commit),
        )?;
    }
    Ok(end)
}

/// The commit that is checked out, with a mark where files differ from it.
fn commit() -> String {
    let mut command = Command::new("git");
    command
        .args(["describe", "--always", "--dirty=+"])
        .current_dir(root());
    let output = command.output().ok().filter(|output| output.status.success());
    let words = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    words.unwrap_or_else(|| "unknown".to_owned())
}

fn summarise(summaries: &[Summary], left_out: &[packages::LeftOut], logs: &std::path::Path) {
    eprintln!("\n== summary; all processors were emulated by qemu-user");
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
        for one in done.iter().filter(|one| !matches!(one.end, End::Skipped(_))) {
            for (test, why) in packages::skipped(&one.program) {
                skipped += 1;
                failed.push(format!("skipped  {}, {test}: {why}", one.program));
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

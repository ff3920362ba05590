//! `cargo xtask`: the repository's tasks, identical on a laptop and in CI.
//!
//! Invariant: one command runs every CI check here, and a check that cannot run on this machine reports *skipped*
//! with the reason, never *passed*. Start reading at [`ci`].

#![forbid(unsafe_code)]

use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};

mod arm;
mod bindgen;
mod budget;
mod capi_deb;
mod capi_install;
mod charts;
mod ci;
mod differ;
mod doors;
mod farm_desk;
mod golden;
mod guest;
mod killed;
mod models;
mod mutants;
mod new_plugin;
mod onnxruntime;
mod ops;
mod page;
mod peers;
mod placement_bench;
mod planning_bench;
mod plans;
mod predict;
// the SDK's, by path: `xtask` depends on no package of ours, so that it builds before they do
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the SDK writes more than models of benchmarks and tests"
)]
#[path = "../../contract/sdk/src/protobuf.rs"]
mod protobuf;
mod python;
mod root;
mod sessions;
mod site;
mod size;
mod soc;
mod statistics;
mod tally;
mod tidy;
mod trained;
mod vendor;
mod walk;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Repository tasks of Polychip")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Run every CI check that this machine supports, and report skipped ones with the reason
    Ci(ci::Options),
    /// Run the quick checks: format, conventions, and every short test that needs neither Python nor a vendor library
    Test(ci::QuickOptions),
    /// Check the conventions: crate edges, import cycles, statements of ARCHITECTURE.md, words, dependencies, files
    Tidy(tidy::Options),
    /// Compare the committed C headers of the plugin contract and the C library with the Rust source
    Header(golden::Options),
    /// Compare the committed sizes and offsets of the plugin contract with the build
    Layout(golden::Options),
    /// Generate the declarations of vendor libraries from our own C headers, or compare them
    Bindgen(bindgen::Options),
    /// Generate test data: Python packages, models, ONNX Runtime outputs, the ONNX backend suite
    Models(models::Options),
    /// Fetch a vendor library for tests, after explaining its licence
    Vendor(vendor::Options),
    /// Run the tests on aarch64 processors emulated by qemu, and report skipped ones with the reason
    Arm(arm::Options),
    /// Run the dma-buf tests in a virtual machine that provides dma-bufs
    Guest,
    /// Compare with other CPU runtimes in one interleaved run, and write docs/benchmarks/cpu.md
    Peers(peers::Options),
    /// Compare random graphs on the CPU with ONNX Runtime, with the ONNX reference as referee; unknown differences
    /// fail
    Differ(differ::Options),
    /// Compare single-op models with ONNX Runtime, interleaved, and report the error of predictions without a profile
    Ops(ops::Options),
    /// Compare typical app sessions with ONNX Runtime: many input widths, stateful streams, concurrent sessions
    Sessions(sessions::Options),
    /// Compare pretrained models of public packages with ONNX Runtime: outputs, time, memory
    Trained(trained::Options),
    /// Run thousands of mutated models: each must be refused with a reason or run, in bounded time and memory
    Mutants(mutants::Options),
    /// Predict models from measurements of others, measure them at the same time, and write
    /// docs/benchmarks/prediction.md
    Predict(predict::Options),
    /// Compare plans with other heuristics and proven optima, and time planning, on an open corpus
    PlacementBench(placement_bench::Options),
    /// Time `polychip partition` on models of growing size, and report how the time grows
    PlanningBench(planning_bench::Options),
    /// Kill measuring apps, and check what their profiles kept
    Killed(killed::Options),
    /// Time multi-device plans against the best single device: the first plan, after 200 runs, after `measure`
    Plans(plans::Options),
    /// Rebuild the page of `polychip partition --html`, and open one in a browser
    Page(page::Options),
    /// Run the demo through every binding (command line, Rust, C, C++, Python); all must give the same answer
    Doors(doors::Options),
    /// Run each command of README.md, docs/cli.md and the tutorials in a fresh copy of the tree, with the built
    /// programs
    Walk(walk::Options),
    /// Test the Python module in Python, or build its wheel and test that
    Python(python::Options),
    /// Test the ONNX Runtime execution provider in ONNX Runtime, or build its wheel and test that
    Onnxruntime(onnxruntime::Options),
    /// Set up a device farm on this machine (labgrid, places over ssh, emulated boards over adb), measure on it, and
    /// open the report
    FarmDesk(farm_desk::Options),
    /// Draw docs/benchmarks/charts from the raw files, or compare the committed charts
    Charts(charts::Options),
    /// Simulate the governor on the emulated SoC, and compare it with every static plan
    Soc(soc::Options),
    /// Build the C library and install it with header, pkg-config and CMake files
    CapiInstall(capi_install::Options),
    /// Build Debian packages of the C library
    CapiDeb(capi_deb::Options),
    /// Build the documentation site with mdBook, and check each of its links
    Site(site::Options),
    /// Check the first build's time and the program sizes against their budgets
    Budget(budget::Options),
    /// Print lines of code per crate
    Size,
    /// Create a working plugin as a starting point
    NewPlugin(new_plugin::Options),
}

fn main() -> ExitCode {
    match run(Arguments::parse().chore) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // without this program's backtrace, which does not help to find the cause
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The names of all chores.
fn chores() -> Vec<String> {
    let command = Arguments::command();
    let chores = command.get_subcommands();
    chores.map(|chore| chore.get_name().to_owned()).collect()
}

/// Runs a chore, which prints its findings, and returns whether it found nothing wrong.
fn run(chore: Chore) -> Result<bool> {
    match chore {
        Chore::Ci(options) => return ci::run(&options),
        Chore::Budget(options) => return budget::run(&options),
        Chore::Mutants(options) => return mutants::run(&options),
        Chore::Differ(options) => return differ::run(&options),
        Chore::Ops(options) => return ops::run(&options),
        Chore::Sessions(options) => return sessions::run(&options),
        Chore::Trained(options) => return trained::run(&options),
        Chore::Test(options) => return ci::run_quick(&options),
        Chore::Arm(options) => return arm::run(&options),
        Chore::Tidy(options) => tidy::run(&options, &chores()),
        Chore::Header(options) => golden::header(&options),
        Chore::Layout(options) => golden::layout(&options),
        Chore::CapiInstall(options) => capi_install::run(&options),
        Chore::CapiDeb(options) => capi_deb::run(&options),
        Chore::Bindgen(options) => bindgen::run(&options),
        Chore::Models(options) => models::run(&options),
        Chore::Vendor(options) => vendor::run(&options),
        Chore::Guest => guest::run(),
        Chore::Peers(options) => peers::run(&options),
        Chore::Predict(options) => predict::run(&options),
        Chore::PlacementBench(options) => placement_bench::run(&options),
        Chore::PlanningBench(options) => planning_bench::run(&options),
        Chore::Killed(options) => killed::run(&options),
        Chore::Plans(options) => plans::run(&options),
        Chore::Page(options) => page::run(&options),
        Chore::Doors(options) => doors::run(&options),
        Chore::Walk(options) => walk::run(&options),
        Chore::Python(options) => python::run(&options),
        Chore::Onnxruntime(options) => onnxruntime::run(&options),
        Chore::FarmDesk(options) => farm_desk::run(&options),
        Chore::Charts(options) => charts::run(&options),
        Chore::Soc(options) => soc::run(&options),
        Chore::Site(options) => site::run(&options),
        Chore::Size => size::run(),
        Chore::NewPlugin(options) => new_plugin::run(&options),
    }?;
    Ok(true)
}

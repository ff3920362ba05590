//! `cargo xtask`: the chores of the repository, the same on a laptop and in CI.
//!
//! Invariant: every check that CI makes can be run here by one command, and a check that cannot run on
//! this machine says *skipped* with the reason, never *passed*.
//! Start reading at [`ci`].

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
mod python;
mod root;
mod sessions;
mod site;
mod size;
mod soc;
mod tally;
mod tidy;
mod trained;
mod vendor;
mod walk;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Chores of the Polychip repository")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Run every check of CI that this machine can run; say which were skipped and why
    Ci(ci::Options),
    /// Run the quick checks: format, conventions, every test that needs no Python, no vendor's library and no minutes
    Test(ci::QuickOptions),
    /// Check the conventions: crate edges, circles of imports, what ARCHITECTURE.md states, words, dependencies, files
    Tidy(tidy::Options),
    /// Compare the committed C headers, of the plugin contract and of the C library, with the Rust source
    Header(golden::Options),
    /// Compare the committed sizes and offsets of the plugin contract with the build
    Layout(golden::Options),
    /// Make the declarations of the vendors' libraries from our own C headers, or compare them
    Bindgen(bindgen::Options),
    /// Make the witnesses' data: Python packages, models, ONNX Runtime's outputs, the ONNX backend suite
    Models(models::Options),
    /// Fetch a vendor's library for tests: explains its licence first
    Vendor(vendor::Options),
    /// Run the tests on aarch64 processors that qemu emulates; say which were skipped and why
    Arm(arm::Options),
    /// Run the tests of dma-bufs in a virtual machine that makes them
    Guest,
    /// Compare with the other CPU runtimes in one interleaved run, and write docs/benchmarks/cpu.md
    Peers(peers::Options),
    /// Run random graphs on the CPU and in ONNX Runtime, with ONNX's reference as referee: every difference is known or fails
    Differ(differ::Options),
    /// Run models of one op each beside ONNX Runtime, by turns; say how far predictions without a profile are off
    Ops(ops::Options),
    /// Sessions as apps use them beside ONNX Runtime: inputs of many widths, streams with a state, sessions at once
    Sessions(sessions::Options),
    /// Run trained models of public packages beside ONNX Runtime: answers, time, memory
    Trained(trained::Options),
    /// Try mutated models by the thousand: each is refused by name or runs, in bounded time and memory
    Mutants(mutants::Options),
    /// Predict models from what others teach, measure them in the same minutes, and write docs/benchmarks/prediction.md
    Predict(predict::Options),
    /// Compare plans with other rules and proved optima, and time planning, on an open corpus
    PlacementBench(placement_bench::Options),
    /// Time the whole of `polychip partition` on models of growing size, and say how it grows
    PlanningBench(planning_bench::Options),
    /// Kill apps that measure, and check what their profiles kept
    Killed(killed::Options),
    /// Time plans over several devices beside the best device alone: at once, after 200 runs, after `measure`
    Plans(plans::Options),
    /// Make the page of `polychip partition --html` again, and open one in a browser
    Page(page::Options),
    /// Run the demo through every door (command line, Rust, C, C++, Python); each must give the same answer
    Doors(doors::Options),
    /// Walk README.md, docs/cli.md and the tutorials: run each command that they show, in a fresh copy of the tree, by what is built
    Walk(walk::Options),
    /// Test the Python module in Python, or make its wheel and test that
    Python(python::Options),
    /// Test the provider of ONNX Runtime in ONNX Runtime, or make its wheel and test that
    Onnxruntime(onnxruntime::Options),
    /// Make a device farm on this machine (labgrid, places over ssh, emulated boards over adb), measure on it, open the report
    FarmDesk(farm_desk::Options),
    /// Draw the charts of docs/benchmarks/charts from the raw files beside them, or compare them
    Charts(charts::Options),
    /// Simulate the governor on the emulated SoC and compare it with every plan by itself
    Soc(soc::Options),
    /// Build the C library and lay it out with header, pkg-config and CMake files
    CapiInstall(capi_install::Options),
    /// Make Debian packages of the C library
    CapiDeb(capi_deb::Options),
    /// Make the site of all pages with mdBook, and follow each of its links
    Site(site::Options),
    /// Hold the first build's time and programs' sizes to their budgets
    Budget(budget::Options),
    /// Print lines of code per crate
    Size,
    /// Write a new plugin that works, to be made one's own
    NewPlugin(new_plugin::Options),
}

fn main() -> ExitCode {
    match run(Arguments::parse().chore) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // without the stack of this program, which says nothing of what is wrong
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

/// Whether the chore found nothing wrong; it has said what it found.
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

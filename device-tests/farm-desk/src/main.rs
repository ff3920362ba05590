//! A device farm on one machine: a labgrid coordinator, two places over ssh in network namespaces of their own, two
//! emulated arm64 boards over adb, and what `polychip farm` must make of them.
//!
//! Invariants:
//! 1. All started processes live in namespaces that end with this program, however it ends ([`sandbox`]).
//! 2. Nothing is written outside the given folder.
//!
//! `cargo xtask farm-desk` starts it with what it needs. Not here: fetching and building that (`xtask/src/farm_desk`), the
//! page in a browser (`apps/cli/page/test/farm-desk.test.js`).
//!
//! Start reading at [`run`].

#![forbid(unsafe_code)]

mod board;
mod farm;
mod labgrid;
mod places;
mod program;
mod sandbox;
mod verdict;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;

#[derive(Debug, Parser)]
#[command(
    name = "farm-desk",
    about = "Run a device farm on one machine, and check its results"
)]
struct Arguments {
    /// Folder for all output; existing contents are removed
    #[arg(long, value_name = "DIR")]
    work: PathBuf,
    /// The `polychip` command
    #[arg(long, value_name = "FILE")]
    polychip: PathBuf,
    /// Runners for this machine and for arm64
    #[arg(long = "runner", value_name = "FILE", required = true)]
    runners: Vec<PathBuf>,
    /// Folder with labgrid's programs
    #[arg(long, value_name = "DIR")]
    labgrid: PathBuf,
    /// Folder with unpacked packages of qemu and adb
    #[arg(long, value_name = "DIR", requires = "board")]
    host: Option<PathBuf>,
    /// Folder with unpacked arm64 packages of a kernel, adbd and busybox; without it, no emulated boards run
    #[arg(long, value_name = "DIR", requires = "host")]
    board: Option<PathBuf>,
    /// Kernel module that provides sensors on the first board
    #[arg(long, value_name = "FILE", requires = "board")]
    sensors: Option<PathBuf>,
    /// Models to measure
    #[arg(required = true)]
    models: Vec<PathBuf>,
    /// The process already runs in its own namespaces
    #[arg(long, hide = true)]
    inside: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let ended = if arguments.inside {
        run(&arguments).map(|()| ExitCode::SUCCESS)
    } else {
        enter()
    };
    ended.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// Starts this program anew, in namespaces.
fn enter() -> Result<ExitCode> {
    let own = std::env::current_exe().context("this program's path")?;
    let mut command = sandbox::command(&own);
    let status = command.arg("--inside").args(std::env::args_os().skip(1)).status();
    let status = status.context("starting setpriv and unshare (package util-linux)")?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The desk is made, measures twice, and is judged.
fn run(arguments: &Arguments) -> Result<()> {
    let work = &arguments.work;
    let desk = sandbox::prepare(work)?;
    let mut program_path = vec![arguments.labgrid.clone()];
    let mut running = Vec::new();
    let mut places = places::Places::both(work)?;
    if let (Some(host), Some(packages)) = (&arguments.host, &arguments.board) {
        program_path.insert(0, board::adb(host, work)?);
        let (boards, processes) = board::both(host, packages, arguments.sensors.as_deref(), work)?;
        places.boards.extend(boards);
        running.extend(processes);
    }
    let path = program::search_path(&program_path)?;
    let coordinator = labgrid::Coordinator::start(work, &path, &places.boards)?;
    let farm = farm::Farm {
        polychip: arguments.polychip.clone(),
        coordinator: coordinator.address.clone(),
        key: places.key.clone(),
        hosts: work.join("known_hosts"),
        path,
        runners: arguments.runners.clone(),
        models: arguments.models.clone(),
        work: work.clone(),
    };
    let systems = farm.wait_for_boards(&places.boards)?;
    for (name, system) in &systems {
        eprintln!("farm-desk: {name} is {system}");
    }
    let runs = ["first", "second"].map(|name| farm.measure(name));
    let [first, second] = runs;
    let (first, second) = (first?, second?);
    let comparison = farm.compare("first", "second")?;
    let report = farm.report(&["first", "second"])?;
    let wanted = verdict::Wanted {
        places: &places.boards,
        models: &arguments.models,
        sensors: arguments.sensors.is_some().then_some(board::NAMES[0]),
    };
    let mut wrong = verdict::of_run("first", &first, &wanted);
    wrong.extend(verdict::of_run("second", &second, &wanted));
    wrong.extend(verdict::of_uploads(&first.answer, &second.answer, &wanted));
    wrong.extend(verdict::of_comparison(&comparison, &wanted));
    wrong.extend(verdict::of_report(&report, &wanted));
    desk.leave(&wanted.expectations())?;
    drop(running);
    for words in &wrong {
        eprintln!("farm-desk: {words}");
    }
    ensure!(wrong.is_empty(), "{} things are not as they must be", wrong.len());
    eprintln!(
        "farm-desk: {} places x {} models, measured twice, merged, compared and reported: {}",
        places.boards.len(),
        arguments.models.len(),
        work.display()
    );
    Ok(())
}

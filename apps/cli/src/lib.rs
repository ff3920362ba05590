//! The `polychip` command, for the program of that name and for other doors (`python -m polychip`): devices, run, bench, compare, measure, energy, monitor, partition, explain, profile, plan, inspect,
//! farm, generate, chat, serve, bench-llm, phases, logits, serve-sim.
//!
//! Invariants:
//! 1. Standard output holds what was asked for and nothing else: descriptor 1 points at standard error
//!    before a plugin is loaded, because vendors' libraries print.
//! 2. Exit codes are a contract: 0 ok, 1 a plan or a model's values differ, a set is refused or a farm finds a regression where that was to
//!    fail, 2 bad usage, 3 bad model or input, 4 no device could run it, 5 device failed.
//! 3. A file that is written appears whole or not at all.
//!
//! Not here: everything that an app could want too; that is the library's (`polychip`).
//! Start reading at [`Command`].

#![forbid(unsafe_code)]
#![cfg_attr(
    not(feature = "full"),
    allow(dead_code, reason = "what commands share is whole in each build")
)]

mod array;
mod bench;
mod compare;
mod completions;
mod defaults;
mod devices;
mod energy;
mod exit;
mod explain;
#[cfg(feature = "farm")]
mod farm;
mod file;
mod fill;
mod input;
mod inspect;
mod label;
#[cfg(feature = "llm")]
mod language;
mod left_out;
mod limits;
mod load;
mod log;
mod measure;
#[cfg(feature = "monitor")]
mod monitor;
mod npy;
mod output;
mod pace;
mod page;
mod partition;
mod peak;
mod per_op;
mod picture;
mod plan;
mod profile;
mod progress;
mod run;
#[cfg(test)]
mod schema;
mod serve_sim;
mod setup;
mod stop;
mod trace;

use std::ffi::OsString;

use clap::Parser;

use output::Output;

/// Ends the help; behind it stands what this build leaves out.
const AFTER_HELP: &str = "\
environment:
  POLYCHIP_LOG      what is said on standard error, by part of the program: `debug`, `polychip::profiler=info`; instead of -v
  POLYCHIP_CONFIG   file of defaults, instead of polychip/config.toml in the folder for settings ($XDG_CONFIG_HOME, else
                    ~/.config); it holds options under \"Devices\" and \"Limits\": `threads = 4`, `devices = [\"cpu\", \"gpu\"]`;
                    an option in the command line goes before it; empty: no file
  POLYCHIP_PLUGINS  folders to look for plugin libraries in
  NO_COLOR          no colours

exit codes: 0 ok, 1 a plan, a model's values, a profile or a farm's run differ, a set is refused (--fail-on, --locked), 2 bad usage, 3 bad model or input, 4 no device could run it, 5 device failed";

/// Runs a neural-network model across every chip of this device.
#[derive(Debug, Parser)]
#[command(
    name = "polychip",
    version,
    arg_required_else_help = true,
    after_help = after_help()
)]
struct Arguments {
    /// Say more on standard error: `-v` what was done, `-vv` why, `-vvv` everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List devices, and plugins that are not used with the reason
    Devices(devices::Arguments),
    /// Run a model on given inputs
    Run(run::Arguments),
    /// Measure the latency of a model
    Bench(bench::Arguments),
    /// Compare two models, or one model run in two ways, layer by layer: the first that drifts, time and memory
    Compare(compare::Arguments),
    /// Measure each device alone and plans made of that, until nothing is left to try
    Measure(measure::Arguments),
    /// Measure the energy of a run on each device and plan, by the machine's sensors
    Energy(energy::Arguments),
    /// Show devices, temperatures, clocks and power, and what a governed session does about them
    #[cfg(feature = "monitor")]
    Monitor(monitor::Arguments),
    /// Split a model into parts and give each to a device
    Partition(partition::Arguments),
    /// Say why each node is on its device and on no other
    Explain(explain::Arguments),
    /// Measure models and what they consist of, and keep, merge and compare what was measured
    Profile(profile::Arguments),
    /// Compare plans
    Plan(plan::Arguments),
    /// Summarise a model: ops, shapes, and what each device does not support
    Inspect(inspect::Arguments),
    /// Measure models on all boards of a device farm, and compare, show and ship what was measured
    #[cfg(feature = "farm")]
    Farm(farm::Arguments),
    /// Answer a prompt with a language model
    #[cfg(feature = "llm")]
    Generate(language::generate::Arguments),
    /// Talk with a language model
    #[cfg(feature = "llm")]
    Chat(language::chat::Arguments),
    /// Serve a language model over HTTP, for clients of OpenAI's interface
    #[cfg(feature = "serve")]
    Serve(language::serve::Arguments),
    /// Measure how fast a language model reads and answers
    #[cfg(feature = "llm")]
    BenchLlm(language::bench::Arguments),
    /// Measure a language model's chunks on each device, and plan which device reads and which answers
    #[cfg(feature = "llm")]
    Phases(language::phases::Arguments),
    /// Write the logits of a language model behind each token of a text
    #[cfg(feature = "llm")]
    Logits(language::logits::Arguments),
    /// Say whether several models that share devices meet their deadlines, and simulate them
    ServeSim(serve_sim::Arguments),
    /// Print the completions of a shell, for a file that it reads
    Completions(completions::Arguments),
}

fn after_help() -> String {
    match left_out::help() {
        Some(words) => format!("{AFTER_HELP}\n\n{words}"),
        None => AFTER_HELP.to_owned(),
    }
}

/// Runs a command line, the program's name first, and gives its exit code. Standard output goes to standard error
/// from then on: what vendors' libraries print is no answer.
pub fn run<A: Into<OsString> + Clone>(arguments: impl IntoIterator<Item = A>) -> u8 {
    let line: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
    let arguments = match defaults::parse::<Arguments>(line.clone()) {
        Ok(arguments) => arguments,
        Err(error) => return exit::report(&left_out::named(&line, error)),
    };
    if let Err(error) = log::listen(arguments.verbose) {
        return exit::report(&error);
    }
    let done = Output::take().and_then(|mut out| match arguments.command {
        Command::Devices(arguments) => devices::run(&arguments, &mut out),
        Command::Run(arguments) => run::run(&arguments, &mut out),
        Command::Bench(arguments) => bench::run(&arguments, &mut out),
        Command::Compare(arguments) => compare::run(&arguments, &mut out),
        Command::Measure(arguments) => measure::run(&arguments, &mut out),
        Command::Energy(arguments) => energy::run(&arguments, &mut out),
        #[cfg(feature = "monitor")]
        Command::Monitor(arguments) => monitor::run(&arguments, &mut out),
        Command::Partition(arguments) => partition::run(&arguments, &mut out),
        Command::Explain(arguments) => explain::run(&arguments, &mut out),
        Command::Profile(arguments) => profile::run(&arguments, &mut out),
        Command::Plan(arguments) => plan::run(&arguments, &mut out),
        Command::Inspect(arguments) => inspect::run(&arguments, &mut out),
        #[cfg(feature = "farm")]
        Command::Farm(arguments) => farm::run(&arguments, &mut out),
        #[cfg(feature = "llm")]
        Command::Generate(arguments) => language::generate::run(&arguments, &mut out),
        #[cfg(feature = "llm")]
        Command::Chat(arguments) => language::chat::run(&arguments, &mut out),
        #[cfg(feature = "serve")]
        Command::Serve(arguments) => language::serve::run(&arguments, &mut out),
        #[cfg(feature = "llm")]
        Command::BenchLlm(arguments) => language::bench::run(&arguments, &mut out),
        #[cfg(feature = "llm")]
        Command::Phases(arguments) => language::phases::run(&arguments, &mut out),
        #[cfg(feature = "llm")]
        Command::Logits(arguments) => language::logits::run(&arguments, &mut out),
        Command::ServeSim(arguments) => serve_sim::run(&arguments, &mut out),
        Command::Completions(arguments) => completions::run::<Arguments>(&arguments, &mut out),
    });
    match done {
        Ok(()) => 0,
        Err(error) => exit::report(&error),
    }
}

/// The page of a plan, as `polychip partition --html` writes it: graph, timeline, costs and reasons in one file.
///
/// # Errors
/// The plan and what it was made from do not fit.
pub fn plan_page(title: &str, planned: &polychip::Planned) -> anyhow::Result<String> {
    let report = partition::report(planned)?;
    page::page(
        title.to_owned(),
        planned,
        &report,
        &partition::explained(planned)?,
        page::Beside::default(),
    )
}

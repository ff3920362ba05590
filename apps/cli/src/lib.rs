//! The `polychip` command, for the program of that name and for other bindings (`python -m polychip`). [`Command`]
//! lists the subcommands.
//!
//! Invariants:
//! 1. Standard output holds only the requested output. Descriptor 1 points at standard error before a plugin is
//!    loaded, because vendor libraries print.
//! 2. Exit codes are a contract: 0 success, 1 a requested gate failed, 2 wrong usage, 3 bad model or input, 4 no
//!    device can run the model, 5 a device failed.
//! 3. Files are written atomically.
//!
//! Not here: everything that an app may need, too. That is in the library (`polychip`). Start reading at [`Command`].

#![forbid(unsafe_code)]
#![cfg_attr(
    not(feature = "full"),
    allow(dead_code, reason = "shared code of the commands is complete in each build")
)]

mod array;
mod bench;
mod boxes;
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
mod media;
mod media_arguments;
#[cfg(feature = "monitor")]
mod monitor;
#[cfg(feature = "new-plugin")]
mod new_plugin;
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
mod slow_calls;
mod sound;
mod stop;
mod trace;
mod vendor_output;
mod words;

use std::ffi::OsString;

use clap::Parser;

use output::Output;

/// The end of the help, followed by the commands that this build omits.
const AFTER_HELP: &str = "\
environment:
  POLYCHIP_LOG      log filter for standard error, such as `debug` or `polychip::profiler=info`; overrides -v
  POLYCHIP_CONFIG   file of option defaults, instead of polychip/config.toml in the settings folder ($XDG_CONFIG_HOME or
                    ~/.config); holds options under \"Devices\" and \"Limits\", such as `threads = 4`, `devices = [\"cpu\", \"gpu\"]`;
                    the command line takes precedence; set it empty for no file
  POLYCHIP_PLUGINS  folders to search for plugin libraries; ignored in set-user-ID and set-group-ID programs
  NO_COLOR          no colours

exit codes: 0 success, 1 a requested gate failed (--fail-on, --locked), 2 wrong usage, 3 bad model or input, 4 no device can run the model, 5 a device failed";

/// Runs a neural-network model on every chip of this device.
#[derive(Debug, Parser)]
#[command(
    name = "polychip",
    version,
    arg_required_else_help = true,
    after_help = after_help()
)]
struct Arguments {
    /// Log more to standard error: `-v` steps, `-vv` reasons, `-vvv` everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List devices, and unused plugins with the reason
    Devices(devices::Arguments),
    /// Run a model on given inputs
    Run(run::Arguments),
    /// Measure the latency of a model
    Bench(bench::Arguments),
    /// Compare two models, or two ways to run one model, layer by layer: first drift, time and memory
    Compare(compare::Arguments),
    /// Measure each device alone, then the plans made from those measurements
    Measure(measure::Arguments),
    /// Measure the energy of a run on each device and plan with the machine's sensors
    Energy(energy::Arguments),
    /// Show devices, temperatures, clocks and power, and a governed session's reaction to them
    #[cfg(feature = "monitor")]
    Monitor(monitor::Arguments),
    /// Split a model into parts and assign each to a device
    Partition(partition::Arguments),
    /// Explain each node's device, and why not the other devices
    Explain(explain::Arguments),
    /// Measure models and their parts, and show, merge and compare the measurements
    Profile(profile::Arguments),
    /// Compare plans
    Plan(plan::Arguments),
    /// Summarise a model: ops, shapes, and what each device does not support
    Inspect(inspect::Arguments),
    /// Measure models on all boards of a device farm, and compare, report and bundle the measurements
    #[cfg(feature = "farm")]
    Farm(farm::Arguments),
    /// Answer one prompt with a language model
    #[cfg(feature = "llm")]
    Generate(language::generate::Arguments),
    /// Chat with a language model
    #[cfg(feature = "llm")]
    Chat(language::chat::Arguments),
    /// Serve a language model over HTTP, for OpenAI API clients
    #[cfg(feature = "serve")]
    Serve(language::serve::Arguments),
    /// Measure a language model's prefill and decode speed
    #[cfg(feature = "llm")]
    BenchLlm(language::bench::Arguments),
    /// Measure a language model's chunks on each device, and plan prefill and decode placement
    #[cfg(feature = "llm")]
    Phases(language::phases::Arguments),
    /// Write a language model's logits after each token of a text
    #[cfg(feature = "llm")]
    Logits(language::logits::Arguments),
    /// Check whether several models that share devices meet their deadlines, and simulate them
    ServeSim(serve_sim::Arguments),
    /// Create a plugin for a chip: a working one, as a starting point
    #[cfg(feature = "new-plugin")]
    NewPlugin(new_plugin::Arguments),
    /// Print a shell completion script
    Completions(completions::Arguments),
}

fn after_help() -> String {
    match left_out::help() {
        Some(words) => format!("{AFTER_HELP}\n\n{words}"),
        None => AFTER_HELP.to_owned(),
    }
}

/// As [`run`], for an interpreter that has this library as the module `polychip`: the interpreter's program also starts the
/// processes that read chat templates and grammars.
pub fn run_in(interpreter: Option<std::path::PathBuf>, arguments: Vec<String>) -> u8 {
    #[cfg(feature = "llm")]
    if let Some(interpreter) = interpreter {
        language::sandbox_by(interpreter);
    }
    #[cfg(not(feature = "llm"))]
    let _ = interpreter;
    run(arguments)
}

/// Runs a command line, with the program's name first, and returns its exit code. Afterwards standard output goes to
/// standard error, because vendor libraries print.
pub fn run<A: Into<OsString> + Clone>(arguments: impl IntoIterator<Item = A>) -> u8 {
    let line: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
    #[cfg(feature = "llm")]
    if let Some(code) = language::sandbox(&line) {
        return code;
    }
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
        #[cfg(feature = "new-plugin")]
        Command::NewPlugin(arguments) => new_plugin::run(&arguments, &mut out),
        Command::Completions(arguments) => completions::run::<Arguments>(&arguments, &mut out),
    });
    match done {
        Ok(()) => 0,
        Err(error) => exit::report(&error),
    }
}

/// The HTML page of a plan, as `polychip partition --html` writes it.
///
/// # Errors
/// The plan does not match its request.
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

//! `polychip-conform PLUGIN.so`: the suite that tests any plugin.
//!
//! Invariants:
//! 1. Standard output holds only the report; the plugin is loaded only in child processes, and its output goes to
//!    standard error.
//! 2. Exit codes are a contract: 0 conforms, 1 does not conform, 2 wrong usage, 3 the plugin cannot be tested.

#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use polychip_conformance::child;
use polychip_conformance::groups::{self, GROUPS, Selection};
use polychip_conformance::report::{Report, Row};
use polychip_conformance::run::{self, CHILD, Settings, Watch};
use polychip_parts::expectations::Expectations;

/// Judges a plugin by its shared library: whether it does what the plugin contract says.
#[derive(Debug, Parser)]
#[command(
    name = "polychip-conform",
    version,
    arg_required_else_help = true,
    after_help = "exit codes: 0 the plugin conforms, 1 it does not conform, 2 wrong usage, 3 it cannot be opened or has no such device\n\
                  tags: the groups that --list prints, and `basic`, which every plugin must pass"
)]
struct Arguments {
    /// Plugin library
    #[arg(required_unless_present = "list")]
    plugin: Option<PathBuf>,
    /// Run only cases with one of these tags
    #[arg(long, value_delimiter = ',', value_name = "TAG")]
    tags: Vec<String>,
    /// Run only cases whose name contains this text
    #[arg(long, value_name = "TEXT")]
    filter: Vec<String>,
    /// Run the plugin in a process of its own, as the host does with `--isolate`, and test it through
    /// the proxy
    #[arg(long)]
    isolated: bool,
    /// Test only this device; default: every device
    #[arg(long, value_name = "INDEX")]
    device: Option<u32>,
    /// Configuration string to create the plugin with
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    config: Vec<(String, String)>,
    /// File of known failures with reasons; a listed case that passes is a failure
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
    /// Numeric precision; `reduced` allows f32 to be computed in a 16-bit float type
    #[arg(long, value_enum, default_value = "exact")]
    precision: Precision,
    /// Run at most this many cases per group, spread evenly
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    sample: usize,
    /// Rounds of leak cases
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    cycles: u32,
    /// Maximum seconds per case
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    patience: u64,
    /// Write the report as JSON to this file, or with `-` to standard output instead of the table
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,
    /// Write the report as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// List the selected cases with their tags, without running them
    #[arg(long)]
    list: bool,
    /// Forward the plugin's output
    #[arg(long)]
    verbose: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Precision {
    /// Compute in the model's own types
    Exact,
    /// Allow 16-bit float arithmetic
    Reduced,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .ok_or_else(|| format!("{text:?} is not KEY=VALUE"))
}

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|first| first == CHILD) {
        return match serve() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error:#}");
                ExitCode::from(3)
            }
        };
    }
    let arguments = Arguments::parse();
    match judge(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(error.downcast_ref::<Usage>().map_or(3, |_| 2))
        }
    }
}

/// A mistake on the command line.
#[derive(Debug)]
struct Usage(String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

fn judge(arguments: &Arguments) -> Result<bool> {
    let selection = Selection {
        tags: arguments.tags.clone(),
        filters: arguments.filter.clone(),
        sample: arguments.sample,
    };
    let known: Vec<&str> = GROUPS.iter().map(|(group, _)| *group).chain(["basic"]).collect();
    if let Some(tag) = arguments.tags.iter().find(|tag| !known.contains(&tag.as_str())) {
        return Err(Usage(format!("unknown tag {tag:?}; the tags are {}", known.join(", "))).into());
    }
    if arguments.list {
        print(&listing(&selection))?;
        return Ok(true);
    }
    let plugin = arguments.plugin.clone().unwrap_or_default();
    if !plugin.is_file() {
        return Err(Usage(format!("{} is not a file", plugin.display())).into());
    }
    let program = std::env::current_exe().context("the path of this program")?;
    let mut settings = Settings::new(program, plugin);
    settings.configuration = arguments.config.iter().cloned().collect();
    settings.isolated = arguments.isolated;
    settings.device = arguments.device;
    settings.selection = selection;
    settings.reduced = arguments.precision == Precision::Reduced;
    settings.cycles = arguments.cycles;
    settings.patience = Duration::from_secs(arguments.patience);
    settings.verbose = arguments.verbose;
    if let Some(path) = &arguments.expect {
        let read = Expectations::read(path).map_err(|error| Usage(format!("{error:#}")))?;
        settings.expectations = Arc::new(read);
    }
    let report = run::run(&settings, &mut Progress::default())?;
    if let Some(path) = &arguments.junit {
        write(path, &report.junit()?)?;
    }
    match &arguments.json {
        Some(path) if path == Path::new("-") => print(&json(&report)?)?,
        Some(path) => {
            write(path, &json(&report)?)?;
            print(&report.text())?;
        }
        None => print(&report.text())?,
    }
    Ok(report.conforms())
}

fn json(report: &Report) -> Result<String> {
    Ok(serde_json::to_string_pretty(report)? + "\n")
}

fn listing(selection: &Selection) -> String {
    let mut text = String::new();
    for case in selection.of(groups::cases()) {
        text.push_str(&format!("{}  {}\n", case.name, case.tags.join(",")));
    }
    text
}

fn print(text: &str) -> Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        // the reader has seen enough
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        done => Ok(done?),
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| path.display().to_string())
}

/// A line on the terminal for a run of more than a few cases.
#[derive(Default)]
struct Progress(Option<ProgressBar>);

impl Watch for Progress {
    fn done(&mut self, row: &Row, done: usize, all: usize) {
        let bar = self.0.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {eta} {msg}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            // hidden where standard error is no terminal
            ProgressBar::new(all as u64).with_style(style)
        });
        bar.set_position(done as u64);
        bar.set_message(row.case.clone());
        if row.judged.is_bad() {
            bar.suspend(|| eprintln!("{} {}: {}", row.verdict.word(), row.case, row.verdict.detail()));
        }
        if done == all {
            bar.finish_and_clear();
        }
    }
}

/// The child: standard output is kept for what is said, and descriptor 1 points at standard error before
/// the plugin is loaded.
fn serve() -> Result<()> {
    let mut order = Vec::new();
    std::io::stdin().read_to_end(&mut order).context("the order")?;
    let order: child::Order = serde_json::from_slice(&order).context("the order")?;
    let mut out = kept_output()?;
    child::run(&order, &mut out)
}

#[cfg(unix)]
fn kept_output() -> Result<File> {
    use std::os::fd::AsFd as _;
    let kept = std::io::stdout()
        .as_fd()
        .try_clone_to_owned()
        .context("standard output")?;
    rustix::stdio::dup2_stdout(std::io::stderr()).context("standard error")?;
    Ok(File::from(kept))
}

#[cfg(not(unix))]
fn kept_output() -> Result<std::io::Stdout> {
    Ok(std::io::stdout())
}

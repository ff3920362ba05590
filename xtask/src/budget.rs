//! `cargo xtask budget`: cost of a first build and sizes of programs, compared with their limits.
//!
//! Invariants:
//! 1. A first build starts empty, in its own folder, which is removed afterwards.
//! 2. A program's size excludes symbols, whether they are stripped or not.
//! 3. Values that cannot be measured here are listed as skipped with the reason, never as met.
//!
//! `--built` skips values that need a build, as in CI. Not here: CI's cost (`ci`), lines of code (`size`).

mod elf;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;

use crate::ci::cost::Meter;
use crate::root::root;

/// Where optimised programs are built.
const FOLDER: &str = "target/budget";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Measure only budgets whose name contains this text; repeatable
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Skip budgets that need a build
    #[arg(long)]
    built: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A figure and its limit.
struct Budget {
    name: &'static str,
    what: What,
    bar: f64,
    unit: &'static str,
}

enum What {
    /// Processor time of README's first build, user and system, in seconds.
    FirstBuild,
    /// Packages that the first build compiles.
    FirstPackages,
    /// The size of a program that this cargo command builds.
    Program {
        build: &'static [&'static str],
        file: &'static str,
    },
    /// The size of an unoptimised program that CI has built.
    Built(&'static str),
}

/// Cargo's arguments for the first build.
const FIRST: [&str; 4] = ["build", "--release", "--package", "polychip-cli"];

/// All budgets.
const BUDGETS: [Budget; 6] = [
    Budget {
        name: "first build",
        what: What::FirstBuild,
        bar: 400.0,
        unit: "s of processor",
    },
    Budget {
        name: "packages of the first build",
        what: What::FirstPackages,
        bar: 170.0,
        unit: "packages",
    },
    Budget {
        name: "command line of the first build",
        what: What::Program {
            build: &FIRST,
            file: "release/polychip",
        },
        bar: 15.0,
        unit: "MB",
    },
    Budget {
        name: "command line with all features, small",
        what: What::Program {
            build: &[
                "build",
                "--profile",
                "small",
                "--package",
                "polychip-cli",
                "--features",
                "full",
            ],
            file: "small/polychip",
        },
        bar: 15.0,
        unit: "MB",
    },
    Budget {
        name: "least app",
        what: What::Program {
            build: &[
                "build",
                "--profile",
                "small",
                "--package",
                "polychip-example-minimal",
            ],
            file: "small/polychip-minimal",
        },
        bar: 8.0,
        unit: "MB",
    },
    Budget {
        name: "command line as tests build it",
        what: What::Built("target/debug/polychip"),
        bar: 80.0,
        unit: "MB",
    },
];

/// A budget's value, or the reason for its absence.
#[derive(Serialize)]
struct Row {
    /// The figure.
    name: &'static str,
    /// Its value, if it was measured.
    value: Option<f64>,
    /// Its limit.
    bar: f64,
    /// Unit of value and limit.
    unit: &'static str,
    /// `held`, `broken` or `skipped`.
    verdict: &'static str,
    /// The reason if it was skipped.
    why: Option<String>,
}

/// Measures, prints a table, and returns whether every figure is within its limit.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let is_wanted = |budget: &&Budget| {
        options.only.is_empty() || options.only.iter().any(|text| budget.name.contains(text))
    };
    let wanted: Vec<&Budget> = BUDGETS.iter().filter(is_wanted).collect();
    if wanted.is_empty() {
        let names = BUDGETS.map(|budget| budget.name).join(", ");
        bail!(
            "no budget name contains {}; the budgets are {names}",
            options.only.join(" or ")
        );
    }
    let mut rows = Vec::new();
    for budget in wanted {
        if options.built && matches!(budget.what, What::FirstBuild | What::Program { .. }) {
            continue;
        }
        eprintln!("budget: {}", budget.name);
        rows.push(budget.row(measure(&budget.what)?));
    }
    let folder = root().join(FOLDER);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("clearing {}", folder.display()))?;
    }
    print(&rows, options.json)?;
    Ok(rows.iter().all(|row| row.verdict != "broken"))
}

impl Budget {
    fn row(&self, measured: Measured) -> Row {
        let (value, why) = match measured {
            Measured::Value(value) => (Some(value), None),
            Measured::Skipped(why) => (None, Some(why)),
        };
        let verdict = match value {
            None => "skipped",
            Some(value) if value <= self.bar => "held",
            Some(_) => "broken",
        };
        Row {
            name: self.name,
            value,
            bar: self.bar,
            unit: self.unit,
            verdict,
            why,
        }
    }
}

enum Measured {
    Value(f64),
    Skipped(String),
}

fn measure(what: &What) -> Result<Measured> {
    match what {
        What::FirstBuild => first_build(),
        What::FirstPackages => packages().map(|count| Measured::Value(count as f64)),
        What::Program { build, file } => {
            cargo(build)?;
            size(&root().join(FOLDER).join(file))
        }
        What::Built(file) => {
            let file = root().join(file);
            if !file.is_file() {
                let why = format!("{} is missing: build it with `cargo xtask ci`", file.display());
                return Ok(Measured::Skipped(why));
            }
            size(&file)
        }
    }
}

fn first_build() -> Result<Measured> {
    // fetched beforehand, because network time does not count
    let fetched = Command::new(env!("CARGO"))
        .arg("fetch")
        .current_dir(root())
        .status();
    ensure!(
        fetched.context("starting cargo")?.success(),
        "the packages cannot be fetched"
    );
    let folder = root().join(FOLDER);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("clearing {}", folder.display()))?;
    }
    let meter = Meter::start();
    cargo(&FIRST)?;
    Ok(match meter.read().processor() {
        Some(time) => Measured::Value(time.as_secs_f64()),
        None => Measured::Skipped("this system does not report the times of child processes".to_owned()),
    })
}

/// Runs a cargo command that builds, with the folder of budgets as target.
fn cargo(words: &[&str]) -> Result<()> {
    let mut command = Command::new(env!("CARGO"));
    command.args(words).arg("--target-dir").arg(root().join(FOLDER));
    let status = command.current_dir(root()).status().context("starting cargo")?;
    ensure!(status.success(), "cargo {} failed ({status})", words.join(" "));
    Ok(())
}

/// Number of packages that the first build compiles, including those of build scripts and macros.
fn packages() -> Result<usize> {
    let mut command = Command::new(env!("CARGO"));
    command.args([
        "tree",
        "--package",
        "polychip-cli",
        "--edges",
        "no-dev",
        "--prefix",
        "none",
    ]);
    command.args(["--format", "{p}"]).current_dir(root());
    let output = command.output().context("starting cargo")?;
    ensure!(
        output.status.success(),
        "cargo tree failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout)?;
    let mut names: Vec<&str> = text.lines().map(|line| line.trim_end_matches(" (*)")).collect();
    names.sort_unstable();
    names.dedup();
    Ok(names.len())
}

/// A program's size in MB (10⁶ bytes).
fn size(file: &Path) -> Result<Measured> {
    let file: PathBuf = file.with_extension(std::env::consts::EXE_EXTENSION);
    let bytes = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
    Ok(match elf::loaded(&bytes) {
        Some(loaded) => Measured::Value(loaded as f64 / 1e6),
        None => Measured::Skipped(format!("{} is not a 64-bit Linux program", file.display())),
    })
}

#[allow(clippy::print_stdout, reason = "the table is what the command is for")]
fn print(rows: &[Row], json: bool) -> Result<()> {
    if json {
        println!("{}", serde_json::to_string_pretty(rows)?);
        return Ok(());
    }
    println!(
        "{:<40} {:>8} {:>8}  {:<16} verdict",
        "what", "value", "bar", "unit"
    );
    for row in rows {
        let value = row
            .value
            .map_or_else(|| "–".to_owned(), |value| format!("{value:.1}"));
        let why = row
            .why
            .as_deref()
            .map_or_else(String::new, |why| format!(": {why}"));
        println!(
            "{:<40} {value:>8} {:>8.1}  {:<16} {}{why}",
            row.name, row.bar, row.unit, row.verdict
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_above_its_limit_breaks_the_budget() {
        let verdict = |measured| BUDGETS[0].row(measured).verdict;
        assert_eq!(verdict(Measured::Value(400.0)), "held");
        assert_eq!(verdict(Measured::Value(400.1)), "broken");
        assert_eq!(verdict(Measured::Skipped("no clock".to_owned())), "skipped");
    }

    #[test]
    fn first_build_matches_the_readme() {
        let text = fs::read_to_string(root().join("README.md")).unwrap();
        let first = text.lines().find(|line| line.starts_with("cargo ")).unwrap();
        let words = FIRST[1..].join(" ");
        assert!(first.starts_with(&format!("cargo run {words} -- ")), "{first}");
    }
}

//! Every check of CI in one command, each by the program that a person would call.
//!
//! Invariants:
//! 1. A check that cannot run here is listed as skipped with the reason.
//! 2. All checks run even where one fails; the exit status says whether any did.
//! 3. What a check printed is in `target/ci`, and the last lines of all say what failed.

mod log;

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::Result;
use log::Log;

use crate::root::root;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run only the checks whose name contains this text
    #[arg(long)]
    only: Option<String>,
    /// Seconds of fuzzing per target
    #[arg(long, default_value_t = 60)]
    fuzz_seconds: u32,
}

/// The suites over models and cases on disk, which the `tests` before leave out (`.config/nextest.toml`): each is one
/// process of many trials. In the profile of the other tests, whose kernels are optimised, and of the whole
/// workspace, whose features are then those of the other tests: nothing is built twice.
const SUITES: &[&str] = &[
    "test",
    "--workspace",
    "--no-fail-fast",
    "--test",
    "onnx_backend",
    "--test",
    "onnx_runtime",
    "--test",
    "onnx_writer",
    "--test",
    "quantised",
    "--test",
    "openvino",
    "--test",
    "qnn_models",
    "--test",
    "gpu_models",
];

/// What a check came to.
enum Outcome {
    Passed,
    Failed(Log),
    Skipped(String),
}

struct Check {
    name: &'static str,
    /// Why the check cannot run on this machine, if so.
    skip: Option<String>,
    commands: Vec<Command>,
}

impl Check {
    fn cargo(name: &'static str, commands: &[&[&str]]) -> Self {
        Self {
            name,
            skip: None,
            commands: commands.iter().map(|arguments| cargo(arguments)).collect(),
        }
    }

    fn skipped_if(mut self, cannot: bool, why: impl Into<String>) -> Self {
        if cannot && self.skip.is_none() {
            self.skip = Some(why.into());
        }
        self
    }
}

/// Runs the checks, prints a summary and says whether none failed.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let mut results = Vec::new();
    for check in checks(options) {
        if options
            .only
            .as_ref()
            .is_some_and(|text| !check.name.contains(text.as_str()))
        {
            continue;
        }
        let start = Instant::now();
        eprintln!("\n== {}", check.name);
        let name = check.name;
        let outcome = run_one(check)?;
        results.push((name, outcome, start.elapsed().as_secs()));
    }
    eprintln!("\n== summary");
    let mut failed = Vec::new();
    for (name, outcome, seconds) in &results {
        match outcome {
            Outcome::Passed => eprintln!("passed   {name} ({seconds} s)"),
            Outcome::Failed(log) => {
                failed.push((*name, log, log.failure()?));
                eprintln!("FAILED   {name} ({seconds} s)");
            }
            Outcome::Skipped(why) => eprintln!("skipped  {name}: {why}"),
        }
    }
    // first what tells of the failure: who reads only the end of a long log should meet it
    for (name, log, (last, telling)) in &failed {
        let file = log.path().display();
        eprintln!("\n== what failed in {name} (all of its output: {file})\n{telling}");
        eprintln!("\n== its last lines\n{last}");
    }
    Ok(failed.is_empty())
}

fn run_one(check: Check) -> Result<Outcome> {
    if let Some(why) = check.skip {
        eprintln!("skipped: {why}");
        return Ok(Outcome::Skipped(why));
    }
    let mut log = Log::new(check.name)?;
    for mut command in check.commands {
        // where it was fetched (`cargo xtask vendor openvino`), its suites run; a setting of one's own counts more
        if let Some(folder) = crate::vendor::openvino()
            && std::env::var_os("OPENVINO_LIB_DIR").is_none()
        {
            command.env("OPENVINO_LIB_DIR", folder);
        }
        command.current_dir(root());
        if !log.run(command)?.success() {
            return Ok(Outcome::Failed(log));
        }
    }
    Ok(Outcome::Passed)
}

fn checks(options: &Options) -> Vec<Check> {
    let nextest = cargo_has("nextest");
    let tests: &[&[&str]] = if nextest {
        &[&["nextest", "run", "--workspace", "--profile", "ci"]]
    } else {
        &[&["test", "--workspace", "--lib", "--bins", "--tests", "--examples"]]
    };
    let python = witness_python();
    let no_python = format!(
        "{} is not there (`cargo xtask models` makes it)",
        python.display()
    );
    let generated = root().join("device-tests/generated/onnx/node");
    let mut list = vec![
        Check::cargo("format", &[&["fmt", "--all", "--check"]]),
        Check::cargo(
            "clippy",
            &[&[
                "clippy",
                "--workspace",
                "--all-targets",
                "--",
                "--deny",
                "warnings",
            ]],
        ),
        Check::cargo("tidy", &[&["xtask", "tidy"]]),
        Check::cargo("tests", tests),
        // two thousand short trials on one device, which each process would open anew
        Check::cargo(
            "kernels on the GPU's driver",
            &[&["test", "--package", "polychip-gpu-kernels", "--test", "kernels"]],
        ),
        Check::cargo(
            "kernels through OpenCL",
            &[&["test", "--package", "polychip-opencl", "--test", "kernels"]],
        ),
        Check::cargo(
            "documentation tests",
            &[&["test", "--workspace", "--doc", "--quiet"]],
        ),
        page(),
        Check::cargo("layout of the plugin contract", &[&["xtask", "layout"]]),
        Check::cargo("header of the plugin contract", &[&["xtask", "header"]])
            .skipped_if(!program_runs("cbindgen"), "cbindgen is not installed"),
        bindings(),
        Check::cargo(
            "licences and duplicate versions",
            &[&["deny", "check", "licenses", "bans", "sources"]],
        )
        .skipped_if(!cargo_has("deny"), "cargo-deny is not installed"),
        advisories(),
        Check::cargo("ONNX backend suite and ONNX Runtime's outputs", &[SUITES])
            .skipped_if(!python.is_file(), no_python)
            .skipped_if(
                !generated.is_dir(),
                "device-tests/generated is not there (`cargo xtask models` makes it)",
            ),
        // the lines above run on the widest instruction set only
        Check::cargo(
            "ONNX backend suite on each instruction set",
            &[&["test", "--package", "polychip-isa-tests"]],
        )
        .skipped_if(
            !generated.is_dir(),
            "device-tests/generated is not there (`cargo xtask models` makes it)",
        ),
        arm(),
        openvino(&generated),
        gpu(&generated),
        newer_mesa(&generated),
        miri(),
    ];
    list.extend(fuzz(options.fuzz_seconds));
    list
}

/// The page of a plan: what its source makes, and in a browser, by the program that the tests before have built.
fn page() -> Check {
    let missing = crate::page::missing();
    Check::cargo("page of a plan in a browser", &[&["xtask", "page", "--built"]])
        .skipped_if(missing.is_some(), missing.unwrap_or_default())
}

/// A sample on the aarch64 processor that has the least; `cargo xtask arm` runs all on three.
fn arm() -> Check {
    let missing = crate::arm::missing();
    Check::cargo(
        "aarch64 under emulation",
        &[&[
            "xtask",
            "arm",
            "--cpu",
            "cortex-a53",
            "--every",
            "40",
            "--cases",
            "4",
        ]],
    )
    .skipped_if(missing.is_some(), missing.unwrap_or_default())
}

/// The ONNX backend suite through OpenVINO; whole models through it are among the tests before.
fn openvino(suite: &std::path::Path) -> Check {
    let mut command = Command::new("cargo");
    command
        .args(["test", "--workspace", "--test", "onnx_backend"])
        .env("POLYCHIP_SUITE_DEVICE", "openvino:0");
    let there = crate::vendor::openvino().is_some() || std::env::var_os("OPENVINO_LIB_DIR").is_some();
    Check {
        name: "ONNX backend suite through OpenVINO",
        skip: None,
        commands: vec![command],
    }
    .skipped_if(
        !there,
        "OpenVINO is not there (`cargo xtask vendor openvino` fetches it)",
    )
    .skipped_if(
        !suite.is_dir(),
        "device-tests/generated is not there (`cargo xtask models` makes it)",
    )
}

/// The ONNX backend suite through the GPU plugin, which says itself where it finds no driver; whole models through it
/// are among the tests before.
fn gpu(suite: &std::path::Path) -> Check {
    let mut command = Command::new("cargo");
    command
        .args(["test", "--workspace", "--test", "onnx_backend"])
        .env("POLYCHIP_SUITE_DEVICE", "gpu:0");
    Check {
        name: "ONNX backend suite through the GPU",
        skip: None,
        commands: vec![command],
    }
    .skipped_if(
        !suite.is_dir(),
        "device-tests/generated is not there (`cargo xtask models` makes it)",
    )
}

/// Some of the GPU's suites through another version of Vulkan's driver in software: not all, for its compiler takes
/// seconds for each kernel of long unrolled loops (Depthwise, plain products).
fn newer_mesa(suite: &std::path::Path) -> Check {
    const RUNS: [&[&str]; 3] = [
        &[
            "--package",
            "polychip-gpu-kernels",
            "--test",
            "kernels",
            "--",
            "--skip",
            "depthwise",
            "--skip",
            "gemm",
        ],
        &["--workspace", "--test", "gpu_zero_copy"],
        &["--workspace", "--test", "gpu_models", "--", "kws_dscnn/alone"],
    ];
    let mesa = crate::vendor::debian::mesa();
    let commands = RUNS
        .iter()
        .map(|arguments| {
            let mut command = cargo(&["test"]);
            command.args(*arguments);
            if let Some(file) = &mesa {
                command.env("VK_DRIVER_FILES", file);
            }
            command
        })
        .collect();
    Check {
        name: "GPU suites through Mesa 25",
        skip: None,
        commands,
    }
    .skipped_if(
        mesa.is_none(),
        "Mesa 25 is not there (`cargo xtask vendor mesa` fetches it)",
    )
    .skipped_if(
        !suite.is_dir(),
        "device-tests/generated is not there (`cargo xtask models` makes it)",
    )
}

/// The committed declarations of vendors' libraries against our headers.
fn bindings() -> Check {
    let missing = crate::bindgen::missing();
    Check::cargo(
        "bindings of vendors' libraries",
        &[&["xtask", "bindgen", "--check"]],
    )
    .skipped_if(missing.is_some(), missing.unwrap_or_default())
}

/// The advisory database lives on a public server that a build machine may not reach.
fn advisories() -> Check {
    let check = Check::cargo("advisories", &[&["deny", "check", "advisories"]]);
    if !cargo_has("deny") {
        return check.skipped_if(true, "cargo-deny is not installed");
    }
    let reached = cargo(&["deny", "fetch", "db"])
        .current_dir(root())
        .output()
        .is_ok_and(|o| o.status.success());
    check.skipped_if(!reached, "the advisory database cannot be reached")
}

/// Where the pointers are: the contract, both its sides with the null plugin linked in, and the graph's
/// constants. Whole models would take hours under Miri.
fn miri() -> Check {
    const RUNS: [&[&str]; 4] = [
        &["--package", "polychip-abi", "--package", "polychip-sdk", "--lib"],
        &["--package", "polychip-host", "--lib"],
        &["--package", "polychip-host", "--test", "host", "--", "null::"],
        &[
            "--package",
            "polychip-graph",
            "--lib",
            "--",
            "constant::",
            "encoding::",
            "extract::",
            "graph::tests",
            "onnx::external::",
            "onnx::weights::",
        ],
    ];
    let commands = RUNS
        .iter()
        .map(|arguments| {
            let mut command = Command::new("cargo");
            command.args(["+nightly", "miri", "test"]).args(*arguments);
            command
                .env("MIRIFLAGS", "-Zmiri-disable-isolation")
                .env("PROPTEST_CASES", "2");
            command
        })
        .collect();
    let there = Command::new("cargo")
        .args(["+nightly", "miri", "--version"])
        .output()
        .is_ok_and(|output| output.status.success());
    Check {
        name: "Miri",
        skip: None,
        commands,
    }
    .skipped_if(!there, "no nightly toolchain with Miri")
}

fn fuzz(seconds: u32) -> Vec<Check> {
    const TARGETS: [(&str, &str); 5] = [
        ("fuzz: importer", "importer"),
        ("fuzz: text parser", "text"),
        ("fuzz: plan", "plan"),
        ("fuzz: blob header", "blob"),
        ("fuzz: graph view", "graph_view"),
    ];
    let nightly = Command::new("cargo")
        .args(["+nightly", "fuzz", "--version"])
        .output()
        .is_ok_and(|output| output.status.success());
    TARGETS
        .iter()
        .map(|(name, target)| {
            let mut command = Command::new("cargo");
            // what is found goes to the first folder, which git ignores; the second is committed
            let corpus = format!("fuzz/corpus/{target}");
            let ready = std::fs::create_dir_all(root().join(&corpus)).is_ok();
            command.args(["+nightly", "fuzz", "run", target, &corpus]);
            command.args([&format!("fuzz/seeds/{target}"), "--"]);
            command
                .arg(format!("-max_total_time={seconds}"))
                .args(["-rss_limit_mb=4096", "-timeout=20"]);
            Check {
                name,
                skip: None,
                commands: vec![command],
            }
            .skipped_if(!nightly, "no nightly toolchain with cargo-fuzz")
            .skipped_if(!ready, format!("{corpus} cannot be made"))
        })
        .collect()
}

/// The Python with ONNX and ONNX Runtime that `cargo xtask models` sets up.
fn witness_python() -> PathBuf {
    std::env::var_os("POLYCHIP_PYTHON").map_or_else(|| root().join("target/venv/bin/python"), PathBuf::from)
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments);
    command
}

fn cargo_has(subcommand: &str) -> bool {
    cargo(&[subcommand, "--version"])
        .output()
        .is_ok_and(|output| output.status.success())
}

fn program_runs(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}

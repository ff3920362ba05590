//! The checks in execution order, quick ones first.
//!
//! Invariants:
//! 1. A quick check needs no Python, no vendor's library and no network but the registry's.
//! 2. Each suite runs once: with the quick checks, or in its own check here.

use std::process::Command;

use crate::root::root;

/// One check.
pub(super) struct Check {
    pub(super) name: &'static str,
    /// What the check needs and this machine lacks, by its name, and why it is thought so.
    pub(super) skip: Option<(&'static str, String)>,
    pub(super) steps: Vec<Step>,
    /// Whether later steps run where one failed.
    pub(super) goes_on: bool,
    /// Whether its steps, suites all, run beside each other.
    pub(super) at_once: bool,
    /// Whether it runs beside checks before and behind it of which this holds, too.
    pub(super) beside: bool,
    /// Whether it runs however late it begins.
    pub(super) is_essential: bool,
}

/// A step of a check.
pub(super) enum Step {
    Run(Command),
    /// As many at a time as there are processors.
    Together(Vec<Command>),
    /// The workspace, whole.
    Build,
    /// All tests of the compiler's harness.
    Tests,
    /// All suites that no check of their own runs.
    QuickSuites,
    /// A suite that brings its own harness.
    Suite {
        package: &'static str,
        test: &'static str,
        arguments: &'static [&'static str],
        environment: Vec<(&'static str, String)>,
    },
}

/// Suites that take minutes, or need what is made by Python or fetched: by package and name.
pub(super) const WHOLE: [(&str, &str); 17] = [
    (DEVICE_TESTS, "coreml_witness"),
    (DEVICE_TESTS, "gpu_models"),
    (DEVICE_TESTS, "ocr"),
    (DEVICE_TESTS, "onnx_backend"),
    (DEVICE_TESTS, "onnx_runtime"),
    (DEVICE_TESTS, "onnx_writer"),
    (DEVICE_TESTS, "openvino"),
    (DEVICE_TESTS, "qnn_models"),
    (DEVICE_TESTS, "quantised"),
    (DEVICE_TESTS, "soc_plans"),
    (GPU_KERNELS, "kernels"),
    ("polychip-isa-tests", "op_suite"),
    (LITERT_TESTS, "neuron"),
    (LITERT_TESTS, "qnn"),
    ("polychip-mutants", "mutants"),
    ("polychip-opencl", "kernels"),
    ("xtask", "new_plugin"),
];
const DEVICE_TESTS: &str = "polychip-device-tests";
const LITERT_TESTS: &str = "polychip-litert-tests";
const GPU_KERNELS: &str = "polychip-gpu-kernels";

/// Whether a check of its own runs this suite.
pub(super) fn is_whole(package: &str, test: &str) -> bool {
    WHOLE.contains(&(package, test))
}

impl Check {
    fn new(name: &'static str, steps: Vec<Step>) -> Check {
        Check {
            name,
            skip: None,
            steps,
            goes_on: false,
            at_once: false,
            beside: false,
            is_essential: false,
        }
    }

    fn cargo(name: &'static str, arguments: &[&str]) -> Check {
        Check::new(name, vec![Step::Run(cargo(arguments))])
    }

    fn all_steps(mut self) -> Check {
        self.goes_on = true;
        self
    }

    fn at_once(mut self) -> Check {
        self.at_once = true;
        self
    }

    /// It may run beside others: it times nothing, and what it starts uses one processor for most of the time.
    fn beside(mut self) -> Check {
        self.beside = true;
        self
    }

    fn needs(mut self, need: &'static str, missing: Option<impl Into<String>>) -> Check {
        if self.skip.is_none() {
            self.skip = missing.map(|why| (need, why.into()));
        }
        self
    }
}

/// A suite as a step.
fn suite(package: &'static str, test: &'static str) -> Step {
    Step::Suite {
        package,
        test,
        arguments: &[],
        environment: Vec::new(),
    }
}

/// Models on a GPU's driver: in software it compiles kernels for seconds each, so that of networks that are there twice,
/// with constant and with varied weights, one is left out, and of two encoders the larger one runs in one way only.
fn gpu_models() -> Step {
    Step::Suite {
        package: DEVICE_TESTS,
        test: "gpu_models",
        arguments: &[
            "--skip",
            "light_densenet121/",
            "--skip",
            "light_inception_v1/",
            "--skip",
            "light_inception_v2/",
            "--skip",
            "light_shufflenet/",
            "--skip",
            "light_squeezenet/",
            "--skip",
            "bert_base/in-turns",
            "--skip",
            "bert_base/reduced",
        ],
        environment: Vec::new(),
    }
}

/// The quick checks.
pub(super) fn quick() -> Vec<Check> {
    vec![
        Check::cargo("format", &["fmt", "--all", "--check"]),
        Check::cargo("tidy", &["xtask", "tidy"]),
        Check::cargo("charts of the figures", &["xtask", "charts", "--check"]),
        // apart from the tests, so that what each costs is seen
        Check::new("build", vec![Step::Build]),
        Check::new("tests", vec![Step::Tests]),
        Check::new("suites", vec![Step::QuickSuites]),
        Check::cargo(
            "documentation tests",
            &["test", "--workspace", "--doc", "--quiet"],
        ),
    ]
}

/// All checks.
pub(super) fn all(fuzz_seconds: u32) -> Vec<Check> {
    let mut list = quick();
    let clippy = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "--deny",
        "warnings",
    ];
    list.insert(3, Check::cargo("clippy", &clippy));
    // alone, since the whole workspace has all features
    let least = [
        "clippy",
        "--package",
        "polychip-example-minimal",
        "--",
        "--deny",
        "warnings",
    ];
    list.insert(4, Check::cargo("the least app without features", &least));
    let no_features = [
        "clippy",
        "--package",
        "polychip-cli",
        "--no-default-features",
        "--",
        "--deny",
        "warnings",
    ];
    list.insert(5, Check::cargo("the command line without features", &no_features));
    for check in &mut list {
        check.is_essential = true;
    }
    list.extend([
        budgets(),
        Check::new("a new plugin conforms", vec![suite("xtask", "new_plugin")]),
        page(),
        python(),
        onnxruntime(),
        doors(),
        walk(),
        Check::cargo("pages as a site", &["xtask", "site"]).needs("mdbook", crate::site::missing()),
        Check::cargo(
            "headers of the plugin contract and the C library",
            &["xtask", "header"],
        )
        .needs(
            "cbindgen",
            lacks(program_runs("cbindgen"), "cbindgen is not installed"),
        ),
        Check::cargo("bindings of vendors' libraries", &["xtask", "bindgen", "--check"])
            .needs("bindgen", crate::bindgen::missing()),
        Check::cargo(
            "licences and duplicate versions",
            &["deny", "check", "licenses", "bans", "sources"],
        )
        .needs(
            "cargo-deny",
            lacks(cargo_has("deny"), "cargo-deny is not installed"),
        ),
        advisories(),
        // most of them use one processor; the longest begins
        Check::new(
            "ONNX backend suite and ONNX Runtime's outputs",
            std::iter::once(gpu_models())
                .chain(
                    [
                        "soc_plans",
                        "qnn_models",
                        "coreml_witness",
                        "openvino",
                        "onnx_runtime",
                        "quantised",
                        "onnx_writer",
                        "onnx_backend",
                    ]
                    .map(|test| suite(DEVICE_TESTS, test)),
                )
                .chain([suite("polychip-mutants", "mutants")])
                .collect(),
        )
        .at_once(),
        differ(),
        Check::new("the example that reads a page", vec![suite(DEVICE_TESTS, "ocr")]),
        Check::new(
            "clients of vendors' libraries by others",
            vec![suite(LITERT_TESTS, "qnn"), suite(LITERT_TESTS, "neuron")],
        ),
        // the lines above run on the widest instruction set only
        Check::new(
            "ONNX backend suite on each other instruction set",
            vec![Step::Suite {
                package: "polychip-isa-tests",
                test: "op_suite",
                arguments: &[],
                environment: vec![("POLYCHIP_SUITE_NARROW", "1".to_owned())],
            }],
        ),
        miri(),
        emulated_backend_suites(),
        backend_suite("ONNX backend suite through OpenVINO", "openvino:0"),
        // what takes longest begins
        fuzz(fuzz_seconds).beside(),
        newer_mesa().beside(),
        Check::new("kernels on the GPU's driver", vec![suite(GPU_KERNELS, "kernels")]).beside(),
        arm().beside(),
        backend_suite("ONNX backend suite through the GPU", "gpu:0").beside(),
        Check::new(
            "kernels through OpenCL",
            vec![suite("polychip-opencl", "kernels")],
        )
        .beside(),
    ]);
    list
}

fn lacks(there: bool, why: &'static str) -> Option<&'static str> {
    (!there).then_some(why)
}

/// What is held to a budget and needs no optimised build; `cargo xtask budget` by hand measures the rest, too.
fn budgets() -> Check {
    let held = Step::Run(cargo(&["xtask", "budget", "--built"]));
    Check::new("budgets of what is built", vec![Step::Build, held])
}

/// The page of a plan: what its source makes, and in a browser, by the program that the build has made.
fn page() -> Check {
    let open = Step::Run(cargo(&["xtask", "page", "--built"]));
    Check::new("page of a plan in a browser", vec![Step::Build, open])
        .needs("browser", crate::page::missing())
}

/// Random graphs beside ONNX Runtime: the same three hundred each time, by two programs that use a processor each.
fn differ() -> Check {
    let half = |first: &str| cargo(&["xtask", "differ", "--built", "--graphs", "150", "--first", first]);
    let halves = Step::Together(["0", "150"].map(half).into());
    Check::new("random graphs beside ONNX Runtime", vec![Step::Build, halves])
        .needs("python", crate::differ::missing())
}

/// The provider of ONNX Runtime, of the library that the build has made, in several releases as they are published.
fn onnxruntime() -> Check {
    let test = Step::Run(cargo(&["xtask", "onnxruntime", "--built", "--releases"]));
    Check::new("ONNX Runtime provider", vec![Step::Build, test]).needs("python", crate::python::missing())
}

/// The Python module, of the library that the build has made.
fn python() -> Check {
    let test = Step::Run(cargo(&["xtask", "python", "--built"]));
    Check::new("Python module", vec![Step::Build, test]).needs("python", crate::python::missing())
}

/// The demo through every binding, with the built programs.
fn doors() -> Check {
    let same = Step::Run(cargo(&["xtask", "doors", "--built"]));
    Check::new("the demo through every binding", vec![Step::Build, same])
}

/// The commands of README.md, docs/cli.md and the tutorials, by what the build has made.
fn walk() -> Check {
    let walk = Step::Run(cargo(&["xtask", "walk", "--built"]));
    Check::new(
        "a user's walk through README and tutorials",
        vec![Step::Build, walk],
    )
}

/// The kernels' own tests on the aarch64 processor that has the least, and the proof that it catches a missing guard; `cargo xtask
/// arm` by hand runs all packages on three processors.
fn arm() -> Check {
    Check::cargo(
        "aarch64 under emulation",
        &[
            "xtask",
            "arm",
            "--cpu",
            "cortex-a53",
            "--only",
            "polychip-cpu-kernels",
            "--test",
            "kernels",
            "--cases",
            "4",
        ],
    )
    .needs("aarch64", crate::arm::missing())
}

/// The ONNX backend suite through another device, which the suite itself misses where it is not there; whole models
/// through it are among the tests before.
fn backend_suite(name: &'static str, device: &str) -> Check {
    let step = Step::Suite {
        package: DEVICE_TESTS,
        test: "onnx_backend",
        arguments: &[],
        environment: vec![("POLYCHIP_SUITE_DEVICE", device.to_owned())],
    };
    Check::new(name, vec![step])
}

/// The same through each plugin whose library is emulated.
fn emulated_backend_suites() -> Check {
    let step = |plugin: &str| Step::Suite {
        package: DEVICE_TESTS,
        test: "onnx_backend",
        arguments: &[],
        environment: vec![("POLYCHIP_SUITE_DEVICE", format!("{plugin}:0"))],
    };
    let steps = ["ascend", "coreml", "neuron", "nnrt", "qnn", "rknn"].map(step);
    Check::new("ONNX backend suite through emulated libraries", steps.into()).all_steps()
}

/// Some of the GPU's suites through another version of Vulkan's driver in software: every fourth kernel, for its compiler
/// takes seconds for each, and none of long unrolled loops (Depthwise, plain products; of convolutions and attention some
/// stay).
fn newer_mesa() -> Check {
    const KERNELS: &[&str] = &[
        "--skip",
        "depthwise",
        "--skip",
        "gemm",
        "--skip",
        "conv/text",
        "--skip",
        "conv/u8/staged",
        "--skip",
        "conv/f32/staged",
        "--skip",
        "attention/f32/1x2x2x33x33",
        "--skip",
        "attention-past/f32/f32",
    ];
    const RUNS: [(&str, &str, &[&str]); 3] = [
        (GPU_KERNELS, "kernels", KERNELS),
        (DEVICE_TESTS, "gpu_zero_copy", &[]),
        (DEVICE_TESTS, "gpu_models", &["kws_dscnn/alone"]),
    ];
    let mesa = crate::vendor::debian::mesa();
    let missing = lacks(
        mesa.is_some(),
        "Mesa 25 is missing (fetch it with `cargo xtask vendor mesa`)",
    );
    let driver = mesa.map(|file| ("VK_DRIVER_FILES", file.display().to_string()));
    // the other driver runs all kernels
    let sampled = ("POLYCHIP_KERNELS_EVERY", "4".to_owned());
    let steps = RUNS.map(|(package, test, arguments)| Step::Suite {
        package,
        test,
        arguments,
        environment: driver.iter().cloned().chain([sampled.clone()]).collect(),
    });
    // each uses one processor
    Check::new("GPU suites through Mesa 25", steps.into())
        .at_once()
        .needs("mesa25", missing)
}

/// The advisory database lives on a public server that a build machine may not reach.
fn advisories() -> Check {
    let check = Check::cargo("advisories", &["deny", "check", "advisories"]);
    if !cargo_has("deny") {
        return check.needs("cargo-deny", Some("cargo-deny is not installed"));
    }
    let reached = cargo(&["deny", "fetch", "db"])
        .current_dir(root())
        .output()
        .is_ok_and(|output| output.status.success());
    check.needs(
        "advisories",
        lacks(reached, "the advisory database cannot be reached"),
    )
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
    let steps = RUNS.map(|arguments| {
        let mut command = nightly(&["miri", "test"]);
        command.args(arguments);
        command
            .env("MIRIFLAGS", "-Zmiri-disable-isolation")
            .env("PROPTEST_CASES", "2");
        Step::Run(command)
    });
    let there = runs(nightly(&["miri", "--version"]));
    Check::new("Miri", steps.into()).needs("miri", lacks(there, "no nightly toolchain with Miri"))
}

/// Each target for so many seconds, on one processor each.
fn fuzz(seconds: u32) -> Check {
    const TARGETS: [&str; 5] = ["importer", "text", "plan", "blob", "graph_view"];
    let there = runs(nightly(&["fuzz", "--version"]));
    let mut commands = Vec::new();
    let mut missing = lacks(there, "no nightly toolchain with cargo-fuzz").map(str::to_owned);
    for target in TARGETS {
        // what is found goes to the first folder, which git ignores; the second is committed
        let corpus = format!("fuzz/corpus/{target}");
        if let Err(error) = std::fs::create_dir_all(root().join(&corpus)) {
            missing.get_or_insert(format!("{corpus}: {error}"));
        }
        let mut command = nightly(&["fuzz", "run", target, &corpus]);
        command.args([&format!("fuzz/seeds/{target}"), "--"]);
        command
            .arg(format!("-max_total_time={seconds}"))
            .args(["-rss_limit_mb=4096", "-timeout=20"])
            .current_dir(root());
        commands.push(command);
    }
    let build = Step::Run(nightly(&["fuzz", "build"]));
    Check::new("fuzz", vec![build, Step::Together(commands)]).needs("cargo-fuzz", missing)
}

/// The cargo that started this program.
pub(super) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments);
    command
}

/// The nightly toolchain's cargo: rustup's own program finds it.
fn nightly(arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.arg("+nightly").args(arguments);
    command
}

fn runs(mut command: Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

pub(super) fn cargo_has(subcommand: &str) -> bool {
    runs(cargo(&[subcommand, "--version"]))
}

fn program_runs(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version");
    runs(command)
}

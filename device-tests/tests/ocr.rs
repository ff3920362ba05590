//! The example `examples/ocr` on its own page, with trained models of a public package: it reads what the page says,
//! and what the same reads in ONNX Runtime.
//!
//! Skipped, with the reason, where the models or the Python are not there.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use polychip::{Policy, Runtime};
use polychip_device_tests::process::Runner;
use polychip_device_tests::{Need, paths, skipped};
use polychip_example_ocr::{Line, Picture, Reader};
use serde::Deserialize;

const MODELS: &str = "target/trained/rapidocr-onnxruntime-1.4.4/rapidocr_onnxruntime/models";
const DETECTOR: &str = "ch_PP-OCRv4_det_infer.onnx";
const RECOGNISER: &str = "ch_PP-OCRv4_rec_infer.onnx";
const THREADS: u32 = 1;
/// As many frames as make the threads meet in every order.
const FRAMES: usize = 4;
/// Pixels that a side of a box may be apart: the peer rounds what it resizes to bytes.
const APART: f32 = 3.0;

fn main() {
    let arguments = Arguments::from_args();
    let models = paths::root().join(MODELS);
    let names = [
        "it_reads_what_the_page_says",
        "it_reads_what_onnx_runtime_reads",
        "models_in_the_wrong_place_are_named",
    ];
    if !models.join(DETECTOR).is_file() || !models.join(RECOGNISER).is_file() {
        let why = "`cargo xtask trained --fetch --package rapidocr-onnxruntime` has not been run";
        let trials = names.map(|name| skipped(name, Need::Ocr, why));
        libtest_mimic::run(&arguments, trials.into()).exit();
    }
    let trial = |name: &str, test: fn() -> Result<()>| {
        Trial::test(name, move || {
            test().map_err(|error| Failed::from(format!("{error:#}")))
        })
    };
    let python = python();
    let beside = if python.is_file() {
        trial(names[1], it_reads_what_onnx_runtime_reads)
    } else {
        skipped(
            names[1],
            Need::Python,
            &format!("{} is not there", python.display()),
        )
    };
    let trials = vec![
        trial(names[0], it_reads_what_the_page_says),
        beside,
        trial(names[2], models_in_the_wrong_place_are_named),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}

/// The Python that has ONNX Runtime, where it is.
fn python() -> PathBuf {
    std::env::var_os("POLYCHIP_PYTHON")
        .map_or_else(|| paths::root().join("target/venv/bin/python"), PathBuf::from)
}

fn model(name: &str) -> PathBuf {
    paths::root().join(MODELS).join(name)
}

fn example(file: &str) -> PathBuf {
    paths::root().join("examples/ocr").join(file)
}

fn reader(detector: &Path, recogniser: &Path) -> Result<Reader> {
    let runtime = Runtime::builder().only_given_folders().build()?;
    let policy = Policy::latency().threads(THREADS);
    Reader::new(&runtime, detector, recogniser, &policy)
}

/// The lines of each frame.
fn read(count: usize) -> Result<Vec<Vec<Line>>> {
    let picture = Picture::read(&example("page.png"))?;
    let mut frames = Vec::new();
    reader(&model(DETECTOR), &model(RECOGNISER))?.read(std::iter::repeat_n(&picture, count), |page| {
        frames.push(page.lines);
        Ok(())
    })?;
    Ok(frames)
}

fn it_reads_what_the_page_says() -> Result<()> {
    let text = std::fs::read_to_string(example("page.txt"))?;
    let wanted: Vec<&str> = text.lines().collect();
    let frames = read(FRAMES)?;
    ensure!(frames.len() == FRAMES, "{} frames of {FRAMES}", frames.len());
    for lines in &frames {
        let found: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        ensure!(
            found == wanted,
            "it reads {found:#?}\nand the page says {wanted:#?}"
        );
        ensure!(*lines == frames[0], "a frame is read otherwise than the first");
        let sure = lines.iter().all(|line| (0.9..=1.0).contains(&line.score));
        ensure!(sure, "of a page this clear every letter is: {lines:#?}");
    }
    Ok(())
}

/// `peer.py`'s answer for a line.
#[derive(Deserialize)]
struct Peer {
    text: String,
    score: f32,
    #[serde(rename = "box")]
    area: [f32; 4],
}

fn it_reads_what_onnx_runtime_reads() -> Result<()> {
    let mut peer = Runner::start(
        Command::new(python())
            .arg("-B")
            .arg(example("peer.py"))
            .args([model(DETECTOR), model(RECOGNISER), example("page.png")])
            .args([THREADS.to_string(), "1".to_owned()]),
    )?;
    let _loaded: serde_json::Value = peer.line()?;
    let theirs: Vec<Peer> = peer.ask("text")?;
    let ours = read(1)?.pop().context("a frame")?;
    ensure!(
        ours.len() == theirs.len(),
        "{} lines, {} there",
        ours.len(),
        theirs.len()
    );
    for (ours, theirs) in ours.iter().zip(&theirs) {
        ensure!(
            ours.text == theirs.text,
            "{:?}, there {:?}",
            ours.text,
            theirs.text
        );
        let apart = (ours.score - theirs.score).abs();
        ensure!(
            apart < 0.02,
            "{:?}: score {} apart by {apart}",
            ours.text,
            ours.score
        );
        let area = ours.area;
        let sides = [area.left, area.top, area.right, area.bottom];
        let near = sides
            .iter()
            .zip(&theirs.area)
            .all(|(one, other)| (one - other).abs() <= APART);
        ensure!(
            near,
            "{:?} is at {sides:?}, there at {:?}",
            ours.text,
            theirs.area
        );
    }
    Ok(())
}

fn models_in_the_wrong_place_are_named() -> Result<()> {
    let error = reader(&model(DETECTOR), &model(DETECTOR))
        .err()
        .context("a detector is taken for a recogniser")?;
    let words = format!("{error:#}");
    ensure!(words.contains(DETECTOR) && words.contains("character"), "{words}");
    let error = Picture::read(&example("page.txt"))
        .err()
        .context("a text is taken for a picture")?;
    ensure!(format!("{error:#}").contains("page.txt"), "{error:#}");
    Ok(())
}

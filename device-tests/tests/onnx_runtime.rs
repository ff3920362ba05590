//! Whole models against ONNX Runtime's outputs: max |a − b| ≤ 1e-4 × max |b| for every output.
//!
//! The shipped model is always tested; the generated ones where `cargo xtask models` has made them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use polychip::{Policy, Runtime};
use polychip_device_tests::compare::{Tolerance, compare, deviation};
use polychip_device_tests::{Need, model, npy, paths, skipped, suite};
use polychip_ops::{DType, Literal};
use serde::Deserialize;

const TOLERANCE: f64 = 1e-4;
/// The int8 sibling in floating point against ONNX Runtime's integer kernels: one step of the output's
/// quantisation may differ (examples/shapes/README.md).
const INT8_TOLERANCE: f64 = 0.02;

#[derive(Deserialize)]
struct Index {
    inputs: BTreeMap<String, String>,
    outputs: BTreeMap<String, String>,
}

fn main() -> Result<()> {
    let arguments = Arguments::from_args();
    let mut trials = vec![
        Trial::test("shapes/pictures", || failed(pictures("shapes", TOLERANCE))),
        Trial::test("shapes-int8/pictures", || {
            failed(pictures("shapes-int8", INT8_TOLERANCE))
        }),
        Trial::test("shapes/held-out", || failed(held_out("shapes", 0.97))),
        Trial::test("shapes-int8/held-out", || failed(held_out("shapes-int8", 0.97))),
    ];
    let expected = paths::models().join("expected");
    if expected.is_dir() {
        let mut folders: Vec<PathBuf> = std::fs::read_dir(&expected)?
            .map(|entry| entry.map(|e| e.path()))
            .collect::<std::io::Result<_>>()?;
        folders.retain(|path| path.join("index.json").is_file());
        folders.sort();
        for folder in folders {
            let name = folder
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default()
                .to_owned();
            if !suite::runs(&name)? {
                continue;
            }
            for threads in [1, 2] {
                let (folder, name) = (folder.clone(), name.clone());
                let title = format!("{name}/threads-{threads}");
                trials.push(Trial::test(title, move || {
                    failed(generated(&name, &folder, threads))
                }));
            }
        }
    } else {
        trials.push(skipped("generated", Need::Models, paths::NO_MODELS));
    }
    libtest_mimic::run(&arguments, trials).exit()
}

fn failed(result: Result<()>) -> Result<(), Failed> {
    result.map_err(|error| format!("{error:#}").into())
}

fn generated(name: &str, folder: &Path, threads: u32) -> Result<()> {
    let index: Index = serde_json::from_str(&std::fs::read_to_string(folder.join("index.json"))?)?;
    let read = |files: &BTreeMap<String, String>| -> Result<BTreeMap<String, Literal>> {
        files
            .iter()
            .map(|(name, file)| Ok((name.clone(), npy::read(&folder.join(file))?)))
            .collect()
    };
    let runtime = Runtime::builder().only_given_folders().build()?;
    let policy = Policy::latency().threads(threads).in_flight(1);
    let path = paths::models().join(format!("{name}.onnx"));
    let outputs = model::run(&runtime, &policy, &path, &read(&index.inputs)?)?;
    let wanted = read(&index.outputs)?;
    ensure!(
        outputs.len() == wanted.len(),
        "{} outputs instead of {}",
        outputs.len(),
        wanted.len()
    );
    for (output, found) in &outputs {
        let wanted = wanted
            .get(output)
            .with_context(|| format!("ONNX Runtime has no output {output:?}"))?;
        let words = compare(found, wanted, Tolerance::OfLargest(TOLERANCE));
        eprintln!("{name}: {output}: deviation {:.1e}", deviation(found, wanted));
        words.map_err(|words| anyhow::anyhow!("output {output:?}: {words}"))?;
    }
    Ok(())
}

fn shapes() -> PathBuf {
    paths::root().join("examples/shapes")
}

fn labels() -> Result<Vec<String>> {
    let text = std::fs::read_to_string(shapes().join("labels.txt"))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Pixels of a PNG as bytes `[height, width, 3]`.
fn png(path: &Path) -> Result<(usize, usize, Vec<u8>)> {
    let file =
        std::io::BufReader::new(std::fs::File::open(path).with_context(|| path.display().to_string())?);
    let mut decoder = png::Decoder::new(file);
    decoder.set_transformations(png::Transformations::EXPAND);
    let mut reader = decoder.read_info()?;
    let mut pixels = vec![0; reader.output_buffer_size().context("the picture is too large")?];
    let info = reader.next_frame(&mut pixels)?;
    ensure!(
        info.color_type == png::ColorType::Rgb,
        "{} is not RGB",
        path.display()
    );
    Ok((info.height as usize, info.width as usize, pixels))
}

/// The 96×96 picture whose upper left corner is at (y, x), as the model wants it: `[1, 3, 96, 96]`.
fn picture(pixels: &[u8], width: usize, y: usize, x: usize) -> Result<Literal> {
    let mut values = Vec::with_capacity(3 * 96 * 96);
    for channel in 0..3 {
        for row in 0..96 {
            let start = ((y + row) * width + x) * 3;
            values.extend((0..96).map(|column| f32::from(pixels[start + column * 3 + channel]) / 255.0));
        }
    }
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Literal::new(DType::F32, vec![1, 3, 96, 96], bytes).context("a picture has another size")
}

fn classify(runtime: &Runtime, name: &str, image: Literal) -> Result<Vec<f64>> {
    let path = shapes().join(format!("{name}.onnx"));
    let inputs = BTreeMap::from([("image".to_owned(), image)]);
    let outputs = model::run(runtime, &Policy::latency().in_flight(1), &path, &inputs)?;
    outputs[0].1.as_f64s().context("the output is not float")
}

fn best(probabilities: &[f64]) -> usize {
    (0..probabilities.len())
        .max_by(|a, b| probabilities[*a].total_cmp(&probabilities[*b]))
        .unwrap_or(0)
}

fn pictures(name: &str, tolerance: f64) -> Result<()> {
    let expected = npy::read(&shapes().join(format!("expected/{name}.npy")))?;
    let expected = expected.as_f64s().context("expected outputs are not float")?;
    let (labels, runtime) = (labels()?, Runtime::builder().only_given_folders().build()?);
    for (index, label) in labels.iter().enumerate() {
        let (_, width, pixels) = png(&shapes().join(format!("pictures/{label}.png")))?;
        let found = classify(&runtime, name, picture(&pixels, width, 0, 0)?)?;
        ensure!(
            best(&found) == index,
            "the {label} is taken for a {}",
            labels[best(&found)]
        );
        let wanted = &expected[index * labels.len()..][..labels.len()];
        let apart = found
            .iter()
            .zip(wanted)
            .fold(0.0f64, |most, (a, b)| most.max((a - b).abs()));
        let largest = wanted.iter().fold(0.0f64, |most, value| most.max(*value));
        ensure!(
            apart <= tolerance * largest,
            "the {label}: apart {apart:e}, allowed {tolerance:e} of {largest}"
        );
    }
    Ok(())
}

/// The contact sheet of held-out pictures: 24 columns of 96×96; column c shows class c mod 12.
fn held_out(name: &str, wanted: f64) -> Result<()> {
    let (height, width, pixels) = png(&shapes().join("held-out.png"))?;
    let labels = labels()?;
    let runtime = Runtime::builder().only_given_folders().build()?;
    let runtime_model = runtime.load(shapes().join(format!("{name}.onnx")))?;
    let session = runtime.session(&runtime_model, Policy::latency().in_flight(1))?;
    let mut image = session.input("image")?;
    let (mut right, mut all) = (0, 0);
    for row in 0..height / 96 {
        for column in 0..width / 96 {
            image.write_bytes(&picture(&pixels, width, row * 96, column * 96)?.bytes)?;
            let outputs = session
                .submit(&[&image])?
                .wait(std::time::Duration::from_secs(60))?;
            let view = outputs.at(0)?;
            let values: Vec<f64> = view
                .values::<f32>()?
                .iter()
                .map(|value| f64::from(*value))
                .collect();
            right += usize::from(best(&values) == column % labels.len());
            all += 1;
        }
    }
    eprintln!("{name}: {right} of {all} held-out pictures");
    if (right as f64) < wanted * all as f64 {
        bail!("{right} of {all} held-out pictures are right, at least {wanted} of them should be");
    }
    Ok(())
}

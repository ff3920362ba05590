//! `cargo xtask predict`: models predicted from measurements of other models, compared with measured times.
//!
//! `polychip profile --ops` measures the models, their segments and their fusion groups, alternately: on the CPU with one
//! thread and with two, on OpenVINO, and on a GPU (Mesa's lavapipe without a chip). The results go to
//! `docs/benchmarks/prediction.md`, the output of `polychip profile show --fit --json` to a folder beside it. Ten of the
//! models are held out: nothing was ever tuned on them.
//!
//! Invariants:
//! 1. A model is predicted by fits that saw neither it nor a similar network, with the code that apps use.
//! 2. Whole models are measured in batches between those of their segments, so that machine drift affects both.
//! 3. A missing device is skipped with the reason, without a figure.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::models::unseen_models;
use crate::root::root;
use crate::statistics::percentile;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Model folder
    #[arg(long, default_value = "device-tests/generated/models")]
    models: PathBuf,
    /// Measure only these devices, named as in the table
    #[arg(long, num_args = 1..)]
    only: Vec<String>,
    /// Seconds of measurement per slice
    #[arg(long, default_value_t = 80)]
    time: u64,
    /// Slices per device
    #[arg(long, default_value_t = 2)]
    slices: u64,
    /// Command that runs each slice, such as one that keeps the machine idle
    #[arg(long)]
    under: Option<String>,
    /// Only rewrite the page from the profiles in the `--work` folder
    #[arg(long)]
    page_only: bool,
    /// Profile folder
    #[arg(long, default_value = "target/predict")]
    work: PathBuf,
    /// Folder for the page and the raw files
    #[arg(long, default_value = "docs/benchmarks")]
    out: PathBuf,
}

/// A device of the table.
struct Place {
    name: &'static str,
    devices: &'static str,
    threads: &'static str,
    plugin: Option<&'static str>,
    /// Only these models, where not all.
    models: Option<&'static [&'static str]>,
}

/// Models that an emulated GPU, which runs on the CPU, completes within minutes.
const SMALL: [&str; 12] = [
    "kws_dscnn",
    "squeezenet1_1",
    "light_squeezenet",
    "light_shufflenet",
    "mobilenet_v2",
    "minilm_l6",
    "mobilenet_v1",
    "efficientnet_b0",
    "autoencoder",
    "unet",
    "resnet18",
    "vit_tiny",
];

const PLACES: [Place; 4] = [
    Place {
        name: "cpu-1",
        devices: "cpu",
        threads: "1",
        plugin: None,
        models: None,
    },
    Place {
        name: "cpu-2",
        devices: "cpu",
        threads: "2",
        plugin: None,
        models: None,
    },
    Place {
        name: "openvino",
        devices: "openvino",
        threads: "1",
        plugin: Some("polychip-plugin-openvino"),
        models: None,
    },
    Place {
        name: "gpu",
        devices: "gpu",
        threads: "1",
        plugin: Some("polychip-plugin-gpu"),
        models: Some(&SMALL),
    },
];

/// The goal: median and 95th percentile of the error, in per cent.
const GOAL: [f64; 2] = [10.0, 20.0];

/// Measures, and writes the page.
pub(crate) fn run(options: &Options) -> Result<()> {
    let work = root().join(&options.work);
    fs::create_dir_all(&work).with_context(|| format!("creating {}", work.display()))?;
    let program = root().join("target/release/polychip");
    let wanted =
        |place: &&Place| options.only.is_empty() || options.only.iter().any(|name| name == place.name);
    if !options.page_only {
        let mut models = models(&root().join(&options.models))?;
        let unseen = self::models(&unseen_models()?)?;
        let names: BTreeSet<_> = unseen.iter().filter_map(|path| path.file_stem()).collect();
        if names != UNSEEN.iter().map(OsStr::new).collect() {
            bail!("{names:?} are built, but the page expects {UNSEEN:?}");
        }
        models.extend(unseen);
        build("polychip-cli")?;
        for place in PLACES.iter().filter(wanted) {
            if let Some(plugin) = place.plugin {
                build(plugin)?;
            }
            if let Err(error) = measure(options, place, &program, &work, &models) {
                eprintln!("predict: {} skipped: {error:#}", place.name);
            }
        }
    }
    let raw = root().join(&options.out).join("prediction");
    fs::create_dir_all(&raw)?;
    let mut tables = Vec::new();
    for place in &PLACES {
        let profile = work.join(format!("{}.profile", place.name));
        if !profile.is_file() {
            eprintln!(
                "predict: {} skipped: {} is missing",
                place.name,
                profile.display()
            );
            continue;
        }
        let shown = Command::new(&program)
            .args(["profile", "show", "--fit", "--json"])
            .arg(&profile)
            .output()?;
        if !shown.status.success() {
            bail!("{}", String::from_utf8_lossy(&shown.stderr));
        }
        let answer: Value = serde_json::from_slice(&shown.stdout)?;
        let predictions = answer["predictions"].as_array().cloned().unwrap_or_default();
        let Some(prediction) = predictions.into_iter().next() else {
            eprintln!("predict: {} skipped: too few measurements", place.name);
            continue;
        };
        let text = serde_json::to_string_pretty(&prediction)? + "\n";
        fs::write(raw.join(format!("{}.json", place.name)), text)?;
        tables.push((place.name, prediction));
    }
    let page = root().join(&options.out).join("prediction.md");
    fs::write(&page, text(&tables)).with_context(|| format!("writing {}", page.display()))
}

/// Names of the networks on which nothing was tuned.
const UNSEEN: [&str; 10] = [
    "resnet18",
    "resnet34",
    "vgg11",
    "mobilenet_v1",
    "efficientnet_b0",
    "resnext50",
    "unet",
    "vit_tiny",
    "decoder",
    "autoencoder",
];

/// The models of a folder. Of variants that differ only in weights, the first one, because their times are the same.
fn models(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("{} (see cargo xtask models)", folder.display()))?;
    let mut all: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    let name = |path: &Path| {
        path.file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default()
    };
    all.retain(|path| {
        path.extension().is_some_and(|end| end == "onnx") && !name(path).starts_with("varied_")
    });
    all.sort();
    Ok(all)
}

fn build(package: &str) -> Result<()> {
    let status = Command::new("cargo")
        .args(["build", "--release", "--package", package])
        .current_dir(root())
        .status()?;
    if !status.success() {
        bail!("building {package} failed");
    }
    Ok(())
}

fn measure(options: &Options, place: &Place, program: &Path, work: &Path, models: &[PathBuf]) -> Result<()> {
    let profile = work.join(format!("{}.profile", place.name));
    let is_wanted = |model: &&PathBuf| {
        let name = model.file_stem().unwrap_or_default();
        place
            .models
            .is_none_or(|some| some.iter().any(|one| *one == name))
    };
    let models: Vec<&PathBuf> = models.iter().filter(is_wanted).collect();
    for slice in 0..options.slices {
        // first everything once, then the least certain parts
        let goal = if slice == 0 { "100" } else { "2" };
        let mut command = match &options.under {
            Some(under) => {
                let mut command = Command::new(under);
                command.arg(program);
                command
            }
            None => Command::new(program),
        };
        command
            .arg("profile")
            .args(&models)
            .args(["--ops", "--devices", place.devices, "--threads", place.threads])
            .args(["--precision-goal", goal, "--time", &options.time.to_string()])
            .arg("--profile")
            .arg(&profile)
            .arg("--plugins")
            .arg(root().join("target/release"));
        eprintln!(
            "predict: {} slice {} of {}",
            place.name,
            slice + 1,
            options.slices
        );
        if !command.status()?.success() {
            bail!("the measurement failed");
        }
    }
    Ok(())
}

/// A share in millionths as per cent.
fn percent(value: &Value) -> Option<f64> {
    value.as_f64().map(|ppm| ppm / 1e4)
}

fn shown(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.1}"))
}

fn signed(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:+.1}"))
}

fn milliseconds(value: &Value) -> String {
    value
        .as_f64()
        .map_or_else(|| "–".to_owned(), |ns| format!("{:.3}", ns / 1e6))
}

fn is_emulated(table: &Value) -> bool {
    table["emulated"] == true
}

/// A device's name, marked if its figures are emulated.
fn labelled(name: &str, table: &Value) -> String {
    if is_emulated(table) {
        format!("{name} (emulated)")
    } else {
        name.to_owned()
    }
}

/// The errors of a column, and whether they meet the goal. The column `repeated` has no goal.
fn verdict(column: &str, errors: &[f64]) -> String {
    let mut sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    let [p50, p95] = [50, 95].map(|percent| percentile(&mut sizes, percent));
    let met = p50 <= GOAL[0] && p95 <= GOAL[1];
    let word = match (column, met) {
        ("repeated", _) => "–",
        (_, true) => "met",
        (_, false) => "**not met**",
    };
    format!("{p50:.1} | {p95:.1} | {} | {word}", errors.len())
}

/// The page.
fn text(tables: &[(&str, Value)]) -> String {
    let mut page = String::from(
        "# Predicted and measured latency\n\n\
         Written by `cargo xtask predict`; [prediction/](prediction/) holds the output of `polychip profile show --fit --json`.\n\n\
         Each model is predicted from the *other* models' measurements: fits exclude the model itself and every network that\n\
         shares more than half of its fusion groups. The measured time is the median from submission to outputs at batch 1.\n\n\
         - **Composed**: predicted from measured segments of the model, without a measurement of the whole.\n\
         - **By regression**: predicted as if no part of the model had been measured; fits exclude rows with any of its fusion groups.\n\
         - **Repeated**: measurement noise, the largest difference between one batch's median and the overall median.\n\n\
         Errors are percentages of the measured time; p95 is the nearest rank. [profile.md](../profile.md) explains the columns.\n\n\
         Goal: median error at most 10 %, p95 at most 20 %. The rules for cutting models and fitting regressions were tuned on 16\n\
         of the models. The other ten, the held-out models (`device-tests/peers/make_unseen.py`), were written afterwards.\n",
    );
    let columns = [
        ("composed", "composed_ppm"),
        ("by regression", "fitted_ppm"),
        ("repeated", "repeated_ppm"),
    ];
    let is_unseen = |model: &Value| UNSEEN.iter().any(|name| model["model"] == *name);
    let errors = |table: &Value, key: &str, unseen: bool| -> Vec<f64> {
        let models = table["models"].as_array().cloned().unwrap_or_default();
        let some = models.iter().filter(|model| !unseen || is_unseen(model));
        some.filter_map(|model| percent(&model[key])).collect()
    };
    for (words, unseen) in [("all models", false), ("held-out models", true)] {
        let _ = writeln!(
            page,
            "\n{words}:\n\n| device | column | median % | p95 % | models | goal |\n|---|---|---|---|---|---|"
        );
        let mut all: [Vec<f64>; 3] = Default::default();
        let mut real: [Vec<f64>; 3] = Default::default();
        for (name, table) in tables {
            for (at, (word, key)) in columns.iter().enumerate() {
                let errors = errors(table, key, unseen);
                let _ = writeln!(
                    page,
                    "| {} | {word} | {} |",
                    labelled(name, table),
                    verdict(word, &errors)
                );
                if !is_emulated(table) {
                    real[at].extend(&errors);
                }
                all[at].extend(errors);
            }
        }
        for (words, sums) in [("all", &all), ("all not emulated", &real)] {
            for ((word, _), errors) in columns.iter().zip(sums) {
                let _ = writeln!(page, "| {words} | {word} | {} |", verdict(word, errors));
            }
        }
    }
    for (name, table) in tables {
        let text = |key: &str| table[key].as_str().unwrap_or_default().to_owned();
        let _ = write!(
            page,
            "\n## {}\n\n`{}` {}: {} rows fitted; launch {} µs, whole models {:.3}× the sums of their \
             segments.\n\n| model | fusion groups | measured ms | repeated % | composed ms | error % | by regression ms | error % |\n\
             |---|---|---|---|---|---|---|---|\n",
            labelled(name, table),
            text("device"),
            text("operating_point"),
            table["rows"],
            table["launch_ns"].as_f64().unwrap_or(0.0) / 1e3,
            table["scale_ppm"].as_f64().unwrap_or(0.0) / 1e6,
        );
        for model in table["models"].as_array().into_iter().flatten() {
            let _ = writeln!(
                page,
                "| {} | {} | {} | {} | {} | {} | {} | {} |",
                model["model"].as_str().unwrap_or_default(),
                model["groups"],
                milliseconds(&model["measured_ns"]),
                shown(percent(&model["repeated_ppm"])),
                milliseconds(&model["composed_ns"]),
                signed(percent(&model["composed_ppm"])),
                milliseconds(&model["fitted_ns"]),
                signed(percent(&model["fitted_ppm"])),
            );
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_of_the_nearest_rank() {
        let errors: Vec<f64> = (1..=20)
            .map(|error| f64::from(error) * if error % 2 == 0 { 1.0 } else { -1.0 })
            .collect();
        assert_eq!(verdict("composed", &errors), "10.0 | 19.0 | 20 | met");
        assert_eq!(verdict("composed", &[25.0]), "25.0 | 25.0 | 1 | **not met**");
        assert_eq!(verdict("repeated", &[25.0]), "25.0 | 25.0 | 1 | –");
    }
}

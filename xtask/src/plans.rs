//! `cargo xtask plans`: times of multi-device plans against the best single device, as an app sees them: the first
//! plan, the first plan with calibrated devices, after 200 runs, and after `polychip measure`.
//!
//! Invariants:
//! 1. The timed command is `polychip bench` as users type it; rounds of all kinds alternate, and medians count.
//! 2. A model that a command refuses is listed with its error; no time fails the command.
//!
//! Not here: which plan is best on paper (`placement_bench`), answers (`trained`).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use toml::Table;

use crate::root::root;
use crate::statistics::median;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Models; default: the existing ones of `cargo xtask models` and `cargo xtask trained --fetch`
    models: Vec<PathBuf>,
    /// Plugin folder
    #[arg(long, default_value = "target/release")]
    plugins: PathBuf,
    /// Devices, each also measured alone
    #[arg(long, value_delimiter = ',', default_value = "cpu:0,openvino:0")]
    devices: Vec<String>,
    /// CPU threads
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<u32>,
    /// Rounds; the median of their medians counts
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds of each round
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Instead, start one app this many times, with sessions that learn into one profile file, and compare each start
    /// with the first
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..))]
    starts: Option<u32>,
    /// JSON file to write the figures to
    #[arg(long, default_value = "target/plans.json")]
    json: PathBuf,
}

/// A model with the shapes that its open inputs get.
struct Model {
    path: PathBuf,
    shapes: Vec<String>,
}

/// How a model is run.
#[derive(Clone, Copy)]
enum Kind<'a> {
    /// On one device.
    Alone(&'a str),
    /// The first plan, which stays.
    Cold,
    /// The same of calibrated devices.
    Calibrated,
    /// After 200 runs of a session that learns.
    Learnt,
    /// With what `measure` wrote, which stays.
    Measured,
    /// As an app does, whose sessions learn and keep what they learnt.
    Started,
}

/// Prints a line for each model and number of threads.
#[allow(clippy::print_stdout, reason = "the table is what the command is for")]
pub(crate) fn run(options: &Options) -> Result<()> {
    let polychip = root().join("target/release/polychip");
    ensure!(
        polychip.is_file(),
        "{} is missing: cargo build --release --package polychip-cli",
        polychip.display()
    );
    let known = models()?;
    let models = if options.models.is_empty() {
        known
    } else {
        let shapes = |path: &Path| {
            known
                .iter()
                .find(|model| model.path == path)
                .map(|model| model.shapes.clone())
        };
        let model = |path: &PathBuf| Model {
            path: path.clone(),
            shapes: shapes(path).unwrap_or_default(),
        };
        options.models.iter().map(model).collect()
    };
    if let Some(starts) = options.starts {
        return started(&polychip, options, &models, starts);
    }
    println!(
        "| model | threads | best single device, ms | first plan | calibrated | after 200 runs | after measure | final plan |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut rows = Vec::new();
    for model in &models {
        for &threads in &options.threads {
            let name = model.path.file_stem().unwrap_or_default().to_string_lossy();
            match row(&polychip, options, model, threads) {
                Ok(row) => {
                    println!("| {name} | {threads} | {}", line(&row));
                    rows.push(row);
                }
                Err(error) => println!("| {name} | {threads} | {error:#} |"),
            }
        }
    }
    for figure in ["cold", "calibrated", "learnt", "measured"] {
        let mut ratios: Vec<f64> = rows.iter().filter_map(|row| row[figure].as_f64()).collect();
        ratios.sort_by(f64::total_cmp);
        if let (Some(most), false) = (ratios.last(), ratios.is_empty()) {
            let product: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
            let mean = (product / ratios.len() as f64).exp();
            println!("{figure}: geometric mean {mean:.3} of the best single device, at most {most:.3}");
        }
    }
    std::fs::write(root().join(&options.json), serde_json::to_vec_pretty(&rows)?)?;
    Ok(())
}

/// Prints the time of each start of an app relative to a start without a profile right after it, and, for the noise of
/// the machine, how these first starts differ among each other.
#[allow(clippy::print_stdout, reason = "the table is what the command is for")]
fn started(polychip: &Path, options: &Options, models: &[Model], starts: u32) -> Result<()> {
    let mut rows = Vec::new();
    let (mut slowest, mut noise): (f64, f64) = (0.0, 1.0);
    println!("| model | threads | first start, ms | later starts relative to a first start | last plan |");
    println!("|---|---|---|---|---|");
    for (model, &threads) in models
        .iter()
        .flat_map(|model| options.threads.iter().map(move |threads| (model, threads)))
    {
        let name = model.path.file_stem().unwrap_or_default().to_string_lossy();
        let (kept, fresh) = (fresh_profile("kept")?, fresh_profile("fresh")?);
        let start = |file: &Path| bench(polychip, options, model, threads, Kind::Started, file);
        let pairs = (0..starts).map(|_| {
            let later = start(&kept)?;
            let first = start(&fresh)?;
            fresh_profile("fresh")?;
            Ok((later, first.0))
        });
        let pairs = match pairs.collect::<Result<Vec<((f64, String), f64)>>>() {
            Ok(pairs) => pairs,
            Err(error) => {
                println!("| {name} | {threads} | {error:#} |");
                continue;
            }
        };
        fresh_profile("kept")?;
        let mut firsts: Vec<f64> = pairs.iter().map(|(_, first)| *first).collect();
        // the first pair has two first starts
        let ratios: Vec<f64> = pairs[1..]
            .iter()
            .map(|((later, _), first)| later / first)
            .collect();
        let texts: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.3}")).collect();
        let plan = pairs.last().map_or("", |((_, plan), _)| plan.as_str());
        let first = median(&mut firsts);
        println!(
            "| {name} | {threads} | {:.3} ({:.3} to {:.3}) | {} | {plan} |",
            first / 1e6,
            firsts[0] / 1e6,
            firsts[firsts.len() - 1] / 1e6,
            texts.join(", ")
        );
        let mut sorted = ratios.clone();
        slowest = slowest.max(median(&mut sorted));
        noise = noise.max(firsts[firsts.len() - 1] / firsts[0]);
        rows.push(json!({
            "model": name,
            "threads": threads,
            "first_ns": firsts,
            "over_first": ratios,
            "plan": plan,
        }));
    }
    ensure!(!rows.is_empty(), "no model started");
    println!("largest median of a model's later starts: {slowest:.3} of a first start");
    println!("first starts of one model differ by up to {noise:.3}");
    std::fs::write(root().join(&options.json), serde_json::to_vec_pretty(&rows)?)?;
    Ok(())
}

/// The path of a profile file of this process; an older one is removed.
fn fresh_profile(name: &str) -> Result<PathBuf> {
    let file = root().join(format!("target/plans-{}-{name}.profile", std::process::id()));
    for ending in ["", "-wal", "-shm"] {
        let old = PathBuf::from(format!("{}{ending}", file.display()));
        if old.exists() {
            std::fs::remove_file(&old)?;
        }
    }
    Ok(file)
}

fn line(row: &Value) -> String {
    let number = |name: &str| row[name].as_f64().unwrap_or(f64::NAN);
    format!(
        "{:.3} ({}) | {:.3} | {:.3} | {:.3} | {:.3} | {} |",
        number("best_ns") / 1e6,
        row["best"].as_str().unwrap_or_default(),
        number("cold"),
        number("calibrated"),
        number("learnt"),
        number("measured"),
        row["plan"].as_str().unwrap_or_default()
    )
}

/// The figures of a model.
fn row(polychip: &Path, options: &Options, model: &Model, threads: u32) -> Result<Value> {
    let file = fresh_profile("kept")?;
    let runs = |device: &&String| {
        let arguments = [
            "--devices",
            device,
            "--learn",
            "no",
            "--warmup",
            "1",
            "--iters",
            "1",
        ];
        call(polychip, options, model, threads, "bench", &arguments).is_ok()
    };
    let able: Vec<&String> = options.devices.iter().filter(runs).collect();
    ensure!(
        able.len() > 1,
        "{} devices can run the whole model: {able:?}",
        able.len()
    );
    call(
        polychip,
        options,
        model,
        threads,
        "measure",
        &["--profile", &file.to_string_lossy()],
    )?;
    let mut kinds: Vec<Kind<'_>> = options.devices.iter().map(|device| Kind::Alone(device)).collect();
    kinds.extend([Kind::Cold, Kind::Calibrated, Kind::Learnt, Kind::Measured]);
    let mut found: Vec<Vec<f64>> = vec![Vec::new(); kinds.len()];
    let mut plan = String::new();
    for _ in 0..options.rounds {
        for (kind, found) in kinds.iter().zip(&mut found) {
            let ran = bench(polychip, options, model, threads, *kind, &file);
            // a device may not run the whole model
            let (p50_ns, words) = match (kind, ran) {
                (Kind::Alone(_), Err(_)) => (f64::INFINITY, String::new()),
                (_, ran) => ran?,
            };
            found.push(p50_ns);
            if matches!(kind, Kind::Learnt) {
                plan = words;
            }
        }
    }
    let medians: Vec<f64> = found.iter_mut().map(|values| median(values)).collect();
    let (alone, several) = medians.split_at(options.devices.len());
    let best = (0..alone.len())
        .filter(|&device| alone[device].is_finite())
        .min_by(|&a, &b| alone[a].total_cmp(&alone[b]))
        .context("no single device can run the model")?;
    let ratio = |index: usize| several[index] / alone[best];
    Ok(json!({
        "model": model.path.file_stem().unwrap_or_default().to_string_lossy(),
        "threads": threads,
        "best": options.devices[best],
        "best_ns": alone[best],
        "alone_ns": alone,
        "cold": ratio(0),
        "calibrated": ratio(1),
        "learnt": ratio(2),
        "measured": ratio(3),
        "plan": plan,
        "rounds_ns": found,
    }))
}

/// The median run of a bench, and the plan that it ended with.
fn bench(
    polychip: &Path,
    options: &Options,
    model: &Model,
    threads: u32,
    kind: Kind<'_>,
    profile: &Path,
) -> Result<(f64, String)> {
    let all = options.devices.join(",");
    let seconds = options.seconds.to_string();
    let file = profile.to_string_lossy();
    let mut arguments = vec!["--json", "--duration", &seconds, "--devices"];
    match kind {
        Kind::Alone(device) => arguments.extend([device, "--learn", "no"]),
        Kind::Cold => arguments.extend([all.as_str(), "--learn", "no"]),
        Kind::Calibrated => arguments.extend([all.as_str(), "--learn", "no", "--calibrate"]),
        Kind::Learnt => arguments.extend([all.as_str(), "--warmup", "200"]),
        Kind::Started => arguments.extend([all.as_str(), "--profile", &file]),
        Kind::Measured => arguments.extend([all.as_str(), "--learn", "no", "--profile", &file]),
    }
    let told: Value = serde_json::from_slice(&call(polychip, options, model, threads, "bench", &arguments)?)?;
    let p50_ns = told["latency_ns"]["p50"].as_f64().context("no latency")?;
    let plan = told["report"]["learning"]["plan"].as_str().unwrap_or_default();
    Ok((p50_ns, plan.to_owned()))
}

fn call(
    polychip: &Path,
    options: &Options,
    model: &Model,
    threads: u32,
    command: &str,
    arguments: &[&str],
) -> Result<Vec<u8>> {
    let mut program = Command::new(polychip);
    program.arg(command).arg(root().join(&model.path)).args(arguments);
    if command == "measure" {
        program.args(["--devices", &options.devices.join(",")]);
    }
    program.arg("--plugins").arg(root().join(&options.plugins));
    program.args(["--threads", &threads.to_string()]);
    for shape in &model.shapes {
        program.args(["--shape", shape]);
    }
    let done = program.stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&done.stderr);
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    ensure!(
        done.status.success(),
        "polychip {command}: {}",
        last.unwrap_or("no message")
    );
    Ok(done.stdout)
}

/// What `cargo xtask models` made and `cargo xtask trained --fetch` fetched.
fn models() -> Result<Vec<Model>> {
    let mut found = Vec::new();
    for name in [
        "kws_dscnn",
        "mobilenet_v2",
        "squeezenet1_1",
        "resnet50",
        "light_densenet121",
        "minilm_l6",
    ] {
        let path = PathBuf::from(format!("device-tests/generated/models/{name}.onnx"));
        if root().join(&path).is_file() {
            found.push(Model {
                path,
                shapes: Vec::new(),
            });
        }
    }
    let text = std::fs::read_to_string(root().join("device-tests/models/models.toml"))?;
    let table: Table = toml::from_str(&text)?;
    for package in entries(&table, "package") {
        let text = |name: &str| {
            package
                .get(name)
                .and_then(toml::Value::as_str)
                .unwrap_or_default()
        };
        let folder = PathBuf::from("target/trained").join(format!("{}-{}", text("name"), text("version")));
        for model in entries(package, "model") {
            let file = model
                .get("file")
                .and_then(toml::Value::as_str)
                .unwrap_or_default();
            let path = folder.join(file);
            if root().join(&path).is_file() {
                found.push(Model {
                    path,
                    shapes: shapes(model),
                });
            }
        }
    }
    Ok(found)
}

fn entries<'a>(table: &'a Table, name: &str) -> impl Iterator<Item = &'a Table> {
    let entries = table.get(name).and_then(toml::Value::as_array);
    entries.into_iter().flatten().filter_map(toml::Value::as_table)
}

/// The shapes of a model's inputs, as the command takes them.
fn shapes(model: &Table) -> Vec<String> {
    let inputs = model.get("inputs").and_then(toml::Value::as_table);
    let shape = |(name, input): (&String, &toml::Value)| {
        let sizes = input.get("shape")?.as_array()?;
        let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
        (!sizes.is_empty()).then(|| format!("{name}={}", sizes.join("x")))
    };
    inputs.into_iter().flatten().filter_map(shape).collect()
}

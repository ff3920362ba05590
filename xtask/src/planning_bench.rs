//! `cargo xtask planning-bench`: how long a whole `polychip partition MODEL --json` takes, and how that grows with the
//! model.
//!
//! Invariants:
//! 1. Models are generated here, the same bytes each time; one of the devices is the CPU, the others are scripted.
//! 2. What is timed is the program as a user starts it, from start to end. ONNX Runtime's load of the same file stands
//!    beside it where its Python package is there, and is said to be skipped where not.
//! 3. A plan that is not proved optimal fails the chore; times never do.
//!
//! Not here: the solver by itself (`placement_bench`).

mod model;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::root::root;
use model::Shape;

/// Most devices of a plan.
const MOST: u8 = 16;

/// What scripted devices do: all are fast, every other one is slow at Tanh and the rest at convolutions, so that plans have
/// parts, and of two of a kind each is the faster one at some sizes.
fn script(devices: u8) -> String {
    let device = |index: u64| {
        let (slow, launch, fixed, slow_fixed) = match index % 2 {
            0 => ("Tanh", 500, 20, 400_000),
            _ => ("Conv", 700, 30, 300_000),
        };
        let more = index / 2;
        format!(
            "[[device]]\nname = \"npu{index}\"\nlaunch_ns = {}\n\
             cost = {{ fixed_ns = {}, ps_per_byte = {:.2} }}\nop.{slow} = {{ fixed_ns = {slow_fixed} }}\n",
            launch + 90 * (7 - more),
            fixed + 3 * more,
            0.5 + 0.5 * (index % 2) as f64 - 0.03 * more as f64,
        )
    };
    (0..u64::from(devices)).map(device).collect()
}

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Model shapes
    #[arg(value_enum, default_values = ["chain", "resnet"])]
    shapes: Vec<Shape>,
    /// Numbers of nodes
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 10_000, 100_000])]
    nodes: Vec<usize>,
    /// Number of devices: the CPU and scripted ones
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=i64::from(MOST)))]
    devices: u8,
    /// Calls per model; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    repeats: u8,
    /// Command to time
    #[arg(long, default_value = "partition", value_parser = ["partition", "explain", "html"])]
    command: String,
    /// JSON file to write the figures to
    #[arg(long, default_value = "target/planning-bench.json")]
    json: PathBuf,
}

/// Runs the benchmark; its table goes to the standard output.
#[allow(clippy::print_stdout, reason = "the table is what the chore is for")]
pub(crate) fn run(options: &Options) -> Result<()> {
    let work = root().join("target/planning-bench");
    let plugins = work.join("plugins");
    std::fs::create_dir_all(&plugins).with_context(|| format!("creating {}", plugins.display()))?;
    let program = build(&plugins)?;
    let runtime = OnnxRuntime::find();
    println!(
        "{:<10} {:>8} {:>10} {:>10} {:>7} {:>6}  ONNX Runtime's load",
        "model", "nodes", options.command, "best", "optimal", "parts"
    );
    let mut figures = Vec::new();
    for &shape in &options.shapes {
        let mut points = Vec::new();
        for &nodes in &options.nodes {
            let path = work.join(format!("{}-{nodes}.onnx", shape.word()));
            std::fs::write(&path, model::model(shape, nodes))
                .with_context(|| format!("writing {}", path.display()))?;
            let timed = Timed::of(&program, &plugins, &path, options)?;
            let load = runtime.load(&path);
            println!(
                "{:<10} {nodes:>8} {:>8.3} s {:>8.3} s {:>7} {:>6}  {}",
                shape.word(),
                timed.median.as_secs_f64(),
                timed.best.as_secs_f64(),
                timed.is_optimal,
                timed.parts,
                match &load {
                    Ok(time) => format!("{:.3} s", time.as_secs_f64()),
                    Err(reason) => format!("skipped: {reason}"),
                }
            );
            ensure!(
                timed.is_optimal,
                "the plan of {} is not proven optimal",
                path.display()
            );
            figures.push(json!({
                "model": shape.word(),
                "nodes": nodes,
                "devices": options.devices,
                "command": options.command,
                "median_s": timed.median.as_secs_f64(),
                "best_s": timed.best.as_secs_f64(),
                "parts": timed.parts,
                "onnx_runtime_load_s": load.ok().map(|time| time.as_secs_f64()),
            }));
            points.push((nodes as f64, timed.median.as_secs_f64()));
        }
        if let Some(slope) = slope(&points) {
            println!(
                "{:<10} time grows with the number of nodes to the power of {slope:.2}",
                shape.word()
            );
            figures.push(json!({ "model": shape.word(), "slope": slope }));
        }
    }
    let path = root().join(&options.json);
    std::fs::write(&path, serde_json::to_vec_pretty(&figures)?)
        .with_context(|| format!("writing {}", path.display()))
}

/// Builds the program and the scripted plugin, which goes to a folder of its own; gives the program.
fn build(plugins: &Path) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args([
            "build",
            "--release",
            "--package",
            "polychip-cli",
            "--package",
            "polychip-plugin-null",
        ])
        .current_dir(root())
        .status()
        .context("starting cargo")?;
    ensure!(status.success(), "the program does not build ({status})");
    let metadata = cargo_metadata::MetadataCommand::new()
        .no_deps()
        .current_dir(root())
        .exec()
        .context("running cargo metadata")?;
    let release = metadata.target_directory.into_std_path_buf().join("release");
    let library = format!(
        "{}polychip_plugin_null{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    );
    std::fs::copy(release.join(&library), plugins.join(&library))
        .with_context(|| format!("copying {library}"))?;
    Ok(release.join(format!("polychip{}", std::env::consts::EXE_SUFFIX)))
}

/// One model, planned a few times.
struct Timed {
    median: Duration,
    best: Duration,
    is_optimal: bool,
    parts: usize,
}

impl Timed {
    fn of(program: &Path, plugins: &Path, model: &Path, options: &Options) -> Result<Timed> {
        let mut command = Command::new(program);
        match options.command.as_str() {
            "html" => command
                .arg("partition")
                .arg(model)
                .arg("--html")
                .arg(model.with_extension("html")),
            name => command.arg(name).arg(model),
        };
        let scripted = options.devices - 1;
        let names =
            std::iter::once("cpu:0".to_owned()).chain((0..scripted).map(|index| format!("null:{index}")));
        let devices = names.collect::<Vec<String>>().join(",");
        let script = script(scripted);
        command
            .arg("--json")
            .arg("--plugins")
            .arg(plugins)
            .args(["--set", &format!("null.script={script}"), "--devices", &devices])
            .stderr(Stdio::inherit());
        let (mut times, mut last) = (Vec::new(), Vec::new());
        for _ in 0..options.repeats {
            let start = Instant::now();
            let output = command.output().context("starting polychip")?;
            times.push(start.elapsed());
            ensure!(output.status.success(), "polychip ended with {}", output.status);
            last = output.stdout;
        }
        times.sort_unstable();
        let answer: Value = serde_json::from_slice(&last).context("reading polychip's answer")?;
        let certificate = &answer["report"]["certificate"];
        let (Some(objective), Some(bound)) =
            (certificate["objective"].as_u64(), certificate["bound"].as_u64())
        else {
            bail!("the answer has no certificate");
        };
        Ok(Timed {
            median: times[times.len() / 2],
            best: times[0],
            is_optimal: objective == bound,
            parts: answer["report"]["parts"].as_array().map_or(0, Vec::len),
        })
    }
}

/// The Python that has ONNX Runtime, or why there is none.
struct OnnxRuntime(Result<PathBuf, String>);

impl OnnxRuntime {
    fn find() -> OnnxRuntime {
        let python = std::env::var_os("POLYCHIP_PYTHON")
            .map_or_else(|| root().join("target/venv/bin/python"), PathBuf::from);
        let found = Command::new(&python)
            .args(["-c", "import onnxruntime"])
            .stderr(Stdio::null())
            .status();
        OnnxRuntime(match found {
            Ok(status) if status.success() => Ok(python),
            Ok(_) => Err(format!("{} lacks onnxruntime", python.display())),
            Err(_) => Err("no Python of `cargo xtask models`".to_owned()),
        })
    }

    /// The time of making a session of a model.
    fn load(&self, model: &Path) -> Result<Duration, String> {
        let python = self.0.as_ref().map_err(Clone::clone)?;
        let words = "import sys, time, onnxruntime as ort
start = time.perf_counter()
ort.InferenceSession(sys.argv[1], providers=['CPUExecutionProvider'])
print(time.perf_counter() - start)";
        let output = Command::new(python)
            .args(["-c", words])
            .arg(model)
            .output()
            .map_err(|error| error.to_string())?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr);
            return Err(words.lines().last().unwrap_or("it failed").to_owned());
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let seconds: f64 = text.trim().parse().map_err(|_| format!("it says {text:?}"))?;
        Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
    }
}

/// The power of the nodes that the time grows with: the slope of the line through the logarithms.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let points: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let count = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let across = points
        .iter()
        .map(|(x, y)| (x - mean_x) * (y - mean_y))
        .sum::<f64>();
    let spread = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum::<f64>();
    (points.len() > 1 && spread > 0.0).then(|| across / spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_of_a_square_is_two() {
        let points = [10.0, 100.0, 1000.0].map(|nodes: f64| (nodes, 3.0 * nodes * nodes));
        assert!((slope(&points).unwrap() - 2.0).abs() < 1e-9);
        assert!(slope(&points[..1]).is_none());
    }
}

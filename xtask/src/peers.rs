//! `cargo xtask peers`: whole models against the other CPU runtimes, in one interleaved run.
//!
//! Sets up what it needs under `target/peers` (a Python environment, our release runners, those of the Rust peers,
//! quantised models), runs `device-tests/peers/peers.py` and `load.py` per number of threads, then `threads.py`, and writes
//! `docs/benchmarks/cpu.md` with the raw files in `docs/benchmarks/cpu/`.
//!
//! Invariants:
//! 1. A table states machine, versions, date and command, and comes from one interleaved run per number of threads.
//! 2. A peer is compared within its precision: f32 with f32, 16 bits with 16 bits, 8 bits with 8 bits.
//! 3. A peer that cannot be installed or cannot run a model has no figure; it is never counted as slower.

mod narrow;
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::models::system_python;
use crate::root::root;
use narrow::Isa;
use table::{Group, Run};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run only these models, named as in `device-tests/generated/models/models.json`
    #[arg(long, num_args = 1..)]
    only: Vec<String>,
    /// Run only these groups
    #[arg(long, value_enum, num_args = 1..)]
    groups: Vec<Group>,
    /// Run only loading and threads, and no groups
    #[arg(long, conflicts_with = "groups")]
    costs: bool,
    /// Numbers of threads
    #[arg(long, num_args = 1.., default_values_t = [1, 2])]
    threads: Vec<usize>,
    /// Rounds per runner
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Seconds of inference per round
    #[arg(long, default_value_t = 0.2)]
    turn: f64,
    /// Limit every runner, including ours, to this instruction set; the table is cpu-ISA.md
    #[arg(long, value_enum)]
    isa: Option<Isa>,
    /// Folder for the table and the raw files
    #[arg(long, default_value = "docs/benchmarks")]
    out: PathBuf,
}

const MODELS: &str = "device-tests/generated/models";
const REQUIREMENTS: [&str; 2] = [
    "device-tests/requirements.txt",
    "device-tests/peers/requirements.txt",
];
const SCRIPT: &str = "device-tests/peers/peers.py";
const LOAD: &str = "device-tests/peers/load.py";
const THREADS: &str = "device-tests/peers/threads.py";

/// The models of the comparison; the quantised ones are made from the first two.
const FLOAT: [&str; 7] = [
    "kws_dscnn",
    "mobilenet_v2",
    "squeezenet1_1",
    "resnet50",
    "yolov8n",
    "minilm_l6",
    "bert_base",
];
const QUANTISED: [&str; 2] = ["mobilenet_v2", "resnet50"];

/// Runs the comparison and writes its pages.
pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = root().join("target/peers");
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let python = python(&folder)?;
    let ours = build()?;
    let rust_peers = match rust_peers(&folder) {
        Ok(path) => Some(path),
        Err(error) => {
            eprintln!("peers: rten and tract skipped: {error:#}");
            None
        }
    };
    let wanted = |group| !options.costs && (options.groups.is_empty() || options.groups.contains(&group));
    let models = models(&folder, &python, wanted(Group::Bytes))?;
    let held = options.isa.map(|isa| isa.held(&folder, &python)).transpose()?;
    let hold = |command: &mut Command| {
        if let Some(held) = &held {
            held.hold(command);
        }
    };
    let out = root().join(&options.out);
    let page = options
        .isa
        .map_or_else(|| "cpu".to_owned(), |isa| format!("cpu-{}", isa.name()));
    let raw = out.join(&page);
    fs::create_dir_all(&raw).with_context(|| format!("creating {}", raw.display()))?;
    let mut runs = Vec::new();
    for &threads in &options.threads {
        // one process takes all groups of float models, so that they alternate too
        let floats = [Group::Float, Group::Half]
            .into_iter()
            .filter(|&group| wanted(group));
        let bytes = [Group::Bytes].into_iter().filter(|&group| wanted(group));
        for (name, groups) in [("float", floats.collect::<Vec<_>>()), ("int8", bytes.collect())] {
            let all: Vec<String> = if name == "float" {
                FLOAT.map(str::to_owned).to_vec()
            } else {
                QUANTISED.map(|model| format!("{model}_int8")).to_vec()
            };
            let chosen: Vec<String> = all
                .into_iter()
                .filter(|model| options.only.is_empty() || options.only.contains(model))
                .collect();
            if groups.is_empty() || chosen.is_empty() {
                continue;
            }
            let json = raw.join(format!("{name}-{threads}.json"));
            let mut command = Command::new(&python);
            command
                .arg("-B")
                .arg(root().join(SCRIPT))
                .arg(&models)
                .args(["--threads", &threads.to_string()])
                .args(["--rounds", &options.rounds.to_string()])
                .args(["--turn", &options.turn.to_string()])
                .arg("--json")
                .arg(&json)
                .arg("--calibrate")
                .arg(&ours.calibrate)
                .arg("--only")
                .args(&chosen)
                .arg("--peers")
                .args(groups.iter().flat_map(|group| group.peers()));
            for group in &groups {
                let runner = format!("{}={}", group.ours(), ours.runner.display());
                command.args(["--add", &runner]);
            }
            if let Some(path) = &rust_peers {
                command.arg("--rust-peers").arg(path);
            }
            hold(&mut command);
            call(&mut command, "the comparison")?;
            let text = fs::read_to_string(&json).with_context(|| format!("reading {}", json.display()))?;
            runs.push(Run {
                groups,
                json: serde_json::from_str(&text).with_context(|| format!("parsing {}", json.display()))?,
            });
        }
        if !options.costs {
            sequences(&ours.sequence, threads, &raw, &hold)?;
        }
    }
    let costs = if options.groups.is_empty() {
        costs(&python, &models, &ours, options, &raw, &hold)?
    } else {
        String::new()
    };
    let command: Vec<String> = std::env::args().skip(1).collect();
    let text = table::page(&machine(), &versions(&python)?, &command.join(" "), &page, &runs) + &costs;
    let path = out.join(format!("{page}.md"));
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    eprintln!("peers: wrote {}", path.display());
    Ok(())
}

/// The sections of the page on loading, compared with ONNX Runtime, and on threads.
fn costs(
    python: &Path,
    models: &Path,
    ours: &Ours,
    options: &Options,
    raw: &Path,
    hold: &dyn Fn(&mut Command),
) -> Result<String> {
    let script = |file: &str, json: &Path| {
        let mut command = Command::new(python);
        hold(&mut command);
        command.arg("-B").arg(root().join(file)).arg(models);
        command
            .args(["--rounds", &options.rounds.to_string()])
            .arg("--json")
            .arg(json);
        if !options.only.is_empty() {
            command.arg("--only").args(&options.only);
        }
        command
    };
    let read = |json: &Path| -> Result<serde_json::Value> {
        let text = fs::read_to_string(json).with_context(|| format!("reading {}", json.display()))?;
        serde_json::from_str(&text).with_context(|| format!("parsing {}", json.display()))
    };
    let mut text = String::new();
    for &threads in &options.threads {
        let json = raw.join(format!("load-{threads}.json"));
        let runner = format!("polychip={}", ours.runner.display());
        call(
            script(LOAD, &json)
                .args(["--threads", &threads.to_string()])
                .args(["--add", &runner]),
            "the comparison of loading",
        )?;
        text += &table::load(&read(&json)?);
    }
    let json = raw.join("threads.json");
    call(
        script(THREADS, &json)
            .arg("--runner")
            .arg(&ours.runner)
            .arg("--calibrate")
            .arg(&ours.calibrate),
        "the benchmark of threads",
    )?;
    Ok(text + &table::threads(&read(&json)?))
}

/// The convolutions of each model in sequence, with the peak rate measured in the same minutes.
fn sequences(program: &Path, threads: usize, raw: &Path, hold: &dyn Fn(&mut Command)) -> Result<()> {
    let mut command = Command::new(program);
    hold(&mut command);
    let output = command
        .args([&threads.to_string(), "auto", "all"])
        .output()
        .with_context(|| format!("starting {}", program.display()))?;
    if !output.status.success() {
        bail!("{} failed ({})", program.display(), output.status);
    }
    let path = raw.join(format!("sequence-{threads}.txt"));
    fs::write(&path, output.stdout).with_context(|| format!("writing {}", path.display()))
}

/// Our programs.
struct Ours {
    runner: PathBuf,
    calibrate: PathBuf,
    sequence: PathBuf,
}

fn build() -> Result<Ours> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    for (package, examples) in [
        ("polychip", &["bench_peer"][..]),
        ("polychip-cpu-kernels", &["calibrate", "sequence"]),
    ] {
        let mut command = Command::new(&cargo);
        command.args(["build", "--release", "--package", package]);
        for example in examples {
            command.args(["--example", example]);
        }
        call(command.current_dir(root()), "building our runners")?;
    }
    let metadata = cargo_metadata::MetadataCommand::new()
        .no_deps()
        .current_dir(root())
        .exec()
        .context("running cargo metadata")?;
    let folder = metadata
        .target_directory
        .into_std_path_buf()
        .join("release/examples");
    let program = |name: &str| folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    Ok(Ours {
        runner: program("bench_peer"),
        calibrate: program("calibrate"),
        sequence: program("sequence"),
    })
}

fn rust_peers(folder: &Path) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = folder.join("rust-peers");
    let mut command = Command::new(cargo);
    command
        .args(["build", "--release", "--manifest-path"])
        .arg(root().join("device-tests/peers/rust-peers/Cargo.toml"))
        .arg("--target-dir")
        .arg(&target);
    call(&mut command, "building the Rust peers")?;
    Ok(target.join(format!("release/rust-peers{}", std::env::consts::EXE_SUFFIX)))
}

/// A Python environment with the peers. Peers that cannot be installed here are reported and left out.
fn python(folder: &Path) -> Result<PathBuf> {
    let venv = folder.join("venv");
    let python = venv.join(if cfg!(windows) {
        "Scripts/python.exe"
    } else {
        "bin/python"
    });
    let mut wanted = String::new();
    for file in REQUIREMENTS {
        wanted += &fs::read_to_string(root().join(file)).with_context(|| format!("reading {file}"))?;
    }
    let stamp = venv.join(".stamp");
    if python.is_file() && fs::read_to_string(&stamp).is_ok_and(|old| old == wanted) {
        return Ok(python);
    }
    let system = system_python()?;
    eprintln!("peers: creating {} (downloads about 250 MB)", venv.display());
    call(
        Command::new(&system).args(["-m", "venv", "--clear"]).arg(&venv),
        "making the environment",
    )?;
    let install = |what: &[&str]| {
        let mut command = Command::new(&python);
        command
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .args(what)
            .current_dir(root());
        call(&mut command, &format!("installing {}", what.join(" ")))
    };
    install(&["--requirement", REQUIREMENTS[0]])?;
    let peers = fs::read_to_string(root().join(REQUIREMENTS[1]))
        .with_context(|| format!("reading {}", REQUIREMENTS[1]))?;
    for peer in peers
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
    {
        // the file lists what is needed; what else a package names (torch) stays away
        if let Err(error) = install(&["--no-deps", peer]) {
            eprintln!("peers: {peer} skipped: {error:#}");
        }
    }
    fs::write(&stamp, wanted).with_context(|| format!("writing {}", stamp.display()))?;
    Ok(python)
}

/// A folder of links to the generated models, beside quantised ones, so that files made by the comparison stay out of the
/// models' own folder.
fn models(folder: &Path, python: &Path, quantised: bool) -> Result<PathBuf> {
    let (from, to) = (root().join(MODELS), folder.join("models"));
    if !from.join("models.json").is_file() {
        bail!("{MODELS} has no models: run `cargo xtask models` first");
    }
    fs::create_dir_all(&to).with_context(|| format!("creating {}", to.display()))?;
    for model in FLOAT {
        let name = format!("{model}.onnx");
        let (from, to) = (from.join(&name), to.join(&name));
        if !to.exists() {
            let linked = fs::hard_link(&from, &to).or_else(|_| fs::copy(&from, &to).map(|_| ()));
            linked.with_context(|| format!("linking {}", from.display()))?;
        }
    }
    if !to.join("models.json").exists() {
        fs::copy(from.join("models.json"), to.join("models.json")).context("copying models.json")?;
    }
    if quantised {
        let missing: Vec<&str> = QUANTISED
            .into_iter()
            .filter(|model| !to.join(format!("{model}_int8.onnx")).exists())
            .collect();
        if !missing.is_empty() {
            let mut command = Command::new(python);
            command
                .arg(root().join("device-tests/peers/quantize.py"))
                .arg(&to)
                .args(missing);
            call(&mut command, "quantising models")?;
        }
    }
    Ok(to)
}

/// Runs a command, whose output goes to this program's output.
fn call(command: &mut Command, what: &str) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("{what}: starting {}", command.get_program().display()))?;
    if !status.success() {
        bail!("{what} failed ({status})");
    }
    Ok(())
}

/// Name and number of processors, and the system's kernel.
fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        info.lines()
            .find_map(|line| line.strip_prefix(name)?.split_once(':'))
            .map_or("?", |(_, value)| value.trim())
            .to_owned()
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!(
        "{} (family {}, model {}), {processors} processors, {} {}",
        field("model name"),
        field("cpu family"),
        // not "model name"
        info.lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.trim() == "model")
            .map_or("?", |(_, value)| value.trim()),
        std::env::consts::OS,
        kernel.trim()
    )
}

/// Versions of the peers and of this repository.
fn versions(python: &Path) -> Result<String> {
    let code = "import importlib.metadata as m\n\
                def v(p):\n    try: return m.version(p)\n    except m.PackageNotFoundError: return None\n\
                print(', '.join(n + ' ' + v(p) for n, p in [('ONNX Runtime', 'onnxruntime'), ('OpenVINO', 'openvino'), \
                ('LiteRT', 'ai-edge-litert'), ('ncnn', 'ncnn'), ('MNN', 'MNN')] if v(p)))";
    let output = Command::new(python)
        .args(["-c", code])
        .output()
        .with_context(|| format!("starting {}", python.display()))?;
    let mut all = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let lock =
        fs::read_to_string(root().join("device-tests/peers/rust-peers/Cargo.lock")).unwrap_or_default();
    let lock: toml::Table = lock.parse().unwrap_or_default();
    let packages = lock.get("package").and_then(toml::Value::as_array);
    for (name, package) in [("rten", "rten"), ("tract", "tract-onnx")] {
        let version = packages.into_iter().flatten().find_map(|entry| {
            (entry.get("name")?.as_str()? == package).then(|| entry.get("version")?.as_str())?
        });
        if let Some(version) = version {
            all += &format!(", {name} {version}");
        }
    }
    let commit = Command::new("git")
        .args(["describe", "--always", "--dirty"])
        .current_dir(root())
        .output()
        .context("running git describe")?;
    Ok(format!(
        "polychip {}, {all}",
        String::from_utf8_lossy(&commit.stdout).trim()
    ))
}

//! The example `examples/ocr` beside the same in ONNX Runtime: frames by turns, each side in a process of its own.

use std::fmt::Write as _;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use polychip::{Policy, Runtime};
use polychip_device_tests::process::{Runner, forget_peak, memory};
use polychip_example_ocr::{Picture, Reader};
use serde::{Deserialize, Serialize};

use crate::ours::{Loaded, nanoseconds, say};
use crate::versus::{ms, part};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Python with ONNX Runtime, numpy and pillow
    #[arg(long, value_name = "PYTHON", default_value = "target/venv/bin/python")]
    python: PathBuf,
    /// Line detection model
    #[arg(long, value_name = "FILE")]
    detector: PathBuf,
    /// Line recognition model
    #[arg(long, value_name = "FILE")]
    recogniser: PathBuf,
    /// PNG picture
    #[arg(long, value_name = "FILE", default_value = "examples/ocr/page.png")]
    page: PathBuf,
    /// Threads of each session
    #[arg(long, default_value_t = 1)]
    threads: u32,
    /// Frames per side
    #[arg(long, default_value_t = 30)]
    frames: usize,
    /// Rounds, after one warm-up round
    #[arg(long, default_value_t = 3)]
    turns: usize,
}

/// One side alone.
#[derive(clap::Args)]
pub(crate) struct Side {
    detector: PathBuf,
    recogniser: PathBuf,
    page: PathBuf,
    threads: u32,
    frames: usize,
}

/// What frames took, in nanoseconds.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Frames {
    whole_ns: u64,
    frame_ns: Vec<u64>,
    /// Runs of the models alone.
    detector_ns: Vec<u64>,
    recogniser_ns: Vec<u64>,
}

impl Frames {
    fn add(&mut self, others: Frames) {
        self.whole_ns += others.whole_ns;
        self.frame_ns.extend(others.frame_ns);
        self.detector_ns.extend(others.detector_ns);
        self.recogniser_ns.extend(others.recogniser_ns);
    }

    fn rate(&self) -> f64 {
        self.frame_ns.len() as f64 * 1e9 / self.whole_ns as f64
    }
}

/// A line as both sides say it.
#[derive(Debug, Deserialize)]
struct Line {
    text: String,
}

/// Serves until its input ends, as `examples/ocr/peer.py` does.
///
/// # Errors
/// Whatever a user of the crate would get.
pub(crate) fn serve(side: &Side) -> Result<()> {
    let picture = Picture::read(&side.page)?;
    forget_peak();
    let before = memory("VmRSS");
    let start = Instant::now();
    let runtime = Runtime::builder()
        .only_given_folders()
        .configure("cpu", "threads", side.threads.to_string())
        .build()?;
    let policy = Policy::latency().threads(side.threads);
    let mut reader = Reader::new(&runtime, &side.detector, &side.recogniser, &policy)?;
    let load_ns = nanoseconds(start.elapsed());
    say(&Loaded {
        load_ns,
        version: None,
    })?;
    for line in std::io::stdin().lock().lines() {
        match line?.trim() {
            "peak" => say(&memory("VmHWM").saturating_sub(before))?,
            "text" => {
                let mut lines = Vec::new();
                reader.read(std::iter::once(&picture), |page| {
                    lines = page.lines;
                    Ok(())
                })?;
                say(&lines)?;
            }
            "reports" => {
                let mut words = String::new();
                for report in reader.reports() {
                    writeln!(words, "\n{report}")?;
                }
                say(&words)?;
            }
            _ => {
                let mut frames = Frames::default();
                let start = Instant::now();
                reader.read(std::iter::repeat_n(&picture, side.frames), |page| {
                    let add = |to: &mut Vec<u64>, time: Duration| to.push(nanoseconds(time));
                    add(&mut frames.frame_ns, page.times.whole);
                    add(&mut frames.detector_ns, page.times.detector);
                    add(&mut frames.recogniser_ns, page.times.recogniser);
                    Ok(())
                })?;
                frames.whole_ns = nanoseconds(start.elapsed());
                say(&frames)?;
            }
        }
    }
    Ok(())
}

/// Runs both, and says what came of it.
///
/// # Errors
/// A side does not run, or the texts differ.
pub(crate) fn run(arguments: &Arguments) -> Result<String> {
    let turns = arguments.turns.max(1);
    let each = arguments.frames.div_ceil(turns).max(1);
    let given = [arguments.threads.to_string(), each.to_string()];
    let files = [&arguments.detector, &arguments.recogniser, &arguments.page];
    let start = |command: &mut Command| Runner::start(command.args(files).args(&given));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/ocr/peer.py");
    let mut peer = start(Command::new(&arguments.python).arg("-B").arg(script))?;
    let peer_loaded: Loaded = peer.line().context("ONNX Runtime's side")?;
    let mut ours = start(Command::new(std::env::current_exe()?).arg("serve-ocr"))?;
    let loaded: Loaded = ours.line()?;

    // the first time every shape is planned for
    let first: [Frames; 2] = [ours.ask("frames")?, peer.ask("frames")?];
    let mut warm = [Frames::default(), Frames::default()];
    for _ in 0..turns {
        warm[0].add(ours.ask("frames")?);
        warm[1].add(peer.ask("frames")?);
    }
    let peaks: [u64; 2] = [ours.ask("peak")?, peer.ask("peak")?];
    let [text, wanted] = [text(&mut ours)?, text(&mut peer)?];

    let mut said = format!(
        "{}: {} lines, {} frames, {} thread{} each session, ONNX Runtime {}",
        arguments.page.display(),
        text.len(),
        warm[0].frame_ns.len(),
        arguments.threads,
        if arguments.threads == 1 { "" } else { "s" },
        peer_loaded.version.unwrap_or_default()
    );
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(["", "Polychip", "ONNX Runtime", "ratio"]);
    let mut row = |what: &str, [ours, peer]: [f64; 2]| {
        table.add_row([
            what.to_owned(),
            format!("{ours:.2}"),
            format!("{peer:.2}"),
            format!("{:.2}", ours / peer),
        ]);
    };
    row("frames a second", [warm[0].rate(), warm[1].rate()]);
    let times = |of: fn(&Frames) -> &[u64], share: f64| [0, 1].map(|side| ms(part(of(&warm[side]), share)));
    row("a frame, p50, ms", times(|frames| &frames.frame_ns, 0.5));
    row("a frame, p99, ms", times(|frames| &frames.frame_ns, 0.99));
    row(
        "the detector's run, p50, ms",
        times(|frames| &frames.detector_ns, 0.5),
    );
    row(
        "the recogniser's runs of a frame, p50, ms",
        times(|frames| &frames.recogniser_ns, 0.5),
    );
    row("load, ms", [ms(loaded.load_ns), ms(peer_loaded.load_ns)]);
    row("first frame, ms", [0, 1].map(|side| ms(first[side].frame_ns[0])));
    row(
        "peak memory, MiB",
        peaks.map(|bytes| bytes as f64 / f64::from(1 << 20)),
    );
    ensure!(text == wanted, "the texts differ:\n{text:#?}\n{wanted:#?}");
    write!(said, "\n{table}\nequal text\n{}", ours.ask::<String>("reports")?)?;
    Ok(said)
}

fn text(side: &mut Runner) -> Result<Vec<String>> {
    let lines: Vec<Line> = side.ask("text")?;
    Ok(lines.into_iter().map(|line| line.text).collect())
}

//! Three models on one CPU thread: a camera model at 30 frames/s, a speech model and an endless background model.
//!
//! Invariants:
//! 1. A frame is due at its period, however late the previous frame was; its time runs from then to its outputs.
//! 2. All sides have the same models, periods and one core, which who calls this gives them (`taskset`).
//!
//! Not here: correctness.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use polychip::admission::{Admission, Wanted};
use polychip::{Model, Policy, Priority, Runtime, Session};
use polychip_device_tests::process::Runner;
use serde::Deserialize;

use crate::ours::nanoseconds;
use crate::versus::{ms, part};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Camera model
    #[arg(long, value_name = "FILE")]
    camera: PathBuf,
    /// Speech model
    #[arg(long, value_name = "FILE")]
    speech: PathBuf,
    /// Endless background model
    #[arg(long, value_name = "FILE")]
    background: PathBuf,
    /// Python with ONNX Runtime; without it, only Polychip is measured
    #[arg(long, value_name = "PYTHON")]
    python: Option<PathBuf>,
    /// Folder where that Python finds the package `openvino`; without it, OpenVINO is not measured
    #[arg(long, value_name = "DIR", requires = "python")]
    openvino: Option<PathBuf>,
    /// Seconds per measurement
    #[arg(long, default_value_t = 30.0)]
    seconds: f64,
    /// Period and deadline of camera frames in milliseconds
    #[arg(long, default_value_t = 33.3)]
    camera_ms: f64,
    /// Period and deadline of speech chunks in milliseconds
    #[arg(long, default_value_t = 100.0)]
    speech_ms: f64,
    /// Longest part of the background model in milliseconds
    #[arg(long, default_value_t = 10.0)]
    longest_ms: f64,
}

const LONGEST: Duration = Duration::from_secs(120);
const WARM: Duration = Duration::from_secs(2);
/// Runs of each session before the first frame, of all sides.
const WARM_RUNS: usize = 5;
/// Frames of the camera that may be under way at once: one that comes while another goes on is submitted nevertheless.
const IN_FLIGHT: usize = 3;

/// What one side made of the three.
#[derive(Debug, Deserialize)]
struct Found {
    /// A peer in words.
    #[serde(default)]
    peer: String,
    camera: Vec<u64>,
    speech: Vec<u64>,
    /// Runs of the background, and the seconds in which they were made.
    background: u64,
    seconds: f64,
}

/// Measures, and says what came of it.
///
/// # Errors
/// Whatever a user of the crate would get.
pub(crate) fn run(arguments: &Arguments) -> Result<String> {
    let builder = Runtime::builder().only_given_folders().measure_rates();
    let runtime = builder.configure("cpu", "threads", "1").build()?;
    let load = |path: &PathBuf| runtime.load(path);
    let (camera, speech, background) = (
        load(&arguments.camera)?,
        load(&arguments.speech)?,
        load(&arguments.background)?,
    );
    let length = Duration::from_secs_f64(arguments.seconds);
    let whole = Policy::latency().threads(1);
    let period = |ms: f64| Duration::from_secs_f64(ms / 1e3);
    let periods = [period(arguments.camera_ms), period(arguments.speech_ms)];
    let cut = whole.clone().longest_part(period(arguments.longest_ms));

    let mut text = String::new();
    let (mut camera_alone, mut speech_alone) = (Vec::new(), Vec::new());
    for (model, times) in [(&camera, &mut camera_alone), (&speech, &mut speech_alone)] {
        let session = runtime.session(model, whole.clone())?;
        endless(&session, WARM, &AtomicBool::new(false))?;
        // cuts rest on what was measured
        *times = endless(
            &session,
            length.min(Duration::from_secs(10)),
            &AtomicBool::new(false),
        )?;
        session.record()?;
    }
    let alone = |policy: &Policy| -> Result<(f64, usize, u64)> {
        let session = runtime.session(&background, policy.clone())?;
        endless(&session, WARM, &AtomicBool::new(false))?;
        let times = endless(&session, length, &AtomicBool::new(false))?;
        session.record()?;
        let planned = session.planned().context("a session without a plan")?;
        let parts = &planned.plan().parts;
        let longest = parts.iter().map(|part| part.cost.time.nanoseconds()).max();
        let sum: u64 = times.iter().sum();
        let rate = times.len() as f64 / (sum as f64 / 1e9);
        Ok((rate, parts.len(), longest.unwrap_or(0)))
    };
    let (uncut_rate, ..) = alone(&whole)?;
    let (cut_rate, parts, longest) = alone(&cut)?;
    writeln!(
        text,
        "alone: camera p50 {:.3} ms, p99 {:.3}; speech p50 {:.3}, p99 {:.3}; background {uncut_rate:.2}/s, cut into {parts} \
         parts, the longest predicted to take {:.3} ms, {cut_rate:.2}/s ({:.3})",
        ms(part(&camera_alone, 0.5)),
        ms(part(&camera_alone, 0.99)),
        ms(part(&speech_alone, 0.5)),
        ms(part(&speech_alone, 0.99)),
        ms(longest),
        cut_rate / uncut_rate
    )?;
    writeln!(text, "{}", cost_of_a_turn(&runtime, &speech, &whole)?)?;

    let urgent = |at: usize| whole.clone().priority(Priority::Urgent).deadline(periods[at]);
    let batch = |policy: &Policy| policy.clone().priority(Priority::Batch);
    let sides = [
        ("classes, deadlines, cuts", urgent(0), urgent(1), batch(&cut)),
        (
            "classes, deadlines, whole models",
            urgent(0),
            urgent(1),
            batch(&whole),
        ),
        ("none of them", whole.clone(), whole.clone(), whole.clone()),
    ];
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header([
        "",
        "model",
        "runs",
        "missed",
        "p50, ms",
        "p99, ms",
        "p99.9, ms",
        "longest, ms",
        "background/s",
        "of uncut alone",
    ]);
    let wanted = [("camera", &camera, 0, IN_FLIGHT), ("speech", &speech, 1, 1)];
    let wanted = wanted.map(|(name, model, at, in_flight)| {
        let policy = urgent(at).period(periods[at]).in_flight(in_flight);
        Wanted::new(name, model, policy)
    });
    let endless = Wanted::new("background", &background, batch(&whole));
    match runtime.admit(wanted.into_iter().chain([endless]))? {
        Admission::Refused(refusal) => writeln!(text, "{refusal}")?,
        Admission::Admitted(admitted) => {
            writeln!(text, "{}", admitted.certificate())?;
            let sessions = <[Session; 3]>::try_from(admitted.sessions()?);
            let sessions = sessions.ok().context("a session for each that was wanted")?;
            let found = together(&sessions, periods, length)?;
            add(
                &mut table,
                "admitted, cuts from deadlines",
                &found,
                periods,
                uncut_rate,
            );
        }
    }
    for (name, for_camera, for_speech, for_background) in sides {
        let sessions = [
            runtime.session(&camera, for_camera.in_flight(IN_FLIGHT))?,
            runtime.session(&speech, for_speech)?,
            runtime.session(&background, for_background)?,
        ];
        let found = together(&sessions, periods, length)?;
        add(&mut table, name, &found, periods, uncut_rate);
    }
    let openvino = arguments.openvino.as_ref();
    let peers = [
        arguments.python.as_ref().map(|_| ("onnxruntime", None)),
        openvino.map(|folder| ("openvino", Some(folder))),
    ];
    for (peer, folder) in peers.into_iter().flatten() {
        let python = arguments.python.as_ref().context("--openvino needs --python")?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peer_lanes.py");
        let mut command = Command::new(python);
        command.arg("-B").arg(script).arg(peer);
        command.args([&arguments.camera, &arguments.speech, &arguments.background]);
        command.args(
            [arguments.camera_ms, arguments.speech_ms, arguments.seconds].map(|value| value.to_string()),
        );
        if let Some(folder) = folder {
            command.env("PYTHONPATH", folder);
        }
        let mut peer = Runner::start(&mut command)?;
        let found: Found = peer.line()?;
        add(&mut table, &found.peer, &found, periods, uncut_rate);
    }
    write!(text, "{table}")?;
    Ok(text)
}

fn add(table: &mut Table, name: &str, found: &Found, periods: [Duration; 2], uncut_rate: f64) {
    let rate = found.background as f64 / found.seconds;
    for (model, times, period) in [
        ("camera", &found.camera, periods[0]),
        ("speech", &found.speech, periods[1]),
    ] {
        let missed = times.iter().filter(|&&ns| ns > nanoseconds(period)).count();
        table.add_row([
            name.to_owned(),
            model.to_owned(),
            times.len().to_string(),
            format!("{missed} ({})", interval(missed, times.len())),
            format!("{:.2}", ms(part(times, 0.5))),
            format!("{:.2}", ms(part(times, 0.99))),
            format!("{:.2}", ms(part(times, 0.999))),
            format!("{:.2}", ms(part(times, 1.0))),
            format!("{rate:.2}"),
            format!("{:.3}", rate / uncut_rate),
        ]);
    }
}

/// The share of missed frames that the count stands for, in per cent: Wilson's interval at 95 %.
fn interval(missed: usize, all: usize) -> String {
    let (n, z) = (all.max(1) as f64, 1.96f64);
    let share = missed as f64 / n;
    let middle = share + z * z / (2.0 * n);
    let half = z * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
    let scale = 100.0 / (1.0 + z * z / n);
    format!(
        "{:.2} to {:.2} %",
        (middle - half).max(0.0) * scale,
        (middle + half) * scale
    )
}

/// The three at once.
fn together(sessions: &[Session; 3], periods: [Duration; 2], length: Duration) -> Result<Found> {
    for session in sessions {
        let inputs = inputs(session)?;
        let given: Vec<_> = inputs.iter().collect();
        for _ in 0..WARM_RUNS {
            drop(session.submit(&given)?.wait(LONGEST)?);
        }
    }
    let stop = AtomicBool::new(false);
    let [camera, speech, background] = sessions;
    let start = Instant::now();
    std::thread::scope(|scope| {
        let endless = scope
            .spawn(|| endless(background, LONGEST, &stop).map(|times| (times.len() as u64, start.elapsed())));
        let frames = (0..IN_FLIGHT)
            .map(|at| scope.spawn(move || periodic(camera, periods[0], length, start, (at, IN_FLIGHT))));
        let frames: Vec<_> = frames.collect();
        let chunks = scope.spawn(|| periodic(speech, periods[1], length, start, (0, 1)));
        let mut camera = Vec::new();
        for thread in frames {
            camera.extend(thread.join().ok().context("a thread panicked")??);
        }
        let speech = chunks.join().ok().context("a thread panicked")?;
        stop.store(true, Ordering::Release);
        let (background, took) = endless.join().ok().context("a thread panicked")??;
        Ok(Found {
            peer: String::new(),
            camera,
            speech: speech?,
            background,
            seconds: took.as_secs_f64(),
        })
    })
}

/// Frame `at` of each `of` that are due every so often; how long each took from then on, in nanoseconds.
fn periodic(
    session: &Session,
    period: Duration,
    length: Duration,
    start: Instant,
    (at, of): (usize, usize),
) -> Result<Vec<u64>> {
    let inputs = inputs(session)?;
    let given: Vec<_> = inputs.iter().collect();
    let mut times = Vec::new();
    let mut due = period * at as u32;
    while due < length {
        if let Some(left) = due.checked_sub(start.elapsed()) {
            std::thread::sleep(left);
        }
        drop(session.submit(&given)?.wait(LONGEST)?);
        times.push(nanoseconds(start.elapsed().saturating_sub(due)));
        due += period * of as u32;
    }
    Ok(times)
}

/// Runs one after the other, for so long or until the others have stopped; how long each took, in nanoseconds.
fn endless(session: &Session, length: Duration, stop: &AtomicBool) -> Result<Vec<u64>> {
    let inputs = inputs(session)?;
    let given: Vec<_> = inputs.iter().collect();
    let (start, mut times) = (Instant::now(), Vec::new());
    while start.elapsed() < length && !stop.load(Ordering::Acquire) {
        let one = Instant::now();
        drop(session.submit(&given)?.wait(LONGEST)?);
        times.push(nanoseconds(one.elapsed()));
    }
    Ok(times)
}

fn inputs(session: &Session) -> Result<Vec<polychip::Input>> {
    let names: Vec<String> = session.inputs().map(|input| input.name.clone()).collect();
    let inputs: polychip::Result<Vec<_>> = names.iter().map(|name| session.input(name)).collect();
    Ok(inputs?)
}

/// What a run of a small model takes more once another session has the device too, which rests.
fn cost_of_a_turn(runtime: &Runtime, model: &Model, policy: &Policy) -> Result<String> {
    let session = runtime.session(model, policy.clone())?;
    let parts = session.report().parts.len().max(1);
    let turn = Duration::from_millis(300);
    let (mut alone, mut shared) = (Vec::new(), Vec::new());
    for _ in 0..10 {
        alone.extend(endless(&session, turn, &AtomicBool::new(false))?);
        let other = runtime.session(model, policy.clone())?;
        shared.extend(endless(&session, turn, &AtomicBool::new(false))?);
        drop(other);
    }
    let (alone, shared) = (part(&alone, 0.5), part(&shared, 0.5));
    Ok(format!(
        "a turn: {:.3} µs a part (median run {:.3} µs with the device alone, {:.3} µs beside a session that rests)",
        (shared as f64 - alone as f64) / 1e3 / parts as f64,
        alone as f64 / 1e3,
        shared as f64 / 1e3
    ))
}

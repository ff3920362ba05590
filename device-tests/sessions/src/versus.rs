//! Runs both sides in alternation, and reports the results.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use polychip_device_tests::process::Runner;

use crate::ours::{Kept, Kind, Loaded};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Python with ONNX Runtime, numpy and pillow
    #[arg(long, value_name = "PYTHON")]
    python: PathBuf,
    /// Model; an output of its first input is compared
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    #[arg(long, default_value_t = 1)]
    threads: u32,
    /// Inputs per pass
    #[arg(long, default_value_t = 200)]
    count: usize,
    /// Passes of each side, after one warm-up pass
    #[arg(long, default_value_t = 3)]
    passes: usize,
}

/// What one side came to.
struct Side {
    load_ns: u64,
    first: Vec<u64>,
    warm: Vec<u64>,
    peak_bytes: u64,
}

/// Runs both, and returns the results as text.
///
/// # Errors
/// A side does not run, or the answers differ.
pub(crate) fn run(kind: Kind, arguments: &Arguments) -> Result<String> {
    let folder = std::env::temp_dir().join(format!(
        "polychip-sessions-{}-{}",
        kind.word(),
        std::process::id()
    ));
    let given = [arguments.threads.to_string(), arguments.count.to_string()];
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peer.py");
    let mut peer = Runner::start(
        Command::new(&arguments.python)
            .arg("-B")
            .arg(script)
            .arg(kind.word())
            .args([&arguments.model, &folder])
            .args(&given),
    )?;
    let peer_loaded: Loaded = peer.line()?;
    let mut ours = Runner::start(
        Command::new(std::env::current_exe()?)
            .args(["serve", kind.word()])
            .args([&arguments.model, &folder])
            .args(&given),
    )?;
    let loaded: Loaded = ours.line()?;
    let first = [ours.ask("pass")?, peer.ask("pass")?];
    let mut warm: [Vec<u64>; 2] = [Vec::new(), Vec::new()];
    for _ in 0..arguments.passes {
        warm[0].extend(ours.ask::<Vec<u64>>("pass")?);
        warm[1].extend(peer.ask::<Vec<u64>>("pass")?);
    }
    let peaks: [u64; 2] = [ours.ask("peak")?, peer.ask("peak")?];
    let apart: f64 = ours.ask("check")?;
    let kept: Kept = ours.ask("report")?;
    let fixed: Option<Vec<u64>> = match kind {
        Kind::Widths => Some(ours.ask("fixed")?),
        Kind::Stream => None,
    };
    let [first_ours, first_peer] = first;
    let [warm_ours, warm_peer] = warm;
    let mine = Side {
        load_ns: loaded.load_ns,
        first: first_ours,
        warm: warm_ours,
        peak_bytes: peaks[0],
    };
    let theirs = Side {
        load_ns: peer_loaded.load_ns,
        first: first_peer,
        warm: warm_peer,
        peak_bytes: peaks[1],
    };
    // the files are of no use any more
    let _ = std::fs::remove_dir_all(&folder);
    let version = peer_loaded.version.unwrap_or_default();
    let mut text = format!(
        "{}: {} inputs a pass, {} passes, {} thread{}, ONNX Runtime {version}",
        arguments.model.display(),
        arguments.count,
        arguments.passes,
        arguments.threads,
        if arguments.threads == 1 { "" } else { "s" }
    );
    text += &format!(
        "\n{}\nanswers apart by {apart:.1e} of the largest value; {} copies",
        table(&mine, &theirs),
        kept.copies
    );
    if !kept.planning_ns.is_empty() {
        text += &format!(
            "\n{} shapes planned for, {} runs found theirs; planning: median {:.2} ms, longest {:.2} ms; {:.1} MiB kept",
            kept.misses,
            kept.hits,
            ms(part(&kept.planning_ns, 0.5)),
            ms(part(&kept.planning_ns, 1.0)),
            kept.bytes as f64 / f64::from(1 << 20)
        );
        for (phase, times) in &kept.phases {
            text += &format!("\nplanning, {phase}: median {:.3} ms", ms(part(times, 0.5)));
        }
        let (first, warm) = new_sizes(&mine, arguments.count);
        let (peer_first, peer_warm) = new_sizes(&theirs, arguments.count);
        text += &format!(
            "\nfirst answer / warm run, median over the inputs: {:.2} / {:.2} ms, ONNX Runtime {:.2} / {:.2} ms; first answers: {:.2}",
            ms(first),
            ms(warm),
            ms(peer_first),
            ms(peer_warm),
            first as f64 / peer_first as f64
        );
    }
    if let Some(fixed) = fixed {
        let (all, alone) = (part(&mine.warm, 0.99), part(&fixed, 0.99));
        text += &format!(
            "\np99 of all shapes {:.2} ms, of a session of the widest alone {:.2} ms: {:.2}",
            ms(all),
            ms(alone),
            all as f64 / alone as f64
        );
    }
    ensure!(apart <= 1e-3, "{text}\nthe answers differ by {apart:.1e}");
    Ok(text)
}

/// Medians over the inputs: of their first run, and of their fastest later run.
fn new_sizes(side: &Side, count: usize) -> (u64, u64) {
    let later = |input: usize| side.warm.iter().skip(input).step_by(count.max(1)).min().copied();
    let warm: Vec<u64> = (0..side.first.len()).filter_map(later).collect();
    (part(&side.first, 0.5), part(&warm, 0.5))
}

fn table(ours: &Side, peer: &Side) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(["", "Polychip", "ONNX Runtime", "ratio"]);
    let mut row = |what: &str, unit: &str, mine: f64, theirs: f64| {
        table.add_row([
            format!("{what}, {unit}"),
            format!("{mine:.3}"),
            format!("{theirs:.3}"),
            format!("{:.2}", mine / theirs),
        ]);
    };
    row("load", "ms", ms(ours.load_ns), ms(peer.load_ns));
    let sum = |times: &[u64]| ms(times.iter().sum());
    row("first pass", "ms", sum(&ours.first), sum(&peer.first));
    for (what, share) in [("median", 0.5), ("p90", 0.9), ("p99", 0.99), ("longest", 1.0)] {
        let what = format!("warm run, {what}");
        row(
            &what,
            "ms",
            ms(part(&ours.warm, share)),
            ms(part(&peer.warm, share)),
        );
    }
    row("warm passes together", "ms", sum(&ours.warm), sum(&peer.warm));
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    row("peak memory", "MiB", mib(ours.peak_bytes), mib(peer.peak_bytes));
    table
}

/// The least time that this share of the times does not exceed.
pub(crate) fn part(times: &[u64], share: f64) -> u64 {
    let mut times = times.to_vec();
    times.sort_unstable();
    let at = (times.len() as f64 * share).ceil() as usize;
    times.get(at.saturating_sub(1)).copied().unwrap_or(0)
}

pub(crate) fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

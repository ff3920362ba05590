//! Checks whether `polychip farm compare` gives reliable verdicts on this machine. It compares the
//! bundled model many times with itself, and with itself slowed down by a set share, in interleaved
//! pairs.
//!
//! ```text
//! cargo run --release -p polychip-cli --features farm --example by_turns -- [COMPARISONS [PLANTED [ROUNDS [RUNS [PERCENT]]]]]
//! ```
//!
//! Of 200 comparisons of the model with itself, at most two may report a change, and each of 20
//! planted slowdowns of 5 % must be found (exit code 1 otherwise). A comparison has 100 pairs of
//! 30 runs by default: twelve pairs suffice on a board, but find no slowdown of 5 % on a virtual
//! machine with other load. Each comparison opens two sessions of its own. A planted slowdown spins
//! after each run for its share of the run's time.
//!
//! Not here: boards, and the other data that a farm records. The records hold times only.

#![allow(clippy::print_stdout)]

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use polychip::{Policy, Runtime, Session};
use polychip_farm_record::{
    Board, Build, FORMAT, InventoryEntry, Item, Job, Measured, Model, Outcome, Record, RunHeader, Settings,
    State,
};
use polychip_farm_results::compare::{Options, Verdict};
use polychip_farm_results::{Run, Selection, compare};

/// What is done, from the command line.
struct Plan {
    same: usize,
    planted: usize,
    rounds: usize,
    runs: usize,
    percent: f64,
}

/// Most of the comparisons of the same that may be called different, of 200.
const ALARMS: usize = 2;

fn main() -> anyhow::Result<ExitCode> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<f64>());
    let mut number = |default: f64| numbers.next().unwrap_or(Ok(default));
    let plan = Plan {
        same: number(200.0)? as usize,
        planted: number(20.0)? as usize,
        rounds: number(100.0)? as usize,
        runs: number(30.0)? as usize,
        percent: number(5.0)?,
    };
    let runtime = Runtime::builder().only_given_folders().build()?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shapes/shapes.onnx");
    let model = runtime.load(&path)?;
    let policy = || Policy::latency().threads(1);
    let (mut base, mut new) = (Vec::new(), Vec::new());
    let begin = Instant::now();
    for at in 0..plan.same + plan.planted {
        let is_planted = at >= plan.same;
        let name = format!("{}-{at}", if is_planted { "planted" } else { "same" });
        let sides = [
            runtime.session(&model, policy())?,
            runtime.session(&model, policy())?,
        ];
        // what is done once only: pages, caches, the clock
        for session in &sides {
            batch(session, plan.runs, 0.0)?;
        }
        for round in 0..plan.rounds {
            for turn in 0..2 {
                let side = turn ^ (round & 1);
                let spin = if side == 1 && is_planted {
                    plan.percent / 100.0
                } else {
                    0.0
                };
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
                let times = batch(&sides[side], plan.runs, spin)?;
                [&mut base, &mut new][side].push(record(side, &name, now, times));
            }
        }
        if (at + 1) % 20 == 0 {
            println!("{} comparisons in {:.0} s", at + 1, begin.elapsed().as_secs_f64());
        }
    }
    let (base, new) = (selection(0, base)?, selection(1, new)?);
    let comparison = compare(&base, &new, &Options::default());
    let is_found = |verdict| matches!(verdict, Verdict::Slower | Verdict::Faster);
    let (mut alarms, mut found, mut chances) = (0, 0, Vec::new());
    for row in &comparison.rows {
        let is_planted = row.item.starts_with("bench planted");
        match (is_planted, row.verdict) {
            (true, Verdict::Slower) => found += 1,
            (false, verdict) if is_found(verdict) => alarms += 1,
            _ => {}
        }
        if is_planted || is_found(row.verdict) {
            println!("{}: {row}", row.verdict.word());
        }
        if let Some(change) = row.change.as_ref().filter(|_| !is_planted) {
            chances.push(change.chance);
        }
    }
    let below = chances.iter().filter(|chance| **chance < 0.05).count();
    println!(
        "{alarms} false alarms in {} comparisons of the same ({below} have a chance below 5 % by themselves); {found} of {} \
         slowdowns of {} % found",
        plan.same, plan.planted, plan.percent
    );
    // as many of the hundred as of the two hundred
    let is_kept = alarms <= (ALARMS * plan.same).div_ceil(200) && found == plan.planted;
    Ok(if is_kept {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Times of runs from submit to outputs, in nanoseconds, each made longer by this share.
fn batch(session: &Session, runs: usize, spin: f64) -> anyhow::Result<Vec<u64>> {
    let name = session
        .inputs()
        .next()
        .context("the model has an input")?
        .name
        .clone();
    let input = session.input(&name)?;
    let mut times = Vec::with_capacity(runs);
    for _ in 0..runs {
        let start = Instant::now();
        drop(session.submit(&[&input])?.wait(Duration::from_secs(10))?);
        let whole = start.elapsed().mul_f64(1.0 + spin);
        while start.elapsed() < whole {
            std::hint::spin_loop();
        }
        times.push(u64::try_from(start.elapsed().as_nanos())?);
    }
    Ok(times)
}

fn place() -> InventoryEntry {
    InventoryEntry {
        name: "here".into(),
        transport: "local".into(),
        tags: Vec::new(),
    }
}

fn record(side: usize, name: &str, now: Duration, samples_ns: Vec<u64>) -> Record {
    let took: u64 = samples_ns.iter().sum();
    Record {
        format: FORMAT,
        run: ["base", "new"][side].into(),
        item: Item {
            job: Job::Bench,
            model: Some(Model {
                name: name.into(),
                blake3: "0".repeat(64),
                bytes: 0,
            }),
            plugins: vec!["cpu".into()],
            settings: Settings::default(),
        },
        place: place(),
        board: Board {
            arch: std::env::consts::ARCH.into(),
            os: std::env::consts::OS.into(),
            ..Board::default()
        },
        build: Build {
            version: env!("CARGO_PKG_VERSION").into(),
            commit: None,
            runner: side.to_string().repeat(64),
        },
        attempt: 1,
        started_s: now.as_secs(),
        // rounds of a short model lie in one second: what is past of it goes in here
        took_ms: 2 * u64::from(now.subsec_millis()) + took / 1_000_000,
        before: State::default(),
        after: State::default(),
        outcome: Outcome::Measured(Box::new(Measured {
            samples_ns,
            ..Measured::default()
        })),
    }
}

fn selection(side: usize, records: Vec<Record>) -> anyhow::Result<Selection> {
    let id = ["base", "new"][side];
    let run = Run {
        folder: id.into(),
        header: RunHeader {
            format: FORMAT,
            id: id.into(),
            started_s: 0,
            commit: None,
            places: vec![place()],
            items: Vec::new(),
            unchanged: Vec::new(),
            equipment: Default::default(),
        },
        records,
        torn: Vec::new(),
        profiles: Default::default(),
    };
    let mut selection = Selection::new();
    selection.add(run, None)?;
    Ok(selection)
}

//! Cost of the driver itself: growing numbers of simulated boards on virtual time.
//!
//! `cargo run --release -p polychip-farm --example simulated_farm [BOARDS [ITEMS]]`: up to 500 boards with 100 items
//! each. Processor time and memory cover the whole process with its simulated boards: upper bounds for the driver.
//! Records are synced in the folder `TMPDIR`, whose disk determines the wall time.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use polychip_farm::inventory::{Hold, Member, interchangeable_boards};
use polychip_farm::transport::{Faults, Simulated};
use polychip_farm::{Blob, Clock, Equipped, RunFolder, Settings, Summary, drive};
use polychip_farm_record::{Effort, FORMAT, InventoryEntry, Item, Job, Limits, Model, RunHeader, Wanted};

/// Boards in a group of interchangeable ones.
const BOARDS_PER_GROUP: usize = 5;

fn blob(name: &str, bytes: u64) -> Blob {
    Blob {
        path: name.into(),
        name: name.into(),
        blake3: blake3::hash(name.as_bytes()).to_hex().to_string(),
        sha256: None,
        bytes,
        program: false,
        machine: None,
    }
}

fn board(index: usize, clock: &Clock) -> Equipped {
    let faults = Faults {
        cut: 5,
        killed: 5,
        killed_after: 5,
        gone: 1,
        full: 0,
        partial: 5,
        corrupt: 5,
    };
    Equipped {
        member: Member {
            place: InventoryEntry {
                name: format!("board-{index}"),
                transport: "simulated".into(),
                tags: vec![format!("soc={}", index / BOARDS_PER_GROUP)],
            },
            transport: Arc::new(Simulated::new(index as u64, clock.clone(), faults)),
            folder: "/farm".into(),
            runner: None,
            conform: None,
            plugins: vec![],
            limits: Limits::default(),
            environment: vec![],
            emulated: true,
            reconnect: None,
            hold: Hold::Nothing,
        },
        runner: blob("runner", 10 << 20),
        conform: None,
        plugins: vec![],
    }
}

/// Drives so many items per board to the end; what came of it, and hours of virtual time.
fn driven(boards: usize, items: usize) -> Result<(Summary, f64), Box<dyn Error>> {
    let clock = Clock::simulated();
    let boards: Vec<Equipped> = (0..boards).map(|index| board(index, &clock)).collect();
    let places: Vec<InventoryEntry> = boards.iter().map(|board| board.member.place.clone()).collect();
    let mut models = BTreeMap::new();
    let mut wanted = Vec::new();
    for group in interchangeable_boards(&places) {
        for index in 0..items * group.len() {
            let model = blob(&format!("model-{index}"), 5 << 20);
            wanted.push(Wanted {
                item: Item {
                    job: Job::Bench,
                    model: Some(Model {
                        name: model.name.clone(),
                        blake3: model.blake3.clone(),
                        bytes: model.bytes,
                    }),
                    plugins: vec![],
                    settings: Default::default(),
                },
                places: group.clone(),
            });
            models.insert(model.blake3.clone(), model);
        }
    }
    let folder = tempfile::tempdir()?;
    let header = RunHeader {
        format: FORMAT,
        id: "simulated".into(),
        started_s: 0,
        commit: None,
        places,
        items: wanted,
        unchanged: Vec::new(),
        equipment: Default::default(),
    };
    let run = RunFolder::create(&folder.path().join("run"), header, &Effort::default())?;
    let stop = AtomicBool::new(false);
    let summary = drive(
        &run,
        &boards,
        &models,
        &Settings::default(),
        &clock,
        &stop,
        &|_| {},
    )?;
    Ok((
        summary,
        clock.elapsed().unwrap_or_default().as_secs_f64() / 3600.0,
    ))
}

/// Seconds of the processor that this process used, and the most memory it had, in MiB.
fn used() -> Option<(f64, f64)> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // "1 (a name) R 1 …": the name may hold anything; user and system time are fields 14 and 15, in hundredths
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: f64 = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some((ticks / 100.0, kibibytes / 1024.0))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let most = arguments.next().transpose()?.unwrap_or(500);
    let items = arguments.next().transpose()?.unwrap_or(100);
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "boards  items   ended   lost boards  virtual h  wall s  cpu s   ms/item  peak MiB"
    )?;
    for boards in [most / 8, most / 4, most / 2, most]
        .into_iter()
        .filter(|boards| *boards > 0)
    {
        let (start, before) = (Instant::now(), used().unwrap_or_default());
        let (summary, hours) = driven(boards, items)?;
        let (after, wall) = (used().unwrap_or_default(), start.elapsed().as_secs_f64());
        let ended = summary.measured + summary.failed + summary.lost;
        let cpu = after.0 - before.0;
        writeln!(
            out,
            "{boards:>6}  {:>6}  {ended:>6}  {:>11}  {hours:>9.1}  {wall:>6.1}  {cpu:>5.1}  {:>7.3}  {:>8.1}",
            boards * items,
            summary.lost_boards.len(),
            1e3 * cpu / ended as f64,
            after.1,
        )?;
        out.flush()?;
    }
    Ok(())
}

//! Runs on simulated boards, on virtual time: what happens to records when boards, ways and runners fail.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use polychip_farm::inventory::{Hold, Member, interchangeable_boards};
use polychip_farm::transport::{Faults, Simulated};
use polychip_farm::{Blob, Clock, Equipped, News, RunFolder, Settings, Summary, drive};
use polychip_farm_record::{
    Effort, FORMAT, InventoryEntry, Item, Job, Limits, Model, Outcome, Record, RunHeader, Wanted, read_lines,
};

fn blob(name: &str, bytes: u64) -> Blob {
    Blob {
        path: name.into(),
        name: name.into(),
        blake3: hash(name),
        sha256: None,
        bytes,
        program: false,
        machine: None,
    }
}

/// Uses names as contents.
fn hash(name: &str) -> String {
    let digits: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("{digits:0>64}")
}

fn item(model: usize, job: Job) -> Item {
    let name = format!("m{model}");
    Item {
        job,
        model: Some(Model {
            blake3: hash(&name),
            name,
            bytes: 20_000_000,
        }),
        plugins: vec![],
        settings: Default::default(),
    }
}

/// A farm of boards of several kinds, and what it is asked for.
struct Farm {
    simulated: Vec<Arc<Simulated>>,
    boards: Vec<Equipped>,
    models: BTreeMap<String, Blob>,
    header: RunHeader,
    clock: Clock,
}

fn farm(seed: u64, boards: usize, kinds: usize, models: usize, faults: impl Fn(usize) -> Faults) -> Farm {
    let clock = Clock::simulated();
    let simulated: Vec<Arc<Simulated>> = (0..boards)
        .map(|board| {
            Arc::new(Simulated::new(
                seed * 1000 + board as u64,
                clock.clone(),
                faults(board),
            ))
        })
        .collect();
    let equipped: Vec<Equipped> = simulated
        .iter()
        .enumerate()
        .map(|(board, transport)| Equipped {
            member: Member {
                place: InventoryEntry {
                    name: format!("b{board}"),
                    transport: "simulated".into(),
                    tags: vec![format!("kind={}", board % kinds)],
                },
                transport: Arc::clone(transport) as _,
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
            runner: blob("runner", 10_000_000),
            conform: None,
            plugins: vec![blob("plugin", 5_000_000)],
        })
        .collect();
    let places: Vec<InventoryEntry> = equipped.iter().map(|board| board.member.place.clone()).collect();
    let mut items = Vec::new();
    for group in interchangeable_boards(&places) {
        for model in 0..models {
            for job in [Job::Profile, Job::Bench] {
                items.push(Wanted {
                    item: item(model, job),
                    places: group.clone(),
                });
            }
        }
    }
    Farm {
        simulated,
        boards: equipped,
        models: (0..models)
            .map(|model| blob(&format!("m{model}"), 20_000_000))
            .map(|blob| (blob.blake3.clone(), blob))
            .collect(),
        header: RunHeader {
            format: FORMAT,
            id: format!("run-{seed}"),
            started_s: 0,
            commit: None,
            places,
            items,
            unchanged: Vec::new(),
            equipment: Default::default(),
        },
        clock,
    }
}

impl Farm {
    fn drive(&self, folder: &RunFolder, stop_after: usize) -> (Summary, u64) {
        let stop = AtomicBool::new(false);
        let heard = AtomicUsize::new(0);
        let watch = |news: &News<'_>| {
            if let News::Recorded { .. } = news
                && heard.fetch_add(1, Ordering::Relaxed) + 1 >= stop_after
            {
                stop.store(true, Ordering::Relaxed);
            }
        };
        let summary = drive(
            folder,
            &self.boards,
            &self.models,
            &Settings::default(),
            &self.clock,
            &stop,
            &watch,
        )
        .unwrap();
        (summary, heard.load(Ordering::Relaxed) as u64)
    }
}

/// All records of a folder, as anybody reads them.
fn records(path: &Path) -> Vec<Record> {
    let mut records = Vec::new();
    let mut names: Vec<_> = std::fs::read_dir(path.join("records"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    names.sort();
    for name in names {
        let lines = read_lines(std::fs::read_to_string(name).unwrap()).unwrap();
        assert_eq!(lines.torn_bytes, 0);
        records.extend(lines.records);
    }
    records
}

/// Each item ended as it should: done once, or reported by name where its boards are gone.
fn check(farm: &Farm, records: &[Record], round: u64) -> (usize, usize) {
    let (mut done, mut reported) = (0, 0);
    for wanted in &farm.header.items {
        let mine: Vec<&Record> = records
            .iter()
            .filter(|record| record.item == wanted.item && wanted.places.contains(&record.place.name))
            .collect();
        let last: Vec<&&Record> = mine.iter().filter(|record| record.outcome.is_final()).collect();
        match last.len() {
            1 => done += 1,
            0 => {
                reported += 1;
                let words: Vec<&str> = mine
                    .iter()
                    .filter_map(|record| match &record.outcome {
                        Outcome::Failed(failure) => Some(&*failure.reason),
                        _ => None,
                    })
                    .collect();
                assert!(
                    words.iter().any(|words| words.contains("is unavailable")),
                    "round {round}: {} {words:?}",
                    wanted.item
                );
                // it is given up only where no board of its group is left
                let left = wanted.places.iter().filter(|name| {
                    let index: usize = name[1..].parse().unwrap();
                    !farm.simulated[index].is_lost()
                });
                assert_eq!(
                    left.count(),
                    0,
                    "round {round}: {} could have been done",
                    wanted.item
                );
            }
            times => panic!("round {round}: {} was done {times} times", wanted.item),
        }
    }
    (done, reported)
}

#[test]
fn a_hundred_rounds_of_random_faults_lose_no_record() {
    let (mut all_done, mut all_reported, mut lost, mut broken_off) = (0, 0, 0, 0);
    for round in 0..100 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let faults = Faults {
            cut: 40,
            killed: 40,
            killed_after: 30,
            gone: 25,
            full: 8,
            partial: 60,
            corrupt: 30,
        };
        let farm = farm(round, 6, 3, 4, |_| faults);
        // the driver itself ends early in every other round, and is called again
        let mut heard = 0;
        if round % 2 == 0 {
            let run = RunFolder::create(&path, farm.header.clone(), &Effort::default()).unwrap();
            let (summary, news) = farm.drive(&run, 5);
            broken_off += usize::from(summary.left > 0);
            heard += news;
        } else {
            drop(RunFolder::create(&path, farm.header.clone(), &Effort::default()).unwrap());
        }
        let run = RunFolder::open(&path).unwrap();
        let (summary, news) = farm.drive(&run, usize::MAX);
        heard += news;
        assert_eq!(summary.left, 0, "round {round}");
        let records = records(&path);
        // the folder holds every record that the driver received
        assert_eq!(records.len() as u64, heard, "round {round}");
        // what a board wrote down and could say is in the folder
        for (board, simulated) in farm
            .simulated
            .iter()
            .enumerate()
            .filter(|(_, board)| !board.is_lost())
        {
            for record in simulated.journal() {
                let is_here = records.contains(&record);
                assert!(
                    is_here,
                    "round {round}: b{board} has {} and the folder lacks it",
                    record.item
                );
            }
        }
        let (done, reported) = check(&farm, &records, round);
        assert!(summary.lost as usize >= reported, "round {round}: {summary:?}");
        for (place, words) in &summary.lost_boards {
            assert!(!words.is_empty(), "{place}");
        }
        all_done += done;
        all_reported += reported;
        lost += farm.simulated.iter().filter(|board| board.is_lost()).count();
    }
    // the faults did happen, and most items were done all the same
    assert!(
        lost > 30 && broken_off > 10,
        "{lost} boards lost, {broken_off} runs broken off"
    );
    assert!(
        all_done > 10 * all_reported && all_reported > 0,
        "{all_done} done, {all_reported} reported"
    );
}

#[test]
fn nothing_is_sent_or_measured_twice() {
    let folder = tempfile::tempdir().unwrap();
    let farm = farm(1, 4, 2, 3, |_| Faults::default());
    let first = RunFolder::create(
        &folder.path().join("first"),
        farm.header.clone(),
        &Effort::default(),
    )
    .unwrap();
    let (summary, _) = farm.drive(&first, usize::MAX);
    assert_eq!(
        (summary.measured + summary.failed, summary.lost, summary.left),
        (12, 0, 0)
    );
    assert!(summary.lost_boards.is_empty());
    let measured: u64 = farm.simulated.iter().map(|board| board.measured()).sum();
    assert_eq!(measured, 12);
    let delivered: u64 = farm.simulated.iter().map(|board| board.delivered()).sum();
    assert_eq!(delivered, 12);
    // each board has the runner, the plugin, and models; no file twice
    let models: BTreeSet<&String> = farm.models.keys().collect();
    assert!(
        summary.sent.files <= 4 * (2 + models.len() as u64),
        "{:?}",
        summary.sent
    );
    // a second run over the same boards sends no more than what the other interchangeable board got the first time
    let mut header = farm.header.clone();
    header.id = "second".into();
    let second = RunFolder::create(&folder.path().join("second"), header, &Effort::default()).unwrap();
    let before: u64 = farm.simulated.iter().map(|board| board.bytes_put()).sum();
    let (again, _) = farm.drive(&second, usize::MAX);
    let after: u64 = farm.simulated.iter().map(|board| board.bytes_put()).sum();
    assert_eq!(again.sent.bytes, after - before);
    // no board is sent a file in both: which interchangeable board measures a model is chance
    assert!(
        summary.sent.files + again.sent.files <= 4 * (2 + models.len() as u64),
        "{:?} {:?}",
        summary.sent,
        again.sent
    );
    // and the first one, opened again, is done
    drop(first);
    let third = RunFolder::open(&folder.path().join("first")).unwrap();
    let (known, _) = farm.drive(&third, usize::MAX);
    assert_eq!((known.known_before, known.measured, known.sent.files), (12, 0, 0));
}

#[test]
fn dead_board_is_reported_and_another_board_takes_over() {
    let folder = tempfile::tempdir().unwrap();
    let dead = Faults {
        gone: 1000,
        ..Faults::default()
    };
    let farm = farm(
        7,
        4,
        2,
        3,
        |board| if board == 0 { dead } else { Faults::default() },
    );
    let run = RunFolder::create(
        &folder.path().join("run"),
        farm.header.clone(),
        &Effort::default(),
    )
    .unwrap();
    let (summary, _) = farm.drive(&run, usize::MAX);
    assert_eq!(
        (summary.measured + summary.failed, summary.lost),
        (12, 0),
        "{summary:?}"
    );
    let words = &summary.lost_boards["b0"];
    assert!(words.contains("gone"), "{words}");
    let records = records(run.path());
    assert!(records.iter().all(|record| record.place.name != "b0"));
    assert!(records.iter().any(|record| record.attempt == 2));
}

#[test]
fn unwritable_run_folder_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let farm = farm(3, 2, 1, 2, |_| Faults::default());
    let path = folder.path().join("run");
    let run = RunFolder::create(&path, farm.header.clone(), &Effort::default()).unwrap();
    // a folder where the file of records should be
    for board in ["b0", "b1"] {
        std::fs::create_dir_all(path.join(format!("records/{board}.jsonl"))).unwrap();
    }
    let stop = AtomicBool::new(false);
    let error = drive(
        &run,
        &farm.boards,
        &farm.models,
        &Settings::default(),
        &farm.clock,
        &stop,
        &|_| {},
    )
    .unwrap_err();
    assert!(
        error.to_string().contains("b0.jsonl") || error.to_string().contains("b1.jsonl"),
        "{error}"
    );
    // what was measured is on the boards still, and the next call hears it
    for board in ["b0", "b1"] {
        std::fs::remove_dir(path.join(format!("records/{board}.jsonl"))).unwrap();
    }
    drop(run);
    let journals: u64 = farm
        .simulated
        .iter()
        .map(|board| board.journal().len() as u64)
        .sum();
    assert!(journals > 0);
    let run = RunFolder::open(&path).unwrap();
    let (summary, _) = farm.drive(&run, usize::MAX);
    assert_eq!((summary.known_before, summary.left), (journals, 0));
    assert_eq!(summary.known_before + summary.measured + summary.failed, 4);
    assert_eq!(records(&path).len(), 4);
}

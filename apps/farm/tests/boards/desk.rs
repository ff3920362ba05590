//! A desk of boards that are this host.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use polychip_farm::inventory::{Hold, Member, interchangeable_boards};
use polychip_farm::transport::Transport;
use polychip_farm::{Blob, Clock, Equipped, News, RunFolder, Settings, Summary, drive};
use polychip_farm_record::{
    Effort, FORMAT, InventoryEntry, Item, Job, Limits, Model, Record, RunHeader, Settings as ItemSettings,
    Wanted, read_lines,
};
use polychip_test_requirements::libraries;

/// The model that ships.
pub(crate) fn shapes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shapes/shapes.onnx")
}

/// The runner, built as the test is.
pub(crate) fn runner() -> Blob {
    static RUNNER: OnceLock<Blob> = OnceLock::new();
    RUNNER
        .get_or_init(|| {
            let path = libraries::program("polychip-runner", "polychip-runner").unwrap();
            Blob::of(&path, true).unwrap()
        })
        .clone()
}

/// A board; the machine may be in use by other tests.
pub(crate) fn board(name: &str, folder: &Path, transport: impl Transport + 'static) -> Equipped {
    Equipped {
        member: Member {
            place: InventoryEntry {
                name: name.into(),
                transport: transport.name().into(),
                tags: vec!["host=this".into()],
            },
            transport: Arc::new(transport),
            folder: folder.display().to_string(),
            runner: None,
            conform: None,
            plugins: vec![],
            limits: Limits {
                load_by_others_millis: 1000,
                throttled: true,
                ..Limits::default()
            },
            environment: vec![],
            emulated: false,
            reconnect: None,
            hold: Hold::Nothing,
        },
        runner: runner(),
        conform: None,
        plugins: vec![],
    }
}

/// Tries that follow each other fast.
pub(crate) fn settings() -> Settings {
    Settings {
        tries: 3,
        pause: Duration::from_millis(200),
        ..Settings::default()
    }
}

/// Few runs.
pub(crate) fn effort() -> Effort {
    Effort {
        warmup: 1,
        iters: 5,
        seconds: 2,
        time_limit_s: 300,
    }
}

/// A run of these jobs with the model that ships, on 1 to so many threads, which tell items apart.
pub(crate) fn header(id: &str, boards: &[Equipped], jobs: &[Job], threads: u32) -> RunHeader {
    let places: Vec<InventoryEntry> = boards.iter().map(|board| board.member.place.clone()).collect();
    let blob = Blob::of(&shapes(), false).unwrap();
    let mut items = Vec::new();
    for group in interchangeable_boards(&places) {
        for threads in 1..=threads {
            for job in jobs {
                items.push(Wanted {
                    item: Item {
                        job: *job,
                        model: Some(Model {
                            name: "shapes".into(),
                            blake3: blob.blake3.clone(),
                            bytes: blob.bytes,
                        }),
                        plugins: vec!["cpu".into()],
                        settings: ItemSettings {
                            threads: Some(threads),
                            ..ItemSettings::default()
                        },
                    },
                    places: group.clone(),
                });
            }
        }
    }
    RunHeader {
        format: FORMAT,
        id: id.into(),
        started_s: 0,
        commit: None,
        places,
        items,
        unchanged: Vec::new(),
        equipment: Default::default(),
    }
}

/// Drives a run to its end, and prints what happens.
pub(crate) fn driven(run: &RunFolder, boards: &[Equipped], settings: &Settings) -> Summary {
    let blob = Blob::of(&shapes(), false).unwrap();
    let models = BTreeMap::from([(blob.blake3.clone(), blob)]);
    let stop = AtomicBool::new(false);
    let watch = |news: &News<'_>| eprintln!("{news:?}");
    drive(run, boards, &models, settings, &Clock::real(), &stop, &watch).unwrap()
}

/// A new folder of a run.
pub(crate) fn created(path: &Path, header: RunHeader) -> RunFolder {
    RunFolder::create(path, header, &effort()).unwrap()
}

/// What a place recorded.
pub(crate) fn records(run: &Path, place: &str) -> Vec<Record> {
    let text = std::fs::read_to_string(run.join(format!("records/{place}.jsonl"))).unwrap_or_default();
    let lines = read_lines(&text).unwrap();
    assert_eq!(lines.torn_bytes, 0);
    lines.records
}

//! Records and folders of runs, made for tests.

use std::path::Path;

use polychip_farm_record::{
    Board, Build, FORMAT, InventoryEntry, Item, Job, Measured, Model, Outcome, Record, RunHeader, Settings,
    State, Wanted,
};
use polychip_farm_results::{Run, Selection};

/// An item that times a model of this name.
pub(crate) fn item(name: &str) -> Item {
    Item {
        job: Job::Bench,
        model: Some(Model {
            name: name.to_owned(),
            blake3: "ab".repeat(32),
            bytes: 1_000,
        }),
        plugins: vec!["cpu".to_owned()],
        settings: Settings::default(),
    }
}

pub(crate) fn place(name: &str) -> InventoryEntry {
    InventoryEntry {
        name: name.to_owned(),
        transport: "ssh".to_owned(),
        tags: Vec::new(),
    }
}

pub(crate) fn board() -> Board {
    Board {
        soc: Some("SM8650".to_owned()),
        os: "Linux 6.6".to_owned(),
        arch: "aarch64".to_owned(),
        cores: 8,
        memory_bytes: 8 << 30,
        ..Board::default()
    }
}

pub(crate) fn build(letter: &str) -> Build {
    Build {
        version: "0.1.0".to_owned(),
        commit: Some(letter.repeat(40)),
        runner: letter.repeat(64),
    }
}

/// Runs of an item that took these times.
pub(crate) fn timed(
    run: &str,
    letter: &str,
    item: &Item,
    place_name: &str,
    at_s: u64,
    times: Vec<u64>,
) -> Record {
    let took_ms = times.iter().sum::<u64>() / 1_000_000;
    Record {
        format: FORMAT,
        run: run.to_owned(),
        item: item.clone(),
        place: place(place_name),
        board: board(),
        build: build(letter),
        attempt: 1,
        started_s: at_s,
        took_ms,
        before: State::default(),
        after: State::default(),
        outcome: Outcome::Measured(Box::new(Measured {
            samples_ns: times,
            ..Measured::default()
        })),
    }
}

/// A run of these records that asked for just their items.
pub(crate) fn run(id: &str, records: Vec<Record>) -> Run {
    let mut header = RunHeader {
        format: FORMAT,
        id: id.to_owned(),
        started_s: 1,
        commit: None,
        places: Vec::new(),
        items: Vec::new(),
        unchanged: Vec::new(),
        equipment: Default::default(),
    };
    for record in &records {
        if !header.places.contains(&record.place) {
            header.places.push(record.place.clone());
        }
        if !header.items.iter().any(|wanted| wanted.item == record.item) {
            header.items.push(Wanted {
                item: record.item.clone(),
                places: vec![record.place.name.clone()],
            });
        }
    }
    Run {
        folder: id.into(),
        header,
        records,
        torn: Vec::new(),
        profiles: Default::default(),
    }
}

/// The folder of a run, as a driver writes it.
pub(crate) fn write(folder: &Path, run: &Run) {
    std::fs::create_dir_all(folder.join("records")).unwrap();
    std::fs::write(
        folder.join("run.json"),
        serde_json::to_string(&run.header).unwrap(),
    )
    .unwrap();
    for place in &run.header.places {
        let lines = run.records.iter().filter(|record| record.place == *place);
        let text: String = lines.map(Record::to_line).collect();
        std::fs::write(folder.join(format!("records/{}.jsonl", place.name)), text).unwrap();
    }
}

pub(crate) fn selected(run: Run) -> Selection {
    let mut selection = Selection::new();
    selection.add(run, None).unwrap();
    selection
}

//! Checks of the runs' results. Each check returns its errors as text.

use std::collections::BTreeSet;
use std::path::PathBuf;

use polychip_farm_record::{Outcome, Record};
use serde_json::{Value, json};

use crate::farm::Run;
use crate::places::Board;

/// Jobs of each model on each board.
const JOBS: [&str; 2] = ["profile", "bench"];

/// What was asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) places: &'a [Board],
    pub(crate) models: &'a [PathBuf],
    /// Board with sensors.
    pub(crate) sensors: Option<&'a str>,
}

impl Wanted<'_> {
    fn models(&self) -> impl Iterator<Item = String> {
        let stems = self.models.iter().filter_map(|path| path.file_stem());
        stems.map(|stem| stem.to_string_lossy().into_owned())
    }

    fn items(&self) -> usize {
        self.models.len() * JOBS.len()
    }

    /// What the page must show.
    pub(crate) fn expectations(&self) -> Value {
        let of = |is_emulated: bool| -> Vec<&str> {
            let boards = self.places.iter().filter(|board| board.emulated == is_emulated);
            boards.map(|board| &*board.name).collect()
        };
        json!({
            "runs": ["first", "second"],
            "models": self.models().collect::<Vec<_>>(),
            "jobs": JOBS,
            "real": of(false),
            "emulated": of(true),
        })
    }
}

/// Each model was measured on each board, and each record names the board, the transport, and whether the board is emulated.
pub(crate) fn of_run(name: &str, run: &Run, wanted: &Wanted<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    for board in wanted.places {
        let records: Vec<&Record> = run
            .records
            .iter()
            .filter(|record| record.place.name == board.name)
            .collect();
        for model in wanted.models() {
            for job in JOBS {
                let is_it = |record: &&&Record| {
                    let named = record.item.model.as_ref().map(|model| &*model.name);
                    named == Some(&*model) && record.item.job.to_string() == job
                };
                let found: Vec<&&Record> = records.iter().filter(is_it).collect();
                match &found[..] {
                    [one] => wrong.extend(of_record(one, board)),
                    _ => wrong.push(format!(
                        "{name}: {} has {} records of {job} {model}",
                        board.name,
                        found.len()
                    )),
                }
            }
        }
        if wanted.sensors == Some(&*board.name) {
            wrong.extend(of_sensors(&records, board));
        }
    }
    let builds = |is_emulated: bool| -> BTreeSet<&str> {
        let records = run
            .records
            .iter()
            .filter(|record| record.board.emulated == is_emulated);
        records.map(|record| &*record.build.runner).collect()
    };
    if builds(true).intersection(&builds(false)).next().is_some() {
        wrong.push(format!(
            "{name}: arm64 boards and this machine were measured by one and the same runner"
        ));
    }
    wrong
}

fn of_record(record: &Record, board: &Board) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut must = |is_true: bool, words: String| {
        if !is_true {
            wrong.push(format!("{} on {}: {words}", record.item, record.place.name));
        }
    };
    match &record.outcome {
        Outcome::Measured(_) => {}
        other => must(false, format!("was not measured: {other:?}")),
    }
    let (arch, transport) = if board.emulated {
        ("aarch64", "adb")
    } else {
        (std::env::consts::ARCH, "ssh")
    };
    must(
        record.board.emulated == board.emulated,
        format!("emulated: {}", record.board.emulated),
    );
    must(
        record.board.arch == arch,
        format!("was measured on {}", record.board.arch),
    );
    must(
        record.place.transport == transport,
        format!("came over {}", record.place.transport),
    );
    let mut tags = board.tags.clone();
    tags.sort();
    must(
        record.place.tags == tags,
        format!("has the tags {:?}", record.place.tags),
    );
    must(
        record.build.runner.len() == 64,
        format!("names the runner {:?}", record.build.runner),
    );
    must(
        record.board.memory_bytes > 0,
        "says nothing of its memory".to_owned(),
    );
    wrong
}

/// A board with sensors says its temperatures, clocks and battery.
fn of_sensors(records: &[&Record], board: &Board) -> Vec<String> {
    let lacks = |what: &str, has: &dyn Fn(&Record) -> bool| {
        (!records.iter().all(|record| has(record))).then(|| format!("{}: a record has no {what}", board.name))
    };
    [
        lacks("temperature", &|record| {
            record.before.temperatures_mc.contains_key("thermal/npu-thermal")
        }),
        lacks("clock", &|record| !record.before.clocks_khz.is_empty()),
        lacks("governor", &|record| !record.before.governors.is_empty()),
        lacks("battery", &|record| record.before.battery_percent.is_some()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The first run sends to each board its runner and the models, the second nothing.
pub(crate) fn of_uploads(first: &Value, second: &Value, wanted: &Wanted<'_>) -> Vec<String> {
    let files = (wanted.places.len() * (wanted.models.len() + 1)) as u64;
    let counts = |run: &Value| {
        let of = |key: &str| run["sent"][key].as_u64();
        (of("files"), of("bytes"))
    };
    let mut wrong = Vec::new();
    match counts(first) {
        (Some(sent), Some(1..)) if sent == files => {}
        other => wrong.push(format!(
            "the first run sent {other:?} files and bytes, and not {files} files"
        )),
    }
    match counts(second) {
        (Some(0), Some(0)) => {}
        other => wrong.push(format!(
            "the second run sent {other:?} files and bytes, and not none"
        )),
    }
    match second["sent"]["kept_files"].as_u64() {
        Some(kept) if kept >= files => {}
        other => wrong.push(format!(
            "the second run found {other:?} files on the boards, and not {files}"
        )),
    }
    wrong
}

/// All items are compared; those of emulated boards are labelled, and fail nothing.
pub(crate) fn of_comparison(comparison: &Value, wanted: &Wanted<'_>) -> Vec<String> {
    let mut wrong = of_rows("comparison", &comparison["rows"], wanted);
    for row in comparison["rows"].as_array().into_iter().flatten() {
        let verdict = row["verdict"].as_str().unwrap_or_default();
        if matches!(verdict, "now-fails" | "now-refused" | "gone" | "new") {
            wrong.push(format!(
                "comparison: {} on {} is {verdict}",
                row["item"], row["kind"]
            ));
        }
    }
    wrong
}

/// Results of all boards are in one report, each with the boards and runs that it is of.
pub(crate) fn of_report(report: &Value, wanted: &Wanted<'_>) -> Vec<String> {
    let mut wrong = of_rows("report", &report["cells"], wanted);
    let mut sources = BTreeSet::new();
    for cell in report["cells"].as_array().into_iter().flatten() {
        for source in cell["sources"].as_array().into_iter().flatten() {
            sources.extend(source["place"].as_str().map(str::to_owned));
        }
        if cell["ended"] != "measured" {
            wrong.push(format!(
                "report: {} on {} is {}",
                cell["item"], cell["kind"], cell["ended"]
            ));
        }
    }
    for board in wanted.places {
        if !sources.contains(&board.name) {
            wrong.push(format!("report: no figure is of {}", board.name));
        }
    }
    if report["snapshots"].as_array().map(Vec::len) != Some(2) {
        wrong.push(format!("report: the snapshots are {}", report["snapshots"]));
    }
    for trouble in report["troubles"].as_array().into_iter().flatten() {
        wrong.push(format!("report: {trouble}"));
    }
    wrong
}

/// Rows of an answer: each item on each board type, emulated kinds labelled so.
fn of_rows(what: &str, rows: &Value, wanted: &Wanted<'_>) -> Vec<String> {
    let rows = rows.as_array().cloned().unwrap_or_default();
    let kinds = |is_emulated: bool| -> usize {
        let of = rows.iter().filter(|row| row["emulated"] == is_emulated);
        of.map(|row| row["kind"].as_str()).collect::<BTreeSet<_>>().len()
    };
    let mut wrong = Vec::new();
    for is_emulated in [false, true] {
        let count = rows.iter().filter(|row| row["emulated"] == is_emulated).count();
        // boards of one kind share their rows
        let expected = if wanted.places.iter().any(|board| board.emulated == is_emulated) {
            wanted.items()
        } else {
            0
        };
        if count != expected || kinds(is_emulated) > 1 {
            wrong.push(format!(
                "{what}: {count} rows of {} kinds with emulated = {is_emulated}, and not {expected}",
                kinds(is_emulated)
            ));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boards() -> Vec<Board> {
        let board = |name: &str, emulated| Board {
            name: name.into(),
            address: "127.0.0.1".into(),
            port: 1,
            tags: Vec::new(),
            emulated,
        };
        vec![board("place", false), board("board", true)]
    }

    /// The checks of `value`, of two boards and one model.
    fn checked(check: fn(&Value, &Wanted<'_>) -> Vec<String>, value: &Value) -> Vec<String> {
        let (places, models) = (boards(), [PathBuf::from("m.onnx")]);
        let wanted = Wanted {
            places: &places,
            models: &models,
            sensors: None,
        };
        check(value, &wanted)
    }

    fn report() -> Value {
        let cell = |item: &str, kind: &str, place: &str, emulated: bool| json!({"item": item, "kind": kind, "emulated": emulated, "ended": "measured", "sources": [{"place": place}]});
        json!({
            "snapshots": [{}, {}],
            "troubles": [],
            "cells": [
                cell("bench m", "pc", "place", false),
                cell("profile m", "pc", "place", false),
                cell("bench m", "virt", "board", true),
                cell("profile m", "virt", "board", true),
            ],
        })
    }

    #[test]
    fn report_must_show_boards_and_emulation() {
        assert_eq!(checked(of_report, &report()), [""; 0]);
        let mut unlabelled = report();
        unlabelled["cells"][2]["emulated"] = false.into();
        assert!(checked(of_report, &unlabelled)[0].contains("emulated = false"));
        let mut hidden = report();
        hidden["cells"][2]["sources"] = json!([]);
        hidden["cells"][3]["sources"] = json!([]);
        assert_eq!(checked(of_report, &hidden), ["report: no figure is of board"]);
        let mut failed = report();
        failed["cells"][0]["ended"] = "failed".into();
        assert!(checked(of_report, &failed)[0].contains("\"failed\""));
        assert!(!checked(of_report, &json!({})).is_empty());
    }

    #[test]
    fn a_file_that_is_sent_again_is_wrong() {
        let (places, models) = (boards(), [PathBuf::from("m.onnx")]);
        let wanted = Wanted {
            places: &places,
            models: &models,
            sensors: None,
        };
        let run =
            |files: u64, kept: u64| json!({"sent": {"files": files, "bytes": files * 9, "kept_files": kept}});
        assert_eq!(of_uploads(&run(4, 0), &run(0, 4), &wanted), [""; 0]);
        assert!(of_uploads(&run(4, 0), &run(1, 3), &wanted)[0].contains("the second run sent"));
        assert!(of_uploads(&run(3, 1), &run(0, 4), &wanted)[0].contains("and not 4 files"));
        assert_eq!(of_uploads(&json!({}), &json!({}), &wanted).len(), 3);
    }
}

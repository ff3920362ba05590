//! Folders of runs: whole, torn, half there.

use polychip_farm_record::{Failure, Outcome, Wanted};
use polychip_farm_results::{ErrorKind, Run, Selection};

use crate::made::{item, place, run, timed, write};

#[test]
fn run_folder_round_trips() {
    let folder = tempfile::tempdir().unwrap();
    let made = run(
        "r1",
        vec![
            timed("r1", "a", &item("m"), "desk", 1, vec![5, 6, 7]),
            timed("r1", "a", &item("m"), "shelf", 2, vec![8]),
        ],
    );
    write(folder.path(), &made);
    let read = Run::read(folder.path()).unwrap();
    assert_eq!(
        (read.header.clone(), read.records.clone()),
        (made.header, made.records)
    );
    assert!(read.missing().is_empty() && read.silent().is_empty() && read.torn.is_empty());
}

#[test]
fn truncated_file_loses_only_its_last_record() {
    let folder = tempfile::tempdir().unwrap();
    let records = vec![
        timed("r1", "a", &item("größe"), "desk", 1, vec![5]),
        timed("r1", "a", &item("größe"), "desk", 2, vec![6]),
    ];
    write(folder.path(), &run("r1", records));
    let path = folder.path().join("records/desk.jsonl");
    let whole = std::fs::read(&path).unwrap();
    let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    // also in the middle of a letter of two bytes
    for end in first..whole.len() {
        std::fs::write(&path, &whole[..end]).unwrap();
        let read = Run::read(folder.path()).unwrap();
        assert_eq!(read.records.len(), 1, "cut at {end}");
        let torn: Vec<usize> = read.torn.iter().map(|torn| torn.bytes).collect();
        assert_eq!(torn, if end == first { vec![] } else { vec![end - first] });
    }
}

#[test]
fn invalid_run_folder_is_refused_by_file() {
    let folder = tempfile::tempdir().unwrap();
    let error = Run::read(folder.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains("run.json"), "{error}");
    write(
        folder.path(),
        &run("r1", vec![timed("r1", "a", &item("m"), "desk", 1, vec![5])]),
    );
    let header = std::fs::read_to_string(folder.path().join("run.json")).unwrap();
    let newer = header.replace("\"format\":1", "\"format\":7");
    std::fs::write(folder.path().join("run.json"), newer).unwrap();
    let error = Run::read(folder.path()).unwrap_err();
    assert!(error.to_string().contains("format 7"), "{error}");
    std::fs::write(folder.path().join("run.json"), header.replace("r1", "r2")).unwrap();
    let error = Run::read(folder.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadRun);
    assert!(
        error.to_string().contains("\"r1\"") && error.to_string().contains("desk.jsonl"),
        "{error}"
    );
    std::fs::write(folder.path().join("run.json"), header).unwrap();
    std::fs::write(folder.path().join("records/desk.jsonl"), "{}\n").unwrap();
    assert!(
        Run::read(folder.path())
            .unwrap_err()
            .to_string()
            .contains("line 1")
    );
}

#[test]
fn duplicate_records_count_once() {
    let folder = tempfile::tempdir().unwrap();
    write(
        folder.path(),
        &run("r1", vec![timed("r1", "a", &item("m"), "desk", 1, vec![5])]),
    );
    let path = folder.path().join("records/desk.jsonl");
    let once = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, once.repeat(3)).unwrap();
    assert_eq!(Run::read(folder.path()).unwrap().records.len(), 1);
}

#[test]
fn items_without_a_result_and_boards_without_an_answer_are_named() {
    let lost = |name: &str| {
        let mut record = timed("r1", "a", &item("b"), name, 1, Vec::new());
        record.outcome = Outcome::Failed(Failure {
            reason: "the cable was cut".into(),
            board: true,
            exit_code: None,
        });
        record
    };
    let mut run = run(
        "r1",
        vec![timed("r1", "a", &item("a"), "desk", 1, vec![5]), lost("shelf")],
    );
    run.header.places.push(place("cellar"));
    for name in ["c", "a"] {
        run.header.items.push(Wanted {
            item: item(name),
            places: vec!["cellar".into()],
        });
    }
    let missing = run.missing();
    let found: Vec<(&str, Option<&str>)> = missing
        .iter()
        .map(|one| (one.item.as_str(), one.reason.as_deref()))
        .collect();
    assert_eq!(
        found,
        [
            ("bench b on cpu", Some("shelf: the cable was cut")),
            ("bench c on cpu", None),
            // another board has measured it, and that was asked of another one
            ("bench a on cpu", None)
        ]
    );
    let silent = run.silent();
    let found: Vec<(&str, Option<&str>)> = silent
        .iter()
        .map(|one| (one.place.as_str(), one.reason.as_deref()))
        .collect();
    assert_eq!(found, [("shelf", Some("the cable was cut")), ("cellar", None)]);
}

#[test]
fn builds_of_one_run_are_told_apart_and_a_run_counts_once() {
    let both = run(
        "r1",
        vec![
            timed("r1", "a", &item("m"), "desk", 1, vec![5]),
            timed("r1", "b", &item("m"), "desk", 2, vec![6]),
        ],
    );
    let mut base = Selection::new();
    base.add(both.clone(), Some("aaaa")).unwrap();
    assert_eq!(base.records().count(), 1);
    assert!(
        base.add(both.clone(), Some("aaaa"))
            .unwrap_err()
            .to_string()
            .contains("twice")
    );
    let error = base.add(both, Some("c")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadSelection);
    assert!(error.to_string().contains("0.1.0 (aaaaaaaaaaaa)"), "{error}");
}

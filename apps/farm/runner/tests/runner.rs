//! The real runner: lists in, records out, whatever happens to it meanwhile.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use polychip_farm_record::{
    Assignment, Effort, FORMAT, InventoryEntry, Item, Job, Limits, Model, Outcome, Record, Settings, Waiting,
    read_lines,
};

/// The model that ships.
fn shapes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/shapes/shapes.onnx")
}

/// A benchmark of that model on so many threads, which tell items apart; the machine may be in use.
fn bench(threads: u32) -> Assignment {
    Assignment {
        format: FORMAT,
        run: "run".into(),
        place: InventoryEntry {
            name: "here".into(),
            transport: "local".into(),
            tags: vec!["a=b".into()],
        },
        item: Item {
            job: Job::Bench,
            model: Some(Model {
                name: "shapes".into(),
                blake3: "0".repeat(64),
                bytes: 1,
            }),
            plugins: vec!["cpu".into()],
            settings: Settings {
                threads: Some(threads),
                ..Settings::default()
            },
        },
        attempt: 1,
        model: Some(shapes().display().to_string()),
        inputs: Default::default(),
        plugins: vec![],
        conform: None,
        effort: Effort {
            warmup: 1,
            iters: 7,
            seconds: 2,
            time_limit_s: 300,
        },
        limits: Limits {
            load_by_others_millis: 1000,
            throttled: true,
            patience_s: 0,
            ..Limits::default()
        },
        emulated: false,
        reports_waiting: false,
    }
}

fn list(assignments: &[Assignment]) -> String {
    assignments
        .iter()
        .map(|one| serde_json::to_string(one).unwrap() + "\n")
        .collect()
}

/// A runner in this folder, told this.
fn start(folder: &Path, list: &str) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_polychip-runner"))
        .args(["serve", "--folder"])
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(list.as_bytes()).unwrap();
    child
}

fn records_of(text: &str) -> Vec<Record> {
    text.lines()
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Runs a runner to its end.
fn serve(folder: &Path, assignments: &[Assignment]) -> Vec<Record> {
    let output = start(folder, &list(assignments)).wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    records_of(&String::from_utf8(output.stdout).unwrap())
}

fn journal(folder: &Path) -> PathBuf {
    folder.join("runs/run/journal.jsonl")
}

#[test]
fn benchmark_record_includes_all_conditions() {
    let folder = tempfile::tempdir().unwrap();
    let records = serve(folder.path(), &[bench(1)]);
    let [record] = &records[..] else {
        panic!("{records:?}")
    };
    assert_eq!(
        (record.item.clone(), record.place.clone(), record.attempt),
        (bench(1).item, bench(1).place, 1)
    );
    assert_eq!(record.build.runner.len(), 64);
    assert_eq!(record.board.arch, std::env::consts::ARCH);
    assert!(record.board.memory_bytes > 1 << 20 && record.board.cores > 0 && !record.board.emulated);
    assert!(record.started_s > 1_700_000_000 && record.took_ms > 0);
    let Outcome::Measured(measured) = &record.outcome else {
        panic!("{:?}", record.outcome)
    };
    assert_eq!(measured.samples_ns.len(), 7);
    assert!(measured.samples_ns.iter().all(|ns| *ns > 0));
    assert!(
        measured.load_ns > Some(0) && measured.peak_bytes > Some(1 << 20) && measured.predicted_ns > Some(0)
    );
    assert!(!measured.emulated && !measured.plan.is_empty());
    for part in &measured.plan {
        assert_eq!((&*part.device, &*part.provenance), ("cpu:0", "measured"));
    }
    if cfg!(target_os = "linux") {
        assert!(record.before.load_by_others_millis.is_some());
    }
    // and it is in the journal
    let text = std::fs::read_to_string(journal(folder.path())).unwrap();
    assert_eq!(read_lines(&text).unwrap().records, records);
}

#[test]
fn killed_runner_loses_only_the_current_item() {
    let folder = tempfile::tempdir().unwrap();
    let all = [bench(1), bench(2), bench(3)];
    let mut child = start(folder.path(), &list(&all));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first: Record = lines
        .by_ref()
        .map(Result::unwrap)
        .find(|line| !line.is_empty())
        .map(|line| serde_json::from_str(&line).unwrap())
        .unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    // as if it had been killed while it wrote the next record
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .open(journal(folder.path()))
        .unwrap();
    file.write_all(br#"{"format":1,"run":"run","item":{"job":"#)
        .unwrap();
    drop(file);
    let records = serve(folder.path(), &all);
    assert_eq!(records.len(), 3);
    assert_eq!(
        records[0], first,
        "what was recorded is printed again, and not measured again"
    );
    let text = std::fs::read_to_string(journal(folder.path())).unwrap();
    let lines = read_lines(&text).unwrap();
    assert_eq!((lines.records, lines.torn_bytes), (records.clone(), 0));
    // a third call measures nothing
    assert_eq!(serve(folder.path(), &all), records);
    // `journal` prints the same
    let output = Command::new(env!("CARGO_BIN_EXE_polychip-runner"))
        .args(["journal", "--folder"])
        .arg(folder.path())
        .arg("run")
        .output()
        .unwrap();
    assert_eq!(records_of(&String::from_utf8(output.stdout).unwrap()), records);
}

#[test]
fn runner_survives_a_lost_reader_and_a_second_runner_waits() {
    let folder = tempfile::tempdir().unwrap();
    let all = [bench(1), bench(2)];
    let mut cut = start(folder.path(), &list(&all));
    // the connection is cut: the output has no reader any more
    drop(cut.stdout.take());
    // by now it may not even have begun; whichever is first, the other one finds what that measured
    let records = serve(folder.path(), &all);
    assert!(cut.wait().unwrap().success());
    let text = std::fs::read_to_string(journal(folder.path())).unwrap();
    assert_eq!(read_lines(&text).unwrap().records, records);
    assert_eq!(records.len(), 2);
}

#[test]
fn impossible_items_are_explained_and_others_continue() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken.onnx");
    std::fs::write(&broken, b"no model").unwrap();
    let mut malformed = bench(1);
    malformed.model = Some(broken.display().to_string());
    malformed.item.model.as_mut().unwrap().name = "broken".into();
    let mut missing = bench(2);
    missing.item.plugins = vec!["abacus".into()];
    let mut slow = bench(3);
    slow.item.job = Job::Soak;
    slow.effort.seconds = 600;
    slow.effort.time_limit_s = 2;
    let mut unjudged = bench(4);
    unjudged.item.job = Job::Conformance;
    let records = serve(folder.path(), &[malformed, missing, slow, unjudged, bench(5)]);
    let outcomes: Vec<&Outcome> = records.iter().map(|record| &record.outcome).collect();
    let [
        Outcome::Failed(malformed),
        Outcome::Skipped { reason: missing },
        Outcome::Failed(slow),
        Outcome::Skipped { reason: unjudged },
        Outcome::Measured(_),
    ] = &outcomes[..]
    else {
        panic!("{outcomes:#?}")
    };
    assert!(
        malformed.reason.matches("broken").count() == 1
            && !malformed.reason.contains('/')
            && !malformed.board,
        "{malformed:?}"
    );
    assert!(missing.contains("abacus"), "{missing}");
    assert!(slow.reason.contains("limit of 2 s") && !slow.board, "{slow:?}");
    assert!(unjudged.contains("--conform"), "{unjudged}");
}

#[test]
fn profiles_and_soaks_are_measured() {
    let folder = tempfile::tempdir().unwrap();
    let mut profile = bench(1);
    profile.item.job = Job::Profile;
    let mut soak = bench(1);
    soak.item.job = Job::Soak;
    let records = serve(folder.path(), &[profile, soak]);
    let [Outcome::Measured(profile), Outcome::Measured(soak)] = [&records[0].outcome, &records[1].outcome]
    else {
        panic!("{records:#?}")
    };
    assert!(profile.samples_ns.is_empty() && !profile.plan.is_empty());
    assert!(
        std::fs::metadata(folder.path().join("runs/run/profile"))
            .unwrap()
            .len()
            > 0
    );
    assert!((1..=3).contains(&soak.windows.len()), "{:?}", soak.windows);
    let runs: u64 = soak.windows.iter().map(|window| window.runs).sum();
    assert!(runs > 0 && soak.windows.iter().all(|window| window.median_ns > 0));
    assert!(soak.windows.is_sorted_by_key(|window| window.end_ms));
}

#[test]
fn profile_copy_has_rows_that_only_the_log_has() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("runs/run");
    std::fs::create_dir_all(&run).unwrap();
    let copied = || {
        let output = Command::new(env!("CARGO_BIN_EXE_polychip-runner"))
            .args(["profile", "--folder"])
            .arg(folder.path())
            .arg("run")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(copied(), "none");
    // as a runner that still works has it open: no other one moves its rows from the log to the file
    let open = polychip::Profile::open(run.join("profile")).unwrap();
    let mut profile = bench(1);
    profile.item.job = Job::Profile;
    serve(folder.path(), &[profile]);
    open.set_plugin_value("cpu", "test", b"only in the log").unwrap();
    let rows = open.export().unwrap();
    assert!(!rows.plugin_values.is_empty());
    for _ in 0..2 {
        let copy = run.join(copied());
        let there = polychip::Profile::open(&copy).unwrap().export().unwrap();
        assert_eq!(there, rows);
    }
}

#[test]
fn journal_write_failure_is_reported_after_the_record() {
    let folder = tempfile::tempdir().unwrap();
    // a limit on file sizes emulates a full disk; at 0, no byte can be written
    std::fs::create_dir_all(folder.path().join("runs/run")).unwrap();
    let script = format!(
        "trap '' XFSZ; ulimit -f 0; exec {} serve --folder {}",
        env!("CARGO_BIN_EXE_polychip-runner"),
        folder.path().display()
    );
    let mut child = Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(list(&[bench(1), bench(2)]).as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{stderr}");
    assert!(stderr.contains("journal cannot be written"), "{stderr}");
    // it stops there, and what it knew was said
    let records = records_of(&String::from_utf8(output.stdout).unwrap());
    let [record] = &records[..] else {
        panic!("{records:?}")
    };
    let Outcome::Failed(failure) = &record.outcome else {
        panic!("{:?}", record.outcome)
    };
    assert!(failure.board, "{failure:?}");
    assert_eq!(std::fs::read(journal(folder.path())).unwrap(), b"");
}

#[test]
fn throttled_board_is_not_measured_unless_allowed() {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("sys/class/thermal/cooling_device0/type", "thermal-devfreq-0"),
        ("sys/class/thermal/cooling_device0/cur_state", "1"),
        ("sys/class/thermal/thermal_zone0/type", "npu-thermal"),
        ("sys/class/thermal/thermal_zone0/temp", "71000"),
    ] {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    for (told, hottest, words) in [
        (false, None, Some("throttled")),
        (true, Some(60_000), Some("71 °C")),
        (true, None, None),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut assignment = bench(1);
        assignment.limits.throttled = told;
        assignment.limits.hottest_mc = hottest;
        let mut child = Command::new(env!("CARGO_BIN_EXE_polychip-runner"))
            .args(["serve", "--folder"])
            .arg(folder.path())
            .arg("--sensors")
            .arg(root.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(list(&[assignment]).as_bytes())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        let record = records_of(&String::from_utf8(output.stdout).unwrap()).remove(0);
        assert_eq!(record.before.throttled, Some(true));
        assert_eq!(
            record
                .before
                .temperatures_mc
                .values()
                .copied()
                .collect::<Vec<_>>(),
            [71_000]
        );
        match (words, &record.outcome) {
            (Some(words), Outcome::Skipped { reason }) => assert!(reason.contains(words), "{reason}"),
            (None, Outcome::Measured(_)) => {}
            (_, outcome) => panic!("{outcome:?}"),
        }
    }
}

#[test]
fn waiting_runner_says_why_and_is_stopped_before_its_item() {
    let folder = tempfile::tempdir().unwrap();
    let mut waits = bench(1);
    // no board is so cold
    waits.limits.hottest_mc = Some(-300_000);
    waits.limits.patience_s = 3600;
    waits.reports_waiting = true;
    // the sensor that is too hot
    let sensors = tempfile::tempdir().unwrap();
    let zone = sensors.path().join("sys/class/thermal/thermal_zone0");
    std::fs::create_dir_all(&zone).unwrap();
    std::fs::write(zone.join("type"), "soc-thermal\n").unwrap();
    std::fs::write(zone.join("temp"), "40000\n").unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_polychip-runner"))
        .args(["serve", "--folder"])
        .arg(folder.path())
        .arg("--sensors")
        .arg(sensors.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let list = list(&[waits.clone()]);
    child.stdin.take().unwrap().write_all(list.as_bytes()).unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let said = lines.by_ref().map(Result::unwrap).find(|line| !line.is_empty());
    let waiting: Waiting = serde_json::from_str(&said.unwrap()).unwrap();
    assert_eq!(waiting.item, waits.item);
    assert!(
        waiting.waiting.contains("the start limit is"),
        "{}",
        waiting.waiting
    );
    let stopped = Command::new(env!("CARGO_BIN_EXE_polychip-runner"))
        .args(["stop", "--folder"])
        .arg(folder.path())
        .arg("run")
        .status()
        .unwrap();
    assert!(stopped.success());
    // it ends without a record: the item is as if it had not been asked for
    assert!(lines.all(|line| line.unwrap().is_empty()));
    assert!(child.wait().unwrap().success());
    assert!(records_of(&std::fs::read_to_string(journal(folder.path())).unwrap()).is_empty());
    // the next runner of the run is not stopped by that
    assert_eq!(serve(folder.path(), &[bench(1)]).len(), 1);
}

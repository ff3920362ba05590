//! Boards of a desk, and a run over this machine.

use std::path::Path;

use polychip_test_requirements::libraries;

#[cfg(unix)]
use crate::tool::alone;
use crate::tool::{polychip, shapes};

fn desk(folder: &Path, text: &str) -> String {
    let path = folder.join("farm.toml");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// This machine, which may be in use.
fn here(folder: &Path) -> String {
    let board = folder.join("board");
    let text = format!(
        "locks = \"locks\"\n[[board]]\nname = \"here\"\ntransport = \"local\"\nfolder = {:?}\ntags = {{ kind = \"desk\" }}\n",
        board.display().to_string()
    );
    desk(folder, &text)
}

#[test]
fn boards_are_listed_with_details_or_connection_errors() {
    let folder = tempfile::tempdir().unwrap();
    let farm = here(folder.path());
    let value = polychip(&["farm", "boards", "--farm", &farm, "--json"]).json("farm-boards");
    let board = &value["boards"][0];
    assert_eq!(
        (&board["name"], &board["tags"][0]),
        (&"here".into(), &"kind=desk".into())
    );
    assert!(
        board["system"].as_str().unwrap().contains(std::env::consts::ARCH),
        "{value}"
    );
    // no server uses port 1; without ssh on this machine, that is the reason
    let text = "[[board]]\nname = \"far\"\ntransport = \"ssh\"\naddress = \"nobody@127.0.0.1\"\nport = 1\n";
    let farm = desk(folder.path(), text);
    let done = polychip(&["farm", "boards", "--farm", &farm]);
    assert_eq!(done.code, 4, "{}", done.stderr);
    assert!(done.stdout.starts_with("far (ssh): "), "{}", done.stdout);
    // one of two is enough for scripts
    let text = format!(
        "{text}[[board]]\nname = \"near\"\ntransport = \"local\"\nfolder = {:?}\n",
        folder.path().join("board")
    );
    let farm = desk(folder.path(), &text);
    let done = polychip(&["farm", "boards", "--farm", &farm, "--reach"]);
    assert_eq!(done.code, 4, "{}", done.stderr);
    assert!(
        done.stderr.contains("1 of 2 boards cannot be reached"),
        "{}",
        done.stderr
    );
    assert!(done.stdout.contains("\nnear (local): "), "{}", done.stdout);
}

#[test]
fn boards_say_whether_they_can_be_measured_on() {
    let folder = tempfile::tempdir().unwrap();
    let runner = libraries::program("polychip-runner", "polychip-runner").unwrap();
    let runner = runner.display().to_string();
    let board = |limits: &str| {
        let board = folder.path().join("board");
        let text = format!(
            "locks = \"locks\"\n[[board]]\nname = \"here\"\ntransport = \"local\"\nfolder = {:?}\n{limits}\n",
            board.display().to_string()
        );
        desk(folder.path(), &text)
    };
    let listed = |farm: &str| {
        let value =
            polychip(&["farm", "boards", "--farm", farm, "--runner", &runner, "--json"]).json("farm-boards");
        value["boards"][0].clone()
    };
    let fit = listed(&board("load_by_others_percent = 100\nthrottled = true"));
    assert_eq!(
        (&fit["fit"], &fit["reason"]),
        (&true.into(), &serde_json::Value::Null),
        "{fit}"
    );
    assert!(
        fit["state"].is_object() && fit["clock_ahead_s"].is_null(),
        "{fit}"
    );
    // another program of this host has it
    let locks = folder.path().join("locks");
    let lock = polychip_farm::lock::Lock::board(&locks, "local").unwrap();
    let farm = board("load_by_others_percent = 100\nthrottled = true");
    let used = listed(&farm);
    assert_eq!(used["fit"], false, "{used}");
    assert!(used["in_use"].as_str().unwrap().contains("process"), "{used}");
    drop(lock);
    let shown = polychip(&["farm", "boards", "--farm", &farm, "--runner", &runner]).ok();
    assert!(shown.contains("; ready to measure"), "{shown}");
    // without a runner, boards are reached all the same, and the warning names the command that makes it
    let done = polychip(&["farm", "boards", "--farm", &farm]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(
        done.stderr.contains("cargo build --release -p polychip-runner"),
        "{}",
        done.stderr
    );
}

#[test]
fn mistakes_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (farm, model) = (here(folder.path()), shapes());
    polychip(&["farm", "boards", "--farm", "/no/farm.toml"]).fails(3, &["/no/farm.toml"]);
    polychip(&["farm", "boards", "--farm", &farm, "--only", "kind=phone"])
        .fails(2, &["kind=phone", "it has here"]);
    polychip(&["farm", "run", "--farm", &farm]).fails(2, &["no model given"]);
    polychip(&["farm", "run", "--farm", &farm, "/no/model.onnx"]).fails(3, &["/no/model.onnx"]);
    let out = folder.path().join("run").display().to_string();
    polychip(&["farm", "run", "--farm", &farm, &model, "--out", &out]).fails(2, &["--runner FILE"]);
    polychip(&["farm", "run", "--farm", &farm, &model, "--resume", "/no/run"])
        .fails(3, &["/no/run/run.json"]);
    let bad = desk(folder.path(), "[[board]]\nname = \"a\"\ntransport = \"usb\"\n");
    polychip(&["farm", "boards", "--farm", &bad]).fails(3, &["board \"a\"", "\"usb\""]);
}

#[test]
fn a_run_is_recorded_resumed_and_not_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let (farm, model) = (here(folder.path()), shapes());
    let runner = libraries::program("polychip-runner", "polychip-runner")
        .unwrap()
        .display()
        .to_string();
    let out = folder.path().join("run").display().to_string();
    let common = [
        "farm",
        "run",
        &model,
        "--farm",
        &farm,
        "--runner",
        &runner,
        "--ignore-state",
        "--json",
    ];
    let new = [
        &common[..],
        &[
            "--jobs",
            "bench",
            "--iters",
            "4",
            "--threads",
            "1",
            "--out",
            &out,
            "--id",
            "pr-1",
        ],
    ]
    .concat();
    let value = polychip(&new).json("farm-run");
    assert_eq!(
        (&value["run"], &value["measured"], &value["sent"]["files"]),
        (&"pr-1".into(), &1.into(), &2.into())
    );
    let text = std::fs::read_to_string(Path::new(&out).join("records/here.jsonl")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        record["outcome"]["samples_ns"].as_array().unwrap().len(),
        4,
        "{record}"
    );
    assert_eq!(record["item"]["settings"]["threads"], 1);
    // the folder holds a run
    polychip(&new).fails(2, &["--resume"]);
    let again = [&common[..], &["--resume", &out]].concat();
    let value = polychip(&again).json("farm-run");
    assert_eq!(
        (
            &value["known_before"],
            &value["measured"],
            &value["sent"]["files"]
        ),
        (&1.into(), &0.into(), &0.into())
    );
    assert_eq!(
        std::fs::read_to_string(Path::new(&out).join("records/here.jsonl")).unwrap(),
        text
    );
}

#[cfg(unix)]
#[test]
fn interrupted_run_stops_cleanly_and_resumes() {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    let folder = tempfile::tempdir().unwrap();
    let farm = here(folder.path());
    let runner = libraries::program("polychip-runner", "polychip-runner").unwrap();
    let out = folder.path().join("run");
    // more than a board gets at once, each model a copy under a name of its own
    let models: Vec<String> = (0..18)
        .map(|index| {
            let path = folder.path().join(format!("model-{index:02}.onnx"));
            std::fs::copy(shapes(), &path).unwrap();
            path.display().to_string()
        })
        .collect();
    let mut common: Vec<String> = [
        "farm",
        "run",
        "--farm",
        &farm,
        "--ignore-state",
        "--json",
        "--runner",
    ]
    .map(str::to_owned)
    .to_vec();
    common.push(runner.display().to_string());
    common.extend(models.iter().cloned());
    let mut child = Command::new(alone())
        .args(&common)
        .args(["--jobs", "bench", "--iters", "3", "--threads", "1", "--out"])
        .arg(&out)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let records = out.join("records/here.jsonl");
    let lines = || std::fs::read_to_string(&records).map_or(0, |text| text.lines().count());
    let end = Instant::now() + Duration::from_secs(240);
    while lines() == 0 {
        assert!(
            Instant::now() < end && child.try_wait().unwrap().is_none(),
            "nothing was recorded"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    let sent = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
    let output = child.wait_with_output().unwrap();
    // not a signal's: it ended by itself, and reports the remaining items
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("interrupted: ") && !stderr.contains("items failed"),
        "{stderr}"
    );
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let (measured, left) = (
        value["measured"].as_u64().unwrap(),
        value["left"].as_u64().unwrap(),
    );
    assert!(measured >= 1 && left >= 1 && measured + left == 18, "{value}");
    assert_eq!(lines() as u64, measured);
    // the board and the folder are free again, and nothing is measured twice
    let out = out.display().to_string();
    let again = common.iter().map(String::as_str).chain(["--resume", &out]);
    let value = polychip(&again.collect::<Vec<_>>()).json("farm-run");
    assert_eq!(
        (&value["known_before"], &value["measured"]),
        (&measured.into(), &left.into())
    );
    assert_eq!(lines(), 18);
}

/// A process that uses a processor until it is dropped.
#[cfg(unix)]
struct Load(std::process::Child);

#[cfg(unix)]
impl Load {
    fn start() -> Load {
        let mut command = std::process::Command::new("sh");
        Load(command.args(["-c", "while :; do :; done"]).spawn().unwrap())
    }
}

#[cfg(unix)]
impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(unix)]
#[test]
fn board_that_is_not_ready_is_waited_for_with_a_reason_until_a_limit_or_a_signal() {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "locks = \"locks\"\n[[board]]\nname = \"here\"\ntransport = \"local\"\nfolder = {:?}\n\
         load_by_others_percent = 0\nthrottled = true\npatience_s = 3600\n",
        folder.path().join("board").display().to_string()
    );
    let farm = desk(folder.path(), &text);
    let runner = runner();
    let shapes = shapes();
    let common = [
        "farm", "run", &shapes, "--farm", &farm, "--runner", &runner, "--jobs", "bench", "--iters", "3",
    ];
    let shown = polychip(&[&common[..], &["--dry-run"]].concat()).ok();
    assert!(
        shown.contains("waited for before each item, at most 3600 s"),
        "{shown}"
    );
    let _load = Load::start();
    let out = folder.path().join("limited").display().to_string();
    let done = polychip(&[&common[..], &["--wait", "4", "--out", &out]].concat());
    assert_eq!(done.code, 4, "{}", done.stderr);
    let words = "board here: bench shapes waits until the board is ready, at most 4 s: other programs use";
    assert!(done.stderr.contains(words), "{}", done.stderr);
    assert!(
        done.stderr.contains("1 item skipped: no board was ready"),
        "{}",
        done.stderr
    );
    let out = folder.path().join("ended").display().to_string();
    let mut child = Command::new(alone())
        .args(common)
        .args(["--json", "--out", &out])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let waits = lines
        .by_ref()
        .map(Result::unwrap)
        .find(|line| line.contains("waits until the board is ready"));
    assert!(waits.unwrap().contains("at most 3600 s"));
    let sent = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
    let said: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(
        said[0].starts_with("interrupted: each board finishes"),
        "{said:?}"
    );
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{said:?}");
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&value["left"], &value["measured"]),
        (&1.into(), &0.into()),
        "{value}"
    );
    // its runner has ended, too: the board is free
    let again = [
        &common[..5],
        &["--runner", &runner, "--ignore-state", "--resume", &out, "--json"],
    ]
    .concat();
    let value = polychip(&again[..]).json("farm-run");
    assert_eq!(value["measured"], 1, "{value}");
}

/// The runner, built as the test is.
fn runner() -> String {
    let path = libraries::program("polychip-runner", "polychip-runner").unwrap();
    path.display().to_string()
}

#[test]
fn list_of_models_is_planned_without_measuring() {
    let folder = tempfile::tempdir().unwrap();
    let board = |name: &str, soc: &str| {
        let board = folder.path().join(name).display().to_string();
        format!(
            "[[board]]\nname = {name:?}\ntransport = \"local\"\nfolder = {board:?}\ntags = {{ soc = {soc:?} }}\n"
        )
    };
    let farm = desk(folder.path(), &(board("a", "x") + &board("b", "y")));
    let list = folder.path().join("models.toml").display().to_string();
    let model =
        |rest: &str| std::fs::write(&list, format!("[[model]]\nfile = {:?}\n{rest}\n", shapes())).unwrap();
    let runner = runner();
    let dry = [
        "farm",
        "run",
        "--farm",
        &farm,
        "--runner",
        &runner,
        "--models",
        &list,
        "--dry-run",
    ];
    model("name = \"second\"\nboards = [\"soc=y\"]");
    let value = polychip(&[&dry[..], &["--jobs", "bench,soak", "--seconds", "60", "--json"]].concat())
        .json("farm-dry-run");
    let items = value["items"].as_array().unwrap();
    assert_eq!(items.len(), 2, "{value}");
    assert_eq!(
        (&items[0]["item"], &items[0]["boards"]),
        (&"bench second".into(), &serde_json::json!(["b"]))
    );
    assert_eq!(
        (&value["estimated_s"], &value["unknown"]),
        (&60.into(), &1.into()),
        "{value}"
    );
    let bytes = |board: &str| value["bytes_by_board"][board].as_u64().unwrap();
    let length = std::fs::metadata(shapes()).unwrap().len();
    assert_eq!(bytes("b"), bytes("a") + length);
    let shown = polychip(&dry).ok();
    assert!(
        shown.contains("profile second on b\n") && shown.contains("2 items, 0 unchanged"),
        "{shown}"
    );
    // no board was used
    assert!(!folder.path().join("b").exists());
    model("boards = [\"soc=z\"]");
    polychip(&dry).fails(2, &["boards soc=z, none of which is selected", "a, b"]);
    model("shapes = { nothing = [1] }");
    polychip(&dry).fails(2, &["has no input for the shape nothing=1"]);
    model("");
    polychip(&[&dry[..], &["--shape", "nothing=1"]].concat())
        .fails(2, &["--shape nothing=1: no model has such an input"]);
    model("speed = 1");
    polychip(&dry).fails(3, &["models.toml", "unknown field"]);
}

#[test]
fn unchanged_items_are_left_out_and_boards_are_cleaned() {
    let folder = tempfile::tempdir().unwrap();
    let (farm, model, runner) = (here(folder.path()), shapes(), runner());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (first, second, third) = (path("first"), path("second"), path("third"));
    let run = |out: &str, more: &[&str]| {
        let common = [
            "farm",
            "run",
            &model,
            "--farm",
            &farm,
            "--runner",
            &runner,
            "--ignore-state",
            "--json",
            "--jobs",
            "bench",
            "--threads",
            "1",
            "--out",
            out,
        ];
        polychip(&[&common[..], more].concat()).json("farm-run")
    };
    let value = run(&first, &["--iters", "3"]);
    assert_eq!((&value["measured"], &value["unchanged"]), (&1.into(), &0.into()));
    let value = run(&second, &["--iters", "3", "--unchanged-since", &first]);
    assert_eq!(
        (&value["measured"], &value["unchanged"], &value["items"]),
        (&0.into(), &1.into(), &0.into())
    );
    let value = polychip(&["farm", "compare", &first, &second, "--json"]).json("farm-compare");
    assert_eq!(value["rows"][0]["verdict"], "same", "{value}");
    // other settings are measured
    let value = run(&third, &["--iters", "4", "--unchanged-since", &path("")]);
    assert_eq!((&value["measured"], &value["unchanged"]), (&1.into(), &0.into()));
    let csv = path("farm.csv");
    polychip(&["farm", "report", &first, "--csv", &csv]).ok();
    let text = std::fs::read_to_string(&csv).unwrap();
    assert!(
        text.contains("\r\n\"bench shapes, 1 thread\",bench,desk,false,here,measured,"),
        "{text}"
    );
    // the models and the runner stay on the board until they are deleted
    let value = polychip(&["farm", "clean", "--farm", &farm, "--json"]).json("farm-clean");
    assert!(
        value["boards"][0]["freed_bytes"].as_u64().unwrap() > 100_000,
        "{value}"
    );
    assert!(!folder.path().join("board/blobs").exists() && folder.path().join("board").exists());
}

#[test]
fn reference_takes_turns_with_the_new_runner() {
    let folder = tempfile::tempdir().unwrap();
    let (farm, model, runner) = (here(folder.path()), shapes(), runner());
    let out = folder.path().join("turns").display().to_string();
    let shown = polychip(&[
        "farm",
        "run",
        &model,
        "--farm",
        &farm,
        "--runner",
        &runner,
        "--ignore-state",
        "--iters",
        "3",
        "--threads",
        "1",
        "--out",
        &out,
        "--reference",
        &runner,
        "--pairs",
        "2",
    ])
    .ok();
    assert!(
        shown.contains("pair 2 of 2, base:") && shown.contains("--fail-on slower"),
        "{shown}"
    );
    let (base, new) = (format!("{out}/base"), format!("{out}/new"));
    let value = polychip(&["farm", "compare", &base, &new, "--json"]).json("farm-compare");
    let row = &value["rows"][0];
    assert_eq!(
        (
            &value["same_build"],
            &row["base"]["batches"],
            &row["new"]["batches"]
        ),
        (&true.into(), &2.into(), &2.into()),
        "{value}"
    );
    // other programs may use this machine, and then their batches are not compared
    if row["left_out"].as_array().is_some_and(Vec::is_empty) {
        assert_eq!(row["rounds"], 2, "{value}");
    }
    // a benchmark alone is alternated
    assert_eq!(value["rows"].as_array().unwrap().len(), 1, "{value}");
}

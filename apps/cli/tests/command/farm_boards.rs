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
    // port 1 is nobody's; without ssh on this machine, that is the reason
    let text = "[[board]]\nname = \"far\"\ntransport = \"ssh\"\naddress = \"nobody@127.0.0.1\"\nport = 1\n";
    let farm = desk(folder.path(), text);
    let done = polychip(&["farm", "boards", "--farm", &farm]);
    assert_eq!(done.code, 4, "{}", done.stderr);
    assert!(done.stdout.starts_with("far (ssh): "), "{}", done.stdout);
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
        "farm", "run", &model, "--farm", &farm, "--runner", &runner, "--unfit", "--json",
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
    let mut common: Vec<String> = ["farm", "run", "--farm", &farm, "--unfit", "--json", "--runner"]
        .map(str::to_owned)
        .to_vec();
    common.push(runner.display().to_string());
    common.extend(models.iter().cloned());
    let mut child = Command::new(alone())
        .args(&common)
        .args(["--jobs", "bench", "--iters", "3", "--threads", "1", "--out"])
        .arg(&out)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
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

//! `monitor` and `energy`: what is printed holds to its schema, and what no sensor says is said to be unknown.

use std::path::Path;

use serde_json::Value;

use crate::tool::{Done, polychip, shapes};

/// The lines of `monitor --json`, each held to the schema.
fn lines(done: Done) -> Vec<Value> {
    let text = done.ok();
    let line = |line: &str| {
        let one = Done {
            code: 0,
            stdout: line.to_owned(),
            stderr: String::new(),
        };
        one.json("monitor")
    };
    text.lines().map(line).collect()
}

fn write(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

#[test]
fn one_sample_lists_every_sensor_with_its_reading_or_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(root, "sys/class/thermal/thermal_zone0/type", "x86_pkg_temp\n");
    write(root, "sys/class/thermal/thermal_zone0/temp", "51000\n");
    write(root, "sys/class/thermal/thermal_zone1/type", "tsens_7\n");
    write(root, "sys/class/thermal/thermal_zone1/temp", "\n");
    let root = root.display().to_string();
    let once = |more: &[&str]| {
        let mut arguments = vec!["monitor", "--once", "--interval", "1", "--sensors", &root];
        arguments.extend(more);
        polychip(&arguments)
    };
    let lines = lines(once(&["--json", "--sensor", "thermal/tsens*=gpu:0"]));
    assert_eq!(
        (lines.len(), &lines[0]["kind"], &lines[1]["kind"]),
        (2, &"sensors".into(), &"sample".into())
    );
    let sensors = lines[0]["sensors"].as_array().unwrap();
    assert_eq!(sensors[0]["subject"], "gpu:0");
    assert_eq!(
        (&sensors[0]["value"], &sensors[0]["reason"]),
        (&Value::Null, &"its file is empty".into())
    );
    assert_eq!(
        (&sensors[1]["value"], &sensors[1]["subject"]),
        (&51_000.into(), &"cpu".into())
    );
    let text = once(&[]).ok();
    assert!(text.contains("thermal/x86_pkg_temp (cpu): 51000 m°C"), "{text}");
    assert!(text.contains("energy: unknown"), "{text}");
}

#[test]
fn a_record_is_replayed_sample_by_sample() {
    let machine = tempfile::tempdir().unwrap();
    write(
        machine.path(),
        "sys/class/thermal/thermal_zone0/type",
        "cpu-thermal\n",
    );
    write(machine.path(), "sys/class/thermal/thermal_zone0/temp", "40000\n");
    let record = tempfile::tempdir().unwrap();
    let (machine, into) = (
        machine.path().display().to_string(),
        record.path().display().to_string(),
    );
    let recorded = lines(polychip(&[
        "monitor",
        "--json",
        "--seconds",
        "0.05",
        "--interval",
        "10",
        "--sensors",
        &machine,
        "--record",
        &into,
    ]));
    let replayed = lines(polychip(&[
        "monitor",
        "--json",
        "--interval",
        "1",
        "--sensors",
        &into,
    ]));
    assert_eq!(recorded.len(), replayed.len());
    assert_eq!(replayed.last().unwrap()["kind"], "summary");
    assert_eq!(
        replayed.last().unwrap()["samples"],
        recorded.last().unwrap()["samples"]
    );
    let again = polychip(&["monitor", "--json", "--seconds", "0.05", "--record", &into]);
    again.fails(2, &["the folder must be empty"]);
}

#[test]
fn a_model_under_a_limit_ends_with_a_summary_and_a_log_that_replays() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("decisions.jsonl");
    let log_name = log.display().to_string();
    let lines = lines(polychip(&[
        "monitor",
        &shapes(),
        "--devices",
        "cpu",
        "--threads",
        "1",
        "--max-power",
        "300W",
        "--seconds",
        "0.3",
        "--interval",
        "50",
        "--json",
        "--log",
        &log_name,
    ]));
    let summary = lines.last().unwrap();
    assert_eq!(
        (&summary["kind"], &summary["limit_mw"]),
        (&"summary".into(), &300_000.into())
    );
    assert!(summary["runs"].as_u64().unwrap() > 0);
    assert_eq!(summary["governed"]["candidates"].as_array().unwrap().len(), 1);
    let text = std::fs::read_to_string(log).unwrap();
    assert_eq!(
        summary["replayed"].as_u64().unwrap() + 1,
        text.lines().count() as u64
    );
}

#[test]
fn paced_run_excludes_the_pause_after_it() {
    // a frame of four tenths of a second, in which a run of a millisecond waits to be asked for
    let lines = lines(polychip(&[
        "monitor",
        &shapes(),
        "--devices",
        "cpu",
        "--fps",
        "2.5",
        "--seconds",
        "2",
        "--json",
    ]));
    let latency = &lines.last().unwrap()["latency"];
    let median = latency["p50_ns"].as_u64().unwrap();
    assert!(median < 300_000_000, "{latency}");
}

#[test]
fn energy_is_known_only_for_devices_with_a_sensor() {
    let answer = polychip(&[
        "energy",
        &shapes(),
        "--devices",
        "cpu",
        "--threads",
        "1",
        "--seconds",
        "0.3",
        "--idle",
        "0.1",
        "--settle",
        "0",
        "--blocks",
        "2",
        "--lanes",
        "1,2",
        "--json",
    ])
    .json("energy");
    let names: Vec<&str> = answer["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|candidate| candidate["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["cpu:0 exact x1", "cpu:0 exact x2"]);
    let has_sensor = answer["sensors"][0]["sensor"].is_string();
    assert_ne!(has_sensor, answer["sensors"][0]["reason"].is_string());
    if !has_sensor {
        for candidate in answer["candidates"].as_array().unwrap() {
            assert_eq!(
                (&candidate["net_uj"], &candidate["gross_uj"]),
                (&Value::Null, &Value::Null)
            );
            assert_eq!(candidate["unknown"], serde_json::json!(["cpu:0"]));
        }
        assert_eq!(answer["best"]["net"], Value::Null);
    }
    assert_eq!(answer["plans_differ"], false, "there is one device");
}

#[test]
fn a_trace_of_runs_has_their_parts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.json");
    let name = file.display().to_string();
    let bench = [
        "bench",
        &shapes(),
        "--devices",
        "cpu",
        "--iters",
        "3",
        "--warmup",
        "1",
        "--json",
        "--trace",
        &name,
    ];
    polychip(&bench).json("bench");
    let trace: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let parts = events.iter().filter(|event| event["ph"] == "X");
    assert_eq!(parts.count(), 3);
    assert!(
        events
            .iter()
            .any(|event| event["ph"] == "M" && event["args"]["name"] == "cpu:0")
    );
}

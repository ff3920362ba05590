//! Deadlines, runs in flight, throughput and hot devices: what `bench`, `run` and `explain` say of them.

use serde_json::Value;

use crate::model::{F32, Model, node, port};
use crate::place::Place;
use crate::tool::{polychip, shapes};

/// One device for each of the two ops, of which a run takes 5 ms each.
const TWO: &str = r#"
[[device]]
ops = ["Neg"]
cost = { fixed_ns = 5e6, ps_per_byte = 0 }
[[device]]
ops = ["Abs"]
cost = { fixed_ns = 5e6, ps_per_byte = 0 }
"#;

/// A device that is hot whatever it does, and one that is cool.
const HOT: &str = r#"
[[device]]
cost = { fixed_ns = 1000, ps_per_byte = 0 }
heat = { ambient_mc = 71200 }
[[device]]
cost = { fixed_ns = 50000, ps_per_byte = 0 }
heat = { ambient_mc = 30000 }
"#;

fn place() -> Place {
    let model = Model {
        nodes: vec![
            node("Neg", "neg", &["x"], &["a"]),
            node("Abs", "abs", &["a"], &["b"]),
        ],
        inputs: vec![port("x", F32, &["4"])],
        outputs: vec![port("b", F32, &["4"])],
        ..Model::default()
    };
    Place::new(|folder| model.write(folder, "m.onnx"))
}

const BENCH: [&str; 6] = ["--devices", "null", "--warmup", "2", "--iters", "6"];

#[test]
fn bench_counts_late_runs_and_gives_throughput_and_percentiles() {
    let place = place();
    let bench = |more: &[&str]| place.with(TWO, "bench", &[&BENCH[..], more].concat());
    let json = bench(&["--deadline", "5ms", "--in-flight", "2", "--json"]).json("bench");
    // scripted devices keep their time: no run takes less than 10 ms
    assert_eq!(
        (&json["late"], &json["in_flight"]),
        (&Value::from(6), &Value::from(2))
    );
    assert_eq!(json["deadline_ns"], 5_000_000);
    assert!(json["throughput_per_s"].as_f64().unwrap() > 0.0);
    let latency = |key: &str| json["latency_ns"][key].as_u64().unwrap();
    let all = ["p50", "p90", "p95", "p99", "max"].map(latency);
    assert!(all[0] >= 10_000_000 && all.is_sorted(), "{all:?}");
    // with those of the warm-up, by cause
    let report = &json["report"];
    assert_eq!(
        (&report["runs"], &report["late"]),
        (&Value::from(8), &Value::from(8))
    );
    let causes = report["lateness"].as_array().unwrap();
    assert_eq!(
        causes
            .iter()
            .map(|line| line["runs"].as_u64().unwrap())
            .sum::<u64>(),
        8,
        "{report}"
    );
    let text = bench(&["--deadline", "5"]).ok();
    assert!(
        text.contains("6 of 6 runs were late: they exceeded the deadline of 5.000 ms")
            && text.contains("1 in flight"),
        "{text}"
    );
    let text = bench(&["--deadline", "60000"]).ok();
    assert!(
        text.contains("no run was late: all finished within the deadline of 60.000 s"),
        "{text}"
    );
    let text = bench(&[]).ok();
    assert!(!text.contains("deadline") && !text.contains("late:"), "{text}");
}

#[test]
fn bench_shows_each_replica() {
    let place = place();
    let alike = "[[device]]\ncost = { fixed_ns = 5e6, ps_per_byte = 0 }\n".repeat(2);
    let arguments = [&BENCH[..], &["--policy", "throughput"]].concat();
    let json = place
        .with(&alike, "bench", &[&arguments[..], &["--json"]].concat())
        .json("bench");
    assert_eq!(json["in_flight"], 4);
    // 10 ms a run on either device
    let predicted = json["predicted_throughput_per_s"].as_f64().unwrap();
    assert!((199.0..=200.1).contains(&predicted), "{predicted}");
    let replicas = json["report"]["replicas"].as_array().unwrap();
    let devices: Vec<&Value> = replicas.iter().map(|replica| &replica["devices"][0]).collect();
    assert_eq!(devices, ["null:0", "null:1"]);
    assert!(
        replicas.iter().all(|replica| replica["emulated"] == true),
        "{replicas:?}"
    );
    let text = place.with(&alike, "bench", &arguments).ok();
    for words in [
        "runs a second of a session, emulated",
        "replicas: each run uses one of 2; ",
        "  null:0: predicted 100.0 runs/s, measured ",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn throughput_keeps_one_more_run_in_flight_than_devices() {
    let place = place();
    let in_flight = |more: &[&str]| {
        let json = place.with(TWO, "bench", &[&BENCH[..], &["--json"], more].concat());
        json.json("bench")["in_flight"].as_u64().unwrap()
    };
    assert_eq!(in_flight(&["--policy", "throughput"]), 3);
    assert_eq!(in_flight(&["--policy", "throughput", "--in-flight", "1"]), 1);
    assert_eq!(in_flight(&["--policy", "makespan"]), 1);
    polychip(&["bench", &shapes(), "--in-flight", "0"]).fails(2, &["--in-flight"]);
    polychip(&["bench", &shapes(), "--deadline", "soon"]).fails(2, &["e.g. 33 or 33ms"]);
}

#[test]
fn first_run_reports_lateness() {
    let place = place();
    let run = |more: &[&str]| {
        place.with(
            TWO,
            "run",
            &[&["--devices", "null", "--fill", "1"], more].concat(),
        )
    };
    let late = run(&["--deadline", "5", "--json"]).json("run")["late_ns"].as_u64();
    assert!(late.unwrap() >= 5_000_000);
    assert_eq!(
        run(&["--deadline", "60000", "--json"]).json("run")["late_ns"],
        Value::Null
    );
    let text = run(&["--deadline", "5"]).ok();
    assert!(
        text.contains(", late by ") && text.contains(": the deadline was 5.000 ms"),
        "{text}"
    );
    let text = run(&["--deadline", "60000"]).ok();
    assert!(text.contains(", in time: the deadline was 60.000 s"), "{text}");
}

#[test]
fn hot_device_exclusion_is_explained() {
    let place = place();
    let devices = ["--devices", "null"];
    let explain = |more: &[&str]| place.with(HOT, "explain", &[&devices[..], more].concat());
    let text = explain(&["--max-temperature", "60"]).ok();
    assert!(
        text.contains("left out: null:0: 71.2 °C, limit 60.0 °C"),
        "{text}"
    );
    assert!(
        text.contains("not null:0: not used: 71.2 °C, limit 60.0 °C"),
        "{text}"
    );
    assert!(!explain(&["--max-temperature", "80"]).ok().contains("left out"));
    let json = place.with(
        HOT,
        "run",
        &[
            &devices[..],
            &["--fill", "1", "--max-temperature", "60C", "--json"],
        ]
        .concat(),
    );
    let report = &json.json("run")["report"];
    assert_eq!(report["parts"][0]["device"], "null:1");
    assert_eq!(report["events"][0]["kind"], "left_out");
    place
        .with(
            HOT,
            "explain",
            &["--devices", "null:0", "--max-temperature", "60"],
        )
        .fails(4, &["left out: null:0: 71.2 °C, limit 60.0 °C"]);
}

#[test]
fn energy_price_is_applied() {
    let place = place();
    let text = |more: &[&str]| {
        place
            .with(
                TWO,
                "bench",
                &[&BENCH[..], &["--policy", "balanced"], more].concat(),
            )
            .ok()
    };
    assert!(text(&[]).contains("least time and energy, at 200.000 ms per joule"));
    assert!(text(&["--energy-price", "10"]).contains("least time and energy, at 10.000 ms per joule"));
}

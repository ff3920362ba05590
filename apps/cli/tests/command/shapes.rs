//! The model that ships: what the README's first command must show, and every command on it.

use serde_json::Value;

use crate::tool::{polychip, shapes, shapes_file};

const CLASSES: [&str; 12] = [
    "arrow", "bolt", "circle", "crescent", "cross", "drop", "heart", "hexagon", "ring", "square", "star",
    "triangle",
];

fn run(class: &str, more: &[&str]) -> crate::tool::Done {
    let image = format!("image={}", shapes_file(&format!("pictures/{class}.png")));
    let (model, labels) = (shapes(), shapes_file("labels.txt"));
    let mut arguments = vec!["run", &model, "--input", &image, "--labels", &labels];
    arguments.extend(more);
    polychip(&arguments)
}

#[test]
fn every_picture_gets_its_label_with_probability_and_report() {
    for class in CLASSES {
        let text = run(class, &[]).ok();
        let first = text.lines().next().unwrap();
        let (label, probability) = first.split_once(": probability ").unwrap();
        assert_eq!(label, class);
        assert!(probability.parse::<f64>().unwrap() > 0.5, "{first}");
        for words in ["part", "cpu:0", "predicted", "plan: ", "optimal", "measured: "] {
            assert!(text.contains(words), "{words:?} is not in: {text}");
        }
    }
}

#[test]
fn saved_probabilities_match_onnx_runtime() {
    // ONNX Runtime's: f32 [12, 12], a row per picture; its header is 128 bytes
    let expected = std::fs::read(shapes_file("expected/shapes.npy")).unwrap();
    let floats = |bytes: &[u8]| -> Vec<f32> {
        bytes
            .chunks_exact(4)
            .map(|word| f32::from_le_bytes(word.try_into().unwrap()))
            .collect()
    };
    let expected = floats(&expected[128..]);
    let folder = tempfile::tempdir().unwrap();
    for (row, class) in CLASSES.iter().enumerate().step_by(3) {
        let save = folder.path().join(class);
        let json = run(class, &["--save", save.to_str().unwrap(), "--json"]).json("run");
        let file = std::fs::read(save.join("probabilities.npy")).unwrap();
        let found = floats(&file[file.len() - 48..]);
        for (found, expected) in found.iter().zip(&expected[row * 12..(row + 1) * 12]) {
            assert!(
                (found - expected).abs() <= 1e-4,
                "{class}: {found} for {expected}"
            );
        }
        let top = &json["labels"][0];
        assert_eq!(
            (&top["label"], &top["is"]),
            (&Value::from(*class), &Value::from("probability"))
        );
        assert_eq!(json["outputs"][0]["shape"], serde_json::json!([1, 12]));
        // the picture has a file already, so only the output is written
        assert_eq!(std::fs::read_dir(&save).unwrap().count(), 1);
    }
}

#[test]
fn saved_plan_gives_the_same_answer() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.json");
    let plan = plan.to_str().unwrap();
    let answer = polychip(&["partition", &shapes(), "--json", "-o", plan]).json("partition");
    let written: Value = serde_json::from_str(&std::fs::read_to_string(plan).unwrap()).unwrap();
    assert_eq!(answer["plan"], written);
    assert_eq!(
        answer["report"]["parts"].as_array().unwrap().len(),
        written["parts"].as_array().unwrap().len()
    );
    let label = |text: String| text.lines().next().unwrap().to_owned();
    assert_eq!(
        label(run("heart", &["--plan", plan]).ok()),
        label(run("heart", &[]).ok())
    );
}

#[test]
fn makespan_plan_includes_its_schedule() {
    for (policy, time) in [("makespan", "makespan_ps"), ("throughput", "period_ps")] {
        let answer = polychip(&["partition", &shapes(), "--policy", policy, "--json"]).json("partition");
        let plan = &answer["plan"];
        assert_eq!(plan["objective"]["goal"], policy);
        assert_eq!(plan["schedule"][time], plan["certificate"]["objective"]);
    }
}

#[test]
fn a_front_of_one_device_is_one_plan() {
    let arguments = ["partition", &shapes(), "--devices", "cpu", "--front"];
    let answer = polychip(&[&arguments[..], &["--json"]].concat()).json("partition");
    let front = answer["front"].as_array().unwrap();
    assert_eq!(front.len(), 1);
    assert_eq!(front[0]["totals"]["time_ps"], answer["plan"]["totals"]["time_ps"]);
    let text = polychip(&arguments).ok();
    assert!(text.lines().last().unwrap().ends_with("cpu:0"), "{text}");
}

#[test]
fn measure_settles_on_measured_costs() {
    let arguments = [
        "measure",
        &shapes(),
        "--devices",
        "cpu",
        "--iters",
        "3",
        "--threads",
        "1",
    ];
    let json = polychip(&[&arguments[..], &["--json"]].concat()).json("measure");
    let candidates = json["candidates"].as_array().unwrap();
    assert_eq!(candidates[0]["name"], "cpu:0");
    assert_eq!(json["settled"], true);
    let chosen: Vec<bool> = candidates
        .iter()
        .map(|candidate| candidate["chosen"].as_bool().unwrap())
        .collect();
    assert_eq!(chosen.iter().filter(|chosen| **chosen).count(), 1, "{json}");
    let text = polychip(&arguments).ok();
    assert!(text.contains("→ ") && text.contains("cpu:0: p50"), "{text}");
    assert_eq!(polychip(&["measure", &shapes(), "--devices", "nowhere"]).code, 2);
}

#[test]
fn bench_gives_ordered_percentiles() {
    let json = polychip(&[
        "bench",
        &shapes(),
        "--warmup",
        "1",
        "--iters",
        "5",
        "--threads",
        "1",
        "--json",
    ])
    .json("bench");
    let latency = |key: &str| json["latency_ns"][key].as_u64().unwrap();
    assert!(latency("min") > 0);
    assert!(
        latency("min") <= latency("p10")
            && latency("p10") <= latency("p50")
            && latency("p50") <= latency("p90")
    );
    assert_eq!(
        (&json["iters"], &json["threads"]),
        (&Value::from(5), &Value::from(1))
    );
    assert_eq!(json["report"]["runs"], Value::from(6));
    if cfg!(target_os = "linux") {
        assert!(json["peak_bytes"].as_u64().unwrap() > 1 << 20);
    }
    let text = polychip(&["bench", &shapes(), "--warmup", "0", "--iters", "2"]).ok();
    assert!(
        text.starts_with("latency: p50 ") && text.contains("over 2 runs"),
        "{text}"
    );
}

#[test]
fn bench_runs_concurrent_sessions_for_a_duration() {
    let model = shapes();
    let bench =
        |more: &[&str]| polychip(&[&["bench", &model, "--threads", "1", "--warmup", "1"], more].concat());
    let start = std::time::Instant::now();
    let json = bench(&["--duration", "0.5", "--json"]).json("bench");
    assert!(start.elapsed().as_secs_f64() >= 0.5);
    let runs = json["iters"].as_f64().unwrap();
    // by throughput these runs took the time that was asked for, and one more at most
    let seconds = runs / json["throughput_per_s"].as_f64().unwrap();
    assert!(runs >= 1.0 && seconds >= 0.49, "{runs} runs in {seconds} s");
    let latency = |json: &Value, key: &str| json["latency_ns"][key].as_u64().unwrap();
    assert!(
        latency(&json, "min") <= latency(&json, "mean") && latency(&json, "mean") <= latency(&json, "max")
    );
    for key in ["runtime_ns", "model_ns", "plan_ns", "compile_ns", "first_run_ns"] {
        assert!(json["start"][key].as_u64().unwrap() > 0, "{key} in {json}");
    }

    let json = bench(&["--sessions", "3", "--in-flight", "2", "--iters", "4", "--json"]).json("bench");
    let counts = ["sessions", "in_flight", "iters", "warmup"].map(|key| json[key].as_u64().unwrap());
    assert_eq!(counts, [3, 2, 12, 1]);
    let text = bench(&["--sessions", "2", "--iters", "2"]).ok();
    for words in [
        ", mean ",
        " over 4 runs",
        "in flight in each of 2 sessions",
        "start: plugins loaded in ",
    ] {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
    bench(&["--sessions", "0"]).fails(2, &["--sessions"]);
    bench(&["--duration", "0"]).fails(2, &["--duration"]);
}

#[test]
fn bench_prints_one_line_of_figures_for_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("a, \"b\".onnx");
    std::fs::copy(shapes(), &model).unwrap();
    let model = model.display().to_string();
    let text = polychip(&["bench", &model, "--iters", "3", "--csv"]).ok();
    let mut lines = csv::Reader::from_reader(text.as_bytes());
    let names = lines.headers().unwrap().clone();
    let rows: Vec<csv::StringRecord> = lines.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 1, "{text}");
    let of = |name: &str| &rows[0][names.iter().position(|other| other == name).unwrap()];
    assert_eq!(
        (of("model"), of("runs"), of("sessions"), of("threads")),
        (&*model, "3", "1", "")
    );
    let ns = |name: &str| of(name).parse::<u64>().unwrap();
    assert!(ns("min_ns") > 0 && ns("min_ns") <= ns("p50_ns") && ns("p50_ns") <= ns("max_ns"));
    assert!(ns("first_run_ns") > 0 && of("throughput_per_s").parse::<f64>().unwrap() > 0.0);
}

#[test]
fn explain_names_every_node() {
    let json = polychip(&["explain", &shapes(), "--json"]).json("explain");
    let nodes = json["nodes"].as_array().unwrap();
    let planned: u64 = json["report"]["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part["nodes"].as_u64().unwrap())
        .sum();
    assert_eq!(nodes.len() as u64, planned);
    assert!(
        nodes
            .iter()
            .all(|node| node["device"] == "cpu:0" && node["cost"]["provenance"].is_string())
    );
    let text = polychip(&["explain", &shapes()]).ok();
    assert!(text.contains("Conv") && text.contains("→ cpu:0"), "{text}");
}

#[test]
fn inspect_summarises_the_model() {
    let json = polychip(&["inspect", &shapes(), "--json"]).json("inspect");
    assert_eq!(json["opsets"], serde_json::json!({"": 17}));
    assert_eq!(json["inputs"][0]["shape"], serde_json::json!([1, 3, 96, 96]));
    assert_eq!(json["metadata"]["polychip.input.image"], "rgb/255");
    assert!(json["parameters"].as_u64().unwrap() > 300_000);
    let support = &json["support"];
    assert_eq!(support["unsupported"], serde_json::json!([]));
    assert_eq!(support["devices"][0]["supported"], support["nodes"]);
    let text = polychip(&["inspect", &shapes()]).ok();
    for words in [
        "opset ai.onnx 17",
        "input image: f32 [1, 3, 96, 96]",
        "52 Conv",
        "cpu:0: runs",
    ] {
        assert!(text.contains(words), "{words:?} is not in: {text}");
    }
}

#[test]
fn measurements_are_reused_by_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("device.profile");
    let profile = profile.to_str().unwrap();
    let bench = ["bench", &shapes(), "--iters", "5", "--profile", profile, "--json"];
    let first = polychip(&bench).json("bench");
    assert_ne!(first["report"]["provenance"], "measured");
    let second = polychip(&bench).json("bench");
    assert_eq!(second["report"]["provenance"], "measured");
}

#[test]
fn compiled_parts_are_kept_in_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let arguments = ["--cache", cache.to_str().unwrap(), "--json"];
    let cached = |json: Value| json["report"]["parts"][0]["cached"].as_bool().unwrap();
    let first = run("ring", &arguments).json("run");
    let second = run("ring", &arguments).json("run");
    assert_eq!(first["labels"], second["labels"]);
    assert!(!cached(first) && cached(second));
}

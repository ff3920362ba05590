//! Plans as files: pins, locks, differences with their gates, and the page.

use std::path::Path;

use base64::prelude::*;
use flate2::read::GzDecoder;

use crate::model::{F32, Model, node, port};
use crate::place::Place;
use crate::tool::{Done, polychip};

/// Six nodes in a row, some with names that a page must not take for markup.
const NAMES: [&str; 6] = [
    "head/neg",
    "head/relu",
    "</script><b>x",
    "tail/exp",
    "tail/relu",
    "last",
];
const OPS: [&str; 6] = ["Neg", "Relu", "Abs", "Exp", "Relu", "Neg"];

/// `null:0` runs everything, `null:1` at a tenth of the cost.
const BOTH: &str = r#"
[[device]]
name = "slow"
cost = { fixed_ns = 100000, ps_per_mac = 0, ps_per_byte = 0 }
[[device]]
name = "fast"
cost = { fixed_ns = 10000, ps_per_mac = 0, ps_per_byte = 0 }
"#;

fn place() -> Place {
    let nodes = OPS.iter().zip(NAMES).enumerate();
    let tensor = |at: usize| format!("t{at}");
    let model = Model {
        nodes: nodes
            .map(|(at, (op, name))| node(op, name, &[&tensor(at)], &[&tensor(at + 1)]))
            .collect(),
        inputs: vec![port("t0", F32, &["4"])],
        outputs: vec![port("t6", F32, &["4"])],
        ..Model::default()
    };
    Place::new(|folder| model.write(folder, "m.onnx"))
}

fn partition(place: &Place, script: &str, more: &[&str]) -> Done {
    place.with(script, "partition", &[&["--devices", "null"], more].concat())
}

#[test]
fn plan_diff_reports_moves_and_causes_and_can_fail() {
    let place = place();
    let (old, new) = (place.path("old.json"), place.path("new.json"));
    partition(&place, BOTH, &["-o", &old]).ok();
    let refusing =
        BOTH.to_owned() + "refuse = [{ node = \"tail/exp\", reason = \"vendor\", detail = \"slow\" }]\n";
    partition(&place, &refusing, &["-o", &new]).ok();

    let json = polychip(&["plan", "diff", &old, &new, "--json"]).json("plan-diff");
    let moved = json["moved"].as_array().unwrap();
    assert_eq!(moved.len(), 1, "{json}");
    assert_eq!(
        (&moved[0]["name"], &moved[0]["from"], &moved[0]["to"]),
        (&"tail/exp".into(), &"null:1".into(), &"null:0".into())
    );
    assert_eq!(moved[0]["because"][0]["kind"], "support_lost");
    assert_eq!(json["failed"], serde_json::json!([]));
    let text = polychip(&["plan", "diff", &old, &new]).ok();
    assert!(
        text.starts_with("1 of 6 nodes moved; predicted time ") && text.contains("emulated"),
        "{text}"
    );
    assert!(
        text.contains("tail/exp (Exp): fast (null:1) → slow (null:0): fast (null:1) no longer supports it"),
        "{text}"
    );

    let gate = |gates: &[&str]| {
        let mut arguments = vec!["plan", "diff", &old, &new];
        gates
            .iter()
            .for_each(|gate| arguments.extend(["--fail-on", gate]));
        polychip(&arguments)
    };
    let done = gate(&["moved", "dearer=10"]);
    assert_eq!(done.code, 1);
    assert!(done.stdout.starts_with("1 of 6 nodes moved"));
    assert!(
        done.stderr
            .contains("1 of 6 nodes moved (--fail-on moved); the new plan costs"),
        "{}",
        done.stderr
    );
    assert_eq!(gate(&["dearer"]).code, 1);
    assert_eq!(gate(&["dearer=100000"]).code, 0);
    // the other way the plan gets cheaper, but a node moves
    let back = |gate: &str| polychip(&["plan", "diff", &new, &old, "--fail-on", gate]).code;
    assert_eq!((back("dearer"), back("moved")), (0, 1));
    assert_eq!(
        polychip(&[
            "plan",
            "diff",
            &old,
            &old,
            "--fail-on",
            "moved",
            "--fail-on",
            "dearer"
        ])
        .code,
        0
    );
    polychip(&["plan", "diff", &old, &place.model]).fails(3, &["m.onnx"]);
    polychip(&["plan", "diff", &old, &new, "--fail-on", "cheaper"]).fails(2, &["moved, dearer"]);
}

#[test]
fn lock_holds_until_updated() {
    let place = place();
    partition(&place, BOTH, &["--locked"]).fails(3, &["m.onnx.plan.lock"]);
    partition(&place, BOTH, &["--lock"]).ok();
    partition(&place, BOTH, &["--locked"]).ok();
    // what anything costs may change, and what the lock says holds; what devices support may not
    let dearer = BOTH.replace("fixed_ns = 10000,", "fixed_ns = 20000,");
    partition(&place, &dearer, &["--locked"]).ok();
    let swapped = BOTH.replace("fixed_ns = 10000,", "fixed_ns = 900000,");
    partition(&place, &swapped, &["--locked"]).ok();
    let refusing =
        swapped.clone() + "refuse = [{ node = \"last\", reason = \"vendor\", detail = \"slow\" }]\n";
    partition(&place, &refusing, &["--locked"]).fails(
        1,
        &[
            "m.onnx.plan.lock",
            "1 of 6 nodes moved",
            "fast (null:1) → slow (null:0)",
            "partition --lock",
        ],
    );
    // a run keeps to the lock all the same
    let run = |script: &str| {
        place
            .with(script, "run", &["--fill", "1", "--locked", "--json"])
            .json("run")
    };
    assert_eq!(run(&swapped)["report"]["parts"][0]["device"], "null:1");
    partition(&place, &swapped, &["--lock"]).ok();
    assert_eq!(run(&swapped)["report"]["parts"][0]["device"], "null:0");
    partition(&place, &swapped, &["--locked", "--lock"]).fails(2, &[]);
}

#[test]
fn pins_take_names_and_patterns() {
    let place = place();
    let devices = |pins: &[&str]| -> Vec<String> {
        let mut arguments = vec!["--devices", "null", "--json"];
        pins.iter().for_each(|pin| arguments.extend(["--pin", pin]));
        let json = place.with(BOTH, "explain", &arguments).json("explain");
        let nodes = json["nodes"].as_array().unwrap();
        nodes
            .iter()
            .map(|node| node["device"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(devices(&["head/*=null:0"])[..3], ["null:0", "null:0", "null:1"]);
    assert_eq!(
        devices(&["tail/e?p=null:0", "last=null:0"])[3..],
        ["null:0", "null:1", "null:0"]
    );
    let fails = |pins: &[&str], code: i32, words: &[&str]| {
        let mut arguments = Vec::new();
        pins.iter().for_each(|pin| arguments.extend(["--pin", *pin]));
        partition(&place, BOTH, &arguments).fails(code, words);
    };
    fails(
        &["head/*=null:0", "*relu=null:1"],
        3,
        &["\"head/relu\"", "null:0", "null:1"],
    );
    fails(&["nowhere*=null:0"], 3, &["\"nowhere*\""]);
    fails(&["last=npu:7"], 4, &["npu:7"]);
}

/// `null:0` takes 100 µs and 100 µJ for a node, which is 1 W; `null:1` 10 µs and as much, which is 10 W.
const WARM: &str = r#"
[[device]]
name = "cool"
cost = { fixed_ns = 100000, ps_per_mac = 0, ps_per_byte = 0, fixed_nj = 100000, pj_per_mac = 0, pj_per_byte = 0 }
[[device]]
name = "hot"
cost = { fixed_ns = 10000, ps_per_mac = 0, ps_per_byte = 0, fixed_nj = 100000, pj_per_mac = 0, pj_per_byte = 0 }
"#;

#[test]
fn power_and_temperature_limits_are_met_or_reported() {
    let place = place();
    let json = |more: &[&str]| {
        let done = partition(&place, WARM, &[more, &["--json"]].concat());
        done.json("partition")["report"].clone()
    };
    assert!(json(&[])["limits"].is_null());
    let held = json(&["--max-predicted-power", "4W"]);
    let line = &held["limits"][0];
    assert_eq!(
        (&line["limit"], &line["binds"]),
        (&"power_mw".into(), &true.into())
    );
    assert!(line["seen"].as_i64().unwrap() <= 4000, "{line}");
    assert_eq!(line["free"], 10_000);
    assert!(held["price"]["by"].as_i64().unwrap() > 0, "{held}");
    let text = partition(&place, WARM, &["--max-predicted-power", "0.5"]).ok();
    assert!(
        text.contains("mean power: 1.000 W of 0.500 W, missed by 0.500 W"),
        "{text}"
    );
    // 30 °C and 10 W through 9 K/W are 120 °C
    let heat = ["--max-predicted-temperature", "80C", "--heat", "null:1=30C+9K/W"];
    let text = partition(&place, WARM, &heat).ok();
    assert!(
        text.contains("of 80.0 °C, binds: 120.0 °C without limits"),
        "{text}"
    );
    assert!(
        text.contains("temperature of null:0: unknown, so not enforced"),
        "{text}"
    );
    assert!(text.contains("holding the limits: +"), "{text}");
    // the sensors' limit has the name that the prediction's had: a thermal model shows what was meant
    let text = partition(&place, WARM, &["--max-temperature", "80C", heat[2], heat[3]]).ok();
    let warning = "the thermal model of null:1 changes nothing without max_predicted_temperature";
    assert!(text.contains(warning), "{text}");
    let text = partition(&place, WARM, &["--deadline", "0.3ms", "--policy", "energy"]).ok();
    assert!(text.contains("deadline: "), "{text}");
    for (flag, bad) in [
        ("--max-predicted-power", "warm"),
        ("--heat", "null:1"),
        ("--deadline", "soon"),
    ] {
        partition(&place, WARM, &[flag, bad]).fails(2, &[flag]);
    }
    partition(&place, WARM, &["--heat", "null:7=30C+9K/W"]).fails(4, &["null:7"]);
}

/// The data of a page, unpacked.
pub(crate) fn data_of(page: &str) -> serde_json::Value {
    let (_, rest) = page.split_once("id=\"data\">").unwrap();
    let (packed, _) = rest.split_once("</script>").unwrap();
    let packed = BASE64_STANDARD.decode(packed).unwrap();
    serde_json::from_reader(GzDecoder::new(packed.as_slice())).unwrap()
}

/// The page of a plan.
fn page_of(place: &Place, script: &str, more: &[&str]) -> serde_json::Value {
    let html = place.path("plan.html");
    partition(place, script, &[&["--html", &html], more].concat()).ok();
    data_of(&std::fs::read_to_string(&html).unwrap())
}

#[test]
fn page_and_command_say_the_same() {
    let place = place();
    let refusing =
        BOTH.to_owned() + "refuse = [{ node = \"tail/exp\", reason = \"vendor\", detail = \"slow\" }]\n";
    let text = partition(&place, &refusing, &[]).ok();
    let data = page_of(&place, &refusing, &[]);
    let certificate = data["certificate"].as_str().unwrap();
    assert!(
        text.contains(&format!("\ncertificate: {certificate}\n")),
        "{text}"
    );
    assert!(data["verdict"].as_str().unwrap().contains(certificate));
    // so many times as much of what, and by which devices
    let lines = data["comparisons"].as_array().unwrap();
    assert_eq!(lines.len(), 2);
    for line in lines {
        let words = line[1].as_str().unwrap();
        assert!(words.ends_with("times as much time"), "{words}");
        assert!(text.contains(&format!(": {words}\n")), "{text}");
    }
    assert_eq!(lines[0][0], "priority slow (null:0) > fast (null:1)");
    assert!(text.contains("devices: null:0 is slow; null:1 is fast"), "{text}");
    let energy = partition(&place, WARM, &["--policy", "energy"]).ok();
    assert!(energy.contains(" times as much energy\n"), "{energy}");
    // one part is singular
    let text = partition(&place, BOTH, &[]).ok();
    assert!(text.contains(": 1 part, least time"), "{text}");
    let spans = page_of(&place, &refusing, &[]);
    let spans = spans["timeline"].as_array().unwrap();
    let labels: Vec<&str> = spans.iter().map(|span| span["label"].as_str().unwrap()).collect();
    assert!(labels.contains(&"part 1, 1 node"), "{labels:?}");
}

#[test]
fn makespan_page_shows_the_schedule() {
    // two branches of two nodes, and what joins them
    let place = Place::new(|folder| {
        let model = Model {
            nodes: vec![
                node("Neg", "left", &["x"], &["a"]),
                node("Exp", "left2", &["a"], &["b"]),
                node("Abs", "right", &["x"], &["c"]),
                node("Relu", "right2", &["c"], &["d"]),
                node("Add", "join", &["b", "d"], &["y"]),
            ],
            inputs: vec![port("x", F32, &["4"])],
            outputs: vec![port("y", F32, &["4"])],
            ..Model::default()
        };
        model.write(folder, "m.onnx")
    });
    let equal_costs = BOTH.replace("fixed_ns = 10000,", "fixed_ns = 100000,");
    let data = page_of(&place, &equal_costs, &["--policy", "makespan"]);
    let report = &data["report"];
    let makespan = &report["schedule"]["makespan_ps"];
    assert_eq!(&data["ends_ps"], makespan);
    assert!(
        makespan.as_u64() < report["totals"]["time_ps"].as_u64(),
        "{report}"
    );
    let ends = data["timeline"].as_array().unwrap().iter();
    assert_eq!(
        ends.map(|span| span["end_ps"].as_u64()).max().unwrap(),
        makespan.as_u64()
    );
    let verdict = data["verdict"].as_str().unwrap();
    assert!(verdict.contains("concurrent devices"), "{verdict}");
    assert!(!verdict.contains("before merging"), "{verdict}");
    let text = partition(&place, &equal_costs, &["--policy", "makespan"]).ok();
    assert!(
        text.contains("predicted with concurrent devices: ")
            && text.contains("\nparts run serially: ")
            && text.contains(" times as much time, run serially\n"),
        "{text}"
    );
}

#[test]
fn page_comparison_matches_plan_diff() {
    let place = place();
    let (old, new) = (place.path("old.json"), place.path("new.json"));
    partition(&place, BOTH, &["-o", &old]).ok();
    let refusing =
        BOTH.to_owned() + "refuse = [{ node = \"tail/exp\", reason = \"vendor\", detail = \"slow\" }]\n";
    let data = page_of(&place, &refusing, &["--against", &old, "-o", &new]);
    let against = &data["against"];
    let text = polychip(&["plan", "diff", &old, &new]).ok();
    assert_eq!(text.lines().next(), against["headline"].as_str());
    assert_eq!(against["moved"], serde_json::json!([[3, "null:1"]]));
    assert_eq!(against["devices"][1]["nodes"], 6);
    assert!(page_of(&place, BOTH, &[])["against"].is_null());
    partition(&place, BOTH, &["--against", &old]).fails(2, &["--html"]);
    let html = place.path("plan.html");
    partition(&place, BOTH, &["--html", &html, "--against", &place.model]).fails(3, &["m.onnx"]);
}

#[test]
fn the_page_holds_the_plan() {
    let place = place();
    let html = place.path("plan.html");
    partition(&place, BOTH, &["--html", &html]).ok();
    let page = std::fs::read_to_string(&html).unwrap();
    let data = data_of(&page);
    assert_eq!(data["nodes"]["names"], serde_json::json!(NAMES));
    assert_eq!(data["edges"].as_array().unwrap().len(), 5);
    assert_eq!(data["devices"][1]["emulated"], true);
    let end = data["timeline"].as_array().unwrap().last().unwrap()["end_ps"].clone();
    assert_eq!(end, data["report"]["totals"]["time_ps"]);
    // what devices are used for adds up to the plan
    let devices = data["devices"].as_array().unwrap().iter();
    let times = ["compute_ps", "launch_ps", "transfer_ps"];
    let busy = devices.flat_map(|device| times.map(|time| device[time].as_u64().unwrap()));
    assert_eq!(Some(busy.sum()), data["report"]["totals"]["time_ps"].as_u64());
    // what the plan would cost with the first node on the other device
    assert!(!data["nodes"]["on"][0]["forced"][0].is_null());
    assert_eq!(data["devices"][1]["label"], "fast (null:1)");
    let verdict = data["verdict"].as_str().unwrap();
    assert!(verdict.contains("all 6 nodes on fast (null:1)"), "{verdict}");
    assert!(!Path::new(&place.model).with_extension("onnx.plan.lock").exists());
}

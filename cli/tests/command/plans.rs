//! Plans as files: pins, locks, differences with their gates, and the page.

use std::path::Path;

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
fn a_difference_names_moves_and_causes_and_may_fail() {
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
        text.starts_with("1 of 6 nodes moved\n") && text.contains("emulated"),
        "{text}"
    );
    assert!(
        text.contains("tail/exp (Exp): null:1 → null:0: null:1 does not take it any more"),
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
            .contains("1 of 6 nodes moved (--fail-on moved); the new plan is dearer by"),
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
fn a_lock_holds_until_it_is_made_anew() {
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
            "null:1 → null:0",
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
fn limits_of_power_and_temperature_are_held_or_said_to_be_missed() {
    let place = place();
    let json = |more: &[&str]| {
        let done = partition(&place, WARM, &[more, &["--json"]].concat());
        done.json("partition")["report"].clone()
    };
    assert!(json(&[])["limits"].is_null());
    let held = json(&["--max-power", "4W"]);
    let line = &held["limits"][0];
    assert_eq!(
        (&line["limit"], &line["binds"]),
        (&"power_mw".into(), &true.into())
    );
    assert!(line["seen"].as_i64().unwrap() <= 4000, "{line}");
    assert_eq!(line["free"], 10_000);
    assert!(held["price"]["by"].as_i64().unwrap() > 0, "{held}");
    let text = partition(&place, WARM, &["--max-power", "0.5"]).ok();
    assert!(
        text.contains("mean power: 1.000 W of 0.500 W, missed by 0.500 W"),
        "{text}"
    );
    // 30 °C and 10 W through 9 K/W are 120 °C
    let heat = ["--max-temperature", "80C", "--heat", "null:1=30C+9K/W"];
    let text = partition(&place, WARM, &heat).ok();
    assert!(
        text.contains("of 80.0 °C, binds: 120.0 °C without limits"),
        "{text}"
    );
    assert!(
        text.contains("temperature of null:0: not known, so not limited"),
        "{text}"
    );
    assert!(text.contains("holding the limits: +"), "{text}");
    let text = partition(&place, WARM, &["--deadline", "0.3ms", "--policy", "energy"]).ok();
    assert!(text.contains("deadline: "), "{text}");
    for (flag, bad) in [
        ("--max-power", "warm"),
        ("--heat", "null:1"),
        ("--deadline", "soon"),
    ] {
        partition(&place, WARM, &[flag, bad]).fails(2, &[flag]);
    }
    partition(&place, WARM, &["--heat", "null:7=30C+9K/W"]).fails(4, &["null:7"]);
}

#[test]
fn the_page_holds_the_plan() {
    let place = place();
    let html = place.path("plan.html");
    partition(&place, BOTH, &["--html", &html]).ok();
    let page = std::fs::read_to_string(&html).unwrap();
    let data = page
        .split_once("id=\"data\">")
        .unwrap()
        .1
        .split_once("</script>")
        .unwrap()
        .0;
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    let names: Vec<&str> = data["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| node["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, NAMES);
    assert_eq!(data["edges"].as_array().unwrap().len(), 5);
    assert_eq!(data["devices"][1]["emulated"], true);
    let end = data["timeline"].as_array().unwrap().last().unwrap()["end_ps"].clone();
    assert_eq!(end, data["report"]["totals"]["time_ps"]);
    assert!(!data["nodes"][0]["alternatives"][0]["counterfactual"].is_null());
    assert!(!Path::new(&place.model).with_extension("onnx.plan.lock").exists());
}

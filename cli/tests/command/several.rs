//! Several models that share devices: `polychip serve-sim`.

use serde_json::Value;

use crate::tool::{polychip, repository, shapes};

fn camera() -> String {
    let file = repository().join("docs/examples/several-models/camera.toml");
    file.display().to_string()
}

fn simulated(arguments: &[&str]) -> Value {
    let camera = camera();
    let mut all = vec!["serve-sim", &camera, "--json"];
    all.extend(arguments);
    polychip(&all).json("serve-sim")
}

fn misses(answer: &Value) -> Vec<u64> {
    let models = answer["models"].as_array().unwrap();
    models
        .iter()
        .map(|model| model["misses"].as_u64().unwrap())
        .collect()
}

#[test]
fn whole_models_miss_and_parts_from_deadlines_do_not() {
    let whole = simulated(&[]);
    assert_eq!(whole["admitted"], false);
    assert!(misses(&whole)[0] > 100, "{:?}", misses(&whole));
    let refusal = &whole["refusal"];
    assert_eq!(refusal["proof"], "misses");
    // a camera's frame of 8.5 ms, and 60.5 ms of the background, within 33.3 ms
    assert_eq!(refusal["instant"]["supply_ns"], 33_300_000);
    assert_eq!(refusal["instant"]["due_ns"], 8_500_000);
    assert_eq!(refusal["instant"]["blocking_ns"], 60_499_999);
    assert!(refusal["miss"]["ended_ns"].as_u64() > refusal["miss"]["due_ns"].as_u64());
    assert!(!refusal["would_fit"].as_array().unwrap().is_empty());

    for (longest, background) in [("20", 8.78), ("10", 8.48)] {
        for how in ["periodic", "sporadic"] {
            let cut = simulated(&["--max-part", longest, "--arrivals", how]);
            assert_eq!(
                (&cut["admitted"], &cut["refusal"]),
                (&Value::Bool(true), &Value::Null)
            );
            assert_eq!(misses(&cut), [0, 0, 0]);
            if how == "periodic" {
                let rate = cut["models"][2]["per_s"].as_f64().unwrap();
                assert!((rate - background).abs() < 0.05, "{rate}");
            }
        }
    }
    // the same seed gives the same answer
    assert_eq!(simulated(&["--seed", "7"]), simulated(&["--seed", "7"]));
    assert_ne!(
        simulated(&["--seed", "7"])["models"],
        simulated(&["--seed", "8"])["models"]
    );
}

#[test]
fn a_refused_set_fails_where_it_is_to() {
    let camera = camera();
    let done = polychip(&[
        "serve-sim",
        &camera,
        "--fail-on",
        "refused",
        "--fail-on",
        "missed",
    ]);
    assert_eq!(done.code, 1, "{}", done.stderr);
    assert!(
        done.stdout.starts_with("refused: npu:0, normal: within 33.3 ms"),
        "{}",
        done.stdout
    );
    assert!(done.stderr.contains("the set is refused") && done.stderr.contains("were late"));
    let cut = [
        "serve-sim",
        &camera,
        "--max-part",
        "20",
        "--fail-on",
        "refused",
        "--fail-on",
        "missed",
    ];
    let text = polychip(&cut).ok();
    assert!(text.starts_with("admitted: "), "{text}");
    assert!(text.contains("times of camera: stated in the file"), "{text}");
}

#[test]
fn what_is_wrong_with_a_set_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("set.toml");
    let path = file.to_str().unwrap();
    let says = |text: &str, words: &[&str]| {
        std::fs::write(&file, text).unwrap();
        let mut all = vec!["set.toml"];
        all.extend(words);
        polychip(&["serve-sim", path]).fails(3, &all);
    };
    let model = "[[model]]\nname = \"a\"\n";
    let parts = "parts = [{ device = \"d:0\", time_ms = 5 }]\n";
    says("[[model]]\nperid_ms = 3\n", &["perid_ms", "period_ms"]);
    says(
        &format!("{model}{parts}period_ms = 0\n"),
        &["model a", "period_ms is 0"],
    );
    says(
        &format!("{model}{parts}deadline_ms = 4\n"),
        &["model a", "no period_ms"],
    );
    says(
        &format!("{model}period_ms = 4\n"),
        &["model a", "neither parts nor path"],
    );
    says(
        &format!("{model}{parts}{model}{parts}"),
        &["model a", "two of that name"],
    );
    says(
        &format!("[[device]]\nname = \"d:1\"\n{model}{parts}"),
        &["model a", "no device d:0", "d:1"],
    );
    says(
        &format!("{model}parts = [{{ device = \"d:0\", time_ms = -1 }}]\n"),
        &["model a", "-1"],
    );
    says("[[model]]\npath = \"none.onnx\"\n", &["none.onnx"]);
    polychip(&["serve-sim", "/nowhere.toml"]).fails(3, &["/nowhere.toml"]);
    polychip(&["serve-sim", path, "--seconds", "0"]).fails(2, &["--seconds"]);

    // runs of a model that is due after its period overlap, which is said
    std::fs::write(&file, format!("{model}{parts}period_ms = 10\ndeadline_ms = 25\n")).unwrap();
    let text = polychip(&["serve-sim", path]).ok();
    assert!(
        text.contains("a: due after 25 ms, later than its period of 10 ms: runs overlap"),
        "{text}"
    );
}

#[test]
fn a_model_is_planned_where_the_file_states_no_times() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("set.toml");
    let model = shapes();
    let text = format!(
        "[[model]]\npath = {model:?}\ndevices = [\"cpu\"]\nthreads = 1\nperiod_ms = 1000\nmargin_percent = 20\n"
    );
    std::fs::write(&file, text).unwrap();
    let answer = polychip(&["serve-sim", file.to_str().unwrap(), "--json"]).json("serve-sim");
    assert_eq!(answer["admitted"], true);
    let planned = &answer["models"][0];
    assert_eq!(
        (&planned["model"], &planned["parts"][0]["device"]),
        (&"shapes".into(), &"cpu:0".into())
    );
    let times = planned["times"][0].as_str().unwrap();
    assert!(
        times.starts_with("part 0 on cpu:0: ") && times.ends_with("plus 20 %"),
        "{times}"
    );
    assert!(answer["devices"][0]["memory_bytes"].as_u64() > Some(0));
}

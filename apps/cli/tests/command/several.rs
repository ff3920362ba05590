//! Several models that share devices: `polychip serve-sim`.

use serde_json::Value;

use crate::tool::{polychip, repository, shapes};

fn camera() -> String {
    let file = repository().join("examples/several-models/camera.toml");
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
fn refused_set_fails_only_if_requested() {
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
        done.stdout
            .starts_with("refused: npu:0, normal: demand within 33.3 ms"),
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
fn set_errors_are_specific() {
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
        &["model a", "the name is used twice"],
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
fn model_without_stated_times_is_planned() {
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

#[test]
fn preemptible_device_needs_no_cuts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("set.toml");
    let path = file.to_str().unwrap();
    let answer = |device: &str| {
        let text = std::fs::read_to_string(camera()).unwrap();
        let (before, after) = text.split_once("name = \"npu:0\"\n").unwrap();
        let after = after.replace("priority = \"normal\"", "priority = \"urgent\"");
        std::fs::write(&file, format!("{before}name = \"npu:0\"\n{device}\n{after}")).unwrap();
        polychip(&["serve-sim", path, "--json"]).json("serve-sim")
    };
    let unshared = "share_percent = { normal = 0, batch = 0 }\n";
    assert_eq!(answer(unshared)["admitted"], false);
    let gives_way = answer(&format!("{unshared}preemption_ms = 1"));
    // by its share the background may have its turn before a frame, and nothing proves that it gives way then
    let shared = answer("preemption_ms = 1");
    assert_eq!(shared["admitted"], false);
    assert_eq!(shared["refusal"]["proof"], "sufficient_only", "{shared}");
    assert_eq!(gives_way["admitted"], true, "{gives_way}");
    assert_eq!(misses(&gives_way), [0, 0, 0]);
    let device = &gives_way["devices"][0];
    assert_eq!(device["preemption_ns"], 1_000_000);
    assert!(device["longest_part_ns"].is_null());
    // speech of the same class runs to its end, and a millisecond of the background is before each part
    let tightest = &device["tightest"][0];
    assert!(
        tightest["blocking_ns"].as_u64().unwrap() < 25_000_000,
        "{tightest}"
    );
    // two switches for each part take what was left
    let switches = answer(&format!("{unshared}preemption_ms = 1\nswitch_ms = 6"));
    assert_eq!(switches["admitted"], false, "{switches}");
    assert_eq!(switches["devices"][0]["switch_ns"], 6_000_000);
    std::fs::write(
        &file,
        "[[device]]\nname = \"d:0\"\nswitch_ms = -1\n[[model]]\nname = \"a\"\n",
    )
    .unwrap();
    polychip(&["serve-sim", path]).fails(3, &["device d:0", "switch_ms is -1"]);
}

#[test]
fn real_runs_are_reported_with_the_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("set.toml");
    let path = file.to_str().unwrap();
    let model = shapes();
    let row = |name: &str, more: &str| {
        format!("[[model]]\nname = {name:?}\npath = {model:?}\ndevices = [\"cpu\"]\nthreads = 1\n{more}\n")
    };
    let camera = row(
        "camera",
        "period_ms = 50\npriority = \"urgent\"\nmargin_percent = 20",
    );
    let batch = row("behind", "priority = \"batch\"\nmargin_percent = 20");
    std::fs::write(&file, format!("{camera}{batch}")).unwrap();
    let real = [
        "serve-sim",
        path,
        "--real",
        "--seconds",
        "1",
        "--arrivals",
        "periodic",
    ];
    let answer = polychip(&[&real[..], &["--json"]].concat()).json("serve-sim");
    assert_eq!(answer["simulated"]["clock"], "real");
    assert!(answer["devices"][0]["busy"].is_null());
    let [camera, behind] = [&answer["models"][0], &answer["models"][1]];
    // every 50 ms of a second, whatever became of the runs before
    assert_eq!(
        (&camera["model"], &camera["runs"]),
        (&"camera".into(), &20.into())
    );
    assert!(camera["latency_ns"]["min"].as_u64() > Some(0), "{camera}");
    assert!(camera["misses"].as_u64() <= Some(20), "{camera}");
    assert!(behind["runs"].as_u64() > Some(5), "{behind}");
    assert!(behind["per_s"].as_f64() > Some(5.0), "{behind}");
    assert_eq!(behind["misses"], 0);
    let text = polychip(&real).ok();
    assert!(text.contains("ran 1 s on this machine, periodic"), "{text}");

    // a run that cannot be in time is counted, and fails where it is to
    let late = row("late", "period_ms = 100\ndeadline_ms = 0.000001");
    std::fs::write(&file, &late).unwrap();
    let done = polychip(&[&real[..], &["--fail-on", "missed"]].concat());
    assert_eq!(done.code, 1, "{}", done.stderr);
    assert!(done.stderr.contains("10 runs were late"), "{}", done.stderr);
    assert!(done.stdout.contains("late arrived at 0 ms"), "{}", done.stdout);

    // stated parts cannot run
    let stated = "[[model]]\nname = \"speech\"\nparts = [{ device = \"cpu:0\", time_ms = 5 }]\n";
    std::fs::write(&file, format!("{batch}{stated}")).unwrap();
    polychip(&real).fails(3, &["set.toml", "--real", "speech"]);
}

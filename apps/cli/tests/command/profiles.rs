//! `polychip profile`: measuring, and profiles as files.

use crate::tool::{polychip, profiling, shapes};

/// Measures the model that ships into a file.
fn profiled(path: &str, more: &[&str]) -> serde_json::Value {
    let arguments = profiling(path);
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    arguments.extend(more);
    arguments.push("--json");
    polychip(&arguments).json("profile")
}

/// A profile of the model that ships, and its path.
fn measured(folder: &tempfile::TempDir, name: &str) -> String {
    let path = folder.path().join(name).display().to_string();
    let answer = profiled(&path, &["--precision-goal", "100"]);
    assert_eq!(answer["complete"], true);
    assert_eq!(
        (&answer["known"], &answer["known_before"]),
        (&answer["parts"], &0.into())
    );
    assert_eq!(answer["not_measured"].as_array().unwrap().len(), 0, "{answer}");
    assert!(answer["measurements"].as_u64().unwrap() >= 11 * answer["parts"].as_u64().unwrap());
    path
}

#[test]
fn measurements_are_stored_and_not_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let path = measured(&folder, "a.profile");
    let again = profiled(&path, &["--no-wholes", "--precision-goal", "100"]);
    assert_eq!(
        (&again["measurements"], &again["complete"]),
        (&0.into(), &true.into())
    );
    let shown = polychip(&["profile", "show", &path, "--json"]).json("profile-show");
    let parts = shown["parts"].as_array().unwrap();
    assert!(
        parts
            .iter()
            .any(|part| part["part"].as_str().unwrap().starts_with("Conv+Clip f32 ")),
        "{shown}"
    );
    for part in parts {
        assert!(part["samples"].as_u64().unwrap() >= 11, "{part}");
        assert!(part["newest_us"].as_u64().unwrap() > 0);
        assert!(part["sources"][0].as_str().unwrap().starts_with("by "));
        let interval = &part["interval"];
        let [low, high] = ["low_ns", "high_ns"].map(|end| interval[end].as_u64().unwrap());
        let p50 = part["p50_ns"].as_u64().unwrap();
        assert!(low <= p50 && p50 <= high, "{part}");
    }
    // a plan is made of it
    let plan = [
        "partition",
        &shapes(),
        "--devices",
        "cpu",
        "--threads",
        "1",
        "--profile",
        &path,
    ];
    let plan = polychip(&[&plan[..], &["--json"]].concat()).json("partition");
    assert_eq!(
        plan["report"]["parts"][0]["cost"]["provenance"], "measured",
        "{plan}"
    );
    // and says of how many runs
    let figure = &plan["measured"][0];
    assert_eq!((&figure["device"], &figure["part"]), (&"cpu:0".into(), &0.into()));
    let [used, all] = ["batches", "all_batches"].map(|name| figure[name].as_u64().unwrap());
    assert!(
        0 < used && used <= all && figure["samples"].as_u64().unwrap() >= 11,
        "{figure}"
    );
}

#[test]
fn profiles_are_exported_merged_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let path = measured(&folder, "a.profile");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (json, other) = (file("a.json"), file("b.profile"));
    polychip(&["profile", "export", &json, "--profile", &path]).ok();
    let exported = polychip(&["profile", "export", "-", "--profile", &path]).json("profile-export");
    let written: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(exported, written);
    let merged = polychip(&["profile", "import", &json, "--profile", &other, "--json"]).json("profile-merge");
    assert!(merged["from"][0]["measurements"].as_u64().unwrap() > 0);
    let merged = polychip(&["profile", "merge", &other, &path, &json, "--json"]).json("profile-merge");
    for from in merged["from"].as_array().unwrap() {
        assert_eq!(
            (&from["measurements"], &from["batches"]),
            (&0.into(), &0.into()),
            "{from}"
        );
    }
    let same =
        polychip(&["profile", "diff", &path, &other, "--json", "--fail-on", "slower"]).json("profile-diff");
    assert_eq!(
        (&same["removed"], &same["added"], &same["failed"]),
        (&0.into(), &0.into(), &serde_json::Value::Null)
    );
    // every time ten times as long
    let mut slow = written.clone();
    for part in slow["parts"].as_array_mut().unwrap() {
        for batch in part["batches"].as_array_mut().unwrap() {
            for time in batch["times_ns"].as_array_mut().unwrap() {
                *time = (time.as_u64().unwrap() * 10).into();
            }
        }
    }
    let slow_file = file("slow.json");
    std::fs::write(&slow_file, slow.to_string()).unwrap();
    let gated = ["profile", "diff", &path, &slow_file, "--fail-on", "slower=100"];
    let done = polychip(&gated);
    assert_eq!(done.code, 1, "{}", done.stdout);
    assert!(
        done.stderr.contains("parts are slower by more than 100 %"),
        "{}",
        done.stderr
    );
    polychip(&["profile", "diff", &slow_file, &path, "--fail-on", "slower"]).ok();
    let text = polychip(&["profile", "diff", &path, &slow_file]).ok();
    assert!(
        text.contains("slower by 9") && text.contains("on cpu:0 threads=1"),
        "{text}"
    );
}

#[test]
fn invalid_profile_files_are_bad_input() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (text, json) = (
        file("notes.txt", &"notes ".repeat(2_000)),
        file("other.json", "{\"a\": 1}"),
    );
    let missing = folder.path().join("missing").display().to_string();
    for bad in [&text, &json, &missing] {
        polychip(&["profile", "diff", bad, bad]).fails(3, &[bad]);
        polychip(&["profile", "show", bad]).fails(3, &[bad]);
    }
    assert!(!std::path::Path::new(&missing).exists());
    polychip(&["profile", &shapes(), "--profile", &text]).fails(3, &["unchanged"]);
}

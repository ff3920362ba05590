//! The person's file of defaults: what it adds to a command line, what goes before it, and what is wrong with one.

use std::process::Command;

use crate::tool::{alone, polychip_with, profiling, shapes};

/// A file of defaults in a folder of its own.
struct File(tempfile::TempDir);

impl File {
    fn new(text: &str) -> File {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("polychip")).unwrap();
        let file = File(folder);
        std::fs::write(file.path(), text).unwrap();
        file
    }

    fn path(&self) -> String {
        self.0.path().join("polychip/config.toml").display().to_string()
    }
}

const BENCH: [&str; 5] = ["--warmup", "0", "--iters", "2", "--json"];

#[test]
fn defaults_file_applies_unless_overridden() {
    let file = File::new("threads = 2\ndevices = [\"cpu\"]\nprecision = \"reduced\"\n");
    let variable = [("POLYCHIP_CONFIG", &*file.path())];
    let model = shapes();
    let bench = |more: &[&str]| {
        let line = [&["bench", &model], &BENCH[..], more].concat();
        polychip_with(&variable, &line).json("bench")
    };
    let json = bench(&[]);
    assert_eq!(
        (&json["threads"], &json["precision"]),
        (&2.into(), &"reduced".into())
    );
    assert_eq!(bench(&["--threads", "1"])["threads"], 1);
    // a device that is not there, in the file alone
    let wrong = File::new("devices = \"npu:7\"");
    let variable = [("POLYCHIP_CONFIG", &*wrong.path())];
    let line = [&["bench", &model], &BENCH[..]].concat();
    polychip_with(&variable, &line).fails(4, &["there is no device npu:7"]);
    polychip_with(&variable, &[&line[..], &["--devices", "cpu"]].concat()).json("bench");
    // a command without such an option does not mind
    polychip_with(&variable, &["devices", "--json"]).json("devices");
    // an option that excludes it
    let plan = file.0.path().join("plan").display().to_string();
    polychip_with(&[], &["partition", &model, "-o", &plan]).ok();
    polychip_with(&variable, &[&line[..], &["--plan", &plan]].concat()).json("bench");
}

#[test]
#[cfg(target_os = "linux")]
fn defaults_file_is_in_the_settings_folder() {
    let file = File::new("threads = 3");
    let model = shapes();
    let output = Command::new(alone())
        .args([&["bench", &model], &BENCH[..]].concat())
        .env_remove("POLYCHIP_CONFIG")
        .env("XDG_CONFIG_HOME", file.0.path())
        .output()
        .unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["threads"], 3);
}

#[test]
fn required_options_may_come_from_the_defaults_file() {
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("a.profile").display().to_string();
    let line = profiling(&profile);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    polychip_with(&[], &[&line[..], &["--precision-goal", "100"]].concat()).ok();
    let file = File::new(&format!("profile = {profile:?}\n"));
    let variable = [("POLYCHIP_CONFIG", &*file.path())];
    let shown = |variables: &[(&str, &str)], more: &[&str]| {
        polychip_with(variables, &[&["profile", "show", "--json"], more].concat()).json("profile-show")
    };
    let by_file = shown(&variable, &[]);
    assert_eq!(by_file, shown(&[], &["--profile", &profile]));
    assert_eq!(by_file, shown(&[], &[&profile]));
    assert!(!by_file["parts"].as_array().unwrap().is_empty());
    // an option that the command cannot do without
    let written = polychip_with(&variable, &["profile", "export", "-"]).ok();
    assert_eq!(
        written,
        polychip_with(&[], &["profile", "export", "-", "--profile", &profile]).ok()
    );
    for command in [&["profile", "show"][..], &["profile", "export", "-"]] {
        polychip_with(&[], command).fails(2, &["--profile"]);
    }
}

#[test]
fn unusable_defaults_file_is_bad_usage() {
    let model = shapes();
    for (text, words) in [
        (
            "json = true",
            &["unknown option \"json\"", "devices", "threads"][..],
        ),
        ("threads = 0", &["--threads", "0 is not in 1..=1024"]),
        ("threads = {}", &["threads: expected a string"]),
        ("threads", &["TOML"]),
    ] {
        let file = File::new(text);
        let path = file.path();
        let done = polychip_with(&[("POLYCHIP_CONFIG", &path)], &["bench", &model]);
        done.fails(2, &[&[&*path], words].concat());
    }
    let nowhere = [("POLYCHIP_CONFIG", "/nowhere/config.toml")];
    polychip_with(&nowhere, &["bench", &model]).fails(2, &["/nowhere/config.toml", "POLYCHIP_CONFIG"]);
}

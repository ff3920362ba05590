//! `--period`: what is measured and planned for the app's own cadence.

use serde_json::Value;

use crate::model::add_relu;
use crate::tool::{null_plugin, polychip, polychip_with};

/// A GPU whose clock falls between runs, beside a CPU whose clock stays.
const SCRIPT: &str = "
[[device]]
name = \"gpu\"
cost = { fixed_ns = 1e6, ps_per_byte = 0.0 }
idle = { after_ms = 60, time_permille = 9000 }
[[device]]
name = \"cpu\"
cost = { fixed_ns = 4e6, ps_per_byte = 0.0 }
";

#[test]
fn measurements_and_plans_use_the_requested_period() {
    let plugins = null_plugin();
    let folder = tempfile::tempdir().unwrap();
    let model = add_relu().write(folder.path(), "m.onnx");
    let script = folder.path().join("script.toml");
    std::fs::write(&script, SCRIPT).unwrap();
    let profile = folder.path().join("device.profile").display().to_string();
    let command = |name: &str, more: &[&str]| -> Value {
        let mut arguments = vec![name, &model, "--dim", "n=2", "--devices", "null", "--json"];
        arguments.extend([
            "--plugins",
            plugins.path().to_str().unwrap(),
            "--profile",
            &profile,
        ]);
        arguments.extend(more);
        polychip_with(&[("POLYCHIP_NULL_SCRIPT", script.to_str().unwrap())], &arguments).json(name)
    };
    for (period, ns, cadence) in [("0", 0, "back-to-back"), ("10fps", 100_000_000, "56..112ms")] {
        let measured = command("measure", &["--period", period, "--iters", "3", "--mixed", "0"]);
        assert_eq!(
            (&measured["period_ns"], &measured["cadence"]),
            (&ns.into(), &cadence.into())
        );
        assert_eq!(measured["settled"], true, "{measured}");
    }
    let planned = |period: &str| {
        let explained = command("explain", &["--period", period]);
        let figures = explained["measured"].as_array().unwrap().clone();
        assert!(!figures.is_empty(), "{explained}");
        for figure in figures {
            assert_eq!(figure["cadence"], explained["cadence"], "{figure}");
            assert_eq!(figure["inherited"], false, "{figure}");
        }
        explained["nodes"][0]["device"].as_str().unwrap().to_owned()
    };
    assert_eq!([planned("0"), planned("100ms")], ["null:0", "null:1"]);
    // nobody measured this one
    let explained = command("explain", &["--period", "30ms"]);
    assert_eq!(explained["measured"][0]["inherited"], true, "{explained}");
    let benched = command("bench", &["--period", "30ms", "--iters", "3", "--warmup", "1"]);
    assert_eq!(benched["period_ns"], 30_000_000);
    assert_eq!(benched["report"]["cadence"], "28..56ms");
    let shown = polychip(&["profile", "show", &profile, "--json"]).json("profile-show");
    let mut cadences: Vec<&str> = shown["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part["cadence"].as_str().unwrap())
        .collect();
    cadences.sort_unstable();
    cadences.dedup();
    assert!(
        cadences.contains(&"back-to-back") && cadences.contains(&"56..112ms"),
        "{cadences:?}"
    );
}

#[test]
fn a_period_is_a_time_or_a_rate() {
    for bad in ["often", "-1", "0fps"] {
        let told = polychip(&["explain", "m.onnx", &format!("--period={bad}")]);
        told.fails(2, &["e.g. 33ms, 1s, 30fps, or 0 for back to back"]);
    }
}

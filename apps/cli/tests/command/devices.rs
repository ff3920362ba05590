//! Devices and plugins: what is listed, what is refused, what fails while it runs.

use std::path::Path;
use std::process::Command;

use crate::model::add_relu;
use crate::tool::{library_name, null_plugin, polychip, polychip_with, shapes};

/// Compiles a plugin of C, by the compiler that Rust links with.
fn c_plugin(folder: &Path, name: &str, source: &str) {
    let (file, library) = (folder.join("source.c"), folder.join(library_name(name)));
    std::fs::write(&file, source).unwrap();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &file])
        .output()
        .expect("a C compiler (cc)");
    std::fs::remove_file(&file).unwrap();
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
}

#[test]
fn the_cpu_is_always_there() {
    let json = polychip(&["devices", "--json"]).json("devices");
    let cpu = &json["devices"][0];
    assert_eq!(
        (&cpu["name"], &cpu["kind"], &cpu["emulated"]),
        (&"cpu:0".into(), &"cpu".into(), &false.into())
    );
    assert!(cpu["plugin"]["path"].is_null());
    let sensors = cpu["sensors"].as_array().unwrap();
    let quantities: Vec<&str> = sensors
        .iter()
        .map(|line| line["quantity"].as_str().unwrap())
        .collect();
    assert_eq!(
        quantities,
        [
            "temperature_mc",
            "power_mw",
            "energy_uj",
            "frequency_khz",
            "load_permille"
        ]
    );
    for line in sensors {
        let [value, sensor, reason] = ["value", "sensor", "reason"].map(|name| !line[name].is_null());
        assert!(value == sensor && value != reason, "{line}");
    }
    let text = polychip(&["devices"]).ok();
    assert!(
        text.starts_with("cpu:0: ") && text.contains("plugin cpu "),
        "{text}"
    );
    assert!(
        text.contains("  sensors: ") || text.contains("  without: "),
        "{text}"
    );
}

#[test]
fn missing_device_is_exit_code_4() {
    let model = shapes();
    for command in ["run", "bench", "partition", "explain", "inspect"] {
        let mut arguments = vec![command, &model, "--devices", "npu:3"];
        if command == "run" {
            arguments.extend(["--fill", "1"]);
        }
        polychip(&arguments).fails(4, &["there is no device npu:3", "cpu:0", "`polychip devices`"]);
    }
}

#[test]
fn refused_libraries_are_listed_with_their_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file =
        |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(library_name(name)), bytes).unwrap();
    file("garbage", b"this is no library at all");
    file("empty", b"");
    let mut foreign = vec![0u8; 4096];
    foreign[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    foreign[18] = if cfg!(target_arch = "s390x") { 62 } else { 22 };
    file("foreign", &foreign);
    c_plugin(folder.path(), "nosymbol", "int unrelated;\n");
    let names = ["garbage", "empty", "foreign", "nosymbol"];
    let plugins = folder.path().to_str().unwrap();
    let json = polychip(&["devices", "--plugins", plugins, "--json"]).json("devices");
    for name in &names {
        let subject = folder.path().join(library_name(name)).display().to_string();
        let line = json["refused"]
            .as_array()
            .unwrap()
            .iter()
            .find(|line| line["subject"] == *subject);
        assert!(!line.unwrap()["reason"].as_str().unwrap().is_empty());
    }
    assert_eq!(json["devices"][0]["name"], "cpu:0");
    let text = polychip(&["devices", "--plugins", plugins]).ok();
    assert!(text.contains("not used:\n"), "{text}");
    // a run continues without them and reports it; one that asks for them cannot
    let done = polychip(&["run", &shapes(), "--fill", "1", "--plugins", plugins]);
    assert!(
        done.stderr.contains("warning: not used: ") && done.stderr.contains("garbage"),
        "{}",
        done.stderr
    );
    done.ok();
    let arguments = [
        "run",
        &shapes(),
        "--fill",
        "1",
        "--plugins",
        plugins,
        "--devices",
        "garbage",
    ];
    polychip(&arguments).fails(
        4,
        &[
            "there is no device garbage",
            &library_name("garbage"),
            "not a shared library",
        ],
    );
}

#[test]
fn library_output_does_not_reach_stdout() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <stdio.h>\n#include <stdint.h>\n\
        const void *polychip_plugin_query(uint32_t a, uint32_t b)\n\
        { (void)a; (void)b; puts(\"BANNER OF A VENDOR\"); fflush(stdout); return 0; }\n";
    c_plugin(folder.path(), "loud", source);
    let done = polychip(&["devices", "--plugins", folder.path().to_str().unwrap(), "--json"]);
    assert!(done.stderr.contains("BANNER OF A VENDOR"), "{}", done.stderr);
    assert!(!done.stdout.contains("BANNER"), "{}", done.stdout);
    done.json("devices");
}

#[test]
fn a_setting_reaches_its_plugin() {
    let plugins = null_plugin();
    let plugins = plugins.path().to_str().unwrap();
    let listed = |set: &[&str]| {
        let mut arguments = vec!["devices", "--plugins", plugins, "--json"];
        arguments.extend(set);
        polychip(&arguments).json("devices")["devices"].to_string()
    };
    let script = "null.script=[[device]]\nname = \"set by hand\"\n";
    assert!(listed(&["--set", script]).contains("set by hand"));
    assert!(!listed(&[]).contains("set by hand"));
}

#[test]
fn parts_run_on_the_cheapest_device() {
    let plugins = null_plugin();
    let plugins = plugins.path().to_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let model = add_relu().write(folder.path(), "m.onnx");
    // two devices of one op each: a plan of two parts with a crossing
    let script = "[[device]]\nname = \"adder\"\nops = [\"Add\"]\n[[device]]\nname = \"rest\"\nwithout_ops = [\"Add\"]\n";
    let file = folder.path().join("script.toml");
    std::fs::write(&file, script).unwrap();
    let variables = [("POLYCHIP_NULL_SCRIPT", file.to_str().unwrap())];
    let common = [
        "--dim",
        "n=2",
        "--plugins",
        plugins,
        "--devices",
        "null",
        "--json",
    ];
    let with = |command: &'static str, more: &[&str]| {
        let mut arguments = vec![command, &model];
        arguments.extend(common);
        arguments.extend(more);
        polychip_with(&variables, &arguments).json(command)
    };
    let json = with("explain", &[]);
    let nodes = json["nodes"].as_array().unwrap();
    let place: Vec<(&str, &str)> = nodes
        .iter()
        .map(|node| (node["op"].as_str().unwrap(), node["device"].as_str().unwrap()))
        .collect();
    assert_eq!(place, [("Add", "null:0"), ("Relu", "null:1")]);
    assert_eq!(nodes[0]["alternatives"][0]["reason"]["kind"], "unsupported");
    assert_eq!(json["report"]["crossings"][0]["to"], "null:1");
    let json = with("inspect", &[]);
    assert_eq!(json["support"]["devices"][0]["unsupported"][0]["op"], "Relu");
    assert_eq!(json["support"]["unsupported"], serde_json::json!([]));
    let json = with("run", &["--fill", "3"]);
    assert_eq!(json["report"]["parts"].as_array().unwrap().len(), 2);
    assert_eq!(json["report"]["emulated"], true);
    // the CPU gives the same answer
    let cpu = polychip(&["run", &model, "--dim", "n=2", "--fill", "3", "--json"]).json("run");
    assert_eq!(json["outputs"], cpu["outputs"]);
}

#[test]
fn measure_warns_about_slow_predictions() {
    let plugins = null_plugin();
    let folder = tempfile::tempdir().unwrap();
    let model = add_relu().write(folder.path(), "m.onnx");
    let slow = "[[device.fault]]\nkind = \"slow\"\ntimes = 1000000000\n";
    let warnings = |faults: &str| {
        let script = format!("null.script=[[device]]\nname = \"npu\"\n{faults}");
        let plugins = plugins.path().to_str().unwrap();
        let arguments = [
            "measure",
            &model,
            "--dim",
            "n=2",
            "--plugins",
            plugins,
            "--set",
            &script,
        ];
        let more = ["--devices", "null", "--iters", "3", "--json"];
        polychip(&[arguments.as_slice(), &more].concat()).json("measure")["warnings"].clone()
    };
    assert_eq!(warnings(""), serde_json::json!([]));
    let found = &warnings(slow)[0]["warning"];
    assert_eq!(
        (&found["kind"], &found["device"]),
        (&"mispredicted".into(), &"null:0".into()),
        "{found}"
    );
    let [predicted, measured] = ["predicted_ns", "measured_ns"].map(|key| found[key].as_u64().unwrap());
    // picoseconds are rounded
    assert!(measured.abs_diff(10 * predicted) <= 10, "{found}");
    assert!(!found["nodes"].as_array().unwrap().is_empty());
}

#[test]
fn measure_keeps_the_energy_that_plugins_and_sensors_give() {
    let plugins = null_plugin();
    let folder = tempfile::tempdir().unwrap();
    let model = add_relu().write(folder.path(), "m.onnx");
    // 3 mJ for each of the two nodes, and less than 0.1 mJ for what they move
    let script =
        "null.script=[[device]]\nname = \"npu\"\ncost = { fixed_ns = 2000000, fixed_nj = 3000000.0 }\n";
    let profile = folder.path().join("a.profile").display().to_string();
    let mut arguments = vec!["measure", &model, "--dim", "n=2", "--plugins"];
    arguments.extend([
        plugins.path().to_str().unwrap(),
        "--set",
        script,
        "--devices",
        "null",
    ]);
    arguments.extend(["--iters", "6", "--profile", &profile, "--energy", "--json"]);
    let json = polychip(&arguments).json("measure");
    let energy = &json["candidates"][0]["energy"][0];
    assert_eq!(
        (&energy["device"], &energy["from"]),
        (&"null:0".into(), &"plugin".into())
    );
    assert_eq!(
        (&energy["stored"], &energy["emulated"]),
        (&true.into(), &true.into())
    );
    let is_near = |uj: f64| (6000.0..6100.0).contains(&uj);
    assert!(is_near(energy["net_uj"]["mean"].as_f64().unwrap()), "{energy}");
    // the counter of the device counts the same runs; it does not count while the device is idle. Its readings at the
    // ends of a block lie anywhere in a run, and a block of 1 s has some 200 runs of 4 ms: up to a 200th is missing
    let [low, high] = ["low", "high"].map(|end| energy["gross_uj"][end].as_f64().unwrap());
    assert!(low < 6100.0 && high > 5970.0, "{energy}");
    let shown = polychip(&["profile", "show", &profile, "--json"]).json("profile-show");
    let kept = &shown["parts"][0]["energy"];
    assert_eq!(kept["sensor"], "plugin", "{kept}");
    assert!(is_near(kept["energy_uj"].as_f64().unwrap()), "{kept}");
}

/// A device whose runs state no energy has its energy measured by its sensor: net of idle power, and
/// stored for the candidate that gives the device a single part.
#[test]
fn measure_stores_the_energy_that_a_sensor_measured() {
    let plugins = null_plugin();
    let folder = tempfile::tempdir().unwrap();
    let model = add_relu().write(folder.path(), "m.onnx");
    let script = "null.script=[[device]]\nname = \"npu\"\nstates_run_energy = false\nidle_mw = 200.0\n\
                  cost = { fixed_ns = 2000000, fixed_nj = 3000000.0 }\n";
    let profile = folder.path().join("a.profile").display().to_string();
    let mut arguments = vec!["measure", &model, "--dim", "n=2", "--plugins"];
    arguments.extend([plugins.path().to_str().unwrap(), "--set", script]);
    arguments.extend(["--devices", "null", "--iters", "6", "--profile", &profile]);
    // nothing of the runs themselves is an energy
    let json = polychip(&[&arguments[..], &["--json"]].concat()).json("measure");
    let energy = &json["candidates"][0]["energy"][0];
    assert_eq!(
        (&energy["net_uj"], &energy["stored"]),
        (&serde_json::Value::Null, &false.into())
    );
    let stored =
        || polychip(&["profile", "show", &profile, "--json"]).json("profile-show")["parts"][0].clone();
    assert_eq!(stored()["energy"], serde_json::Value::Null);

    let json = polychip(&[&arguments[..], &["--energy", "--json"]].concat()).json("measure");
    let candidate = &json["candidates"][0];
    assert_eq!(candidate["parts"], 1, "{candidate}");
    let energy = &candidate["energy"][0];
    assert_eq!(energy["stored"], true, "{energy}");
    let sensor = energy["from"].as_str().unwrap();
    assert!(sensor.contains("null"), "{energy}");
    // 3 mJ for each of the two nodes, and less than 0.1 mJ for what they move; 200 mW for at least 4 ms idle
    let is_near = |uj: f64| (5900.0..6200.0).contains(&uj);
    assert!(is_near(energy["net_uj"]["mean"].as_f64().unwrap()), "{energy}");
    let gross = energy["gross_uj"]["mean"].as_f64().unwrap();
    assert!(
        gross > energy["net_uj"]["mean"].as_f64().unwrap() + 750.0,
        "{energy}"
    );
    let kept = &stored()["energy"];
    assert_eq!(kept["sensor"], sensor, "{kept}");
    assert!(is_near(kept["energy_uj"].as_f64().unwrap()), "{kept}");
    assert_eq!(kept["interval_uj"].as_array().unwrap().len(), 2, "{kept}");
}

#[test]
fn measure_tries_the_best_plan_of_several_devices() {
    let plugins = null_plugin();
    let plugins = plugins.path().to_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let model = add_relu().write(folder.path(), "m.onnx");
    let script = "[[device]]\nname = \"fast\"\n[[device]]\nname = \"slow\"\nlaunch_ns = 9000000\n";
    let file = folder.path().join("script.toml");
    std::fs::write(&file, script).unwrap();
    let variables = [("POLYCHIP_NULL_SCRIPT", file.to_str().unwrap())];
    let measured = |more: &[&str]| {
        let mut arguments = vec!["measure", &model, "--dim", "n=2", "--plugins", plugins];
        arguments.extend(["--devices", "null", "--iters", "3", "--json"]);
        arguments.extend(more);
        polychip_with(&variables, &arguments).json("measure")
    };
    let json = measured(&[]);
    let candidates = json["candidates"].as_array().unwrap();
    let mixed = candidates
        .iter()
        .find(|one| one["name"] == "mixed 1")
        .unwrap_or_else(|| panic!("{json}"));
    assert_eq!(mixed["nodes"], serde_json::json!({"null:0": 1, "null:1": 1}));
    assert!(
        mixed["because"].as_str().unwrap().ends_with(" on null:1"),
        "{mixed}"
    );
    assert_eq!(mixed["chosen"], false);
    assert_eq!(json["settled"], true);
    assert!(!measured(&["--mixed", "0"]).to_string().contains("mixed 1"));
    // how far off is measured where it may be: these devices compute the same in either precision
    assert!(candidates.iter().all(|one| one["deviation"].is_null()), "{json}");
    let reduced = measured(&["--precision", "reduced"]);
    let candidates = reduced["candidates"].as_array().unwrap();
    assert!(
        candidates.len() > 1 && candidates.iter().all(|one| one["deviation"] == 0.0),
        "{reduced}"
    );
}

#[test]
fn failing_device_is_exit_code_5() {
    let plugins = null_plugin();
    let plugins = plugins.path().to_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let model = add_relu().write(folder.path(), "m.onnx");
    let save = folder.path().join("out");
    for kind in ["error", "lost", "compile"] {
        let script = format!("[[device]]\nfault = [{{ kind = \"{kind}\", times = 1000 }}]\n");
        let arguments = [
            "run",
            &model,
            "--dim",
            "n=2",
            "--fill",
            "1",
            "--plugins",
            plugins,
            "--devices",
            "null:0",
            "--save",
            save.to_str().unwrap(),
        ];
        let file = folder.path().join("script.toml");
        std::fs::write(&file, script).unwrap();
        polychip_with(&[("POLYCHIP_NULL_SCRIPT", file.to_str().unwrap())], &arguments).fails(5, &["null:0"]);
        assert!(!save.exists(), "{kind}");
    }
}

#[test]
fn refusal_shows_the_full_reason() {
    let plugins = null_plugin();
    let folder = tempfile::tempdir().unwrap();
    let model = add_relu().write(folder.path(), "m.onnx");
    // as long as the contract's records hold: of two bytes each, so that a cut inside a character would show
    let words = format!("limit {}", "\u{e9}".repeat(501));
    let script = format!(
        "[[device]]\nrefuse = [{{ node = \"*\", reason = \"shape\", detail = \"{words}\" }}]\n[[device]]\n"
    );
    let file = folder.path().join("script.toml");
    std::fs::write(&file, script).unwrap();
    let arguments = [
        "explain",
        &*model,
        "--dim",
        "n=2",
        "--devices",
        "null",
        "--plugins",
        plugins.path().to_str().unwrap(),
    ];
    let text = polychip_with(&[("POLYCHIP_NULL_SCRIPT", file.to_str().unwrap())], &arguments).ok();
    let whole = format!("not null:0: unsupported: shape out of bounds: {words} (code 3)");
    assert_eq!(text.matches(&whole).count(), 2, "{text}");
}

#[test]
fn compile_refusals_are_reported_remembered_and_forgotten() {
    let plugins = null_plugin();
    let plugins = plugins.path().to_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let model = add_relu().write(folder.path(), "m.onnx");
    let profile = folder.path().join("device.profile");
    let script = "[[device]]\ncost = { fixed_ns = 1 }\n\
        refuse_compile = [{ node = \"*\", code = 6001, detail = \"graph finalize failed\" }]\n\
        [[device]]\ncost = { fixed_ns = 1e6 }\n";
    let file = folder.path().join("script.toml");
    std::fs::write(&file, script).unwrap();
    let variables = [("POLYCHIP_NULL_SCRIPT", file.to_str().unwrap())];
    let call = |command: &str, more: &[&str]| {
        let mut arguments = vec![command];
        if command != "devices" {
            arguments.extend([&*model, "--dim", "n=2", "--devices", "null"]);
        }
        arguments.extend(["--plugins", plugins]);
        arguments.extend(more);
        polychip_with(&variables, &arguments)
    };
    let words = "replanned: 2 nodes moved from null:0: graph finalize failed (vendor code 6001)";
    let text = call("run", &["--fill", "1"]).ok();
    assert!(text.contains(words), "{text}");
    let json = call("run", &["--fill", "1", "--json"]).json("run");
    let event = &json["report"]["events"][0];
    assert_eq!(
        (&event["kind"], &event["device"], &event["nodes"]),
        (&"replanned".into(), &"null:0".into(), &2.into()),
        "{event}"
    );
    call("run", &["--fill", "1", "--no-replan"]).fails(5, &["null:0", "graph finalize failed", "6001"]);
    // a plan alone does not compile; with --compile it does, and each node has the reason
    assert!(!call("explain", &[]).ok().contains("finalize"));
    let text = call("explain", &["--compile"]).ok();
    assert!(text.contains(words), "{text}");
    let reason = "not null:0: unsupported: refused by the vendor's library when compiled: \
                  graph finalize failed (vendor code 6001) (code 13)";
    assert_eq!(text.matches(reason).count(), 2, "{text}");
    let json = call("explain", &["--compile", "--json"]).json("explain");
    assert_eq!(json["nodes"][0]["alternatives"][0]["reason"]["code"], 13);

    let kept = ["--profile", profile.to_str().unwrap()];
    call("run", &[&["--fill", "1"], &kept[..]].concat()).ok();
    let text = call("explain", &kept).ok();
    assert!(text.contains("avoided: "), "{text}");
    assert_eq!(text.matches(reason).count(), 2, "{text}");
    let json = call("devices", &[&["--json"], &kept[..]].concat()).json("devices");
    let list = json["devices"].as_array().unwrap();
    let null = list.iter().find(|device| device["name"] == "null:0").unwrap();
    assert_eq!(
        null["remembered_refusals"][0]["words"],
        "graph finalize failed (vendor code 6001)"
    );
    let done = call("devices", &[&["--forget-refusals"], &kept[..]].concat());
    assert!(done.stderr.contains("forgot "), "{}", done.stderr);
    assert!(!done.ok().contains("refused "));
    assert!(!call("explain", &kept).ok().contains("finalize"));
}

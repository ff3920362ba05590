//! What people expect of any command line: completions, colours, more words and fewer, sizes that can be read, and errors that
//! say first what matters.

use std::process::Command;

use polychip_test_requirements::libraries;

use crate::model::{F32, Model, add_relu, node, port};
use crate::place::Place;
use crate::tool::{library_name, polychip, polychip_with, shapes};
use polychip_sdk::protobuf::Message;

#[test]
fn shells_complete_commands_and_options() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = polychip(&["completions", shell]).ok();
        for word in ["serve-sim", "in-flight"] {
            assert!(script.contains(word), "{shell}: no {word}");
        }
    }
    polychip(&["completions", "tcsh"]).fails(2, &["bash", "zsh"]);
}

/// Bash itself completes by the script.
#[test]
#[cfg(target_os = "linux")]
fn bash_accepts_the_completion_script() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("polychip.bash");
    std::fs::write(&script, polychip(&["completions", "bash"]).ok()).unwrap();
    let completed = |words: &[&str]| {
        let line = format!(
            "source '{}'; COMP_WORDS=({}); COMP_CWORD={}; _polychip polychip '{}' '{}'; echo \"${{COMPREPLY[@]}}\"",
            script.display(),
            words.join(" "),
            words.len() - 1,
            words[words.len() - 1],
            words[words.len() - 2]
        );
        let output = Command::new("bash")
            .args(["--norc", "-c", &line])
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(completed(&["polychip", "par"]), "partition");
    assert_eq!(completed(&["polychip", "bench", "--in-f"]), "--in-flight");
}

#[test]
fn colours_need_a_terminal_and_respect_no_color() {
    let wrong = ["run", "/nowhere.onnx", "--fill", "1"];
    let is_coloured = |variables: &[(&str, &str)], line: &[&str]| {
        let done = polychip_with(variables, line);
        assert!(done.stderr.contains("error:"), "{}", done.stderr);
        done.stderr.contains('\u{1b}')
    };
    // the command-line parser words a usage error, our code words the others
    for line in [&wrong[..], &["run", "--frobnicate"]] {
        assert!(!is_coloured(&[], line));
        assert!(is_coloured(&[("CLICOLOR_FORCE", "1")], line));
        assert!(!is_coloured(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], line));
    }
    let devices = |more: &[(&str, &str)]| polychip_with(more, &["devices", "-v"]).stderr;
    assert!(!devices(&[]).contains('\u{1b}'));
    assert!(devices(&[("CLICOLOR_FORCE", "1")]).contains('\u{1b}'));
}

#[test]
fn verbosity_increases_with_v_and_the_variable_overrides_it() {
    let said = |variables: &[(&str, &str)], line: &[&str]| {
        let done = polychip_with(variables, line);
        assert_eq!(done.code, 0, "{}", done.stderr);
        done.stderr
    };
    let model = shapes();
    let run = ["run", &model, "--fill", "1", "--devices", "cpu"];
    assert_eq!(said(&[], &run), "");
    for line in [[&run[..], &["-v"]].concat(), [&["-v"], &run[..]].concat()] {
        let words = said(&[], &line);
        assert!(
            words.contains("INFO") && words.contains("cpu:0: ") && words.contains("linked in"),
            "{words}"
        );
        assert!(words.contains("shapes.onnx is planned in "), "{words}");
    }
    let quiet = [("POLYCHIP_LOG", "error")];
    assert_eq!(said(&quiet, &[&run[..], &["-v"]].concat()), "");
    let loud = [("POLYCHIP_LOG", "polychip=loud")];
    polychip_with(&loud, &run).fails(2, &["POLYCHIP_LOG=polychip=loud", "PART=LEVEL"]);
}

#[test]
fn missing_device_is_reported_first() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["garbage", "rubbish"] {
        std::fs::write(folder.path().join(library_name(name)), b"no library").unwrap();
    }
    let plugins = folder.path().to_str().unwrap();
    let model = shapes();
    let bench = |device: &str| polychip(&["bench", &model, "--plugins", plugins, "--devices", device]);
    let done = bench("gpu");
    assert_eq!(
        (done.code, done.stderr.lines().next()),
        (4, Some("error: there is no device gpu; there are: cpu:0"))
    );
    assert!(!done.stderr.contains("not used:"), "{}", done.stderr);
    // the one that may have had it is named, and no other
    let done = bench("garbage:0");
    assert!(
        done.stderr.starts_with("error: there is no device garbage:0; "),
        "{}",
        done.stderr
    );
    assert!(done.stderr.contains(&library_name("garbage")) && !done.stderr.contains("rubbish"));
}

#[test]
fn duplicate_of_a_linked_plugin_causes_no_warning() {
    let folder = tempfile::tempdir().unwrap();
    let file = libraries::plugin("cpu").unwrap();
    std::fs::copy(file, folder.path().join(library_name("cpu"))).unwrap();
    let plugins = folder.path().to_str().unwrap();
    let done = polychip(&["run", &shapes(), "--fill", "1", "--plugins", plugins]);
    assert_eq!((done.code, &*done.stderr), (0, ""));
    let devices = polychip(&["devices", "--plugins", plugins, "--json"]).json("devices");
    assert_eq!(devices["refused"], serde_json::json!([]));
    assert_eq!(devices["devices"].as_array().unwrap().len(), 1);
}

#[test]
fn other_model_formats_are_reported_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("net.mlpackage")).unwrap();
    for (name, bytes, words) in [
        (
            "net.tflite",
            &b"\x1c\0\0\0TFL3\0\0"[..],
            ["TensorFlow Lite", "tf2onnx.convert --tflite"],
        ),
        ("net.mlpackage", b"", ["Core ML", "torch.onnx.export"]),
        ("net.gguf", b"GGUF\x03\0\0\0", ["GGUF", "polychip generate"]),
        ("net.pt", b"PK\x03\x04rest", ["PyTorch", "torch.onnx.export"]),
    ] {
        let path = folder.path().join(name);
        if !path.is_dir() {
            std::fs::write(&path, bytes).unwrap();
        }
        let path = path.display().to_string();
        for command in ["inspect", "bench"] {
            let done = polychip(&[command, &path]);
            assert!(!done.stderr.contains("export the model again"), "{}", done.stderr);
            done.fails(3, &[&[&*path], &words[..]].concat());
        }
    }
    // one that is not there is that first
    let nowhere = folder.path().join("none.tflite").display().to_string();
    polychip(&["inspect", &nowhere]).fails(3, &["No such file"]);
    // a name refuses nothing
    let path = add_relu().write(folder.path(), "right.pt");
    polychip(&["inspect", &path]).ok();
}

#[test]
fn long_metadata_is_truncated_in_text_but_not_in_json() {
    let folder = tempfile::tempdir().unwrap();
    let vocabulary = "word\n".repeat(1_000);
    let entry = |key: &str, value: &str| Message::default().text(1, key).text(2, value);
    let properties = Message::default()
        .message(14, &entry("vocabulary", &vocabulary))
        .message(14, &entry("author", "someone"));
    let bytes = [add_relu().bytes(), properties.into_bytes()].concat();
    let path = folder.path().join("m.onnx");
    std::fs::write(&path, bytes).unwrap();
    let path = path.display().to_string();
    let text = polychip(&["inspect", &path]).ok();
    let line = text
        .lines()
        .find(|line| line.starts_with("vocabulary = "))
        .unwrap();
    assert!(line.chars().count() < 200, "{line}");
    assert!(line.ends_with("… (5000 characters; --json prints all)"), "{line}");
    assert!(text.contains("\nauthor = someone\n"), "{text}");
    let json = polychip(&["inspect", &path, "--json"]).json("inspect");
    assert_eq!(json["metadata"]["vocabulary"], vocabulary);
}

#[test]
fn crossings_have_readable_units() {
    let model = Model {
        nodes: vec![
            node("Neg", "neg", &["x"], &["a"]),
            node("Abs", "abs", &["a"], &["b"]),
        ],
        inputs: vec![port("x", F32, &["1024", "1536"])],
        outputs: vec![port("b", F32, &["1024", "1536"])],
        ..Model::default()
    };
    let place = Place::new(|folder| model.write(folder, "m.onnx"));
    let script = "[[device]]\nops = [\"Neg\"]\n[[device]]\nops = [\"Abs\"]\n";
    let bench = place.with(
        script,
        "bench",
        &["--devices", "null", "--warmup", "0", "--iters", "1"],
    );
    let text = bench.ok();
    assert!(text.contains("null:0 → null:1: a (6.0 MiB, "), "{text}");
}

#[test]
fn memory_limit_is_kept_and_reported() {
    let model = shapes();
    let run = |limit: &str, more: &[&str]| {
        let line = ["run", &model, "--fill", "0", "--memory-limit", limit];
        polychip(&[&line[..], more].concat())
    };
    let report = run("512MiB", &["--json"]).json("run");
    let memory = &report["report"]["memory"];
    assert_eq!(memory["limit_bytes"], 512 << 20);
    assert_eq!(memory["limit_from"], "memory-limit");
    let held = memory["held_bytes"].as_u64().unwrap();
    assert!(held > 0 && report["report"]["resident_bytes"] == held, "{memory}");
    let text = run("none", &[]);
    assert!(
        text.stdout.contains("no limit") || text.stderr.contains("no limit"),
        "{}",
        text.stdout
    );
    run("1kB", &[]).fails(
        5,
        &[
            "needs",
            "limit for all sessions is 0.0 MiB",
            "--memory-limit BYTES",
        ],
    );
    run("little", &[]).fails(2, &["--memory-limit", "1.5GiB"]);
}

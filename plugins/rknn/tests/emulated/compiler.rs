//! Every way in which a compiler can fail, and the Python program against a toolkit that is ours.

use std::path::{Path, PathBuf};
use std::process::Command;

use polychip_host::{CompileOptions, Device, FlatGraph};
use polychip_parts::{load, relu_of_sum};
use polychip_test_requirements::{Need, absent};
use tempfile::TempDir;

use crate::board::{Board, compiler};
use crate::runs::run;

/// A program that says a version, and does this where it is to compile; `$folder` holds its files.
fn program(to: &TempDir, body: &str) -> PathBuf {
    let seen = to.path().join("folders");
    let text = format!(
        "#!/bin/sh\nfolder=$(dirname \"$1\")\necho \"$folder\" >> '{}'\n\
         if grep -q '\"ask\":\"version\"' \"$1\"; then\n  echo '{{\"ok\":true,\"toolkit\":\"9.9\"}}' > \"$folder/result.json\"\n  exit 0\nfi\n{body}\n",
        seen.display()
    );
    script(to, "compiler", &text)
}

fn script(to: &TempDir, name: &str, text: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;

    let path = to.path().join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// The words with which a compilation fails.
fn words(device: &Device) -> String {
    let graph = relu_of_sum();
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let failed = device
        .compile(&flat, &CompileOptions::default())
        .map(drop)
        .unwrap_err();
    failed.to_string()
}

#[test]
fn every_compiler_failure_is_named_and_leaves_no_file() {
    let board = Board::own();
    let ok = "echo '{\"ok\":true,\"toolkit\":\"9.9\"}' > \"$folder/result.json\"";
    let refusal = "echo '{\"ok\":false,\"kind\":\"toolkit\",\"stage\":\"build\",\"error\":\"KeyError: epsilon\"}' > \"$folder/result.json\"";
    let cases = [
        ("echo boom >&2; exit 3".to_owned(), vec!["exit status: 3", "boom"]),
        ("kill -9 $$".to_owned(), vec!["signal: 9"]),
        (
            "echo '{\"ok\": tru' > \"$folder/result.json\"".to_owned(),
            vec!["no answer"],
        ),
        (
            "echo '[]' > \"$folder/result.json\"".to_owned(),
            vec!["no answer"],
        ),
        (
            "head -c 2000000 /dev/zero > \"$folder/result.json\"".to_owned(),
            vec!["without an answer"],
        ),
        (
            refusal.to_owned(),
            vec!["refused the part in build", "KeyError: epsilon"],
        ),
        (ok.to_owned(), vec!["no compiled part"]),
        (
            format!("echo text > \"$folder/part.rknn\"; {ok}"),
            vec!["no .rknn file"],
        ),
        (
            format!("mkdir \"$folder/part.rknn\"; {ok}"),
            vec!["no compiled part"],
        ),
        (
            "sleep 60 & echo $! > \"$folder/../sleeper-$PPID\"; wait".to_owned(),
            vec!["more than 1 s", "timeout_s"],
        ),
    ];
    for (body, parts) in cases {
        let folder = tempfile::tempdir().unwrap();
        let path = program(
            &folder,
            &body.replace("$folder/../", &format!("{}/", folder.path().display())),
        );
        let device = board.device(&[("compiler", &path.display().to_string()), ("timeout_s", "1")]);
        let found = words(&device);
        assert!(found.contains(&*path.display().to_string()), "{found}");
        for part in parts {
            assert!(found.contains(part), "{body}: {found}");
        }
        let folders = std::fs::read_to_string(folder.path().join("folders")).unwrap();
        assert_eq!(
            folders.lines().count(),
            2,
            "one for the version, one for the part"
        );
        for left in folders.lines() {
            assert!(!Path::new(left).exists(), "{left} is left");
        }
        for entry in std::fs::read_dir(folder.path()).unwrap().flatten() {
            if entry.file_name().to_string_lossy().starts_with("sleeper-") {
                ended(std::fs::read_to_string(entry.path()).unwrap().trim());
            }
        }
    }
}

/// What a compiler started ended with it.
fn ended(process: &str) {
    let state = || std::fs::read_to_string(format!("/proc/{process}/stat"));
    for _ in 0..100 {
        match state() {
            // a zombie is ended, and whoever reaps it may take its time
            Ok(text) if !text.contains(") Z") => {}
            _ => return,
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("{process} goes on: {:?}", state());
}

/// A compiler that is not there is a reason at each node, and the device still loads what was compiled before.
#[test]
fn without_a_compiler_every_node_states_the_reason() {
    let board = Board::own();
    for (key, value, word) in [
        ("compiler", "/nowhere/compiler", "cannot be started"),
        ("python", "/nowhere/python", "cannot be started"),
    ] {
        let mut settings = vec![(key, value)];
        if key == "python" {
            settings.push(("compiler", ""));
        }
        let device = board.device(&settings);
        let graph = relu_of_sum();
        let flat = FlatGraph::new(&graph, &[]).unwrap();
        let answer = device.query_support(&flat).unwrap()[0].clone();
        assert_eq!(answer.reason, polychip_abi::POLYCHIP_SUPPORT_VENDOR);
        assert!(
            answer.detail.contains(word) && answer.detail.contains("RKNN_PYTHON"),
            "{}",
            answer.detail
        );
        assert!(device.info().driver.contains("no rknn-toolkit2"));
    }
    // a board that has no compiler says whose blobs it has
    let stated = board.device(&[("compiler", "/nowhere/compiler"), ("toolkit", "2.5.0-emulated")]);
    let graph = relu_of_sum();
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let mut blob = board
        .device(&[])
        .compile(&flat, &CompileOptions::default())
        .unwrap();
    let bytes = blob.bytes().unwrap().to_vec();
    let executable = stated.load_bytes(bytes.into(), &flat, 1).unwrap();
    assert_eq!(run(&stated, &executable, &[1.0; 4], 4)[0], 2.0);
}

/// A toolkit of our own in the vendor's place: what the program of the plugin asks of it, and how it passes on failures.
const TOOLKIT: &str = r#"
import json, os, subprocess, sys

class RKNN:
    def __init__(self, verbose=False):
        assert verbose

    def config(self, **options):
        self.options = options
        return 0

    def load_onnx(self, model):
        self.model = model
        return -1 if os.environ["FAKE"] == "code" else 0

    def build(self, do_quantization, dataset=None):
        if os.environ["FAKE"] == "raise":
            raise ValueError("not supported\nby this toolkit")
        if os.environ["FAKE"] == "memory":
            raise MemoryError()
        if os.environ["FAKE"] == "exit":
            sys.exit("gone")
        if os.environ["FAKE"] == "crash":
            os.abort()
        self.quantised = (do_quantization, dataset)
        return 0

    def export_rknn(self, path):
        request = path + ".json"
        ask = dict(ask="compile", model=self.model, blob=path, result=path + ".result",
                   target_platform=self.options["target_platform"],
                   quantized_dtype=None, custom_string=self.options["custom_string"])
        with open(request, "w") as file:
            json.dump(ask, file)
        assert self.quantised == (False, None)
        return subprocess.call([os.environ["EMULATED"], request])

    def release(self):
        pass
"#;

#[test]
fn the_python_program_speaks_to_a_toolkit() {
    let there = Command::new("python3").arg("--version").output();
    if !there.is_ok_and(|output| output.status.success()) {
        absent(Need::Python, "python3 does not run");
        return;
    }
    let board = Board::own();
    let folder = tempfile::tempdir().unwrap();
    let packages = folder.path().join("packages");
    let about = packages.join("rknn_toolkit2-7.7.dist-info");
    std::fs::create_dir_all(packages.join("rknn")).unwrap();
    std::fs::create_dir_all(&about).unwrap();
    std::fs::write(packages.join("rknn/__init__.py"), "").unwrap();
    std::fs::write(packages.join("rknn/api.py"), TOOLKIT).unwrap();
    std::fs::write(
        about.join("METADATA"),
        "Metadata-Version: 2.1\nName: rknn-toolkit2\nVersion: 7.7\n",
    )
    .unwrap();
    for (mode, parts) in [
        ("", vec![]),
        ("code", vec!["in load", "load_onnx returned -1"]),
        (
            "raise",
            vec!["in build", "ValueError: not supported by this toolkit"],
        ),
        ("memory", vec!["out of memory"]),
        ("exit", vec!["SystemExit", "gone"]),
        ("crash", vec!["signal: 6", "without an answer"]),
    ] {
        let text = format!(
            "#!/bin/sh\nPYTHONPATH='{}' FAKE='{mode}' EMULATED='{}' exec python3 \"$@\"\n",
            packages.display(),
            compiler().display()
        );
        let python = script(&folder, "python", &text);
        let device = board.device(&[("compiler", ""), ("python", &python.display().to_string())]);
        assert!(
            device.info().driver.contains("rknn-toolkit2 7.7"),
            "{}",
            device.info().driver
        );
        if parts.is_empty() {
            let executable = load(&device, &relu_of_sum());
            assert_eq!(run(&device, &executable, &[1.0; 4], 4)[0], 2.0);
            continue;
        }
        let found = words(&device);
        for part in parts {
            assert!(found.contains(part), "{mode}: {found}");
        }
    }
    // a Python without the toolkit
    let text = "#!/bin/sh\nexec python3 -I -S \"$@\"\n";
    let python = script(&folder, "bare", text);
    let device = board.device(&[("compiler", ""), ("python", &python.display().to_string())]);
    let found = words(&device);
    assert!(
        found.contains("lacks a module") && found.contains("install rknn-toolkit2"),
        "{found}"
    );
}

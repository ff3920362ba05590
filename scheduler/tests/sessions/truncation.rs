//! Another process truncates a model, its weights or a cached part while they are mapped: the user of the
//! file gets an error or right outputs, and is never ended by a signal.

#![allow(
    clippy::print_stdout,
    reason = "the child process answers on its standard output"
)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use polychip::{ErrorKind, Model, ModelFolder, Policy, Runtime, Session};
use polychip_graph::onnx;

use crate::model::{self, F32, constant, external, floats, node, port};

/// Rows and columns of the weights, which take 4 MiB.
const SIDE: usize = 1024;
/// Files of the test with random moments.
const FILES: usize = 24;
const PATIENCE: Duration = Duration::from_secs(60);
/// The folder of a child of this test.
const FOLDER: &str = "POLYCHIP_TRUNCATION_FOLDER";
/// The setting of this name in the child.
const MODEL_FILES: &str = "POLYCHIP_TRUNCATION_MODEL_FILES";
/// What the child does.
const PART: &str = "POLYCHIP_TRUNCATION_PART";

fn weights() -> Vec<u8> {
    floats(&vec![1.0 / SIDE as f32; SIDE * SIDE])
}

/// `y = x · w`, which is 1 for ones.
fn product(weights: model::Message) -> model::Model {
    let side = SIDE.to_string();
    model::Model {
        nodes: vec![node("MatMul", "product", &["x", "w"], &["y"])],
        constants: vec![weights],
        inputs: vec![port("x", F32, &["1", &side])],
        outputs: vec![port("y", F32, &["1", &side])],
        ..model::Model::default()
    }
}

fn inline() -> model::Model {
    product(constant("w", F32, &[SIDE as u64, SIDE as u64], &weights()))
}

fn runtime(folder: &Path) -> Runtime {
    let mut builder = Runtime::builder().only_given_folders();
    if let Ok(files) = std::env::var(MODEL_FILES) {
        builder = builder.with_setting("model-files", &files).unwrap();
    }
    builder.cache(folder.join("cache")).build().unwrap()
}

fn session(runtime: &Runtime, model: &Model) -> Result<Session, polychip::Error> {
    runtime.session(model, Policy::latency().devices(["cpu"]).threads(1))
}

/// The outputs of a run on ones; panics if they are wrong.
fn run(session: &Session) -> Result<(), polychip::Error> {
    let mut input = session.input("x")?;
    input.write(&[1.0f32; SIDE])?;
    let outputs = session.submit(&[&input])?.wait(PATIENCE)?;
    let output = outputs.at(0)?;
    let values = output.values::<f32>()?;
    let wrong = values.iter().filter(|value| (**value - 1.0).abs() > 1e-3).count();
    assert_eq!(wrong, 0, "wrong outputs without an error");
    Ok(())
}

/// Lets the parent truncate.
fn reached(moment: &str) {
    println!("@{moment}");
    std::io::stdout().flush().unwrap();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
}

/// Tells the parent how the use of a file ended. A refusal must say why.
fn ended(result: Result<(), polychip::Error>) {
    match result {
        Ok(()) => println!("=right"),
        Err(error) => {
            let words = error.to_string();
            assert_eq!(error.kind(), ErrorKind::Io, "{words}");
            assert!(
                words.contains("truncated the file while it was in use"),
                "{words}"
            );
            println!("=refused");
        }
    }
}

/// Not a test: what the tests below run in a process of its own.
#[test]
#[ignore = "a child process of the other tests"]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let (folder, part) = (Path::new(&folder), std::env::var(PART).unwrap());
    let path = folder.join("m.onnx");
    let runtime = runtime(folder);
    match part.as_str() {
        "parse" => {
            let files = ModelFolder::open(&path).unwrap();
            reached("opened");
            let imported = onnx::import(files.bytes(), &files, &onnx::Options::default());
            let intact = files.check();
            assert!(intact.is_err(), "{:?}", imported.map(drop));
            println!("=refused");
        }
        "pack" => {
            let model = runtime.load(&path).unwrap();
            reached("loaded");
            ended(session(&runtime, &model).and_then(|session| run(&session)));
            // a part with zeros in place of weights would be found in the cache by the next process
            let cached = std::fs::read_dir(folder.join("cache"));
            let cached = cached.map_or(0, |files| files.count());
            println!("={cached} cached");
        }
        "run" => {
            let model = runtime.load(&path).unwrap();
            let session = session(&runtime, &model).unwrap();
            run(&session).unwrap();
            reached("ran");
            ended(run(&session));
        }
        "race" => {
            for file in 0..FILES {
                let path = folder.join(format!("{file}.onnx"));
                println!("@{file}");
                std::io::stdout().flush().unwrap();
                let loaded = runtime.load(&path);
                match loaded
                    .and_then(|model| session(&runtime, &model))
                    .and_then(|session| run(&session))
                {
                    // it was truncated before it was opened
                    Err(error) if error.kind() == ErrorKind::BadModel => println!("=malformed"),
                    result => ended(result),
                }
            }
        }
        other => panic!("{other}"),
    }
}

/// Runs a child; `act` is called at each moment that it reaches. Returns what it printed of the ends, and its status.
fn child_with(
    folder: &Path,
    part: &str,
    model_files: &str,
    mut act: impl FnMut(&str),
) -> (Vec<String>, ExitStatus) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "truncation::child", "--nocapture"])
        .env(FOLDER, folder)
        .env(PART, part)
        .env(MODEL_FILES, model_files)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut ends = Vec::new();
    for line in BufReader::new(from).lines().map_while(Result::ok) {
        // libtest may have printed the test's name on the same line
        if let Some((_, moment)) = line.split_once('@') {
            act(moment);
            let _ = to.write_all(b"\n");
        } else if let Some((_, end)) = line.split_once('=') {
            ends.push(end.to_owned());
        }
    }
    (ends, child.wait().unwrap())
}

/// As [`child_with`], of a child that must not be ended by a signal.
fn with_child(folder: &Path, part: &str, act: impl FnMut(&str)) -> Vec<String> {
    let (ends, status) = child_with(folder, part, "guard", act);
    assert_eq!(status.signal(), None, "{part}: {ends:?}");
    assert!(status.success(), "{part}: {ends:?}");
    ends
}

fn truncate(path: &Path, len: u64) {
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(len).unwrap();
}

#[test]
fn truncated_model_ends_with_an_error_at_each_moment() {
    // of nothing, within a page, and of a whole number of pages
    for len in [0, 5000, 1 << 20] {
        for (part, expected) in [("parse", vec!["refused"]), ("pack", vec!["refused", "0 cached"])] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("m.onnx");
            inline().write(folder.path(), "m.onnx");
            let ends = with_child(folder.path(), part, |_| truncate(&path, len));
            assert_eq!(ends, expected, "{part}, {len} bytes");
        }
    }
}

#[test]
fn model_truncated_between_runs_gives_an_error_or_right_outputs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.onnx");
    inline().write(folder.path(), "m.onnx");
    let ends = with_child(folder.path(), "run", |_| truncate(&path, 1 << 20));
    assert_eq!(ends, ["refused"]);
}

#[test]
fn truncated_external_weights_end_with_an_error() {
    for part in ["pack", "run"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.bin");
        std::fs::write(&path, weights()).unwrap();
        product(external("w", F32, &[SIDE as u64, SIDE as u64], "w.bin")).write(folder.path(), "m.onnx");
        let ends = with_child(folder.path(), part, |_| truncate(&path, 0));
        assert_eq!(ends[0], "refused", "{part}");
    }
}

#[test]
fn cached_part_truncated_between_runs_gives_an_error_or_right_outputs() {
    let folder = tempfile::tempdir().unwrap();
    inline().write(folder.path(), "m.onnx");
    let cache = folder.path().join("cache");
    // compiled and cached here, so that the child maps it
    let made = runtime(folder.path());
    let model = made.load(folder.path().join("m.onnx")).unwrap();
    drop(session(&made, &model).unwrap());
    let blobs = || {
        std::fs::read_dir(&cache)
            .unwrap()
            .map(|file| file.unwrap().path())
    };
    let blob = blobs().next().unwrap();
    assert!(
        std::fs::metadata(&blob).unwrap().len() > 1 << 20,
        "it is too small to be mapped"
    );
    let ends = with_child(folder.path(), "run", |_| truncate(&blob, 4096));
    assert_eq!(ends, ["refused"]);
    // the next process compiles the part again
    let again = runtime(folder.path());
    let model = again.load(folder.path().join("m.onnx")).unwrap();
    run(&session(&again, &model).unwrap()).unwrap();
}

#[test]
fn model_truncated_at_any_moment_never_ends_the_process() {
    let folder = tempfile::tempdir().unwrap();
    for file in 0..FILES {
        inline().write(folder.path(), &format!("{file}.onnx"));
    }
    let ends = with_child(folder.path(), "race", |moment| {
        let file: u64 = moment.parse().unwrap();
        std::thread::sleep(Duration::from_micros(400 * file));
        truncate(&folder.path().join(format!("{file}.onnx")), 4096 * file);
    });
    assert_eq!(ends.len(), FILES, "{ends:?}");
}

#[test]
fn copied_files_may_be_truncated_and_unguarded_ones_end_the_process() {
    let truncated = |model_files: &str| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.onnx");
        inline().write(folder.path(), "m.onnx");
        child_with(folder.path(), "pack", model_files, |_| truncate(&path, 4096))
    };
    let (ends, status) = truncated("copy");
    assert!(status.success(), "{ends:?}");
    assert_eq!(ends[0], "right");
    let (_, status) = truncated("map");
    const SIGBUS: i32 = 7;
    assert_eq!(
        status.signal(),
        Some(SIGBUS),
        "the other tests would prove nothing"
    );
}

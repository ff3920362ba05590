//! Model files and inputs as people have them: links, pointers, pipes, names, ranks, defaults, sequences.

use std::path::Path;

use serde_json::Value;

use crate::model::{
    F32, Message, Model, add_relu, constant, external, floats, node, npy, port, with_integer,
};
use crate::tool::{alone, polychip};

fn write(folder: &Path, name: &str, bytes: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path.display().to_string()
}

fn fails(arguments: &[&str], words: &[&str]) {
    let done = polychip(&[&["run"], arguments].concat());
    assert_eq!(done.code, 3, "{done:?}");
    for word in words {
        assert!(done.stderr.contains(word), "{word:?} is not in: {}", done.stderr);
    }
}

fn shape_of(arguments: &[&str]) -> Value {
    let json = polychip(&[&["run", "--json"], arguments].concat()).json("run");
    json["outputs"][0]["shape"].clone()
}

/// `y = a + b`, both `[n, 2]`.
fn sum() -> Model {
    Model {
        nodes: vec![node("Add", "add", &["a", "b"], &["y"])],
        inputs: vec![port("a", F32, &["n", "2"]), port("b", F32, &["n", "2"])],
        outputs: vec![port("y", F32, &["n", "2"])],
        ..Model::default()
    }
}

#[test]
fn files_that_are_no_model_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4711\n";
    for (bytes, words) in [
        (&pointer[..], ["Git LFS pointer", "git lfs pull"]),
        (b"<!DOCTYPE html><html></html>", ["HTML page", "download"]),
        (b"PK\x03\x04\x14\0\0\0", ["zip archive", "unpack"]),
        (b"\x1f\x8b\x08\0\0", ["gzip", "unpack"]),
        (b"{\"a\": 1}", ["JSON", "model's own file"]),
        (b"Entry not found", ["Entry not found", "model's own file"]),
    ] {
        let path = write(folder.path(), "model.onnx", bytes);
        fails(&[&path, "--fill", "1"], &words);
    }
    let model = Model {
        nodes: vec![node("Add", "add", &["x", "w"], &["y"])],
        constants: vec![external("w", F32, &[2], "w.bin")],
        inputs: vec![port("x", F32, &["2"])],
        outputs: vec![port("y", F32, &["2"])],
        ..Model::default()
    };
    let path = model.write(folder.path(), "model.onnx");
    write(folder.path(), "w.bin", pointer);
    fails(
        &[&path, "--fill", "1"],
        &["w.bin", "Git LFS pointer", "git lfs pull"],
    );
    write(folder.path(), "w.bin", &[0; 12]);
    fails(&[&path, "--fill", "1"], &["w.bin", "12 bytes", "needs 8"]);
    write(folder.path(), "w.bin", &[0; 8]);
    polychip(&["run", &path, "--fill", "1"]).ok();
}

#[cfg(unix)]
#[test]
fn links_of_a_download_cache_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(at("blobs")).unwrap();
    std::fs::create_dir_all(at("snapshots/a")).unwrap();
    let model = Model {
        nodes: vec![node("Add", "add", &["x", "w"], &["y"])],
        constants: vec![external("w", F32, &[2], "model.onnx_data")],
        inputs: vec![port("x", F32, &["2"])],
        outputs: vec![port("y", F32, &["2"])],
        ..Model::default()
    };
    std::fs::write(at("blobs/m"), model.bytes()).unwrap();
    std::fs::write(at("blobs/w"), floats(&[1.0, 2.0])).unwrap();
    for (to, name) in [("m", "model.onnx"), ("w", "model.onnx_data")] {
        std::os::unix::fs::symlink(Path::new("../../blobs").join(to), at("snapshots/a").join(name)).unwrap();
    }
    let path = at("snapshots/a/model.onnx").display().to_string();
    polychip(&["run", &path, "--fill", "1"]).ok();
}

#[test]
fn models_and_inputs_come_through_pipes() {
    use std::io::Write as _;
    use std::process::{Command, Stdio};
    let folder = tempfile::tempdir().unwrap();
    let model = add_relu().write(folder.path(), "model.onnx");
    let x = write(folder.path(), "x.npy", &npy("<f4", "(2, 3)", &floats(&[1.0; 6])));
    let x = format!("x={x}");
    for (arguments, sent) in [
        (["run", "-", "--input", &x], add_relu().bytes()),
        (
            ["run", &model, "--input", "x=-"],
            npy("<f4", "(2, 3)", &floats(&[1.0; 6])),
        ),
    ] {
        let mut child = Command::new(alone())
            .args(arguments)
            .env("POLYCHIP_CONFIG", "")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(&sent).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{arguments:?}");
    }
}

#[cfg(unix)]
#[test]
fn special_files_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let made = std::process::Command::new("mkfifo")
        .args([at("pipe"), at("w.bin")])
        .status();
    assert!(made.unwrap().success());
    fails(&[&at("pipe")], &["pipe: is a pipe, not a regular file"]);
    fails(&["/dev/zero"], &["/dev/zero: is a device, not a regular file"]);
    let model = Model {
        nodes: vec![node("Add", "add", &["x", "w"], &["y"])],
        constants: vec![external("w", F32, &[2], "w.bin")],
        inputs: vec![port("x", F32, &["2"])],
        outputs: vec![port("y", F32, &["2"])],
        ..Model::default()
    };
    let path = model.write(folder.path(), "model.onnx");
    fails(
        &[&path, "--fill", "1"],
        &["w.bin", "is a pipe, not a regular file"],
    );
    let whole = add_relu().write(folder.path(), "whole.onnx");
    let done = polychip(&["run", &whole, "--fill", "1", "--profile", &at("pipe")]);
    assert_ne!(done.code, 0, "{done:?}");
    assert!(
        done.stderr.contains("is a pipe, not a regular file"),
        "{}",
        done.stderr
    );
    let done = polychip(&["profile", "import", &at("pipe"), "--profile", &at("new.profile")]);
    assert_ne!(done.code, 0, "{done:?}");
}

#[test]
fn sizes_of_one_name_may_differ() {
    let folder = tempfile::tempdir().unwrap();
    let model = sum().write(folder.path(), "sum.onnx");
    let a = write(folder.path(), "a.npy", &npy("<f4", "(3, 2)", &floats(&[1.0; 6])));
    let b = write(folder.path(), "b.npy", &npy("<f4", "(1, 2)", &floats(&[1.0; 2])));
    let (a, b) = (format!("a={a}"), format!("b={b}"));
    let done = polychip(&["run", &model, "--input", &a, "--input", &b]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(
        done.stderr.matches("names of dimensions are only hints").count(),
        1
    );
    assert_eq!(
        shape_of(&[&model, "--input", &a, "--input", &b]),
        serde_json::json!([3, 2])
    );
}

#[test]
fn a_file_of_another_rank_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let model = sum().write(folder.path(), "sum.onnx");
    let a = write(folder.path(), "a.npy", &npy("<f4", "(4,)", &floats(&[1.0; 4])));
    let a = format!("a={a}");
    fails(
        &[&model, "--input", &a, "--fill", "1"],
        &[
            "input \"a\" takes rank 2, f32 [n, 2]",
            "a.npy holds rank 1, f32 [4]",
        ],
    );
    let b = write(folder.path(), "b.npy", &npy("<f4", "(1, 2)", &floats(&[1.0; 2])));
    fails(
        &[&model, "--input", &format!("b={b}")],
        &["input \"a\" has no value"],
    );
}

#[test]
fn inputs_with_a_default_may_be_given() {
    let folder = tempfile::tempdir().unwrap();
    let model = Model {
        nodes: vec![node("Mul", "mul", &["x", "s"], &["y"])],
        constants: vec![constant("s", F32, &[1], &floats(&[3.0]))],
        inputs: vec![port("x", F32, &["1"]), port("s", F32, &["k"])],
        outputs: vec![port("y", F32, &["k"])],
        ..Model::default()
    };
    let model = model.write(folder.path(), "model.onnx");
    let x = write(folder.path(), "x.npy", &npy("<f4", "(1,)", &floats(&[2.0])));
    let s = write(folder.path(), "s.npy", &npy("<f4", "(4,)", &floats(&[1.0; 4])));
    let (x, s) = (format!("x={x}"), format!("s={s}"));
    assert_eq!(shape_of(&[&model, "--input", &x]), serde_json::json!([1]));
    assert_eq!(
        shape_of(&[&model, "--input", &x, "--input", &s]),
        serde_json::json!([4])
    );
    fails(
        &[&model, "--input", &x, "--input", "t=x.npy"],
        &["its inputs are: x, s"],
    );
}

#[test]
fn an_inputs_name_may_hold_an_equals_sign() {
    let folder = tempfile::tempdir().unwrap();
    let model = Model {
        nodes: vec![node("Neg", "neg", &["x=1"], &["y"])],
        inputs: vec![port("x=1", F32, &["n"])],
        outputs: vec![port("y", F32, &["n"])],
        ..Model::default()
    };
    let model = model.write(folder.path(), "model.onnx");
    let x = write(folder.path(), "a=b.npy", &npy("<f4", "(2,)", &floats(&[2.0; 2])));
    assert_eq!(
        shape_of(&[&model, "--input", &format!("x=1={x}")]),
        serde_json::json!([2])
    );
}

#[test]
fn sequences_are_given_tensor_by_tensor() {
    let folder = tempfile::tempdir().unwrap();
    let tensor = Message::default().message(1, &Message::default().number(1, F32));
    let sequence = Message::default().message(4, &Message::default().message(1, &tensor));
    let model = Model {
        nodes: vec![with_integer(
            node("ConcatFromSequence", "join", &["s"], &["y"]),
            "axis",
            0,
        )],
        inputs: vec![Message::default().text(1, "s").message(2, &sequence)],
        outputs: vec![port("y", F32, &["p"])],
        ..Model::default()
    };
    let model = model.write(folder.path(), "model.onnx");
    let a = write(folder.path(), "a.npy", &npy("<f4", "(2,)", &floats(&[1.0, 2.0])));
    let b = write(
        folder.path(),
        "b.npy",
        &npy("<f4", "(3,)", &floats(&[3.0, 4.0, 5.0])),
    );
    let (a, b) = (format!("s={a}"), format!("s={b}"));
    assert_eq!(
        shape_of(&[&model, "--input", &a, "--input", &b]),
        serde_json::json!([5])
    );
    fails(&[&model, "--fill", "1"], &["is a sequence", "--input s=a.npy"]);
}

#[test]
fn an_optional_is_given_or_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let tensor = Message::default().message(1, &Message::default().number(1, F32));
    let optional = Message::default().message(9, &Message::default().message(1, &tensor));
    let model = Model {
        nodes: vec![
            node("OptionalHasElement", "ask", &["o"], &["has"]),
            with_integer(node("Cast", "number", &["has"], &["y"]), "to", F32),
        ],
        inputs: vec![Message::default().text(1, "o").message(2, &optional)],
        outputs: vec![port("y", F32, &[])],
        ..Model::default()
    };
    let model = model.write(folder.path(), "model.onnx");
    let o = write(folder.path(), "o.npy", &npy("<f4", "(2,)", &floats(&[1.0, 2.0])));
    let wide = write(folder.path(), "wide.npy", &npy("<f8", "(1,)", &[0; 8]));
    let given = polychip(&["run", &model, "--input", &format!("o={o}")]);
    assert!(
        given.stdout.contains("1.00000"),
        "{} {}",
        given.stdout,
        given.stderr
    );
    let left_out = polychip(&["run", &model]);
    assert!(
        left_out.stdout.contains("0.00000"),
        "{} {}",
        left_out.stdout,
        left_out.stderr
    );
    fails(
        &[&model, "--input", &format!("o={wide}")],
        &["\"o\" is an optional tensor of f32", "holds f64"],
    );
}

#[test]
fn ops_that_no_device_knows_are_listed_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let model = Model {
        nodes: vec![
            node("Nope", "first", &["x"], &["a"]),
            node("Never", "second", &["a"], &["b"]),
            node("Neither", "third", &["b"], &["y"]),
        ],
        inputs: vec![port("x", F32, &["2"])],
        outputs: vec![port("y", F32, &["2"])],
        ..Model::default()
    };
    let path = model.write(folder.path(), "model.onnx");
    let done = polychip(&["run", &path, "--fill", "1"]);
    assert_ne!(done.code, 0);
    for op in ["Nope", "Never", "Neither"] {
        assert!(done.stderr.contains(op), "{op} is not in: {}", done.stderr);
    }
}

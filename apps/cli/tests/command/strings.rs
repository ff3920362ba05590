//! Strings and sequences at the command line: inputs from files, outputs as text, JSON and files.

use std::path::Path;

use crate::model::{F32, I64, Model, floats, node, npy, port, read_npy};
use crate::tool::polychip;

/// ONNX's code of strings.
const STRING: u64 = 8;

/// Each string twice.
fn twice(folder: &Path) -> String {
    let model = Model {
        opset: 20,
        nodes: vec![node("StringConcat", "twice", &["x", "x"], &["y"])],
        inputs: vec![port("x", STRING, &["n", "1"])],
        outputs: vec![port("y", STRING, &["n", "1"])],
        ..Model::default()
    };
    model.write(folder, "twice.onnx")
}

fn wide(texts: &[&str], width: usize) -> Vec<u8> {
    let pad = |text: &&str| {
        text.chars()
            .chain(std::iter::repeat('\0'))
            .take(width)
            .collect::<Vec<_>>()
    };
    let all = texts.iter().flat_map(pad);
    all.flat_map(|c| u32::from(c).to_le_bytes()).collect()
}

#[test]
fn strings_go_in_from_files_and_out_as_text() {
    let folder = tempfile::tempdir().unwrap();
    let model = twice(folder.path());
    let files = [
        ("wide.npy", npy("<U3", "(2, 1)", &wide(&["é", "abc"], 3))),
        ("bytes.npy", npy("|S3", "(2, 1)", "é\0abc".as_bytes())),
        ("lists.json", r#"[["é"], ["abc"]]"#.as_bytes().to_vec()),
    ];
    for (name, bytes) in files {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let (input, save) = (format!("x={}", path.display()), folder.path().join("out"));
        let save_to = save.to_str().unwrap();
        let done = polychip(&["run", &model, "--input", &input, "--save", save_to]);
        assert_eq!(done.code, 0, "{name}: {}", done.stderr);
        let line = r#"y: string [2, 1]: "éé" "abcabc""#;
        assert!(done.stdout.contains(line), "{name}: {}", done.stdout);
        assert_eq!(
            read_npy(&save.join("y.npy")),
            ("<U6".to_owned(), "2,1".to_owned(), wide(&["éé", "abcabc"], 6)),
            "{name}"
        );
        let done = polychip(&["run", &model, "--input", &input, "--json"]);
        let output: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
        let output = &output["outputs"][0];
        assert_eq!(output["dtype"], "string");
        assert_eq!(output["strings"], serde_json::json!(["éé", "abcabc"]));
    }
}

#[test]
fn files_without_strings_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let model = twice(folder.path());
    for (name, bytes, words) in [
        (
            "numbers.npy",
            npy("<f4", "(1, 1)", &floats(&[1.0])),
            "expects string [1, 1]",
        ),
        ("objects.npy", npy("|O", "(1, 1)", b""), "array.astype(str)"),
        ("latin.npy", npy("|S1", "(1, 1)", b"\xe9"), "not UTF-8"),
        (
            "ragged.json",
            b"[[\"a\"], [\"b\", \"c\"]]".to_vec(),
            "different lengths",
        ),
        ("numbers.json", b"[[1]]".to_vec(), "neither a string nor a list"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let input = format!("x={}", path.display());
        polychip(&["run", &model, "--input", &input]).fails(3, &["input \"x\"", name, words]);
    }
}

#[test]
fn a_sequence_is_shown_and_saved_by_element() {
    let folder = tempfile::tempdir().unwrap();
    let model = Model {
        nodes: vec![
            node("Neg", "neg", &["x"], &["z"]),
            node("SequenceConstruct", "both", &["x", "z"], &["y"]),
        ],
        inputs: vec![port("x", F32, &["2"])],
        outputs: vec![sequence("y", F32)],
        ..Model::default()
    };
    let model = model.write(folder.path(), "both.onnx");
    let path = folder.path().join("x.npy");
    std::fs::write(&path, npy("<f4", "(2,)", &floats(&[1.0, 2.0]))).unwrap();
    let (input, save) = (format!("x={}", path.display()), folder.path().join("out"));
    let done = polychip(&["run", &model, "--input", &input, "--save", save.to_str().unwrap()]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    for line in [
        "y[0]: f32 [2]: 1.00000 2.00000",
        "y[1]: f32 [2]: -1.00000 -2.00000",
    ] {
        assert!(done.stdout.contains(line), "{}", done.stdout);
    }
    assert_eq!(read_npy(&save.join("y[1].npy")).2, floats(&[-1.0, -2.0]));
}

/// A graph output that is a sequence of tensors.
fn sequence(name: &str, dtype: u64) -> crate::model::Message {
    let message = crate::model::Message::default;
    let tensor = message().message(1, &message().number(1, dtype));
    let kind = message().message(4, &message().message(1, &tensor));
    message().text(1, name).message(2, &kind)
}

#[test]
fn a_failed_run_names_the_node_and_its_inputs() {
    let folder = tempfile::tempdir().unwrap();
    let weights = crate::model::constant("w", F32, &[10, 4], &floats(&[0.5; 40]));
    let model = Model {
        nodes: vec![node("Gather", "/embeddings/word/Gather", &["w", "ids"], &["y"])],
        constants: vec![weights],
        inputs: vec![port("ids", I64, &["1", "s"])],
        outputs: vec![port("y", F32, &["1", "s", "4"])],
        ..Model::default()
    };
    let model = model.write(folder.path(), "gather.onnx");
    let path = folder.path().join("ids.npy");
    let ids: Vec<u8> = [1i64, 10].iter().flat_map(|id| id.to_le_bytes()).collect();
    std::fs::write(&path, npy("<i8", "(1, 2)", &ids)).unwrap();
    polychip(&["run", &model, "--input", &format!("ids={}", path.display())]).fails(
        3,
        &[
            "node \"/embeddings/word/Gather\" (Gather) with inputs \"w\" f32[10, 4], \"ids\" i64[1, 2]",
            "index 10 is outside an axis of 10",
        ],
    );
}

//! Small models: inputs from files and seeds, open dimensions, every kind of output.

use crate::model::{BF16, BOOL, F32, I64, Model, add_relu, floats, node, npy, port, read_npy, with_integer};
use crate::tool::polychip;

#[test]
fn files_set_open_dimensions() {
    let folder = tempfile::tempdir().unwrap();
    let model = add_relu().write(folder.path(), "m.onnx");
    let x = folder.path().join("x.npy");
    std::fs::write(
        &x,
        npy("<f4", "(2, 3)", &floats(&[0.0, 0.0, 0.0, -3.0, 2.0, 1.0])),
    )
    .unwrap();
    let save = folder.path().join("out");
    let input = format!("x={}", x.display());
    let json = polychip(&[
        "run",
        &model,
        "--input",
        &input,
        "--save",
        save.to_str().unwrap(),
        "--json",
    ])
    .json("run");
    assert_eq!(json["outputs"][0]["shape"], serde_json::json!([2, 3]));
    assert_eq!(json["outputs"][0]["max"], 1.5);
    // `/` and `:` are no characters of a file's name
    let saved = read_npy(&save.join("y_out_0.npy"));
    assert_eq!(
        saved,
        (
            "<f4".into(),
            "2,3".into(),
            floats(&[1.0, 0.0, 0.5, 0.0, 1.0, 1.5])
        )
    );
    let text = polychip(&["run", &model, "--input", &input]).ok();
    assert!(
        text.starts_with("y/out:0: f32 [2, 3]: 1.00000 0.00000 0.50000"),
        "{text}"
    );
}

#[test]
fn a_run_is_padded_to_the_next_bucket() {
    let folder = tempfile::tempdir().unwrap();
    let model = add_relu().write(folder.path(), "m.onnx");
    let run = |more: &[&str]| {
        let arguments = ["run", &*model, "--fill", "7", "--shape", "x=3x3"];
        polychip(&[&arguments, more].concat())
    };
    let (padded, plain) = (run(&["--buckets", "n=4,16"]).ok(), run(&[]).ok());
    assert_eq!(padded.lines().next(), plain.lines().next());
    assert!(padded.contains("buckets: {\"n\": [4, 16]}"), "{padded}");
    run(&["--buckets", "m=4"]).fails(3, &["\"m\"", "leaves open: n"]);
    run(&["--buckets", "n=0"]).fails(2, &["a whole number above 0"]);
}

#[test]
fn seeded_inputs_are_repeatable_and_saved() {
    let folder = tempfile::tempdir().unwrap();
    let model = add_relu().write(folder.path(), "m.onnx");
    let run = |seed: &str, name: &str| {
        let save = folder.path().join(name);
        polychip(&[
            "run",
            &model,
            "--fill",
            seed,
            "--dim",
            "n=4",
            "--save",
            save.to_str().unwrap(),
        ])
        .ok();
        let mut names: Vec<String> = std::fs::read_dir(&save)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["x.npy", "y_out_0.npy"]);
        (
            std::fs::read(save.join("x.npy")).unwrap(),
            std::fs::read(save.join("y_out_0.npy")).unwrap(),
        )
    };
    assert_eq!(run("7", "a"), run("7", "b"));
    assert_ne!(run("7", "a"), run("8", "c"));
    // what was saved is read again, and gives the same
    let input = format!("x={}", folder.path().join("a/x.npy").display());
    let save = folder.path().join("d");
    polychip(&["run", &model, "--input", &input, "--save", save.to_str().unwrap()]).ok();
    assert_eq!(std::fs::read(save.join("y_out_0.npy")).unwrap(), run("7", "a").1);
}

#[test]
fn integers_booleans_and_half_floats_are_saved() {
    let folder = tempfile::tempdir().unwrap();
    let model = Model {
        nodes: vec![
            with_integer(node("Cast", "cast", &["i"], &["half"]), "to", BF16),
            node("Not", "not", &["b"], &["c"]),
            node("Neg", "neg", &["i"], &["j"]),
        ],
        inputs: vec![port("i", I64, &["2", "2"]), port("b", BOOL, &["3"])],
        outputs: vec![
            port("half", BF16, &["2", "2"]),
            port("c", BOOL, &["3"]),
            port("j", I64, &["2", "2"]),
        ],
        ..Model::default()
    };
    let path = model.write(folder.path(), "m.onnx");
    let (i, b) = (folder.path().join("i.npy"), folder.path().join("b.npy"));
    let numbers: Vec<u8> = [1i64, -2, 3, 0]
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    std::fs::write(&i, npy("<i8", "(2, 2)", &numbers)).unwrap();
    std::fs::write(&b, npy("|b1", "(3,)", &[1, 0, 1])).unwrap();
    let save = folder.path().join("out");
    let (i, b) = (format!("i={}", i.display()), format!("b={}", b.display()));
    let json = polychip(&[
        "run",
        &path,
        "--input",
        &i,
        "--input",
        &b,
        "--save",
        save.to_str().unwrap(),
        "--json",
    ])
    .json("run");
    let read = |name: &str| read_npy(&save.join(name));
    let bits: Vec<u8> = [0x3f80u16, 0xc000, 0x4040, 0]
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    assert_eq!(read("half.npy"), ("<u2".into(), "2,2".into(), bits));
    assert_eq!(json["outputs"][0]["note"], "written as u16 bit patterns");
    assert_eq!(read("c.npy"), ("|b1".into(), "3".into(), vec![0, 1, 0]));
    let negated: Vec<u8> = [-1i64, 2, -3, 0]
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    assert_eq!(read("j.npy"), ("<i8".into(), "2,2".into(), negated));
}

#[test]
fn data_dependent_output_has_its_actual_shape() {
    let folder = tempfile::tempdir().unwrap();
    let model = Model {
        nodes: vec![node("NonZero", "nz", &["x"], &["places"])],
        inputs: vec![port("x", F32, &["4"])],
        outputs: vec![port("places", I64, &["1", "found"])],
        ..Model::default()
    };
    let path = model.write(folder.path(), "m.onnx");
    let x = folder.path().join("x.npy");
    std::fs::write(&x, npy("<f4", "(4,)", &floats(&[0.0, 2.0, 0.0, 1.0]))).unwrap();
    let json = polychip(&["run", &path, "--input", &format!("x={}", x.display()), "--json"]).json("run");
    assert_eq!(json["outputs"][0]["shape"], serde_json::json!([1, 2]));
    assert_eq!(json["outputs"][0]["max"], 3.0);
}

#[test]
fn passthrough_output_is_returned() {
    let folder = tempfile::tempdir().unwrap();
    let model = Model {
        nodes: vec![node("Relu", "relu", &["x"], &["y"])],
        inputs: vec![port("x", F32, &["2"])],
        outputs: vec![port("x", F32, &["2"]), port("y", F32, &["2"])],
        ..Model::default()
    };
    let path = model.write(folder.path(), "m.onnx");
    let x = folder.path().join("x.npy");
    std::fs::write(&x, npy("<f4", "(2,)", &floats(&[-1.0, 2.0]))).unwrap();
    let json = polychip(&["run", &path, "--input", &format!("x={}", x.display()), "--json"]).json("run");
    assert_eq!(
        (&json["outputs"][0]["min"], &json["outputs"][1]["min"]),
        (&(-1.0).into(), &0.0.into())
    );
}

#[test]
fn scores_are_not_called_probabilities() {
    let folder = tempfile::tempdir().unwrap();
    let model = add_relu().write(folder.path(), "m.onnx");
    let (x, labels) = (folder.path().join("x.npy"), folder.path().join("labels.txt"));
    std::fs::write(&x, npy("<f4", "(1, 3)", &floats(&[0.0, 7.0, 1.0]))).unwrap();
    std::fs::write(&labels, "cat\ndog\neel\n").unwrap();
    let input = format!("x={}", x.display());
    let text = polychip(&[
        "run",
        &model,
        "--input",
        &input,
        "--labels",
        labels.to_str().unwrap(),
    ])
    .ok();
    assert!(text.starts_with("dog: score 6.0000\n"), "{text}");
}

#[test]
fn open_dimensions_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let model = add_relu().write(folder.path(), "m.onnx");
    let json = polychip(&["inspect", &model, "--json"]).json("inspect");
    assert_eq!(json["open_dims"], serde_json::json!(["n"]));
    assert_eq!(json["inputs"][0]["shape"], serde_json::json!(["n", 3]));
    assert!(json["support"].is_null() && json["note"].as_str().unwrap().contains("--dim NAME=N"));
    let json = polychip(&["inspect", &model, "--dim", "n=2", "--json"]).json("inspect");
    assert_eq!(
        json["support"]["devices"][0]["supported"],
        json["support"]["nodes"]
    );
    polychip(&["run", &model, "--fill", "1"]).fails(3, &["the size of n is open", "--dim NAME=N"]);
    polychip(&["run", &model, "--fill", "1", "--dim", "m=2"]).fails(3, &["\"m\"", "names n"]);
    polychip(&["partition", &model]).fails(3, &["n", "--dim NAME=N"]);
}

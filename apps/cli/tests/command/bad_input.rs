//! Bad models, inputs and plans: a clear error, the right code, and no file left.

use std::path::Path;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

use crate::model::{F32, I64, Model, add_relu, constant, external, floats, node, npy, port};
use crate::tool::{Done, polychip, shapes, shapes_file};
use polychip_sdk::protobuf::Message;

/// A run that should fail before it writes anything.
#[track_caller]
fn fails(arguments: &[&str], code: i32, words: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let save = folder.path().join("out");
    let mut all = vec!["run"];
    all.extend(arguments);
    all.extend(["--save", save.to_str().unwrap()]);
    polychip(&all).fails(code, words);
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        0,
        "a file is left"
    );
}

/// Every command that reads a model says the same of a bad one.
#[track_caller]
fn bad_model(path: &str, code: i32, words: &[&str]) {
    fails(&[path, "--fill", "1"], code, words);
    let commands: &[&str] = if code == 3 {
        &["partition", "explain", "inspect", "bench"]
    } else {
        &["partition"]
    };
    for command in commands {
        polychip(&[command, path]).fails(code, words);
    }
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path.display().to_string()
}

#[test]
fn missing_empty_truncated_and_random_models() {
    let folder = tempfile::tempdir().unwrap();
    bad_model("/nowhere/model.onnx", 3, &["/nowhere/model.onnx", "No such file"]);
    bad_model(
        folder.path().to_str().unwrap(),
        3,
        &[folder.path().to_str().unwrap()],
    );
    bad_model(
        &write(folder.path(), "empty.onnx", b""),
        3,
        &["empty.onnx", "the model is empty"],
    );
    let whole = std::fs::read(shapes()).unwrap();
    for part in 1..8 {
        let path = write(folder.path(), "torn.onnx", &whole[..whole.len() * part / 8]);
        fails(&[&path, "--fill", "1"], 3, &["torn.onnx"]);
    }
    let mut random = ChaCha8Rng::seed_from_u64(0);
    for length in [1, 16, 300, 5000] {
        let mut bytes = vec![0; length];
        random.fill_bytes(&mut bytes);
        fails(
            &[&write(folder.path(), "random.onnx", &bytes), "--fill", "1"],
            3,
            &["random.onnx"],
        );
    }
}

#[test]
fn a_cycle_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let model = Model {
        nodes: vec![
            node("Add", "first", &["x", "b"], &["a"]),
            node("Relu", "second", &["a"], &["b"]),
        ],
        inputs: vec![port("x", F32, &["2"])],
        outputs: vec![port("b", F32, &["2"])],
        ..Model::default()
    };
    bad_model(
        &model.write(folder.path(), "cycle.onnx"),
        3,
        &["cycle.onnx", "first"],
    );
}

#[test]
fn values_that_contradict_shapes_are_bad_input() {
    let folder = tempfile::tempdir().unwrap();
    let model = |size: &str, declared: &[&str]| Model {
        nodes: vec![node("Reshape", "change", &["x", "shape"], &["y"])],
        inputs: vec![port("x", F32, &[size]), port("shape", I64, &["2"])],
        outputs: vec![port("y", F32, declared)],
        ..Model::default()
    };
    let ones: Vec<u8> = [1i64, 1].iter().flat_map(|size| size.to_le_bytes()).collect();
    let ones = write(folder.path(), "ones.npy", &npy("<i8", "(2,)", &ones));
    let ones = format!("shape={ones}");
    let given = |path: &str, words: Option<&[&str]>| {
        let arguments = [path, "--input", &ones, "--fill", "1"];
        match words {
            Some(words) => fails(&arguments, 3, words),
            None => drop(polychip(&[&["run"], &arguments[..]].concat()).ok()),
        }
    };
    let one = model("1", &["1", "1"]).write(folder.path(), "one.onnx");
    given(&one, None);
    // no shape for 6 elements, though the declared one is
    let six = model("6", &["2", "3"]).write(folder.path(), "six.onnx");
    given(&six, Some(&["Reshape"]));
    let other = model("1", &["4", "4"]).write(folder.path(), "other.onnx");
    given(&other, Some(&["Reshape", "[1, 1]", "[4, 4]"]));
}

#[test]
fn unknown_ops_and_opsets() {
    let folder = tempfile::tempdir().unwrap();
    let mut model = Model {
        nodes: vec![node("Frobnicate", "odd", &["x"], &["y"])],
        inputs: vec![port("x", F32, &["2"])],
        outputs: vec![port("y", F32, &["2"])],
        ..Model::default()
    };
    let path = model.write(folder.path(), "op.onnx");
    bad_model(&path, 4, &["op.onnx", "Frobnicate \"odd\"", "cpu:0"]);
    // the summary needs no device that runs it
    let json = polychip(&["inspect", &path, "--json"]).json("inspect");
    assert_eq!(json["support"]["unsupported"][0]["op"], "Frobnicate");
    assert_eq!(
        json["support"]["unsupported"][0]["names"],
        serde_json::json!(["odd"])
    );
    model.nodes = vec![node("Relu", "relu", &["x"], &["y"])];
    model.opset = 99;
    bad_model(
        &model.write(folder.path(), "opset.onnx"),
        3,
        &["opset.onnx", "opset 99", "to 28"],
    );
    model.opset = 17;
    model.nodes[0] = node("Relu", "relu", &["x"], &["y"]).text(7, "com.vendor");
    bad_model(
        &model.write(folder.path(), "domain.onnx"),
        3,
        &["domain.onnx", "com.vendor"],
    );
}

#[test]
fn missing_external_data_and_escaping_paths() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("model");
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(folder.path().join("secret.bin"), floats(&[1.0, 2.0, 3.0])).unwrap();
    std::fs::write(inside.join("short.bin"), floats(&[1.0])).unwrap();
    std::fs::write(inside.join("good.bin"), floats(&[1.0, 2.0, 3.0])).unwrap();
    let mut model = add_relu();
    let absolute = folder.path().join("secret.bin").display().to_string();
    for location in [
        "none.bin",
        "../secret.bin",
        &absolute,
        "short.bin",
        "sub/../../secret.bin",
    ] {
        model.constants = vec![external("w", F32, &[3], location)];
        bad_model(
            &model.write(&inside, "m.onnx"),
            3,
            &["m.onnx", location.rsplit('/').next().unwrap()],
        );
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(folder.path().join("secret.bin"), inside.join("link.bin")).unwrap();
        model.constants = vec![external("w", F32, &[3], "link.bin")];
        bad_model(&model.write(&inside, "m.onnx"), 3, &["m.onnx", "link.bin"]);
    }
    model.constants = vec![external("w", F32, &[3], "good.bin")];
    polychip(&[
        "run",
        &model.write(&inside, "m.onnx"),
        "--fill",
        "1",
        "--dim",
        "n=1",
    ])
    .ok();
}

#[test]
fn a_constant_of_the_wrong_size() {
    let folder = tempfile::tempdir().unwrap();
    let mut model = add_relu();
    model.constants = vec![constant("w", F32, &[3], &floats(&[1.0]))];
    bad_model(&model.write(folder.path(), "m.onnx"), 3, &["m.onnx", "w"]);
    // a shape past all memory
    model.constants = vec![constant("w", F32, &[u64::MAX / 2, u64::MAX / 2], &[])];
    bad_model(&model.write(folder.path(), "m.onnx"), 3, &["m.onnx"]);
    let shape = Message::default().bytes(1, &[0xff; 4]);
    model.inputs = vec![Message::default().text(1, "x").message(2, &shape)];
    bad_model(&model.write(folder.path(), "m.onnx"), 3, &["m.onnx"]);
}

#[test]
fn wrong_name_type_and_shape_of_an_input() {
    let folder = tempfile::tempdir().unwrap();
    let model = add_relu().write(folder.path(), "m.onnx");
    let file = |name: &str, bytes: &[u8]| write(folder.path(), name, bytes);
    let good = file("good.npy", &npy("<f4", "(1, 3)", &floats(&[1.0, 2.0, 3.0])));
    let cases = [
        (format!("z={good}"), vec!["no input \"z\"", "its inputs are: x"]),
        (
            format!("x={}", file("type.npy", &npy("<f8", "(1, 3)", &[0; 24]))),
            vec!["input \"x\" expects f32 [1, 3]", "type.npy holds f64 [1, 3]"],
        ),
        (
            format!(
                "x={}",
                file("shape.npy", &npy("<f4", "(1, 4)", &floats(&[0.0; 4])))
            ),
            vec!["input \"x\" expects f32 [1, 3]", "shape.npy holds f32 [1, 4]"],
        ),
        (
            format!(
                "x={}",
                file("torn.npy", &npy("<f4", "(1, 3)", &floats(&[0.0; 2])))
            ),
            vec!["input \"x\"", "torn.npy", "8 bytes of data", "needs 12"],
        ),
        (
            format!("x={}", file("random.npy", b"no array")),
            vec!["input \"x\"", "random.npy", "not a .npy file"],
        ),
        (
            format!(
                "x={}",
                file("huge.npy", &npy("<f4", "(99999999999, 99999999999)", &[]))
            ),
            vec!["input \"x\"", "huge.npy"],
        ),
        (
            format!("x={}", file("x.csv", b"1 2 3")),
            vec![".npy, .json, .png, .jpg, .wav or .txt files"],
        ),
        (
            format!("x={}", file("x.txt", b"1 two 3")),
            vec!["x.txt", "\"two\" is not a number of f32"],
        ),
        (
            format!("x={}", file("x.jpg", b"<html>")),
            vec!["x.jpg", "not a readable JPEG picture"],
        ),
        (
            format!("x={}", file("x.wav", b"RIFF\0\0\0\0WAVEfmt ")),
            vec!["x.wav", "not a readable WAV file"],
        ),
        (
            "x=/nowhere/x.npy".to_owned(),
            vec!["/nowhere/x.npy", "No such file"],
        ),
        (
            format!("x={}", shapes_file("pictures/star.png")),
            vec!["a picture needs an input of f32 [1, 3, h, w]"],
        ),
    ];
    for (input, words) in cases {
        let size: &[&str] = if input.contains("shape.npy") {
            &["--dim", "n=1"]
        } else {
            &[]
        };
        let mut arguments = vec![&*model, "--input", &input];
        arguments.extend(size);
        fails(&arguments, 3, &words);
    }
    let input = format!("x={good}");
    fails(
        &[&model, "--input", &input, "--dim", "n=2"],
        3,
        &["expects f32 [2, 3]", "good.npy holds f32 [1, 3]"],
    );
    fails(
        &[&model, "--dim", "n=2"],
        3,
        &["input \"x\" has no value", "--input x=FILE", "--fill SEED"],
    );
    fails(
        &[&model, "--input", &input, "--input", &input],
        2,
        &["--input x is given twice"],
    );
}

#[test]
fn mismatched_pictures_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let model = shapes();
    let whole = std::fs::read(shapes_file("pictures/star.png")).unwrap();
    let torn = format!(
        "image={}",
        write(folder.path(), "torn.png", &whole[..whole.len() / 2])
    );
    fails(
        &[&model, "--input", &torn],
        3,
        &["input \"image\"", "torn.png", "not a readable PNG picture"],
    );
    let large = format!("image={}", shapes_file("held-out.png"));
    fails(
        &[&model, "--input", &large],
        3,
        &[
            "input \"image\": ",
            "held-out.png: the picture is ",
            "the input takes 96 × 96; choose --resize",
        ],
    );
    let star = format!("image={}", shapes_file("pictures/star.png"));
    let labels = write(folder.path(), "labels.txt", b"one\ntwo\n");
    fails(
        &[&model, "--input", &star, "--labels", &labels],
        3,
        &["rows of 2", "probabilities f32 [1, 12]"],
    );
    fails(
        &[&model, "--input", &star, "--labels", "/nowhere/labels"],
        3,
        &["/nowhere/labels"],
    );
}

#[test]
fn invalid_and_foreign_plans_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let small = add_relu().write(folder.path(), "m.onnx");
    let plan = folder.path().join("plan.json");
    let plan = plan.to_str().unwrap();
    polychip(&["partition", &small, "--dim", "n=1", "-o", plan]).ok();
    fails(
        &[&shapes(), "--fill", "1", "--plan", plan],
        3,
        &["shapes.onnx", "polychip partition MODEL -o PLAN"],
    );
    let good = std::fs::read_to_string(plan).unwrap();
    let cases = [
        (String::new(), "not a plan"),
        (good[..good.len() / 2].to_owned(), "not a plan"),
        (good.replacen("\"version\": 2", "\"version\": 99", 1), "99"),
        (good.replacen("\"nodes\": [", "\"nodes\": [\n 77,", 1), "m.onnx"),
    ];
    for (text, words) in cases {
        assert_ne!(text, good);
        let path = write(folder.path(), "bad.json", text.as_bytes());
        fails(
            &[&small, "--fill", "1", "--dim", "n=1", "--plan", &path],
            3,
            &[words],
        );
    }
    let other = write(
        folder.path(),
        "device.json",
        good.replace("cpu:0", "npu:0").as_bytes(),
    );
    fails(
        &[&small, "--fill", "1", "--dim", "n=1", "--plan", &other],
        4,
        &["npu:0"],
    );
    fails(
        &[&small, "--fill", "1", "--dim", "n=1", "--plan", "/nowhere/plan"],
        3,
        &["/nowhere/plan"],
    );
}

#[test]
fn a_failed_plan_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.json");
    let torn = write(folder.path(), "torn.onnx", b"torn");
    let before = std::fs::read_dir(folder.path()).unwrap().count();
    polychip(&["partition", &torn, "-o", plan.to_str().unwrap()]).fails(3, &["torn.onnx"]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), before);
}

#[test]
fn foreign_profile_is_left_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let foreign = write(
        folder.path(),
        "notes.txt",
        b"these are my notes, and no database at all",
    );
    fails(
        &[&shapes(), "--fill", "1", "--profile", &foreign],
        3,
        &["notes.txt", "unchanged"],
    );
    assert_eq!(
        std::fs::read(&foreign).unwrap(),
        b"these are my notes, and no database at all"
    );
}

#[test]
fn unusable_bundle_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let torn = write(folder.path(), "phone.bundle", b"torn");
    let run = [&shapes(), "--fill", "1", "--bundle", &torn];
    fails(&run, 2, &["--trust"]);
    let key = "00".repeat(32);
    let trusted = [&run[..], &["--trust", &key]].concat();
    fails(&trusted, 3, &["bundle ", "phone.bundle", "not used"]);
    // where a profile is expected, too
    for command in [
        &["run", &shapes(), "--fill", "1", "--profile", &torn][..],
        &["bench", &shapes(), "--profile", &torn],
        &["profile", "show", &torn],
        &["profile", "export", "-", "--profile", &torn],
        &["profile", "diff", &torn, &torn],
    ] {
        polychip(command).fails(2, &["phone.bundle is a bundle", "--trust KEY"]);
        polychip(&[command, &["--trust", &key]].concat()).fails(3, &["phone.bundle", "bundle"]);
    }
    polychip(&["profile", &shapes(), "--profile", &torn, "--trust", &key])
        .fails(2, &["phone.bundle is a bundle", "read only"]);
    fails(&[&run[..], &["--trust", "nobody"]].concat(), 2, &["nobody"]);
}

#[test]
fn two_outputs_of_one_file_name() {
    let folder = tempfile::tempdir().unwrap();
    let model = Model {
        nodes: vec![
            node("Relu", "r", &["x"], &["y/1"]),
            node("Neg", "n", &["x"], &["y:1"]),
        ],
        inputs: vec![port("x", F32, &["2"])],
        outputs: vec![port("y/1", F32, &["2"]), port("y:1", F32, &["2"])],
        ..Model::default()
    };
    let path = model.write(folder.path(), "m.onnx");
    fails(&[&path, "--fill", "1"], 3, &["\"y/1\"", "\"y:1\"", "y_1.npy"]);
    let done: Done = polychip(&["run", &path, "--fill", "1"]);
    done.ok();
}

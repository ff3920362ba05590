//! `compare`: which layer drifts first, between models, between ways to run one, and between arrays in files.

mod mutant;

use std::path::Path;

use polychip_graph::onnx::messages;
use prost::Message as _;

use crate::model::{F32, Model, add_relu, constant, floats, node, npy, port, read_npy, with_integers};
use crate::place::Place;
use crate::tool::{polychip, polychip_with, shapes, shapes_file};
use mutant::{ARCHITECTURES, architecture, mutated};

/// No run is timed.
const UNTIMED: [&str; 2] = ["--iters", "0"];

fn write(folder: &Path, name: &str, bytes: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path.display().to_string()
}

/// Twenty models with one weight or attribute of one node changed: the first layer that drifts is that node.
#[test]
fn mutated_layer_is_named_first_in_twenty_mutants() {
    let folder = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    for seed in 0..20 {
        let which = ARCHITECTURES[seed as usize % ARCHITECTURES.len()];
        let model = architecture(which);
        let (mutant, name) = mutated(&model, seed);
        let a = write(folder.path(), "a.onnx", &model.encode_to_vec());
        let b = write(folder.path(), "b.onnx", &mutant.encode_to_vec());
        let line = [&["compare", &a, &b, "--devices", "cpu", "--json"], &UNTIMED[..]].concat();
        let json = polychip(&line).json("compare");
        let first = &json["first_drift"]["layer"];
        if *first != name {
            wrong.push(format!(
                "{which}, seed {seed}: {name} was changed, {first} is named"
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_model_does_not_drift_from_itself() {
    let model = shapes();
    let line = [
        "compare",
        &model,
        &model,
        "--devices",
        "cpu",
        "--iters",
        "12",
        "--warmup",
        "1",
    ];
    let gated = [
        &line[..],
        &[
            "--max-error",
            "0",
            "--fail-on",
            "drift",
            "--fail-on",
            "slower=100000",
        ],
    ]
    .concat();
    let json = polychip(&[&gated[..], &["--json"]].concat()).json("compare");
    assert!(json["first_drift"].is_null() && json["failed"] == serde_json::json!([]));
    let layers = json["layers"].as_array().unwrap();
    // convolutions, and the Clips and sums behind them
    assert!(layers.len() > 100, "{}", layers.len());
    assert!(
        layers
            .iter()
            .all(|layer| layer["cosine"] == 1.0 && layer["absolute_error"] == 0.0)
    );
    assert!(layers.iter().any(|layer| layer["is_fused"] == true));
    assert!(layers.last().unwrap()["is_output"] == true);
    for side in ["a", "b"] {
        assert!(
            json[side]["latency_ns"]["p50"].as_u64().unwrap() > 0,
            "{}",
            json[side]
        );
        assert_eq!(json[side]["devices"], serde_json::json!(["cpu:0"]));
    }
    // weights that both hold are in memory once
    let constants = |side: &str| json[side]["memory"]["constant_bytes"].as_u64().unwrap();
    assert!(constants("a") > 1 << 20 && constants("b") < constants("a"));
    let text = polychip(&line).ok();
    for words in [
        "no layer drifts",
        "run, median",
        "of 101 layers",
        "constants on devices",
    ] {
        assert!(text.contains(words), "no {words:?} in\n{text}");
    }
}

#[test]
fn dequantised_integers_have_their_own_limit() {
    let (a, b) = (shapes(), shapes_file("shapes-int8.onnx"));
    let picture = format!("image={}", shapes_file("pictures/circle.png"));
    let line = [
        &["compare", &a, &b, "--devices", "cpu", "--input", &picture],
        &UNTIMED[..],
    ]
    .concat();
    let json = polychip(&[&line[..], &["--json"]].concat()).json("compare");
    assert_eq!(json["limits"]["max_error"], 0.2);
    let layers = json["layers"].as_array().unwrap();
    let read = layers.iter().filter(|layer| {
        layer["tensor_b"]
            .as_str()
            .is_some_and(|name| name.ends_with("_DequantizeLinear_Output"))
    });
    assert!(read.count() > 40, "{layers:#?}");
    // eight bits: some 30 dB behind the first layers
    let first = layers[0]["snr_db"].as_f64().unwrap();
    assert!((20.0..60.0).contains(&first), "{first}");
    polychip(
        &[
            &line[..],
            &["--max-error", "0.0001", "--fail-on", "drift", "--json"],
        ]
        .concat(),
    )
    .differs(&["layers drift (--fail-on drift)"]);
}

/// Integers that no node dequantises: their reals are those of the float model, exactly where scales are powers of two.
#[test]
fn integers_are_compared_as_dequantised_values() {
    const U8: u64 = 2;
    let folder = tempfile::tempdir().unwrap();
    let square = |value: f32| floats(&[value, 0.0, 0.0, value]);
    let plain = Model {
        nodes: vec![
            node("MatMul", "m", &["x", "w"], &["h"]),
            node("MatMul", "n", &["h", "w"], &["y"]),
        ],
        constants: vec![constant("w", F32, &[2, 2], &square(1.0))],
        inputs: vec![port("x", F32, &["1", "2"])],
        outputs: vec![port("y", F32, &["1", "2"])],
        ..Model::default()
    };
    let scale = |name: &str, value: f32| constant(name, F32, &[], &floats(&[value]));
    let quantised = |factor: u8| {
        let product = |name: &str, x: [&str; 3], out: [&str; 3]| {
            let inputs = [x[0], x[1], x[2], "w", "one", "zero", out[1], out[2]];
            node("QLinearMatMul", name, &inputs, &[out[0]])
        };
        Model {
            nodes: vec![
                node("QuantizeLinear", "q", &["x", "one", "zero"], &["x_quantized"]),
                product(
                    "m_quant",
                    ["x_quantized", "one", "zero"],
                    ["h_quantized", "half", "three"],
                ),
                product(
                    "n_quant",
                    ["h_quantized", "half", "three"],
                    ["y_quantized", "one", "zero"],
                ),
                node(
                    "DequantizeLinear",
                    "back",
                    &["y_quantized", "one", "zero"],
                    &["y"],
                ),
            ],
            constants: vec![
                constant("w", U8, &[2, 2], &[factor, 0, 0, factor]),
                scale("one", 1.0),
                scale("half", 0.5),
                constant("zero", U8, &[], &[0]),
                constant("three", U8, &[], &[3]),
            ],
            ..Model {
                inputs: vec![port("x", F32, &["1", "2"])],
                outputs: vec![port("y", F32, &["1", "2"])],
                ..Model::default()
            }
        }
    };
    let a = plain.write(folder.path(), "a.onnx");
    let x = write(
        folder.path(),
        "x.npy",
        &npy("<f4", "(1, 2)", &floats(&[5.0, 7.0])),
    );
    let input = format!("x={x}");
    let compared = |factor: u8| {
        let b = quantised(factor).write(folder.path(), "b.onnx");
        let line = [
            &["compare", &a, &b, "--devices", "cpu", "--input", &input, "--json"],
            &UNTIMED[..],
        ]
        .concat();
        polychip(&line).json("compare")
    };
    let same = compared(1);
    let layers = same["layers"].as_array().unwrap();
    assert_eq!(layers.len(), 2, "{same:#}");
    assert!(
        layers.iter().all(|layer| layer["absolute_error"] == 0.0),
        "{same:#}"
    );
    assert_eq!(
        (&layers[0]["tensor_b"], &layers[0]["dtype_b"]),
        (&serde_json::json!("h_quantized"), &serde_json::json!("u8"))
    );
    // twice as much from the first product on
    let other = compared(2);
    assert_eq!(other["first_drift"]["layer"], "m");
    assert_eq!(other["first_drift"]["absolute_error"], 7.0);
    assert_eq!(other["has_made_inputs"], false);
}

/// `big` is above 65504, the largest float of 16 bits, in some elements.
fn overflowing(half: bool) -> Vec<u8> {
    let dtype = if half { 10 } else { F32 };
    let matrix = |name: &str, value: f32| {
        let values: Vec<f32> = (0..64).map(|at| if at % 9 == 0 { value } else { 0.5 }).collect();
        let bytes = if half {
            values
                .iter()
                .flat_map(|value| half::f16::from_f32(*value).to_le_bytes())
                .collect()
        } else {
            floats(&values)
        };
        constant(name, dtype, &[8, 8], &bytes)
    };
    Model {
        nodes: vec![
            node("MatMul", "small", &["x", "w"], &["h"]),
            node("Relu", "relu", &["h"], &["r"]),
            node("MatMul", "big", &["r", "v"], &["o"]),
            node("MatMul", "back", &["o", "u"], &["y"]),
        ],
        constants: vec![matrix("w", 1.0), matrix("v", 60_000.0), matrix("u", 0.001)],
        inputs: vec![port("x", dtype, &["4", "8"])],
        outputs: vec![port("y", dtype, &["4", "8"])],
        ..Model::default()
    }
    .bytes()
}

#[test]
fn the_layer_that_overflows_half_floats_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let a = write(folder.path(), "single.onnx", &overflowing(false));
    let b = write(folder.path(), "half.onnx", &overflowing(true));
    let line = [&["compare", &a, &b, "--devices", "cpu"], &UNTIMED[..]].concat();
    let json = polychip(&[&line[..], &["--json"]].concat()).json("compare");
    let first = &json["first_drift"];
    assert_eq!(first["layer"], "big", "{json:#}");
    let count = |of: &str| first[of].as_u64().unwrap();
    assert!(count("not_finite_a") == 0 && count("not_finite_b") > 0 && count("broken") > 0);
    assert_eq!(json["limits"]["max_error"], 0.05);
    let text = polychip(&[&line[..], &["--fail-on", "output"]].concat()).differs(&["1 of 1 outputs drift"]);
    assert!(
        text.contains("first layer that drifts: big (MatMul): ")
            && text.contains("values are not finite in B"),
        "{text}"
    );
}

/// Two device sets and two plans of one model, on devices of a script that compute what the oracle computes.
#[test]
fn devices_and_plans_of_one_model_are_two_sides() {
    let place = Place::new(|folder| add_relu().write(folder, "m.onnx"));
    let script = "[[device]]\n[[device]]\n";
    let sides = place.with(
        script,
        "compare",
        &[
            &[
                "--dim",
                "n=2",
                "--devices",
                "null:0",
                "--b-devices",
                "cpu",
                "--json",
            ],
            &UNTIMED[..],
        ]
        .concat(),
    );
    let json = sides.json("compare");
    assert_eq!(json["a"]["devices"], serde_json::json!(["null:0"]));
    assert_eq!(json["b"]["devices"], serde_json::json!(["cpu:0"]));
    assert!(json["first_drift"].is_null());
    // nodes stay on their devices where tensors are kept
    let plans: Vec<String> = ["null:0", "null:1"]
        .iter()
        .map(|device| {
            let file = place.path(&format!("{}.plan", device.replace(':', "")));
            let pin = format!("relu={device}");
            place
                .with(
                    script,
                    "partition",
                    &["--dim", "n=2", "--devices", "null", "--pin", &pin, "-o", &file],
                )
                .ok();
            file
        })
        .collect();
    let json = place
        .with(
            script,
            "compare",
            &[
                &[
                    "--dim", "n=2", "--plan", &plans[0], "--b-plan", &plans[1], "--json",
                ],
                &UNTIMED[..],
            ]
            .concat(),
        )
        .json("compare");
    assert_eq!(json["a"]["plan"], plans[0]);
    assert_eq!(json["b"]["plan"], plans[1]);
    assert_eq!(json["layers"].as_array().unwrap().len(), 2);
    // the second side's pins take the place of the first one's
    let pinned = [
        "--dim",
        "n=2",
        "--devices",
        "null",
        "--pin",
        "*=null:0",
        "--b-pin",
        "*=null:1",
        "--json",
    ];
    let json = place
        .with(script, "compare", &[&pinned[..], &UNTIMED[..]].concat())
        .json("compare");
    assert_eq!(json["a"]["devices"], serde_json::json!(["null:0"]));
    assert_eq!(json["b"]["devices"], serde_json::json!(["null:1"]));
}

#[test]
fn compare_text() {
    let folder = tempfile::tempdir().unwrap();
    let other = Model {
        constants: vec![constant("w", F32, &[3], &floats(&[1.0, -1.0, 0.75]))],
        ..add_relu()
    };
    let a = add_relu().write(folder.path(), "a.onnx");
    let b = other.write(folder.path(), "b.onnx");
    let values = floats(&[1.0, 2.0, 3.0, -4.0, -5.0, 1.0]);
    let x = write(folder.path(), "x.npy", &npy("<f4", "(2, 3)", &values));
    let input = format!("x={x}");
    let line = [
        &["compare", &a, &b, "--devices", "cpu", "--input", &input],
        &UNTIMED[..],
    ]
    .concat();
    let text = polychip(&line).ok();
    let folder = format!("{}/", folder.path().display());
    // memory is another on other processors
    let shown = text
        .split("\n                ")
        .next()
        .unwrap()
        .replace(&folder, "");
    insta::assert_snapshot!("compare_text", shown);
}

#[test]
fn arrays_in_files_are_a_side() {
    let folder = tempfile::tempdir().unwrap();
    let model = add_relu().write(folder.path(), "m.onnx");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (saved, other) = (path("saved"), path("other"));
    polychip(&[
        "run",
        &model,
        "--fill",
        "3",
        "--dim",
        "n=2",
        "--save",
        &saved,
        "--devices",
        "cpu",
    ])
    .ok();
    // the folder holds the input that was made up, and the output
    let line = [
        "compare",
        &saved,
        &model,
        "--max-error",
        "0",
        "--devices",
        "cpu",
        "--json",
    ];
    let json = polychip(&line).json("compare");
    assert!(json["first_drift"].is_null());
    assert_eq!(json["layers"][0]["layer"], "relu");
    assert_eq!(json["alone_b"], serde_json::json!(["add"]));
    assert!(json["a"]["memory"].is_null() && json["b"]["latency_ns"].is_null());

    std::fs::create_dir(&other).unwrap();
    let shifted = floats(&[9.0; 6]);
    std::fs::write(
        Path::new(&other).join("y_out_0.npy"),
        npy("<f4", "(2, 3)", &shifted),
    )
    .unwrap();
    // arrays alone load no plugin
    let text = polychip_with(
        &[("POLYCHIP_LOG", "polychip=info")],
        &["compare", &saved, &other, "--fail-on", "drift"],
    )
    .differs(&["1 of 1 layers drift"]);
    assert!(
        text.contains("only A has x") && text.contains("y_out_0"),
        "{text}"
    );
    let one = format!("{saved}/y_out_0.npy");
    let two = format!("{other}/y_out_0.npy");
    let json = polychip(&["compare", &one, &two, "--min-cosine", "0.999", "--json"]).json("compare");
    assert_eq!(json["layers"].as_array().unwrap().len(), 1);
    assert_eq!(json["limits"]["max_error"], serde_json::Value::Null);
}

/// What ONNX Runtime gives for a picture that ships.
#[test]
fn an_array_of_another_runtime_is_a_side() {
    let folder = tempfile::tempdir().unwrap();
    let (dtype, shape, bytes) = read_npy(Path::new(&shapes_file("expected/shapes.npy")));
    assert_eq!((&*dtype, &*shape), ("<f4", "12,12"));
    let labels = std::fs::read_to_string(shapes_file("labels.txt")).unwrap();
    let row = labels.lines().position(|label| label == "star").unwrap();
    let expected = npy("<f4", "(1, 12)", &bytes[48 * row..48 * (row + 1)]);
    let array = write(folder.path(), "expected.npy", &expected);
    let compare = |picture: &str, more: &[&str]| {
        let input = format!("image={}", shapes_file(picture));
        let model = shapes();
        let line = ["compare", &array, &model, "--input", &input, "--devices", "cpu"];
        polychip(&[&line[..], &["--fail-on", "output"], more].concat())
    };
    let json = compare("pictures/star.png", &["--max-error", "0.00001", "--json"]).json("compare");
    assert_eq!(json["layers"].as_array().unwrap().len(), 1);
    compare("pictures/circle.png", &[]).differs(&["1 of 1 outputs drift"]);
}

#[test]
fn first_erroneous_layer_is_distinguished_from_later_ones() {
    let folder = tempfile::tempdir().unwrap();
    // the second sum has a coarse weight in B, the first one is off by little, the others carry that on
    let model = |first: f32, second: f32| {
        let weight = |name: &str, value: f32| constant(name, F32, &[1], &floats(&[value]));
        Model {
            nodes: vec![
                node("Add", "first", &["x", "w"], &["a"]),
                node("Neg", "between", &["a"], &["n"]),
                node("Add", "second", &["n", "v"], &["b"]),
                node("Neg", "last", &["b"], &["y"]),
            ],
            constants: vec![weight("w", first), weight("v", second)],
            inputs: vec![port("x", F32, &["64"])],
            outputs: vec![port("y", F32, &["64"])],
            ..Model::default()
        }
        .bytes()
    };
    let a = write(folder.path(), "a.onnx", &model(1.0, 0.5));
    let b = write(folder.path(), "b.onnx", &model(1.0001, 0.75));
    let line = [
        &["compare", &a, &b, "--devices", "cpu", "--max-error", "0"],
        &UNTIMED[..],
    ]
    .concat();
    let text = polychip(&line).ok();
    assert!(text.contains("first layer that drifts: first (Add)"), "{text}");
    assert!(
        text.contains("largest loss in one layer: second (Add), from "),
        "{text}"
    );
}

#[test]
fn shape_mismatch_of_the_same_op_is_drift() {
    let folder = tempfile::tempdir().unwrap();
    let model = |size: u64| {
        let pool = node("MaxPool", "pool", &["n"], &["y"]);
        Model {
            nodes: vec![
                node("Neg", "neg", &["x"], &["n"]),
                with_integers(pool, "kernel_shape", &[size, size]),
            ],
            inputs: vec![port("x", F32, &["1", "1", "6", "6"])],
            outputs: vec![port("y", F32, &["1", "1", "h", "w"])],
            ..Model::default()
        }
    };
    let a = model(2).write(folder.path(), "a.onnx");
    let b = model(3).write(folder.path(), "b.onnx");
    let line = [&["compare", &a, &b, "--devices", "cpu"], &UNTIMED[..]].concat();
    let text = polychip(&line).ok();
    assert!(
        text.contains(
            "first layer that drifts: pool (MaxPool): [1, 1, 5, 5] in A, [1, 1, 4, 4] in B, output"
        ),
        "{text}"
    );
}

#[test]
fn incomparable_inputs_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let model = shapes();
    polychip(&["compare", &model]).fails(2, &["give B", "--b-precision"]);
    polychip(&["compare", &model, &model, "--fail-on", "slow"]).fails(2, &["drift, output, slower"]);
    polychip(&["compare", &model, &model, "--fail-on", "slower", "--iters", "0"]).fails(2, &["--iters"]);
    polychip(&["compare", &model, "/nowhere.onnx"]).fails(3, &["/nowhere.onnx"]);
    let empty = folder.path().display().to_string();
    polychip(&["compare", &empty, &model]).fails(3, &["holds no .npy files"]);
    let other = Model {
        nodes: vec![node("Neg", "neg", &["x"], &["z"])],
        inputs: vec![port("x", F32, &["1", "5"])],
        outputs: vec![port("z", F32, &["1", "5"])],
        ..Model::default()
    }
    .write(folder.path(), "other.onnx");
    polychip(&["compare", &model, &other, "--devices", "cpu"])
        .fails(3, &["input \"x\" is f32", "[1, 3, 96, 96]"]);
    let array = folder.path().join("q.npy");
    std::fs::write(&array, npy("<f4", "(1,)", &floats(&[1.0]))).unwrap();
    let two = [
        node("Neg", "neg", &["x"], &["z"]),
        node("Abs", "abs", &["x"], &["k"]),
    ];
    let other = Model {
        nodes: two.to_vec(),
        inputs: vec![port("x", F32, &["1"])],
        outputs: vec![port("z", F32, &["1"]), port("k", F32, &["1"])],
        ..Model::default()
    }
    .write(folder.path(), "two.onnx");
    polychip(&["compare", &other, &array.display().to_string()]).fails(3, &["no common layer", "q"]);
}

/// The model that ships, read.
fn shipped() -> messages::Model {
    messages::Model::decode(&*std::fs::read(shapes()).unwrap()).unwrap()
}

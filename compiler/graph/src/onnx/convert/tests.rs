//! Each change between opset 1 and 28 that alters what a node says, by the text of the result.

use polychip_ops::DType;

use super::super::messages::{Graph, Node};
use super::super::testing::{
    body, converted, f32s, float, floats, i64s, int, ints, model, named, node, read, string, value, x,
};

mod domains;
mod first;

const X: &str = "input t0 \"x\": f32[2, 3, 4, 4]\n";

/// The conversion of a node that reads `x` only, without the line of `x`.
fn alone(opset: i64, node: Node) -> String {
    let text = converted(opset, node, &x(), &[]);
    text.strip_prefix(X)
        .unwrap_or_else(|| panic!("{text}"))
        .to_owned()
}

#[test]
fn axes_became_inputs() {
    assert_eq!(
        alone(11, node("Unsqueeze", "x", "y", &[ints("axes", &[0, 5])])),
        "const t1 \"y.axes\": i64[2] = [0, 5]\nt2 \"y\": f32[1, 2, 3, 4, 4, 1] = Unsqueeze \"\"(t0, t1)\n"
    );
    assert_eq!(
        alone(
            11,
            node("ReduceSum", "x", "y", &[ints("axes", &[1]), int("keepdims", 0)])
        ),
        "const t1 \"y.axes\": i64[1] = [1]\nt2 \"y\": f32[2, 4, 4] = ReduceSum \"\"(t0, t1) {keepdims: 0}\n"
    );
    assert_eq!(
        alone(13, node("ReduceMean", "x", "y", &[ints("axes", &[-1])])),
        "const t1 \"y.axes\": i64[1] = [-1]\nt2 \"y\": f32[2, 3, 4, 1] = ReduceMean \"\"(t0, t1)\n"
    );
    assert_eq!(
        alone(7, node("Squeeze", "x", "y", &[])),
        "t1 \"y\": f32[2, 3, 4, 4] = Squeeze \"\"(t0)\n"
    );
    // opset 13 still had the attribute in ReduceMax, no longer in ReduceSum
    assert_eq!(
        alone(17, node("ReduceMax", "x", "y", &[ints("axes", &[0])])),
        "const t1 \"y.axes\": i64[1] = [0]\nt2 \"y\": f32[1, 3, 4, 4] = ReduceMax \"\"(t0, t1)\n"
    );
}

#[test]
fn parts_and_slices_became_inputs() {
    assert_eq!(
        alone(
            7,
            node(
                "Slice",
                "x",
                "y",
                &[ints("starts", &[1]), ints("ends", &[3]), ints("axes", &[2])]
            )
        ),
        "const t1 \"y.starts\": i64[1] = [1]\nconst t2 \"y.ends\": i64[1] = [3]\nconst t3 \"y.axes\": i64[1] = [2]\n\
         t4 \"y\": f32[2, 3, 2, 4] = Slice \"\"(t0, t1, t2, t3)\n"
    );
    assert_eq!(
        alone(
            11,
            node("Split", "x", "y z", &[int("axis", 1), ints("split", &[1, 2])])
        ),
        "const t1 \"y.split\": i64[2] = [1, 2]\n\
         t2 \"y\": f32[2, 1, 4, 4], t3 \"z\": f32[2, 2, 4, 4] = Split \"\"(t0, t1) {axis: 1}\n"
    );
    assert_eq!(
        alone(13, node("Split", "x", "y z", &[int("axis", 2)])),
        "t1 \"y\": f32[2, 3, 2, 4], t2 \"z\": f32[2, 3, 2, 4] = Split \"\"(t0) {axis: 2, num_outputs: 2}\n"
    );
    assert_eq!(
        alone(7, node("TopK", "x", "y z", &[int("k", 2)])),
        "const t1 \"y.k\": i64[1] = [2]\n\
         t2 \"y\": f32[2, 3, 4, 2], t3 \"z\": i64[2, 3, 4, 2] = TopK \"\"(t0, t1)\n"
    );
}

#[test]
fn limits_and_values_became_inputs_of_the_datas_type() {
    assert_eq!(
        alone(
            6 + 1,
            node("Clip", "x", "y", &[float("min", 0.0), float("max", 6.0)])
        ),
        "const t1 \"y.min\": f32[] = [0.0]\nconst t2 \"y.max\": f32[] = [6.0]\n\
         t3 \"y\": f32[2, 3, 4, 4] = Clip \"\"(t0, t1, t2)\n"
    );
    let half = [value("x", DType::F16, &[2])];
    assert_eq!(
        converted(10, node("Clip", "x", "y", &[float("max", 0.5)]), &half, &[]),
        "input t0 \"x\": f16[2]\nconst t1 \"y.max\": f16[] = [0.5]\nt2 \"y\": f16[2] = Clip \"\"(t0, _, t1)\n"
    );
    let unknown = converted(
        10,
        node("Clip", "x", "y", &[float("max", 0.5)]),
        &[named("x")],
        &[],
    );
    assert!(unknown.contains("= CastLike"), "{unknown}");
    assert_eq!(
        alone(
            10,
            node(
                "Pad",
                "x",
                "y",
                &[ints("pads", &[0, 0, 1, 1, 0, 0, 1, 1]), float("value", 2.0)]
            )
        ),
        "const t1 \"y.pads\": i64[8] = [0, 0, 1, 1, 0, 0, 1, 1]\nconst t2 \"y.value\": f32[] = [2.0]\n\
         t3 \"y\": f32[2, 3, 6, 6] = Pad \"\"(t0, t1, t2)\n"
    );
}

#[test]
fn resampling() {
    assert_eq!(
        alone(
            7,
            node(
                "Upsample",
                "x",
                "y",
                &[floats("scales", &[1.0, 1.0, 2.0, 2.0]), string("mode", "linear")]
            )
        ),
        "const t1 \"y.scales\": f32[4] = [1.0, 1.0, 2.0, 2.0]\n\
         t2 \"y\": f32[2, 3, 8, 8] = Resize \"\"(t0, _, t1) \
         {coordinate_transformation_mode: \"asymmetric\", mode: \"linear\", nearest_mode: \"floor\"}\n"
    );
    let scales = [f32s("s", &[4], &[1.0, 1.0, 1.0, 2.0])];
    for op in ["Upsample", "Resize"] {
        let opset = if op == "Resize" { 10 } else { 9 };
        assert_eq!(
            converted(opset, node(op, "x s", "y", &[]), &x(), &scales),
            format!(
                "{X}const t1 \"s\": f32[4] = [1.0, 1.0, 1.0, 2.0]\n\
                 t2 \"y\": f32[2, 3, 4, 8] = Resize \"\"(t0, _, t1) \
                 {{coordinate_transformation_mode: \"asymmetric\", nearest_mode: \"floor\"}}\n"
            )
        );
    }
    let grid = [
        value("x", DType::F32, &[1, 1, 4, 4]),
        value("g", DType::F32, &[1, 2, 2, 2]),
    ];
    for (mode, expected) in [
        ("bicubic", "cubic"),
        ("bilinear", "linear"),
        ("nearest", "nearest"),
    ] {
        let text = converted(
            16,
            node("GridSample", "x g", "y", &[string("mode", mode)]),
            &grid,
            &[],
        );
        assert!(text.contains(&format!("mode: \"{expected}\"")), "{text}");
    }
}

#[test]
fn softmax_over_all_dimensions_from_the_axis() {
    assert_eq!(
        alone(11, node("Softmax", "x", "y", &[int("axis", 3)])),
        "t1 \"y\": f32[2, 3, 4, 4] = Softmax \"\"(t0) {axis: 3}\n"
    );
    assert_eq!(
        alone(12, node("LogSoftmax", "x", "y", &[int("axis", 2)])),
        "t1 \"y.matrix\": f32[6, 16] = Flatten \"y.matrix\"(t0) {axis: 2}\n\
         t2 \"y.rows\": f32[6, 16] = LogSoftmax \"y.rows\"(t1) {axis: -1}\n\
         const t3 \"y.shape\": i64[4] = [2, 3, 4, 4]\n\
         t4 \"y\": f32[2, 3, 4, 4] = Reshape \"\"(t2, t3) {allowzero: 1}\n"
    );
    let empty = [value("x", DType::F32, &[8, 4, 0, 1])];
    let text = converted(10, node("Softmax", "x", "y", &[]), &empty, &[]);
    assert!(text.contains("f32[8, 4, 0, 1] = Reshape"), "{text}");
    // the default axis was 1; sizes of 1 behind it change nothing
    let flat = [value("x", DType::F32, &[2, 10, 1, 1])];
    assert_eq!(
        converted(7, node("Softmax", "x", "y", &[]), &flat, &[]),
        "input t0 \"x\": f32[2, 10, 1, 1]\nt1 \"y\": f32[2, 10, 1, 1] = Softmax \"\"(t0) {axis: 1}\n"
    );
    let open = [value("x", DType::F32, &[-1, 10, 2])];
    let text = converted(7, node("Hardmax", "x", "y", &[]), &open, &[]);
    assert!(
        text.contains("= Shape ") && text.contains("f32[n, 10, 2] = Reshape"),
        "{text}"
    );
    // today's meaning is left alone
    assert_eq!(
        alone(13, node("Softmax", "x", "y", &[int("axis", 2)])),
        "t1 \"y\": f32[2, 3, 4, 4] = Softmax \"\"(t0) {axis: 2}\n"
    );
}

#[test]
fn dropout_and_its_mask() {
    assert_eq!(
        alone(7, node("Dropout", "x", "y m", &[float("ratio", 0.25)])),
        "const t1 \"y.ratio\": f32[] = [0.25]\n\
         t2 \"y\": f32[2, 3, 4, 4], t3 \"y.mask\": bool[2, 3, 4, 4] = Dropout \"\"(t0, t1)\n\
         t4 \"m\": f32[2, 3, 4, 4] = Cast \"y.mask\"(t3) {to: 1}\n"
    );
    assert_eq!(
        alone(10, node("Dropout", "x", "y m", &[])),
        "t1 \"y\": f32[2, 3, 4, 4], t2 \"m\": bool[2, 3, 4, 4] = Dropout \"\"(t0)\n"
    );
}

#[test]
fn batch_normalisation_of_training_and_per_element() {
    let per = |dims: &[i64], count: usize| -> Vec<_> {
        ["s", "b", "m", "v"]
            .iter()
            .map(|name| f32s(name, dims, &vec![1.0; count]))
            .collect()
    };
    let text = converted(
        9,
        node("BatchNormalization", "x s b m v", "y", &[float("epsilon", 0.5)]),
        &x(),
        &per(&[3], 3),
    );
    assert!(
        text.ends_with("= BatchNormalization \"\"(t0, t1, t2, t3, t4) {epsilon: 0.5}\n"),
        "{text}"
    );
    let text = converted(
        7,
        node("BatchNormalization", "x s b m v", "y", &[int("spatial", 0)]),
        &x(),
        &per(&[3, 4, 4], 48),
    );
    let ops: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split(" = ").nth(1)?.split_whitespace().next())
        .collect();
    assert_eq!(
        ops.into_iter()
            .filter(|op| op.starts_with(char::is_uppercase))
            .collect::<Vec<_>>(),
        ["Sub", "Add", "Sqrt", "Div", "Mul", "Add"]
    );
    // outputs for training are dropped; a node that reads one is an error
    let graph = Graph {
        input: x(),
        initializer: per(&[3], 3),
        node: vec![
            node("BatchNormalization", "x s b m v", "y mean", &[]),
            node("Neg", "mean", "z", &[]),
        ],
        output: vec![named("y"), named("z")],
        ..Graph::default()
    };
    assert_eq!(
        read(&model(9, graph)).unwrap_err().to_string(),
        "node Neg of \"z\" needs tensor \"mean\", which nothing makes"
    );
}

#[test]
fn group_normalisation_per_channel() {
    let inputs = [value("x", DType::F32, &[1, 4, 2])];
    let constants = [f32s("s", &[2], &[1.0, 2.0]), f32s("b", &[2], &[3.0, 4.0])];
    let text = converted(
        18,
        node("GroupNormalization", "x s b", "y", &[int("num_groups", 2)]),
        &inputs,
        &constants,
    );
    assert!(text.contains("\"y.grid\": i64[2] = [2, 2]"), "{text}");
    assert!(text.contains("\"y.scale\": f32[4] = Reshape"), "{text}");
    assert!(
        text.ends_with("\"y\": f32[1, 4, 2] = GroupNormalization \"\"(t0, t7, t11) {num_groups: 2}\n"),
        "{text}"
    );
}

#[test]
fn names_defaults_and_deprecated_ops() {
    let inputs = [value("x", DType::F32, &[4]), value("u", DType::F32, &[1])];
    assert_eq!(
        converted(
            9,
            node("Scatter", "x i u", "y", &[]),
            &inputs,
            &[i64s("i", &[1], &[2])]
        ),
        "input t0 \"x\": f32[4]\ninput t1 \"u\": f32[1]\nconst t2 \"i\": i64[1] = [2]\n\
         t3 \"y\": f32[4] = ScatterElements \"\"(t0, t2, t1)\n"
    );
    let signal = [value("x", DType::F32, &[1, 8, 1])];
    assert_eq!(
        converted(17, node("DFT", "x", "y", &[]), &signal, &[]),
        "input t0 \"x\": f32[1, 8, 1]\nconst t1 \"y.axis\": i64[] = [1]\nt2 \"y\": f32[1, 8, 2] = DFT \"\"(t0, _, t1)\n"
    );
    let boxes = [
        value("x", DType::F32, &[1, 1, 8, 8]),
        value("r", DType::F32, &[2, 4]),
        value("b", DType::I64, &[2]),
    ];
    let text = converted(10, node("RoiAlign", "x r b", "y", &[]), &boxes, &[]);
    assert!(
        text.contains("coordinate_transformation_mode: \"output_half_pixel\""),
        "{text}"
    );
}

#[test]
fn resize_without_what_it_does_not_use() {
    let constants = [f32s("none", &[0], &[]), i64s("sizes", &[4], &[2, 3, 8, 8])];
    assert_eq!(
        converted(
            11,
            node(
                "Resize",
                "x none none sizes",
                "y",
                &[
                    string("coordinate_transformation_mode", "tf_half_pixel_for_nn"),
                    string("nearest_mode", "floor")
                ],
            ),
            &x(),
            &constants,
        ),
        format!(
            "{X}const t1 \"sizes\": i64[4] = [2, 3, 8, 8]\n\
             t2 \"y\": f32[2, 3, 8, 8] = Resize \"\"(t0, _, _, t1) \
             {{coordinate_transformation_mode: \"half_pixel\", nearest_mode: \"round_prefer_ceil\"}}\n"
        )
    );
}

/// Opset 10 had no attribute for it: ONNX's cases take the neighbour behind where an axis shrinks.
#[test]
fn nearest_neighbours_of_opset_10() {
    let resized = |scales: &[f32]| {
        let scales = [f32s("scales", &[4], scales)];
        converted(10, node("Resize", "x scales", "y", &[]), &x(), &scales)
    };
    assert!(resized(&[1.0, 1.0, 2.0, 2.0]).contains("nearest_mode: \"floor\""));
    assert!(resized(&[1.0, 1.0, 0.5, 0.5]).contains("nearest_mode: \"ceil\""));
    let both = resized(&[1.0, 1.0, 2.0, 0.5]);
    assert!(
        both.contains("f32[2, 3, 4, 2] = Resize") && both.contains("f32[2, 3, 8, 2] = Resize"),
        "{both}"
    );
}

#[test]
fn half_a_pixel_of_opset_11_stays_where_values_are_between() {
    let constants = [
        f32s("none", &[0], &[]),
        f32s("scales", &[4], &[1.0, 1.0, 2.0, 2.0]),
    ];
    let attributes = [
        string("coordinate_transformation_mode", "tf_half_pixel_for_nn"),
        string("mode", "linear"),
    ];
    let text = converted(
        11,
        node("Resize", "x none scales", "y", &attributes),
        &x(),
        &constants,
    );
    assert!(text.contains("tf_half_pixel_for_nn"), "{text}");
}

#[test]
fn scans_over_batches_are_nested() {
    let step = Graph {
        name: "step".to_owned(),
        input: vec![named("sum"), named("row")],
        node: vec![
            node("Add", "sum row", "some", &[]),
            node("Mul", "some weight", "next", &[]),
            node("Identity", "next", "seen", &[]),
        ],
        output: vec![named("next"), named("seen")],
        ..Graph::default()
    };
    let scan = |inputs: &str| {
        node(
            "Scan",
            inputs,
            "y z",
            &[
                int("num_scan_inputs", 1),
                ints("directions", &[1]),
                body("body", step.clone()),
            ],
        )
    };
    let inputs = [
        value("first", DType::F32, &[2, 3]),
        value("x", DType::F32, &[2, 7, 3]),
    ];
    let text = converted(
        8,
        scan("_ first x"),
        &inputs,
        &[f32s("weight", &[3], &[1.0, 2.0, 3.0])],
    );
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("Scan")).collect();
    assert_eq!(
        lines,
        [
            "t3 \"y\": f32[2, 3], t4 \"z\": f32[2, 7, 3] = Scan \"\"(t0, t1) {num_scan_inputs: 2}",
            "t3 \"result.0\": f32[3], t4 \"result.1\": f32[7, 3] = Scan \"\"(t0, t1) \
             {num_scan_inputs: 1, scan_input_directions: ints [1]}",
        ]
    );
    // each sample is cut to its length, and its rows are filled up with zeros
    let text = converted(
        8,
        scan("lengths first x"),
        &inputs,
        &[f32s("weight", &[3], &[1.0; 3]), i64s("lengths", &[2], &[7, 5])],
    );
    for line in [
        "\"y\": f32[2, 3]",
        "{num_scan_inputs: 3}",
        "\"sample.2.cut\": f32[?, 3] = Slice",
        "\"result.1.filled\": f32[?, 3] = Concat",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

#[test]
fn opset_six_broadcasts_by_an_axis() {
    let small = [f32s("s", &[3], &[1.0, 2.0, 3.0])];
    let head = format!("{X}const t1 \"s\": f32[3] = [1.0, 2.0, 3.0]\n");
    let aligned = |op: &str| {
        format!(
            "{head}const t2 \"y.axes\": i64[2] = [1, 2]\n\
             t3 \"y.aligned\": f32[3, 1, 1] = Unsqueeze \"y.aligned\"(t1, t2)\n\
             t4 \"y\": f32[2, 3, 4, 4] = {op} \"\"(t0, t3)\n"
        )
    };
    let attributes = [int("broadcast", 1), int("axis", 1)];
    assert_eq!(
        converted(6, node("Add", "x s", "y", &attributes), &x(), &small),
        aligned("Add")
    );
    assert_eq!(
        converted(6, node("PRelu", "x s", "y", &[]), &x(), &small),
        aligned("PRelu")
    );
    let last = [f32s("s", &[4], &[1.0, 2.0, 3.0, 4.0])];
    let text = converted(6, node("Mul", "x s", "y", &[int("broadcast", 1)]), &x(), &last);
    assert!(text.ends_with("= Mul \"\"(t0, t1)\n"), "{text}");
}

/// What a model of opset 6 with this node is refused with.
fn refused(node: Node, inputs: &[super::super::messages::ValueInfo]) -> String {
    refused_by(6, node, inputs)
}

/// What a model of an opset with this node, which reads `x`, is refused with.
fn refused_in(opset: i64, node: Node) -> String {
    refused_by(opset, node, &x())
}

fn refused_by(opset: i64, node: Node, inputs: &[super::super::messages::ValueInfo]) -> String {
    let graph = Graph {
        name: "g".to_owned(),
        node: vec![node],
        input: inputs.to_vec(),
        output: vec![named("y")],
        ..Graph::default()
    };
    read(&model(opset, graph)).unwrap_err().to_string()
}

#[test]
fn opset_six_trains_or_not() {
    let text = alone(6, node("Dropout", "x", "y", &[int("is_test", 1)]));
    assert_eq!(text, "t1 \"y\": f32[2, 3, 4, 4] = Dropout \"\"(t0)\n");
    for attributes in [vec![], vec![int("is_test", 0)]] {
        let words = refused(node("Dropout", "x", "y", &attributes), &x());
        assert!(words.contains("training"), "{words}");
    }
    let inputs = [x(), vec![value("s", DType::F32, &[3, 4, 4])]].concat();
    for axis in [2, 9, -9, i64::MIN, i64::MAX] {
        let words = refused(node("Add", "x s", "y", &[int("axis", axis)]), &inputs);
        assert!(words.contains("axis"), "{words}");
    }
}

#[test]
fn opset_six_upsamples_by_two_attributes() {
    let scales = [
        float("height_scale", 2.0),
        float("width_scale", 3.0),
        string("mode", "bilinear"),
    ];
    let text = alone(6, node("Upsample", "x", "y", &scales));
    assert!(
        text.starts_with(
            "const t1 \"y.scales\": f32[4] = [1.0, 1.0, 2.0, 3.0]\nt2 \"y\": f32[2, 3, 8, 12] = Resize"
        ),
        "{text}"
    );
    assert!(text.contains("mode: \"linear\""), "{text}");
}

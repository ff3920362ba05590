//! Opsets 1 to 5, withdrawn ops among them. Each rule gave what `onnx.version_converter` and ONNX Runtime give, or NumPy where
//! neither takes the old form.

use super::super::super::messages::Attribute;
use super::*;

/// The lines of a node that reads `x` only.
fn first(op: &str, attributes: &[Attribute]) -> String {
    alone(1, node(op, "x", "y", attributes))
}

fn says(text: &str, part: &str) {
    assert!(text.contains(part), "{part:?} is not in {text}");
}

#[test]
fn hints_about_memory_go() {
    let text = first("Relu", &[ints("consumed_inputs", &[0])]);
    assert_eq!(text, "t1 \"y\": f32[2, 3, 4, 4] = Relu \"\"(t0)\n");
}

#[test]
fn types_were_words() {
    says(
        &first("Cast", &[string("to", "INT32")]),
        "\"y\": i32[2, 3, 4, 4] = Cast",
    );
    says(
        &first("Cast", &[string("to", "double")]),
        "\"y\": f64[2, 3, 4, 4] = Cast",
    );
    let words = refused_in(1, node("Cast", "x", "y", &[string("to", "COMPLEX64")]));
    says(&words, "a cast to \"COMPLEX64\" is not supported");
}

#[test]
fn shapes_and_pads_were_attributes() {
    let text = first("Reshape", &[ints("shape", &[0, -1])]);
    says(&text, "const t1 \"y.shape\": i64[2] = [0, -1]\n");
    says(&text, "\"y\": f32[2, 48] = Reshape");
    let text = first("Pad", &[ints("paddings", &[0, 0, 1, 2, 0, 0, 3, 0])]);
    says(&text, "i64[8] = [0, 0, 1, 2, 0, 0, 3, 0]\n");
    says(&text, "\"y\": f32[2, 3, 8, 6] = Pad");
}

#[test]
fn defaults_were_others() {
    let two = [x(), vec![value("z", DType::F32, &[2, 5, 4, 4])]].concat();
    let text = converted(1, node("Concat", "x z", "y", &[]), &two, &[]);
    says(&text, "\"y\": f32[2, 8, 4, 4] = Concat");
    says(&text, "{axis: 1}");
    says(&first("Selu", &[]), "alpha: 1.6732, gamma: 1.0507");
}

#[test]
fn orders_of_norms_were_floats() {
    let text = first("LpPool", &[float("p", 2.0), ints("kernel_shape", &[2, 2])]);
    says(&text, "p: 2");
    let half = [float("p", 2.5), ints("kernel_shape", &[2, 2])];
    says(
        &refused_in(1, node("LpPool", "x", "y", &half)),
        "a norm of order 2.5 is not supported",
    );
}

#[test]
fn lengths_of_parts_were_floats() {
    let parts = [f32s("n", &[2], &[1.0, 3.0])];
    let text = converted(1, node("Split", "x n", "y z", &[int("axis", 3)]), &x(), &parts);
    says(&text, "i64[2] = Cast");
    says(&text, "Split \"\"");
    says(
        &refused_in(1, node("Split", "x", "y", &[ints("split", &[2])])),
        "a split without an axis",
    );
}

#[test]
fn tiles_were_of_one_axis() {
    let given = [f32s("n", &[], &[2.0]), f32s("a", &[], &[3.0])];
    let text = converted(1, node("Tile", "x n a", "y", &[]), &x(), &given);
    says(&text, "i64[4] = [1, 1, 1, 1]\n");
    says(&text, "= ScatterElements");
    says(&text, "= Tile \"\"");
}

#[test]
fn opset_one_has_two_attributes_of_scales() {
    let scales = [float("height_scale", 2.0), float("width_scale", 3.0)];
    says(&first("Upsample", &scales), "\"y\": f32[2, 3, 8, 12] = Resize");
}

#[test]
fn withdrawn_ops_are_said_in_present_ones() {
    let text = first("Affine", &[float("alpha", 2.0), float("beta", 0.5)]);
    says(&text, "f32[] = [2.0]");
    says(&text, "\"y\": f32[2, 3, 4, 4] = Add");
    let text = first(
        "ImageScaler",
        &[float("scale", 2.0), floats("bias", &[1.0, 2.0, 3.0])],
    );
    says(&text, "f32[3, 1, 1] = [1.0, 2.0, 3.0]");
    says(&text, "\"y\": f32[2, 3, 4, 4] = Add");
    let text = first("Crop", &[ints("border", &[1, 0, 2, 1])]);
    says(&text, "\"y\": f32[2, 3, 3, 1] = Slice");
    let text = first("ScaledTanh", &[float("alpha", 2.0), float("beta", 0.5)]);
    says(&text, "= Tanh");
    // an op that never was stays as it is
    says(&first("GivenTensorFill", &[]), "GivenTensorFill");
}

#[test]
fn a_model_without_opsets_is_of_the_first() {
    let graph = Graph {
        name: "g".to_owned(),
        node: vec![node("Reshape", "x", "y", &[ints("shape", &[-1])])],
        input: x(),
        output: vec![named("y")],
        ..Graph::default()
    };
    let mut old = model(1, graph);
    old.ir_version = Some(2);
    old.opset_import.clear();
    says(
        &crate::text::print(&read(&old).unwrap()),
        "\"y\": f32[96] = Reshape",
    );
}

//! Ops of other domains: classical machine learning, optimisers, attention with modifiers.

use super::super::super::messages::{Attribute, OperatorSetId, Tensor, ValueInfo, attribute_type as kind};
use super::*;

/// What comes of a node of a domain: the graph's text, or why it is not read.
fn of(domain: &str, node: Node, inputs: &[ValueInfo], constants: &[Tensor]) -> Result<String, String> {
    let names = node.output.iter().filter(|name| !name.is_empty());
    let graph = Graph {
        name: "g".to_owned(),
        output: names.map(|name| named(name)).collect(),
        node: vec![Node {
            domain: domain.to_owned(),
            ..node
        }],
        input: inputs.to_vec(),
        initializer: constants.to_vec(),
        ..Graph::default()
    };
    let mut model = model(26, graph);
    model.opset_import.push(OperatorSetId {
        domain: domain.to_owned(),
        version: 1,
    });
    match read(&model) {
        Ok(graph) => Ok(crate::text::print(&graph)),
        Err(error) => Err(error.to_string()),
    }
}

fn rows() -> Vec<ValueInfo> {
    vec![value("x", DType::F32, &[5, 3])]
}

fn ml(node: Node) -> String {
    of("ai.onnx.ml", node, &rows(), &[]).unwrap()
}

fn strings(name: &str, values: &[&str]) -> Attribute {
    Attribute {
        name: name.to_owned(),
        r#type: kind::STRINGS,
        strings: values
            .iter()
            .map(|text| bytes::Bytes::copy_from_slice(text.as_bytes()))
            .collect(),
        ..Attribute::default()
    }
}

fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

/// A tree of one branch and two leaves, and their weights.
fn tree(of: &str, ids: &[i64], nodes: &[i64], weights: &[f32]) -> Vec<Attribute> {
    vec![
        ints("nodes_treeids", &[0, 0, 0]),
        ints("nodes_nodeids", &[0, 1, 2]),
        ints("nodes_featureids", &[0, 0, 0]),
        ints("nodes_truenodeids", &[1, 0, 0]),
        ints("nodes_falsenodeids", &[2, 0, 0]),
        floats("nodes_hitrates", &[1.0, 1.0, 1.0]),
        floats("nodes_values", &[0.5, 0.0, 0.0]),
        strings("nodes_modes", &["BRANCH_LEQ", "LEAF", "LEAF"]),
        ints(&format!("{of}_ids"), ids),
        ints(&format!("{of}_nodeids"), nodes),
        ints(&format!("{of}_treeids"), &vec![0; ids.len()]),
        floats(&format!("{of}_weights"), weights),
    ]
}

#[test]
fn trees_give_sums_that_ops_transform() {
    let mut attributes = tree("target", &[0, 0], &[1, 2], &[1.0, 2.0]);
    attributes.push(string("post_transform", "LOGISTIC"));
    let text = ml(node("TreeEnsembleRegressor", "x", "y", &attributes));
    says(
        &text,
        &["f32[5, 1] = TreeEnsembleRegressor", "\"y\": f32[5, 1] = Sigmoid"],
    );
    assert!(!text.contains("hitrates"), "{text}");
}

#[test]
fn classes_of_trees_are_targets() {
    let mut both = tree("class", &[0, 1, 0, 1], &[1, 1, 2, 2], &[0.1, 0.9, 0.8, 0.2]);
    both.push(ints("classlabels_int64s", &[0, 1]));
    let text = ml(node("TreeEnsembleClassifier", "x", "label p", &both));
    says(
        &text,
        &[
            "n_targets: 2",
            "\"label\": i64[5] = ArgMax",
            "\"p\": f32[5, 2] = Identity",
        ],
    );
    // leaves that speak of one class: above a half, and what is left of one
    let mut single = tree("class", &[0, 0], &[1, 2], &[0.1, 0.9]);
    single.push(strings("classlabels_strings", &["no", "yes"]));
    let text = ml(node("TreeEnsembleClassifier", "x", "label p", &single));
    says(
        &text,
        &[
            "n_targets: 1",
            "f32[] = [0.5]",
            "\"label\": string[5] = Gather",
            "\"p\": f32[5, 2] = Concat",
            "= Sub",
        ],
    );
    // a form that the standard leaves undefined stays a custom op
    let mut odd = tree("class", &[1, 1], &[1, 2], &[0.1, 0.9]);
    odd.push(ints("classlabels_int64s", &[0, 1]));
    says(
        &ml(node("TreeEnsembleClassifier", "x", "label p", &odd)),
        &["custom \"ai.onnx.ml\" \"TreeEnsembleClassifier\""],
    );
}

#[test]
fn linear_models_are_products() {
    let weights = [
        floats("coefficients", &[1.0, 2.0, 3.0]),
        floats("intercepts", &[0.5]),
    ];
    says(
        &ml(node("LinearRegressor", "x", "y", &weights)),
        &["f32[5, 1] = Gemm"],
    );
    let classes = [
        floats("coefficients", &[1.0; 6]),
        floats("intercepts", &[0.5, 0.1]),
        ints("classlabels_ints", &[7, 9]),
        string("post_transform", "SOFTMAX"),
    ];
    let text = ml(node("LinearClassifier", "x", "label p", &classes));
    says(
        &text,
        &[
            "i64[2] = [7, 9]",
            "\"label\": i64[5] = Gather",
            "\"p\": f32[5, 2] = Softmax",
        ],
    );
}

#[test]
fn vectors_are_held_against_rows_by_products() {
    let svm = [
        string("kernel_type", "RBF"),
        floats("kernel_params", &[0.5, 0.0, 3.0]),
        floats("support_vectors", &[1.0; 6]),
        floats("coefficients", &[1.0, -1.0]),
        floats("rho", &[0.25]),
        int("n_supports", 2),
    ];
    let text = ml(node("SVMRegressor", "x", "y", &svm));
    says(
        &text,
        &["= ReduceSumSquare", "= Exp", "\"y\": f32[5, 1] = Identity"],
    );
    let mut classes = svm.to_vec();
    classes.pop();
    classes.extend([
        ints("vectors_per_class", &[1, 1]),
        ints("classlabels_ints", &[0, 1]),
    ]);
    let text = ml(node("SVMClassifier", "x", "label s", &classes));
    says(
        &text,
        &["\"label\": i64[5] = ArgMax", "\"s\": f32[5, 2] = Concat"],
    );
    // probabilities take an iteration
    let probabilities = |slopes: &[f32]| {
        let pairs = [floats("prob_a", slopes), floats("prob_b", slopes)];
        [&classes[..], &pairs[..]].concat()
    };
    says(
        &ml(node("SVMClassifier", "x", "label s", &probabilities(&[1.0]))),
        &["= Sigmoid", "= Loop", "\"label\": i64[5] = ArgMax"],
    );
    // each pair has one slope
    says(
        &ml(node("SVMClassifier", "x", "label s", &probabilities(&[1.0; 2]))),
        &["custom \"ai.onnx.ml\" \"SVMClassifier\""],
    );
}

#[test]
fn features_are_plain_arithmetic() {
    let scaler = [floats("offset", &[1.0]), floats("scale", &[2.0, 3.0, 4.0])];
    says(
        &ml(node("Scaler", "x", "y", &scaler)),
        &["= Sub", "f32[5, 3] = Mul"],
    );
    let norm = [string("norm", "L2")];
    says(
        &ml(node("Normalizer", "x", "y", &norm)),
        &["= ReduceL2", "f32[5, 3] = Div"],
    );
    says(
        &ml(node("Binarizer", "x", "y", &[])),
        &["= Greater", "f32[5, 3] = Cast"],
    );
    let missing = [
        floats("imputed_value_floats", &[1.0]),
        float("replaced_value_float", f32::NAN),
    ];
    says(
        &ml(node("Imputer", "x", "y", &missing)),
        &["= IsNaN", "f32[5, 3] = Where"],
    );
    let widths = [ints("inputdimensions", &[3])];
    says(
        &ml(node("FeatureVectorizer", "x", "y", &widths)),
        &["f32[5, 3] = Concat"],
    );
    let hot = [ints("cats_int64s", &[4, 6])];
    says(
        &ml(node("OneHotEncoder", "x", "y", &hot)),
        &["= LabelEncoder", "f32[5, 3, 2] = OneHot"],
    );
    // an unknown category has no row
    let strict = [ints("cats_int64s", &[4, 6]), int("zeros", 0)];
    says(
        &ml(node("OneHotEncoder", "x", "y", &strict)),
        &["f32[5, 3, 2] = Gather"],
    );
    let columns = [i64s("i", &[1, 2], &[2, 0])];
    let text = of(
        "ai.onnx.ml",
        node("ArrayFeatureExtractor", "x i", "y", &[]),
        &rows(),
        &columns,
    );
    says(&text.unwrap(), &["f32[5, 2] = Gather"]);
}

#[test]
fn labels_of_every_version_become_one_table() {
    let texts = vec![value("x", DType::String, &[4])];
    let label = |attributes: &[Attribute], inputs: &[ValueInfo]| {
        of(
            "ai.onnx.ml",
            node("LabelEncoder", "x", "y", attributes),
            inputs,
            &[],
        )
        .unwrap()
    };
    let first = label(
        &[strings("classes_strings", &["a", "b"]), int("default_int64", 9)],
        &texts,
    );
    says(
        &first,
        &["\"y\": i64[4] = LabelEncoder", "default_tensor: i64[1] = [9]"],
    );
    let second = label(
        &[floats("keys_floats", &[1.0]), strings("values_strings", &["one"])],
        &rows(),
    );
    says(&second, &["\"y\": string[5, 3] = LabelEncoder", "_Unused"]);
    let mapper = [strings("cats_strings", &["a"]), ints("cats_int64s", &[3])];
    let text = of(
        "ai.onnx.ml",
        node("CategoryMapper", "x", "y", &mapper),
        &texts,
        &[],
    );
    says(&text.unwrap(), &["i64[4] = LabelEncoder", "i64[1] = [-1]"]);
}

#[test]
fn maps_are_their_columns_or_an_error() {
    let labels = [ints("classlabels_int64s", &[0, 1, 2])];
    says(
        &ml(node("ZipMap", "x", "y", &labels)),
        &["\"y\": f32[5, 3] = Identity"],
    );
    let words = of("ai.onnx.ml", node("DictVectorizer", "x", "y", &[]), &rows(), &[]).unwrap_err();
    says(&words, &["DictVectorizer", "zipmap=False"]);
}

#[test]
fn optimisers_are_their_formulas() {
    let scalars = [value("r", DType::F32, &[]), value("t", DType::I64, &[])];
    let many = ["a", "b", "ga", "gb", "va", "vb"].map(|name| value(name, DType::F32, &[3]));
    let inputs = [&scalars[..], &many[..]].concat();
    let standard = [
        string("mode", "standard"),
        float("alpha", 0.9),
        float("beta", 1.0),
        float("norm_coefficient", 0.0),
    ];
    let momentum = node("Momentum", "r t a b ga gb va vb", "a1 b1 va1 vb1", &standard);
    let text = of("ai.onnx.preview.training", momentum, &inputs, &[]).unwrap();
    for name in ["a1", "b1", "va1", "vb1"] {
        says(&text, &[&format!("\"{name}\": f32[3] = Identity")]);
    }
    // with a tensor missing, the inputs cannot be matched
    let odd = node("Momentum", "r t a b ga gb va", "a1 b1", &standard);
    says(
        &of("ai.onnx.preview.training", odd, &inputs, &[]).unwrap(),
        &["custom \"ai.onnx.preview.training\" \"Momentum\""],
    );
}

#[test]
fn modifiers_of_attention_stand_between_its_pieces() {
    let inputs = [
        value("q", DType::F32, &[1, 4, 3, 8]),
        value("k", DType::F32, &[1, 2, 5, 8]),
        value("v", DType::F32, &[1, 2, 5, 8]),
        value("bias", DType::F32, &[5]),
    ];
    let flex = |attributes: &[Attribute]| {
        of(
            "ai.onnx.preview",
            node("FlexAttention", "q k v", "y", attributes),
            &inputs,
            &[],
        )
    };
    says(&flex(&[]).unwrap(), &["f32[1, 4, 3, 8] = Attention"]);
    // a name of the graph around it, and one that both modifiers use
    let modifier = |op: &str, inputs: &str| Graph {
        name: "m".to_owned(),
        node: vec![node(op, inputs, "out", &[])],
        input: vec![named("s")],
        output: vec![named("out")],
        ..Graph::default()
    };
    let both = [
        body("score_mod", modifier("Add", "s bias")),
        body("prob_mod", modifier("Relu", "s")),
    ];
    let text = flex(&both).unwrap();
    says(
        &text,
        &[
            "f32[1, 4, 3, 5] = Add",
            "= Softmax",
            "f32[1, 4, 3, 5] = Relu",
            "= Expand",
        ],
    );
    let two = Graph {
        input: vec![named("s"), named("t")],
        ..modifier("Relu", "s")
    };
    let words = flex(&[body("score_mod", two)]).unwrap_err();
    says(&words, &["score_mod", "2 inputs and 1 outputs"]);
}

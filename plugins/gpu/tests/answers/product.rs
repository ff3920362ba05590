//! Matrix products, normalisations, reductions and softmax.

use polychip_graph::{Constant, Encoding, EncodingAxis, Graph, Node, Tensor, TensorId, infer};
use polychip_host::FlatGraph;
use polychip_ops::{Attr, AttrValue, Attributes, DType, Literal, Op, TensorType};

use crate::net::{EXACT, Judge, Net, gpu, narrow};
use crate::{Test, tests};

/// What is judged here.
pub(crate) const TESTS: &[Test] = &tests![
    products_with_bias_activation_and_residual,
    batches_broadcast_and_vectors_are_matrices,
    what_follows_a_product_of_a_vector_broadcasts_over_the_vectors_shape,
    gemm_with_all_its_attributes,
    norms_and_reductions,
    reduced_precision_keeps_ports_and_stays_near,
    quantised_products_and_convolutions,
    weights_larger_than_a_binding_are_split_along_the_columns,
    a_filled_tensor_larger_than_a_binding_is_multiplied_and_leaves_in_pieces,
    bytes_larger_than_a_binding_are_split_along_the_columns,
    tensors_of_the_run_larger_than_a_binding_are_refused_with_size_and_limit,
    attention_with_a_mask,
    refused_op_is_computed_by_its_decomposition,
    attention_between_transposes_of_heads,
    a_transpose_between_two_attentions,
    transposed_right_operand,
];

fn products_with_bias_activation_and_residual() {
    let mut net = Net::new();
    let x = net.input(&[2, 5, 24]);
    let (w, b) = (net.weights(&[24, 33]), net.weights(&[33]));
    let product = net.plain(Op::MatMul, &[x, w]);
    let sum = net.plain(Op::Add, &[product, b]);
    let gelu = net.plain(Op::Gelu, &[sum]);
    let w = net.weights(&[33, 24]);
    let back = net.plain(Op::MatMul, &[gelu, w]);
    let out = net.plain(Op::Add, &[x, back]);
    net.output(out);
    net.check();
}

fn batches_broadcast_and_vectors_are_matrices() {
    let mut net = Net::new();
    let (a, b) = (net.input(&[3, 1, 4, 6]), net.input(&[2, 6, 5]));
    let product = net.plain(Op::MatMul, &[a, b]);
    let eighth = net.floats(&[], &[0.125]);
    let scaled = net.plain(Op::Mul, &[product, eighth]);
    let out = net.node(Op::Softmax, Attributes::new().with_int(Attr::Axis, -1), &[scaled]);
    net.output(out);
    let v = net.input(&[6]);
    let dot = net.plain(Op::MatMul, &[a, v]);
    net.output(dot);
    net.check();
}

fn what_follows_a_product_of_a_vector_broadcasts_over_the_vectors_shape() {
    let mut net = Net::new();
    let (a, v) = (net.input(&[2, 3, 4]), net.input(&[4]));
    let kept = net.weights(&[4]);
    for right in [v, kept] {
        let product = net.plain(Op::MatMul, &[a, right]);
        let last = net.weights(&[3]);
        let sum = net.plain(Op::Add, &[product, last]);
        let rows = net.weights(&[2, 1]);
        let out = net.plain(Op::Mul, &[sum, rows]);
        net.output(out);
    }
    let (u, w) = (net.input(&[4]), net.input(&[2, 4, 5]));
    let product = net.plain(Op::MatMul, &[u, w]);
    let last = net.weights(&[5]);
    let sum = net.plain(Op::Add, &[product, last]);
    let rows = net.weights(&[2, 1]);
    let out = net.plain(Op::Mul, &[sum, rows]);
    net.output(out);
    net.check();
}

fn gemm_with_all_its_attributes() {
    let mut net = Net::new();
    let (a, w, c) = (net.input(&[7, 4]), net.weights(&[9, 7]), net.input(&[4, 1]));
    let attributes = Attributes::new()
        .with_int(Attr::TransA, 1)
        .with_int(Attr::TransB, 1)
        .with_float(Attr::Alpha, 0.5)
        .with_float(Attr::Beta, -2.0);
    let gemm = net.node(Op::Gemm, attributes, &[a, w, c]);
    let out = net.plain(Op::Relu, &[gemm]);
    net.output(out);
    net.check();
}

fn norms_and_reductions() {
    let mut net = Net::new();
    let x = net.input(&[2, 6, 20]);
    let (scale, bias) = (net.weights(&[20]), net.weights(&[20]));
    let norm = net.plain(Op::LayerNormalization, &[x, scale, bias]);
    net.output(norm);
    let axes = net.ints(&[1]);
    let mean = net.node(
        Op::ReduceMean,
        Attributes::new().with_int(Attr::Keepdims, 0),
        &[x, axes],
    );
    net.output(mean);
    let (scale, bias) = (net.weights(&[6]), net.weights(&[6]));
    let instance = net.plain(Op::InstanceNormalization, &[x, scale, bias]);
    net.output(instance);
    let (mean, variance) = (
        net.weights(&[6]),
        net.floats(&[6], &[1.0, 2.0, 0.5, 0.25, 4.0, 3.0]),
    );
    let batch = net.plain(Op::BatchNormalization, &[x, scale, bias, mean, variance]);
    net.output(batch);
    let most = net.node(Op::ArgMax, Attributes::new().with_int(Attr::Axis, 2), &[x]);
    net.output(most);
    net.check();
}

fn reduced_precision_keeps_ports_and_stays_near() {
    let mut net = Net::new();
    let x = net.input(&[1, 8, 6, 6]);
    let w = net.weights(&[8, 8, 3, 3]);
    let conv = net.node(
        Op::Conv,
        Attributes::new().with_ints(Attr::Pads, &[1, 1, 1, 1]),
        &[x, w],
    );
    let relu = net.plain(Op::Relu, &[conv]);
    let sum = net.plain(Op::Add, &[relu, x]);
    net.output(sum);
    let judge = Judge {
        reduced: true,
        relative: 3e-3,
        ..EXACT
    };
    net.check_as(judge);
}

fn single(scale: f32, zero: i32) -> Encoding {
    Encoding {
        axis: EncodingAxis::PerTensor,
        scales: [scale].into(),
        zero_points: [zero].into(),
        real: DType::F32,
    }
}

fn quantised_products_and_convolutions() {
    let mut net = Net::new();
    let x = net.input_of(DType::U8, &[1, 4, 6, 6]);
    net.encode(x, single(0.02, 128));
    let w = net.weights_of(DType::I8, &[8, 4, 3, 3]);
    net.encode(w, single(0.01, 0));
    let conv = net.node(
        Op::Conv,
        Attributes::new().with_ints(Attr::Pads, &[1, 1, 1, 1]),
        &[x, w],
    );
    let typed = net.plain(Op::Relu, &[conv]);
    net.output(typed);
    let judge = Judge { steps: 1, ..EXACT };
    net.check_as(judge);
}

fn weights_larger_than_a_binding_are_split_along_the_columns() {
    let gpu = narrow();
    let mut net = Net::new();
    // pieces of 24 columns, the last of 3; what stands behind is read in place
    let x = net.input(&[5, 75]);
    let (w, b) = (net.weights(&[75, 75]), net.weights(&[75]));
    let product = net.plain(Op::MatMul, &[x, w]);
    let sum = net.plain(Op::Add, &[product, b]);
    let sum = net.plain(Op::Add, &[sum, x]);
    let relu = net.plain(Op::Relu, &[sum]);
    net.output(relu);
    let (w, b) = (net.weights(&[76, 75]), net.weights(&[76]));
    let attributes = Attributes::new().with_int(Attr::TransB, 1);
    let gemm = net.node(Op::Gemm, attributes, &[relu, w, b]);
    net.output(gemm);
    // two batches of constant matrices
    let w = net.weights(&[2, 75, 20]);
    let batched = net.plain(Op::MatMul, &[relu, w]);
    net.output(batched);
    let image = net.input(&[1, 8, 6, 6]);
    let (w, b) = (net.weights(&[44, 8, 3, 3]), net.weights(&[44]));
    let pads = || Attributes::new().with_ints(Attr::Pads, &[1, 1, 1, 1]);
    let conv = net.node(Op::Conv, pads(), &[image, w, b]);
    let relu = net.plain(Op::Relu, &[conv]);
    net.output(relu);
    let w = net.weights(&[8, 52, 3, 3]);
    let spread = net.node(Op::ConvTranspose, pads(), &[image, w]);
    net.output(spread);
    net.check_on(&gpu, EXACT);
    let judge = Judge {
        reduced: true,
        relative: 3e-3,
        ..EXACT
    };
    net.check_on(&gpu, judge);
}

fn a_filled_tensor_larger_than_a_binding_is_multiplied_and_leaves_in_pieces() {
    let gpu = narrow();
    let mut net = Net::new();
    let shape = net.ints(&[64, 80]);
    let value = Literal::new(DType::F32, vec![1], 0.5f32.to_le_bytes().to_vec()).unwrap();
    let fill = Attributes::new().with(Attr::Value, AttrValue::Tensor(value));
    let w = net.node(Op::ConstantOfShape, fill, &[shape]);
    net.output(w);
    let x = net.input(&[3, 64]);
    let product = net.plain(Op::MatMul, &[x, w]);
    net.output(product);
    net.check_on(&gpu, EXACT);
    let judge = Judge {
        reduced: true,
        relative: 3e-3,
        ..EXACT
    };
    net.check_on(&gpu, judge);
}

fn bytes_larger_than_a_binding_are_split_along_the_columns() {
    let gpu = narrow();
    let mut net = Net::new();
    let x = net.input_of(DType::U8, &[3, 160]);
    net.encode(x, single(0.02, 130));
    let w = net.weights_of(DType::I8, &[160, 70]);
    let columns = Encoding {
        axis: EncodingAxis::PerAxis(1),
        scales: (1..=70).map(|i| i as f32 / 4096.0).collect(),
        zero_points: (0..70).map(|i| i % 5 - 2).collect(),
        real: DType::F32,
    };
    net.encode(w, columns);
    let product = net.plain(Op::MatMul, &[x, w]);
    net.output(product);
    let image = net.input_of(DType::U8, &[1, 16, 6, 6]);
    net.encode(image, single(0.02, 128));
    let w = net.weights_of(DType::I8, &[60, 16, 3, 3]);
    net.encode(w, single(0.01, 0));
    let conv = net.node(Op::Conv, Attributes::new(), &[image, w]);
    let typed = net.plain(Op::Relu, &[conv]);
    net.output(typed);
    net.check_on(&gpu, EXACT);
}

fn tensors_of_the_run_larger_than_a_binding_are_refused_with_size_and_limit() {
    let gpu = narrow();
    let mut net = Net::new();
    let (a, b) = (net.input(&[4, 64]), net.input(&[64, 33]));
    let product = net.plain(Op::MatMul, &[a, b]);
    net.output(product);
    let wide = net.input(&[2, 2048]);
    let relu = net.plain(Op::Relu, &[wide]);
    net.output(relu);
    let most = net.node(Op::Softmax, Attributes::new(), &[wide]);
    net.output(most);
    infer(&mut net.graph).unwrap();
    let flat = FlatGraph::new(&net.graph, &[]).unwrap();
    for (support, bytes) in gpu.query_support(&flat).unwrap().iter().zip([8448, 16384, 16384]) {
        let message = format!("a binding of {bytes} bytes, the device binds 8192 at most");
        assert!(support.detail.contains(&message), "{}", support.detail);
    }
}

fn attention_with_a_mask() {
    let mut net = Net::new();
    let (q, k, v) = (
        net.input(&[1, 2, 5, 8]),
        net.input(&[1, 2, 7, 8]),
        net.input(&[1, 2, 7, 8]),
    );
    let mask = net.input(&[1, 1, 1, 7]);
    let out = net.plain(Op::Attention, &[q, k, v, mask]);
    net.output(out);
    net.check();
}

fn refused_op_is_computed_by_its_decomposition() {
    let gpu = gpu();
    // too wide for a workgroup's memory
    const WIDTH: usize = 16 << 10;
    let shape = [1, 1, 3, WIDTH];
    let mut net = Net::new();
    let inputs: Vec<TensorId> = (0..3).map(|_| net.input(&shape)).collect();
    let doubled = net.plain(Op::Add, &[inputs[0], inputs[0]]);
    let mixed = net.plain(Op::Attention, &[doubled, inputs[1], inputs[2]]);
    let out = net.plain(Op::Relu, &[mixed]);
    net.output(out);
    infer(&mut net.graph).unwrap();
    let refusals = |net: &Net| -> Vec<String> {
        let flat = FlatGraph::new(&net.graph, &[]).unwrap();
        let support = gpu.query_support(&flat).unwrap().into_iter();
        support.map(|answer| answer.detail).collect()
    };
    let message = &refusals(&net)[1];
    assert!(message.contains("bytes of a workgroup's memory"), "{message}");
    assert!(message.contains("the device's limit"), "{message}");

    let mut inner = Graph::new("Attention");
    let mut tensor = |name: &str, sizes: &[usize]| {
        inner.add_tensor(Tensor::new(name, TensorType::known(DType::F32, sizes)))
    };
    let [q, k, v, mixed] = ["q", "k", "v", "mixed"].map(|name| tensor(name, &shape));
    let transposed = tensor("turned", &[1, 1, WIDTH, 3]);
    let [scores, scaled, shares] = ["scores", "scaled", "shares"].map(|name| tensor(name, &[1, 1, 3, 3]));
    let data = Constant {
        bytes: (1.0 / (WIDTH as f32).sqrt()).to_le_bytes().to_vec().into(),
        file: None,
    };
    let scale = inner.add_tensor(Tensor::constant(
        "scale",
        TensorType::known(DType::F32, &[]),
        data,
    ));
    let mut node = |op, attributes, inputs: &[TensorId], output| {
        let inputs = inputs.iter().copied().map(Some).collect();
        inner.add_node(Node::new(op, inputs, vec![Some(output)]).with(attributes));
    };
    let perm = Attributes::new().with_ints(Attr::Perm, &[0, 1, 3, 2]);
    node(Op::Transpose, perm, &[k], transposed);
    node(Op::MatMul, Attributes::new(), &[q, transposed], scores);
    node(Op::Mul, Attributes::new(), &[scores, scale], scaled);
    let last = Attributes::new().with_int(Attr::Axis, -1);
    node(Op::Softmax, last, &[scaled], shares);
    node(Op::MatMul, Attributes::new(), &[shares, v], mixed);
    inner.inputs = vec![q, k, v];
    inner.outputs = vec![mixed];
    let attention = net.graph.node_ids()[1];
    net.graph
        .edit_node(attention, |node| node.decomposition = Some(Box::new(inner)));
    assert_eq!(refusals(&net), ["", "", ""]);
    net.check();
}

fn attention_between_transposes_of_heads() {
    let mut net = Net::new();
    let perm = || Attributes::new().with_ints(Attr::Perm, &[0, 2, 1, 3]);
    let shape = net.ints(&[1, 6, 2, 4]);
    let heads: Vec<_> = (0..3)
        .map(|_| {
            let x = net.input(&[1, 6, 8]);
            let w = net.weights(&[8, 8]);
            let product = net.plain(Op::MatMul, &[x, w]);
            let split = net.plain(Op::Reshape, &[product, shape]);
            net.node(Op::Transpose, perm(), &[split])
        })
        .collect();
    let mixed = net.plain(Op::Attention, &heads);
    let back = net.node(Op::Transpose, perm(), &[mixed]);
    let shape = net.ints(&[1, 6, 8]);
    let joined = net.plain(Op::Reshape, &[back, shape]);
    let w = net.weights(&[8, 8]);
    let out = net.plain(Op::MatMul, &[joined, w]);
    net.output(out);
    // read in ONNX order as well
    let relu = net.plain(Op::Relu, &[mixed]);
    net.output(relu);
    net.check();
}

fn a_transpose_between_two_attentions() {
    let mut net = Net::new();
    let perm = || Attributes::new().with_ints(Attr::Perm, &[0, 2, 1, 3]);
    let [q, k, v] = [4, 5, 5].map(|rows| net.input(&[2, rows, 3, 4]));
    let heads = [q, k, v].map(|x| net.node(Op::Transpose, perm(), &[x]));
    let first = net.plain(Op::Attention, &heads);
    let permuted = net.node(Op::Transpose, perm(), &[first]);
    let (k, v) = (net.input(&[2, 4, 6, 4]), net.input(&[2, 4, 6, 4]));
    let second = net.plain(Op::Attention, &[permuted, k, v]);
    net.output(second);
    net.check();
}

fn transposed_right_operand() {
    let mut net = Net::new();
    let (a, b) = (net.input(&[2, 3, 5, 7]), net.input(&[2, 3, 4, 7]));
    let transposed = net.node(
        Op::Transpose,
        Attributes::new().with_ints(Attr::Perm, &[0, 1, 3, 2]),
        &[b],
    );
    let out = net.plain(Op::MatMul, &[a, transposed]);
    net.output(out);
    let sum = net.plain(Op::Abs, &[transposed]);
    net.output(sum);
    net.check();
}

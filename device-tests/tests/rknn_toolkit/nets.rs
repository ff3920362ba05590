//! The nets that the toolkit compiles: small, with weights from a sine, and with what the facts say of the toolkit in them.

use polychip_graph::{Constant, Encoding, EncodingAxis, Graph, Node, Tensor, TensorId};
use polychip_ops::{Attr, AttrValue, DType, Op, TensorType};

/// A graph in the making.
struct Net {
    graph: Graph,
    weights: usize,
}

impl Net {
    fn new(name: &str) -> Net {
        Net {
            graph: Graph::new(name),
            weights: 0,
        }
    }

    fn tensor(&mut self, sizes: &[usize]) -> TensorId {
        let name = format!("t{}", self.graph.tensor_count());
        let ty = TensorType::known(DType::F32, sizes);
        self.graph.add_tensor(Tensor::new(name, ty))
    }

    fn input(&mut self, sizes: &[usize]) -> TensorId {
        let id = self.tensor(sizes);
        self.graph.inputs.push(id);
        id
    }

    fn constant(&mut self, dtype: DType, sizes: &[usize], bytes: Vec<u8>) -> TensorId {
        let name = format!("c{}", self.graph.tensor_count());
        let data = Constant {
            bytes: bytes.into(),
            file: None,
        };
        self.graph
            .add_tensor(Tensor::constant(name, TensorType::known(dtype, sizes), data))
    }

    /// Weights of which sums of `terms` stay near one.
    fn weights(&mut self, sizes: &[usize], terms: usize) -> TensorId {
        let scale = 1.0 / (terms as f32).sqrt();
        let count: usize = sizes.iter().product();
        self.weights += 1;
        let phase = self.weights as f32;
        let value = |at: usize| (at as f32 * 0.7 + phase).sin() * scale;
        let bytes = (0..count).flat_map(|at| value(at).to_le_bytes()).collect();
        self.constant(DType::F32, sizes, bytes)
    }

    fn numbers(&mut self, values: &[i64]) -> TensorId {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(DType::I64, &[values.len()], bytes)
    }

    fn node(&mut self, op: Op, inputs: &[TensorId], sizes: &[usize], set: &[(Attr, AttrValue)]) -> TensorId {
        let output = self.tensor(sizes);
        let mut node = Node::new(op, inputs.iter().copied().map(Some).collect(), vec![Some(output)]);
        for (attr, value) in set {
            node.attributes.set(*attr, value.clone());
        }
        self.graph.add_node(node);
        output
    }

    /// A 3x3 convolution that keeps planes, or halves them; with as many groups as channels where it is depthwise.
    fn convolution(
        &mut self,
        x: TensorId,
        from: usize,
        to: usize,
        side: usize,
        stride: usize,
        deep: bool,
    ) -> TensorId {
        let per_group = if deep { 1 } else { from };
        let w = self.weights(&[to, per_group, 3, 3], per_group * 9);
        let b = self.weights(&[to], 4);
        let set = [
            (Attr::Pads, AttrValue::Ints(vec![1, 1, 1, 1])),
            (Attr::Strides, AttrValue::Ints(vec![stride as i64; 2])),
            (Attr::Group, AttrValue::Int(if deep { from as i64 } else { 1 })),
        ];
        let side = side / stride;
        self.node(Op::Conv, &[x, w, b], &[1, to, side, side], &set)
    }

    fn finish(mut self, output: TensorId) -> Graph {
        self.graph.outputs.push(output);
        self.graph
    }
}

/// Convolutions, pooling, a product, a softmax.
fn plain() -> Graph {
    let mut net = Net::new("plain");
    let x = net.input(&[1, 3, 32, 32]);
    let mut y = net.convolution(x, 3, 16, 32, 1, false);
    y = net.node(Op::Relu, &[y], &[1, 16, 32, 32], &[]);
    y = net.convolution(y, 16, 32, 32, 2, false);
    y = net.node(Op::Relu, &[y], &[1, 32, 16, 16], &[]);
    let pooled = [
        (Attr::KernelShape, AttrValue::Ints(vec![2, 2])),
        (Attr::Strides, AttrValue::Ints(vec![2, 2])),
    ];
    y = net.node(Op::MaxPool, &[y], &[1, 32, 8, 8], &pooled);
    y = net.node(Op::GlobalAveragePool, &[y], &[1, 32, 1, 1], &[]);
    y = net.node(Op::Flatten, &[y], &[1, 32], &[]);
    let w = net.weights(&[32, 10], 32);
    let b = net.weights(&[10], 4);
    y = net.node(Op::Gemm, &[y, w, b], &[1, 10], &[]);
    y = net.node(Op::Softmax, &[y], &[1, 10], &[]);
    net.finish(y)
}

/// Depthwise convolutions, a sum beside them, and halves that are joined.
fn separable() -> Graph {
    let mut net = Net::new("separable");
    let x = net.input(&[1, 16, 28, 28]);
    let mut y = net.convolution(x, 16, 16, 28, 1, true);
    y = net.node(Op::HardSwish, &[y], &[1, 16, 28, 28], &[]);
    let y2 = net.convolution(y, 16, 16, 28, 1, false);
    y = net.node(Op::Add, &[y2, x], &[1, 16, 28, 28], &[]);
    let gate = net.node(Op::Sigmoid, &[y], &[1, 16, 28, 28], &[]);
    let gated = net.node(Op::Mul, &[y, gate], &[1, 16, 28, 28], &[]);
    let joined = net.node(
        Op::Concat,
        &[gated, x],
        &[1, 32, 28, 28],
        &[(Attr::Axis, AttrValue::Int(1))],
    );
    let y = net.convolution(joined, 32, 8, 28, 2, false);
    net.finish(y)
}

/// A block of a transformer: norm, products, softmax, a sum, a norm.
fn transformer() -> Graph {
    let mut net = Net::new("transformer");
    let (rows, width) = (32, 64);
    let shape = [1, rows, width];
    let x = net.input(&shape);
    let (scale, shift) = (net.weights(&[width], 1), net.weights(&[width], 4));
    let normed = net.node(Op::LayerNormalization, &[x, scale, shift], &shape, &[]);
    let project = |net: &mut Net, from: TensorId| {
        let w = net.weights(&[width, width], width);
        net.node(Op::MatMul, &[from, w], &shape, &[])
    };
    let (q, k, v) = (
        project(&mut net, normed),
        project(&mut net, normed),
        project(&mut net, normed),
    );
    let swapped = [(Attr::Perm, AttrValue::Ints(vec![0, 2, 1]))];
    let k = net.node(Op::Transpose, &[k], &[1, width, rows], &swapped);
    let scores = net.node(Op::MatMul, &[q, k], &[1, rows, rows], &[]);
    let scores = net.node(Op::Softmax, &[scores], &[1, rows, rows], &[]);
    let mixed = net.node(Op::MatMul, &[scores, v], &shape, &[]);
    let mixed = project(&mut net, mixed);
    let y = net.node(Op::Add, &[x, mixed], &shape, &[]);
    let flat = net.numbers(&[1, (rows * width) as i64]);
    let y = net.node(Op::Reshape, &[y, flat], &[1, rows * width], &[]);
    net.finish(y)
}

/// Convolutions of bytes, a sum beside them and a mean, between reals: scales of the model's own, of weights one a channel.
fn integers() -> Graph {
    let mut net = Net::new("integers");
    let encode = |net: &mut Net, id: TensorId, axis: EncodingAxis, scales: Vec<f32>| {
        let tensor = net.graph.tensor_mut(id);
        tensor.encoding = Some(Encoding {
            axis,
            zero_points: vec![3; if axis == EncodingAxis::PerTensor { 1 } else { 0 }].into(),
            scales: scales.into(),
            real: DType::F32,
        });
    };
    let bytes = |net: &mut Net, id: TensorId, scale: f32| {
        net.graph.tensor_mut(id).ty.dtype = DType::I8;
        encode(net, id, EncodingAxis::PerTensor, vec![scale]);
    };
    let convolution = |net: &mut Net, x: TensorId, from: usize, scale: f32| {
        let weights: Vec<u8> = (0..16 * from * 9).map(|at| ((at * 37) % 251) as u8).collect();
        let w = net.constant(DType::I8, &[16, from, 3, 3], weights);
        let scales = (0..16).map(|channel| 0.001 + 0.0001 * channel as f32).collect();
        encode(net, w, EncodingAxis::PerAxis(0), scales);
        let b = net.weights(&[16], 4);
        let set = [(Attr::Pads, AttrValue::Ints(vec![1, 1, 1, 1]))];
        let y = net.node(Op::Conv, &[x, w, b], &[1, 16, 32, 32], &set);
        bytes(net, y, scale);
        y
    };
    let border = |net: &mut Net, op: Op, x: TensorId, sizes: &[usize], scale: f32| {
        let s = net.constant(DType::F32, &[], scale.to_le_bytes().to_vec());
        let z = net.constant(DType::I8, &[], vec![3]);
        net.node(op, &[x, s, z], sizes, &[])
    };
    let x = net.input(&[1, 3, 32, 32]);
    let q = border(&mut net, Op::QuantizeLinear, x, &[1, 3, 32, 32], 0.03);
    bytes(&mut net, q, 0.03);
    let first = convolution(&mut net, q, 3, 0.05);
    let second = convolution(&mut net, first, 16, 0.06);
    let sum = net.node(Op::Add, &[first, second], &[1, 16, 32, 32], &[]);
    bytes(&mut net, sum, 0.08);
    let mean = net.node(Op::GlobalAveragePool, &[sum], &[1, 16, 1, 1], &[]);
    bytes(&mut net, mean, 0.02);
    let y = border(&mut net, Op::DequantizeLinear, mean, &[1, 16, 1, 1], 0.02);
    net.finish(y)
}

/// All nets, by name.
pub(super) fn all() -> Vec<(&'static str, Graph)> {
    vec![
        ("plain", plain()),
        ("separable", separable()),
        ("transformer", transformer()),
        ("integers", integers()),
    ]
}

//! The nets that the toolkit compiles: small, with weights from a sine, and with what the facts say of the toolkit in them.

use polychip_graph::{Constant, Graph, Node, Tensor, TensorId};
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

/// All nets, by name.
pub(super) fn all() -> Vec<(&'static str, Graph)> {
    vec![
        ("plain", plain()),
        ("separable", separable()),
        ("transformer", transformer()),
    ]
}

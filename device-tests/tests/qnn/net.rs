//! Graphs for the tests: quantised in one of several ways, or of 16-bit floats.
//!
//! Invariant: the same calls give the same graph and the same inputs.

use half::f16;
use polychip_graph::{Constant, Encoding, EncodingAxis, Graph, Node, Tensor, TensorId};
use polychip_ops::{Attr, Attributes, DType, Op, TensorType};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// What the reals of a test are stored as.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    U8,
    I8,
    U16,
    I16,
    F16,
}

impl Kind {
    pub(crate) fn dtype(self) -> DType {
        match self {
            Kind::U8 => DType::U8,
            Kind::I8 => DType::I8,
            Kind::U16 => DType::U16,
            Kind::I16 => DType::I16,
            Kind::F16 => DType::F16,
        }
    }

    /// Scale and zero point of a tensor that reaches from about -2 to 2 times `size`.
    pub(crate) fn encoding(self, size: f32) -> Option<Encoding> {
        let (scale, zero) = match self {
            Kind::U8 => (size / 64.0, 128),
            Kind::I8 => (size / 64.0, -3),
            Kind::U16 => (size / 16384.0, 32768),
            Kind::I16 => (size / 16384.0, 0),
            Kind::F16 => return None,
        };
        Some(one_scale(scale, zero))
    }
}

pub(crate) fn one_scale(scale: f32, zero: i32) -> Encoding {
    Encoding {
        axis: EncodingAxis::PerTensor,
        scales: [scale].into(),
        zero_points: if zero == 0 { [].into() } else { [zero].into() },
        real: DType::F32,
    }
}

/// A graph under construction.
pub(crate) struct Net {
    pub(crate) graph: Graph,
    pub(crate) kind: Kind,
    pub(crate) numbers: ChaCha8Rng,
}

impl Net {
    pub(crate) fn new(kind: Kind) -> Net {
        Net {
            graph: Graph::new("net"),
            kind,
            numbers: ChaCha8Rng::seed_from_u64(7),
        }
    }

    /// A random number between -1 and 1.
    pub(crate) fn number(&mut self) -> f32 {
        self.numbers.random_range(-1.0..1.0)
    }

    pub(crate) fn named(&mut self, dtype: DType, shape: &[usize], encoding: Option<Encoding>) -> TensorId {
        let name = format!("t{}", self.graph.tensor_count());
        let mut tensor = Tensor::new(name, TensorType::known(dtype, shape));
        tensor.encoding = encoding;
        self.graph.add_tensor(tensor)
    }

    /// A tensor of reals.
    pub(crate) fn real(&mut self, shape: &[usize], size: f32) -> TensorId {
        let kind = self.kind;
        self.named(kind.dtype(), shape, kind.encoding(size))
    }

    pub(crate) fn input(&mut self, shape: &[usize]) -> TensorId {
        let id = self.real(shape, 1.0);
        self.graph.inputs.push(id);
        id
    }

    pub(crate) fn constant(&mut self, dtype: DType, shape: &[usize], bytes: Vec<u8>) -> TensorId {
        let name = format!("c{}", self.graph.tensor_count());
        let data = Constant {
            bytes: bytes.into(),
            file: None,
        };
        let tensor = Tensor::constant(name, TensorType::known(dtype, shape), data);
        self.graph.add_tensor(tensor)
    }

    pub(crate) fn ints(&mut self, values: &[i64]) -> TensorId {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(DType::I64, &[values.len()], bytes)
    }

    /// A parameter of floats, which the model did not quantise.
    pub(crate) fn floats(&mut self, shape: &[usize], values: &[f32]) -> TensorId {
        let (dtype, bytes) = match self.kind {
            Kind::F16 => (
                DType::F16,
                values
                    .iter()
                    .flat_map(|&value| f16::from_f32(value).to_le_bytes())
                    .collect(),
            ),
            _ => (
                DType::F32,
                values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            ),
        };
        self.constant(dtype, shape, bytes)
    }

    /// Weights: signed 8 bits with a scale per index of `axis`, or floats.
    pub(crate) fn weights(&mut self, shape: &[usize], axis: usize) -> TensorId {
        let count: usize = shape.iter().product();
        let fan = (count / shape[axis]) as f32;
        let values: Vec<f32> = (0..count).map(|_| self.number() / fan.sqrt()).collect();
        if self.kind == Kind::F16 {
            return self.floats(shape, &values);
        }
        let step: usize = shape[axis + 1..].iter().product();
        let scale = |channel: usize| (1.0 + channel as f32 * 0.1) / fan.sqrt() / 127.0;
        let stored = |(at, value): (usize, &f32)| {
            let whole = value / scale(at / step % shape[axis]);
            whole.round().clamp(-127.0, 127.0) as i8 as u8
        };
        let bytes = values.iter().enumerate().map(stored).collect();
        let id = self.constant(DType::I8, shape, bytes);
        self.graph.tensor_mut(id).encoding = Some(Encoding {
            axis: EncodingAxis::PerAxis(axis),
            scales: (0..shape[axis]).map(scale).collect(),
            zero_points: [].into(),
            real: DType::F32,
        });
        id
    }

    pub(crate) fn node(&mut self, op: Op, attributes: Attributes, inputs: &[TensorId], outputs: &[TensorId]) {
        let some = |ids: &[TensorId]| ids.iter().copied().map(Some).collect();
        self.graph
            .add_node(Node::new(op, some(inputs), some(outputs)).with(attributes));
    }

    /// A node with one real result.
    pub(crate) fn then(
        &mut self,
        op: Op,
        attributes: Attributes,
        inputs: &[TensorId],
        shape: &[usize],
    ) -> TensorId {
        let out = self.real(shape, 1.0);
        self.node(op, attributes, inputs, &[out]);
        out
    }

    pub(crate) fn out(mut self, outputs: &[TensorId]) -> Graph {
        self.graph.outputs = outputs.to_vec();
        self.graph
    }
}

pub(crate) fn none() -> Attributes {
    Attributes::new()
}

/// Bytes for the inputs of a graph, from a seed.
pub(crate) fn feeds(graph: &Graph) -> Vec<Vec<u8>> {
    let mut net = Net::new(Kind::U8);
    let one = |net: &mut Net, id: &TensorId| {
        let ty = &graph.tensor(*id).ty;
        let count: usize = ty.sizes().unwrap().iter().product();
        let numbers: Vec<f32> = (0..count).map(|_| net.number()).collect();
        match ty.dtype {
            DType::F16 => numbers
                .iter()
                .flat_map(|&value| f16::from_f32(value).to_le_bytes())
                .collect(),
            DType::I16 => numbers
                .iter()
                .flat_map(|&value| ((value * 16384.0) as i16).to_le_bytes())
                .collect(),
            DType::U16 => numbers
                .iter()
                .flat_map(|&value| ((value * 16384.0) as i32 + 32768).to_le_bytes()[..2].to_vec())
                .collect(),
            DType::Bool => numbers.iter().map(|&value| u8::from(value > 0.0)).collect(),
            DType::I8 => numbers.iter().map(|&value| (value * 64.0) as i8 as u8).collect(),
            _ => numbers
                .iter()
                .map(|&value| ((value * 64.0) as i32 + 128) as u8)
                .collect::<Vec<u8>>(),
        }
    };
    graph.inputs.iter().map(|id| one(&mut net, id)).collect()
}

/// conv → relu → depthwise conv → sum with the relu's result → mean → fully connected → softmax.
pub(crate) fn network(kind: Kind) -> Graph {
    let mut net = Net::new(kind);
    let image = [1, 8, 10, 10];
    let x = net.input(&[1, 3, 10, 10]);
    let w = net.weights(&[8, 3, 3, 3], 0);
    let pads = none().with_ints(Attr::Pads, &[1, 1, 1, 1]);
    let a = net.then(Op::Conv, pads.clone(), &[x, w], &image);
    let r = net.then(Op::Relu, none(), &[a], &image);
    let w = net.weights(&[8, 1, 3, 3], 0);
    let b = net.then(Op::Conv, pads.with_int(Attr::Group, 8), &[r, w], &image);
    let s = net.then(Op::Add, none(), &[b, r], &image);
    let m = net.then(Op::GlobalAveragePool, none(), &[s], &[1, 8, 1, 1]);
    let shape = net.ints(&[1, 8]);
    let f = net.then(Op::Reshape, none(), &[m, shape], &[1, 8]);
    let w = net.weights(&[8, 10], 1);
    let y = net.then(Op::MatMul, none(), &[f, w], &[1, 10]);
    net.out(&[s, y])
}

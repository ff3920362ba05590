//! Networks made of ops and shapes as models have them, to fit regressions on where no model is at hand.
//!
//! Each is a chain of blocks that networks of one kind consist of: residual and inverted residual blocks of images,
//! dense layers, attention, and what stands between them. Fusion groups are measured in their context there, as
//! those of models are. Sizes are spread over what networks for phones use, and differ from block to block, so that the
//! terms of a regression do not all grow together.
//!
//! Invariants:
//! 1. The list is the same in every build: what was measured of it before is known.
//! 2. All shapes are known, constants are no zeros, and no value leaves the normal numbers.
//!
//! Not here: what is measured of them (`candidate`).

use polychip_graph::{Constant, Graph, Node, Tensor, TensorId, infer};
use polychip_ops::{Attr, Attributes, DType, Op, TensorType};

use crate::error::{Error, ErrorKind, Result};
use crate::model::Model;

impl Model {
    /// Small networks with ops and shapes of common models, to profile a device without a model.
    /// Their results have no meaning.
    ///
    /// # Errors
    /// Only if this build is faulty.
    pub fn signatures() -> Result<Vec<Model>> {
        let nets = [
            residual("residual-160", 160, &[32, 64, 128, 256]),
            residual("residual-96", 96, &[24, 48, 96]),
            inverted(
                "inverted-224",
                224,
                &[(16, 1), (24, 6), (40, 6), (80, 6), (112, 4), (192, 6)],
            ),
            inverted("inverted-128", 128, &[(8, 1), (16, 3), (32, 4), (64, 6)]),
            branches("branches-56", 56, &[48, 96, 176]),
            branches("branches-40", 40, &[32, 64, 128]),
            dense("dense-1", 1, &[784, 512, 1024, 256, 640, 10]),
            dense("dense-64", 64, &[128, 384, 512, 192, 768, 64]),
            attention("attention-32", 32, &[96, 320]),
            attention("attention-64", 64, &[128, 256]),
            attention("attention-197", 197, &[192, 384]),
        ];
        nets.into_iter().map(Net::model).collect()
    }

    /// Networks that a device is calibrated with. The first has next to no work.
    pub(crate) fn calibration_networks() -> Result<Vec<Model>> {
        let nets = [
            dense("launch", 1, &[8, 8]),
            residual("residual-128", 128, &[32, 128]),
            inverted("inverted-160", 160, &[(24, 1), (64, 6)]),
            attention("attention-128", 128, &[192]),
        ];
        nets.into_iter().map(Net::model).collect()
    }
}

/// A network that grows at one end.
struct Net {
    graph: Graph,
    name: &'static str,
    x: TensorId,
}

impl Net {
    fn new(name: &'static str, shape: &[usize]) -> Net {
        let mut graph = Graph::new(name);
        let x = graph.add_tensor(Tensor::new("x", TensorType::known(DType::F32, shape)));
        graph.inputs = vec![x];
        Net { graph, name, x }
    }

    /// A constant whose values are all alike.
    fn constant(&mut self, shape: &[usize], value: f32) -> TensorId {
        let count: usize = shape.iter().product();
        let data = value.to_le_bytes().repeat(count);
        let ty = TensorType::known(DType::F32, shape);
        self.graph
            .add_tensor(Tensor::constant("w", ty, Constant::new(data)))
    }

    /// What `op` makes of these; it is the new end.
    fn op(&mut self, op: Op, inputs: &[TensorId], attributes: Attributes) -> TensorId {
        let y = self.graph.add_tensor(Tensor::untyped("y"));
        let inputs = inputs.iter().copied().map(Some).collect();
        self.graph
            .add_node(Node::new(op, inputs, vec![Some(y)]).with(attributes));
        self.x = y;
        y
    }

    fn unary(&mut self, op: Op) -> TensorId {
        self.op(op, &[self.x], Attributes::new())
    }

    /// A convolution of a square window that keeps the size, or halves it.
    fn conv(&mut self, from: usize, to: usize, window: usize, stride: i64, groups: usize) -> TensorId {
        let fan_in = from / groups * window * window;
        // sums of products stay near one
        let weights = self.constant(&[to, from / groups, window, window], 1.0 / fan_in as f32);
        let bias = self.constant(&[to], 0.125);
        let pad = (window / 2) as i64;
        let attributes = Attributes::new()
            .with_ints(Attr::KernelShape, &[window as i64; 2])
            .with_ints(Attr::Pads, &[pad; 4])
            .with_ints(Attr::Strides, &[stride; 2])
            .with_int(Attr::Group, groups as i64);
        self.op(Op::Conv, &[self.x, weights, bias], attributes)
    }

    /// Clipped to six, as networks of inverted residuals do.
    fn relu6(&mut self) -> TensorId {
        let (low, high) = (self.constant(&[], 0.0), self.constant(&[], 6.0));
        self.op(Op::Clip, &[self.x, low, high], Attributes::new())
    }

    fn add(&mut self, other: TensorId) -> TensorId {
        self.op(Op::Add, &[self.x, other], Attributes::new())
    }

    /// A product with weights, and a bias.
    fn linear(&mut self, from: usize, to: usize) -> TensorId {
        let weights = self.constant(&[from, to], 1.0 / from as f32);
        self.op(Op::MatMul, &[self.x, weights], Attributes::new());
        let bias = self.constant(&[to], 0.125);
        self.add(bias)
    }

    fn norm(&mut self, width: usize) -> TensorId {
        let (scale, bias) = (self.constant(&[width], 1.0), self.constant(&[width], 0.125));
        self.op(Op::LayerNormalization, &[self.x, scale, bias], Attributes::new())
    }

    fn pool(&mut self, op: Op, window: i64, stride: i64) -> TensorId {
        let attributes = Attributes::new()
            .with_ints(Attr::KernelShape, &[window; 2])
            .with_ints(Attr::Strides, &[stride; 2])
            .with_ints(Attr::Pads, &[window / 2; 4]);
        self.op(op, &[self.x], attributes)
    }

    /// The mean of each channel, a dense layer and a distribution: how classifiers end.
    fn classify(&mut self, channels: usize) {
        self.unary(Op::GlobalAveragePool);
        self.unary(Op::Flatten);
        self.linear(channels, 1000);
        self.unary(Op::Softmax);
    }

    fn model(mut self) -> Result<Model> {
        self.graph.outputs = vec![self.x];
        infer(&mut self.graph).map_err(|error| Error::caused(ErrorKind::BadModel, self.name, error))?;
        Ok(Model::made(self.name, self.graph))
    }
}

/// Two windows of three and a shortcut, each width at half the size of the one before.
fn residual(name: &'static str, size: usize, widths: &[usize]) -> Net {
    let mut net = Net::new(name, &[1, 3, size, size]);
    let mut width = widths[0];
    net.conv(3, width, 7, 2, 1);
    net.unary(Op::Relu);
    net.pool(Op::MaxPool, 3, 2);
    for &to in widths {
        let stride = if to == width { 1 } else { 2 };
        let x = net.x;
        net.conv(width, to, 3, stride, 1);
        net.unary(Op::Relu);
        let y = net.conv(to, to, 3, 1, 1);
        net.x = x;
        if stride == 2 {
            net.conv(width, to, 1, 2, 1);
        }
        net.add(y);
        let x = net.unary(Op::Relu);
        net.conv(to, to / 2, 1, 1, 1);
        net.unary(Op::Relu);
        net.conv(to / 2, to, 3, 1, 1);
        net.add(x);
        net.unary(Op::Relu);
        width = to;
    }
    net.classify(width);
    net
}

/// Wide in the middle, where each channel is by itself; some with a gate for each channel.
fn inverted(name: &'static str, size: usize, blocks: &[(usize, usize)]) -> Net {
    let mut net = Net::new(name, &[1, 3, size, size]);
    let mut width = blocks[0].0;
    net.conv(3, width, 3, 2, 1);
    net.unary(Op::HardSwish);
    for (at, &(to, wider)) in blocks.iter().enumerate() {
        for stride in [if to == width { 1 } else { 2 }, 1] {
            let x = net.x;
            let middle = width * wider;
            net.conv(width, middle, 1, 1, 1);
            net.relu6();
            // windows of five in every other block
            let window = 3 + 2 * (at % 2);
            net.conv(middle, middle, window, stride, middle);
            let y = net.relu6();
            if at % 3 == 2 {
                net.unary(Op::GlobalAveragePool);
                net.conv(middle, middle / 4, 1, 1, 1);
                net.unary(Op::Relu);
                net.conv(middle / 4, middle, 1, 1, 1);
                net.unary(Op::Sigmoid);
                net.op(Op::Mul, &[y, net.x], Attributes::new());
            }
            net.conv(middle, to, 1, 1, 1);
            if to == width {
                net.add(x);
            }
            width = to;
        }
    }
    net.classify(width);
    net
}

/// Windows of several sizes side by side, and groups.
fn branches(name: &'static str, size: usize, widths: &[usize]) -> Net {
    let mut width = widths[0];
    let mut net = Net::new(name, &[1, width, size, size]);
    for &to in widths {
        let x = net.x;
        let one = net.conv(width, to / 2, 1, 1, 1);
        net.x = x;
        net.conv(width, to / 4, 1, 1, 1);
        net.unary(Op::Relu);
        let three = net.conv(to / 4, to / 4, 3, 1, 1);
        net.x = x;
        net.pool(Op::AveragePool, 3, 1);
        let pooled = net.conv(width, to / 4, 1, 1, 1);
        let attributes = Attributes::new().with_int(Attr::Axis, 1);
        net.op(Op::Concat, &[one, three, pooled], attributes);
        let x = net.unary(Op::Sigmoid);
        net.conv(to, to, 3, 1, 4);
        net.op(Op::Mul, &[net.x, x], Attributes::new());
        net.unary(Op::Tanh);
        net.pool(Op::MaxPool, 3, 2);
        width = to;
    }
    net.classify(width);
    net
}

/// Dense layers.
fn dense(name: &'static str, rows: usize, widths: &[usize]) -> Net {
    let mut net = Net::new(name, &[rows, widths[0]]);
    for (at, pair) in widths.windows(2).enumerate() {
        net.linear(pair[0], pair[1]);
        net.unary([Op::Relu, Op::Sigmoid, Op::Tanh][at % 3]);
    }
    net.unary(Op::Softmax);
    net
}

/// Every token looks at all others, then a dense layer of four times the width; the second block is as wide as said
/// there.
fn attention(name: &'static str, tokens: usize, widths: &[usize]) -> Net {
    let mut width = widths[0];
    let mut net = Net::new(name, &[1, tokens, width]);
    for &to in widths {
        let x = net.x;
        let y = net.norm(width);
        let keys = net.linear(width, width);
        let attributes = Attributes::new().with_ints(Attr::Perm, &[0, 2, 1]);
        let keys = net.op(Op::Transpose, &[keys], attributes);
        net.x = y;
        let values = net.linear(width, width);
        net.x = y;
        let asked = net.linear(width, width);
        net.op(Op::MatMul, &[asked, keys], Attributes::new());
        let scale = net.constant(&[], 1.0 / (width as f32).sqrt());
        net.op(Op::Mul, &[net.x, scale], Attributes::new());
        let shares = net.unary(Op::Softmax);
        net.op(Op::MatMul, &[shares, values], Attributes::new());
        net.linear(width, width);
        let x = net.add(x);
        net.norm(width);
        net.linear(width, 4 * width);
        net.unary(Op::Gelu);
        net.linear(4 * width, width);
        net.add(x);
        if to != width {
            net.linear(width, to);
        }
        width = to;
    }
    net
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{Policy, Runtime};
    use polychip_profile::predict::Content;

    #[test]
    fn cpu_runs_all_signatures_in_several_sizes() {
        let runtime = Runtime::builder().only_given_folders().build().unwrap();
        let mut sizes: std::collections::BTreeMap<String, BTreeSet<u64>> = std::collections::BTreeMap::new();
        let mut names = BTreeSet::new();
        for model in Model::signatures().unwrap() {
            assert!(names.insert(model.path().to_owned()));
            let planned = runtime.plan(&model, &Policy::latency()).unwrap();
            for group in Content::of(planned.graph()).groups {
                sizes.entry(group.op_class).or_default().insert(group.bytes);
            }
        }
        let with_several = sizes.values().filter(|sizes| sizes.len() >= 4).count();
        assert!(with_several >= 12, "{sizes:?}");
    }

    #[test]
    fn signatures_compute_finite_values() {
        let runtime = Runtime::builder().only_given_folders().build().unwrap();
        let models = Model::signatures().unwrap();
        // the smallest: others take long without optimisation
        let model = models
            .iter()
            .find(|model| model.path().ends_with("dense-1"))
            .unwrap();
        let session = runtime.session(model, Policy::latency()).unwrap();
        let input = session.input("x").unwrap();
        let run = session.submit(&[&input]).unwrap();
        let outputs = run.wait(std::time::Duration::from_secs(60)).unwrap();
        let shares = outputs.at(0).unwrap().values::<f32>().unwrap().to_vec();
        // all weights of a layer are alike, and so are its outputs
        assert_eq!(shares.len(), 10);
        assert!(
            shares.iter().all(|share| (share - 0.1).abs() < 1e-4),
            "{shares:?}"
        );
    }
}

//! Ops that ONNX Runtime's quantiser and optimiser write in a domain of its own (`com.microsoft`), said in ops of ONNX.
//!
//! Quantised ops become the float op between DequantizeLinear and QuantizeLinear, which later passes make integer again.
//! Source: the operators' descriptions in ONNX Runtime's documentation (ContribOperators.md).
//!
//! Invariant: a node that says more than is expressed here (an attribute or input with another meaning) is left as it is, and
//! then known to no device.
//!
//! Not here: ops there that are an op of ONNX as they stand (`onnx::contrib`).

use polychip_ops::{Attr, Attributes, DType, Literal, Op, TensorType};

use super::foreign::Foreign;
use super::rewrite::Rewrite;
use crate::onnx::target::Target;
use crate::{Constant, Error, Node, Tensor, TensorId};

mod attention;
mod embedding;
mod experts;
mod gates;
mod grouped;
mod numeric;
mod pictures;
mod quantised;
mod steps;

/// Adds what says in ONNX what the node says; `false` where it is not expressed here, and nothing was added.
pub(in crate::onnx) fn expand(target: &mut Target<'_>, node: &Node) -> Result<bool, Error> {
    let mut c = Foreign(Rewrite {
        target,
        node: node.clone(),
        version: 0,
    });
    if node.output(0).is_none() {
        return Ok(false);
    }
    match &*node.op_name {
        "Attention" => c.attention(),
        "BiasAdd" => c.bias_add(),
        "BiasGelu" => c.gelu("none"),
        "BiasSoftmax" => c.bias_softmax(),
        "BiasSplitGelu" => c.split_gelu(),
        "CDist" => c.distances(),
        "ComplexMul" => c.complex_product(false),
        "ComplexMulConj" => c.complex_product(true),
        "ConvTransposeWithDynamicPads" => c.deconv_of_pads(),
        "CropAndResize" => c.crops(),
        "DecoderMaskedMultiHeadAttention" => c.one_token(),
        "DynamicQuantizeLSTM" => c.lstm(),
        "DynamicQuantizeMatMul" => c.dynamic_matmul(),
        "EmbedLayerNormalization" => c.embedding(),
        "ExpandDims" => c.expand_dims(),
        "FastGelu" => c.gelu("tanh"),
        "FusedConv" => c.conv(),
        "FusedGemm" => c.gemm(),
        "FusedMatMul" | "TransposeMatMul" => c.matmul(),
        "FusedMatMulActivation" => c.matmul_activation(),
        "GatedAdd" => c.gated_add(),
        "GatedRMSNorm" => c.gated_norm(),
        "GatedRelativePositionBias" => c.gated_distance_bias(),
        "GatherBlockQuantized" => c.gather_blocks(),
        "GatherND" => c.gather_nd(),
        "GemmFastGelu" => c.matmul_gelu(),
        "GemmaRotaryEmbedding" => c.turned_pair(),
        "GridSample" => c.grid_sample(),
        "GroupNorm" => c.group_norm(false),
        "GroupQueryAttention" => c.grouped(),
        "Inverse" => c.inverse(),
        "IsAllFinite" => c.all_finite(),
        "MatMulBnb4" => c.table_weights(),
        "MatMulInteger16" => c.whole_matmul(),
        "MatMulIntegerToFloat" => c.integer_matmul(),
        "MatMulNBits" => c.blocks(),
        "MoE" => c.experts(),
        "MulInteger" => c.whole_product(),
        "MultiHeadAttention" => c.multi_head(),
        "MurmurHash3" => c.hash(),
        "NhwcConv" => c.conv_channels_last(true),
        "NhwcFusedConv" => c.conv_channels_last(false),
        "NhwcMaxPool" => c.max_pool_channels_last(),
        "Pad" => c.pad(),
        "QAttention" => c.quantised_attention(),
        "QEmbedLayerNormalization" => c.quantised_embedding(),
        "QGemm" => c.quantised_gemm(),
        "QLinearAdd" => c.binary(Op::Add),
        "QLinearAveragePool" => c.unary(
            Op::AveragePool,
            &[
                "auto_pad",
                "ceil_mode",
                "channels_last",
                "count_include_pad",
                "kernel_shape",
                "pads",
                "strides",
            ],
        ),
        "QLinearConcat" => c.concat(),
        "QLinearConv" => c.quantised_conv(),
        "QLinearGlobalAveragePool" => c.unary(Op::GlobalAveragePool, &["channels_last"]),
        "QLinearLeakyRelu" => c.unary(Op::LeakyRelu, &["alpha"]),
        "QLinearMul" => c.binary(Op::Mul),
        "QLinearReduceMean" => c.quantised_mean(),
        "QLinearSigmoid" => c.unary(Op::Sigmoid, &[]),
        "QLinearSoftmax" => c.quantised_softmax(),
        "QLinearWhere" => c.quantised_where(),
        "QMoE" => c.quantised_experts(),
        "QuickGelu" => c.quick_gelu(),
        "Range" => c.range(),
        "ReduceSumInteger" => c.whole_sum(),
        "RelativePositionBias" => c.distance_bias(),
        "Rfft" => c.real_transform(),
        "RotaryEmbedding" => c.rotary(),
        "SampleOp" => c.echo(),
        "ScaledSiLU" => c.scaled_silu(),
        "SimplifiedLayerNormalization" => c.normalisation(),
        "SkipGroupNorm" => c.group_norm(true),
        "SkipLayerNormalization" => c.skip_normalisation(Op::LayerNormalization),
        "SkipSimplifiedLayerNormalization" => c.skip_normalisation(Op::RMSNormalization),
        "SwiGLU" => c.swiglu(),
        "TorchEmbedding" => c.torch_embedding(),
        "UnfoldTensor" => c.unfolded(),
        "Unique" => c.unique(),
        _ => Ok(false),
    }
}

/// The error of an op of [`ONE_CPU`](crate::onnx::contrib::ONE_CPU).
pub(in crate::onnx) fn of_one_cpu(target: &Target<'_>, node: &Node) -> Error {
    Error::unsupported(format!(
        "node {} is in a layout for one CPU: ONNX Runtime saved this model at its level ALL; save it again at the level \
         EXTENDED (graph_optimization_level = ORT_ENABLE_EXTENDED) or lower",
        target.graph.describe(node)
    ))
}

/// The most elements of a list of places that a conversion writes into the graph.
const MAX_PLACES: i64 = 1 << 24;

/// The attributes of a convolution that ONNX's op has too.
const CONVOLUTION: &[&str] = &[
    "auto_pad",
    "dilations",
    "group",
    "kernel_shape",
    "pads",
    "strides",
];

impl Foreign<'_, '_> {
    /// The real values of a quantised tensor: codes, scale and, where it is given, zero point.
    fn dequantised(&mut self, slots: [usize; 3], axis: Option<i64>, role: &str) -> Result<TensorId, Error> {
        let [codes, scale, zero] = slots;
        let (mut scale, mut zero) = (self.input(scale), self.input(zero));
        if axis.is_none() {
            scale = self.single(scale, &format!("{role}.scale"))?;
            zero = self.single(zero, &format!("{role}.zero"))?;
        }
        let attributes = axis.map_or_else(Attributes::new, |axis| {
            Attributes::new().with_int(Attr::Axis, axis)
        });
        self.node(
            Op::DequantizeLinear,
            vec![self.input(codes), scale, zero],
            role,
            attributes,
        )
    }

    /// A tensor of one element without extents, where it has some.
    fn single(&mut self, tensor: Option<TensorId>, role: &str) -> Result<Option<TensorId>, Error> {
        match tensor {
            Some(tensor) if self.rank(tensor) != Some(0) => {
                let shape = self.0.constant(&format!("{role}.shape"), &Literal::i64s(&[]));
                self.step(Op::Reshape, &[tensor, shape], role).map(Some)
            }
            tensor => Ok(tensor),
        }
    }

    /// Gives the node's first output as codes of a scale and zero point; without a zero point, of the type of the codes in
    /// slot `like`.
    fn quantised(&mut self, real: TensorId, scale: usize, zero: usize, like: usize) -> Result<bool, Error> {
        let scale = self.single(self.input(scale), "y.scale")?;
        let zero = self.single(self.input(zero), "y.zero")?;
        let codes = self.input(like).and_then(|codes| self.dtype(codes));
        let attributes = match codes {
            Some(dtype) if zero.is_none() => {
                Attributes::new().with_int(Attr::OutputDtype, dtype.code().into())
            }
            _ => Attributes::new(),
        };
        self.last(Op::QuantizeLinear, vec![Some(real), scale, zero], attributes)
    }

    fn matmul(&mut self) -> Result<bool, Error> {
        match self.matrix_product()? {
            Some(y) => self.last(Op::Identity, vec![Some(y)], Attributes::new()),
            None => Ok(false),
        }
    }

    /// The values of an activation, in order; `None` where the second is given without the first.
    fn activation_values(&self) -> Option<Vec<f32>> {
        let (alpha, beta) = (self.float("activation_alpha"), self.float("activation_beta"));
        (alpha.is_some() || beta.is_none()).then(|| alpha.into_iter().chain(beta).collect())
    }

    fn matmul_activation(&mut self) -> Result<bool, Error> {
        let name = self.text("activation").unwrap_or_default();
        let Some(values) = self.activation_values() else {
            return Ok(false);
        };
        let Some(activation) = self.activation(&name, &values) else {
            return Ok(false);
        };
        match self.matrix_product()? {
            Some(y) => self.activated(y, activation),
            None => Ok(false),
        }
    }

    /// The product of two operands, transposed and scaled; `None` where that is not expressed.
    fn matrix_product(&mut self) -> Result<Option<TensorId>, Error> {
        let (Some(a), Some(b)) = (self.input(0), self.input(1)) else {
            return Ok(None);
        };
        let flag = |name: &str| self.int(name).unwrap_or(0) != 0;
        let turns = [
            (a, flag("transBatchA"), flag("transA"), "a"),
            (b, flag("transBatchB"), flag("transB"), "b"),
        ];
        let known = |&(x, batch, turn, _): &(TensorId, bool, bool, &str)| {
            let least = if batch { 3 } else { 2 };
            !(turn || batch) || self.rank(x).is_some_and(|rank| rank >= least)
        };
        if !turns.iter().all(known) {
            return Ok(None);
        }
        let mut operands = [a, b];
        for (place, (x, batch, turn, role)) in turns.into_iter().enumerate() {
            if !turn && !batch {
                continue;
            }
            let rank = self.rank(x).unwrap_or(2) as i64;
            let mut perm: Vec<i64> = (0..rank).collect();
            if batch {
                // the rows come first, and the batches behind them
                perm = (1..rank - 1).chain([0, rank - 1]).collect();
            }
            if turn {
                perm.swap(rank as usize - 2, rank as usize - 1);
            }
            operands[place] = self.permuted(x, &perm, role)?;
        }
        let alpha = self.float("alpha").unwrap_or(1.0);
        let product = self.step(Op::MatMul, &operands, "product")?;
        self.scaled(product, alpha, "product.scaled").map(Some)
    }

    /// The Gelu, by tanh, of a product with a bias.
    fn matmul_gelu(&mut self) -> Result<bool, Error> {
        let (Some(x), Some(weights)) = (self.input(0), self.input(1)) else {
            return Ok(false);
        };
        let mut y = self.step(Op::MatMul, &[x, weights], "product")?;
        if let Some(bias) = self.input(2) {
            y = self.step(Op::Add, &[y, bias], "sum")?;
        }
        let form = Attributes::new().with_str(Attr::Approximate, "tanh");
        self.last(Op::Gelu, vec![Some(y)], form)
    }

    fn echo(&mut self) -> Result<bool, Error> {
        let x = self.input(0);
        self.last(Op::Identity, vec![x], Attributes::new())
    }

    /// What the fused function of a product is: the op, its attributes, and limits that are inputs.
    fn activation(&self, name: &str, values: &[f32]) -> Option<(Op, Attributes, Vec<f32>)> {
        let none = Attributes::new;
        let value = |index: usize, default: f32| values.get(index).copied().unwrap_or(default);
        Some(match name {
            "" => (Op::Identity, none(), Vec::new()),
            "Relu" => (Op::Relu, none(), Vec::new()),
            "Tanh" => (Op::Tanh, none(), Vec::new()),
            "Sigmoid" => (Op::Sigmoid, none(), Vec::new()),
            "Softplus" => (Op::Softplus, none(), Vec::new()),
            "Softsign" => (Op::Softsign, none(), Vec::new()),
            "Elu" => (Op::Elu, none().with_float(Attr::Alpha, value(0, 1.0)), Vec::new()),
            "LeakyRelu" => (
                Op::LeakyRelu,
                none().with_float(Attr::Alpha, value(0, 0.01)),
                Vec::new(),
            ),
            "HardSigmoid" => {
                let attributes = none()
                    .with_float(Attr::Alpha, value(0, 0.2))
                    .with_float(Attr::Beta, value(1, 0.5));
                (Op::HardSigmoid, attributes, Vec::new())
            }
            "Clip" if values.len() == 2 => (Op::Clip, none(), values.to_vec()),
            _ => return None,
        })
    }

    /// Adds the fused function of a product.
    fn activated(
        &mut self,
        x: TensorId,
        (op, attributes, limits): (Op, Attributes, Vec<f32>),
    ) -> Result<bool, Error> {
        let mut inputs = vec![Some(x)];
        for (index, limit) in limits.into_iter().enumerate() {
            inputs.push(Some(self.0.scalar_like(
                ["low", "high"][index.min(1)],
                limit,
                x,
            )?));
        }
        self.last(op, inputs, attributes)
    }

    fn gemm(&mut self) -> Result<bool, Error> {
        let Some(values) = self.activation_values() else {
            return Ok(false);
        };
        let name = self.text("activation").unwrap_or_default();
        let Some(activation) = self.activation(&name, &values) else {
            return Ok(false);
        };
        let attributes = self.kept(&["alpha", "beta", "transA", "transB"]);
        let inputs = self.0.node.inputs.clone();
        let product = self.node(Op::Gemm, inputs, "product", attributes)?;
        self.activated(product, activation)
    }

    fn conv(&mut self) -> Result<bool, Error> {
        let name = self.text("activation").unwrap_or_default();
        let Some(activation) = self.activation(&name, &self.floats("activation_params")) else {
            return Ok(false);
        };
        let attributes = self.kept(CONVOLUTION);
        let inputs = (0..3).map(|slot| self.input(slot)).collect();
        let mut y = self.node(Op::Conv, inputs, "product", attributes)?;
        if let Some(added) = self.input(3) {
            y = self.step(Op::Add, &[y, added], "sum")?;
        }
        self.activated(y, activation)
    }

    fn gelu(&mut self, approximate: &str) -> Result<bool, Error> {
        let Some(mut x) = self.input(0) else {
            return Ok(false);
        };
        if let Some(bias) = self.input(1) {
            x = self.step(Op::Add, &[x, bias], "sum")?;
        }
        self.last(
            Op::Gelu,
            vec![Some(x)],
            Attributes::new().with_str(Attr::Approximate, approximate),
        )
    }

    fn quick_gelu(&mut self) -> Result<bool, Error> {
        let Some(x) = self.input(0) else { return Ok(false) };
        let inside = self.scaled(x, self.float("alpha").unwrap_or(1.702), "scaled")?;
        let gate = self.step(Op::Sigmoid, &[inside], "gate")?;
        self.last(Op::Mul, vec![Some(x), Some(gate)], Attributes::new())
    }

    /// What ONNX Runtime had before ONNX had it, in ONNX's own domain or in its own.
    fn normalisation(&mut self) -> Result<bool, Error> {
        let (Some(x), Some(scale)) = (self.input(0), self.input(1)) else {
            return Ok(false);
        };
        // a statistic is an output for training
        if self.0.node.output(1).is_some() || !self.has_only(&["axis", "epsilon", "stash_type"]) {
            return Ok(false);
        }
        let attributes = self.kept(&["axis", "epsilon", "stash_type"]);
        self.last(Op::RMSNormalization, vec![Some(x), Some(scale)], attributes)
    }

    fn skip_normalisation(&mut self, op: Op) -> Result<bool, Error> {
        let layer = op == Op::LayerNormalization;
        let (shift, bias) = if layer {
            (self.input(3), self.input(4))
        } else {
            (None, self.input(3))
        };
        let (Some(x), Some(skip), Some(scale)) = (self.input(0), self.input(1), self.input(2)) else {
            return Ok(false);
        };
        let mut sum = self.step(Op::Add, &[x, skip], "sum")?;
        if let Some(bias) = bias {
            sum = self.step(Op::Add, &[sum, bias], "biased")?;
        }
        if let Some(output) = self.0.node.output(3) {
            let name = self.0.name("whole");
            self.0
                .emit(Op::Identity, &[sum], output, &name, Attributes::new())?;
        }
        let epsilon = self.float("epsilon").unwrap_or(1e-12);
        self.statistics(sum, layer, epsilon)?;
        let attributes = Attributes::new()
            .with_int(Attr::Axis, -1)
            .with_float(Attr::Epsilon, epsilon);
        let mut inputs = vec![Some(sum), Some(scale)];
        inputs.extend(shift.map(Some));
        self.last(op, inputs, attributes)
    }

    /// The mean of each row and the inverse of its deviation. They are outputs for training, which exporters name and
    /// inference does not read.
    fn statistics(&mut self, x: TensorId, centred: bool, epsilon: f32) -> Result<(), Error> {
        let (mean, inverse) = (self.0.node.output(1), self.0.node.output(2));
        if mean.is_none() && inverse.is_none() {
            return Ok(());
        }
        let real = Attributes::new().with_int(Attr::To, DType::F32.code().into());
        let x = self.0.step(Op::Cast, &[x], "real", real)?;
        let axes = self.0.constant("axes", &Literal::i64s(&[-1]));
        let middle = self.step(Op::ReduceMean, &[x, axes], "middle")?;
        if let Some(mean) = mean {
            let name = self.0.name("mean");
            self.0
                .emit(Op::Identity, &[middle], mean, &name, Attributes::new())?;
        }
        if let Some(inverse) = inverse {
            let x = if centred {
                self.step(Op::Sub, &[x, middle], "centred")?
            } else {
                x
            };
            let squares = self.step(Op::Mul, &[x, x], "squares")?;
            let variance = self.step(Op::ReduceMean, &[squares, axes], "variance")?;
            let epsilon = self.0.scalar_like("epsilon", epsilon, variance)?;
            let safe = self.step(Op::Add, &[variance, epsilon], "safe")?;
            let deviation = self.step(Op::Sqrt, &[safe], "deviation")?;
            let name = self.0.name("inverse");
            self.0
                .emit(Op::Reciprocal, &[deviation], inverse, &name, Attributes::new())?;
        }
        Ok(())
    }

    fn binary(&mut self, op: Op) -> Result<bool, Error> {
        if !self.has(&[0, 1, 3, 4, 6]) {
            return Ok(false);
        }
        let a = self.dequantised([0, 1, 2], None, "a")?;
        let b = self.dequantised([3, 4, 5], None, "b")?;
        let real = self.step(op, &[a, b], "real")?;
        self.quantised(real, 6, 7, 0)
    }

    fn unary(&mut self, op: Op, attributes: &[&str]) -> Result<bool, Error> {
        let channels_last = self.int("channels_last").unwrap_or(0) != 0;
        let rank = self.input(0).and_then(|x| self.rank(x));
        if !self.has(&[0, 1, 3])
            || !self.has_only(attributes)
            || channels_last && rank.is_none_or(|rank| rank < 3)
        {
            return Ok(false);
        }
        let kept: Vec<&str> = attributes
            .iter()
            .copied()
            .filter(|&name| name != "channels_last")
            .collect();
        let attributes = self.kept(&kept);
        let x = self.dequantised([0, 1, 2], None, "x")?;
        if !channels_last {
            let real = self.0.step(op, &[x], "real", attributes)?;
            return self.quantised(real, 3, 4, 0);
        }
        let first = self.channels_first(x, "x.first")?.unwrap_or(x);
        let real = self.0.step(op, &[first], "real.first", attributes)?;
        let rank = rank.unwrap_or(3) as i64;
        let perm: Vec<i64> = [0].into_iter().chain(2..rank).chain([1]).collect();
        let real = self.permuted(real, &perm, "real")?;
        self.quantised(real, 3, 4, 0)
    }

    fn concat(&mut self) -> Result<bool, Error> {
        let count = self.0.node.inputs.len();
        let (Some(axis), true) = (self.int("axis"), self.has(&[0]) && count > 2) else {
            return Ok(false);
        };
        let mut parts = Vec::new();
        for (index, slot) in (2..count).step_by(3).enumerate() {
            parts.push(self.dequantised([slot, slot + 1, slot + 2], None, &format!("part.{index}"))?);
        }
        let attributes = Attributes::new().with_int(Attr::Axis, axis);
        let real = self.0.step(Op::Concat, &parts, "real", attributes)?;
        self.quantised(real, 0, 1, 2)
    }

    fn quantised_gemm(&mut self) -> Result<bool, Error> {
        let (Some(a_scale), Some(b_scale)) = (self.input(1), self.input(4)) else {
            return Ok(false);
        };
        let alpha = self.float("alpha").unwrap_or(1.0);
        let turned = self.int("transB").unwrap_or(0) != 0;
        // zero points of a column of weights each have the place of its scale
        let per_column = self.rank(b_scale).is_some_and(|rank| rank > 0);
        let a = self.dequantised([0, 1, 2], None, "a")?;
        let b = self.dequantised([3, 4, 5], per_column.then_some(if turned { 0 } else { 1 }), "b")?;
        let mut inputs = vec![Some(a), Some(b)];
        if let Some(c) = self.input(6) {
            // the sums of products have the product of the scales, and the bias with them
            let scale = self.step(Op::Mul, &[a_scale, b_scale], "c.scale")?;
            let axis = Attributes::new().with_int(Attr::Axis, -1);
            let c = self.node(Op::DequantizeLinear, vec![Some(c), Some(scale)], "c", axis)?;
            inputs.push(Some(self.scaled(c, alpha, "c.scaled")?));
        }
        let attributes = self.kept(&["alpha", "transA", "transB"]);
        if self.input(7).is_none() {
            return self.last(Op::Gemm, inputs, attributes);
        }
        let real = self.node(Op::Gemm, inputs, "real", attributes)?;
        self.quantised(real, 7, 8, 0)
    }

    fn dynamic_matmul(&mut self) -> Result<bool, Error> {
        let (Some(x), Some(_), Some(_)) = (self.input(0), self.input(1), self.input(2)) else {
            return Ok(false);
        };
        let outputs = ["codes", "scale", "zero"].map(|role| {
            let name = self.0.name(role);
            self.0.target.fresh(name)
        });
        let [codes, scale, zero] = outputs;
        let node = Node::new(
            Op::DynamicQuantizeLinear,
            vec![Some(x)],
            outputs.map(Some).to_vec(),
        );
        let name = self.0.name("quantise");
        self.0.target.add(node.named(name))?;
        let (b, b_scale, b_zero, bias) = (self.input(1), self.input(2), self.input(3), self.input(4));
        self.integers([Some(codes), b, Some(scale), b_scale, Some(zero), b_zero], bias)
    }

    fn integer_matmul(&mut self) -> Result<bool, Error> {
        if !self.has(&[0, 1, 2, 3]) {
            return Ok(false);
        }
        let inputs = [0, 1, 2, 3, 4, 5].map(|slot| self.input(slot));
        let bias = self.input(6);
        self.integers(inputs, bias)
    }

    /// `(a - a_zero) · (b - b_zero) · a_scale · b_scale + bias`.
    fn integers(
        &mut self,
        [a, b, a_scale, b_scale, a_zero, b_zero]: [Option<TensorId>; 6],
        bias: Option<TensorId>,
    ) -> Result<bool, Error> {
        let (Some(a_scale), Some(b_scale)) = (a_scale, b_scale) else {
            return Ok(false);
        };
        let sums = self.node(
            Op::MatMulInteger,
            vec![a, b, a_zero, b_zero],
            "sums",
            Attributes::new(),
        )?;
        let real = Attributes::new().with_int(Attr::To, DType::F32.code().into());
        let sums = self.0.step(Op::Cast, &[sums], "real", real)?;
        let scale = self.step(Op::Mul, &[a_scale, b_scale], "scales")?;
        let Some(bias) = bias else {
            return self.last(Op::Mul, vec![Some(sums), Some(scale)], Attributes::new());
        };
        let product = self.step(Op::Mul, &[sums, scale], "product")?;
        self.last(Op::Add, vec![Some(product), Some(bias)], Attributes::new())
    }

    /// Weights `[directions, inputs, 4 * hidden]` in bytes, with a scale per direction, or per direction and column. What the
    /// op quantises on the way, its input and state, stays real here.
    fn lstm(&mut self) -> Result<bool, Error> {
        if !self.has(&[0, 1, 2, 8, 9, 10, 11]) {
            return Ok(false);
        }
        let Some(ranks) = [8, 9, 10, 11]
            .iter()
            .map(|&slot| self.rank(self.input(slot)?))
            .collect::<Option<Vec<_>>>()
        else {
            return Ok(false);
        };
        if ranks.iter().any(|&rank| rank != 1 && rank != 2) {
            return Ok(false);
        }
        let mut inputs: Vec<_> = (0..8).map(|slot| self.input(slot)).collect();
        for (place, slots, role) in [(1, [1, 8, 9], "w"), (2, [2, 10, 11], "r")] {
            let [codes, scale, zero] = slots.map(|slot| self.0.input(slot));
            let axes = |rank: usize| if rank == 1 { vec![1, 2] } else { vec![1] };
            let real = || Attributes::new().with_int(Attr::To, DType::F32.code().into());
            let codes = self
                .0
                .step(Op::Cast, &[codes?], &format!("{role}.codes"), real())?;
            let zero = self.0.step(Op::Cast, &[zero?], &format!("{role}.zero"), real())?;
            let mut wide = Vec::new();
            for (x, rank, role) in [
                (zero, ranks[2 * place - 1], format!("{role}.zeros")),
                (scale?, ranks[2 * place - 2], format!("{role}.scales")),
            ] {
                let axes = self
                    .0
                    .constant(&format!("{role}.axes"), &Literal::i64s(&axes(rank)));
                wide.push(self.step(Op::Unsqueeze, &[x, axes], &role)?);
            }
            let centred = self.step(Op::Sub, &[codes, wide[0]], &format!("{role}.centred"))?;
            let weights = self.step(Op::Mul, &[centred, wide[1]], &format!("{role}.real"))?;
            let turn = Attributes::new().with_ints(Attr::Perm, &[0, 2, 1]);
            inputs[place] = Some(self.0.step(Op::Transpose, &[weights], role, turn)?);
        }
        let outputs = self.0.node.outputs.clone();
        let node = Node::new(Op::LSTM, inputs, outputs).named(self.0.node.name.clone());
        let attributes = self.0.node.attributes.clone();
        self.0.target.add(node.with(attributes))?;
        Ok(true)
    }

    /// Weights of 4 or 8 bits, `[n, blocks, block * bits / 8]` in bytes, low half first. They stay where they lie.
    fn blocks(&mut self) -> Result<bool, Error> {
        let sizes = ["K", "N", "block_size"].map(|name| usize::try_from(self.int(name)?).ok());
        let [Some(k), Some(n), Some(block)] = sizes else {
            return Ok(false);
        };
        let (Some(x), Some(codes), Some(scales)) = (self.input(0), self.input(1), self.input(2)) else {
            return Ok(false);
        };
        let (bits, dtype) = match self.int("bits").unwrap_or(4) {
            2 => (2, DType::U2),
            4 => (4, DType::U4),
            8 => (8, DType::U8),
            _ => return Ok(false),
        };
        let whole = k > 0 && n > 0 && block >= 16;
        let reordered = self.input(4).is_some() || self.int("weight_prepacked").unwrap_or(0) != 0;
        // the last block of a row may be codes in part, and something else behind them
        let blocks = k.div_ceil(block.max(1));
        let depth = blocks.checked_mul(block).filter(|_| whole && !reordered);
        let Some((depth, elements)) = depth.and_then(|depth| Some((depth, n.checked_mul(depth)?))) else {
            return Ok(false);
        };
        let constant = |tensor: TensorId| {
            let tensor = self.0.target.graph.tensor(tensor);
            tensor.data.clone().filter(|_| tensor.ty.dtype == DType::U8)
        };
        let Some(codes) = constant(codes).filter(|codes| codes.bytes.len() == elements / 8 * bits) else {
            return Ok(false);
        };
        let zeros = match self.input(3) {
            // without zero points they are in the middle
            None => {
                let middle = match bits {
                    2 => 0b1010_1010,
                    4 => 0x88,
                    _ => 0x80,
                };
                Constant::new(vec![middle; (n * blocks * bits).div_ceil(8)])
            }
            Some(zeros) => match constant(zeros) {
                Some(zeros) if zeros.bytes.len() == n * (blocks * bits).div_ceil(8) => {
                    match blocks * bits % 8 {
                        0 => zeros,
                        _ => Constant::new(without_gaps(&zeros.bytes, n, blocks, bits)),
                    }
                }
                _ => return Ok(false),
            },
        };
        let mut add = |role: &str, dtype: DType, dims: [usize; 2], data: Constant| {
            let name = self.0.name(role);
            let ty = TensorType::known(dtype, &dims);
            self.0.target.graph.add_tensor(Tensor::constant(name, ty, data))
        };
        let codes = add("codes", dtype, [n, depth], codes);
        let zeros = add("zeros", dtype, [n, blocks], zeros);
        let given = self.0.target.graph.tensor(scales);
        let stored = given
            .data
            .clone()
            .filter(|_| given.ty.elements() == Some(n * blocks));
        let scale_dtype = given.ty.dtype;
        let scales = match stored {
            Some(data) => {
                let name = self.0.name("scales");
                let ty = TensorType::known(scale_dtype, &[n, blocks]);
                self.0.target.graph.add_tensor(Tensor::constant(name, ty, data))
            }
            None => {
                let grid = Literal::i64s(&[n as i64, blocks as i64]);
                let shape = self.0.constant("grid", &grid);
                self.step(Op::Reshape, &[scales, shape], "scales")?
            }
        };
        let block = block as i64;
        let blocked = Attributes::new()
            .with_int(Attr::Axis, 1)
            .with_int(Attr::BlockSize, block);
        let weights = self.node(
            Op::DequantizeLinear,
            vec![Some(codes), Some(scales), Some(zeros)],
            "weights",
            blocked,
        )?;
        let turn = Attributes::new().with_ints(Attr::Perm, &[1, 0]);
        let weights = self.0.step(Op::Transpose, &[weights], "turned", turn)?;
        // which is multiplied with zeros
        let x = match depth - k {
            0 => x,
            more => {
                let pads = self.0.constant("pads", &Literal::i64s(&[0, more as i64]));
                let axis = self.0.constant("axis", &Literal::i64s(&[-1]));
                let inputs = vec![Some(x), Some(pads), None, Some(axis)];
                self.node(Op::Pad, inputs, "padded", Attributes::new())?
            }
        };
        let Some(bias) = self.input(5) else {
            return self.last(Op::MatMul, vec![Some(x), Some(weights)], Attributes::new());
        };
        let product = self.step(Op::MatMul, &[x, weights], "product")?;
        self.last(Op::Add, vec![Some(product), Some(bias)], Attributes::new())
    }

    fn rotary(&mut self) -> Result<bool, Error> {
        let inputs = [0, 1, 2, 3].map(|slot| self.input(slot));
        let [Some(x), Some(positions), Some(cos), Some(sin)] = inputs else {
            return Ok(false);
        };
        let partial = self.int("rotary_embedding_dim").unwrap_or(0);
        let scaled = self.float("scale").is_some_and(|scale| scale != 1.0);
        let packed = self.int("is_packed_batching").unwrap_or(0) != 0;
        let rank = self.rank(x);
        let of_positions = self.rank(positions);
        if scaled || packed || !matches!((of_positions, rank), (Some(1 | 2), Some(3 | 4))) {
            return Ok(false);
        }
        let mut attributes = Attributes::new()
            .with_int(Attr::Interleaved, self.int("interleaved").unwrap_or(0))
            .with_int(Attr::RotaryEmbeddingDim, partial);
        if rank == Some(3) {
            // without their number, heads are as wide as what is turned
            let sizes =
                |tensor: TensorId, axis: usize| self.0.target.ty(tensor)?.shape.as_ref()?.get(axis)?.known();
            let found = match self.int("num_heads") {
                Some(heads) if heads > 0 => Some(heads),
                _ if partial > 0 => None,
                _ => sizes(x, 2)
                    .zip(sizes(cos, 1))
                    .and_then(|(all, half)| i64::try_from(all / (2 * half).max(1)).ok()),
            };
            let Some(heads) = found else { return Ok(false) };
            attributes = attributes.with_int(Attr::NumHeads, heads);
        }
        let positions = match of_positions {
            Some(1) => self.onwards(positions, x)?,
            _ => Some(positions),
        };
        let Some(positions) = positions else {
            return Ok(false);
        };
        self.last(
            Op::RotaryEmbedding,
            vec![Some(x), Some(cos), Some(sin), Some(positions)],
            attributes,
        )
    }
}

/// Rows of so many values of some bits, each of whole bytes, one behind the other without what fills a row's last byte.
fn without_gaps(rows: &[u8], n: usize, count: usize, bits: usize) -> Vec<u8> {
    let mut packed = vec![0; (n * count * bits).div_ceil(8)];
    let per_row = (count * bits).div_ceil(8);
    let per_byte = 8 / bits;
    let mask = u8::MAX >> (8 - bits);
    for at in 0..n * count {
        let (row, column) = (at / count, at % count);
        let value = rows[row * per_row + column / per_byte] >> (column % per_byte * bits) & mask;
        packed[at / per_byte] |= value << (at % per_byte * bits);
    }
    packed
}

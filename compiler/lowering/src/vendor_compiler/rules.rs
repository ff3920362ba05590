//! The nodes that a compiler that computes f32 in 16-bit floats may be given, among those it is known to take: f32,
//! and integers of 8 bits that encode reals where it keeps their scales.
//!
//! Invariant: the first reason that is true is given.

use polychip_ops::operator::{
    AspectRatio, AutoPad, Coordinates, GeluForm, Interpolation, Rounding, WindowSpec,
};
use polychip_ops::{Attr, DType, Op, Operator};
use polychip_sdk::{
    CompileOptions, EncodingKind, EncodingView, Error, GraphView, NodeView, Precision, Reason, Result,
    TensorView,
};

/// Taken, or why not.
pub type Outcome = std::result::Result<(), (Reason, String)>;

/// What becomes of quantised tensors.
#[derive(Debug, Clone, Copy)]
pub enum Quantised {
    /// They are refused, for this reason.
    Refused(&'static str),
    /// Scales of a model are kept for these ops: bytes with one scale, constants of them with one per index of an axis too.
    Kept(fn(Op) -> bool),
}

/// What one compiler may be given.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// The greatest rank of tensors that are computed.
    pub axes: usize,
    /// Inputs of an op that must be constants; none for an op that is not offered.
    pub constants: fn(Op) -> Option<&'static [usize]>,
    /// What becomes of quantised tensors.
    pub quantised: Quantised,
}

impl Rules {
    /// The same as an error of the node.
    ///
    /// # Errors
    /// `Unsupported`, with the reason.
    pub fn promised(&self, graph: &GraphView<'_>, node: &NodeView<'_>) -> Result<()> {
        self.check(graph, node).map_err(|(reason, detail)| {
            let what = format!("{} {}: {reason:?}: {detail}", node.op_name(), node.name());
            Error::unsupported(what).at_node(node.index())
        })
    }

    /// Whether a part may be compiled: each node, and f32, where it has any, in 16 bits where `reduced` or the session allow that.
    ///
    /// # Errors
    /// `Unsupported`, with the first node that is not taken, or that f32 is to stay f32.
    pub fn admit(&self, graph: &GraphView<'_>, options: &CompileOptions, reduced: bool) -> Result<()> {
        if let Some(point) = options.operating_point {
            return Err(Error::bad_argument(format!("operating point {point} of 0")));
        }
        for node in graph.nodes() {
            self.promised(graph, &node)?;
        }
        let rounds = graph.nodes().any(|node| rounds(graph, &node));
        if rounds && !reduced && options.precision == Precision::Exact {
            return Err(Error::unsupported(
                "the NPU computes f32 in 16 bits, which the session does not allow: ask for reduced precision",
            ));
        }
        Ok(())
    }

    /// Whether the compiler may be given a node, else the first reason that is true.
    ///
    /// # Errors
    /// The reason, with what it is about.
    pub fn check(&self, graph: &GraphView<'_>, node: &NodeView<'_>) -> Outcome {
        if node.op() == Op::Custom {
            return refuse(Reason::Op, format!("{}.{}", node.domain(), node.op_name()));
        }
        if node.bodies().len() > 0 {
            return refuse(Reason::Body, "bodies are not supported");
        }
        let constants = (self.constants)(node.op()).ok_or_else(|| (Reason::Op, node.op_name().to_owned()))?;
        let borders = matches!(node.op(), Op::QuantizeLinear | Op::DequantizeLinear);
        for (place, tensor) in node.inputs().enumerate() {
            let Some(tensor) = tensor.map(|tensor| graph.tensor(tensor)) else {
                continue;
            };
            let plain = tensor.is_constant() && place > 0 && tensor.encoding().is_none();
            if plain && (borders || matches!(tensor.dtype(), DType::I64 | DType::I32)) {
                // axes, extents, scales and the like
                continue;
            }
            self.real(node, &tensor)?;
            if !tensor.is_constant() && constants.contains(&place) {
                return refuse(Reason::NotConstant, format!("input {place}"));
            }
        }
        if node
            .inputs()
            .flatten()
            .all(|tensor| graph.tensor(tensor).is_constant())
        {
            return refuse(Reason::NotConstant, "an input that is no constant is needed");
        }
        for tensor in node.outputs().flatten() {
            self.real(node, &graph.tensor(tensor))?;
        }
        attributes(graph, node)
    }

    /// Whether the compiler may be given a tensor's integers.
    fn integers(&self, node: &NodeView<'_>, tensor: &TensorView<'_>, encoding: &EncodingView<'_>) -> Outcome {
        let name = tensor.name();
        let refused = |what: &str| refuse(Reason::Encoding, format!("tensor {name}: {what}"));
        let offered = match self.quantised {
            Quantised::Refused(why) => return refused(why),
            Quantised::Kept(offered) => offered,
        };
        if !offered(node.op()) {
            return refused(&format!("{} of integers", node.op_name()));
        }
        let constant = tensor.is_constant();
        match (tensor.dtype(), encoding.kind()) {
            _ if encoding.real_dtype() != DType::F32 => refused("it encodes reals other than f32"),
            (_, EncodingKind::Blocks(layout)) => refused(&format!("blocks of {layout}")),
            (DType::I8 | DType::U8, EncodingKind::PerTensor) => Ok(()),
            (DType::I8 | DType::U8 | DType::I32, EncodingKind::PerTensor | EncodingKind::PerAxis { .. })
                if constant =>
            {
                Ok(())
            }
            (DType::I8 | DType::U8, _) => refused("more than one scale"),
            (dtype, _) => refused(&format!("{dtype} that encodes reals")),
        }
    }

    /// A tensor that the chip computes on.
    fn real(&self, node: &NodeView<'_>, tensor: &TensorView<'_>) -> Outcome {
        let name = tensor.name();
        if !tensor.is_plain() {
            return refuse(Reason::DType, format!("tensor {name} is no plain tensor"));
        }
        if let Some(encoding) = tensor.encoding() {
            self.integers(node, tensor, &encoding)?;
        } else if tensor.dtype() != DType::F32 {
            return refuse(Reason::DType, format!("tensor {name} is of {}", tensor.dtype()));
        }
        let Some(shape) = tensor.shape().filter(|_| !tensor.is_upper_bound()) else {
            let what = format!("the shape of tensor {name} is known only after the run");
            return refuse(Reason::DynamicShape, what);
        };
        if shape.len() > self.axes {
            return refuse(
                Reason::Rank,
                format!("rank {}, at most {}", shape.len(), self.axes),
            );
        }
        if tensor.is_constant() {
            return Ok(());
        }
        if shape.is_empty() {
            return refuse(Reason::Rank, format!("tensor {name} has no axes"));
        }
        let bytes = shape
            .iter()
            .try_fold(4usize, |bytes, &extent| bytes.checked_mul(extent));
        match bytes {
            Some(1..) if bytes <= Some(i32::MAX as usize) => Ok(()),
            _ => refuse(
                Reason::Shape,
                format!("tensor {name} of {shape:?} is empty or too large"),
            ),
        }
    }
}

/// Whether a node reads or writes f32 that is computed, which the chip rounds to 16 bits; one that does not has integers alone.
#[must_use]
pub fn rounds(graph: &GraphView<'_>, node: &NodeView<'_>) -> bool {
    let mut tensors = node.inputs().chain(node.outputs()).flatten();
    tensors.any(|tensor| {
        let tensor = graph.tensor(tensor);
        !tensor.is_constant() && tensor.encoding().is_none()
    })
}

/// Whether a node is written as the nodes that it was recomposed from: what older opsets have no op for.
#[must_use]
pub fn decompose(node: &NodeView<'_>) -> bool {
    node.op() == Op::Gelu
}

/// A refusal.
///
/// # Errors
/// Always.
pub fn refuse(reason: Reason, detail: impl Into<String>) -> Outcome {
    Err((reason, detail.into()))
}

fn attributes(graph: &GraphView<'_>, node: &NodeView<'_>) -> Outcome {
    let shape = |tensor: Option<u32>| tensor.and_then(|tensor| graph.tensor(tensor).shape());
    let rank = shape(node.input(0)).map_or(0, |shape| shape.len());
    let needs = |attr: Attr, holds: bool| {
        if holds {
            Ok(())
        } else {
            refuse(Reason::Attribute, attr.name())
        }
    };
    let operator = match node.operator() {
        Ok(operator) => operator,
        Err(error) => return refuse(Reason::Attribute, error.to_string()),
    };
    let planes = |op: &str| match rank {
        4 => Ok(()),
        rank => refuse(
            Reason::Rank,
            format!("rank {rank}; {op} is offered on planes, rank 4"),
        ),
    };
    // the padding is written out, no dilations, no last window past the image
    let window = |window: &WindowSpec| {
        needs(Attr::AutoPad, window.auto_pad == AutoPad::NotSet)?;
        needs(Attr::Dilations, window.dilations.iter().all(|&one| one == 1))?;
        needs(Attr::CeilMode, !window.ceil)
    };
    let pooled = || match node.output(1) {
        None => Ok(()),
        Some(_) => refuse(Reason::Attribute, "places of the greatest elements"),
    };
    match operator {
        Operator::Conv(conv) => {
            planes(node.op_name())?;
            needs(Attr::AutoPad, conv.window.auto_pad == AutoPad::NotSet)
        }
        Operator::ConvTranspose(conv) => {
            planes(node.op_name())?;
            needs(Attr::AutoPad, conv.window.window.auto_pad == AutoPad::NotSet)?;
            needs(Attr::OutputShape, conv.window.output_shape.is_empty())
        }
        Operator::MaxPool(pool) => {
            planes(node.op_name())?;
            window(&pool.window)?;
            needs(Attr::StorageOrder, !pool.column_major)?;
            pooled()
        }
        Operator::AveragePool(pool) => {
            planes(node.op_name())?;
            window(&pool.window)?;
            needs(Attr::CountIncludePad, !pool.count_include_pad)?;
            pooled()
        }
        Operator::GlobalAveragePool | Operator::GlobalMaxPool | Operator::DepthToSpace(_) => {
            planes(node.op_name())
        }
        Operator::BatchNormalization(norm) => {
            needs(Attr::TrainingMode, !norm.training)?;
            planes(node.op_name())
        }
        Operator::LayerNormalization(norm) => match node.output(1).or(node.output(2)) {
            None => needs(Attr::Axis, [-1, rank as i64 - 1].contains(&norm.axis)),
            Some(_) => refuse(Reason::Attribute, "means and deviations as outputs"),
        },
        Operator::Gelu(gelu) => {
            needs(Attr::Approximate, gelu.form == GeluForm::Exact)?;
            match node.decomposition() {
                Some(_) => Ok(()),
                None => refuse(Reason::Op, "Gelu that the model does not write out"),
            }
        }
        Operator::Max | Operator::Min => match node.inputs().len() {
            2 => Ok(()),
            count => refuse(Reason::Shape, format!("{count} inputs, two are offered")),
        },
        Operator::Gemm(gemm) => needs(Attr::TransA, !gemm.trans_a),
        Operator::Reshape(reshape) => needs(Attr::Allowzero, !reshape.allow_zero),
        Operator::ReduceMean(reduce)
        | Operator::ReduceMax(reduce)
        | Operator::ReduceMin(reduce)
        | Operator::ReduceSum(reduce) => needs(Attr::NoopWithEmptyAxes, !reduce.noop_with_empty_axes),
        Operator::Resize(resize) => {
            planes("Resize")?;
            needs(Attr::Antialias, !resize.antialias)?;
            needs(Attr::KeepAspectRatioPolicy, resize.aspect == AspectRatio::Ignored)?;
            needs(Attr::Axes, resize.axes.is_none_or(|axes| axes.is_empty()))?;
            if !planes_only(graph, node) {
                return refuse(Reason::Shape, "images and channels change in number");
            }
            match (resize.interpolation, resize.coordinates, resize.rounding) {
                (Interpolation::Nearest, Coordinates::Asymmetric, Rounding::Floor)
                | (Interpolation::Nearest, Coordinates::HalfPixel, Rounding::RoundPreferFloor)
                | (
                    Interpolation::Linear,
                    Coordinates::HalfPixel
                    | Coordinates::PytorchHalfPixel
                    | Coordinates::AlignCorners
                    | Coordinates::Asymmetric,
                    _,
                ) => Ok(()),
                (mode, coordinates, rounding) => {
                    let how = [mode.text(), coordinates.text(), rounding.text()];
                    refuse(Reason::Attribute, how.join(" "))
                }
            }
        }
        _ => Ok(()),
    }
}

/// Whether images and channels stay as many.
fn planes_only(graph: &GraphView<'_>, node: &NodeView<'_>) -> bool {
    let shape = |tensor: Option<u32>| tensor.and_then(|tensor| graph.tensor(tensor).shape());
    match (shape(node.input(0)), shape(node.output(0))) {
        (Some(from), Some(to)) => from.get(..2) == to.get(..2),
        _ => false,
    }
}

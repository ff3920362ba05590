//! The nodes that a compiler that computes f32 in 16-bit floats may be given, among those it is known to take: f32,
//! and integers of 8 bits that encode reals where it keeps their scales.
//!
//! Invariant: the first reason that is true is given.

use polychip_ops::{Attr, AttrValue, DType, Op};
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
    let missed = |attr: Attr| refuse(Reason::Attribute, attr.name());
    let needs = |attr: Attr, holds: bool| if holds { Ok(()) } else { missed(attr) };
    let is = |attr: Attr, value: i64| needs(attr, node.int(attr).is_none_or(|found| found == value));
    let ones = |attr: Attr| {
        needs(
            attr,
            node.ints(attr).is_none_or(|all| all.iter().all(|&one| one == 1)),
        )
    };
    let text = |attr: Attr| match node.attribute(attr).map(|attribute| attribute.value()) {
        Some(AttrValue::String(text)) => Some(text.to_string()),
        _ => None,
    };
    let one_of =
        |attr: Attr, known: &[&str]| needs(attr, text(attr).is_none_or(|found| known.contains(&&*found)));
    let planes = |op: &str| match rank {
        4 => Ok(()),
        rank => refuse(
            Reason::Rank,
            format!("rank {rank}; {op} is offered on planes, rank 4"),
        ),
    };
    match node.op() {
        Op::Conv | Op::ConvTranspose => {
            planes(node.op_name())?;
            one_of(Attr::AutoPad, &["NOTSET"])?;
            needs(
                Attr::OutputShape,
                node.ints(Attr::OutputShape).is_none_or(<[_]>::is_empty),
            )
        }
        Op::MaxPool | Op::AveragePool => {
            planes(node.op_name())?;
            one_of(Attr::AutoPad, &["NOTSET"])?;
            ones(Attr::Dilations)?;
            is(Attr::CeilMode, 0)?;
            is(Attr::StorageOrder, 0)?;
            is(Attr::CountIncludePad, 0)?;
            match node.output(1) {
                None => Ok(()),
                Some(_) => refuse(Reason::Attribute, "places of the greatest elements"),
            }
        }
        Op::GlobalAveragePool | Op::GlobalMaxPool | Op::DepthToSpace => planes(node.op_name()),
        Op::BatchNormalization => {
            is(Attr::TrainingMode, 0)?;
            planes(node.op_name())
        }
        Op::LayerNormalization => match node.output(1).or(node.output(2)) {
            None => is(Attr::Axis, -1).or_else(|_| is(Attr::Axis, rank as i64 - 1)),
            Some(_) => refuse(Reason::Attribute, "means and deviations as outputs"),
        },
        Op::Gelu => {
            one_of(Attr::Approximate, &["none"])?;
            match node.decomposition() {
                Some(_) => Ok(()),
                None => refuse(Reason::Op, "Gelu that the model does not write out"),
            }
        }
        Op::Max | Op::Min => match node.inputs().len() {
            2 => Ok(()),
            count => refuse(Reason::Shape, format!("{count} inputs, two are offered")),
        },
        Op::Gemm => needs(
            Attr::TransA,
            node.int(Attr::TransA).is_none_or(|transposed| transposed == 0),
        ),
        Op::Reshape => is(Attr::Allowzero, 0),
        Op::ReduceMean | Op::ReduceMax | Op::ReduceMin | Op::ReduceSum => is(Attr::NoopWithEmptyAxes, 0),
        Op::Resize => {
            planes("Resize")?;
            is(Attr::Antialias, 0)?;
            one_of(Attr::KeepAspectRatioPolicy, &["stretch"])?;
            needs(Attr::Axes, node.ints(Attr::Axes).is_none_or(<[_]>::is_empty))?;
            let how = [
                text(Attr::Mode).unwrap_or_else(|| "nearest".to_owned()),
                text(Attr::CoordinateTransformationMode).unwrap_or_else(|| "half_pixel".to_owned()),
                text(Attr::NearestMode).unwrap_or_else(|| "round_prefer_floor".to_owned()),
            ];
            let held = planes_only(graph, node);
            match [&*how[0], &*how[1], &*how[2]] {
                _ if !held => refuse(Reason::Shape, "images and channels change in number"),
                ["nearest", "asymmetric", "floor"] | ["nearest", "half_pixel", "round_prefer_floor"] => {
                    Ok(())
                }
                [
                    "linear",
                    "half_pixel" | "pytorch_half_pixel" | "align_corners" | "asymmetric",
                    _,
                ] => Ok(()),
                how => refuse(Reason::Attribute, how.join(" ")),
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

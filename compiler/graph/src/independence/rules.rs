//! What each op keeps of positions: the table of rules.
//!
//! Invariants:
//! 1. An op without a rule mixes all positions, but where all that it reads is the same in both runs.
//! 2. A rule names the axes along which padding may stand; any other is a mix.
//!
//! Not here: how a rule is stated (`step`), rules with something to say (`rules/…`).

use polychip_ops::operator::{Dequantize, Quantize};
use polychip_ops::{Op, Operator};

use crate::independence::pair::{Pair, Proof, Relation};
use crate::independence::step::{PREFIX, Step, Verdict, broadcasts};
use crate::{Node, NodeId};

mod layout;
mod product;
mod reduce;

/// Whether a node tells sizes, which differ between the runs.
pub(super) fn measures(node: &Node) -> bool {
    matches!(node.op, Op::Shape | Op::Size)
}

/// What is proved of the outputs of a node.
pub(super) fn judge(pair: &Pair<'_>, id: NodeId, node: &Node) -> Verdict {
    if node.reads().all(|read| pair.get(read) == Relation::Same) {
        return Ok(Proof::Same);
    }
    let step = Step::new(pair, id, node);
    // elements of sequences and strings have no places
    let packed = |id| pair.graph().tensor(id).is_packed();
    if node.op == Op::Custom || node.reads().chain(node.writes()).any(packed) {
        return spoilt(pair, id, node);
    }
    rule(&step)
}

/// The node that spoilt an input, else this one.
fn spoilt(pair: &Pair<'_>, id: NodeId, node: &Node) -> Verdict {
    let apart = node.reads().filter_map(|read| match pair.get(read) {
        Relation::Apart(cause) => Some(cause),
        Relation::Same | Relation::Prefix { .. } => None,
    });
    Err(apart.min().unwrap_or(id))
}

fn rule(step: &Step<'_>) -> Verdict {
    use Op::*;
    match step.node.op {
        Abs | Identity | Neg | Cast | BitCast => {
            step.prefix(0)?;
            Ok(Proof::Prefix {
                zeros: step.pads_zeros(0) && step.node.op != BitCast,
            })
        }
        Acos | Acosh | Asin | Asinh | Atan | Atanh | BitwiseNot | Ceil | Celu | Cos | Cosh | Elu | Erf
        | Exp | Floor | Gelu | HardSigmoid | HardSwish | IsInf | IsNaN | LabelEncoder | LeakyRelu | Log
        | Mish | Not | Reciprocal | Relu | Round | Selu | Shrink | Sigmoid | Sign | Sin | Sinh | Softplus
        | Softsign | Sqrt | Swish | Tan | Tanh | ThresholdedRelu => {
            step.prefix(0)?;
            PREFIX
        }
        // a type is taken, no element
        CastLike => {
            step.prefix(0)?;
            PREFIX
        }
        Add | And | BitShift | BitwiseAnd | BitwiseOr | BitwiseXor | Clip | Equal | Greater
        | GreaterOrEqual | Less | LessOrEqual | Max | Mean | Min | Mul | Or | PRelu | Sub | Sum | SwiGLU
        | Where | Xor => elementwise(step),
        Div | Mod => {
            // zeros of the padding divide by zero
            if step.is_int(1) {
                step.same(1)?;
            }
            elementwise(step)
        }
        Pow => {
            // zero to a negative power is a division by zero
            step.must(!step.is_int(0))?;
            elementwise(step)
        }
        Dropout => {
            step.same(1)?;
            step.must(!step.has(2) || step.integers(2)? == Some(vec![0]))?;
            step.prefix(0)?;
            PREFIX
        }
        DequantizeLinear | QuantizeLinear => quantise(step),
        MatMul
        | MatMulInteger
        | QLinearMatMul
        | Gemm
        | Einsum
        | Conv
        | ConvInteger
        | ConvTranspose
        | DeformConv
        | QLinearConv
        | AveragePool
        | GlobalAveragePool
        | GlobalLpPool
        | GlobalMaxPool
        | LpPool
        | MaxPool
        | GridSample
        | Resize
        | GRU
        | LSTM
        | RNN
        | Attention
        | RotaryEmbedding
        | Det
        | TreeEnsemble
        | TreeEnsembleRegressor => product::rule(step),
        BatchNormalization
        | GroupNormalization
        | InstanceNormalization
        | LRN
        | LayerNormalization
        | RMSNormalization
        | LogSoftmax
        | Softmax
        | Hardmax
        | LpNormalization
        | MeanVarianceNormalization
        | ArgMax
        | ArgMin
        | ReduceL1
        | ReduceL2
        | ReduceLogSum
        | ReduceLogSumExp
        | ReduceMax
        | ReduceMean
        | ReduceMin
        | ReduceProd
        | ReduceSum
        | ReduceSumSquare
        | CumSum
        | CumProd
        | TopK => reduce::rule(step),
        Reshape | Flatten | Squeeze | Unsqueeze | Transpose | Expand | Tile | Concat | Split | Slice
        | Gather | GatherElements | Pad | Trilu | DepthToSpace | SpaceToDepth | ConstantOfShape | Range
        | OneHot => layout::rule(step),
        _ => {
            // a node that already spoilt an input is reported first
            (0..step.node.inputs.len())
                .filter(|&input| step.has(input))
                .try_for_each(|input| step.prefix(input).map(drop))?;
            step.mixes()
        }
    }
}

/// All inputs are broadcast into the first output.
fn elementwise(step: &Step<'_>) -> Verdict {
    let inputs = (0..step.node.inputs.len()).filter(|&input| step.has(input));
    let axes: Vec<_> = inputs.map(|input| step.prefix(input)).collect::<Result<_, _>>()?;
    let into = step.output(0)?;
    step.must(axes.iter().all(|axes| broadcasts(axes, &into)))?;
    PREFIX
}

/// Scales hold for the whole tensor, or for positions of an axis without padding.
fn quantise(step: &Step<'_>) -> Verdict {
    let axes = step.prefix(0)?;
    step.same_from(1)?;
    if step.prefix(1)?.iter().any(|axis| !axis.is_one()) {
        let (axis, block) = match step.node.operator() {
            Ok(Operator::DequantizeLinear(Dequantize { axis, block, .. })) => (axis, block),
            Ok(Operator::QuantizeLinear(Quantize { axis, block, .. })) => (axis, block),
            _ => return step.mixes(),
        };
        step.must(block == 0)?;
        let axis = step.axis(axis, axes.len())?;
        step.prefix_but(0, &[axis])?;
    }
    PREFIX
}

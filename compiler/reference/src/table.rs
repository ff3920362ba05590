//! The table of what the evaluator computes: for each op its element types and its function.
//!
//! Invariant: every op has a class here or a reason why it has none ([`class`]).

use polychip_ops::{Attributes, DType, DTypes, Op};

use crate::error::Reason;
use crate::row::Row;

/// The file of rows that computes an op, or the reason why it has none. There is no `_` arm: a new op does not
/// compile until it is listed.
fn class(op: Op) -> Result<fn(Op) -> Option<Row>, &'static str> {
    use Op::*;
    Ok(match op {
        Abs | Acos | Acosh | Add | And | Asin | Asinh | Atan | Atanh | BitShift | BitwiseAnd | BitwiseNot
        | BitwiseOr | BitwiseXor | Ceil | Clip | Cos | Cosh | Div | Erf | Exp | Floor | Log | Max | Mean
        | Min | Mod | Mul | Neg | Not | Or | Pow | Reciprocal | Round | Sign | Sin | Sinh | Sqrt | Sub
        | Sum | Tan | Tanh | Xor => crate::elementwise::row,
        Celu | Elu | Gelu | HardSigmoid | HardSwish | LeakyRelu | Mish | PRelu | Relu | Selu | Shrink
        | Sigmoid | Softplus | Softsign | SwiGLU | Swish | ThresholdedRelu => crate::activation::row,
        Equal | Greater | GreaterOrEqual | IsInf | IsNaN | Less | LessOrEqual | Where => crate::compare::row,
        BitCast | Cast | CastLike => crate::cast::row,
        ArgMax | ArgMin | CumProd | CumSum | GlobalAveragePool | GlobalMaxPool | ReduceL1 | ReduceL2
        | ReduceLogSum | ReduceLogSumExp | ReduceMax | ReduceMean | ReduceMin | ReduceProd | ReduceSum
        | ReduceSumSquare => crate::reduce::row,
        Det | Einsum | Gemm | MatMul => crate::matmul::row,
        CausalConvWithState | Col2Im | Conv | ConvTranspose | DeformConv => crate::conv::row,
        AveragePool | GlobalLpPool | LpPool | MaxPool | MaxRoiPool | MaxUnpool | RoiAlign => crate::pool::row,
        BatchNormalization
        | GroupNormalization
        | InstanceNormalization
        | LRN
        | LayerNormalization
        | LpNormalization
        | MeanVarianceNormalization
        | RMSNormalization => crate::norm::row,
        Hardmax | LogSoftmax | NegativeLogLikelihoodLoss | Softmax | SoftmaxCrossEntropyLoss => {
            crate::softmax::row
        }
        CenterCropPad | Concat | Constant | ConstantOfShape | DepthToSpace | Expand | EyeLike | Flatten
        | Identity | Pad | Range | Reshape | ReverseSequence | Shape | Size | Slice | SpaceToDepth
        | Split | Squeeze | Tile | Transpose | Trilu | Unsqueeze => crate::shape::row,
        Compress | Gather | GatherElements | GatherND | OneHot | Scatter | ScatterElements | ScatterND
        | TensorScatter => crate::gather::row,
        AffineGrid | GridSample | Resize | Upsample => crate::resize::row,
        ConvInteger
        | DequantizeLinear
        | DynamicQuantizeLinear
        | MatMulInteger
        | QLinearConv
        | QLinearMatMul
        | QuantizeLinear => crate::quantise::row,
        Attention | LinearAttention | RotaryEmbedding => crate::attention::row,
        GRU | LSTM | RNN => crate::recurrent::row,
        BlackmanWindow | DFT | HammingWindow | HannWindow | MelWeightMatrix | STFT => crate::signal::row,
        NonZero | TopK | Unique => crate::sort::row,
        NonMaxSuppression => crate::detect::row,
        RegexFullMatch | StringConcat | StringNormalizer | StringSplit | TfIdfVectorizer => crate::text::row,
        LabelEncoder | TreeEnsemble | TreeEnsembleRegressor => crate::ml::row,
        ConcatFromSequence | Optional | OptionalGetElement | OptionalHasElement | SequenceAt
        | SequenceConstruct | SequenceEmpty | SequenceErase | SequenceInsert | SequenceLength
        | SplitToSequence => crate::sequence::row,
        Custom => {
            return Err("a custom op, outside the ONNX standard, runs only on a plugin that knows it");
        }
        Bernoulli | Dropout | Multinomial | RandomNormal | RandomNormalLike | RandomUniform
        | RandomUniformLike => crate::random::row,
        If | Loop | Scan | SequenceMap => {
            return Err("a node with body graphs is not a single node's computation");
        }
        ImageDecoder => return Err("image files are decoded before the graph, not in it"),
    })
}

/// The row of an op.
pub(crate) fn row(op: Op) -> Option<Row> {
    class(op).ok()?(op)
}

/// Why a node of this op, these attributes and these element types is not computed, if it is not.
pub(crate) fn refusal(
    op: Op,
    _attributes: &Attributes,
    inputs: impl Iterator<Item = Option<DType>>,
) -> Option<Reason> {
    let Some(row) = row(op) else {
        return Some(Reason(absent(op).to_owned()));
    };
    for (i, dtype) in inputs.enumerate() {
        let allowed = row
            .takes
            .get(i)
            .or(row.takes.last())
            .copied()
            .unwrap_or(DTypes::NONE);
        if let Some(dtype) = dtype
            && !allowed.contains(dtype)
        {
            return Some(Reason(format!("input {i} has element type {}", dtype.name())));
        }
    }
    None
}

/// Why an op has no row.
fn absent(op: Op) -> &'static str {
    // its class has the row in a build with more features
    class(op).err().unwrap_or("no reference kernel computes it")
}

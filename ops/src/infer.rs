//! Shape and dtype inference of one node from what is known of its inputs.
//!
//! Invariants:
//! 1. Inputs that are certainly wrong are an error; what is only unknown flows through.
//! 2. A size that is given is right for every run, or a bound where `upper_bound` says so.
//! 3. Without symbols and with the values of shape inputs, every size comes out known, but those
//!    that text decides.
//!
//! Not here: body graphs of If, Loop and Scan, sequences and optionals (an error names them).
//! Start reading at [`infer`], then at the file of a family.

use crate::{Attributes, DType, ErrorKind, InferError, Op, TensorType, Value};

mod arithmetic;
mod attention;
mod call;
mod cast;
mod convolution;
mod elementwise;
mod gather_scatter;
mod generate;
mod image;
mod loss;
mod matrix;
mod normalisation;
mod pooling;
mod quantise;
mod recurrent;
mod reduction;
mod shape;
mod signal;
mod text;

#[cfg(test)]
mod tests;

use call::{Call, Out};

/// What is known of one input.
#[derive(Clone, Copy, Debug)]
pub struct InferInput<'a> {
    /// Element type and shape.
    pub ty: &'a TensorType,
    /// Its values, as far as they are known.
    pub value: Option<&'a Value>,
}

/// What follows for one output.
#[derive(Clone, PartialEq, Debug)]
pub struct Inferred {
    /// Element type and shape.
    pub ty: TensorType,
    /// Its values, where shape arithmetic gives them.
    pub value: Option<Value>,
    /// The sizes depend on values at run time: the known ones are upper bounds.
    pub upper_bound: bool,
}

/// Infers the outputs of a node: `outputs` of them, trailing optional ones left out.
///
/// # Errors
/// Where a rule of the op is broken, or the op is one that shapes alone do not tell:
/// see [`ErrorKind`].
pub fn infer(
    op: Op,
    attributes: &Attributes,
    inputs: &[Option<InferInput<'_>>],
    outputs: usize,
) -> Result<Vec<Inferred>, InferError> {
    if op == Op::Custom {
        let message = "nothing is known of the outputs of a custom op";
        return Err(InferError::new(op, ErrorKind::Custom, message));
    }
    let call = Call::new(op, attributes, inputs, outputs)?;
    let outs = by_family(&call)?;
    call.finish(outs)
}

/// The shape function of an op.
fn by_family(call: &Call<'_>) -> Result<Vec<Out>, InferError> {
    use Op::*;
    match call.op {
        Custom => Err(call.error(ErrorKind::Custom, "nothing is known of a custom op")),
        Attention | LinearAttention | RotaryEmbedding => attention::infer(call),
        Cast | CastLike | BitCast => cast::infer(call),
        If | Loop | Scan => Err(call.error(
            ErrorKind::NeedsBody,
            "the types of its outputs are those of its body graphs, which are inferred first",
        )),
        CausalConvWithState | Col2Im | Conv | ConvInteger | ConvTranspose | DeformConv => {
            convolution::infer(call)
        }
        Abs | Acos | Acosh | Add | And | Asin | Asinh | Atan | Atanh | BitShift | BitwiseAnd | BitwiseNot
        | BitwiseOr | BitwiseXor | Ceil | Celu | Clip | Cos | Cosh | Div | Elu | Equal | Erf | Exp
        | Floor | Gelu | Greater | GreaterOrEqual | HardSigmoid | HardSwish | Identity | IsInf | IsNaN
        | LeakyRelu | Less | LessOrEqual | Log | Max | Mean | Min | Mish | Mod | Mul | Neg | Not | Or
        | PRelu | Pow | Reciprocal | Relu | Round | Selu | Shrink | Sigmoid | Sign | Sin | Sinh
        | Softplus | Softsign | Sqrt | Sub | Sum | SwiGLU | Swish | Tan | Tanh | ThresholdedRelu | Where
        | Xor => elementwise::infer(call),
        Compress | Gather | GatherElements | GatherND | Scatter | ScatterElements | ScatterND
        | TensorScatter => gather_scatter::infer(call),
        Bernoulli | BlackmanWindow | Constant | ConstantOfShape | EyeLike | HammingWindow | HannWindow
        | MelWeightMatrix | Multinomial | OneHot | RandomNormal | RandomNormalLike | RandomUniform
        | RandomUniformLike | Range => generate::infer(call),
        AffineGrid | GridSample | ImageDecoder | NonMaxSuppression | Resize | Upsample => image::infer(call),
        NegativeLogLikelihoodLoss | SoftmaxCrossEntropyLoss => loss::infer(call),
        Det | Einsum | Gemm | MatMul | MatMulInteger | Trilu => matrix::infer(call),
        BatchNormalization
        | Dropout
        | GroupNormalization
        | Hardmax
        | InstanceNormalization
        | LRN
        | LayerNormalization
        | LogSoftmax
        | LpNormalization
        | MeanVarianceNormalization
        | RMSNormalization
        | Softmax => normalisation::infer(call),
        AveragePool | GlobalAveragePool | GlobalLpPool | GlobalMaxPool | LpPool | MaxPool | MaxRoiPool
        | MaxUnpool | RoiAlign => pooling::infer(call),
        DequantizeLinear | DynamicQuantizeLinear | QLinearConv | QLinearMatMul | QuantizeLinear => {
            quantise::infer(call)
        }
        GRU | LSTM | RNN => recurrent::infer(call),
        ArgMax | ArgMin | CumProd | CumSum | NonZero | ReduceL1 | ReduceL2 | ReduceLogSum
        | ReduceLogSumExp | ReduceMax | ReduceMean | ReduceMin | ReduceProd | ReduceSum | ReduceSumSquare
        | TopK | Unique => reduction::infer(call),
        OptionalHasElement => Ok(vec![Out::scalar().typed(Some(DType::Bool))]),
        OptionalGetElement => {
            let shape = call.dims(0).map(<[_]>::to_vec);
            Ok(vec![
                Out::new(shape)
                    .typed(call.dtype(0))
                    .valued(call.value(0).cloned()),
            ])
        }
        ConcatFromSequence | Optional | SequenceAt | SequenceConstruct | SequenceEmpty | SequenceErase
        | SequenceInsert | SequenceLength | SequenceMap | SplitToSequence => Err(call.error(
            ErrorKind::NotTensor,
            "works on sequences or optionals, which are not tensors",
        )),
        CenterCropPad | Concat | DepthToSpace | Expand | Flatten | Pad | Reshape | ReverseSequence
        | Shape | Size | Slice | SpaceToDepth | Split | Squeeze | Tile | Transpose | Unsqueeze => {
            shape::infer(call)
        }
        DFT | STFT => signal::infer(call),
        RegexFullMatch | StringConcat | StringNormalizer | StringSplit | TfIdfVectorizer => text::infer(call),
    }
}

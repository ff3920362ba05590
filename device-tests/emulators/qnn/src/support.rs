//! The nodes that the emulated library accepts, per SoC and element type: the answers of
//! `validateOpConfig`.
//!
//! Invariants:
//! 1. An accepted node can be finalized and is computed correctly, unless the vendor's library was
//!    observed to accept it and then to refuse or miscompute it: see [`refuses_late`] and
//!    `execute`.
//! 2. An op whose accepted types were not measured accepts those of its family.
//!
//! Not here: the process-wide choice of the SoC (`world`).

use polychip_emulator_qnn_format::{Dtype, Encoding, Kind, Tensor};

use crate::lower;
use crate::soc::Soc;
use crate::view::{Refusal, View};

/// More dims than any op takes.
const MOST_DIMS: usize = 8;
/// More elements than the oracle computes.
const MOST_ELEMENTS: usize = 1 << 28;

/// A set of element types.
#[derive(Clone, Copy)]
struct Set(&'static [Dtype]);

impl Set {
    fn has(self, dtype: Dtype) -> bool {
        self.0.contains(&dtype)
    }
}

use Dtype::{
    Bool8, Float16, Float32, Int8, Int16, Int32, Sfixed8, Sfixed16, Sfixed32, Ufixed8, Ufixed16, Uint8,
    Uint16, Uint32,
};

/// Types of activations.
const REALS: Set = Set(&[Ufixed8, Sfixed8, Ufixed16, Sfixed16, Float16, Float32]);
const REALS_AND_INT: Set = Set(&[Ufixed8, Sfixed8, Ufixed16, Sfixed16, Float16, Float32, Int32]);
/// Types that can be moved.
const MOVED: Set = Set(&[
    Ufixed8, Sfixed8, Ufixed16, Sfixed16, Float16, Float32, Int32, Uint32, Sfixed32, Bool8, Int8, Uint8,
    Int16, Uint16,
]);
const FLOATS: Set = Set(&[Float16, Float32]);
const TRUTH: Set = Set(&[Bool8]);
const COMPARED: Set = Set(&[
    Ufixed8, Sfixed8, Ufixed16, Sfixed16, Float16, Float32, Int32, Uint32, Bool8,
]);
const INDEX: Set = Set(&[Int32, Uint32]);

/// Rule of a family for the types of its tensors.
enum Family {
    /// All inputs and outputs alike.
    Same(Set),
    /// A filter and perhaps a bias beside the activation.
    Weighted,
    /// Scale and shift beside the activation.
    Scaled,
    /// All inputs alike, the output a truth value.
    Compare(Set),
    /// A condition, then two alike.
    Select,
    /// The first input and the output alike, indices second.
    Index,
    /// The first input and all outputs alike, but indices as the last output.
    Extreme,
    /// The first input as named, outputs are indices.
    Position,
    /// Any to any.
    Convert,
}

fn family(view: &View<'_>) -> Option<Family> {
    if let Some(operation) = lower::operation(view) {
        return Some(match operation {
            "And" | "Or" | "Xor" | "Not" => Family::Same(TRUTH),
            "Equal" | "NotEqual" | "Greater" | "GreaterEqual" | "Less" | "LessEqual" => {
                Family::Compare(COMPARED)
            }
            "Add" | "Subtract" | "Multiply" | "Divide" | "Maximum" | "Minimum" | "Abs" | "Neg" | "Sign" => {
                Family::Same(REALS_AND_INT)
            }
            _ => Family::Same(REALS),
        });
    }
    Some(match view.op {
        "ElementWiseSelect" => Family::Select,
        "Conv2d" | "DepthWiseConv2d" | "TransposeConv2d" | "FullyConnected" | "MatMul" => Family::Weighted,
        "LayerNorm" | "RmsNorm" | "InstanceNorm" | "GroupNorm" | "Batchnorm" | "Prelu" => Family::Scaled,
        "Reshape" | "Squeeze" | "ExpandDims" | "Transpose" | "Concat" | "Pack" | "UnPack" | "Split"
        | "StridedSlice" | "Pad" | "Tile" | "DepthToSpace" | "SpaceToDepth" => Family::Same(MOVED),
        "Gather" | "GatherElements" | "GatherNd" | "ScatterNd" | "ScatterElements" => Family::Index,
        "TopK" => Family::Extreme,
        "Argmax" | "Argmin" => Family::Position,
        "IsNan" | "IsInf" => Family::Compare(FLOATS),
        "Cast" | "Convert" | "Quantize" | "Dequantize" => Family::Convert,
        "ReduceMax" | "ReduceMin" | "ReduceSum" | "CumulativeSum" => Family::Same(REALS_AND_INT),
        "ElementWiseNeuron"
        | "ElementWiseSoftplus"
        | "Relu"
        | "Relu1"
        | "Relu6"
        | "ReluMinMax"
        | "Sigmoid"
        | "Tanh"
        | "Elu"
        | "Gelu"
        | "HardSwish"
        | "Softmax"
        | "LogSoftmax"
        | "PoolMax2d"
        | "PoolAvg2d"
        | "ReduceMean"
        | "ReduceProd"
        | "ReduceSumSquare"
        | "L2Norm"
        | "Lrn"
        | "Resize"
        | "ResizeBilinear"
        | "ResizeNearestNeighbor"
        | "GridSample" => Family::Same(REALS),
        _ => return None,
    })
}

/// Names of all ops, as `getSupportedOperations` lists them.
pub(crate) const NAMES: &[&std::ffi::CStr] = &[
    c"Argmax",
    c"Argmin",
    c"Batchnorm",
    c"Cast",
    c"Concat",
    c"Conv2d",
    c"Convert",
    c"CumulativeSum",
    c"DepthToSpace",
    c"DepthWiseConv2d",
    c"Dequantize",
    c"ElementWiseAbs",
    c"ElementWiseAdd",
    c"ElementWiseAnd",
    c"ElementWiseAsin",
    c"ElementWiseAtan",
    c"ElementWiseBinary",
    c"ElementWiseCeil",
    c"ElementWiseCos",
    c"ElementWiseDivide",
    c"ElementWiseEqual",
    c"ElementWiseExp",
    c"ElementWiseFloor",
    c"ElementWiseFloorDiv",
    c"ElementWiseFmod",
    c"ElementWiseGreater",
    c"ElementWiseGreaterEqual",
    c"ElementWiseLess",
    c"ElementWiseLessEqual",
    c"ElementWiseLog",
    c"ElementWiseMaximum",
    c"ElementWiseMinimum",
    c"ElementWiseMod",
    c"ElementWiseMultiply",
    c"ElementWiseNeg",
    c"ElementWiseNeuron",
    c"ElementWiseNot",
    c"ElementWiseNotEqual",
    c"ElementWiseOr",
    c"ElementWisePower",
    c"ElementWiseReciprocal",
    c"ElementWiseRound",
    c"ElementWiseRsqrt",
    c"ElementWiseSelect",
    c"ElementWiseSign",
    c"ElementWiseSin",
    c"ElementWiseSoftplus",
    c"ElementWiseSquareRoot",
    c"ElementWiseSquaredDifference",
    c"ElementWiseSubtract",
    c"ElementWiseUnary",
    c"ElementWiseXor",
    c"Elu",
    c"ExpandDims",
    c"FullyConnected",
    c"Gather",
    c"GatherElements",
    c"GatherNd",
    c"Gelu",
    c"GridSample",
    c"GroupNorm",
    c"HardSwish",
    c"InstanceNorm",
    c"IsInf",
    c"IsNan",
    c"L2Norm",
    c"LayerNorm",
    c"LogSoftmax",
    c"Lrn",
    c"MatMul",
    c"Pack",
    c"Pad",
    c"PoolAvg2d",
    c"PoolMax2d",
    c"Prelu",
    c"Quantize",
    c"ReduceMax",
    c"ReduceMean",
    c"ReduceMin",
    c"ReduceProd",
    c"ReduceSum",
    c"ReduceSumSquare",
    c"Relu",
    c"Relu1",
    c"Relu6",
    c"ReluMinMax",
    c"Reshape",
    c"Resize",
    c"ResizeBilinear",
    c"ResizeNearestNeighbor",
    c"RmsNorm",
    c"ScatterElements",
    c"ScatterNd",
    c"Sigmoid",
    c"Softmax",
    c"SpaceToDepth",
    c"Split",
    c"Squeeze",
    c"StridedSlice",
    c"Tanh",
    c"Tile",
    c"TopK",
    c"Transpose",
    c"TransposeConv2d",
    c"UnPack",
];

/// Whether the library accepts a node on a SoC.
pub(crate) fn validate(view: &View<'_>, package: &str, soc: Soc) -> Result<(), Refusal> {
    if package != "qti.aisw" {
        return Refusal::rule(format!("there is no op package {package:?}"));
    }
    let Some(family) = family(view) else {
        return Err(Refusal::Unknown);
    };
    for (i, tensor) in view.inputs.iter().enumerate() {
        if let Some(tensor) = tensor {
            check_tensor(view, tensor, soc, Some(i))?;
        }
    }
    for tensor in view.outputs.iter().flatten() {
        check_tensor(view, tensor, soc, None)?;
    }
    check_types(view, &family, soc)?;
    match fits(view) {
        Err(Refusal::NoValues) => Ok(()),
        other => other,
    }
}

/// Whether shapes and parameters fit.
pub(crate) fn fits(view: &View<'_>) -> Result<(), Refusal> {
    let recipe = lower::lower(view)?;
    let shapes = recipe.shapes(&view.types()).map_err(Refusal::Rule)?;
    if view.outputs.len() > shapes.len() {
        return Refusal::rule(format!(
            "{} has {} outputs, not {}",
            view.op,
            shapes.len(),
            view.outputs.len()
        ));
    }
    for (i, shape) in shapes.into_iter().enumerate() {
        let (Some(Some(tensor)), Some(shape)) = (view.outputs.get(i), shape) else {
            continue;
        };
        let declared = tensor.shape();
        // QNN has no rank 0: a single value is [1]
        let scalar = shape.is_empty() && declared == [1];
        if declared != shape && !scalar {
            return Refusal::rule(format!(
                "{}: output {i} has shape {declared:?}, {shape:?} comes out",
                view.op
            ));
        }
    }
    Ok(())
}

/// Whether a node is accepted and then cannot be finalized. The vendor's library does so on SoC 30,
/// and on SoC 122 with every node that was tried.
pub(crate) fn refuses_late(view: &View<'_>, soc: Soc) -> bool {
    let float = view
        .input(0)
        .is_ok_and(|tensor| tensor.known_dtype() == Some(Float32));
    soc.id == 122 || soc.id == 30 && float && matches!(lower::activation(view), "Gelu" | "Elu" | "RmsNorm")
}

fn check_tensor(view: &View<'_>, tensor: &Tensor, soc: Soc, input: Option<usize>) -> Result<(), Refusal> {
    let Some(dtype) = tensor.known_dtype() else {
        return Refusal::rule(format!(
            "{}: tensor {:?} has data type {:#06x}",
            view.op, tensor.name, tensor.dtype
        ));
    };
    let no = |why: &str| {
        Refusal::rule(format!(
            "{}: tensor {:?} of type {dtype:?} {why}",
            view.op, tensor.name
        ))
    };
    if tensor.dims.len() > MOST_DIMS || tensor.elements().is_none_or(|count| count > MOST_ELEMENTS) {
        return no("is too large");
    }
    if matches!((soc.id, dtype), (1, Float16 | Float32) | (95, Float16)) {
        return no("is not a type of this SoC");
    }
    if matches!(dtype, Dtype::Sfixed4 | Dtype::Ufixed4) {
        return no("is packed: 4 bits need 8-bit storage and a bitwidth encoding");
    }
    if !dtype.is_fixed() {
        return Ok(());
    }
    // a bias may leave its scale to the product of the others: none is given, or 0
    let bias = dtype == Sfixed32 && input == Some(2);
    let Some((axis, steps)) = tensor.encoding.steps() else {
        return if bias {
            Ok(())
        } else {
            no("has no encoding that is known")
        };
    };
    if steps
        .iter()
        .any(|step| !step.scale.is_finite() || step.scale < 0.0 || step.scale == 0.0 && !bias)
    {
        return no("has a scale that is no positive number");
    }
    let weighted = matches!(
        view.op,
        "Conv2d" | "DepthWiseConv2d" | "TransposeConv2d" | "FullyConnected" | "MatMul"
    );
    let constant = tensor.kind == Kind::Static;
    if let Some(axis) = axis {
        if !weighted || !matches!(input, Some(1 | 2)) || !constant {
            return no("is encoded per axis, which only constant weights are");
        }
        if tensor.shape().get(axis) != Some(&steps.len()) {
            return no("has another number of steps than its axis");
        }
    }
    if let Some(bits) = tensor.encoding.bits() {
        let small = bits == 4 && matches!(dtype, Sfixed8 | Ufixed8);
        if !(small || bits as usize == dtype.bits()) || !weighted || input != Some(1) || !constant {
            return no("has a bitwidth encoding, which only 4-bit constant weights in 8 bits have");
        }
    }
    Ok(())
}

fn check_types(view: &View<'_>, family: &Family, soc: Soc) -> Result<(), Refusal> {
    let types = |tensors: &[Option<&Tensor>]| -> Vec<Dtype> {
        tensors
            .iter()
            .flatten()
            .filter_map(|tensor| tensor.known_dtype())
            .collect()
    };
    let (inputs, outputs) = (types(view.inputs), types(view.outputs));
    let (Some(&x), Some(&y)) = (inputs.first(), outputs.first()) else {
        return Refusal::rule(format!("{} has no input or no output", view.op));
    };
    let no = || Refusal::rule(format!("{}: types {inputs:?} to {outputs:?}", view.op));
    let alike = |list: &[Dtype]| list.iter().all(|&dtype| dtype == x);
    let fits = match family {
        Family::Same(set) => set.has(x) && alike(&inputs) && alike(&outputs),
        Family::Compare(set) => set.has(x) && alike(&inputs) && y == Bool8,
        Family::Select => {
            x == Bool8 && inputs.len() == 3 && MOVED.has(y) && inputs[1..].iter().all(|&dtype| dtype == y)
        }
        Family::Index => {
            MOVED.has(x)
                && x == y
                && inputs.get(1).is_some_and(|&at| INDEX.has(at))
                && inputs.get(2).is_none_or(|&updates| updates == x)
        }
        Family::Extreme => REALS_AND_INT.has(x) && x == y && outputs.get(1).is_none_or(|&at| INDEX.has(at)),
        Family::Position => REALS_AND_INT.has(x) && INDEX.has(y),
        Family::Convert => converts(view.op, x, y),
        Family::Scaled => {
            REALS.has(x)
                && x == y
                && inputs[1..].iter().all(|&other| {
                    if x.is_fixed() {
                        other.is_fixed() || other == Int32
                    } else {
                        other == x
                    }
                })
        }
        Family::Weighted => REALS.has(x) && x == y && weights_fit(view, &inputs, soc),
    };
    if fits { Ok(()) } else { no() }
}

fn converts(op: &str, x: Dtype, y: Dtype) -> bool {
    let float = |dtype| matches!(dtype, Float16 | Float32);
    let real = |dtype| REALS.has(dtype);
    match op {
        "Quantize" => float(x) && (real(y) || y == Sfixed32) && y.is_fixed(),
        "Dequantize" => (real(x) || x == Sfixed32) && x.is_fixed() && float(y),
        "Convert" => real(x) && real(y),
        // ONNX Runtime's client casts indices from and to 64 bits at the border of a graph
        _ => {
            let index = |dtype, other| dtype == Dtype::Int64 && INDEX.has(other);
            MOVED.has(x) && MOVED.has(y) || index(x, y) || index(y, x)
        }
    }
}

fn weights_fit(view: &View<'_>, inputs: &[Dtype], soc: Soc) -> bool {
    let x = inputs[0];
    let Some(&w) = inputs.get(1) else {
        return false;
    };
    let constant = view.input(1).is_ok_and(|tensor| tensor.kind == Kind::Static);
    let bytes = matches!(w, Ufixed8 | Sfixed8);
    let weight = match x {
        Ufixed8 | Sfixed8 => bytes,
        Ufixed16 => bytes || w == Ufixed16 || w == Sfixed16,
        // a product of two activations of signed 16 bits came with v73
        Sfixed16 if !constant && view.op == "MatMul" => soc.arch >= 73 && (bytes || w == Sfixed16),
        Sfixed16 => bytes || w == Sfixed16,
        _ => w == x,
    };
    let bias = inputs.get(2).is_none_or(|&bias| {
        if x.is_fixed() {
            matches!(bias, Sfixed32 | Int32)
        } else {
            bias == x
        }
    });
    weight && bias
}

/// Whether a Softmax has the output of which the library forces the zero point.
pub(crate) fn forced_softmax(view: &View<'_>) -> bool {
    let output = view.outputs.first().copied().flatten();
    view.op == "Softmax"
        && output.is_some_and(|tensor| {
            tensor.known_dtype() == Some(Sfixed8)
                && matches!(&tensor.encoding, Encoding::PerTensor(step) if step.offset != 128)
        })
}

#[cfg(test)]
mod tests;

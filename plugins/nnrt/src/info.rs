//! What each tensor of a part is on the chip: type and shape.

use polychip_lowering::{Outcome, Part, Refusal, Tensor};
use polychip_ops::DType;
use polychip_sdk::Reason;

use crate::program::Type;

/// The runtime's operations take tensors of less than eight axes.
const MOST_AXES: usize = 7;

/// What a tensor is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Info {
    pub(crate) ty: Type,
    /// ONNX shape.
    pub(crate) shape: Vec<usize>,
}

/// What all tensors of a part are, or why one is none that the chip has.
pub(crate) fn infos(part: &Part) -> Vec<Outcome<Info>> {
    part.tensors.iter().map(info).collect()
}

fn info(tensor: &Tensor) -> Outcome<Info> {
    let name = &tensor.name;
    let ty = match tensor.dtype {
        _ if !tensor.plain => return Err(Refusal::dtype(format!("tensor {name} is no plain tensor"))),
        _ if tensor.encoding.is_some() && !tensor.is_constant() => {
            return Err(Refusal::encoding(format!("tensor {name} is of encoded integers")));
        }
        DType::F32 => Type::F32,
        DType::F16 => Type::F16,
        DType::I32 => Type::I32,
        DType::Bool => Type::Bool,
        // parameters: axes, shapes, indices
        DType::I64 if tensor.is_constant() => Type::I32,
        dtype => {
            return Err(Refusal::dtype(format!(
                "tensor {name} is of {dtype}, which this plugin does not hand over"
            )));
        }
    };
    let Some(shape) = tensor.dims.clone() else {
        let what = format!("tensor {name} has its shape only after the run");
        return Err(Refusal::new(Reason::DynamicShape, what));
    };
    if shape.len() > MOST_AXES {
        let what = format!(
            "tensor {name} has {} axes; at most {MOST_AXES} are taken",
            shape.len()
        );
        return Err(Refusal::new(Reason::Rank, what));
    }
    let elements = polychip_ops::axis::product(&shape).unwrap_or(usize::MAX);
    if elements > i32::MAX as usize / 8 || (elements == 0 && !tensor.is_constant()) {
        return Err(Refusal::shape(format!(
            "tensor {name} of {shape:?} is empty or beyond 2^28 elements"
        )));
    }
    Ok(Info { ty, shape })
}

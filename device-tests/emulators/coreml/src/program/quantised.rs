//! Between reals and bytes: `quantize`, `dequantize`, and constants of bytes that become reals (`constexpr_affine_dequantize`).

use polychip_ops::{Attr, Attributes, DType, Op};

use super::args::Args;
use super::maker::{Known, Maker};
use crate::package::{Operation, Type};

/// Whether an op is one of these.
pub(super) fn is(kind: &str) -> bool {
    matches!(kind, "quantize" | "dequantize" | "constexpr_affine_dequantize")
}

/// Adds such an operation, whose result is declared of a type.
pub(super) fn operation(
    maker: &mut Maker<'_>,
    operation: &Operation,
    args: &Args<'_>,
    ty: Type,
) -> Result<(), String> {
    let constant = operation.kind == "constexpr_affine_dequantize";
    let quantises = operation.kind == "quantize";
    let name = if constant { "quantized_data" } else { "input" };
    if constant {
        args.constant(name)?;
    }
    let input = maker.arg(args, name)?;
    let (scale, zero) = (args.constant("scale")?, args.constant("zero_point")?);
    let (bytes, real) = if quantises {
        (ty.dtype(), Some(input.dtype))
    } else {
        (Some(input.dtype), ty.dtype())
    };
    let fits = matches!(bytes, Some(DType::I8 | DType::U8)) && matches!(real, Some(DType::F16 | DType::F32));
    if !fits || zero.of.ty.dtype() != bytes || scale.of.ty.dtype() != real {
        return Err(format!(
            "{:?} to {ty:?} with scales of {:?} and zero points of {:?}",
            input.dtype, scale.of.ty, zero.of.ty
        ));
    }
    if quantises {
        let said = args.text("output_dtype")?;
        if said != if ty == Type::I8 { "int8" } else { "uint8" } {
            return Err(format!("declared of {ty:?}, and output_dtype {said:?}"));
        }
    }
    let mut attributes = Attributes::new();
    // a list of scales comes with an axis; a single scale has one only where the op always has it
    let axis = if args.is_given("axis") {
        Some(args.int("axis")?)
    } else {
        None
    };
    match (&scale.of.dims[..], axis) {
        ([], None) => {}
        ([], Some(_)) if constant => {}
        (&[count], Some(axis)) => {
            let place = polychip_ops::axis::normalise(axis, input.dims.len());
            if place.map(|place| input.dims[place]) != Some(count) {
                return Err(format!("{count} scales along axis {axis} of {:?}", input.dims));
            }
            attributes = attributes.with_int(Attr::Axis, axis);
        }
        (dims, axis) => return Err(format!("scales of {dims:?} with axis {axis:?}")),
    }
    if scale.of.dims != zero.of.dims {
        return Err(format!("zero points of {:?}", zero.of.dims));
    }
    let scale: Known = maker.arg(args, "scale")?;
    let zero: Known = maker.arg(args, "zero_point")?;
    let op = if quantises {
        Op::QuantizeLinear
    } else {
        Op::DequantizeLinear
    };
    maker.finish(
        op,
        attributes,
        &[Some(&input), Some(&scale), Some(&zero)],
        operation,
    )
}

//! Steps that more than one op class adds: copies, and functions of one and two values.
//!
//! Not here: which values they run over (`materialize`, and each op class).

use half::slice::HalfBitsSliceExt;
use half::{bf16, f16};
use polychip_cpu_kernels::copy::CopyPlan;
use polychip_cpu_kernels::elementwise::BinaryPlan;
use polychip_cpu_kernels::transpose::TransposePlan;
use polychip_cpu_kernels::{Binary, Unary, convert, elementwise as kernel};
use polychip_ops::DType;
use polychip_sdk::{Error, Result};

use super::builder::{Lowering, kernel_error};
use crate::step::ValueId;
use crate::work::Class;

/// Runs a plan that moves elements, as integers of their width in bytes.
macro_rules! run_by_width {
    ($plan:ident, $o:ident, $width:ident) => {
        match $width {
            1 => $plan.run($o.pool, $o.read::<u8>(0), $o.write::<u8>(0)),
            2 => $plan.run($o.pool, $o.read::<u16>(0), $o.write::<u16>(0)),
            4 => $plan.run($o.pool, $o.read::<u32>(0), $o.write::<u32>(0)),
            _ => $plan.run($o.pool, $o.read::<u64>(0), $o.write::<u64>(0)),
        }
    };
}

/// Adds a permutation of elements of any fixed size.
pub(super) fn transpose(
    l: &mut Lowering<'_>,
    name: &'static str,
    plan: TransposePlan,
    from: ValueId,
    to: ValueId,
) {
    let width = l.width(from);
    let class = if plan.moves_rows() {
        Class::Copy
    } else {
        Class::Permute
    };
    l.step(
        name,
        &[from],
        &[to],
        None,
        Box::new(move |o| {
            run_by_width!(plan, o, width);
            Ok(())
        }),
    )
    .is(class);
}

/// Adds a copy between two strided views: value, offset and strides in elements.
pub(super) fn strided(
    l: &mut Lowering<'_>,
    name: &'static str,
    shape: &[usize],
    (from, from_offset, from_strides): (ValueId, usize, &[isize]),
    (to, to_offset, to_strides): (ValueId, usize, &[isize]),
) -> Result<()> {
    if shape.contains(&0) {
        return Ok(());
    }
    let plan =
        CopyPlan::new(shape, from_offset, from_strides, to_offset, to_strides).map_err(kernel_error)?;
    let width = l.width(from);
    // rows that lie together are copied as they are
    let in_order = from_strides.last() == Some(&1) && to_strides.last() == Some(&1);
    let elements: usize = shape.iter().product();
    l.step(
        name,
        &[from],
        &[to],
        None,
        Box::new(move |o| {
            run_by_width!(plan, o, width);
            Ok(())
        }),
    )
    .does(if in_order { Class::Copy } else { Class::Permute }, elements)
    .work
    .bytes = 2 * (elements * width) as u64;
    Ok(())
}

/// The strides of a dense tensor.
pub(super) fn dense(shape: &[usize]) -> Result<Vec<isize>> {
    polychip_ops::axis::strides(shape)
        .map(|strides| strides.iter().map(|&stride| stride as isize).collect())
        .ok_or_else(|| Error::unsupported(format!("a tensor of shape {shape:?} is too large")))
}

/// The class of a function's loops.
fn class_of(function: Unary) -> Class {
    match function {
        Unary::Exp
        | Unary::Log
        | Unary::Erf
        | Unary::Tanh
        | Unary::Sigmoid
        | Unary::Swish { .. }
        | Unary::Gelu
        | Unary::GeluTanh
        | Unary::Elu { .. }
        | Unary::Selu { .. }
        | Unary::Celu { .. }
        | Unary::Softplus
        | Unary::Mish
        | Unary::Sin
        | Unary::Cos
        | Unary::Tan
        | Unary::Asin
        | Unary::Acos
        | Unary::Atan
        | Unary::Sinh
        | Unary::Cosh
        | Unary::Asinh
        | Unary::Acosh
        | Unary::Atanh => Class::Transcendental,
        _ => Class::Arithmetic,
    }
}

/// Adds a step that makes f32 of 16-bit floats.
pub(super) fn widen(l: &mut Lowering<'_>, x: ValueId, y: ValueId) {
    let (isa, is_f16) = (l.isa, l.values[x.0 as usize].dtype == DType::F16);
    l.step(
        "widen",
        &[x],
        &[y],
        None,
        Box::new(move |o| {
            let (x, y) = (o.read::<u16>(0), o.write::<f32>(0));
            if is_f16 {
                convert::widen::<f16>(isa, o.pool, x.reinterpret_cast(), y);
            } else {
                convert::widen::<bf16>(isa, o.pool, x.reinterpret_cast(), y);
            }
            Ok(())
        }),
    )
    .is(Class::Convert);
}

/// Adds a step that rounds f32 to 16-bit floats.
pub(super) fn narrow(l: &mut Lowering<'_>, x: ValueId, y: ValueId) {
    let (isa, is_f16) = (l.isa, l.values[y.0 as usize].dtype == DType::F16);
    l.step(
        "narrow",
        &[x],
        &[y],
        None,
        Box::new(move |o| {
            let (x, y) = (o.read::<f32>(0), o.write::<u16>(0));
            if is_f16 {
                convert::narrow::<f16>(isa, o.pool, x, y.reinterpret_cast_mut());
            } else {
                convert::narrow::<bf16>(isa, o.pool, x, y.reinterpret_cast_mut());
            }
            Ok(())
        }),
    )
    .is(Class::Convert);
}

/// Adds a step `y = function(x)`.
pub(super) fn unary(l: &mut Lowering<'_>, function: Unary, x: ValueId, y: ValueId) {
    let isa = l.isa;
    l.step(
        "unary",
        &[x],
        &[y],
        None,
        Box::new(move |o| {
            if o.shared().is_some() {
                kernel::unary_in_place(isa, o.pool, function, o.slice_mut(0));
            } else {
                kernel::unary(isa, o.pool, function, o.slice(0), o.slice_mut(0));
            }
            Ok(())
        }),
    )
    .is(class_of(function))
    .may_share = vec![0];
}

/// Adds a step `y = function(a, b)`.
pub(super) fn binary(
    l: &mut Lowering<'_>,
    function: Binary,
    a: ValueId,
    b: ValueId,
    y: ValueId,
) -> Result<()> {
    let isa = l.isa;
    let (a_shape, b_shape) = (l.value_shape(a).to_vec(), l.value_shape(b).to_vec());
    let whole = l.value_shape(y).to_vec();
    let plan = BinaryPlan::new(&a_shape, &b_shape).map_err(kernel_error)?;
    if plan.output_len() != whole.iter().product::<usize>() {
        return Err(Error::unsupported(format!(
            "operands {a_shape:?} and {b_shape:?} do not make {whole:?}"
        )));
    }
    let swapped = match function {
        Binary::Add | Binary::Mul | Binary::Min | Binary::Max => {
            Some(BinaryPlan::new(&b_shape, &a_shape).map_err(kernel_error)?)
        }
        _ => None,
    };
    let can_swap = swapped.is_some();
    let step = l.step(
        "binary",
        &[a, b],
        &[y],
        None,
        Box::new(move |o| {
            match (o.shared(), &swapped) {
                (Some(0), _) => plan.run_in_place(isa, o.pool, function, o.slice_mut(0), o.slice(1)),
                (Some(_), Some(swapped)) => {
                    swapped.run_in_place(isa, o.pool, function, o.slice_mut(0), o.slice(0))
                }
                _ => plan.run(isa, o.pool, function, o.slice(0), o.slice(1), o.slice_mut(0)),
            }
            Ok(())
        }),
    );
    step.is(if function == Binary::Pow {
        Class::Power
    } else {
        Class::Arithmetic
    });
    if a_shape == whole && a != b {
        step.may_share.push(0);
    }
    if can_swap && b_shape == whole && a != b {
        step.may_share.push(1);
    }
    Ok(())
}

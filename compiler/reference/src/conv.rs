//! Convolutions of floats, and Col2Im.
//!
//! Invariant: groups and windows are resolved before a kernel runs.

use polychip_cpu_kernels::reference::activation::Activation;
use polychip_cpu_kernels::reference::conv as kernel;
use polychip_cpu_kernels::reference::window::Window;
use polychip_ops::operator::{CausalActivation, CausalConv, Col2Im, Conv, ConvTranspose, DeformConv};
use polychip_ops::{DType, DTypes, Op};

use crate::call::{Call, Outputs, bad, one, sizes};
use crate::row::{FLOATS, Row};
use crate::window;

const I64: DTypes = DTypes::of(&[DType::I64]);

pub(crate) fn row(op: Op) -> Option<Row> {
    Some(match op {
        Op::Conv => Row {
            takes: &[FLOATS],
            run: conv,
        },
        Op::ConvTranspose => Row {
            takes: &[FLOATS],
            run: conv_transpose,
        },
        Op::DeformConv => Row {
            takes: &[FLOATS],
            run: deform_conv,
        },
        Op::Col2Im => Row {
            takes: &[FLOATS, I64, I64],
            run: col2im,
        },
        Op::CausalConvWithState => Row {
            takes: &[FLOATS],
            run: causal,
        },
        _ => return None,
    })
}

fn conv(c: &Call<'_>) -> Outputs {
    let (x, w) = (c.input(0)?, c.input(1)?);
    let conv: Conv = c.typed()?;
    let window = window::sliding(&conv.window, x.shape(), Some(w.shape()))?;
    one(kernel::conv(x, w, c.optional(2), &window, conv.groups.get()))
}

fn conv_transpose(c: &Call<'_>) -> Outputs {
    let (x, w) = (c.input(0)?, c.input(1)?);
    let conv: ConvTranspose = c.typed()?;
    let window = window::transposed(&conv.window, x.shape(), w.shape())?;
    one(kernel::conv_transpose(
        x,
        w,
        c.optional(2),
        &window,
        conv.groups.get(),
    ))
}

fn deform_conv(c: &Call<'_>) -> Outputs {
    let (x, w) = (c.input(0)?, c.input(1)?);
    let conv: DeformConv = c.typed()?;
    let window = window::sliding(&conv.window, x.shape(), Some(w.shape()))?;
    one(kernel::deform_conv(
        x,
        w,
        c.input(2)?,
        c.optional(3),
        c.optional(4),
        &window,
        (conv.groups.get(), conv.offset_groups.get()),
    ))
}

fn col2im(c: &Call<'_>) -> Outputs {
    let (image, kernel_shape) = (sizes(&c.ints(1)?)?, sizes(&c.ints(2)?)?);
    let n = image.len();
    let window = c.typed::<Col2Im>()?.window;
    let or = |list: &[i64], none: Vec<usize>| if list.is_empty() { Ok(none) } else { sizes(list) };
    let strides = or(&window.strides, vec![1; n])?;
    let dilations = or(&window.dilations, vec![1; n])?;
    let pads = or(&window.pads, vec![0; 2 * n])?;
    if kernel_shape.len() != n || strides.len() != n || dilations.len() != n || pads.len() != 2 * n {
        return bad(format!("a block {kernel_shape:?} of an image {image:?}"));
    }
    let mut output = Vec::new();
    for d in 0..n {
        let reach = kernel_shape[d]
            .checked_sub(1)
            .and_then(|k| k.checked_mul(dilations[d]));
        let room = image[d]
            .checked_add(pads[d])
            .and_then(|p| p.checked_add(pads[n + d]));
        match (reach, room) {
            (Some(reach), Some(room)) if room > reach && strides[d] > 0 => {
                output.push((room - reach - 1) / strides[d] + 1);
            }
            _ => {
                return bad(format!(
                    "a block {kernel_shape:?} does not fit an image {image:?}"
                ));
            }
        }
    }
    let window = Window {
        kernel: kernel_shape,
        strides,
        dilations,
        pads: (0..n).map(|d| (pads[d] as i64, pads[n + d] as i64)).collect(),
        output,
    };
    one(kernel::col2im(c.input(0)?, &image, &window))
}

fn causal(c: &Call<'_>) -> Outputs {
    let swish = c.typed::<CausalConv>()?.activation == CausalActivation::Silu;
    let f = |v| {
        if swish {
            Activation::Swish { alpha: 1.0 }.at(v)
        } else {
            v
        }
    };
    let (y, state) = kernel::causal_conv(c.input(0)?, c.input(1)?, c.optional(2), c.optional(3), f)?;
    Ok(vec![y, state])
}

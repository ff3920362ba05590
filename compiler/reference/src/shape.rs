//! Ops that make shapes and constants, and ops that only move elements.
//!
//! Invariant: every element type is treated alike.

use polychip_cpu_kernels::reference::shape::{self as kernel, PadMode, Run};
use polychip_cpu_kernels::reference::tensor::count;
use polychip_cpu_kernels::reference::{Element, Result, Storage, Tensor, Wide, index};
use polychip_ops::operator::{
    self, Along, BlockMode, Blocks, CenterCropPad, ConstantOfShape, EyeLike, Pad, Reshape, ReverseSequence,
    Shape, Split, Transpose, Trilu,
};
use polychip_ops::{Attr, AttrValue, DType, DTypes, Op};

use crate::call::{Call, Outputs, bad, one, sizes};
use crate::literal::{element, tensor_from_literal};
use crate::row::{ANY, INDEX, NUMBERS, NUMBERS_AND_BOOL, Row};

const I64: DTypes = DTypes::of(&[DType::I64]);

pub(crate) fn row(op: Op) -> Option<Row> {
    let row = |takes: &'static [DTypes], run: fn(&Call<'_>) -> Outputs| Some(Row { takes, run });
    match op {
        Op::Identity => row(&[ANY], |c| Ok(vec![c.input(0)?.clone()])),
        Op::Constant => row(&[ANY], constant),
        Op::ConstantOfShape => row(&[I64], constant_of_shape),
        Op::Shape => row(&[ANY], shape_of),
        Op::Size => row(&[ANY], |c| {
            one(Tensor::from_i64s(vec![], vec![c.input(0)?.len() as i64]))
        }),
        Op::Reshape => row(&[ANY, I64], reshape),
        Op::Flatten => row(&[ANY], flatten),
        Op::Squeeze => row(&[ANY, I64], squeeze),
        Op::Unsqueeze => row(&[ANY, I64], unsqueeze),
        Op::Transpose => row(&[ANY], transpose),
        Op::Concat => row(&[ANY], concat),
        Op::Split => row(&[ANY, I64], split),
        Op::Slice => row(&[ANY, INDEX], slice),
        Op::Expand => row(&[ANY, I64], expand),
        Op::Tile => row(&[ANY, I64], |c| {
            one(kernel::tile(c.input(0)?, &sizes(&c.ints(1)?)?))
        }),
        Op::Pad => row(&[ANY, I64, ANY, INDEX], pad),
        Op::CenterCropPad => row(&[ANY, INDEX], center_crop_pad),
        Op::Range => row(&[NUMBERS], range),
        Op::EyeLike => row(&[NUMBERS_AND_BOOL], eye_like),
        Op::Trilu => row(&[ANY, I64], trilu),
        Op::DepthToSpace | Op::SpaceToDepth => row(&[ANY], blocks),
        Op::ReverseSequence => row(&[ANY, I64], reverse_sequence),
        _ => None,
    }
}

fn constant(c: &Call<'_>) -> Outputs {
    for attr in [
        Attr::Value,
        Attr::ValueFloat,
        Attr::ValueFloats,
        Attr::ValueInt,
        Attr::ValueInts,
        Attr::ValueString,
        Attr::ValueStrings,
    ] {
        return one(match c.attributes.get(attr) {
            None => continue,
            Some(AttrValue::Tensor(t)) => tensor_from_literal(t),
            Some(AttrValue::Float(v)) => Tensor::new(vec![], Storage::F32(vec![*v])),
            Some(AttrValue::Floats(v)) => Tensor::new(vec![v.len()], Storage::F32(v.clone())),
            Some(AttrValue::Int(v)) => Tensor::from_i64s(vec![], vec![*v]),
            Some(AttrValue::Ints(v)) => Tensor::from_i64s(vec![v.len()], v.clone()),
            Some(AttrValue::String(v)) => Tensor::new(vec![], Storage::String(vec![v.to_string()])),
            Some(AttrValue::Strings(v)) => Tensor::new(
                vec![v.len()],
                Storage::String(v.iter().map(ToString::to_string).collect()),
            ),
        });
    }
    bad("no value attribute")
}

fn constant_of_shape(c: &Call<'_>) -> Outputs {
    let shape = sizes(&c.ints(0)?)?;
    let value = match c.typed::<ConstantOfShape>()?.value {
        Some(value) => tensor_from_literal(&value)?,
        None => Tensor::zeros(Element::F32, vec![1])?,
    };
    if value.len() != 1 {
        return bad(format!("the value has {} elements", value.len()));
    }
    one(value.filled(shape))
}

fn shape_of(c: &Call<'_>) -> Outputs {
    let dims: Vec<i64> = c.input(0)?.shape().iter().map(|&d| d as i64).collect();
    let rank = dims.len() as i64;
    let at = |v: i64| (if v < 0 { v + rank } else { v }).clamp(0, rank) as usize;
    let node: Shape = c.typed()?;
    let start = at(node.start);
    let end = at(node.end.unwrap_or(rank)).max(start);
    let part = dims[start..end].to_vec();
    one(Tensor::from_i64s(vec![part.len()], part))
}

fn reshape(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let wanted = c.ints(1)?;
    let keep_zero = c.typed::<Reshape>()?.allow_zero;
    let mut shape = Vec::with_capacity(wanted.len());
    let mut open = None;
    for (i, &d) in wanted.iter().enumerate() {
        shape.push(match d {
            -1 if open.is_some() => return bad("two sizes of -1"),
            -1 => {
                open = Some(i);
                1
            }
            0 if !keep_zero => match x.shape().get(i) {
                Some(&d) => d,
                None => return bad(format!("size 0 copies dim {i}, which is not there")),
            },
            d => sizes(&[d])?[0],
        });
    }
    if let Some(i) = open {
        let rest = count(&shape).unwrap_or(0);
        if rest == 0 || !x.len().is_multiple_of(rest) {
            return bad(format!("{} elements do not fill shape {wanted:?}", x.len()));
        }
        shape[i] = x.len() / rest;
    }
    one(x.reshaped(shape))
}

fn flatten(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let rank = x.rank() as i64;
    let axis = c.typed::<Along>()?.axis;
    if !(-rank..=rank).contains(&axis) {
        return bad(format!("axis {axis} is outside a tensor of rank {rank}"));
    }
    let at = (if axis < 0 { axis + rank } else { axis }) as usize;
    let lead = index::product(&x.shape()[..at]);
    one(x.reshaped(vec![lead, index::product(&x.shape()[at..])]))
}

fn squeeze(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let axes = match c.optional_ints(1)? {
        Some(axes) => index::axes(&axes, x.rank())?,
        None => (0..x.rank()).filter(|&d| x.shape()[d] == 1).collect(),
    };
    if let Some(&d) = axes.iter().find(|&&d| x.shape()[d] != 1) {
        return bad(format!("axis {d} of shape {:?} is not 1", x.shape()));
    }
    let keep = (0..x.rank())
        .filter(|d| !axes.contains(d))
        .map(|d| x.shape()[d])
        .collect();
    one(x.reshaped(keep))
}

fn unsqueeze(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let named = c.ints(1)?;
    let axes = index::axes(&named, x.rank() + named.len())?;
    let mut rest = x.shape().iter();
    let shape = (0..x.rank() + named.len())
        .map(|d| {
            if axes.contains(&d) {
                1
            } else {
                *rest.next().unwrap_or(&1)
            }
        })
        .collect();
    one(x.reshaped(shape))
}

fn transpose(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let perm = match c.typed::<Transpose>()?.perm {
        Some(perm) => sizes(&perm)?,
        None => (0..x.rank()).rev().collect(),
    };
    one(kernel::transpose(x, &perm))
}

fn concat(c: &Call<'_>) -> Outputs {
    let list = c.list(0)?;
    let rank = list.first().map_or(0, |t| t.rank());
    one(kernel::concat(
        &list,
        index::axis(c.typed::<Along>()?.axis, rank)?,
    ))
}

fn split(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let node: Split = c.typed()?;
    let axis = index::axis(node.axis, x.rank())?;
    let n = x.shape()[axis];
    let parts = match c.optional_ints(1)? {
        Some(parts) => sizes(&parts)?,
        None => {
            let k = node.parts.unwrap_or(c.outputs as i64);
            let k = match usize::try_from(k) {
                Ok(k) if k > 0 && k <= n.max(c.outputs) => k,
                _ => return bad(format!("{k} outputs")),
            };
            let each = n.div_ceil(k);
            (0..k).map(|i| each.min(n.saturating_sub(i * each))).collect()
        }
    };
    if count(&[parts
        .iter()
        .try_fold(0usize, |s, &p| s.checked_add(p))
        .unwrap_or(usize::MAX)])
        != Some(n)
    {
        return bad(format!("parts {parts:?} of an axis of {n}"));
    }
    let mut start = 0;
    parts
        .into_iter()
        .map(|len| {
            let part = kernel::part(x, axis, start, len);
            start += len;
            part
        })
        .collect()
}

fn slice(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let (starts, ends) = (c.ints(1)?, c.ints(2)?);
    let axes = match c.optional_ints(3)? {
        Some(axes) => index::axes(&axes, x.rank())?,
        None => (0..starts.len()).collect(),
    };
    let steps = c.optional_ints(4)?.unwrap_or_else(|| vec![1; starts.len()]);
    if ends.len() != starts.len()
        || axes.len() != starts.len()
        || steps.len() != starts.len()
        || starts.len() > x.rank()
    {
        return bad(format!(
            "{} starts, {} ends, {} axes",
            starts.len(),
            ends.len(),
            axes.len()
        ));
    }
    let mut runs: Vec<Run> = x
        .shape()
        .iter()
        .map(|&len| Run {
            start: 0,
            step: 1,
            len,
        })
        .collect();
    for (i, &d) in axes.iter().enumerate() {
        runs[d] = kernel::run(starts[i], ends[i], steps[i], x.shape()[d])?;
    }
    one(kernel::slice(x, &runs))
}

fn expand(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let wanted = sizes(&c.ints(1)?)?;
    let shape = index::broadcast(&[x.shape(), &wanted])?;
    one(kernel::expand(x, &shape))
}

fn pad(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let values = c.ints(1)?;
    let axes = match c.optional_ints(3)? {
        Some(axes) => index::axes(&axes, x.rank())?,
        None => (0..x.rank()).collect(),
    };
    if values.len() != 2 * axes.len() {
        return bad(format!("{} pads for {} axes", values.len(), axes.len()));
    }
    let mut pads = vec![(0, 0); x.rank()];
    for (i, &d) in axes.iter().enumerate() {
        pads[d] = (values[i], values[axes.len() + i]);
    }
    let mode = match c.typed::<Pad>()?.mode {
        operator::PadMode::Constant => PadMode::Constant,
        operator::PadMode::Edge => PadMode::Edge,
        operator::PadMode::Reflect => PadMode::Reflect,
        operator::PadMode::Wrap => PadMode::Wrap,
    };
    one(kernel::pad(x, &pads, mode, c.optional(2)))
}

fn center_crop_pad(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let wanted = sizes(&c.ints(1)?)?;
    let axes = match c.typed::<CenterCropPad>()?.axes {
        Some(axes) => index::axes(&axes, x.rank())?,
        None => (0..x.rank()).collect(),
    };
    if wanted.len() != axes.len() {
        return bad(format!("{} sizes for {} axes", wanted.len(), axes.len()));
    }
    let mut pads = vec![(0i64, 0i64); x.rank()];
    for (&d, &size) in axes.iter().zip(&wanted) {
        let Ok(more) = i64::try_from(size).map(|s| s - x.shape()[d] as i64) else {
            return bad(format!("{size} is not a size"));
        };
        // an odd pixel is padded, or cropped, at the end
        let before = more / 2;
        pads[d] = (before, more - before);
    }
    one(kernel::pad(x, &pads, PadMode::Constant, None))
}

fn range(c: &Call<'_>) -> Outputs {
    let (start, limit, delta) = (c.input(0)?, c.input(1)?, c.input(2)?);
    let element = start.element();
    if [start, limit, delta]
        .iter()
        .any(|t| t.len() != 1 || t.element() != element)
    {
        return bad("start, limit and delta are scalars of one type");
    }
    let too_many = |n: f64| n > polychip_cpu_kernels::reference::tensor::MAX_ELEMENTS as f64;
    one(match (start.wide(), limit.wide(), delta.wide()) {
        (Wide::Int(s), Wide::Int(l), Wide::Int(d)) => {
            let (s, l, d) = (s[0], l[0], d[0]);
            if d == 0 {
                return bad("delta is 0");
            }
            let distance = if d > 0 { l - s } else { s - l };
            let n = if distance <= 0 {
                0
            } else {
                (distance + d.abs() - 1) / d.abs()
            };
            if too_many(n as f64) {
                return bad(format!("a range of {n} elements"));
            }
            let v: Vec<i128> = (0..n).map(|i| s + i * d).collect();
            Tensor::from_i128s(element, vec![v.len()], &v)
        }
        (Wide::Float(s), Wide::Float(l), Wide::Float(d)) => {
            let n = ((l[0] - s[0]) / d[0]).ceil().max(0.0);
            if !n.is_finite() || too_many(n) {
                return bad(format!("a range of {n} elements"));
            }
            let v: Vec<f64> = (0..n as usize).map(|i| s[0] + i as f64 * d[0]).collect();
            Tensor::from_f64s(element, vec![v.len()], &v)
        }
        _ => return bad("a range of numbers only"),
    })
}

fn eye_like(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let &[rows, cols] = x.shape() else {
        return bad(format!("a matrix wanted, shape {:?} seen", x.shape()));
    };
    let node: EyeLike = c.typed()?;
    let element = node.dtype.map_or(x.element(), element);
    one(kernel::eye(element, rows, cols, node.k))
}

fn trilu(c: &Call<'_>) -> Outputs {
    let k = match c.optional(1) {
        Some(_) => c.scalar(1)?,
        None => 0,
    };
    one(kernel::triangle(c.input(0)?, k, c.typed::<Trilu>()?.upper))
}

fn blocks(c: &Call<'_>) -> Outputs {
    let node: Blocks = c.typed()?;
    let (block, column_first) = (node.size.get(), node.mode == BlockMode::Crd);
    if block > 1 << 16 {
        return bad(format!("blocks of {block}"));
    }
    one(if c.op == Op::DepthToSpace {
        kernel::depth_to_space(c.input(0)?, block, column_first)
    } else {
        kernel::space_to_depth(c.input(0)?, block, column_first)
    })
}

fn reverse_sequence(c: &Call<'_>) -> Outputs {
    let node: ReverseSequence = c.typed()?;
    let axis = |axis| -> Result<usize> { Ok(sizes(&[axis])?[0]) };
    one(kernel::reverse_sequence(
        c.input(0)?,
        &c.ints(1)?,
        axis(node.batch_axis)?,
        axis(node.time_axis)?,
    ))
}

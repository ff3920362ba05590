//! Elements and slices that indices name: GatherElements, GatherND, ScatterElements and ScatterND.
//!
//! Not here: reductions of types other than f32 where several updates meet, which fall to the reference.

use polychip_cpu_kernels::scatter::{Elements, Outside, Slices};
use polychip_cpu_kernels::{Isa, convert};
use polychip_lowering::{Layout, Storage};
use polychip_ops::operator::{
    Along, CacheMode, GatherNd, ScatterElements, ScatterNd, ScatterReduction, TensorScatter,
};
use polychip_ops::{DType, Op, Operator, axis};
use polychip_sdk::{Error, ErrorKind, Result};

use super::builder::Lowering;
use crate::part::{Node, TensorIndex};
use crate::step::{Operands, Plain};
use crate::work::Class;

/// What indices name.
#[derive(Clone)]
enum Named {
    Elements(Elements),
    Slices(Slices),
}

/// Lowers a node of this sort.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let scatters = match node.op {
        Op::GatherElements | Op::GatherND => false,
        Op::ScatterElements | Op::Scatter | Op::ScatterND => true,
        _ => return Ok(false),
    };
    let (Some(x), Some(indices), Some(y)) = (node.input(0), node.input(1), node.output(0)) else {
        return Ok(false);
    };
    let Some(named) = named(l, node, x, indices)? else {
        return Ok(false);
    };
    let count: usize = l.shape(indices)?.iter().product();
    let moved = match &named {
        Named::Elements(_) => count,
        Named::Slices(slices) => slices.len() * slices.slice,
    };
    let updates = node.input(2).filter(|_| scatters);
    let given = updates.unwrap_or(y);
    if l.shape(given)?.iter().product::<usize>() != moved || (scatters && updates.is_none()) {
        return Ok(false);
    }
    let reduction = match node.operator() {
        Ok(Operator::ScatterElements(ScatterElements { reduction, .. })) => reduction,
        Ok(Operator::ScatterND(ScatterNd { reduction })) => reduction,
        Ok(_) => ScatterReduction::None,
        Err(_) => return Ok(false),
    };
    let join = join(reduction);
    if join.is_some() && !l.is_f32(x) {
        return Ok(false);
    }
    let storage = match l.moved_as(x, &[updates, Some(y)].map(|t| t.or(Some(y)))) {
        Storage::Stored if join.is_none() => Storage::Stored,
        _ => Storage::Real,
    };
    let dtype = l.stored_as(x, storage);
    let alike = [Some(y), updates]
        .into_iter()
        .flatten()
        .all(|t| l.stored_as(t, storage) == dtype);
    let wide = match l.dtype(indices) {
        DType::I64 => true,
        DType::I32 => false,
        _ => return Ok(false),
    };
    let Some(width @ (1 | 2 | 4 | 8)) = dtype.byte_width() else {
        return Ok(false);
    };
    if !alike {
        return Ok(false);
    }
    let mut reads = vec![l.read(x, Layout::RowMajor, storage)?, l.rows(indices)?];
    if let Some(updates) = updates {
        reads.push(l.read(updates, Layout::RowMajor, storage)?);
    }
    let output = l.write(y, Layout::RowMajor, storage)?;
    let (name, isa) = (node.op.name(), l.isa);
    let run = move |o: &mut Operands<'_>| match (width, join) {
        (_, Some(join)) => put(o, &named, wide, |to: &mut f32, x| *to = join(*to, x)),
        (1, _) if scatters => put(o, &named, wide, |to: &mut u8, x| *to = x),
        (2, _) if scatters => put(o, &named, wide, |to: &mut u16, x| *to = x),
        (4, _) if scatters => put(o, &named, wide, |to: &mut u32, x| *to = x),
        (_, _) if scatters => put(o, &named, wide, |to: &mut u64, x| *to = x),
        (1, _) => take::<u8>(o, isa, &named, wide),
        (2, _) => take::<u16>(o, isa, &named, wide),
        (4, _) => take::<u32>(o, isa, &named, wide),
        _ => take::<u64>(o, isa, &named, wide),
    };
    let run = move |o: &mut Operands<'_>| {
        run(o).map_err(|(index, size)| {
            let message = format!("{name}: index {index} is outside an axis of {size}");
            Error::new(ErrorKind::BadArgument, message)
        })
    };
    let step = l.step(name, &reads, &[output], None, Box::new(run));
    step.does(Class::Select, moved);
    if scatters {
        step.may_share = vec![0];
    }
    Ok(true)
}

fn named(l: &Lowering<'_>, node: &Node, x: TensorIndex, indices: TensorIndex) -> Result<Option<Named>> {
    let (dims, own) = (l.shape(x)?, l.shape(indices)?);
    let along = |along: i64| {
        let axis = axis::normalise(along, dims.len());
        axis.and_then(|axis| Elements::new(dims, own, axis))
            .map(Named::Elements)
    };
    Ok(match node.operator() {
        Ok(Operator::GatherND(GatherNd { batch_dims })) => {
            Slices::new(dims, own, batch_dims).map(Named::Slices)
        }
        Ok(Operator::ScatterND(_)) => Slices::new(dims, own, 0).map(Named::Slices),
        Ok(Operator::GatherElements(Along { axis }) | Operator::Scatter(Along { axis })) => along(axis),
        Ok(Operator::ScatterElements(ScatterElements { axis, .. })) => along(axis),
        _ => None,
    })
}

/// What becomes of an element that an update meets.
fn join(reduction: ScatterReduction) -> Option<fn(f32, f32) -> f32> {
    Some(match reduction {
        ScatterReduction::None => return None,
        ScatterReduction::Add => |a, b| a + b,
        ScatterReduction::Mul => |a, b| a * b,
        // a NaN on either side stays
        ScatterReduction::Max => |a: f32, b: f32| {
            if a.is_nan() || b.is_nan() {
                f32::NAN
            } else {
                a.max(b)
            }
        },
        ScatterReduction::Min => |a: f32, b: f32| {
            if a.is_nan() || b.is_nan() {
                f32::NAN
            } else {
                a.min(b)
            }
        },
    })
}

/// Calls `visit` with the number of each slice (an element is one), its offset and its length.
#[inline(always)]
fn each(
    named: &Named,
    at: impl Fn(usize) -> i64,
    mut visit: impl FnMut(usize, usize, usize),
) -> Result<(), Outside> {
    match named {
        Named::Elements(elements) => elements.each(at, |number, offset| visit(number, offset, 1)),
        Named::Slices(slices) => slices.each(at, |number, offset| visit(number, offset, slices.slice)),
    }
}

/// TensorScatter: rows put into a cache from where an index of each batch says, or from its start.
pub(super) fn lower_rows(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Op::TensorScatter, Some(cache), Some(update), Some(y)) =
        (node.op, node.input(0), node.input(1), node.output(0))
    else {
        return Ok(false);
    };
    let plain = |t: TensorIndex| l.part.tensors[t].encoding.is_none();
    let (dims, own) = (l.shape(cache)?.to_vec(), l.shape(update)?.to_vec());
    let Ok(TensorScatter { axis: along, mode }) = node.typed() else {
        return Ok(false);
    };
    let Some(axis) = axis::normalise(along, dims.len()).filter(|&axis| axis > 0) else {
        return Ok(false);
    };
    let circular = mode == CacheMode::Circular;
    let alike = dims.len() == own.len() && (0..dims.len()).all(|d| d == axis || dims[d] == own[d]);
    let starts = node.input(2);
    let named = |t: TensorIndex| -> Result<bool> { Ok(l.dtype(t) == DType::I64 && l.shape(t)? == [dims[0]]) };
    let Some(width) = l.dtype(cache).byte_width() else {
        return Ok(false);
    };
    let same = l.dtype(update) == l.dtype(cache) && plain(cache) && plain(update) && plain(y);
    if !alike || !same || dims.contains(&0) || !starts.map_or(Ok(true), named)? {
        return Ok(false);
    }
    let row: usize = dims[axis + 1..].iter().product::<usize>() * width;
    let (places, rows) = (dims[axis], own[axis]);
    let lines: usize = dims[..axis].iter().product();
    let per_batch = lines / dims[0];
    let mut reads = vec![l.as_is(cache)?, l.as_is(update)?];
    if let Some(starts) = starts {
        reads.push(l.rows(starts)?);
    }
    let to = l.write_as_is(y)?;
    let (isa, given) = (l.isa, starts.is_some());
    l.step(
        "TensorScatter",
        &reads,
        &[to],
        None,
        Box::new(move |o| {
            let shared = o.shared().is_some();
            let y = o.write::<u8>(0);
            if !shared {
                convert::each(isa, o.pool, o.read::<u8>(0), &mut *y, |byte| byte);
            }
            let updates = o.read::<u8>(1);
            for line in 0..lines {
                let start = if given {
                    o.read::<i64>(2)[line / per_batch]
                } else {
                    0
                };
                for own in 0..rows {
                    let at = start.saturating_add(own as i64);
                    let at = if circular {
                        at.rem_euclid(places as i64)
                    } else {
                        at
                    };
                    let Some(at) = usize::try_from(at).ok().filter(|&at| at < places) else {
                        let message = format!("TensorScatter: write index {at} of {places}");
                        return Err(Error::new(ErrorKind::BadArgument, message));
                    };
                    y[(line * places + at) * row..][..row]
                        .copy_from_slice(&updates[(line * rows + own) * row..][..row]);
                }
            }
            Ok(())
        }),
    )
    .is(Class::Copy)
    .may_share = vec![0];
    Ok(true)
}

#[inline(always)]
fn take<T: Plain>(o: &mut Operands<'_>, isa: Isa, named: &Named, wide: bool) -> Result<(), Outside> {
    let (x, y) = (o.read::<T>(0), o.write::<T>(0));
    if let Named::Elements(elements) = named {
        return if wide {
            elements.take(isa, o.pool, o.read::<i64>(1), x, y)
        } else {
            elements.take(isa, o.pool, o.read::<i32>(1), x, y)
        };
    }
    let mut copy = |number: usize, offset: usize, len: usize| {
        y[number * len..][..len].copy_from_slice(&x[offset..][..len]);
    };
    if wide {
        let at = o.read::<i64>(1);
        each(named, |i| at[i], &mut copy)
    } else {
        let at = o.read::<i32>(1);
        each(named, |i| i64::from(at[i]), &mut copy)
    }
}

#[inline(always)]
fn put<T: Plain>(
    o: &mut Operands<'_>,
    named: &Named,
    wide: bool,
    join: impl Fn(&mut T, T),
) -> Result<(), Outside> {
    let shared = o.shared().is_some();
    let y = o.write::<T>(0);
    if !shared {
        y.copy_from_slice(o.read::<T>(0));
    }
    let updates = o.read::<T>(2);
    let mut update = |number: usize, offset: usize, len: usize| {
        for (to, &x) in y[offset..][..len].iter_mut().zip(&updates[number * len..][..len]) {
            join(to, x);
        }
    };
    if wide {
        let at = o.read::<i64>(1);
        each(named, |i| at[i], &mut update)
    } else {
        let at = o.read::<i32>(1);
        each(named, |i| i64::from(at[i]), &mut update)
    }
}

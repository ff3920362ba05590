//! Ops with data-dependent result sizes: NonZero, NonMaxSuppression, and Unique of all elements.
//!
//! Invariant: inputs have known extents and are not boxed; results without known extents are boxed.
//!
//! Not here: Compress of a known mask (`selection`), Unique of slices along an axis.

use polychip_cpu_kernels::data_dependent::{self, Suppression};
use polychip_cpu_kernels::reference::{Storage, Tensor};
use polychip_cpu_kernels::top_k::Ordered;
use polychip_ops::operator::{self, Unique};
use polychip_ops::{DType, Op};
use polychip_sdk::{Error, ErrorKind, Result};

use super::builder::Lowering;
use crate::part::{Node, TensorIndex};
use crate::step::{Operands, Plain, Run, tensor_from_bytes};
use crate::work::Class;

/// Lowers a node of these ops.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let plain = |t: TensorIndex| l.is_known(t) && l.part.tensors[t].encoding.is_none();
    if !node.reads().all(plain) {
        return Ok(false);
    }
    match node.op {
        Op::NonZero => non_zero(l, node),
        Op::NonMaxSuppression => suppress(l, node),
        Op::Unique => unique(l, node),
        _ => Ok(false),
    }
}

fn made(shape: Vec<usize>, data: Storage) -> Result<Tensor> {
    Tensor::new(shape, data).map_err(|error| Error::new(ErrorKind::Persistent, error.to_string()))
}

fn non_zero(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Some(x), Some(y)) = (node.input(0), node.output(0)) else {
        return Ok(false);
    };
    let dims = l.shape(x)?.to_vec();
    if dims.is_empty() {
        return Ok(false);
    }
    let isa = l.isa;
    fn of<T: Plain + PartialEq + Default>(dims: Vec<usize>, isa: polychip_cpu_kernels::Isa) -> Run {
        Box::new(move |o| {
            let coordinates = coordinates(isa, &dims, o.read::<T>(0));
            let count = coordinates.len() / dims.len();
            o.store(0, made(vec![dims.len(), count], Storage::I64(coordinates))?)
        })
    }
    let run = match l.dtype(x) {
        DType::F32 => of::<f32>(dims, isa),
        DType::F64 => of::<f64>(dims, isa),
        DType::Bool | DType::U8 | DType::I8 => of::<u8>(dims, isa),
        DType::I16 | DType::U16 => of::<u16>(dims, isa),
        DType::I32 | DType::U32 => of::<u32>(dims, isa),
        DType::I64 | DType::U64 => of::<u64>(dims, isa),
        _ => return Ok(false),
    };
    let elements = l.shape(x)?.iter().product();
    let (from, to) = (l.as_is(x)?, l.write_as_is(y)?);
    l.step("NonZero", &[from], &[to], None, run)
        .does(Class::Select, elements);
    Ok(true)
}

/// The coordinates of elements that are not zero, dimension by dimension.
fn coordinates<T: Plain + PartialEq + Default>(
    isa: polychip_cpu_kernels::Isa,
    dims: &[usize],
    x: &[T],
) -> Vec<i64> {
    let (&columns, outer) = dims.split_last().expect("invariant: no scalar");
    let rows: usize = outer.iter().product();
    let mut counts = vec![0; rows];
    data_dependent::count_non_zero(isa, x, columns, &mut counts);
    let count: usize = counts.iter().sum();
    let mut found = vec![0i64; dims.len() * count];
    let (leading, last) = found.split_at_mut(outer.len() * count);
    let mut inner = 1;
    for (dimension, &size) in outer.iter().enumerate().rev() {
        let mut rest = &mut leading[dimension * count..][..count];
        for (row, &count) in counts.iter().enumerate() {
            let (own, behind) = rest.split_at_mut(count);
            own.fill((row / inner % size) as i64);
            rest = behind;
        }
        inner *= size;
    }
    data_dependent::columns_non_zero(x, columns, last);
    found
}

fn suppress(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Some(boxes), Some(scores), Some(y)) = (node.input(0), node.input(1), node.output(0)) else {
        return Ok(false);
    };
    let (&[images, count, 4], &[batch, classes, own]) = (l.shape(boxes)?, l.shape(scores)?) else {
        return Ok(false);
    };
    let scalar = |t: Option<TensorIndex>, dtype: DType| {
        t.is_none_or(|t| {
            let one = l
                .part
                .dims(t)
                .is_some_and(|dims| dims.iter().product::<usize>() == 1);
            one && l.dtype(t) == dtype
        })
    };
    let limits = [node.input(2), node.input(3), node.input(4)];
    let fits = l.part.plain_f32(boxes)
        && l.part.plain_f32(scores)
        && batch == images
        && own == count
        && u32::try_from(count).is_ok()
        && scalar(limits[0], DType::I64)
        && limits[1..].iter().all(|&t| scalar(t, DType::F32));
    if !fits {
        return Ok(false);
    }
    let Ok(attributes) = node.typed::<operator::Suppression>() else {
        return Ok(false);
    };
    let mut reads = vec![l.rows(boxes)?, l.rows(scores)?];
    let mut at = [None; 3];
    for (at, limit) in at.iter_mut().zip(limits) {
        if let Some(t) = limit {
            reads.push(l.rows(t)?);
            *at = Some(reads.len() - 1);
        }
    }
    let centre = attributes.center_point_box;
    let to = l.write_as_is(y)?;
    l.step(
        "NonMaxSuppression",
        &reads,
        &[to],
        None,
        Box::new(move |o| {
            let limit = |o: &Operands<'_>, at: Option<usize>| at.map(|at| o.read::<f32>(at)[0]);
            let p = Suppression {
                centre,
                // without a number none is chosen
                most: at[0].map_or(0, |at| usize::try_from(o.read::<i64>(at)[0]).unwrap_or(0)),
                overlap: limit(o, at[1]).map_or(0.0, f64::from),
                score: limit(o, at[2]),
            };
            let (boxes, scores) = (o.read::<f32>(0), o.read::<f32>(1));
            let mut found = Vec::new();
            for (line, scores) in scores.chunks_exact(count.max(1)).enumerate() {
                let (image, class) = (line / classes, line % classes);
                let boxes = &boxes[image * count * 4..][..count * 4];
                data_dependent::non_max_suppression(boxes.as_chunks().0, scores, p, |chosen| {
                    found.extend([image as i64, class as i64, chosen as i64]);
                });
            }
            o.store(0, made(vec![found.len() / 3, 3], Storage::I64(found))?)
        }),
    )
    .does(Class::Select, images * classes * count);
    Ok(true)
}

/// The unique elements, the first index of each, the inverse mapping, and the counts.
fn unique(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let Some(x) = node.input(0) else {
        return Ok(false);
    };
    let elements: usize = l.shape(x)?.iter().product();
    let Ok(Unique { axis: None, sorted }) = node.typed() else {
        return Ok(false);
    };
    if u32::try_from(elements).is_err() {
        return Ok(false);
    }
    let dtype = l.dtype(x);
    let outputs: Vec<usize> = (0..4).filter(|&i| node.output(i).is_some()).collect();
    fn of<T: Plain + Ordered>(dtype: DType, sorted: bool, outputs: Vec<usize>) -> Run {
        Box::new(move |o| {
            let x = o.read::<T>(0);
            let mut order = vec![(0, 0); x.len()];
            data_dependent::sorted(x, &mut order);
            store_unique(o, dtype, &order, sorted, &outputs)
        })
    }
    let run = match dtype {
        DType::F32 => of::<f32>(dtype, sorted, outputs),
        DType::F64 => of::<f64>(dtype, sorted, outputs),
        DType::I8 => of::<i8>(dtype, sorted, outputs),
        DType::I16 => of::<i16>(dtype, sorted, outputs),
        DType::I32 => of::<i32>(dtype, sorted, outputs),
        DType::I64 => of::<i64>(dtype, sorted, outputs),
        DType::U8 => of::<u8>(dtype, sorted, outputs),
        DType::U16 => of::<u16>(dtype, sorted, outputs),
        DType::U32 => of::<u32>(dtype, sorted, outputs),
        DType::U64 => of::<u64>(dtype, sorted, outputs),
        _ => return Ok(false),
    };
    let from = l.as_is(x)?;
    let mut writes = Vec::new();
    for output in 0..4 {
        if let Some(t) = node.output(output) {
            writes.push(l.write_as_is(t)?);
        }
    }
    // an element is held against one of each size of run
    let turns = elements * (usize::BITS - elements.leading_zeros()).max(1) as usize;
    l.step("Unique", &[from], &writes, None, run)
        .does(Class::Order, turns);
    Ok(true)
}

/// Stores the results of [`unique_indices`] as the outputs with these numbers.
fn store_unique(
    o: &mut Operands<'_>,
    dtype: DType,
    order: &[(i64, u32)],
    sorted: bool,
    outputs: &[usize],
) -> Result<()> {
    let [first, inverse, counts] = unique_indices(order, sorted);
    for (write, &output) in outputs.iter().enumerate() {
        let tensor = match output {
            0 => {
                let bytes = o.read::<u8>(0);
                let width = bytes.len() / order.len().max(1);
                let own = |&at: &i64| &bytes[at as usize * width..][..width];
                let values: Vec<u8> = first.iter().flat_map(own).copied().collect();
                tensor_from_bytes(dtype, &[first.len()], &values)?
            }
            1 => made(vec![first.len()], Storage::I64(first.clone()))?,
            2 => made(vec![inverse.len()], Storage::I64(inverse.clone()))?,
            _ => made(vec![counts.len()], Storage::I64(counts.clone()))?,
        };
        o.store(write, tensor)?;
    }
    Ok(())
}

/// From sorted keys with their indices: the first index of each unique key, the inverse mapping, and the counts.
fn unique_indices(order: &[(i64, u32)], sorted: bool) -> [Vec<i64>; 3] {
    let (mut first, mut counts) = (Vec::new(), Vec::new());
    let mut inverse = vec![0i64; order.len()];
    let mut before = None;
    for &(key, at) in order {
        if before != Some(key) {
            before = Some(key);
            first.push(i64::from(at));
            counts.push(0);
        }
        inverse[at as usize] = first.len() as i64 - 1;
        if let Some(count) = counts.last_mut() {
            *count += 1;
        }
    }
    if sorted {
        return [first, inverse, counts];
    }
    // in the order of appearance
    let mut by_index: Vec<usize> = (0..first.len()).collect();
    by_index.sort_unstable_by_key(|&at| first[at]);
    let mut rank = vec![0i64; first.len()];
    for (now, &before) in by_index.iter().enumerate() {
        rank[before] = now as i64;
    }
    for own in &mut inverse {
        *own = rank[*own as usize];
    }
    let moved = |of: &[i64]| by_index.iter().map(|&at| of[at]).collect();
    [moved(&first), inverse, moved(&counts)]
}

//! Attention of a chunk of new positions over a KV cache: the cache is read as it is stored, and only as many of its
//! positions as the mask shows.
//!
//! The fast path needs a mask that shows the first positions of the past and, within the chunk, each row the rows up
//! to itself. A run checks this once per mask; a mask that shows other positions is computed in plain loops.
//!
//! Not here: attention without a past (`attention`).

use half::f16;
use polychip_cpu_kernels::attention::{Cache, CachedAttentionPlan};
use polychip_lowering::{Layout, Storage};
use polychip_ops::operator::{Attention, Scores};
use polychip_ops::{DType, Op};
use polychip_sdk::Result;

use super::builder::{Lowering, kernel_error};
use super::encoding::is_half;
use crate::part::{Node, Part, TensorIndex};
use crate::step::{Operands, ValueId};
use crate::work::Class;

/// Marks a mask that shows other positions than the kernel computes.
const OTHERS: i64 = -1;

/// An attention that the kernel computes.
#[derive(Clone, Copy)]
struct Shape {
    heads: usize,
    kv_heads: usize,
    size: usize,
    rows: usize,
    capacity: usize,
    scale: f32,
}

fn shape(part: &Part, node: &Node) -> Option<Shape> {
    let attributes: Attention = node.typed().ok()?;
    let positive = |heads: Option<usize>| heads.filter(|&heads| heads > 0);
    let (heads, kv_heads) = (positive(attributes.q_heads)?, positive(attributes.kv_heads)?);
    let is_plain = !attributes.causal
        && attributes.left_window < 0
        && attributes.right_window < 0
        && attributes.softcap == 0.0
        && attributes.scores == Scores::Raw
        && attributes.softmax_precision.is_none();
    let [q, k, v, mask, past_k, past_v] = [0, 1, 2, 3, 4, 5].map(|i| node.input(i));
    let (q, k, v, mask, past_k, past_v, y) = (q?, k?, v?, mask?, past_k?, past_v?, node.output(0)?);
    let &[1, rows, width] = part.dims(q)? else {
        return None;
    };
    let &[1, of, capacity, size] = part.dims(past_k)? else {
        return None;
    };
    let total = capacity.checked_add(rows)?;
    let fits = is_plain
        && node.inputs.len() == 6
        && node.outputs.len() == 1
        && of == kv_heads
        && heads.is_multiple_of(kv_heads)
        && size > 0
        && heads.checked_mul(size) == Some(width)
        && [k, v]
            .iter()
            .all(|&t| part.dims(t) == Some(&[1, rows, kv_heads * size]))
        && part.dims(past_v) == part.dims(past_k)
        && part.dims(y) == part.dims(q)
        && part.tensors[mask].dtype == DType::Bool
        && part.dims(mask) == Some(&[rows, total])
        && [q, k, v, past_k, past_v, y].iter().all(|&t| part.plain_f32(t));
    let scale = attributes.scale;
    fits.then(|| Shape {
        heads,
        kv_heads,
        size,
        rows,
        capacity,
        scale: scale.unwrap_or_else(|| 1.0 / (size as f32).sqrt()),
    })
}

/// The node that widens a memory of f16, and the memory, where a tensor is made so.
pub(super) fn widened(part: &Part, node: &Node) -> Option<TensorIndex> {
    let (x, y) = (node.input(0)?, node.output(0)?);
    let widens = node.op == Op::Cast
        && is_half(part, x)
        && part.tensors[x].dtype == DType::F16
        && !part.is_constant(x)
        && part.plain_f32(y);
    widens.then_some(x)
}

/// Whether this kernel covers a node, where its past is widened from f16.
pub(super) fn covers(part: &Part, node: &Node) -> bool {
    shape(part, node).is_some()
}

/// Lowers an attention whose past is read as it is stored.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let Some(shape) = shape(l.part, node) else {
        return Ok(false);
    };
    let inputs = [0, 1, 2, 3, 4, 5].map(|i| node.input(i));
    let ([Some(q), Some(k), Some(v), Some(mask), Some(past_k), Some(past_v)], Some(y)) =
        (inputs, node.output(0))
    else {
        return Ok(false);
    };
    // a past that others read widened too, or that was never of f16, is read as it is
    let pasts = [past_k, past_v].map(|past| l.transposed[past].unwrap_or(past));
    let storage = match l.transposed[past_k] {
        Some(_) => Storage::Stored,
        None => Storage::Real,
    };
    let plan = CachedAttentionPlan::new(
        l.isa,
        shape.heads,
        shape.kv_heads,
        shape.size,
        shape.rows,
        shape.capacity,
    )
    .map_err(kernel_error)?
    .with_scale(shape.scale);
    let shown = shown(l, mask, shape)?;
    let mut reads = Vec::with_capacity(7);
    for tensor in [q, k, v] {
        reads.push(l.read(tensor, Layout::RowMajor, Storage::Real)?);
    }
    for tensor in pasts {
        reads.push(l.read(tensor, Layout::RowMajor, storage)?);
    }
    reads.extend([shown, l.rows(mask)?]);
    let needed = plan.scratch_len(l.pool).max(shape.capacity + shape.rows);
    let scratch = l.scratch(needed)?;
    let output = l.write_rows(y)?;
    // an assumed half of the cache: how much of it is used is not known yet
    let keys = shape.capacity / 2 + shape.rows;
    let products = shape.rows * shape.heads * shape.size * 2 * keys;
    l.step(
        "attention over a past",
        &reads,
        &[output],
        scratch,
        Box::new(move |o| {
            let [q, k, v] = [0, 1, 2].map(|i| o.read::<f32>(i));
            let pasts: [Cache<'_>; 2] = [3, 4].map(|i| match storage {
                Storage::Stored => bytemuck::cast_slice::<u16, f16>(o.read(i)).into(),
                _ => o.read::<f32>(i).into(),
            });
            let (out, scratch) = (o.write::<f32>(0), o.scratch(1));
            match usize::try_from(o.read::<i64>(5)[0]) {
                Ok(past) => plan.run(o.pool, q, k, v, pasts[0], pasts[1], past, out, scratch),
                Err(_) => masked(shape, [q, k, v], pasts, o.read(6), out, scratch),
            }
            Ok(())
        }),
    )
    .does(Class::Attention, products);
    Ok(true)
}

/// How many positions of the past a mask shows, or [`OTHERS`]; one step for all that read the mask.
fn shown(l: &mut Lowering<'_>, mask: TensorIndex, shape: Shape) -> Result<ValueId> {
    if let Some(&known) = l.shown.get(&mask) {
        return Ok(known);
    }
    let reads = [l.rows(mask)?];
    let value = l.fresh(DType::I64, vec![1])?;
    let Shape { rows, capacity, .. } = shape;
    l.step(
        "positions of a mask",
        &reads,
        &[value],
        None,
        Box::new(move |o: &mut Operands<'_>| {
            let found = causal(o.read(0), rows, capacity);
            o.write::<i64>(0)[0] = found.and_then(|past| i64::try_from(past).ok()).unwrap_or(OTHERS);
            Ok(())
        }),
    )
    .is(Class::Copy);
    l.shown.insert(mask, value);
    Ok(value)
}

/// The positions of the past that every row sees, where these are the first ones and row `r` sees of the chunk `0..=r`.
fn causal(mask: &[u8], rows: usize, capacity: usize) -> Option<usize> {
    let width = capacity + rows;
    let first = mask.get(..capacity)?;
    let past = first.iter().take_while(|&&seen| seen != 0).count();
    if first[past..].iter().any(|&seen| seen != 0) {
        return None;
    }
    let fits = mask
        .chunks_exact(width)
        .take(rows)
        .enumerate()
        .all(|(index, row)| {
            let (before, chunk) = row.split_at(capacity);
            before == first
                && chunk[..=index].iter().all(|&seen| seen != 0)
                && chunk[index + 1..].iter().all(|&seen| seen == 0)
        });
    fits.then_some(past)
}

/// Attention under any mask, in plain loops; a row that sees nothing gives zeros.
fn masked(
    shape: Shape,
    [q, k, v]: [&[f32]; 3],
    [past_k, past_v]: [Cache<'_>; 2],
    mask: &[u8],
    out: &mut [f32],
    scores: &mut [f32],
) {
    let Shape {
        heads,
        kv_heads,
        size,
        rows,
        capacity,
        scale,
    } = shape;
    let total = capacity + rows;
    // value `i` of a position of the past, then of the chunk
    let at = |new: &[f32], past: Cache<'_>, head: usize, position: usize, i: usize| {
        let stored = (head * capacity + position) * size + i;
        match (past, position.checked_sub(capacity)) {
            (Cache::F32(past), None) => past[stored],
            (Cache::F16(past), None) => past[stored].to_f32(),
            (Cache::F32(_), Some(row)) => new[(row * kv_heads + head) * size + i],
            (Cache::F16(_), Some(row)) => f16::from_f32(new[(row * kv_heads + head) * size + i]).to_f32(),
        }
    };
    for row in 0..rows {
        let seen = &mask[row * total..][..total];
        for head in 0..heads {
            let (shared, place) = (head / (heads / kv_heads), (row * heads + head) * size);
            let mut top = f32::NEG_INFINITY;
            for position in (0..total).filter(|&position| seen[position] != 0) {
                let dot: f32 = (0..size)
                    .map(|i| q[place + i] * at(k, past_k, shared, position, i))
                    .sum();
                scores[position] = dot * scale;
                top = if dot.is_nan() {
                    f32::NAN
                } else {
                    top.max(scores[position])
                };
            }
            let (mut sum, result) = (0.0, &mut out[place..place + size]);
            result.fill(0.0);
            for position in (0..total).filter(|&position| seen[position] != 0) {
                let weight = (scores[position] - top).exp();
                sum += weight;
                for (i, y) in result.iter_mut().enumerate() {
                    *y += weight * at(v, past_v, shared, position, i);
                }
            }
            if sum != 0.0 {
                result.iter_mut().for_each(|y| *y /= sum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_loops_match_the_kernel_and_respect_the_mask() {
        let (heads, size, rows, capacity) = (2, 4, 2, 3);
        let shape = Shape {
            heads,
            kv_heads: 1,
            size,
            rows,
            capacity,
            scale: 0.5,
        };
        let draw = |count: usize, by: usize| -> Vec<f32> {
            (0..count)
                .map(|i| ((i * by + 3) % 17) as f32 / 8.0 - 1.0)
                .collect()
        };
        let (q, k, v) = (
            draw(rows * heads * size, 7),
            draw(rows * size, 5),
            draw(rows * size, 11),
        );
        let half = |x: &[f32]| -> Vec<f16> { x.iter().copied().map(f16::from_f32).collect() };
        let (past_k, past_v) = (half(&draw(capacity * size, 3)), half(&draw(capacity * size, 13)));
        let pool = polychip_cpu_kernels::ThreadPool::new(1);
        let kernel = |past_k: &[f16], past_v: &[f16], past: usize| {
            let plan =
                CachedAttentionPlan::new(polychip_cpu_kernels::Isa::SCALAR, heads, 1, size, rows, capacity);
            let plan = plan.unwrap().with_scale(shape.scale);
            let (mut out, mut scratch) = (vec![0.0; q.len()], vec![0.0; plan.scratch_len(&pool)]);
            plan.run(&pool, &q, &k, &v, past_k, past_v, past, &mut out, &mut scratch);
            out
        };
        let plain = |mask: [u8; 10], pasts: [Cache<'_>; 2]| {
            let (mut out, mut scores) = (vec![f32::NAN; q.len()], vec![f32::NAN; capacity + rows]);
            masked(shape, [&q, &k, &v], pasts, &mask, &mut out, &mut scores);
            out
        };
        let near =
            |a: &[f32], b: &[f32]| assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5), "{a:?} {b:?}");
        let pasts = || [Cache::F16(&past_k), Cache::F16(&past_v)];
        near(
            &plain([1, 1, 0, 1, 0, 1, 1, 0, 1, 1], pasts()),
            &kernel(&past_k, &past_v, 2),
        );
        // without its first position, the past is what follows it
        let behind =
            |past: &[f16]| -> Vec<f16> { past[size..].iter().chain(&past[..size]).copied().collect() };
        let shifted = kernel(&behind(&past_k), &behind(&past_v), 1);
        near(&plain([0, 1, 0, 1, 0, 0, 1, 0, 1, 1], pasts()), &shifted);
        // a row that sees nothing
        let out = plain([0, 0, 0, 0, 0, 0, 1, 0, 1, 1], pasts());
        assert_eq!(out[..heads * size], [0.0; 8]);
        near(&out[heads * size..], &shifted[heads * size..]);
    }

    #[test]
    fn mask_gives_the_visible_past() {
        // two rows, three positions before them
        let mask = |text: &str| text.bytes().map(|byte| byte - b'0').collect::<Vec<u8>>();
        assert_eq!(causal(&mask("1101011011"), 2, 3), Some(2));
        assert_eq!(causal(&mask("0001000011"), 2, 3), Some(0));
        assert_eq!(causal(&mask("1111011111"), 2, 3), Some(3));
        // a gap, a later row that sees more, a row that sees the next one, one that does not see itself
        assert_eq!(causal(&mask("1011010111"), 2, 3), None);
        assert_eq!(causal(&mask("1001011011"), 2, 3), None);
        assert_eq!(causal(&mask("1101111011"), 2, 3), None);
        assert_eq!(causal(&mask("1100011011"), 2, 3), None);
    }
}

//! Matrix products: batched, with constant or computed operands, everything behind them in the epilogue.

use polychip_gpu_kernels::{
    BatchAxis, Binary, Broadcast, ExpandBlocks, Gemm, GemmInt8, GemmTile, Quants, Right, Scalar, pack_b,
};
use polychip_lowering::{Layout, Node, Outcome, Refusal, Storage, TensorIndex};
use polychip_ops::{Op, broadcast};
use polychip_sdk::EncodingKind;

use super::builder::{Lowering, of_kernel};
use super::epilogue::{self, EpilogueBuilder, Sheet};
use super::launch_split::SplitExtent;
use super::product::{factors, packed_blocks, summand};
use super::values::quants_of;
use super::values::{ValueId, float_bytes, is_float, scalar_of};
use super::{column_split, encoding, few_rows};

/// Whether a node is an anchor of this family.
pub(super) fn takes_epilogues(l: &Lowering<'_>, node: &Node) -> bool {
    let real = |i| node.input(i).is_some_and(|t| is_float(l.part.real(t)));
    // the last axis of a product with a vector is its rows, which what stands behind would take for columns
    let is_matrix = |t: Option<TensorIndex>, least| {
        t.and_then(|t| l.part.dims(t))
            .is_some_and(|dims| dims.len() >= least)
    };
    real(0) && real(1) && is_matrix(node.input(1), 2) && is_matrix(node.output(0), 1)
}

/// Whether a tensor can be read by the end of a product.
pub(super) fn admits(l: &Lowering<'_>, tensor: TensorIndex, dims: &[usize], out: &[usize]) -> bool {
    epilogue::admits(l, tensor, Sheet::Matrix, dims, out)
}

/// Lowers a product alone.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Outcome<bool> {
    match node.output(0) {
        Some(output) => fused(l, node, &[], output),
        None => Ok(false),
    }
}

/// A tile that stands until one is chosen.
const FIRST: GemmTile = GemmTile::Sliced {
    across: 4,
    down: 4,
    rows: 1,
    slices: 1,
};

/// Rows from which on weights are unpacked before a product: tiles are 64 to 128 rows high.
const EXPANDED: u32 = 128;

/// Sizes of a product.
struct Shape {
    batch: Vec<BatchAxis>,
    m: u32,
    n: u32,
    k: u32,
    transposed_a: bool,
    transposed_b: bool,
    /// Matrices that b has.
    own_b: usize,
}

fn small(size: usize) -> Outcome<u32> {
    u32::try_from(size).map_err(|_| Refusal::shape(format!("an extent of {size}")))
}

impl Shape {
    fn of(l: &Lowering<'_>, node: &Node, a: TensorIndex, b: TensorIndex, y: TensorIndex) -> Outcome<Shape> {
        let (mut a, mut b, out) = (l.dims(a)?.to_vec(), l.dims(b)?.to_vec(), l.dims(y)?);
        if a.is_empty() || b.is_empty() || a.contains(&0) || b.contains(&0) {
            return Err(Refusal::shape(format!(
                "a product of {a:?} and {b:?} is not offered"
            )));
        }
        // vectors are matrices of one row or column
        if a.len() == 1 {
            a.insert(0, 1);
        }
        if b.len() == 1 {
            b.push(1);
        }
        let gemm = factors(node)?;
        let (transposed_a, transposed_b) = (gemm.trans_a, gemm.trans_b);
        let pick = |dims: &[usize], transposed: bool| {
            let [rows, columns] = [dims[dims.len() - 2], dims[dims.len() - 1]];
            if transposed {
                [columns, rows]
            } else {
                [rows, columns]
            }
        };
        let ([mut m, k], [b_k, n]) = (pick(&a, transposed_a), pick(&b, transposed_b));
        let (a_batch, b_batch) = (&a[..a.len() - 2], &b[..b.len() - 2]);
        let whole = broadcast::shapes(&[a_batch, b_batch])
            .filter(|_| k == b_k)
            .ok_or_else(|| Refusal::shape(format!("no product of {a:?} and {b:?}")))?;
        let elements = whole.iter().product::<usize>() * m * n;
        if elements != out.iter().product::<usize>() {
            return Err(Refusal::shape(format!(
                "a product of {a:?} and {b:?} does not give {out:?}"
            )));
        }
        let own_b: usize = b_batch.iter().product();
        let mut batch = Vec::new();
        if own_b == 1 && !transposed_a && a_batch.iter().product::<usize>() == whole.iter().product::<usize>()
        {
            m *= whole.iter().product::<usize>();
        } else {
            for (i, &count) in whole.iter().enumerate() {
                let has = |own: &[usize]| {
                    let first = whole.len() - own.len();
                    i >= first && own[i - first] == count
                };
                if count != 1 {
                    batch.push(BatchAxis {
                        count: small(count)?,
                        a: has(a_batch),
                        b: has(b_batch),
                    });
                }
            }
        }
        Ok(Shape {
            batch,
            m: small(m)?,
            n: small(n)?,
            k: small(k)?,
            transposed_a,
            transposed_b,
            own_b,
        })
    }
}

/// Lowers a product with the nodes behind it.
pub(super) fn fused(
    l: &mut Lowering<'_>,
    node: &Node,
    members: &[usize],
    output: TensorIndex,
) -> Outcome<bool> {
    if !matches!(node.op, Op::MatMul | Op::Gemm) {
        return Ok(false);
    }
    let (Some(a), Some(b), Some(y)) = (node.input(0), node.input(1), node.output(0)) else {
        return Err(Refusal::op("a product without operands"));
    };
    for tensor in [a, b, y] {
        let real = l.part.real(tensor);
        if !is_float(real) {
            return Err(Refusal::dtype(format!(
                "a product of {} is not offered",
                real.name()
            )));
        }
    }
    let mut shape = Shape::of(l, node, a, b, y)?;
    if integers(l, &shape, node, (a, b, y), members, output)?
        || quantised(l, &shape, node, (a, b, y), members, output)?
    {
        return Ok(true);
    }
    let scalar = l.scalar(a)?;
    let constant = l.part.is_constant(b);
    let left = l.rows(a)?;
    let right = match transposed_right(l, node, b) {
        Some(value) => {
            shape.transposed_b = true;
            Some(value)
        }
        None if constant => None,
        None => Some(l.rows(b)?),
    };
    let mut end = EpilogueBuilder::new();
    summand(l, &mut end, node, y)?;
    let sheet = Sheet::Matrix;
    let (epilogue, operands, target) = end.finish(l, members, y, output, sheet)?;
    let gemm = Gemm {
        batch: shape.batch,
        m: shape.m,
        n: shape.n,
        k: shape.k,
        transposed_a: shape.transposed_a,
        b: match (constant, shape.transposed_b) {
            (true, _) => Right::Packed,
            (false, true) => Right::Transposed,
            (false, false) => Right::Plain,
        },
        scalar,
        epilogue,
        tile: FIRST,
    };
    let mut ends = operands;
    ends.push(target);
    if let Some(right) = right {
        columns_of(l, &gemm, left, |_, _| Ok(right), &ends)?;
        return Ok(true);
    }
    let (own, k) = (shape.own_b, shape.k as usize);
    let four = (own as u64)
        .saturating_mul(k as u64)
        .saturating_mul(4 * scalar.bytes());
    let ranges = column_split::cut(&l.target.limits, gemm.n, four);
    let mut weights = Vec::new();
    if !l.dry {
        weights = l.part.tensors[b].reals()?;
    }
    for range in ranges {
        let some = Gemm {
            n: range.count(),
            epilogue: range.epilogue(&gemm.epilogue),
            ..gemm.clone()
        };
        let n = range.count() as usize;
        let pack = |l: &mut Lowering<'_>, bytes| {
            l.packed(bytes, || {
                let values = range.of(&weights, if shape.transposed_b { k } else { 1 });
                let values = float_bytes(Scalar::F32, &values);
                pack_b(&values, Scalar::F32, scalar, own, k, n, shape.transposed_b).map_err(of_kernel)
            })
        };
        columns_of(l, &some, left, pack, &ends)?;
    }
    Ok(true)
}

/// Lowers a product with constant weights in blocks, which are read as they lie; `false` where the weights are not such.
fn quantised(
    l: &mut Lowering<'_>,
    shape: &Shape,
    node: &Node,
    (a, b, y): (TensorIndex, TensorIndex, TensorIndex),
    members: &[usize],
    output: TensorIndex,
) -> Outcome<bool> {
    let part = l.part;
    let Some(quants) = quants_of(part, b) else {
        return Ok(false);
    };
    if !part.is_constant(b) || !shape.transposed_b || shape.own_b != 1 || shape.transposed_a {
        return Ok(false);
    }
    if shape.batch.is_empty() {
        let few = few_rows::FewRows {
            node,
            a,
            b,
            y,
            quants,
            sizes: [shape.m, shape.n, shape.k],
        };
        if few_rows::lower(l, &few, members, output)? {
            return Ok(true);
        }
    }
    let row = quants.bytes(shape.k.into());
    let (scalar, left) = (l.scalar(a)?, l.rows(a)?);
    let mut end = EpilogueBuilder::new();
    summand(l, &mut end, node, y)?;
    let (epilogue, mut ends, target) = end.finish(l, members, y, output, Sheet::Matrix)?;
    ends.push(target);
    for range in column_split::cut(&l.target.limits, shape.n, row.saturating_mul(4)) {
        let gemm = Gemm {
            batch: shape.batch.clone(),
            m: shape.m,
            n: range.count(),
            k: shape.k,
            transposed_a: false,
            b: Right::Quantised(quants),
            scalar,
            epilogue: range.epilogue(&epilogue),
            tile: FIRST,
        };
        let mark = l.mark();
        match expanded(l, &gemm, quants, (left, b), &range, &ends) {
            Ok(true) => continue,
            Ok(false) => {}
            Err(_) => l.back_to(mark),
        }
        let pack = |l: &mut Lowering<'_>, bytes| packed_blocks(l, b, &range, shape.k, bytes);
        columns_of(l, &gemm, left, pack, &ends)?;
    }
    Ok(true)
}

/// Lowers a product of many rows over weights that are unpacked once before it, not by each tile of the output; `false`
/// where that does not pay or does not fit.
fn expanded(
    l: &mut Lowering<'_>,
    gemm: &Gemm,
    quants: Quants,
    (left, b): (ValueId, TensorIndex),
    range: &column_split::ColumnRange,
    ends: &[ValueId],
) -> Outcome<bool> {
    let (n, k) = (gemm.n, gemm.k);
    let plain = Gemm {
        b: Right::Transposed,
        ..gemm.clone()
    };
    let expand = ExpandBlocks {
        n,
        k,
        quants,
        output: gemm.scalar,
    };
    let bytes = u64::from(n) * u64::from(k) * gemm.scalar.bytes();
    let pays = l.target.discrete && gemm.batch.is_empty() && gemm.m >= EXPANDED;
    if !pays || bytes > l.target.limits.binding_bytes || plain.candidates(&l.target.limits).is_empty() {
        return Ok(false);
    }
    let Ok(kernel) = l.kernel(&expand) else {
        return Ok(false);
    };
    let blocks = packed_blocks(l, b, range, k, kernel.bindings[0].bytes)?;
    let weights = l.fresh(gemm.scalar, &[n as usize, k as usize])?;
    l.launch_kernel(kernel, &[blocks, weights])?;
    columns_of(l, &plain, left, |_, _| Ok(weights), ends)?;
    Ok(true)
}

/// Launches a product that gives some columns, or all, of the output. `right` gives the value of the right side, of
/// which the kernel touches so many bytes.
fn columns_of(
    l: &mut Lowering<'_>,
    gemm: &Gemm,
    left: ValueId,
    right: impl FnOnce(&mut Lowering<'_>, u64) -> Outcome<ValueId>,
    ends: &[ValueId],
) -> Outcome<()> {
    let tiles = gemm.candidates(&l.target.limits);
    let (_, kernel) = l.first(gemm.clone(), tiles.into_iter().map(|tile| gemm.with(tile)))?;
    let right = right(l, kernel.bindings[1].bytes)?;
    let whole = SplitExtent {
        units: gemm.m,
        rows: 1,
        columns: gemm.epilogue.columns.map_or(gemm.n, |columns| columns.all).into(),
    };
    let whole_rows = gemm.batch.is_empty() && !gemm.transposed_a;
    if let Some(launches) = l
        .split_launch(gemm.scalar, kernel.work, whole)
        .filter(|_| whole_rows)
    {
        let mark = l.mark();
        if launch_by_rows(l, gemm, (left, right), ends, whole, &launches).is_ok() {
            return Ok(());
        }
        l.back_to(mark);
    }
    let mut values = vec![left, right];
    values.extend(ends);
    l.launch_kernel(kernel, &values)
}

/// Launches a product, split into some rows each.
fn launch_by_rows(
    l: &mut Lowering<'_>,
    gemm: &Gemm,
    (left, right): (ValueId, ValueId),
    ends: &[ValueId],
    whole: SplitExtent,
    launches: &[u32],
) -> Outcome<()> {
    let none = || Refusal::shape("rows that do not start where a binding can");
    let bytes = u64::from(gemm.k) * gemm.scalar.bytes();
    let mut first = 0;
    for &rows in launches {
        let part = Gemm {
            m: rows,
            ..gemm.clone()
        };
        let tiles = part.candidates(&l.target.limits);
        let (_, kernel) = l.first(part.clone(), tiles.into_iter().map(|tile| part.with(tile)))?;
        let own = l
            .subview(left, u64::from(first) * bytes, u64::from(rows) * bytes)
            .ok_or_else(none)?;
        let mut values = vec![own, right];
        let own = l.epilogue_subviews(whole, (first, rows), &gemm.epilogue.operands, ends);
        values.extend(own.ok_or_else(none)?);
        l.launch_kernel(kernel, &values)?;
        first += rows;
    }
    Ok(())
}

/// A right side whose last two axes were exchanged, as it lay before.
fn transposed_right(l: &Lowering<'_>, node: &Node, b: TensorIndex) -> Option<ValueId> {
    let rank = l.part.dims(b)?.len();
    let permuted = l.forms[b].permuted?;
    let exists = l.forms[b].get(Layout::RowMajor, Storage::Real).is_some();
    let mut order: Vec<usize> = (0..rank).collect();
    order.get_mut(rank.checked_sub(2)?..)?.swap(0, 1);
    (!exists && node.op == Op::MatMul && permuted.order(rank) == order).then_some(permuted.value)
}

/// Lowers a product of bytes; `false` where the tensors' encodings are not of its sort.
fn integers(
    l: &mut Lowering<'_>,
    shape: &Shape,
    node: &Node,
    (a, b, y): (TensorIndex, TensorIndex, TensorIndex),
    members: &[usize],
    output: TensorIndex,
) -> Outcome<bool> {
    let Some((scale, zero)) = encoding::single(l, a) else {
        return Ok(false);
    };
    let part = l.part;
    let (kind, right) = (l.stored_scalar(a)?, &part.tensors[b]);
    let is_byte = |scalar| matches!(scalar, Some(Scalar::I8 | Scalar::U8));
    let right_kind = scalar_of(right.dtype);
    if !is_byte(Some(kind))
        || !is_byte(right_kind)
        || shape.transposed_a
        || shape.own_b != 1
        || part.is_constant(a)
        || !part.is_constant(b)
    {
        return Ok(false);
    }
    let Some(encoding) = &right.encoding else {
        return Ok(false);
    };
    let columns = if shape.transposed_b {
        0
    } else {
        l.dims(b)?.len() - 1
    };
    let n = shape.n as usize;
    let scales: Vec<f32> = match encoding.kind {
        EncodingKind::PerTensor => encoding.scales.iter().map(|weight| weight * scale).collect(),
        EncodingKind::PerAxis { axis } if axis == columns && encoding.scales.len() == n => {
            encoding.scales.iter().map(|weight| weight * scale).collect()
        }
        _ => return Ok(false),
    };
    let mark = l.mark();
    let done = (|| -> Outcome<()> {
        let left = l.get(a, Layout::RowMajor, Storage::Stored)?;
        let mut end = EpilogueBuilder::new();
        if let [one] = scales[..] {
            end.change(|sum| sum.with(Binary::Mul, one));
        } else {
            let factors = l.constant(Scalar::F32, &[n], || Ok(float_bytes(Scalar::F32, &scales)))?;
            let factor = end.operand(l, factors, Broadcast::Column);
            end.change(|sum| sum.binary(Binary::Mul, factor));
        }
        summand(l, &mut end, node, y)?;
        let (epilogue, operands, target) = end.finish(l, members, y, output, Sheet::Matrix)?;
        // words of four along k, a row of corrections and one of zero points
        let four = 16 * (u64::from(shape.k.div_ceil(4)) + 2);
        for range in column_split::cut(&l.target.limits, shape.n, four) {
            let gemm = GemmInt8 {
                batch: shape.batch.clone(),
                m: shape.m,
                n: range.count(),
                k: shape.k,
                a: kind,
                a_zero: zero,
                b: right_kind.unwrap_or(Scalar::I8),
                b_zeros: match &encoding.zero_points[..] {
                    each if each.len() == n => range.of(each, 1).into_owned(),
                    few => few.to_vec(),
                },
                epilogue: range.epilogue(&epilogue),
                tile: FIRST,
            };
            let tiles = gemm.candidates(&l.target.limits);
            let ways = tiles.into_iter().map(|tile| gemm.with(tile));
            let (gemm, kernel) = l.first(gemm.clone(), ways)?;
            let packed = l.packed(kernel.bindings[1].bytes, || {
                let bytes = part.tensors[b].bytes().unwrap_or_default();
                let bytes = range.of(&bytes, if shape.transposed_b { shape.k as usize } else { 1 });
                gemm.pack_b(&bytes, shape.transposed_b).map_err(of_kernel)
            })?;
            let mut values = vec![left, packed];
            values.extend(&operands);
            values.push(target);
            l.launch_kernel(kernel, &values)?;
        }
        Ok(())
    })();
    if done.is_err() {
        l.back_to(mark);
    }
    Ok(done.is_ok())
}

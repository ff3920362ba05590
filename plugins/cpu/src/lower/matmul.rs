//! Matrix products: Gemm and MatMul, with a constant right operand packed once or with two computed ones.

use half::{bf16, f16};
use polychip_cpu_kernels::gemm::{
    Elements, GemmPlan, MAX_BATCH_DIMS, MatMulParams, MatMulPlan, Matrix, Strides,
};
use polychip_cpu_kernels::{Binary, Error as KernelError, Unary};
use polychip_lowering::Layout;
use polychip_ops::operator::Gemm;
use polychip_ops::{DType, Op, broadcast};
use polychip_sdk::{Constant, Error, Result};

use super::builder::{Lowering, kernel_error, shape_error, storage_of};
use super::encoding::stands_for_f32;
use super::epilogue::{FusedEpilogue, IDENTITY, spread};
use super::steps;
use crate::part::{Node, Part, Tensor};
use crate::step::ValueId;
use crate::weights::Recipe;
use crate::work::Class;

fn f32s(part: &Part, node: &Node) -> bool {
    node.inputs
        .iter()
        .chain(&node.outputs)
        .flatten()
        .all(|&t| stands_for_f32(part, t) && part.dims(t).is_some())
}

/// Whether a node is a product with a constant right operand, and a constant bias or none.
pub(super) fn covers_constant(part: &Part, node: &Node) -> bool {
    let covered = || -> Option<bool> {
        let (a, b, y) = (node.input(0)?, node.input(1)?, node.output(0)?);
        let constant = |t: usize| part.tensors[t].is_constant();
        let (a_dims, b_dims, out) = (part.dims(a)?, part.dims(b)?, part.dims(y)?);
        Some(
            f32s(part, node)
                && constant(b)
                && match node.op {
                    Op::MatMul => b_dims.len() == 2 && a_dims.len() >= 2,
                    Op::Gemm => {
                        let n = *out.last()?;
                        a_dims.len() == 2
                            && b_dims.len() == 2
                            && node.input(2).is_none_or(|c| {
                                constant(c)
                                    && part.dims(c).is_some_and(|c| {
                                        let size: usize = c.iter().product();
                                        size == 1 || (size == n && c.last() == Some(&n))
                                    })
                            })
                    }
                    _ => false,
                },
        )
    };
    covered().unwrap_or(false)
}

/// Whether these kernels cover a node.
pub(super) fn covers(part: &Part, node: &Node) -> bool {
    covers_constant(part, node) || covers_computed(part, node)
}

fn covers_computed(part: &Part, node: &Node) -> bool {
    let covered = || -> Option<bool> {
        let (a, b, _) = (node.input(0)?, node.input(1)?, node.output(0)?);
        let (a, b) = (part.dims(a)?, part.dims(b)?);
        Some(
            f32s(part, node)
                && match node.op {
                    Op::MatMul => !a.is_empty() && !b.is_empty() && a.len() <= 6 && b.len() <= 6,
                    Op::Gemm => a.len() == 2 && b.len() == 2,
                    _ => false,
                },
        )
    };
    covered().unwrap_or(false)
}

/// Multiplications below which a product takes a microsecond at most in f32: bf16 would cost bits for nothing.
const WORTH_BF16: usize = 1 << 16;

/// Whether a product that these kernels cover is one of bf16 where precision may be reduced.
pub(super) fn worth_bf16(part: &Part, node: &Node) -> bool {
    let dims = |t: Option<usize>| part.dims(t?);
    let (Some(a), Some(y)) = (dims(node.input(0)), dims(node.output(0))) else {
        return false;
    };
    let depth = if factors(node).is_ok_and(|gemm| gemm.trans_a) {
        a.first()
    } else {
        a.last()
    };
    let results: usize = y.iter().product();
    results.saturating_mul(depth.copied().unwrap_or(0)) >= WORTH_BF16
}

/// Lowers a product with its epilogue.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node, fused: &FusedEpilogue) -> Result<bool> {
    if covers_constant(l.part, node) {
        constant(l, node, fused)?;
    } else if covers_computed(l.part, node) {
        computed(l, node, fused)?;
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// Factors and orders of a product.
fn factors(node: &Node) -> Result<Gemm> {
    let operator = node.operator().map_err(shape_error)?;
    operator.product().ok_or_else(missing)
}

fn missing() -> Error {
    Error::bad_argument("a matrix product without operands")
}

fn constant(l: &mut Lowering<'_>, node: &Node, fused: &FusedEpilogue) -> Result<()> {
    let (a, b) = (
        node.input(0).ok_or_else(missing)?,
        node.input(1).ok_or_else(missing)?,
    );
    let y = node.output(0).ok_or_else(missing)?;
    let (a_dims, b_dims, out) = (l.shape(a)?, l.shape(b)?, l.shape(y)?);
    let gemm = factors(node)?;
    let (trans_a, trans_b) = (gemm.trans_a, gemm.trans_b);
    let (k, n) = if trans_b {
        (b_dims[1], b_dims[0])
    } else {
        (b_dims[0], b_dims[1])
    };
    let (m, a_k) = if trans_a {
        (a_dims[1], a_dims[0])
    } else {
        (
            a_dims[..a_dims.len() - 1].iter().product(),
            a_dims[a_dims.len() - 1],
        )
    };
    if a_k != k || out.iter().product::<usize>() != m * n {
        return Err(Error::bad_argument(format!(
            "a product of {a_dims:?} and {b_dims:?} does not give {out:?}"
        )));
    }
    let target = fused.output.unwrap_or(y);
    let elements = match fused.residual {
        _ if trans_a || !worth_bf16(l.part, node) => Elements::F32,
        Some(residual) => l.elements(&[a, y, target, residual]),
        None => l.elements(&[a, y, target]),
    };
    if elements == Elements::F32 && super::half::lower(l, node, fused, (m, k, n))? {
        return Ok(());
    }
    let storage = storage_of(elements);
    let plan = GemmPlan::of(elements, l.isa, k, n).map_err(kernel_error)?;
    let (alpha, beta) = (gemm.alpha, gemm.beta);
    let weights = l.source(b)?;
    let (own, behind) = (node.input(2), fused.bias);
    let bias = own.or(behind).map(|c| l.source(c)).transpose()?;
    let beta = if own.is_some() { beta } else { 1.0 };
    let packer = plan.clone();
    let recipe = Recipe::new("gemm")
        .by((elements, l.isa.code(), k, n, alpha, beta, trans_b))
        .of(&weights)
        .of_any(bias.as_ref());
    let isa = l.isa;
    let pack = move |target: &mut [f32]| {
        let bias = bias.as_ref().map(|bias| spread(bias, n, beta)).transpose()?;
        if trans_b && let Some(constant) = floats(&weights, k * n) {
            let of = |columns| GemmPlan::of(elements, isa, k, columns);
            return pack_columns(of, (k, alpha), (weights.dtype, constant), bias.as_deref(), target);
        }
        let mut values = weights.reals()?;
        if alpha != 1.0 {
            values.iter_mut().for_each(|value| *value *= alpha);
        }
        let b = if trans_b {
            Matrix::columns(&values, k)
        } else {
            Matrix::rows(&values, n)
        };
        packer.pack(b, bias.as_deref(), target);
        Ok(())
    };
    let packed = match elements {
        Elements::F32 => l.packed_floats(vec![plan.packed_len()], recipe, pack)?,
        Elements::Bf16 => l.packed(vec![plan.packed_len()], recipe, pack)?,
    };
    let input = l.read(a, Layout::RowMajor, storage)?;
    let mut reads = vec![input, packed];
    if let Some(residual) = fused.residual {
        reads.push(l.read(residual, Layout::RowMajor, storage)?);
    }
    let output = l.write_f32_or(storage, target, Layout::RowMajor)?;
    let scratch = l.scratch(plan.scratch_len(m, l.pool))?;
    let epilogue = fused.epilogue();
    let has_residual = fused.residual.is_some();
    // a tile of few rows waits for its operands as long as one of four
    let products = m.max(4).saturating_mul(plan.multiply_adds_per_row());
    l.step(
        "gemm",
        &reads,
        &[output],
        scratch,
        Box::new(move |o| {
            let a = o.slice(0);
            let a = if trans_a {
                Matrix::columns(a, m)
            } else {
                Matrix::rows(a, k)
            };
            let residual = has_residual.then(|| Matrix::rows(o.slice(2), n));
            let (c, scratch) = (o.slice_mut(0), o.scratch(1));
            plan.run(o.pool, m, a, o.read(1), residual, epilogue, c, n, scratch);
            Ok(())
        }),
    )
    .does(class_of(elements), products);
    Ok(())
}

/// A constant of so many floats, not none, as they lie.
fn floats(weights: &Tensor, count: usize) -> Option<&Constant> {
    let plain = weights.encoding.is_none() && !weights.packed;
    let width = match weights.dtype {
        DType::F32 => 4,
        DType::F16 | DType::BF16 => 2,
        _ => return None,
    };
    let bytes = |constant: &&Constant| count > 0 && Some(constant.bytes().len()) == count.checked_mul(width);
    weights.constant.as_ref().filter(|_| plain).filter(bytes)
}

/// Columns that are whole panels of every instruction set.
const PANELS: usize = 64;

/// Packs columns piece by piece as they are read from the file, so that there is no copy of all: panels of some columns lie
/// as those of a product with these alone.
fn pack_columns(
    of: impl Fn(usize) -> Result<GemmPlan, KernelError>,
    (depth, alpha): (usize, f32),
    (dtype, weights): (DType, &Constant),
    bias: Option<&[f32]>,
    target: &mut [f32],
) -> Result<()> {
    let width = if dtype == DType::F32 { 4 } else { 2 };
    let line = depth * width;
    let columns = (Constant::BLOCK / (PANELS * line)).max(1) * PANELS;
    let (mut rest, mut column, mut done) = (target, 0, Ok(()));
    let mut values = Vec::new();
    weights.pieces(columns * line, |piece| {
        let count = piece.len() / line;
        let plan = match of(count) {
            Ok(plan) => plan,
            Err(error) => {
                done = Err(kernel_error(error));
                return;
            }
        };
        values.clear();
        values.extend(piece.chunks_exact(width).map(|value| {
            let real = match (dtype, value) {
                (DType::F16, &[low, high]) => f16::from_le_bytes([low, high]).to_f32(),
                (DType::BF16, &[low, high]) => bf16::from_le_bytes([low, high]).to_f32(),
                (_, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
                _ => unreachable!("invariant: values are as wide as their type"),
            };
            real * alpha
        }));
        let (to, behind) = std::mem::take(&mut rest).split_at_mut(plan.packed_len());
        let bias = bias.map(|bias| &bias[column..column + count]);
        plan.pack(Matrix::columns(&values, depth), bias, to);
        (rest, column) = (behind, column + count);
    });
    done
}

/// Batch strides of an operand, aligned to the result's batch dimensions.
fn batch(dims: &[usize], result: &[usize]) -> Result<[usize; MAX_BATCH_DIMS]> {
    let own = &dims[..dims.len() - 2];
    let matrix = dims[dims.len() - 2] * dims[dims.len() - 1];
    let strides = broadcast::strides(own, result)
        .ok_or_else(|| Error::bad_argument(format!("batch {own:?} does not broadcast to {result:?}")))?;
    let mut all = [0; MAX_BATCH_DIMS];
    let first = MAX_BATCH_DIMS - strides.len();
    for (target, stride) in all[first..].iter_mut().zip(strides) {
        *target = stride * matrix;
    }
    Ok(all)
}

/// The product of two computed operands of MatMul, and the extents of its batch; none where they do not fit.
pub(super) fn of_matrices(a: &[usize], b: &[usize]) -> Option<(MatMulParams, Vec<usize>)> {
    let (mut a_dims, mut b_dims) = (a.to_vec(), b.to_vec());
    if a_dims.len() == 1 {
        a_dims.insert(0, 1);
    }
    if b_dims.len() == 1 {
        b_dims.push(1);
    }
    let (&[ref a_batch @ .., m, k], &[ref b_batch @ .., b_k, n]) = (&a_dims[..], &b_dims[..]) else {
        return None;
    };
    let whole = broadcast::shapes(&[a_batch, b_batch]).filter(|whole| whole.len() <= MAX_BATCH_DIMS)?;
    if k != b_k {
        return None;
    }
    let mut sizes = [1; MAX_BATCH_DIMS];
    sizes[MAX_BATCH_DIMS - whole.len()..].copy_from_slice(&whole);
    let mut c_batch = [0; MAX_BATCH_DIMS];
    let mut stride = m * n;
    for i in (0..MAX_BATCH_DIMS).rev() {
        c_batch[i] = stride;
        stride *= sizes[i];
    }
    let strides = |batch, row: usize| Strides {
        batch,
        row,
        column: 1,
    };
    let params = MatMulParams {
        batch: sizes,
        m,
        k,
        n,
        a: strides(batch(&a_dims, &whole).ok()?, k),
        b: strides(batch(&b_dims, &whole).ok()?, n),
        c: strides(c_batch, n),
        alpha: 1.0,
        activation: IDENTITY,
    };
    Some((params, whole))
}

fn computed(l: &mut Lowering<'_>, node: &Node, fused: &FusedEpilogue) -> Result<()> {
    let (a, b) = (
        node.input(0).ok_or_else(missing)?,
        node.input(1).ok_or_else(missing)?,
    );
    let y = node.output(0).ok_or_else(missing)?;
    let (a_dims, b_dims) = (l.shape(a)?, l.shape(b)?);
    // vectors are matrices of one row or column
    let mut a_dims = a_dims.to_vec();
    let mut b_dims = b_dims.to_vec();
    if a_dims.len() == 1 {
        a_dims.insert(0, 1);
    }
    if b_dims.len() == 1 {
        b_dims.push(1);
    }
    let (a_rank, b_rank) = (a_dims.len(), b_dims.len());
    let gemm = factors(node)?;
    let (trans_a, trans_b) = (gemm.trans_a, gemm.trans_b);
    let (a_columns, b_columns) = (a_dims[a_rank - 1], b_dims[b_rank - 1]);
    let pick = |dims: &[usize], transposed: bool| {
        let [rows, columns] = [dims[dims.len() - 2], dims[dims.len() - 1]];
        if transposed {
            [columns, rows]
        } else {
            [rows, columns]
        }
    };
    let ([m, k], [b_k, n]) = (pick(&a_dims, trans_a), pick(&b_dims, trans_b));
    let whole = broadcast::shapes(&[&a_dims[..a_rank - 2], &b_dims[..b_rank - 2]]);
    let (true, Some(whole)) = (k == b_k, whole) else {
        return Err(Error::bad_argument(format!(
            "no product of {a_dims:?} and {b_dims:?}"
        )));
    };
    let mut sizes = [1; MAX_BATCH_DIMS];
    sizes[MAX_BATCH_DIMS - whole.len()..].copy_from_slice(&whole);
    let mut c_batch = [0; MAX_BATCH_DIMS];
    let mut stride = m * n;
    for i in (0..MAX_BATCH_DIMS).rev() {
        c_batch[i] = stride;
        stride *= sizes[i];
    }
    let strides = |batch, columns: usize, transposed: bool| Strides {
        batch,
        row: if transposed { 1 } else { columns },
        column: if transposed { columns } else { 1 },
    };
    let params = MatMulParams {
        batch: sizes,
        m,
        k,
        n,
        a: strides(batch(&a_dims, &whole)?, a_columns, trans_a),
        b: strides(batch(&b_dims, &whole)?, b_columns, trans_b),
        c: strides(c_batch, n, false),
        alpha: gemm.alpha * fused.alpha,
        activation: fused.activation,
    };
    // a Gemm's C is added behind the product, so its activation must wait
    let summand = node.input(2).filter(|_| node.op == Op::Gemm);
    let params = MatMulParams {
        activation: if summand.is_some() {
            IDENTITY
        } else {
            params.activation
        },
        ..params
    };
    let target = fused.output.unwrap_or(y);
    let elements = if summand.is_some() || trans_a || !worth_bf16(l.part, node) {
        Elements::F32
    } else {
        l.elements(&[a, b, y, target])
    };
    let storage = storage_of(elements);
    let (a, b) = (
        l.read(a, Layout::RowMajor, storage)?,
        l.read(b, Layout::RowMajor, storage)?,
    );
    let Some(c) = summand else {
        let output = l.write_f32_or(storage, target, Layout::RowMajor)?;
        return product(l, elements, params, a, b, output);
    };
    let raw = l.fresh(DType::F32, l.shape(y)?.to_vec())?;
    product(l, elements, params, a, b, raw)?;
    let mut c = l.rows(c)?;
    let beta = gemm.beta;
    if beta != 1.0 {
        let scaled = l.fresh(DType::F32, l.value_shape(c).to_vec())?;
        steps::unary(
            l,
            Unary::Affine {
                scale: beta,
                shift: 0.0,
            },
            c,
            scaled,
        );
        c = scaled;
    }
    if fused.activation == IDENTITY {
        let output = l.write_rows(target)?;
        return steps::binary(l, Binary::Add, raw, c, output);
    }
    let sum = l.fresh(DType::F32, l.shape(y)?.to_vec())?;
    steps::binary(l, Binary::Add, raw, c, sum)?;
    let output = l.write_rows(target)?;
    steps::unary(l, fused.activation, sum, output);
    Ok(())
}

/// The class of a product's loops.
fn class_of(elements: Elements) -> Class {
    match elements {
        Elements::Bf16 => Class::ProductBf16,
        Elements::F32 => Class::Product,
    }
}

/// Adds a step for a product of two computed operands.
pub(super) fn product(
    l: &mut Lowering<'_>,
    elements: Elements,
    params: MatMulParams,
    a: ValueId,
    b: ValueId,
    c: ValueId,
) -> Result<()> {
    let plan = MatMulPlan::of(elements, l.isa, params).map_err(kernel_error)?;
    let products = [&params.batch[..], &[params.m, params.k, params.n]].concat();
    let products = products
        .iter()
        .fold(1usize, |all, &size| all.saturating_mul(size));
    let scratch = l.scratch(plan.scratch_len(l.pool))?;
    l.step(
        "matmul",
        &[a, b],
        &[c],
        scratch,
        Box::new(move |o| {
            let (c, scratch) = (o.slice_mut(0), o.scratch(1));
            plan.run(o.pool, o.slice(0), o.slice(1), c, scratch);
            Ok(())
        }),
    )
    .does(class_of(elements), products);
    Ok(())
}

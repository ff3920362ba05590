//! Products with constant weights of 16-bit floats, computed in that form: half the memory and half the memory traffic of f32.
//!
//! Not here: which nodes are such products (`matmul`), weights that a Cast widens (`part`), products in bf16 at reduced
//! precision (`matmul`).

use polychip_cpu_kernels::gemm::{HalfPlan, HalfType, Matrix, Order};
use polychip_lowering::{Layout, Storage};
use polychip_ops::DType;
use polychip_sdk::{Constant, Error, Result};

use super::builder::{Lowering, kernel_error};
use super::epilogue::{FusedEpilogue, spread};
use crate::part::{Node, Part, TensorIndex};
use crate::weights::Recipe;
use crate::work::Class;

/// The type of 16-bit weights.
fn half_type(part: &Part, weights: TensorIndex) -> Option<HalfType> {
    let t = &part.tensors[weights];
    let of = match t.dtype {
        DType::F16 => HalfType::F16,
        DType::BF16 => HalfType::Bf16,
        _ => return None,
    };
    (t.constant.is_some() && t.encoding.is_none() && !t.packed).then_some(of)
}

/// Lowers a product `[m, k] · [k, n]` that `matmul` covers, in f32; `false` where its weights are no such ones, or would have to
/// be scaled.
pub(super) fn lower(
    l: &mut Lowering<'_>,
    node: &Node,
    fused: &FusedEpilogue,
    (m, k, n): (usize, usize, usize),
) -> Result<bool> {
    let (Some(a), Some(b), Some(y)) = (node.input(0), node.input(1), node.output(0)) else {
        return Ok(false);
    };
    let Some(gemm) = node.operator().ok().and_then(|operator| operator.product()) else {
        return Ok(false);
    };
    let Some(of) = half_type(l.part, b).filter(|_| gemm.is_unscaled()) else {
        return Ok(false);
    };
    let plan = HalfPlan::new(of, l.isa, k, n).map_err(kernel_error)?;
    let weights = l.source(b)?;
    let (own, behind) = (node.input(2), fused.bias);
    let bias = own.or(behind).map(|c| l.source(c)).transpose()?;
    let beta = if own.is_some() { gemm.beta } else { 1.0 };
    let order = if gemm.trans_b { Order::Columns } else { Order::Rows };
    let packer = plan.clone();
    let recipe = Recipe::new("halves")
        .by((of, l.isa.code(), k, n, beta, order))
        .of(&weights)
        .of_any(bias.as_ref());
    let packed = l.packed(vec![plan.packed_len()], recipe, move |target| {
        if let Some(constant) = &weights.constant {
            pack(&packer, order, constant, 2 * k * n, target)?;
        }
        if let Some(bias) = &bias {
            packer.pack_bias(&spread(bias, n, beta)?, target);
        }
        Ok(())
    })?;
    let mut reads = vec![l.read(a, Layout::RowMajor, Storage::Real)?, packed];
    if let Some(residual) = fused.residual {
        reads.push(l.read(residual, Layout::RowMajor, Storage::Real)?);
    }
    let target = fused.output.unwrap_or(y);
    let output = l.write_f32_or(Storage::Real, target, Layout::RowMajor)?;
    let scratch = l.scratch(plan.scratch_len(m, l.pool))?;
    let (epilogue, has_residual) = (fused.epilogue(), fused.residual.is_some());
    let trans_a = gemm.trans_a;
    // a tile of few rows waits for its operands as long as one of four
    let products = m.max(4).saturating_mul(plan.multiply_adds_per_row());
    l.step(
        "gemm of halves",
        &reads,
        &[output],
        scratch,
        Box::new(move |o| {
            let a = o.read::<f32>(0);
            let a = if trans_a {
                Matrix::columns(a, m)
            } else {
                Matrix::rows(a, k)
            };
            let residual = has_residual.then(|| Matrix::rows(o.read::<f32>(2), n));
            let (c, scratch) = (o.write(0), o.scratch(1));
            plan.run(o.pool, m, a, o.read(1), residual, epilogue, c, n, scratch);
            Ok(())
        }),
    )
    .does(Class::Product, products);
    Ok(true)
}

/// Packs weights of so many bytes, piece by piece as they are read from the file.
fn pack(plan: &HalfPlan, order: Order, weights: &Constant, bytes: usize, target: &mut [f32]) -> Result<()> {
    if weights.bytes().len() != bytes {
        return Err(Error::bad_argument(format!(
            "weights of {} bytes, where the shape needs {bytes}",
            weights.bytes().len()
        )));
    }
    if bytes == 0 {
        return Ok(());
    }
    let line = plan.line_bytes(order);
    // whole panels of columns, so that each is written once
    let step = match order {
        Order::Rows => 1,
        Order::Columns => plan.panel_columns(),
    };
    let lines = (Constant::BLOCK / (line * step)).max(1) * step;
    let mut first = 0;
    weights.pieces(lines * line, |piece| {
        plan.pack(order, first, piece, target);
        first += lines;
    });
    Ok(())
}

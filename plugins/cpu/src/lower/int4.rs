//! Products with constant 4-bit weights, computed in that form: blocks along the depth, or one scale per column or per tensor.
//!
//! Not here: 4-bit weights with 8-bit inputs (decoded, `matmul`), products with a residual.

use polychip_cpu_kernels::quantised::{Int4Plan, Int4Weights};
use polychip_lowering::integers;
use polychip_ops::{DType, Operator};
use polychip_sdk::{Encoding, EncodingKind, Result};

use super::builder::{Lowering, kernel_error};
use super::encoding::stands_for_f32;
use crate::part::{Node, Part, TensorIndex};
use crate::weights::Recipe;
use crate::work::Class;

struct Product {
    a: TensorIndex,
    b: TensorIndex,
    y: TensorIndex,
    depth: usize,
    columns: usize,
    /// The right operand is `[columns, depth]`.
    transposed: bool,
    block: usize,
}

fn product(part: &Part, node: &Node) -> Option<Product> {
    let transposed = match node.operator().ok()? {
        Operator::MatMul => false,
        Operator::Gemm(gemm) if !gemm.trans_a && gemm.is_unscaled() && node.input(2).is_none() => {
            gemm.trans_b
        }
        _ => return None,
    };
    let (a, b, y) = (node.input(0)?, node.input(1)?, node.output(0)?);
    let (dims, right, out) = (part.dims(a)?, part.dims(b)?, part.dims(y)?);
    let t = &part.tensors[b];
    let encoding = t.encoding.as_ref()?;
    let &[rows, width] = right else { return None };
    let (depth, columns) = if transposed { (width, rows) } else { (rows, width) };
    let (along, across) = (usize::from(transposed), usize::from(!transposed));
    let (block, scales) = match encoding.kind {
        EncodingKind::PerTensor => (depth, 1),
        EncodingKind::PerAxis { axis } if axis == across => (depth, columns),
        EncodingKind::PerBlock { axis, block } if axis == along && block > 0 => {
            (block, depth.div_ceil(block) * columns)
        }
        _ => return None,
    };
    let fits = matches!(t.dtype, DType::U4 | DType::I4)
        && t.constant.is_some()
        && encoding.real_dtype == DType::F32
        && encoding.scales.len() == scales
        && (encoding.zero_points.is_empty() || encoding.zero_points.len() == scales)
        && (block >= depth || block.is_multiple_of(8))
        && depth > 0
        && columns > 0
        && stands_for_f32(part, a)
        && stands_for_f32(part, y)
        && dims.len() >= 2
        && dims.last() == Some(&depth)
        && out.last() == Some(&columns)
        && dims[..dims.len() - 1] == out[..out.len() - 1];
    fits.then_some(Product {
        a,
        b,
        y,
        depth,
        columns,
        transposed,
        block,
    })
}

/// Whether these kernels cover a node.
pub(super) fn covers(part: &Part, node: &Node) -> bool {
    product(part, node).is_some()
}

/// The scales and zeros of blocks and columns, in the order of the kernel.
fn scales(
    encoding: &Encoding,
    blocks: usize,
    columns: usize,
    transposed: bool,
    top: i32,
) -> (Vec<f32>, Vec<u8>) {
    let at = |i: usize| match encoding.scales.len() {
        1 => 0,
        _ if transposed => i % columns * blocks + i / columns,
        _ => i,
    };
    (0..blocks * columns)
        .map(|i| {
            let zero = encoding.zero_points.get(at(i)).copied().unwrap_or(0);
            (encoding.scales[at(i)], (zero + top) as u8)
        })
        .unzip()
}

/// Lowers a product; nothing is fused behind it.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let Some(product) = product(l.part, node) else {
        return Ok(false);
    };
    let Product {
        a,
        b,
        y,
        depth,
        columns,
        transposed,
        block,
    } = product;
    let rows = l.shape(a)?.iter().product::<usize>() / depth;
    let plan = Int4Plan::new(l.isa, depth, columns, block).map_err(kernel_error)?;
    let (packer, source) = (plan.clone(), l.source(b)?);
    let recipe = Recipe::new("nibbles")
        .by((l.isa.code(), depth, columns, block, transposed))
        .of(&source);
    let packed = l.packed(vec![plan.packed_len()], recipe, move |packed| {
        let (Some(constant), Some(encoding)) = (&source.constant, &source.encoding) else {
            return Ok(());
        };
        // signed codes are moved to unsigned ones
        let top = if source.dtype == DType::I4 { 8 } else { 0 };
        let stored = integers(source.dtype, depth * columns, constant.bytes())?;
        let codes: Vec<u8> = (0..depth * columns)
            .map(|i| {
                let at = if transposed {
                    i % columns * depth + i / columns
                } else {
                    i
                };
                (stored[at] + top) as u8
            })
            .collect();
        let (scales, zeros) = scales(encoding, depth.div_ceil(block), columns, transposed, top);
        packer.pack(
            Int4Weights {
                codes: &codes,
                scales: &scales,
                zeros: &zeros,
            },
            packed,
        );
        Ok(())
    })?;
    let x = l.rows(a)?;
    let scratch = l.scratch(plan.scratch_len(rows, l.pool))?;
    let result = l.write_rows(y)?;
    l.step(
        "gemm of 4-bit weights",
        &[x, packed],
        &[result],
        scratch,
        Box::new(move |o| {
            plan.run(o.pool, rows, o.read(0), o.read(1), o.write(0), o.scratch(1));
            Ok(())
        }),
    )
    .does(Class::ProductNibbles, rows * depth * columns);
    Ok(true)
}

//! Products with block-quantised constant weights, computed in that form: ggml's blocks (some in wider ones), or 4- or 8-bit codes with separate
//! arrays of scales and zero points. Products of the same rows share a step, which rounds the rows and joins the threads once.
//!
//! Not here: block-quantised weights of other nodes (decoded, `matmul`), codes in blocks that are not multiples of 32 values
//! (`int4`), products with a residual.

mod nbits;

use std::sync::Arc;

use polychip_cpu_kernels::quantised::{self, BlockPlan, BlockProduct, run_all};
use polychip_ops::operator::Gemm;
use polychip_ops::{BlockLayout, Op};
use polychip_sdk::{Constant, Result};

use super::builder::{Lowering, kernel_error};
use super::encoding::is_unrounded;
use crate::part::{Node, Part, TensorIndex};
use crate::step::Operands;
use crate::weights::Recipe;
use crate::work::Class;
use nbits::NBitsWeights;

/// Products of one step.
pub(super) const MOST: usize = 3;

#[derive(Clone, Copy)]
struct Product {
    a: TensorIndex,
    b: TensorIndex,
    bias: Option<TensorIndex>,
    y: TensorIndex,
    depth: usize,
    columns: usize,
    weights: Weights,
}

/// How the weights lie.
#[derive(Clone, Copy)]
enum Weights {
    Blocks(BlockLayout),
    NBits(NBitsWeights),
}

fn product(part: &Part, node: &Node) -> Option<Product> {
    let gemm = node
        .typed::<Gemm>()
        .is_ok_and(|gemm| !gemm.trans_a && gemm.trans_b && (gemm.alpha, gemm.beta) == (1.0, 1.0));
    let (a, b, y) = (node.input(0)?, node.input(1)?, node.output(0)?);
    let encoding = part.tensors[b].encoding.as_ref()?;
    let (dims, right, out) = (part.dims(a)?, part.dims(b)?, part.dims(y)?);
    let (&[first, second], Some((&depth, rows))) = (right, dims.split_last()) else {
        return None;
    };
    let (columns, of) = if gemm { (first, second) } else { (second, first) };
    let (weights, elements) = match encoding.block_layout() {
        Some(layout) if gemm => (Weights::Blocks(layout), layout.elements()),
        None if gemm || node.op == Op::MatMul => {
            let nbits = NBitsWeights::of(&part.tensors[b], gemm)?;
            (Weights::NBits(nbits), nbits::GROUP)
        }
        _ => return None,
    };
    let bias = node.input(2);
    let fits = part.tensors[b].constant.is_some()
        && of == depth
        && out.split_last() == Some((&columns, rows))
        && depth.is_multiple_of(elements)
        && depth > 0
        && columns > 0
        && is_unrounded(part, a)
        && part.plain_f32(y)
        && bias.is_none_or(|bias| part.plain_f32(bias) && part.dims(bias) == Some(&[columns]));
    fits.then_some(Product {
        a,
        b,
        bias,
        y,
        depth,
        columns,
        weights,
    })
}

/// Whether these kernels cover a node.
pub(super) fn covers(part: &Part, node: &Node) -> bool {
    product(part, node).is_some()
}

/// Whether a node can be of one step with another that these kernels cover: what it reads is there when that one begins.
pub(super) fn goes_with(part: &Part, node: &Node, other: &Node) -> bool {
    let constant = |t: Option<TensorIndex>| t.is_none_or(|t| part.is_constant(t));
    match (product(part, node), product(part, other)) {
        (Some(one), Some(two)) => {
            one.a == two.a && constant(one.bias) && constant(two.bias) && one.y != two.y
        }
        _ => false,
    }
}

/// The kernel's blocks that hold those of a layout without a change of any value: where it has none of the layout, wider ones.
fn kernel_layout(layout: BlockLayout) -> quantised::BlockLayout {
    match layout {
        BlockLayout::Q4_0 => quantised::BlockLayout::Q4_0,
        BlockLayout::Q4_1 => quantised::BlockLayout::Q4_1,
        BlockLayout::Q8_0 | BlockLayout::Q5_0 | BlockLayout::IQ4_NL => quantised::BlockLayout::Q8_0,
        BlockLayout::Q4_K => quantised::BlockLayout::Q4_K,
        BlockLayout::Q5_K => quantised::BlockLayout::Q5_K,
        BlockLayout::Q6_K | BlockLayout::Q3_K => quantised::BlockLayout::Q6_K,
        BlockLayout::Q5_1 => quantised::BlockLayout::Q5_1,
        BlockLayout::Q2_K => quantised::BlockLayout::Q2_K,
        BlockLayout::IQ4_XS | BlockLayout::MXFP4 => quantised::BlockLayout::U8,
    }
}

/// Appends blocks as those of [`kernel_layout`]; `None` where they are such already.
fn kernel_blocks(layout: BlockLayout, blocks: &[u8], out: &mut Vec<u8>) -> Option<()> {
    if layout.wider().is_some() {
        layout.widen(blocks, out);
        return Some(());
    }
    if kernel_layout(layout) != quantised::BlockLayout::U8 {
        return None;
    }
    layout
        .signed_bytes(blocks, |scale, bytes| {
            out.extend(scale.to_le_bytes());
            out.push(0x80);
            out.extend(bytes.map(|byte| byte as u8 ^ 0x80));
        })
        .then_some(())
}

/// Lowers a product and those of one step with it.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node, others: &[usize]) -> Result<bool> {
    let Some(first) = product(l.part, node) else {
        return Ok(false);
    };
    let part = l.part;
    let others = others
        .iter()
        .filter_map(|&other| product(part, &part.nodes[other]));
    let products: Vec<Product> = std::iter::once(first).chain(others).collect();
    let rows = l.shape(first.a)?.iter().product::<usize>() / first.depth;
    let mut plans = Vec::with_capacity(products.len());
    let mut reads = vec![l.rows(first.a)?];
    for product in &products {
        let mut source = l.source(product.b)?;
        let layout = match product.weights {
            Weights::Blocks(layout) => kernel_layout(layout),
            Weights::NBits(nbits) => nbits.layout(&mut source),
        };
        let source = Arc::new(source);
        let plan = BlockPlan::new(l.isa, layout, product.depth, product.columns).map_err(kernel_error)?;
        // where precision may be reduced, the rows are rounded to bytes
        let plan = if l.may_round { plan } else { plan.precise() };
        let recipe = Recipe::new("blocks").by((l.isa.code(), product.depth, product.columns));
        let recipe = match product.weights {
            Weights::Blocks(of) => recipe.by(of),
            Weights::NBits(nbits) => recipe.by((nbits, layout)),
        };
        let (packer, weights, recipe) = (plan.clone(), product.weights, recipe.of_shared(&source));
        reads.push(l.packed(vec![plan.packed_len()], recipe, move |packed| {
            match (weights, &source.constant) {
                (Weights::Blocks(layout), Some(constant)) => pack(&packer, layout, constant, packed),
                (Weights::NBits(nbits), _) => nbits.pack(&packer, &source, packed),
                _ => {}
            }
            Ok(())
        })?);
        plans.push(plan);
    }
    let mut biases = [None; MOST];
    for (bias, product) in biases.iter_mut().zip(&products) {
        if let Some(tensor) = product.bias {
            *bias = Some(reads.len());
            reads.push(l.rows(tensor)?);
        }
    }
    let scratch = l.scratch(plans[0].scratch_len(rows, l.pool))?;
    let mut writes = Vec::with_capacity(products.len());
    for product in &products {
        writes.push(l.write_rows(product.y)?);
    }
    let pieces = if l.may_round { 1 } else { 2 };
    let multiplications: usize = products
        .iter()
        .map(|product| pieces * rows * product.depth * product.columns)
        .sum();
    l.step(
        "products with blocks",
        &reads,
        &writes,
        scratch,
        Box::new(move |o| {
            run(o, rows, &plans, &biases);
            Ok(())
        }),
    )
    .does(Class::ProductBlocks, multiplications);
    Ok(true)
}

/// Packs ggml's blocks, some columns at a time.
fn pack(packer: &BlockPlan, layout: BlockLayout, constant: &Constant, packed: &mut [f32]) {
    let panel = packer.panel_columns();
    let column = packer.depth() / layout.elements() * layout.bytes();
    let panels = (Constant::BLOCK / (panel * packer.column_bytes())).max(1);
    let (mut first, mut others) = (0, Vec::new());
    constant.pieces(panels * panel * column, |columns| {
        others.clear();
        match kernel_blocks(layout, columns, &mut others) {
            Some(()) => packer.pack_columns(first, &others, packed),
            None => packer.pack_columns(first, columns, packed),
        }
        first += panels * panel;
    });
}

/// Runs the products; `biases` holds the operand that each one adds.
fn run(o: &mut Operands<'_>, rows: usize, plans: &[BlockPlan], biases: &[Option<usize>; MOST]) {
    let count = plans.len();
    let mut results: [&mut [f32]; MOST] = [&mut [], &mut [], &mut []];
    for (index, result) in results.iter_mut().enumerate().take(count) {
        *result = o.write(index);
    }
    let (pool, x, scratch) = (o.pool, o.read(0), o.scratch(count));
    {
        let [first, second, third] = &mut results;
        let product = |index: usize, y| BlockProduct::new(&plans[index], o.read(1 + index), y);
        match count {
            1 => run_all(pool, rows, x, &mut [product(0, first)], scratch),
            2 => run_all(
                pool,
                rows,
                x,
                &mut [product(0, first), product(1, second)],
                scratch,
            ),
            _ => {
                let mut all = [product(0, first), product(1, second), product(2, third)];
                run_all(pool, rows, x, &mut all, scratch);
            }
        }
    }
    for (y, bias) in results.iter_mut().zip(biases) {
        if let Some(bias) = bias.map(|bias| o.read::<f32>(bias)) {
            for row in y.chunks_exact_mut(bias.len()) {
                row.iter_mut().zip(bias).for_each(|(y, bias)| *y += bias);
            }
        }
    }
}

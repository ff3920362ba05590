//! Products of a few rows with constant weights in blocks, as in decoding: the rows' normalisation and a second product
//! that gates the first are computed in the same launch.
//!
//! Not here: which of them are put off (`deferred`), products of many rows (`matmul`).

use polychip_gpu_kernels::{Epilogue, Expression, Gemv, Quants, RmsScale, Scalar, Teams};
use polychip_lowering::{Layout, Node, Outcome, Refusal, TensorIndex};
use polychip_ops::{Op, Operator};

use super::builder::Lowering;
use super::column_split::{self, ColumnRange};
use super::elementwise::{self, Chain};
use super::epilogue::{EpilogueBuilder, Sheet};
use super::product::{packed_blocks, summand};
use super::values::ValueId;

/// A product `a [m, k]` times the transpose of `b [n, k]`.
#[derive(Debug, Clone, Copy)]
pub(super) struct FewRows<'a> {
    pub(super) node: &'a Node,
    pub(super) a: TensorIndex,
    pub(super) b: TensorIndex,
    pub(super) y: TensorIndex,
    pub(super) quants: Quants,
    /// m, n and k.
    pub(super) sizes: [u32; 3],
}

/// What the kernel reads on the left.
struct Left {
    values: Vec<ValueId>,
    scalar: Scalar,
    norm: Option<RmsScale>,
}

/// Lowers such a product; `false`, and nothing is done, where there is no kernel for it.
pub(super) fn lower(
    l: &mut Lowering<'_>,
    of: &FewRows<'_>,
    members: &[usize],
    output: TensorIndex,
) -> Outcome<bool> {
    let [m, _, k] = of.sizes;
    if m > Gemv::MOST || !u64::from(k).is_multiple_of(of.quants.elements()) {
        return Ok(false);
    }
    let mark = l.mark();
    let done = match gated(l, of, members, output) {
        Ok(false) => plain(l, of, members, output).map(|()| true),
        done => done,
    };
    // the kernels of many rows take a few as well
    if done.is_err() {
        l.back_to(mark);
    }
    Ok(done.unwrap_or(false))
}

/// A launch's kernel, before it is known how threads share its work.
fn kernel_of(of: &FewRows<'_>, left: &Left, epilogue: Epilogue, gate: Option<Expression>) -> Gemv {
    let [m, n, k] = of.sizes;
    Gemv {
        m,
        n,
        k,
        quants: of.quants,
        scalar: left.scalar,
        norm: left.norm,
        gate,
        epilogue,
        teams: Teams {
            lanes: 32,
            teams: 4,
            columns: 1,
        },
    }
}

/// The rows of a, or what they are normalised of.
fn left(l: &mut Lowering<'_>, a: TensorIndex) -> Outcome<Left> {
    let norm = l.deferred(a).filter(|node| node.op == Op::RMSNormalization);
    let Some(node) = norm else {
        let value = l.rows(a)?;
        let scalar = l.stored(value).scalar;
        return Ok(Left {
            values: vec![value],
            scalar,
            norm: None,
        });
    };
    let (Some(x), Some(scale)) = (node.input(0), node.input(1)) else {
        return Err(Refusal::op("RMSNormalization without operands"));
    };
    let Operator::RMSNormalization(own) = node.operator()? else {
        return Err(Refusal::op(node.op_name.clone()));
    };
    let values = vec![l.rows(x)?, l.rows(scale)?];
    let scalar = l.stored(values[0]).scalar;
    if l.stored(values[1]).scalar != scalar {
        return Err(Refusal::dtype("a scale of another type than the rows"));
    }
    Ok(Left {
        norm: Some(RmsScale {
            epsilon: own.epsilon,
            access: l.access(values[1]),
        }),
        values,
        scalar,
    })
}

fn launch(
    l: &mut Lowering<'_>,
    kernel: Gemv,
    weights: &[TensorIndex],
    range: &ColumnRange,
    left: &Left,
    ends: &[ValueId],
) -> Outcome<()> {
    let ways = kernel.candidates(&l.target.limits);
    let (gemv, kernel) = l.first(kernel.clone(), ways.into_iter().map(|way| kernel.with(way)))?;
    let mut values = left.values.clone();
    let first = values.len();
    for (i, &tensor) in weights.iter().enumerate() {
        let bytes = kernel.bindings[first + i].bytes;
        values.push(packed_blocks(l, tensor, range, gemv.k, bytes)?);
    }
    // the kernel's own product comes first, whatever the order of their constants
    values[first..].reverse();
    values.extend(ends);
    l.launch_kernel(kernel, &values)
}

fn plain(l: &mut Lowering<'_>, of: &FewRows<'_>, members: &[usize], output: TensorIndex) -> Outcome<()> {
    let [_, n, k] = of.sizes;
    let left = left(l, of.a)?;
    let mut end = EpilogueBuilder::new();
    summand(l, &mut end, of.node, of.y)?;
    let (epilogue, mut ends, target) = end.finish(l, members, of.y, output, Sheet::Matrix)?;
    ends.push(target);
    let row = of.quants.bytes(k.into());
    for range in column_split::cut(&l.target.limits, n, row.saturating_mul(4)) {
        let own = FewRows {
            sizes: [of.sizes[0], range.count(), k],
            ..*of
        };
        let kernel = kernel_of(&own, &left, range.epilogue(&epilogue), None);
        launch(l, kernel, &[of.b], &range, &left, &ends)?;
    }
    Ok(())
}

/// Lowers a product and the one that gates it; `false` where there is none.
fn gated(l: &mut Lowering<'_>, of: &FewRows<'_>, members: &[usize], output: TensorIndex) -> Outcome<bool> {
    let part = l.part;
    let nodes: Vec<&Node> = members.iter().map(|&index| &part.nodes[index]).collect();
    if nodes.is_empty() || of.node.input(2).is_some() || part.tensors[output].encoding.is_some() {
        return Ok(false);
    }
    let Some(Chain { expression, operands }) = elementwise::chain(l, &nodes, Some(of.y), output)? else {
        return Ok(false);
    };
    let &[second] = &operands[..] else {
        return Ok(false);
    };
    let Some(other) = l.deferred(second).filter(|node| node.op == Op::Gemm) else {
        return Ok(false);
    };
    let [_, n, k] = of.sizes;
    let ranges = column_split::cut(&l.target.limits, n, of.quants.bytes(k.into()).saturating_mul(4));
    let (Some(weights), [range]) = (other.input(1), &ranges[..]) else {
        return Ok(false);
    };
    if other.input(0) != Some(of.a) || l.dims(output)? != l.dims(of.y)? {
        return Ok(false);
    }
    let left = left(l, of.a)?;
    let target = l.result(output, Layout::RowMajor)?;
    let epilogue = Epilogue::sum(l.stored(target).scalar);
    let kernel = kernel_of(of, &left, epilogue, Some(expression));
    // in the order in which other programs of the model have these constants
    launch(l, kernel, &[weights, of.b], range, &left, &[target])?;
    Ok(true)
}

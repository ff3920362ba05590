//! Einsum of one operand as a transposition, of two as a batched matrix product.
//!
//! Labels of a product are of four sorts: in both operands and the result (batch), in the first and the result (rows), in
//! the second and the result (columns), in both operands only (summed). Where a sort's labels lie together in memory, an
//! operand is read as it is.
//!
//! Not here: diagonals, sums over labels of one operand, ellipses; those are the reference's.

use polychip_cpu_kernels::gemm::{Elements, MAX_BATCH_DIMS, MatMulParams, Strides};
use polychip_cpu_kernels::transpose::TransposePlan;
use polychip_lowering::Layout;
use polychip_ops::operator::Einsum;
use polychip_ops::{DType, Op};
use polychip_sdk::Result;

use super::builder::{Lowering, kernel_error};
use super::encoding::stands_for_f32;
use super::epilogue::IDENTITY;
use super::matmul;
use super::steps::{self, dense};
use crate::part::Node;
use crate::step::ValueId;

/// Labels of the operands, and of the result last; `None` for what is no plain equation.
fn labels(equation: &str) -> Option<Vec<Vec<char>>> {
    let equation: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (equation.as_str(), None),
    };
    let mut all: Vec<Vec<char>> = left.split(',').map(|labels| labels.chars().collect()).collect();
    let result = match right {
        Some(right) => right.chars().collect(),
        None => {
            // labels that are there once, in alphabetical order
            let mut once: Vec<char> = all.concat();
            once.sort_unstable();
            let groups = once.chunk_by(|a, b| a == b).filter(|group| group.len() == 1);
            groups.map(|group| group[0]).collect()
        }
    };
    all.push(result);
    let plain = |labels: &Vec<char>| {
        let repeats = (1..labels.len()).any(|i| labels[..i].contains(&labels[i]));
        !repeats && labels.iter().all(char::is_ascii_alphabetic)
    };
    all.iter().all(plain).then_some(all)
}

/// A tensor with its labels.
struct Labelled<'a> {
    labels: &'a [char],
    dims: &'a [usize],
}

impl Labelled<'_> {
    fn size(&self, label: char) -> usize {
        let at = self.labels.iter().position(|&own| own == label);
        at.map_or(1, |at| self.dims[at])
    }

    fn sizes(&self, labels: &[char]) -> usize {
        labels.iter().map(|&label| self.size(label)).product()
    }

    /// The strides of a matrix whose rows and columns are these labels, if those of each lie together.
    fn matrix(&self, batch: &[char], rows: &[char], columns: &[char]) -> Result<Option<Strides>> {
        let strides = dense(self.dims)?;
        let of = |label: char| {
            let at = self.labels.iter().position(|&own| own == label);
            at.map_or(0, |at| strides[at] as usize)
        };
        let merged = |labels: &[char]| {
            let follows = |pair: &[char]| of(pair[0]) == of(pair[1]) * self.size(pair[1]);
            let together = labels.windows(2).all(follows);
            together.then(|| labels.last().map_or(1, |&last| of(last)))
        };
        let (Some(row), Some(column)) = (merged(rows), merged(columns)) else {
            return Ok(None);
        };
        let mut all = [0; MAX_BATCH_DIMS];
        for (to, &label) in all[MAX_BATCH_DIMS - batch.len()..].iter_mut().zip(batch) {
            *to = of(label);
        }
        Ok((row == 1 || column == 1).then_some(Strides {
            batch: all,
            row,
            column,
        }))
    }

    /// The strides for the labels in this order.
    fn ordered(&self, [batch, rows, columns]: [&[char]; 3]) -> Result<Strides> {
        let strides = self.matrix(batch, rows, columns)?;
        Ok(strides.expect("invariant: labels in order lie together, and the last are one element apart"))
    }

    /// The permutation that brings the labels into an order.
    fn permutation(&self, order: &[char]) -> Vec<usize> {
        let place = |label| self.labels.iter().position(|own| own == label);
        order.iter().filter_map(place).collect()
    }
}

/// Lowers Einsum.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let Some(y) = node.output(0).filter(|_| node.op == Op::Einsum) else {
        return Ok(false);
    };
    let tensors: Vec<usize> = node.inputs.iter().copied().flatten().chain([y]).collect();
    let all = node
        .typed::<Einsum>()
        .ok()
        .and_then(|einsum| labels(&einsum.equation));
    let Some(all) = all.filter(|all| all.len() == tensors.len()) else {
        return Ok(false);
    };
    let mut labelled = Vec::new();
    for (labels, &tensor) in all.iter().zip(&tensors) {
        let dims = l.shape(tensor)?;
        if labels.len() != dims.len() || dims.contains(&0) || !stands_for_f32(l.part, tensor) {
            return Ok(false);
        }
        labelled.push(Labelled { labels, dims });
    }
    // a label has one size, and those of the result are of an operand
    let result = &labelled[labelled.len() - 1];
    let operands = &labelled[..labelled.len() - 1];
    for operand in operands {
        let fits = |&label: &char| {
            let mut others = labelled.iter().filter(|other| other.labels.contains(&label));
            others.all(|other| other.size(label) == operand.size(label))
        };
        if !operand.labels.iter().all(fits) {
            return Ok(false);
        }
    }
    let known = |label: &char| operands.iter().any(|operand| operand.labels.contains(label));
    if !result.labels.iter().all(known) {
        return Ok(false);
    }
    match operands {
        [x] if x.labels.len() == result.labels.len() => {
            let permutation = x.permutation(result.labels);
            let plan = TransposePlan::new(x.dims, &permutation).map_err(kernel_error)?;
            let storage = l.moved_as(tensors[0], &[Some(y)]);
            let from = l.read(tensors[0], Layout::RowMajor, storage)?;
            let to = l.write(y, Layout::RowMajor, storage)?;
            steps::transpose(l, "transpose", plan, from, to);
            Ok(true)
        }
        [a, b] => product(l, [a, b, result], [tensors[0], tensors[1], y]),
        _ => Ok(false),
    }
}

fn product(
    l: &mut Lowering<'_>,
    [mut a, mut b, result]: [&Labelled<'_>; 3],
    [mut a_tensor, mut b_tensor, y]: [usize; 3],
) -> Result<bool> {
    // the result's last label is one of columns
    if result.labels.last().is_some_and(|last| !b.labels.contains(last)) {
        (a, b) = (b, a);
        (a_tensor, b_tensor) = (b_tensor, a_tensor);
    }
    let chosen = |of: &[char], is: &dyn Fn(&char) -> bool| -> Vec<char> {
        of.iter().copied().filter(|label| is(label)).collect()
    };
    let (in_a, in_b) = (|c: &char| a.labels.contains(c), |c: &char| b.labels.contains(c));
    let in_result = |c: &char| result.labels.contains(c);
    let batch = chosen(result.labels, &|c| in_a(c) && in_b(c));
    let rows = chosen(result.labels, &|c| in_a(c) && !in_b(c));
    let columns = chosen(result.labels, &|c| !in_a(c) && in_b(c));
    let summed = chosen(a.labels, &|c| in_b(c) && !in_result(c));
    let alone = |own: &Labelled<'_>, other: &Labelled<'_>| {
        let mut labels = own.labels.iter();
        labels.any(|label| !other.labels.contains(label) && !in_result(label))
    };
    if batch.len() > MAX_BATCH_DIMS || alone(a, b) || alone(b, a) {
        return Ok(false);
    }
    let (m, k, n) = (a.sizes(&rows), a.sizes(&summed), b.sizes(&columns));
    let mut sizes = [1; MAX_BATCH_DIMS];
    for (size, &label) in sizes[MAX_BATCH_DIMS - batch.len()..].iter_mut().zip(&batch) {
        *size = a.size(label);
    }
    let (a_value, a_strides) = operand(l, a, a_tensor, [&batch, &rows, &summed])?;
    let (b_value, b_strides) = operand(l, b, b_tensor, [&batch, &summed, &columns])?;
    let own = result.matrix(&batch, &rows, &columns)?;
    let own = own.filter(|strides| strides.column == 1 && (m == 1 || strides.row >= n));
    let order = [&batch[..], &rows, &columns].concat();
    let shape: Vec<usize> = order.iter().map(|&label| result.size(label)).collect();
    let canonical = Labelled {
        labels: &order,
        dims: &shape,
    };
    let (c_value, c_strides) = match own {
        Some(strides) => (l.write_rows(y)?, strides),
        None => (
            l.fresh(DType::F32, shape.clone())?,
            canonical.ordered([&batch, &rows, &columns])?,
        ),
    };
    let params = MatMulParams {
        batch: sizes,
        m,
        k,
        n,
        a: a_strides,
        b: b_strides,
        c: c_strides,
        alpha: 1.0,
        activation: IDENTITY,
    };
    matmul::product(l, Elements::F32, params, a_value, b_value, c_value)?;
    if own.is_none() {
        let plan = TransposePlan::new(&shape, &canonical.permutation(result.labels)).map_err(kernel_error)?;
        let to = l.write_rows(y)?;
        steps::transpose(l, "transpose", plan, c_value, to);
    }
    Ok(true)
}

/// An operand as a matrix: as it is where its labels lie so, else transposed.
fn operand(
    l: &mut Lowering<'_>,
    own: &Labelled<'_>,
    tensor: usize,
    [batch, rows, columns]: [&[char]; 3],
) -> Result<(ValueId, Strides)> {
    let value = l.rows(tensor)?;
    if let Some(strides) = own.matrix(batch, rows, columns)? {
        return Ok((value, strides));
    }
    let order = [batch, rows, columns].concat();
    let shape: Vec<usize> = order.iter().map(|&label| own.size(label)).collect();
    let plan = TransposePlan::new(own.dims, &own.permutation(&order)).map_err(kernel_error)?;
    let moved = l.fresh(DType::F32, shape.clone())?;
    steps::transpose(l, "transpose", plan, value, moved);
    let canonical = Labelled {
        labels: &order,
        dims: &shape,
    };
    Ok((moved, canonical.ordered([batch, rows, columns])?))
}

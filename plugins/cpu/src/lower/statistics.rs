//! Ops that are reductions with passes around them: MeanVarianceNormalization, LpNormalization, ReduceLogSumExp.
//!
//! Not here: normalisations with kernels of their own (`normalise`), reductions alone (`reduce`).

use polychip_cpu_kernels::reduce::{Reduce, ReducePlan};
use polychip_cpu_kernels::{Binary, Unary};
use polychip_ops::operator::LpNorm;
use polychip_ops::{DType, Operator, axis};
use polychip_sdk::Result;

use super::builder::{Lowering, kernel_error};
use super::steps;
use crate::part::Node;
use crate::step::ValueId;
use crate::work::Class;

/// Lowers a node of this sort.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Some(x), Some(y)) = (node.input(0), node.output(0)) else {
        return Ok(false);
    };
    if !l.is_f32(x) || !l.is_f32(y) {
        return Ok(false);
    }
    let dims = l.shape(x)?.to_vec();
    let Ok(operator) = node.operator() else {
        return Ok(false);
    };
    let along = match &operator {
        Operator::MeanVarianceNormalization(mean) => mean.axes.clone(),
        Operator::LpNormalization(norm) => vec![norm.axis],
        Operator::ReduceLogSumExp(_) => match node.input(1) {
            Some(t) => match l.part.integers(t) {
                Some(axes) => axes,
                None => return Ok(false),
            },
            None => Vec::new(),
        },
        _ => return Ok(false),
    };
    let Some(mut axes) = axis::normalise_all(&along, dims.len()) else {
        return Ok(false);
    };
    if axes.is_empty() {
        if !matches!(&operator, Operator::ReduceLogSumExp(reduce) if !reduce.noop_with_empty_axes) {
            return Ok(false);
        }
        axes = (0..dims.len()).collect();
    }
    let count: usize = axes.iter().map(|&axis| dims[axis]).product();
    if dims.contains(&0) || axes.is_empty() {
        return Ok(false);
    }
    let lines = Lines { dims, axes };
    let input = l.rows(x)?;
    match operator {
        Operator::MeanVarianceNormalization(_) => {
            let mean = lines.reduce(l, Reduce::Mean, input)?;
            let apart = lines.with(l, Binary::Sub, input, mean)?;
            let squares = lines.reduce(l, Reduce::SumSquare, apart)?;
            // what the oracle adds to the variance
            let scale = Unary::Affine {
                scale: 1.0 / count as f32,
                shift: 1e-18,
            };
            let variance = lines.single(l, scale, squares)?;
            let deviation = lines.single(l, Unary::Sqrt, variance)?;
            let factor = lines.single(l, Unary::Reciprocal, deviation)?;
            let to = l.write_rows(y)?;
            steps::binary(l, Binary::Mul, apart, factor, to)?;
        }
        Operator::LpNormalization(LpNorm { p, .. }) => {
            let norm = match p {
                1 => Reduce::L1,
                2 => Reduce::L2,
                _ => return Ok(false),
            };
            let norm = lines.reduce(l, norm, input)?;
            // a line of zeros stays
            let positive = Unary::Clip {
                low: f32::MIN_POSITIVE,
                high: f32::INFINITY,
            };
            let norm = lines.single(l, positive, norm)?;
            let to = l.write_rows(y)?;
            steps::binary(l, Binary::Div, input, norm, to)?;
        }
        _ => {
            let most = lines.reduce(l, Reduce::Max, input)?;
            // infinite ones would leave no number where they are taken off
            let finite = Unary::Clip {
                low: f32::MIN,
                high: f32::MAX,
            };
            let most = lines.single(l, finite, most)?;
            let apart = lines.with(l, Binary::Sub, input, most)?;
            let shape = l.value_shape(apart).to_vec();
            let powers = l.fresh(DType::F32, shape)?;
            steps::unary(l, Unary::Exp, apart, powers);
            let sum = lines.reduce(l, Reduce::LogSum, powers)?;
            let to = l.write_rows(y)?;
            let to = l.view(to, lines.reduced());
            steps::binary(l, Binary::Add, sum, most, to)?;
        }
    }
    Ok(true)
}

/// A tensor, and the axes that are reduced.
struct Lines {
    dims: Vec<usize>,
    axes: Vec<usize>,
}

impl Lines {
    fn reduced(&self) -> Vec<usize> {
        let size = |(axis, &size): (usize, &usize)| if self.axes.contains(&axis) { 1 } else { size };
        self.dims.iter().enumerate().map(size).collect()
    }

    fn reduce(&self, l: &mut Lowering<'_>, f: Reduce, x: ValueId) -> Result<ValueId> {
        let gone: Vec<bool> = (0..self.dims.len())
            .map(|axis| self.axes.contains(&axis))
            .collect();
        let plan = ReducePlan::new(&self.dims, &gone).map_err(kernel_error)?;
        let y = l.fresh(DType::F32, self.reduced())?;
        let isa = l.isa;
        l.step(
            "reduce",
            &[x],
            &[y],
            None,
            Box::new(move |o| {
                plan.run(isa, o.pool, f, o.read(0), o.write(0));
                Ok(())
            }),
        )
        .does(Class::Reduce, self.dims.iter().product());
        Ok(y)
    }

    /// A function of the tensor and of one number for each line.
    fn with(&self, l: &mut Lowering<'_>, f: Binary, x: ValueId, line: ValueId) -> Result<ValueId> {
        let y = l.fresh(DType::F32, self.dims.clone())?;
        steps::binary(l, f, x, line, y)?;
        Ok(y)
    }

    /// A function of one number for each line.
    fn single(&self, l: &mut Lowering<'_>, f: Unary, line: ValueId) -> Result<ValueId> {
        let y = l.fresh(DType::F32, self.reduced())?;
        steps::unary(l, f, line, y);
        Ok(y)
    }
}

//! Nodes of f32 on boxed tensors whose kernels take their extents when they run: one form for all sizes of a rank.
//!
//! In a loop whose state grows, each round has sizes of its own, for which nothing would be lowered twice. These kernels'
//! plans are some strides, which take less time than a key of the cache.
//!
//! Not here: products with constant weights, which are packed (`dynamic_shapes`), Concat (`boxed`).

use std::sync::{Mutex, PoisonError};

use polychip_cpu_kernels::elementwise::{BinaryPlan, unary, unary_in_place};
use polychip_cpu_kernels::gemm::{Elements, MatMulPlan};
use polychip_cpu_kernels::reduce::{Reduce, ReducePlan};
use polychip_cpu_kernels::reference::Storage;
use polychip_cpu_kernels::reference::tensor::elements;
use polychip_cpu_kernels::softmax::{log_softmax, softmax, softmax_in_place};
use polychip_cpu_kernels::transpose::TransposePlan;
use polychip_cpu_kernels::{AlignedVec, Binary, Isa, Unary};
use polychip_ops::operator::{self, Along, Transpose};
use polychip_ops::{DType, Op, axis, broadcast};
use polychip_reference::Tensor;
use polychip_sdk::{Error, ErrorKind, Result};

use super::builder::Lowering;
use super::{elementwise, function, matmul, reduce};
use crate::part::Node;
use crate::step::Operands;

/// A kernel that takes its extents when it runs.
enum Kernel {
    Unary(Unary),
    Binary(Binary),
    Softmax { axis: i64, is_log: bool },
    Reduce { f: Reduce, axes: Vec<i64>, keeps: bool },
    Transpose(Option<Vec<i64>>),
    Product,
    Gather { axis: i64 },
}

/// A node that such a kernel computes.
pub(super) struct ByRank {
    kernel: Kernel,
    isa: Isa,
    scratch: Mutex<Option<AlignedVec>>,
}

type Floats<'a> = (&'a [f32], &'a [usize]);

impl ByRank {
    /// For a node of plain f32 that one of these kernels covers.
    pub(super) fn of(l: &Lowering<'_>, node: &Node) -> Option<ByRank> {
        let plain = |t: usize, dtype: DType| {
            let t = &l.part.tensors[t];
            t.dtype == dtype && t.plain && !t.packed && t.encoding.is_none()
        };
        let all = |inputs: &[Option<usize>]| inputs.iter().all(|t| t.is_some_and(|t| plain(t, DType::F32)));
        let [Some(y)] = node.outputs[..] else {
            return None;
        };
        if !plain(y, DType::F32) || !node.input(0).is_some_and(|x| plain(x, DType::F32)) {
            return None;
        }
        let constant = |i: usize| node.input(i).is_some_and(|t| l.part.is_constant(t));
        let kernel = match node.op {
            Op::Softmax | Op::LogSoftmax => Kernel::Softmax {
                axis: node.typed::<Along>().ok()?.axis,
                is_log: node.op == Op::LogSoftmax,
            },
            Op::Transpose => Kernel::Transpose(node.typed::<Transpose>().ok()?.perm),
            Op::MatMul if all(&node.inputs) && !constant(1) => Kernel::Product,
            Op::Gather if plain(node.input(1)?, DType::I64) => Kernel::Gather {
                axis: node.typed::<Along>().ok()?.axis,
            },
            _ => match (function::activation(l.part, node), reduce::function(node.op)) {
                (Some(f), _) => Kernel::Unary(f),
                (None, Some(f)) => {
                    let attributes = node.typed::<operator::Reduce>().ok()?;
                    let axes = match node.input(1) {
                        Some(axes) => l.part.integers(axes)?,
                        None => Vec::new(),
                    };
                    if axes.is_empty() && attributes.noop_with_empty_axes {
                        return None;
                    }
                    let keeps = attributes.keepdims;
                    Kernel::Reduce { f, axes, keeps }
                }
                (None, None) if node.inputs.len() == 2 && all(&node.inputs) && node.op != Op::Mean => {
                    Kernel::Binary(elementwise::binary(node.op)?)
                }
                _ => return None,
            },
        };
        Some(ByRank {
            kernel,
            isa: l.isa,
            scratch: Mutex::default(),
        })
    }

    /// Computes the node; `false` where the operands do not fit the op or are empty, which the evaluator tells.
    ///
    /// # Errors
    /// A result has another type or shape than the part states.
    pub(super) fn run(&self, o: &mut Operands<'_>) -> Result<bool> {
        let is_done = self.go(o)?;
        o.by_kernel = is_done;
        #[cfg(test)]
        super::dynamic_shapes::CALLS.set(super::dynamic_shapes::CALLS.get() + usize::from(is_done));
        Ok(is_done)
    }

    fn go(&self, o: &mut Operands<'_>) -> Result<bool> {
        let is_in_place = matches!(
            self.kernel,
            Kernel::Unary(_) | Kernel::Softmax { is_log: false, .. }
        );
        let filled = o.dims(0).is_some_and(|dims| !dims.contains(&0));
        if is_in_place
            && filled
            && let Some(x) = o.take(0)
        {
            let shape = x.shape().to_vec();
            let mut data = x.into_data();
            let Storage::F32(values) = &mut data else {
                return Err(Error::new(ErrorKind::Persistent, "an operand is not f32"));
            };
            match &self.kernel {
                Kernel::Softmax { axis, .. } => {
                    let dims = around(&shape, *axis).ok_or_else(|| {
                        Error::bad_argument(format!("axis {axis} of a tensor of shape {shape:?}"))
                    })?;
                    softmax_in_place(self.isa, o.pool, dims, &mut values[..]);
                }
                Kernel::Unary(f) => unary_in_place(self.isa, o.pool, *f, &mut values[..]),
                _ => unreachable!("invariant: these two alone are computed in place"),
            }
            o.store(0, made(shape, data)?)?;
            return Ok(true);
        }
        let Some((shape, values)) = floats(o, 0).and_then(|x| self.compute(o, x)) else {
            return Ok(false);
        };
        o.store(0, made(shape, Storage::F32(values))?)?;
        Ok(true)
    }

    fn compute(&self, o: &Operands<'_>, (x, dims): Floats<'_>) -> Option<(Vec<usize>, Vec<f32>)> {
        if x.is_empty() {
            return None;
        }
        let room = |shape: &[usize]| Some(vec![0.0f32; elements(shape).ok()?]);
        let isa = self.isa;
        match &self.kernel {
            Kernel::Unary(f) => {
                let mut y = room(dims)?;
                unary(isa, o.pool, *f, x, &mut y[..]);
                Some((dims.to_vec(), y))
            }
            Kernel::Softmax { axis, is_log } => {
                let (sizes, mut y) = (around(dims, *axis)?, room(dims)?);
                if *is_log {
                    log_softmax(isa, o.pool, sizes, x, &mut y[..]);
                } else {
                    softmax(isa, o.pool, sizes, x, &mut y[..]);
                }
                Some((dims.to_vec(), y))
            }
            Kernel::Binary(f) => {
                let (b, b_dims) = floats(o, 1).filter(|(b, _)| !b.is_empty())?;
                let shape = broadcast::shapes(&[dims, b_dims])?;
                if *f == Binary::Prelu && shape != dims {
                    return None;
                }
                let plan = BinaryPlan::new(dims, b_dims).ok()?;
                let mut y = room(&shape)?;
                plan.run(isa, o.pool, *f, x, b, &mut y[..]);
                Some((shape, y))
            }
            Kernel::Reduce { f, axes, keeps } => {
                let mut gone = vec![axes.is_empty(); dims.len()];
                for at in axis::normalise_all(axes, dims.len())? {
                    gone[at] = true;
                }
                let extents = dims.iter().zip(&gone);
                let left = extents.filter(|&(_, &gone)| *keeps || !gone);
                let shape = left.map(|(&size, &gone)| if gone { 1 } else { size });
                let shape: Vec<usize> = shape.collect();
                let plan = ReducePlan::new(dims, &gone).ok()?;
                let mut y = room(&shape)?;
                plan.run(isa, o.pool, *f, x, &mut y);
                Some((shape, y))
            }
            Kernel::Transpose(perm) => {
                let order = match perm {
                    Some(perm) => axis::normalise_all(perm, dims.len())?,
                    None => (0..dims.len()).rev().collect(),
                };
                if order.len() != dims.len() {
                    return None;
                }
                let plan = TransposePlan::new(dims, &order).ok()?;
                let mut y = room(dims)?;
                plan.run(o.pool, x, &mut y);
                Some((order.iter().map(|&at| dims[at]).collect(), y))
            }
            Kernel::Product => self.product(o, (x, dims), floats(o, 1)?),
            Kernel::Gather { axis } => gathered(o, (x, dims), *axis),
        }
    }

    fn product(
        &self,
        o: &Operands<'_>,
        (a, a_dims): Floats<'_>,
        (b, b_dims): Floats<'_>,
    ) -> Option<(Vec<usize>, Vec<f32>)> {
        if b.is_empty() || a_dims.len() > 6 || b_dims.len() > 6 {
            return None;
        }
        let (params, batch) = matmul::of_matrices(a_dims, b_dims)?;
        let plan = MatMulPlan::of(Elements::F32, self.isa, params).ok()?;
        let mut shape = batch;
        shape.extend((a_dims.len() > 1).then_some(params.m));
        shape.extend((b_dims.len() > 1).then_some(params.n));
        let mut y = vec![0.0f32; elements(&shape).ok()?];
        let mut scratch = self.scratch(plan.scratch_len(o.pool))?;
        plan.run(o.pool, a, b, &mut y[..], &mut scratch);
        *self.scratch.lock().unwrap_or_else(PoisonError::into_inner) = Some(scratch);
        Some((shape, y))
    }

    fn scratch(&self, floats: usize) -> Option<AlignedVec> {
        let kept = self.scratch.lock().unwrap_or_else(PoisonError::into_inner).take();
        kept.filter(|kept| kept.len() >= floats)
            // a loop asks for a little more each time
            .or_else(|| crate::arena::memory(floats.saturating_mul(2), "a product's scratch").ok())
    }
}

fn made(shape: Vec<usize>, data: Storage) -> Result<Tensor> {
    Tensor::new(shape, data).map_err(|error| Error::new(ErrorKind::Persistent, error.to_string()))
}

/// Elements and extents of an operand of f32.
fn floats<'o>(o: &'o Operands<'_>, i: usize) -> Option<Floats<'o>> {
    match o.boxed(i) {
        Some(tensor) => match tensor.data() {
            Storage::F32(values) => Some((values, tensor.shape())),
            _ => None,
        },
        None => o.dims(i).map(|dims| (o.read::<f32>(i), dims)),
    }
}

/// The extents before, at and behind an axis.
fn around(dims: &[usize], axis: i64) -> Option<[usize; 3]> {
    let at = axis::normalise(axis, dims.len())?;
    let all = |dims: &[usize]| axis::product(dims);
    Some([all(&dims[..at])?, dims[at], all(&dims[at + 1..])?])
}

fn gathered(o: &Operands<'_>, (x, dims): Floats<'_>, along: i64) -> Option<(Vec<usize>, Vec<f32>)> {
    let indices = o.taken(1).ok()?;
    let Storage::I64(at) = indices.data() else {
        return None;
    };
    let axis = axis::normalise(along, dims.len())?;
    let [outer, size, inner] = around(dims, along)?;
    let mut shape = dims[..axis].to_vec();
    shape.extend_from_slice(indices.shape());
    shape.extend_from_slice(&dims[axis + 1..]);
    let mut y = Vec::with_capacity(elements(&shape).ok()?);
    for block in x.chunks_exact(size * inner).take(outer) {
        for &index in at {
            let row = if index < 0 { index + size as i64 } else { index };
            // the evaluator tells an index that is out of range
            let row = usize::try_from(row).ok().filter(|&row| row < size)?;
            y.extend_from_slice(&block[row * inner..][..inner]);
        }
    }
    Some((shape, y))
}

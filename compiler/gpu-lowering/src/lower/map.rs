//! One kernel per expression: operands read where they lie, broadcast and in either order.

use polychip_gpu_kernels::{Copy, Elementwise, Expression, Operand as Source, Outcome as Written, Transpose};
use polychip_lowering::{Layout, Outcome, Refusal};

use super::builder::Lowering;
use super::values::{ValueId, count, image};
use crate::program::ALIGN;

/// A tensor that a kernel reads: where each axis of the result, in ONNX order, steps in its memory.
#[derive(Debug, Clone)]
pub(super) struct Operand {
    pub(super) value: ValueId,
    strides: Vec<i64>,
}

impl Operand {
    /// A dense tensor whose extents, in ONNX order, are aligned with the result's, and that lies in this form.
    pub(super) fn of(value: ValueId, aligned: &[usize], layout: Layout) -> Outcome<Operand> {
        let memory = layout.dims(aligned);
        let mut strides = vec![0i64; memory.len()];
        let mut step = 1i64;
        for (stride, &size) in strides.iter_mut().zip(&memory).rev() {
            *stride = if size == 1 { 0 } else { step };
            step = i64::try_from(size)
                .ok()
                .and_then(|size| step.checked_mul(size))
                .ok_or_else(|| Refusal::shape(format!("a tensor of shape {aligned:?}")))?;
        }
        let rank = memory.len();
        Ok(Operand {
            value,
            strides: (0..rank).map(|axis| strides[layout.place(axis, rank)]).collect(),
        })
    }

    /// One value for all.
    pub(super) fn single(value: ValueId, rank: usize) -> Operand {
        Operand {
            value,
            strides: vec![0; rank],
        }
    }

    /// One value per element of an axis.
    pub(super) fn along(value: ValueId, axis: usize, rank: usize) -> Operand {
        let mut strides = vec![0; rank];
        strides[axis] = 1;
        Operand { value, strides }
    }
}

/// Launches an expression over operands; `out` are the result's extents in ONNX order, `form` how it lies.
pub(super) fn launch(
    l: &mut Lowering<'_>,
    expression: &Expression,
    operands: &[Operand],
    out: &[usize],
    layout: Layout,
    target: ValueId,
) -> Outcome<()> {
    let rank = out.len();
    let mut shape = wide(&layout.dims(out));
    // in the order of memory
    let mut sources: Vec<Source> = operands
        .iter()
        .map(|operand| {
            let mut strides = operand.strides.clone();
            for axis in 0..rank {
                strides[layout.place(axis, rank)] = operand.strides[axis];
            }
            Source {
                scalar: l.stored(operand.value).scalar,
                access: l.access(operand.value),
                strides,
                offset: 0,
            }
        })
        .collect();
    if shape.is_empty() {
        shape.push(1);
        sources.iter_mut().for_each(|source| source.strides.push(0));
    }
    let kernel = Elementwise {
        shape,
        operands: sources,
        outcomes: vec![Written {
            scalar: l.stored(target).scalar,
            expression: expression.clone(),
        }],
    };
    let mut values: Vec<ValueId> = operands.iter().map(|operand| operand.value).collect();
    values.push(target);
    l.launch(&kernel, &values)
}

/// Extents as kernels take them.
pub(super) fn wide(dims: &[usize]) -> Vec<u64> {
    dims.iter().map(|&dim| dim as u64).collect()
}

impl Lowering<'_> {
    /// Moves a tensor to a place in another form or of another float type.
    pub(super) fn relayout(
        &mut self,
        value: ValueId,
        dims: &[usize],
        from: Layout,
        to: Layout,
        target: ValueId,
    ) -> Outcome<()> {
        if count(dims)? == 0 {
            return Ok(());
        }
        let (source, written) = (self.stored(value).scalar, self.stored(target).scalar);
        if source != written {
            let operand = Operand::of(value, dims, from)?;
            return launch(self, &Expression::Operand(0), &[operand], dims, to, target);
        }
        let bytes = self.stored(value).bytes;
        if from == to || Layout::is_same(dims) {
            if bytes.is_multiple_of(16) {
                return self.copy(value, target, bytes);
            }
            let all: usize = dims.iter().product();
            return permute(self, value, &[all], &[0], target);
        }
        let [n, c, s] = image(dims);
        let shape = if from == Layout::RowMajor {
            [n, c, s]
        } else {
            [n, s, c]
        };
        permute(self, value, &shape, &[0, 2, 1], target)
    }
}

impl Lowering<'_> {
    /// Copies a value of so many bytes, in parts where it is larger than a binding.
    fn copy(&mut self, value: ValueId, target: ValueId, bytes: u64) -> Outcome<()> {
        let most = self.target.limits.binding_bytes / ALIGN * ALIGN;
        if bytes <= most || most == 0 {
            return self.launch(&Copy { bytes }, &[value, target]);
        }
        let mut at = 0;
        while at < bytes {
            let bytes = most.min(bytes - at);
            let views = [self.subview(value, at, bytes), self.subview(target, at, bytes)];
            let [Some(from), Some(to)] = views else {
                return Err(Refusal::shape(format!(
                    "a copy of {bytes} bytes, the device binds {most} at most"
                )));
            };
            self.launch(&Copy { bytes }, &[from, to])?;
            at += bytes;
        }
        Ok(())
    }
}

/// Moves a dense tensor of `shape`: axis `i` of the result is axis `order[i]` of it.
pub(super) fn permute(
    l: &mut Lowering<'_>,
    value: ValueId,
    shape: &[usize],
    order: &[usize],
    target: ValueId,
) -> Outcome<()> {
    let kernel = Transpose {
        scalar: l.stored(value).scalar,
        shape: wide(shape),
        order: order.to_vec(),
    };
    l.launch(&kernel, &[value, target])
}

/// Fills a dense result of shape `out` from places of a tensor.
pub(super) fn pick(
    l: &mut Lowering<'_>,
    value: ValueId,
    out: &[usize],
    strides: Vec<i64>,
    offset: u64,
    target: ValueId,
) -> Outcome<()> {
    let kernel = Elementwise {
        shape: wide(out),
        operands: vec![Source {
            scalar: l.stored(value).scalar,
            access: l.access(value),
            strides,
            offset,
        }],
        outcomes: vec![Written {
            scalar: l.stored(target).scalar,
            expression: Expression::Operand(0),
        }],
    };
    l.launch(&kernel, &[value, target])
}

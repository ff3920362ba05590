//! ReverseSequence: rows copied whole, by lengths that the run tells.

use polychip_lowering::Layout;
use polychip_ops::operator::ReverseSequence;
use polychip_ops::{DType, Op};
use polychip_sdk::{Error, Result};

use super::builder::Lowering;
use crate::part::Node;
use crate::step::{Operands, Plain};
use crate::work::Class;

/// The extents of the two leading axes, and the elements of a row behind them.
#[derive(Clone, Copy)]
struct Reversal {
    outer: usize,
    inner: usize,
    row: usize,
    /// Whether the first axis is that of the steps, and not of the sequences.
    is_time_first: bool,
}

impl Reversal {
    fn lengths(&self, lengths: &[i64]) -> Result<Vec<usize>> {
        let steps = if self.is_time_first {
            self.outer
        } else {
            self.inner
        };
        let fits = |&length: &i64| usize::try_from(length).ok().filter(|&length| length <= steps);
        let found: Option<Vec<usize>> = lengths.iter().map(fits).collect();
        found.ok_or_else(|| Error::bad_argument(format!("lengths {lengths:?} of {steps} steps")))
    }

    fn run<T: Plain>(&self, o: &mut Operands<'_>) -> Result<()> {
        let lengths = self.lengths(o.read::<i64>(1))?;
        let (x, y) = (o.read::<T>(0), o.write::<T>(0));
        let Self {
            outer, inner, row, ..
        } = *self;
        let source = |length: usize, step: usize| if step < length { length - 1 - step } else { step };
        if self.is_time_first {
            for step in 0..outer {
                for (sequence, &length) in lengths.iter().enumerate() {
                    let from = (source(length, step) * inner + sequence) * row;
                    let to = (step * inner + sequence) * row;
                    y[to..to + row].copy_from_slice(&x[from..from + row]);
                }
            }
            return Ok(());
        }
        for (sequence, &length) in lengths.iter().enumerate() {
            let whole = sequence * inner * row..(sequence + 1) * inner * row;
            let (x, y) = (&x[whole.clone()], &mut y[whole]);
            let (reversed, rest) = y.split_at_mut(length * row);
            rest.copy_from_slice(&x[length * row..]);
            if row == 1 {
                for (y, x) in reversed.iter_mut().zip(x[..length].iter().rev()) {
                    *y = *x;
                }
            } else if row > 0 {
                let rows = x[..length * row].chunks_exact(row).rev();
                for (y, x) in reversed.chunks_exact_mut(row).zip(rows) {
                    y.copy_from_slice(x);
                }
            }
        }
        Ok(())
    }
}

/// Lowers ReverseSequence.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Op::ReverseSequence, Some(x), Some(lengths), Some(y)) =
        (node.op, node.input(0), node.input(1), node.output(0))
    else {
        return Ok(false);
    };
    let Ok(axes) = node.typed::<ReverseSequence>() else {
        return Ok(false);
    };
    let (shape, encoded) = (l.shape(x)?, |t: usize| l.part.tensors[t].encoding.is_some());
    let is_time_first = match (axes.time_axis, axes.batch_axis) {
        (0, 1) => true,
        (1, 0) => false,
        _ => return Ok(false),
    };
    let &[outer, inner, ref behind @ ..] = shape else {
        return Ok(false);
    };
    let sequences = if is_time_first { inner } else { outer };
    if encoded(x)
        || encoded(y)
        || l.dtype(x) != l.dtype(y)
        || l.shape(y)? != shape
        || l.dtype(lengths) != DType::I64
        || l.shape(lengths)? != [sequences]
    {
        return Ok(false);
    }
    let reversal = Reversal {
        outer,
        inner,
        row: behind.iter().product(),
        is_time_first,
    };
    let storage = l.moved_as(x, &[Some(y)]);
    let width = l.stored_as(x, storage).byte_width();
    if !matches!(width, Some(1 | 2 | 4 | 8)) {
        return Ok(false);
    }
    let reads = [l.read(x, Layout::RowMajor, storage)?, l.rows(lengths)?];
    let result = l.write(y, Layout::RowMajor, storage)?;
    let elements = shape.iter().product();
    let class = if reversal.row < 16 {
        Class::Select
    } else {
        Class::Copy
    };
    l.step(
        "reverse",
        &reads,
        &[result],
        None,
        Box::new(move |o| match width {
            Some(1) => reversal.run::<u8>(o),
            Some(2) => reversal.run::<u16>(o),
            Some(4) => reversal.run::<u32>(o),
            _ => reversal.run::<u64>(o),
        }),
    )
    .does(class, elements);
    Ok(true)
}

//! Gather of whole slices along an axis, and Where.

use polychip_cpu_kernels::Isa;
use polychip_cpu_kernels::elementwise_int::{Bits, Row, select};
use polychip_lowering::{Layout, Storage};
use polychip_ops::operator::Along;
use polychip_ops::{DType, Op, axis, broadcast};
use polychip_sdk::{Error, ErrorKind, Result};

use super::builder::{Lowering, bytes_of};
use crate::part::{Node, TensorIndex};
use crate::step::{Home, Operands, Plain, ValueId};
use crate::work::Class;

/// Lowers a node of this sort.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    match node.op {
        Op::Gather => gather(l, node),
        Op::Where => choose(l, node),
        _ => Ok(false),
    }
}

/// Bytes of a slice from which on copying bytes costs no more than copying elements.
const LONG: usize = 64;

#[derive(Clone, Copy)]
struct Gather {
    outer: usize,
    axis: usize,
    inner: usize,
}

impl Gather {
    fn run<T: Plain>(&self, o: &mut Operands<'_>, at: impl Fn(usize) -> i64, count: usize) -> Result<()> {
        let (x, y) = (o.read::<T>(0), o.write::<T>(0));
        if self.inner == 0 {
            return Ok(());
        }
        let mut rows = y.chunks_exact_mut(self.inner);
        for outer in 0..self.outer {
            for i in 0..count {
                let index = at(i);
                let wrapped = if index < 0 {
                    index + self.axis as i64
                } else {
                    index
                };
                let Some(row) = usize::try_from(wrapped).ok().filter(|&row| row < self.axis) else {
                    return Err(Error::new(
                        ErrorKind::BadArgument,
                        format!("gather: index {index} is outside an axis of {}", self.axis),
                    ));
                };
                let from = (outer * self.axis + row) * self.inner;
                let Some(target) = rows.next() else { break };
                target.copy_from_slice(&x[from..from + self.inner]);
            }
        }
        Ok(())
    }
}

fn gather(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Some(x), Some(indices), Some(y)) = (node.input(0), node.input(1), node.output(0)) else {
        return Ok(false);
    };
    let dims = l.shape(x)?;
    let Ok(Along { axis: along }) = node.typed() else {
        return Ok(false);
    };
    let axis = axis::normalise(along, dims.len())
        .ok_or_else(|| Error::bad_argument(format!("axis {along} of a tensor of rank {}", dims.len())))?;
    let storage = match l.moved_as(x, &[Some(y)]) {
        Storage::Stored => Storage::Stored,
        _ => Storage::Real,
    };
    let dtype = l.stored_as(x, storage);
    let width = dtype.byte_width();
    let wide = match l.dtype(indices) {
        DType::I64 => true,
        DType::I32 => false,
        _ => return Ok(false),
    };
    if !matches!(width, Some(1 | 2 | 4 | 8)) || dtype != l.stored_as(y, storage) {
        return Ok(false);
    }
    let shape = Gather {
        outer: dims[..axis].iter().product(),
        axis: dims[axis],
        inner: dims[axis + 1..].iter().product(),
    };
    let count: usize = l.shape(indices)?.iter().product();
    if l.shape(y)?.iter().product::<usize>() != shape.outer * count * shape.inner {
        return Err(Error::bad_argument(format!(
            "gathering {count} of {dims:?} does not give {:?}",
            l.shape(y)?
        )));
    }
    // rows of bytes are copied from anywhere: the model's memory need not be aligned, nor all of it touched
    let long = shape.inner * width.unwrap_or(1) >= LONG;
    let is_stored = l.dtype(x) == dtype;
    let in_place = if long && is_stored {
        constant_in_place(l, x)?
    } else {
        None
    };
    let (width, shape) = match (in_place, width) {
        (Some(_), Some(bytes)) => (
            Some(1),
            Gather {
                inner: shape.inner * bytes,
                ..shape
            },
        ),
        _ => (width, shape),
    };
    let source = match in_place {
        Some(value) => value,
        None => l.read(x, Layout::RowMajor, storage)?,
    };
    let reads = [source, l.rows(indices)?];
    let output = l.write(y, Layout::RowMajor, storage)?;
    let elements = l.shape(y)?.iter().product();
    let bytes = 2 * bytes_of(dtype, l.shape(y)?)? as u64;
    let class = if long { Class::Copy } else { Class::Select };
    l.step(
        "gather",
        &reads,
        &[output],
        None,
        Box::new(move |o| {
            fn sized<T: Plain>(o: &mut Operands<'_>, shape: Gather, wide: bool, count: usize) -> Result<()> {
                if wide {
                    let at = o.read::<i64>(1);
                    shape.run::<T>(o, |i| at[i], count)
                } else {
                    let at = o.read::<i32>(1);
                    shape.run::<T>(o, |i| i64::from(at[i]), count)
                }
            }
            match width {
                Some(1) => sized::<u8>(o, shape, wide, count),
                Some(2) => sized::<u16>(o, shape, wide, count),
                Some(4) => sized::<u32>(o, shape, wide, count),
                _ => sized::<u64>(o, shape, wide, count),
            }
        }),
    )
    .does(class, elements)
    .work
    .bytes = bytes;
    Ok(true)
}

/// The stored bytes of a constant where the model has them, aligned or not.
fn constant_in_place(l: &mut Lowering<'_>, tensor: TensorIndex) -> Result<Option<ValueId>> {
    let part = l.part;
    let t = &part.tensors[tensor];
    let (Some(constant), None, Some(dims)) = (&t.constant, &t.encoding, &t.dims) else {
        return Ok(None);
    };
    let bytes = bytes_of(t.dtype, dims)?;
    if t.dtype == DType::String || constant.bytes().len() < bytes {
        return Ok(None);
    }
    l.value(DType::U8, vec![bytes], Home::Constant(*constant))
        .map(Some)
}

fn choose(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Some(mask), Some(a), Some(b), Some(y)) =
        (node.input(0), node.input(1), node.input(2), node.output(0))
    else {
        return Ok(false);
    };
    let dtype = l.real_dtype(y);
    if l.dtype(mask) != DType::Bool || l.real_dtype(a) != dtype || l.real_dtype(b) != dtype {
        return Ok(false);
    }
    let storages = [a, b].map(|t| l.moved_as(t, &[Some(y)]));
    let storage = match storages {
        [Storage::Stored, Storage::Stored] => Storage::Stored,
        _ => Storage::Real,
    };
    let width = l.stored_as(y, storage).byte_width();
    if !matches!(width, Some(1 | 2 | 4 | 8)) {
        return Ok(false);
    }
    let mut out = l.shape(y)?.to_vec();
    let mut strides = Vec::new();
    for t in [mask, a, b] {
        let from = l.shape(t)?;
        let Some(mut own) = broadcast::strides(from, &out) else {
            return Err(Error::bad_argument(format!(
                "{from:?} does not broadcast to {out:?}"
            )));
        };
        if own.is_empty() {
            own.push(0);
        }
        strides.push(own);
    }
    let same = [mask, a, b].iter().all(|&t| l.part.dims(t) == Some(&out[..]));
    if same || out.is_empty() {
        // one row
        out = vec![out.iter().product()];
        strides = vec![vec![usize::from(same)]; 3];
    }
    let reads = [
        l.rows(mask)?,
        l.read(a, Layout::RowMajor, storage)?,
        l.read(b, Layout::RowMajor, storage)?,
    ];
    let output = l.write(y, Layout::RowMajor, storage)?;
    let isa = l.isa;
    l.step(
        "where",
        &reads,
        &[output],
        None,
        Box::new(move |o| {
            match width {
                Some(1) => each::<u8>(o, isa, &out, &strides),
                Some(2) => each::<u16>(o, isa, &out, &strides),
                Some(4) => each::<u32>(o, isa, &out, &strides),
                _ => each::<u64>(o, isa, &out, &strides),
            }
            Ok(())
        }),
    )
    .is(Class::Typed);
    Ok(true)
}

fn each<T: Plain + Bits>(o: &mut Operands<'_>, isa: Isa, out: &[usize], strides: &[Vec<usize>]) {
    let (mask, a, b) = (o.read::<u8>(0), o.read::<T>(1), o.read::<T>(2));
    let last = out.len() - 1;
    let row = out[last];
    if row == 0 {
        return;
    }
    let step = [strides[0][last], strides[1][last], strides[2][last]];
    for (index, y) in o.write::<T>(0).chunks_exact_mut(row).enumerate() {
        let mut rest = index;
        let mut start = [0usize; 3];
        for axis in (0..last).rev() {
            let at = rest % out[axis];
            rest /= out[axis];
            for (start, strides) in start.iter_mut().zip(strides) {
                *start += at * strides[axis];
            }
        }
        let many = |operand: usize| (step[operand] == 1).then(|| start[operand]..start[operand] + row);
        fn of<T: Copy>(x: &[T], many: Option<std::ops::Range<usize>>, one: usize) -> Row<'_, T> {
            many.map_or_else(|| Row::One(x[one]), |range| Row::Many(&x[range]))
        }
        select(
            isa,
            y,
            of(mask, many(0), start[0]),
            of(a, many(1), start[1]),
            of(b, many(2), start[2]),
        );
    }
}

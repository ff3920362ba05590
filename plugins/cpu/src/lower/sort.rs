//! TopK of a known k.
//!
//! Not here: the other ops that order elements, whose results have sizes that only the run knows.

use half::{bf16, f16};
use polychip_cpu_kernels::top_k::{Ordered, top_k};
use polychip_ops::{Attr, DType, Op, axis};
use polychip_sdk::Result;

use super::builder::Lowering;
use crate::part::Node;
use crate::step::{Operands, Plain};
use crate::work::Class;

/// Rows of `n` elements, each `inner` from the last.
#[derive(Clone, Copy)]
struct Rows {
    outer: usize,
    n: usize,
    k: usize,
    inner: usize,
    largest: bool,
}

impl Rows {
    /// Writes values, indices, and keys as scratch; `number` makes a stored element a number with an order.
    fn run<T: Plain, N: Ordered>(self, o: &mut Operands<'_>, number: fn(T) -> N) {
        let Rows {
            outer,
            n,
            k,
            inner,
            largest,
        } = self;
        let (x, values, places, scratch) = (
            o.read::<T>(0),
            o.write::<T>(0),
            o.write::<i64>(1),
            o.write::<i64>(2),
        );
        let (keys, found) = scratch.split_at_mut(k);
        for row in 0..outer * inner {
            let (before, i) = (row / inner, row % inner);
            let from = before * n * inner + i;
            top_k(n, |j| number(x[from + j * inner]), largest, keys, found);
            for (rank, &j) in found.iter().enumerate() {
                let to = (before * k + rank) * inner + i;
                values[to] = x[from + j as usize * inner];
                places[to] = j;
            }
        }
    }
}

/// Lowers a node of this sort.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Op::TopK, Some(x)) = (node.op, node.input(0)) else {
        return Ok(false);
    };
    let (values, places) = (node.output(0), node.output(1));
    let Some(shaped) = values.or(places) else {
        return Ok(false);
    };
    let plain = |t: usize| l.part.tensors[t].encoding.is_none();
    let (from, to) = (l.shape(x)?.to_vec(), l.shape(shaped)?.to_vec());
    let along = node.attributes.int(Attr::Axis).unwrap_or(-1);
    let Some(axis) = axis::normalise(along, from.len()).filter(|_| from.len() == to.len()) else {
        return Ok(false);
    };
    if !plain(x) || !values.is_none_or(plain) || to[axis] > from[axis] {
        return Ok(false);
    }
    let rows = Rows {
        outer: from[..axis].iter().product(),
        n: from[axis],
        k: to[axis],
        inner: from[axis + 1..].iter().product(),
        largest: node.attributes.int(Attr::Largest).unwrap_or(1) != 0,
    };
    type Run = fn(Rows, &mut Operands<'_>);
    let run: Run = match l.dtype(x) {
        DType::F32 => |rows, o| rows.run::<f32, f32>(o, |v| v),
        DType::F64 => |rows, o| rows.run::<f64, f64>(o, |v| v),
        DType::F16 => |rows, o| rows.run::<u16, f16>(o, f16::from_bits),
        DType::BF16 => |rows, o| rows.run::<u16, bf16>(o, bf16::from_bits),
        DType::I8 => |rows, o| rows.run::<i8, i8>(o, |v| v),
        DType::I16 => |rows, o| rows.run::<i16, i16>(o, |v| v),
        DType::I32 => |rows, o| rows.run::<i32, i32>(o, |v| v),
        DType::I64 => |rows, o| rows.run::<i64, i64>(o, |v| v),
        DType::U8 => |rows, o| rows.run::<u8, u8>(o, |v| v),
        DType::U16 => |rows, o| rows.run::<u16, u16>(o, |v| v),
        DType::U32 => |rows, o| rows.run::<u32, u32>(o, |v| v),
        DType::U64 => |rows, o| rows.run::<u64, u64>(o, |v| v),
        _ => return Ok(false),
    };
    let input = l.as_is(x)?;
    let found = match values {
        Some(values) => l.write_as_is(values)?,
        None => l.fresh(l.dtype(x), to.clone())?,
    };
    let indices = match places {
        Some(places) => l.write_rows(places)?,
        None => l.fresh(DType::I64, to)?,
    };
    let scratch = l.fresh(DType::I64, vec![2 * rows.k])?;
    let elements: usize = from.iter().product();
    l.step(
        "TopK",
        &[input],
        &[found, indices, scratch],
        None,
        Box::new(move |o| {
            run(rows, o);
            Ok(())
        }),
    )
    .does(Class::Order, elements);
    Ok(true)
}

//! TopK of a known k.
//!
//! Not here: the other ops that order elements, whose results have sizes that only the run knows.

use half::{bf16, f16};
use polychip_cpu_kernels::Isa;
use polychip_cpu_kernels::top_k::{Ordered, Rows};
use polychip_ops::operator::TopK;
use polychip_ops::{DType, Op, axis};
use polychip_sdk::Result;

use super::builder::Lowering;
use crate::part::Node;
use crate::step::{Operands, Plain};
use crate::work::Class;

/// Writes values, places, and keys as scratch; `number` makes a stored element a number with an order.
fn run<T: Plain, N: Ordered>(
    rows: Rows,
    o: &mut Operands<'_>,
    isa: Isa,
    number: impl Fn(T) -> N + Copy + Send + Sync,
) {
    let (x, values, places) = (o.read::<T>(0), o.write::<T>(0), o.write(1));
    let (keys, line) = (o.write(2), o.write::<T>(3));
    rows.run(isa, o.pool, number, x, values, places, keys, line);
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
    let Ok(TopK {
        axis: along, largest, ..
    }) = node.typed()
    else {
        return Ok(false);
    };
    let Some(axis) = axis::normalise(along, from.len()).filter(|_| from.len() == to.len()) else {
        return Ok(false);
    };
    // a k that only the run knows may be stated in another way by each output
    let mut others = (0..from.len()).filter(|&other| other != axis);
    let fits = others.all(|other| to[other] == from[other])
        && places.is_none_or(|places| l.shape(places).is_ok_and(|dims| *dims == *to));
    if !plain(x) || !values.is_none_or(plain) || to[axis] > from[axis] || !fits {
        return Ok(false);
    }
    let rows = Rows {
        outer: from[..axis].iter().product(),
        n: from[axis],
        k: to[axis],
        inner: from[axis + 1..].iter().product(),
        largest,
    };
    type Run = fn(Rows, &mut Operands<'_>, Isa);
    let run: Run = match l.dtype(x) {
        DType::F32 => |rows, o, isa| run::<f32, f32>(rows, o, isa, |v| v),
        DType::F64 => |rows, o, isa| run::<f64, f64>(rows, o, isa, |v| v),
        DType::F16 => |rows, o, isa| run::<u16, f16>(rows, o, isa, f16::from_bits),
        DType::BF16 => |rows, o, isa| run::<u16, bf16>(rows, o, isa, bf16::from_bits),
        DType::I8 => |rows, o, isa| run::<i8, i8>(rows, o, isa, |v| v),
        DType::I16 => |rows, o, isa| run::<i16, i16>(rows, o, isa, |v| v),
        DType::I32 => |rows, o, isa| run::<i32, i32>(rows, o, isa, |v| v),
        DType::I64 => |rows, o, isa| run::<i64, i64>(rows, o, isa, |v| v),
        DType::U8 => |rows, o, isa| run::<u8, u8>(rows, o, isa, |v| v),
        DType::U16 => |rows, o, isa| run::<u16, u16>(rows, o, isa, |v| v),
        DType::U32 => |rows, o, isa| run::<u32, u32>(rows, o, isa, |v| v),
        DType::U64 => |rows, o, isa| run::<u64, u64>(rows, o, isa, |v| v),
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
    let scratch = l.fresh(DType::I64, vec![rows.scratch_len(l.pool)])?;
    let line = l.fresh(l.dtype(x), vec![rows.line_len(l.pool)])?;
    let isa = l.isa;
    let elements: usize = from.iter().product();
    l.step(
        "TopK",
        &[input],
        &[found, indices, scratch, line],
        None,
        Box::new(move |o| {
            run(rows, o, isa);
            Ok(())
        }),
    )
    .does(Class::Order, elements);
    Ok(true)
}

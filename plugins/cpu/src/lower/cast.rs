//! Changes of element type: Cast, QuantizeLinear and DequantizeLinear.
//!
//! Not here: what an encoding of a tensor means (`encoding`), and how its forms are made (`materialize`).

use polychip_cpu_kernels::Isa;
use polychip_cpu_kernels::convert::{self, Integer, Scales};
use polychip_lowering::{Layout, Storage};
use polychip_ops::operator::{Cast, Dequantize, Quantize};
use polychip_ops::{DType, Op, Operator};
use polychip_sdk::Result;

use super::builder::Lowering;
use super::encoding::{range, stands_for_f32};
use super::quantise::{dequantise, quantise};
use super::steps;
use crate::part::{Encoding, EncodingKind, Node, Part, TensorIndex};
use crate::step::{Operands, Plain, Step, ValueId};
use crate::work::Class;

/// Axis and block of a node that quantises or dequantises, and the types that it states.
struct Stated {
    axis: i64,
    block: usize,
    types: [Option<DType>; 2],
}

impl Stated {
    fn of(node: &Node) -> Option<Stated> {
        let (axis, block, types) = match node.operator().ok()? {
            Operator::QuantizeLinear(Quantize {
                axis,
                block,
                output,
                precision,
                ..
            }) => (axis, block, [output, precision]),
            Operator::DequantizeLinear(Dequantize { axis, block, output }) => (axis, block, [output, None]),
            _ => return None,
        };
        Some(Stated { axis, block, types })
    }
}

/// The encoding that QuantizeLinear or DequantizeLinear states with constants, for a tensor of `dims`.
fn stated(part: &Part, node: &Node, dims: &[usize], dtype: DType) -> Option<Encoding> {
    let scale = node.input(1)?;
    let scales: Vec<f32> = part
        .numbers(scale)?
        .into_iter()
        .map(|value| value as f32)
        .collect();
    let zero_points: Vec<i32> = match node.input(2) {
        None => Vec::new(),
        Some(t) if part.tensors[t].dtype == dtype => {
            part.numbers(t)?.into_iter().map(|value| value as i32).collect()
        }
        Some(_) => return None,
    };
    let fits = zero_points.is_empty() || zero_points.len() == scales.len();
    let stated = Stated::of(node)?;
    if !fits || !part.plain_f32(scale) || stated.block != 0 {
        return None;
    }
    let kind = if scales.len() == 1 {
        EncodingKind::PerTensor
    } else {
        let axis = polychip_ops::axis::normalise(stated.axis, dims.len())?;
        if dims[axis] != scales.len() {
            return None;
        }
        EncodingKind::PerAxis { axis }
    };
    Some(Encoding {
        kind,
        scales,
        zero_points,
        real_dtype: DType::F32,
    })
}

/// Whether a node is QuantizeLinear or DequantizeLinear on a tensor that carries the encoding itself.
fn covers(part: &Part, node: &Node) -> bool {
    let (Some(x), Some(y)) = (node.input(0), node.output(0)) else {
        return false;
    };
    let encoded = |t: usize| part.tensors[t].encoding.is_some() && stands_for_f32(part, t);
    match node.op {
        Op::QuantizeLinear => part.plain_f32(x) && encoded(y),
        Op::DequantizeLinear => encoded(x) && part.plain_f32(y),
        _ => false,
    }
}

/// Lowers QuantizeLinear and DequantizeLinear between f32 and integers.
fn linear(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Some(x), Some(y)) = (node.input(0), node.output(0)) else {
        return Ok(false);
    };
    let part = l.part;
    if covers(part, node) {
        // the values pass; behind QuantizeLinear they are rounded as behind any op
        let layout = l.layout(x);
        let value = l.read(x, layout, Storage::Real)?;
        let shape = l.value_shape(value).to_vec();
        let view = l.view(value, shape);
        l.tensor_forms[y].set(layout, Storage::Real, view);
        return Ok(true);
    }
    let (real, integer) = if node.op == Op::QuantizeLinear {
        (x, y)
    } else {
        (y, x)
    };
    let dtype = l.dtype(integer);
    let whole = part.tensors[integer].encoding.is_none() && range(dtype).is_some();
    if !part.plain_f32(real) || !whole {
        return Ok(false);
    }
    if scaled(l, node, dtype)? {
        return Ok(true);
    }
    let dims = l.shape(x)?.to_vec();
    let Some(encoding) = stated(part, node, &dims, dtype) else {
        return Ok(false);
    };
    let input = l.rows(x)?;
    let output = l.write_rows(y)?;
    if node.op == Op::QuantizeLinear {
        quantise(l, dtype, &dims, encoding, input, output)?;
    } else {
        dequantise(l, dtype, &dims, encoding, input, output)?;
    }
    Ok(true)
}

/// Lowers them by the kernels that take scales and zeros as they are, constants or not: one, one along an axis, or one for each
/// block along it.
fn scaled(l: &mut Lowering<'_>, node: &Node, dtype: DType) -> Result<bool> {
    let (Some(x), Some(scale), Some(y)) = (node.input(0), node.input(1), node.output(0)) else {
        return Ok(false);
    };
    let dims = l.shape(x)?;
    let of = l.shape(scale)?;
    let count: usize = of.iter().product();
    let Some(stated) = Stated::of(node) else {
        return Ok(false);
    };
    let axis = polychip_ops::axis::normalise(stated.axis, dims.len());
    let scales = match (stated.block, axis) {
        (0, _) if count == 1 => Scales::ONE,
        (block, Some(axis)) => {
            let own = |d: usize| {
                if d == axis {
                    dims[d].div_ceil(block.max(1))
                } else {
                    dims[d]
                }
            };
            let blocks = block > 0 && of.len() == dims.len() && (0..of.len()).all(|d| of[d] == own(d));
            let axes = block == 0 && *of == [dims[axis]];
            if !blocks && !axes {
                return Ok(false);
            }
            Scales {
                axis: dims[axis],
                inner: dims[axis + 1..].iter().product(),
                block,
            }
        }
        _ => return Ok(false),
    };
    let zero = node.input(2);
    let zeros_fit = |zero: TensorIndex| -> Result<bool> {
        let plain = l.part.tensors[zero].encoding.is_none();
        Ok(plain && l.dtype(zero) == dtype && l.shape(zero)?.iter().product::<usize>() == count)
    };
    let empty = dims.contains(&0) || of.contains(&0);
    // the type in which the quotient is rounded is f32 unless stated
    let other = |given: Option<DType>| given.is_some_and(|given| given != DType::F32 && given != dtype);
    let stated = stated.types.into_iter().any(other);
    if empty || stated || !l.part.plain_f32(scale) || !zero.map_or(Ok(true), zeros_fit)? {
        return Ok(false);
    }
    fn run<T: Plain + Integer>(
        o: &mut Operands<'_>,
        isa: Isa,
        scales: Scales,
        to_integers: bool,
        has_zero: bool,
    ) {
        let scale = o.read::<f32>(1);
        let zero = has_zero.then(|| o.read::<T>(2));
        if to_integers {
            convert::quantise(isa, o.pool, scales, o.read(0), (scale, zero), o.write::<T>(0));
        } else {
            convert::dequantise(isa, o.pool, scales, o.read::<T>(0), (scale, zero), o.write(0));
        }
    }
    let run = match dtype {
        DType::I8 => run::<i8>,
        DType::U8 => run::<u8>,
        DType::I16 => run::<i16>,
        DType::U16 => run::<u16>,
        DType::I32 => run::<i32>,
        _ => return Ok(false),
    };
    let mut reads = vec![l.rows(x)?, l.rows(scale)?];
    if let Some(zero) = zero {
        reads.push(l.rows(zero)?);
    }
    let (isa, to) = (l.isa, l.write_rows(y)?);
    let (to_integers, has_zero) = (node.op == Op::QuantizeLinear, zero.is_some());
    let (name, class) = if to_integers {
        ("quantise", Class::Quantise)
    } else {
        ("dequantise", Class::Dequantise)
    };
    l.step(
        name,
        &reads,
        &[to],
        None,
        Box::new(move |o| {
            run(o, isa, scales, to_integers, has_zero);
            Ok(())
        }),
    )
    .is(class);
    Ok(true)
}

/// Lowers Cast between the types that models compute with, and the two ops of quantisation.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    if matches!(node.op, Op::QuantizeLinear | Op::DequantizeLinear) {
        return linear(l, node);
    }
    if node.op == Op::BitCast {
        return bits(l, node);
    }
    if !matches!(node.op, Op::Cast | Op::CastLike) {
        return Ok(false);
    }
    let (Some(x), Some(y)) = (node.input(0), node.output(0)) else {
        return Ok(false);
    };
    if l.part.tensors[x].encoding.is_some() || l.part.tensors[y].encoding.is_some() {
        return Ok(false);
    }
    let (from, to) = (l.dtype(x), l.dtype(y));
    if node.op == Op::Cast && !node.typed::<Cast>().is_ok_and(|cast| cast.to == to) {
        return Ok(false);
    }
    let half = |dtype| matches!(dtype, DType::F16 | DType::BF16);
    match (from, to) {
        _ if half(from) && half(to) && from == to => {
            let value = l.as_is(x)?;
            let shape = l.value_shape(value).to_vec();
            let view = l.view(value, shape);
            l.tensor_forms[y].set(Layout::RowMajor, Storage::Stored, view);
        }
        (_, DType::F32) if half(from) => widened(l, x, y)?,
        _ if half(to) && (half(from) || from == DType::F32) => rounded(l, x, y)?,
        _ if half(from) => {
            // the number that 16 bits hold is cut off, not the one that they were rounded from
            let Some(run) = numbers(DType::F32, to) else {
                return Ok(false);
            };
            let stored = l.as_is(x)?;
            let wide = l.fresh(DType::F32, l.shape(x)?.to_vec())?;
            steps::widen(l, stored, wide);
            let output = l.write_rows(y)?;
            convert(l, run, wide, output).is(class(DType::F32, to));
        }
        _ if half(to) => {
            // what f32 does not hold exactly would be rounded twice
            let exact = to == DType::F16 || from.byte_width().is_some_and(|width| width <= 2);
            let Some(run) = numbers(from, DType::F32).filter(|_| exact && from != DType::F64) else {
                return Ok(false);
            };
            let input = l.rows(x)?;
            let wide = l.fresh(DType::F32, l.shape(x)?.to_vec())?;
            convert(l, run, input, wide).is(class(from, DType::F32));
            let output = l.write_as_is(y)?;
            steps::narrow(l, wide, output);
        }
        _ => {
            let Some(run) = numbers(from, to) else {
                return Ok(false);
            };
            let layout = l.layout(x);
            let input = l.read(x, layout, Storage::Real)?;
            let output = l.write(y, layout, Storage::Real)?;
            convert(l, run, input, output).is(class(from, to));
        }
    }
    Ok(true)
}

/// The same bits as another type of as many.
fn bits(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Some(x), Some(y)) = (node.input(0), node.output(0)) else {
        return Ok(false);
    };
    let plain = |t: TensorIndex| l.part.tensors[t].encoding.is_none();
    if !plain(x) || !plain(y) || l.dtype(x).byte_width().is_none() || l.dtype(x) == DType::Bool {
        return Ok(false);
    }
    if l.dtype(y) == DType::Bool || l.dtype(x).byte_width() != l.dtype(y).byte_width() {
        return Ok(false);
    }
    let (isa, from, to) = (l.isa, l.as_is(x)?, l.write_as_is(y)?);
    l.step(
        "BitCast",
        &[from],
        &[to],
        None,
        Box::new(move |o| {
            convert::each(isa, o.pool, o.read::<u8>(0), o.write::<u8>(0), |byte| byte);
            Ok(())
        }),
    )
    .is(Class::Copy);
    Ok(true)
}

/// f32 of 16-bit floats: what they were computed as, where they were.
fn widened(l: &mut Lowering<'_>, x: TensorIndex, y: TensorIndex) -> Result<()> {
    if l.has_channels(x) || l.tensor_forms[x].get(Layout::RowMajor, Storage::Stored).is_none() {
        let layout = l.layout(x);
        let value = l.read(x, layout, Storage::Real)?;
        let shape = l.value_shape(value).to_vec();
        let view = l.view(value, shape);
        l.tensor_forms[y].set(layout, Storage::Real, view);
        return Ok(());
    }
    let (input, output) = (l.as_is(x)?, l.write_rows(y)?);
    steps::widen(l, input, output);
    Ok(())
}

/// Values rounded to 16 bits; images stay channels last.
fn rounded(l: &mut Lowering<'_>, x: TensorIndex, y: TensorIndex) -> Result<()> {
    let layout = l.layout(x);
    let input = l.read(x, layout, Storage::Real)?;
    if layout == Layout::RowMajor {
        let output = l.write_as_is(y)?;
        steps::narrow(l, input, output);
        return Ok(());
    }
    let shape = l.value_shape(input).to_vec();
    let narrow = l.fresh(l.dtype(y), shape)?;
    steps::narrow(l, input, narrow);
    let output = l.write(y, layout, Storage::Real)?;
    steps::widen(l, narrow, output);
    Ok(())
}

/// Adds a conversion's step.
fn convert<'l>(
    l: &'l mut Lowering<'_>,
    run: fn(Isa, &mut Operands<'_>),
    input: ValueId,
    output: ValueId,
) -> &'l mut Step {
    let isa = l.isa;
    l.step(
        "cast",
        &[input],
        &[output],
        None,
        Box::new(move |o| {
            run(isa, o);
            Ok(())
        }),
    )
}

fn class(from: DType, to: DType) -> Class {
    if from.is_float() && !to.is_float() && to != DType::Bool {
        Class::Truncate
    } else {
        Class::Convert
    }
}

/// The conversion between two types of numbers or truth values: floats are cut off towards zero, integers wrap.
fn numbers(from: DType, to: DType) -> Option<fn(Isa, &mut Operands<'_>)> {
    fn each<A: Plain, B: Plain>((isa, o): (Isa, &mut Operands<'_>), f: impl Fn(A) -> B + Copy + Sync) {
        convert::each(isa, o.pool, o.read::<A>(0), o.write::<B>(0), f);
    }
    macro_rules! to {
        ($from:ty, $way:ty) => {
            match to {
                DType::Bool => |isa, o| each::<$from, u8>((isa, o), |x| u8::from(x != <$from>::default())),
                DType::I8 => |isa, o| each::<$from, i8>((isa, o), |x| x as $way as i8),
                DType::I16 => |isa, o| each::<$from, i16>((isa, o), |x| x as $way as i16),
                DType::I32 => |isa, o| each::<$from, i32>((isa, o), |x| x as $way as i32),
                DType::I64 => |isa, o| each::<$from, i64>((isa, o), |x| x as $way as i64),
                DType::U8 => |isa, o| each::<$from, u8>((isa, o), |x| x as $way as u8),
                DType::U16 => |isa, o| each::<$from, u16>((isa, o), |x| x as $way as u16),
                DType::U32 => |isa, o| each::<$from, u32>((isa, o), |x| x as $way as u32),
                DType::U64 => |isa, o| each::<$from, u64>((isa, o), |x| x as $way as u64),
                DType::F32 => |isa, o| each::<$from, f32>((isa, o), |x| x as f32),
                DType::F64 => |isa, o| each::<$from, f64>((isa, o), |x| x as f64),
                _ => return None,
            }
        };
    }
    macro_rules! cut {
        ($to:ty) => {
            |isa, o| {
                convert::cut(
                    isa,
                    o.pool,
                    o.read::<f32>(0),
                    o.write::<$to>(0),
                    |x| x as $to,
                    |x| x as $to,
                )
            }
        };
    }
    Some(match from {
        // a truth value is 0 or 1, whatever its byte is
        DType::Bool if to != DType::Bool => match to {
            DType::I8 | DType::U8 => |isa, o| each::<u8, u8>((isa, o), |x| u8::from(x != 0)),
            DType::I16 | DType::U16 => |isa, o| each::<u8, u16>((isa, o), |x| u16::from(x != 0)),
            DType::I32 | DType::U32 => |isa, o| each::<u8, u32>((isa, o), |x| u32::from(x != 0)),
            DType::I64 | DType::U64 => |isa, o| each::<u8, u64>((isa, o), |x| u64::from(x != 0)),
            DType::F32 => |isa, o| each::<u8, f32>((isa, o), |x| f32::from(u8::from(x != 0))),
            DType::F64 => |isa, o| each::<u8, f64>((isa, o), |x| f64::from(u8::from(x != 0))),
            _ => return None,
        },
        DType::Bool | DType::U8 => to!(u8, u8),
        DType::I8 => to!(i8, i8),
        DType::I16 => to!(i16, i16),
        DType::I32 => to!(i32, i32),
        DType::I64 => to!(i64, i64),
        DType::U16 => to!(u16, u16),
        DType::U32 => to!(u32, u32),
        DType::U64 => to!(u64, u64),
        // what is negative wraps, as an integer does; what no integer of 64 bits holds is the nearest one
        DType::F32 if to == DType::U64 => {
            |isa, o| each::<f32, u64>((isa, o), |x| (x as i64 as u64).max(x as u64))
        }
        DType::F64 if to == DType::U64 => {
            |isa, o| each::<f64, u64>((isa, o), |x| (x as i64 as u64).max(x as u64))
        }
        DType::F32 if to == DType::I64 => |isa, o| each::<f32, i64>((isa, o), convert::truncated),
        DType::F32 if to == DType::I32 => cut!(i32),
        DType::F32 if to == DType::U32 => cut!(u32),
        DType::F32 if to == DType::I16 => cut!(i16),
        DType::F32 if to == DType::U16 => cut!(u16),
        DType::F32 if to == DType::I8 => cut!(i8),
        DType::F32 if to == DType::U8 => cut!(u8),
        DType::F32 => to!(f32, i64),
        DType::F64 => to!(f64, i64),
        _ => return None,
    })
}

//! MaxPool of integers and with places, and MaxUnpool, in ONNX order.
//!
//! Not here: pools of f32 alone (`pool`), of codes (`int8`).

use polychip_cpu_kernels::argreduce::Extreme;
use polychip_cpu_kernels::quantised::max_pool;
use polychip_cpu_kernels::window_max::{Window, max_windows, max_windows_of_bytes};
use polychip_lowering::Storage;
use polychip_ops::operator::MaxPool;
use polychip_ops::{DType, Op};
use polychip_sdk::{Error, ErrorKind, Result};

use super::builder::Lowering;
use super::window;
use crate::part::{Node, TensorIndex};
use crate::step::{Operands, Plain};
use crate::work::Class;

/// Lowers a node of this sort.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    match node.op {
        Op::MaxPool => pool(l, node),
        Op::MaxUnpool => unpool(l, node),
        _ => Ok(false),
    }
}

fn pool(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Some(x), Some(y)) = (node.input(0), node.output(0)) else {
        return Ok(false);
    };
    let plain = |t: TensorIndex| l.part.tensors[t].encoding.is_none();
    let by_row = node.typed::<MaxPool>().is_ok_and(|pool| !pool.column_major);
    if !by_row || !plain(x) || !plain(y) || !(3..=4).contains(&l.shape(x)?.len()) {
        return Ok(false);
    }
    let params = window::pool(l, node, x, y)?;
    let of = params.window;
    let pair = |values: [usize; 3]| [values[1], values[2]];
    let window = Window {
        input: pair(of.input),
        output: pair(of.output),
        kernel: pair(of.kernel),
        strides: pair(of.strides),
        dilations: pair(of.dilations),
        pads: pair(of.pads),
    };
    let planes = params.batch * params.channels;
    let isa = l.isa;
    let places = node.output(1);
    let given = places.is_some();
    fn run<T: Plain + Extreme>(
        o: &mut Operands<'_>,
        isa: polychip_cpu_kernels::Isa,
        planes: usize,
        window: &Window,
        given: bool,
    ) {
        let (x, y) = (o.read::<T>(0), o.write::<T>(0));
        let places = given.then(|| o.write::<i64>(1));
        max_windows(isa, o.pool, planes, window, x, y, places);
    }
    let seen = window::taps(l.shape(x)?, l.shape(y)?, node);
    if l.dtype(x) == DType::U8 && !given {
        let of_channels = l.is_channels_only(x);
        let layout = l.layout(x);
        let from = l.read(x, layout, Storage::Real)?;
        let to = l.write(y, layout, Storage::Real)?;
        let (n, c) = (params.batch, params.channels);
        l.step(
            "MaxPool",
            &[from],
            &[to],
            None,
            Box::new(move |o| {
                let (x, y) = (o.read(0), o.write(0));
                if of_channels {
                    max_pool(isa, o.pool, (n, c), &params.window, x, y);
                } else {
                    max_windows_of_bytes(isa, o.pool, planes, &window, x, y);
                }
                Ok(())
            }),
        )
        .does(Class::PoolCodes, seen);
        return Ok(true);
    }
    let run = match l.real_dtype(x) {
        // where a window begins, and so whether NaN wins, is known with places only
        _ if l.is_f32(x) && l.is_f32(y) && given => run::<f32>,
        DType::U8 if given => run::<u8>,
        DType::I8 => run::<i8>,
        DType::F64 if given => run::<f64>,
        _ => return Ok(false),
    };
    let from = l.rows(x)?;
    let mut writes = vec![l.write_rows(y)?];
    if let Some(places) = places {
        writes.push(l.write_rows(places)?);
    }
    let class = if given { Class::Select } else { Class::Arithmetic };
    l.step(
        "MaxPool",
        &[from],
        &writes,
        None,
        Box::new(move |o| {
            run(o, isa, planes, &window, given);
            Ok(())
        }),
    )
    .does(class, seen);
    Ok(true)
}

/// Zeros, and elements at the places that indices name in a tensor of the same extents.
fn unpool(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Some(x), Some(places), Some(y)) = (node.input(0), node.input(1), node.output(0)) else {
        return Ok(false);
    };
    if !l.is_f32(x) || !l.is_f32(y) || l.dtype(places) != DType::I64 {
        return Ok(false);
    }
    let count: usize = l.shape(x)?.iter().product();
    if l.shape(places)?.iter().product::<usize>() != count {
        return Ok(false);
    }
    let (reads, to) = ([l.rows(x)?, l.rows(places)?], l.write_rows(y)?);
    l.step(
        "MaxUnpool",
        &reads,
        &[to],
        None,
        Box::new(move |o| {
            let (x, places, y) = (o.read::<f32>(0), o.read::<i64>(1), o.write::<f32>(0));
            y.fill(0.0);
            for (&x, &place) in x.iter().zip(places) {
                let at = usize::try_from(place).ok().and_then(|place| y.get_mut(place));
                *at.ok_or_else(|| {
                    let message = format!("MaxUnpool: place {place} is outside the result");
                    Error::new(ErrorKind::BadArgument, message)
                })? = x;
            }
            Ok(())
        }),
    )
    .does(Class::Select, count);
    Ok(true)
}

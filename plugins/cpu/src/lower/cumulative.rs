//! CumSum and CumProd: prefix sums and products along an axis.
//!
//! Not here: ONNX's Scan, which runs a body graph (`scan`).

use polychip_cpu_kernels::Isa;
use polychip_cpu_kernels::scan::{self, Accumulate, Scan};
use polychip_ops::operator::Cumulative;
use polychip_ops::{DType, Op};
use polychip_sdk::Result;

use super::argreduce::around;
use super::builder::Lowering;
use crate::part::{Node, TensorIndex};
use crate::step::{Plain, Run};
use crate::work::Class;

/// Lowers CumSum or CumProd.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Op::CumSum | Op::CumProd, Some(x), Some(y)) = (node.op, node.input(0), node.output(0)) else {
        return Ok(false);
    };
    let plain = |t: TensorIndex| l.part.tensors[t].encoding.is_none();
    if !node.reads().chain([y]).all(plain) {
        return Ok(false);
    }
    let along = node.input(1).and_then(|t| l.part.scalar(t));
    let Some(shape) = along.and_then(|along| around(l.shape(x).ok()?, along as i64)) else {
        return Ok(false);
    };
    let Ok(attributes) = node.typed::<Cumulative>() else {
        return Ok(false);
    };
    let rule = Scan {
        product: node.op == Op::CumProd,
        exclusive: attributes.exclusive,
        reverse: attributes.reverse,
    };
    let isa = l.isa;
    fn of<T: Plain + Accumulate>(isa: Isa, shape: [usize; 3], rule: Scan) -> Run {
        Box::new(move |o| {
            scan::scan(isa, o.pool, shape, rule, o.read::<T>(0), o.write(0));
            Ok(())
        })
    }
    let run = match l.real_dtype(x) {
        _ if l.is_f32(x) && l.is_f32(y) => of::<f32>(isa, shape, rule),
        DType::F64 => of::<f64>(isa, shape, rule),
        DType::I32 => of::<i32>(isa, shape, rule),
        DType::I64 => of::<i64>(isa, shape, rule),
        _ => return Ok(false),
    };
    let (from, to) = (l.rows(x)?, l.write_rows(y)?);
    l.step(node.op.name(), &[from], &[to], None, run)
        .is(Class::Running);
    Ok(true)
}

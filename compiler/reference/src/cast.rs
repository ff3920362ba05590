//! Ops that change the element type.
//!
//! Invariant: the destination type comes from an attribute or an example, never from values.

use polychip_cpu_kernels::reference::Element;
use polychip_cpu_kernels::reference::cast as kernel;
use polychip_cpu_kernels::reference::minifloat::ScaleRounding;
use polychip_ops::operator::{BitCast, Cast, CastLike, CastRounding};
use polychip_ops::{DType, DTypes, Op};

use crate::call::{Call, Outputs, one};
use crate::literal::element;
use crate::row::{ANY, Row};

const FIXED_WIDTH: DTypes = ANY.without(DTypes::of(&[DType::String]));
const REAL_OR_TEXT: DTypes = ANY.without(DTypes::of(&[DType::C64, DType::C128]));

pub(crate) fn row(op: Op) -> Option<Row> {
    Some(match op {
        Op::Cast => Row {
            takes: &[REAL_OR_TEXT],
            run: |c| {
                let node: Cast = c.typed()?;
                cast(c, element(node.to), node.saturate, node.rounding)
            },
        },
        Op::CastLike => Row {
            takes: &[REAL_OR_TEXT, REAL_OR_TEXT],
            run: |c| {
                let node: CastLike = c.typed()?;
                cast(c, c.input(1)?.element(), node.saturate, node.rounding)
            },
        },
        Op::BitCast => Row {
            takes: &[FIXED_WIDTH],
            run: |c| one(kernel::bit_cast(c.input(0)?, element(c.typed::<BitCast>()?.to))),
        },
        _ => return None,
    })
}

fn cast(c: &Call<'_>, to: Element, saturate: bool, rounding: CastRounding) -> Outputs {
    let rounding = match rounding {
        CastRounding::Up => ScaleRounding::Up,
        CastRounding::Down => ScaleRounding::Down,
        CastRounding::Nearest => ScaleRounding::Nearest,
    };
    one(kernel::cast(c.input(0)?, to, saturate, rounding))
}

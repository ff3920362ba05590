//! Ops that change the element type.
//!
//! Invariant: the destination type comes from an attribute or an example, never from values.

use polychip_cpu_kernels::reference::Element;
use polychip_cpu_kernels::reference::cast as kernel;
use polychip_cpu_kernels::reference::minifloat::ScaleRounding;
use polychip_ops::{Attr, DType, DTypes, Op};

use crate::call::{Call, Outputs, bad, one};
use crate::literal::element;
use crate::row::{ANY, Row};

const FIXED_WIDTH: DTypes = ANY.without(DTypes::of(&[DType::String]));
const REAL_OR_TEXT: DTypes = ANY.without(DTypes::of(&[DType::C64, DType::C128]));

pub(crate) fn row(op: Op) -> Option<Row> {
    Some(match op {
        Op::Cast => Row {
            takes: &[REAL_OR_TEXT],
            run: |c| cast(c, to(c)?),
        },
        Op::CastLike => Row {
            takes: &[REAL_OR_TEXT, REAL_OR_TEXT],
            run: |c| cast(c, c.input(1)?.element()),
        },
        Op::BitCast => Row {
            takes: &[FIXED_WIDTH],
            run: |c| one(kernel::bit_cast(c.input(0)?, to(c)?)),
        },
        _ => return None,
    })
}

fn to(c: &Call<'_>) -> polychip_cpu_kernels::reference::Result<Element> {
    match c.dtype(Attr::To)? {
        Some(dtype) => Ok(element(dtype)),
        None => bad("attribute to is missing"),
    }
}

fn cast(c: &Call<'_>, to: Element) -> Outputs {
    let rounding = match c.text(Attr::RoundMode, "up") {
        "up" => ScaleRounding::Up,
        "down" => ScaleRounding::Down,
        "nearest" => ScaleRounding::Nearest,
        other => return bad(format!("round_mode is {other:?}, not up, down or nearest")),
    };
    one(kernel::cast(
        c.input(0)?,
        to,
        c.flag(Attr::Saturate, true),
        rounding,
    ))
}

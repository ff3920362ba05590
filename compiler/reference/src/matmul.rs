//! Matrix products, Einsum and Det.
//!
//! Invariant: integer products are exact before they wrap.

use polychip_cpu_kernels::reference::Tensor;
use polychip_cpu_kernels::reference::matmul as kernel;
use polychip_ops::{Attr, Op};

use crate::call::{Call, Outputs, bad, one};
use crate::row::{FLOATS, NUMBERS, Row};

pub(crate) fn row(op: Op) -> Option<Row> {
    Some(match op {
        Op::MatMul => Row {
            takes: &[NUMBERS],
            run: |c| one(kernel::matmul(c.input(0)?, c.input(1)?)),
        },
        Op::Gemm => Row {
            takes: &[NUMBERS],
            run: gemm,
        },
        Op::Einsum => Row {
            takes: &[NUMBERS],
            run: einsum,
        },
        Op::Det => Row {
            takes: &[FLOATS],
            run: |c| one(kernel::det(c.input(0)?)),
        },
        _ => return None,
    })
}

fn gemm(c: &Call<'_>) -> Outputs {
    let side = |i, attr| -> polychip_cpu_kernels::reference::Result<Tensor> {
        let x = c.input(i)?;
        if c.flag(attr, false) {
            kernel::transposed(x)
        } else {
            Ok(x.clone())
        }
    };
    let (a, b) = (side(0, Attr::TransA)?, side(1, Attr::TransB)?);
    one(kernel::gemm(
        &a,
        &b,
        c.optional(2),
        c.float(Attr::Alpha, 1.0),
        c.float(Attr::Beta, 1.0),
    ))
}

fn einsum(c: &Call<'_>) -> Outputs {
    match c.attributes.str(Attr::Equation) {
        Some(equation) => one(kernel::einsum(equation, &c.list(0)?)),
        None => bad("attribute equation is missing"),
    }
}

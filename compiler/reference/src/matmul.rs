//! Matrix products, Einsum and Det.
//!
//! Invariant: integer products are exact before they wrap.

use polychip_cpu_kernels::reference::Tensor;
use polychip_cpu_kernels::reference::matmul as kernel;
use polychip_ops::Op;
use polychip_ops::operator::{Einsum, Gemm};

use crate::call::{Call, Outputs, one};
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
    let gemm: Gemm = c.typed()?;
    let side = |i, transposed| -> polychip_cpu_kernels::reference::Result<Tensor> {
        let x = c.input(i)?;
        if transposed {
            kernel::transposed(x)
        } else {
            Ok(x.clone())
        }
    };
    let (a, b) = (side(0, gemm.trans_a)?, side(1, gemm.trans_b)?);
    one(kernel::gemm(
        &a,
        &b,
        c.optional(2),
        gemm.alpha.into(),
        gemm.beta.into(),
    ))
}

fn einsum(c: &Call<'_>) -> Outputs {
    one(kernel::einsum(&c.typed::<Einsum>()?.equation, &c.list(0)?))
}

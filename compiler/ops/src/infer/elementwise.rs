//! Shapes of ops whose output elements depend on one element of each input.
//!
//! Invariant: the output has the broadcast shape of the inputs, or that of the first one.
//! Not here: the values of shape arithmetic (`arithmetic`).

use crate::infer::arithmetic;
use crate::infer::call::{Call, Out, Result, bad_input};
use crate::{Attr, DType, Op};

pub(super) fn infer(call: &Call<'_>) -> Result<Vec<Out>> {
    let first = call.dims(0).map(<[_]>::to_vec);
    let shape = match call.op {
        Op::Clip => {
            call.check_scalar(1)?;
            call.check_scalar(2)?;
            first
        }
        Op::PRelu => {
            if let Some(into) = call.dims(0) {
                call.broadcasts_into(1, into)?;
            }
            first
        }
        Op::SwiGLU => match (call.dims(0), call.dims(1)) {
            (Some(a), Some(b)) => {
                if a.len() != b.len() || a.iter().zip(b).any(|(a, b)| a.differs(b)) {
                    bad_input!(call, 1, "not of the shape of input 0");
                }
                Some(a.iter().zip(b).map(|(a, b)| a.or_known(b)).collect())
            }
            (a, b) => a.or(b).map(<[_]>::to_vec),
        },
        Op::Gelu => {
            call.word(Attr::Approximate, &["none", "tanh"])?;
            first
        }
        _ => {
            if call.op == Op::BitShift {
                call.word(Attr::Direction, &["LEFT", "RIGHT"])?;
            }
            let shapes: Vec<_> = (0..call.inputs.len()).map(|index| call.dims(index)).collect();
            call.broadcast(&shapes)?
        }
    };
    let value = match call.op {
        Op::Identity => call.value(0).cloned(),
        Op::Equal
        | Op::Less
        | Op::LessOrEqual
        | Op::Greater
        | Op::GreaterOrEqual
        | Op::And
        | Op::Or
        | Op::Xor
        | Op::Not => arithmetic::elementwise(call, DType::Bool),
        Op::Where => call
            .dtype(1)
            .and_then(|dtype| arithmetic::elementwise(call, dtype)),
        Op::Clip | Op::PRelu | Op::SwiGLU => None,
        _ => call
            .dtype(0)
            .and_then(|dtype| arithmetic::elementwise(call, dtype)),
    };
    Ok(vec![Out::new(shape).valued(value)])
}

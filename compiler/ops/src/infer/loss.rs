//! Shapes of losses: scores `[n, c, ...]`, labels `[n, ...]`.
//!
//! Invariant: a reduced loss is a scalar, an unreduced one has the shape of the labels.
//! Not here: the numbers.

use crate::infer::call::{Call, Out, Result, bad_input};
use crate::{Attr, Op};

pub(super) fn infer(call: &Call<'_>) -> Result<Vec<Out>> {
    call.rank_at_least(0, 2)?;
    let reduction = call.word(Attr::Reduction, &["none", "mean", "sum"])?;
    call.rank_is(2, 1)?;
    let mut labels = call.dims(1).map(<[_]>::to_vec);
    if let Some(scores) = call.dims(0) {
        call.expect_dim(2, 0, &scores[1])?;
        let mut want = scores.to_vec();
        want.remove(1);
        if let Some(have) = &mut labels {
            if have.len() != want.len() || have.iter().zip(&want).any(|(a, b)| a.differs(b)) {
                bad_input!(call, 1, "the scores have the shape {}", super::call::show(scores));
            }
            for (have, want) in have.iter_mut().zip(&want) {
                *have = have.or_known(want);
            }
        } else {
            labels = Some(want);
        }
    }
    let loss = if reduction == "none" {
        Out::new(labels)
    } else {
        Out::scalar()
    };
    let mut outs = vec![loss];
    if call.op == Op::SoftmaxCrossEntropyLoss {
        outs.push(Out::new(call.dims(0).map(<[_]>::to_vec)));
    }
    Ok(outs)
}

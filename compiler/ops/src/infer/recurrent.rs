//! Shapes of recurrent layers: sequences `[length, batch, input]`, or batch first by `layout`.
//!
//! Invariant: weights `[directions, gates * hidden, ...]` fix the hidden size where no attribute does.
//! Not here: activations (the kernels').

use crate::infer::call::{Call, Out, Result, bail, unknown};
use crate::{Attr, Dim, Op};

pub(super) fn infer(call: &Call<'_>) -> Result<Vec<Out>> {
    for index in 0..=2 {
        call.rank_is(index, 3)?;
    }
    let gates = match call.op {
        Op::LSTM => 4,
        Op::GRU => 3,
        _ => 1,
    };
    let directions = match call.word(Attr::Direction, &["forward", "reverse", "bidirectional"])? {
        "bidirectional" => 2,
        _ => 1,
    };
    let batch_first = match call.int(Attr::Layout) {
        0 => false,
        1 => true,
        layout => bail!(call, Attribute, "layout is {layout}, not 0 or 1"),
    };
    let directions = Dim::Known(directions);
    let gates = Dim::Known(gates);
    let hidden = match call.attributes.int(Attr::HiddenSize) {
        Some(size) => Dim::Known(call.size_from(size, 1, "hidden_size")?),
        None => match (call.dims(2), call.dims(1)) {
            (Some(recurrence), _) if recurrence[2].known().is_some() => recurrence[2].clone(),
            (_, Some(weights)) if weights[1].known().is_some() => {
                call.divide(&weights[1], &gates, "the number of weights")?
            }
            _ => Dim::Unknown,
        },
    };
    let rows = call.times(&gates, &hidden)?;
    let x = call.dims(0).map_or_else(|| unknown(3), <[_]>::to_vec);
    let (length, batch) = if batch_first {
        (&x[1], &x[0])
    } else {
        (&x[0], &x[1])
    };
    call.expect_dims(1, &[directions.clone(), rows.clone(), x[2].clone()])?;
    call.expect_dims(2, &[directions.clone(), rows.clone(), hidden.clone()])?;
    call.expect_dims(3, &[directions.clone(), call.times(&rows, &Dim::Known(2))?])?;
    call.expect_dims(4, std::slice::from_ref(batch))?;
    let state = if batch_first {
        vec![batch.clone(), directions.clone(), hidden.clone()]
    } else {
        vec![directions.clone(), batch.clone(), hidden.clone()]
    };
    call.expect_dims(5, &state)?;
    if call.op == Op::LSTM {
        call.expect_dims(6, &state)?;
        call.expect_dims(7, &[directions.clone(), call.times(&Dim::Known(3), &hidden)?])?;
    }
    let whole = if batch_first {
        vec![batch.clone(), length.clone(), directions, hidden]
    } else {
        vec![length.clone(), directions, batch.clone(), hidden]
    };
    Ok(vec![Out::dims(whole), Out::dims(state.clone()), Out::dims(state)])
}

//! Shapes of attention and positions: heads packed in the last axis (rank 3) or on axis 1 (rank 4).
//!
//! Invariant: a size that several inputs share is taken from whichever knows it.
//! Not here: masks and softmax (the kernels').

use crate::infer::call::{Call, Out, Result, bad_input, bail, unknown};
use crate::{Attr, Dim, Op};

pub(super) fn infer(call: &Call<'_>) -> Result<Vec<Out>> {
    match call.op {
        Op::Attention => attention(call),
        Op::LinearAttention => linear(call),
        _ => rotary(call),
    }
}

/// An input as heads: `[batch, heads, length, head size]`.
struct Heads {
    batch: Dim,
    heads: Dim,
    length: Dim,
    size: Dim,
}

/// Reads an input of rank 3 or 4 as heads; `attr` says how many where they are packed.
fn heads(call: &Call<'_>, index: usize, attr: Attr) -> Result<Heads> {
    let stated = match call.attributes.int(attr) {
        Some(count) => Some(call.size_from(count, 1, attr.name())?),
        None => None,
    };
    match call.dims(index) {
        Some([batch, heads, length, size]) => {
            let heads = match stated {
                Some(stated) => call.merge(heads, &Dim::Known(stated), attr.name())?,
                None => heads.clone(),
            };
            Ok(Heads {
                batch: batch.clone(),
                heads,
                length: length.clone(),
                size: size.clone(),
            })
        }
        Some([batch, length, hidden]) => {
            let Some(stated) = stated else {
                bail!(call, Attribute, "{attr} is missing, which inputs of rank 3 need");
            };
            let heads = Dim::Known(stated);
            let size = match hidden {
                Dim::Known(_) => call.divide(hidden, &heads, "the hidden size")?,
                _ => Dim::Unknown,
            };
            Ok(Heads {
                batch: batch.clone(),
                heads,
                length: length.clone(),
                size,
            })
        }
        Some(_) => bad_input!(call, index, "not of rank 3 or 4"),
        None => Ok(Heads {
            batch: Dim::Unknown,
            heads: stated.map_or(Dim::Unknown, Dim::Known),
            length: Dim::Unknown,
            size: Dim::Unknown,
        }),
    }
}

fn attention(call: &Call<'_>) -> Result<Vec<Out>> {
    let q = heads(call, 0, Attr::QNumHeads)?;
    let k = heads(call, 1, Attr::KvNumHeads)?;
    let v = heads(call, 2, Attr::KvNumHeads)?;
    let rank = call.dims(0).map(<[_]>::len);
    if let Some(rank) = rank {
        call.rank_is(1, rank)?;
        call.rank_is(2, rank)?;
    }
    let batch = call.merge(&q.batch, &k.batch, "the batch")?;
    let batch = call.merge(&batch, &v.batch, "the batch")?;
    let kv_heads = call.merge(&k.heads, &v.heads, "the number of key and value heads")?;
    let length = call.merge(&k.length, &v.length, "the length of keys and values")?;
    let size = call.merge(&q.size, &k.size, "the head size")?;
    if let (Dim::Known(q), Dim::Known(kv)) = (&q.heads, &kv_heads)
        && q.checked_rem(*kv) != Some(0)
    {
        bail!(call, Shape, "{q} query heads are no multiple of {kv} key heads");
    }
    if call.has(4) != call.has(5) {
        bail!(
            call,
            Arity,
            "has one of past_key and past_value, needs both or none"
        );
    }
    let mut total = length;
    if call.has(4) {
        let past = vec![batch.clone(), kv_heads.clone(), Dim::Unknown, size.clone()];
        call.expect_dims(4, &past)?;
        let past = vec![batch.clone(), kv_heads.clone(), Dim::Unknown, v.size.clone()];
        call.expect_dims(5, &past)?;
        let key = call.dims(4).map_or(Dim::Unknown, |dims| dims[2].clone());
        let value = call.dims(5).map_or(Dim::Unknown, |dims| dims[2].clone());
        let past = call.merge(&key, &value, "the length of the past")?;
        total = call.plus(&past, &total)?;
    }
    call.rank_is(6, 1)?;
    call.expect_dim(6, 0, &batch)?;
    if let Some([lead @ .., last]) = call.dims(3) {
        // The last axis of a mask may be shorter than the keys; the rest broadcasts.
        let into = [batch.clone(), q.heads.clone(), q.length.clone()];
        let fits = lead.len() <= 3
            && lead
                .iter()
                .rev()
                .zip(into.iter().rev())
                .all(|(dim, into)| *dim == Dim::Known(1) || !dim.differs(into))
            && last
                .known()
                .zip(total.known())
                .is_none_or(|(mask, total)| mask <= total);
        if !fits {
            let into = [&into[..], &[total.clone()]].concat();
            bad_input!(call, 3, "does not broadcast to {}", super::call::show(&into));
        }
    }
    let y = match rank {
        None => Out::unranked(),
        Some(3) => {
            let hidden = call.times(&q.heads, &v.size)?;
            Out::dims(vec![batch.clone(), q.length.clone(), hidden])
        }
        Some(_) => Out::dims(vec![
            batch.clone(),
            q.heads.clone(),
            q.length.clone(),
            v.size.clone(),
        ]),
    };
    let present = |size: Dim| Out::dims(vec![batch.clone(), kv_heads.clone(), total.clone(), size]);
    let scores = vec![batch.clone(), q.heads, q.length, total.clone()];
    Ok(vec![
        y,
        present(size),
        present(v.size).typed(call.dtype(2)),
        Out::dims(scores),
    ])
}

fn linear(call: &Call<'_>) -> Result<Vec<Out>> {
    for index in [0, 1, 2, 4, 5] {
        call.rank_is(index, 3)?;
    }
    call.rank_is(3, 4)?;
    let rule = call.word(Attr::UpdateRule, &["linear", "gated", "delta", "gated_delta"])?;
    if rule.starts_with("gated") && !call.has(4) {
        bail!(call, Arity, "update_rule {rule} needs the input decay");
    }
    if rule.ends_with("delta") && !call.has(5) {
        bail!(call, Arity, "update_rule {rule} needs the input beta");
    }
    let q = heads(call, 0, Attr::QNumHeads)?;
    let k = heads(call, 1, Attr::KvNumHeads)?;
    let v = heads(call, 2, Attr::KvNumHeads)?;
    if let (Dim::Known(q), Dim::Known(kv)) = (&q.heads, &k.heads)
        && q.checked_rem(*kv) != Some(0)
    {
        bail!(call, Shape, "{q} query heads are no multiple of {kv} key heads");
    }
    let batch = call.merge(&q.batch, &k.batch, "the batch")?;
    let batch = call.merge(&batch, &v.batch, "the batch")?;
    let length = call.merge(&q.length, &k.length, "the length")?;
    let length = call.merge(&length, &v.length, "the length")?;
    let size = call.merge(&q.size, &k.size, "the head size")?;
    let mut state = vec![batch.clone(), k.heads, size, v.size];
    call.expect_dims(3, &state)?;
    if let Some(past) = call.dims(3) {
        for (have, past) in state.iter_mut().zip(past) {
            *have = have.or_known(past);
        }
    }
    let hidden = call.times(&q.heads, &state[3])?;
    let present = Out::dims(state).typed(call.dtype(3).or(call.dtype(0)));
    Ok(vec![Out::dims(vec![batch, length, hidden]), present])
}

fn rotary(call: &Call<'_>) -> Result<Vec<Out>> {
    let Some(dims) = call.dims(0) else {
        return Ok(vec![Out::unranked()]);
    };
    if !matches!(dims.len(), 3 | 4) {
        bad_input!(call, 0, "not of rank 3 or 4");
    }
    if dims.len() == 3 && call.int(Attr::NumHeads) <= 0 {
        bail!(
            call,
            Attribute,
            "num_heads is missing, which inputs of rank 3 need"
        );
    }
    let (batch, length) = (&dims[0], &dims[dims.len() - 2]);
    let length = if dims.len() == 3 { &dims[1] } else { length };
    let rank = if call.has(3) { 2 } else { 3 };
    for index in [1, 2] {
        call.rank_is(index, rank)?;
    }
    if let (Some(cos), true) = (call.dims(1), call.has(2)) {
        call.expect_dims(2, cos)?;
    }
    if call.has(3) {
        call.expect_dims(3, &[batch.clone(), length.clone()])?;
    } else {
        let mut want = unknown(3);
        want[1] = length.clone();
        want[0] = batch.clone();
        call.expect_dims(1, &want)?;
    }
    Ok(vec![Out::dims(dims.to_vec())])
}

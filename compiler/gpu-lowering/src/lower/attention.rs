//! Attention: scores, mask, softmax and weighted sum in one kernel; over a memory of earlier positions too, of which only
//! what the mask shows is read, and across a link only that is carried.

use polychip_gpu_kernels::{
    Access, Attention, Mask, NewRows, Past, PastCopy, RotaryTables, Scalar, VisiblePast,
};
use polychip_lowering::{Layout, Node, Outcome, Part, Refusal, Storage, TensorIndex};
use polychip_ops::{DType, Op, operator};

use super::builder::Lowering;
use super::deferrals::AttentionRows;
use super::tensor_forms::Permuted;
use super::values::{ValueId, is_float};

/// `[batch, heads, rows, size]` of an operand, and whether heads lie inside the rows.
fn heads(dims: &[usize], count: Option<usize>) -> Option<([u64; 4], bool)> {
    match (dims, count) {
        (&[batch, heads, rows, size], _) => {
            Some(([batch as u64, heads as u64, rows as u64, size as u64], false))
        }
        (&[batch, rows, width], Some(heads)) if heads > 0 && width % heads == 0 => Some((
            [batch as u64, heads as u64, rows as u64, (width / heads) as u64],
            true,
        )),
        _ => None,
    }
}

/// The tensor that a node widens from f16 to f32, where only attention reads the result, as its past: the kernels
/// read f16 directly. Past keys and past values are both read this way, or neither is.
pub(super) fn widened(part: &Part, node: &Node) -> Option<TensorIndex> {
    let x = widens(part, node)?;
    let y = node.output(0)?;
    let mut readers = part
        .nodes
        .iter()
        .filter(|reader| reader.reads().any(|read| read == y));
    let both = |reader: &Node| {
        [4, 5].iter().all(|&i| {
            let past = reader.input(i).and_then(|past| giver(part, past));
            past.is_some_and(|node| widens(part, node).is_some())
        })
    };
    readers.all(both).then_some(x)
}

fn widens(part: &Part, node: &Node) -> Option<TensorIndex> {
    if node.op != Op::Cast {
        return None;
    }
    let (x, y) = (node.input(0)?, node.output(0)?);
    let widens = part.tensors[x].dtype == DType::F16
        && part.tensors[y].dtype == DType::F32
        && [x, y].iter().all(|&t| part.tensors[t].encoding.is_none())
        && !part.is_constant(x)
        && !part.outputs.contains(&y);
    let mut readers = part
        .nodes
        .iter()
        .filter(|reader| reader.reads().any(|read| read == y))
        .peekable();
    let as_past = |reader: &Node| {
        let elsewhere = [0, 1, 2, 3, 6].iter().any(|&i| reader.input(i) == Some(y));
        reader.op == Op::Attention && !elsewhere
    };
    (widens && readers.peek().is_some() && readers.all(as_past)).then_some(x)
}

/// The node that gives a tensor.
fn giver(part: &Part, tensor: TensorIndex) -> Option<&Node> {
    part.nodes
        .iter()
        .find(|node| node.writes().any(|written| written == tensor))
}

/// The KV cache of earlier positions, where the device reads it, and the number of visible positions.
fn past(
    l: &mut Lowering<'_>,
    [keys, values]: [TensorIndex; 2],
    mask: TensorIndex,
    [batch, kv_heads, capacity, new]: [u64; 4],
) -> Outcome<(Past, [ValueId; 3])> {
    let Some((_, rows)) = l.dims(mask)?.split_last() else {
        return Err(Refusal::shape("a mask of one value for a cache"));
    };
    let count = |dims: &[usize]| dims.iter().map(|&dim| dim as u64).product::<u64>();
    let finder = VisiblePast {
        rows: count(rows),
        capacity,
        width: capacity + new,
        access: polychip_gpu_kernels::Access::Read,
    };
    let visible = match l.visible.get(&(mask, capacity)) {
        Some(&known) => known,
        None => {
            let from = l.rows(mask)?;
            let access = l.access(from);
            let found = l.fresh(Scalar::U32, &[finder.partials() as usize])?;
            l.launch(&VisiblePast { access, ..finder }, &[from, found])?;
            l.visible.insert((mask, capacity), found);
            found
        }
    };
    let part = l.part;
    let stored = [keys, values].map(|t| giver(part, t).and_then(|node| widened(part, node)).unwrap_or(t));
    // across a link a port is read once, and no more of it than is seen
    let ports = stored.map(|t| l.forms[t].port.filter(|_| l.port_form(t) == Layout::RowMajor));
    let (own, copied) = match ports {
        [Some(keys), Some(values)] => ([keys, values], true),
        _ => ([l.rows(stored[0])?, l.rows(stored[1])?], false),
    };
    let scalar = l.stored(own[0]).scalar;
    if l.stored(own[1]).scalar != scalar {
        return Err(Refusal::dtype(
            "a past whose keys differ in type from its values is not offered",
        ));
    }
    let past = Past {
        scalar,
        capacity,
        partials: finder.partials(),
    };
    if !copied {
        return Ok((past, [own[0], own[1], visible]));
    }
    let mut staged = [own[0]; 2];
    for (place, &t) in staged.iter_mut().zip(&stored) {
        *place = l.fresh(scalar, l.dims(t)?)?;
    }
    let depth = |t: TensorIndex| l.dims(t).map(|dims| dims[3] as u64);
    let copy = PastCopy {
        past,
        heads: batch * kv_heads,
        depth: depth(stored[0])?,
        value_depth: depth(stored[1])?,
    };
    l.launch(&copy, &[own[0], own[1], visible, staged[0], staged[1]])?;
    Ok((past, [staged[0], staged[1], visible]))
}

/// Lowers Attention without a window or soft cap, and with a past where a boolean mask selects its visible positions.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Outcome<bool> {
    if node.op != Op::Attention {
        return Ok(false);
    }
    let rows = node.output(0).and_then(|y| l.deferrals.attention(y)).cloned();
    if let Some(rows) = rows {
        let mark = l.mark();
        let done = attend(l, node, Some(&rows)).and_then(|()| l.halves(&rows));
        if done.is_ok() {
            return Ok(true);
        }
        l.back_to(mark);
    }
    attend(l, node, None)?;
    Ok(true)
}

/// Lowers an attention; `rows` are its new rows if it rotates or rounds them itself.
fn attend(l: &mut Lowering<'_>, node: &Node, rows: Option<&AttentionRows>) -> Outcome<()> {
    let (Some(q), Some(k), Some(v), Some(y)) = (node.input(0), node.input(1), node.input(2), node.output(0))
    else {
        return Err(Refusal::op("Attention without operands"));
    };
    let attributes: operator::Attention = node.typed()?;
    let windows = [attributes.left_window, attributes.right_window];
    if windows.iter().any(|&size| size >= 0) || attributes.softcap != 0.0 {
        return Err(Refusal::attribute(
            "Attention with a window or a soft cap is not offered",
        ));
    }
    if node.inputs.iter().skip(6).any(Option::is_some) || node.outputs.iter().skip(1).any(Option::is_some) {
        return Err(Refusal::op(
            "Attention that counts valid keys, or gives the whole cache, is not offered",
        ));
    }
    for tensor in [q, k, v, y] {
        if !is_float(l.part.real(tensor)) {
            return Err(Refusal::dtype(format!(
                "Attention of {} is not offered",
                l.part.real(tensor).name()
            )));
        }
    }
    let (q_heads, kv_heads) = (attributes.q_heads, attributes.kv_heads);
    let shapes = (|| {
        Some([
            heads(l.part.dims(q)?, q_heads)?,
            heads(l.part.dims(k)?, kv_heads)?,
            heads(l.part.dims(v)?, kv_heads)?,
            heads(l.part.dims(y)?, q_heads)?,
        ])
    })();
    let Some([(qs, inside), (ks, k_inside), (vs, v_inside), (ys, y_inside)]) = shapes else {
        return Err(Refusal::shape("Attention whose heads are not known"));
    };
    let fits = qs[0] == ks[0]
        && qs[3] == ks[3]
        && vs[..3] == ks[..3]
        && ys == [qs[0], qs[1], qs[2], vs[3]]
        && ks[1] > 0
        && qs[1] % ks[1] == 0
        && [k_inside, v_inside, y_inside] == [inside; 3]
        && qs.iter().chain(&ks).chain(&vs).all(|&size| size > 0);
    if !fits {
        return Err(Refusal::shape(format!("Attention of {qs:?}, {ks:?} and {vs:?}")));
    }
    let cache = match (node.input(4), node.input(5)) {
        (None, None) => None,
        (Some(keys), Some(values)) => {
            let truths = node.input(3).filter(|&mask| l.part.real(mask) == DType::Bool);
            let (Some(mask), false) = (truths, attributes.causal) else {
                return Err(Refusal::op(
                    "Attention with a cache is offered with a mask of truth values that says all",
                ));
            };
            Some((keys, values, mask))
        }
        _ => return Err(Refusal::op("Attention with half a cache")),
    };
    let mut capacity = 0;
    if let Some((keys, values, _)) = cache {
        for t in [keys, values] {
            if !is_float(l.part.real(t)) {
                let name = l.part.real(t).name();
                return Err(Refusal::dtype(format!("a cache of {name} is not offered")));
            }
        }
        let (keys, values) = (l.dims(keys)?, l.dims(values)?);
        capacity = match (keys, values) {
            (&[b, h, room, size], &[_, _, _, value_size])
                if keys[..3] == values[..3]
                    && room > 0
                    && [b as u64, h as u64, size as u64] == [ks[0], ks[1], ks[3]]
                    && value_size as u64 == vs[3] =>
            {
                room as u64
            }
            _ => return Err(Refusal::shape(format!("a cache of {keys:?} and {values:?}"))),
        };
    }
    // heads that were moved in front of the rows are read where they were
    let transposed = [q, k, v].map(|t| {
        let forms = &l.forms[t];
        let rows = forms.get(Layout::RowMajor, Storage::Real).is_some();
        forms
            .permuted
            .filter(|permuted| !rows && !inside && permuted.order(4) == [0, 2, 1, 3])
    });
    let (mut values, transposed) = match transposed {
        _ if rows.is_some() => {
            let mut values = Vec::new();
            for tensor in rows.iter().flat_map(|rows| rows.rows) {
                values.push(l.rows(tensor)?);
            }
            (values, false)
        }
        [Some(q), Some(k), Some(v)] => (vec![q.value, k.value, v.value], true),
        _ => (vec![l.rows(q)?, l.rows(k)?, l.rows(v)?], false),
    };
    let scalar = l.stored(values[0]).scalar;
    let past = match cache {
        None => None,
        Some((keys, old, mask)) => {
            let (past, read) = past(l, [keys, old], mask, [ks[0], ks[1], capacity, ks[2]])?;
            values.extend(read);
            Some(past)
        }
    };
    let mask = match node.input(3) {
        None => None,
        Some(t) => {
            let truths = l.part.real(t) == DType::Bool;
            if l.part.real(t) != l.part.real(q) && !truths {
                return Err(Refusal::dtype(
                    "Attention with a mask of another type is not offered",
                ));
            }
            let dims = l.dims(t)?;
            let scores = [qs[0], qs[1], qs[2], capacity + ks[2]].map(|size| size as usize);
            let mut aligned = vec![1; 4usize.saturating_sub(dims.len())];
            aligned.extend_from_slice(dims);
            let broadcasts = aligned.len() == 4
                && aligned[3] == scores[3]
                && aligned
                    .iter()
                    .zip(&scores)
                    .all(|(&own, &whole)| own == 1 || own == whole);
            if !broadcasts {
                return Err(Refusal::shape(format!(
                    "a mask of {dims:?} for scores of {scores:?}"
                )));
            }
            let mut strides = [0u64; 3];
            let mut step = aligned[3] as u64;
            for axis in (0..3).rev() {
                strides[axis] = if aligned[axis] == 1 { 0 } else { step };
                step *= aligned[axis] as u64;
            }
            let value = l.rows(t)?;
            values.push(value);
            Some(Mask {
                scalar: if truths { Scalar::Bool } else { scalar },
                strides,
                access: l.access(value),
            })
        }
    };
    let mut new_rows = None;
    if let Some(rows) = rows {
        let rotary = match rows.rotary {
            Some(index) => {
                let part = l.part;
                Some(tables(l, &part.nodes[index], &mut values)?)
            }
            None => None,
        };
        new_rows = Some(NewRows {
            rotary,
            rounded: rows.rounded,
        });
    }
    let target = if transposed {
        // the result has its heads inside too, as the product behind it wants them
        let value = l.fresh(scalar, l.dims(y)?)?;
        l.forms[y].permuted = Permuted::new(value, &[0, 2, 1, 3]);
        value
    } else {
        l.result(y, Layout::RowMajor)?
    };
    let kernel = Attention {
        scalar,
        batch: qs[0],
        heads: qs[1],
        kv_heads: ks[1],
        queries: qs[2],
        keys: ks[2],
        depth: qs[3],
        value_depth: vs[3],
        scale: attributes.scale.unwrap_or_else(|| 1.0 / (qs[3] as f32).sqrt()),
        causal: attributes.causal.then_some(0),
        mask,
        heads_inside: inside || transposed,
        past,
        new_rows,
    };
    values.push(target);
    l.launch(&kernel, &values)
}

/// The tables and positions of a rotation, which join the operands.
fn tables(l: &mut Lowering<'_>, node: &Node, values: &mut Vec<ValueId>) -> Outcome<RotaryTables> {
    let (Some(cosines), Some(sines), Some(positions)) = (node.input(1), node.input(2), node.input(3)) else {
        return Err(Refusal::op("RotaryEmbedding without operands"));
    };
    let own: operator::Rotary = node.typed()?;
    let (&[cached, half], &[_, _]) = (l.dims(cosines)?, l.dims(positions)?) else {
        return Err(Refusal::shape("angles of no position"));
    };
    if l.dims(sines)? != [cached, half] || own.rotated != 0 && own.rotated != 2 * half {
        return Err(Refusal::shape(format!("angles of [{cached}, {half}]")));
    }
    let own_values = [l.rows(cosines)?, l.rows(sines)?, l.rows(positions)?];
    let constant = own_values[..2]
        .iter()
        .all(|&value| l.access(value) == Access::Constant);
    values.extend(own_values);
    Ok(RotaryTables {
        rotated: 2 * half as u64,
        interleaved: own.interleaved,
        cached: cached as u64,
        positions: l.stored(own_values[2]).scalar,
        access: if constant { Access::Constant } else { Access::Read },
    })
}

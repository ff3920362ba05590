//! Attention: scores, mask, softmax and weighted sum in one kernel.

use polychip_gpu_kernels::{Attention, Mask};
use polychip_lowering::{Layout, Node, Outcome, Refusal, Storage};
use polychip_ops::{Attr, AttrKey, AttrValue, Op};

use super::builder::Lowering;
use super::places::Permuted;
use super::values::is_float;

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

/// Lowers Attention without a cache, window or soft cap.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Outcome<bool> {
    if node.op != Op::Attention {
        return Ok(false);
    }
    let (Some(q), Some(k), Some(v), Some(y)) = (node.input(0), node.input(1), node.input(2), node.output(0))
    else {
        return Err(Refusal::op("Attention without operands"));
    };
    let attributes = &node.attributes;
    // an attribute that this does not know (a window, say) may change the result
    const KNOWN: &[Attr] = &[
        Attr::IsCausal,
        Attr::KvNumHeads,
        Attr::QNumHeads,
        Attr::QkMatmulOutputMode,
        Attr::Scale,
        Attr::Softcap,
        Attr::SoftmaxPrecision,
    ];
    for (key, value) in attributes.iter() {
        let known = match (key, value) {
            (AttrKey::Known(Attr::LeftWindowSize | Attr::RightWindowSize), AttrValue::Int(size)) => {
                *size == -1
            }
            (AttrKey::Known(Attr::Softcap), AttrValue::Float(cap)) => *cap == 0.0,
            (AttrKey::Known(attr), _) => KNOWN.contains(attr),
            _ => false,
        };
        if !known {
            return Err(Refusal::attribute(format!(
                "Attention with the attribute {} is not offered",
                key.name()
            )));
        }
    }
    if node.inputs.iter().skip(4).any(Option::is_some) || node.outputs.iter().skip(1).any(Option::is_some) {
        return Err(Refusal::op("Attention with a cache is not offered"));
    }
    for tensor in [q, k, v, y] {
        if !is_float(l.part.real(tensor)) {
            return Err(Refusal::dtype(format!(
                "Attention of {} is not offered",
                l.part.real(tensor).name()
            )));
        }
    }
    let count = |attr: Attr| attributes.int(attr).and_then(|n| usize::try_from(n).ok());
    let (q_heads, kv_heads) = (count(Attr::QNumHeads), count(Attr::KvNumHeads));
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
    // heads that were moved in front of the rows are read where they were
    let turned = [q, k, v].map(|t| {
        let forms = &l.forms[t];
        let rows = forms.get(Layout::RowMajor, Storage::Real).is_some();
        forms
            .permuted
            .filter(|permuted| !rows && !inside && permuted.order(4) == [0, 2, 1, 3])
    });
    let (mut values, turned) = match turned {
        [Some(q), Some(k), Some(v)] => (vec![q.value, k.value, v.value], true),
        _ => (vec![l.rows(q)?, l.rows(k)?, l.rows(v)?], false),
    };
    let scalar = l.stored(values[0]).scalar;
    let mask = match node.input(3) {
        None => None,
        Some(t) => {
            if l.part.real(t) != l.part.real(q) {
                return Err(Refusal::dtype(
                    "Attention with a mask of another type is not offered",
                ));
            }
            let dims = l.dims(t)?;
            let scores = [qs[0], qs[1], qs[2], ks[2]].map(|size| size as usize);
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
                strides,
                access: l.access(value),
            })
        }
    };
    let target = if turned {
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
        scale: attributes
            .float(Attr::Scale)
            .unwrap_or_else(|| 1.0 / (qs[3] as f32).sqrt()),
        causal: (attributes.int(Attr::IsCausal).unwrap_or(0) != 0).then_some(0),
        mask,
        heads_inside: inside || turned,
    };
    values.push(target);
    l.launch(&kernel, &values)?;
    Ok(true)
}

//! Attention, rotary position embedding, and linear attention.
//!
//! Invariant: a query that may see no key gives zeros, not NaN.

use super::error::{Result, refuse, require};
use super::{Tensor, index, softmax};

/// The scores in the fourth output of [`attention`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Shown {
    Raw,
    Capped,
    Biased,
    Probabilities,
}

/// The parameters of [`attention`].
#[derive(Clone, Copy, Debug)]
pub struct Attention<'a> {
    /// Factor of the product of query and key.
    pub scale: f64,
    /// The limit of the scores, or 0 for none.
    pub softcap: f64,
    /// Whether a query sees no later key.
    pub causal: bool,
    /// Number of keys to the left that a query sees, if limited.
    pub left: Option<i64>,
    /// Number of keys to the right that a query sees, if limited.
    pub right: Option<i64>,
    /// Valid keys of each batch entry, if the cache is longer.
    pub valid: Option<&'a [i64]>,
    /// Keys before the first query of this call.
    pub past: usize,
    /// The scores in the fourth output.
    pub shown: Shown,
}

/// Scaled dot-product attention: `q` `[b, hq, s, d]`, `k` `[b, hkv, t, d]`, `v` `[b, hkv, t, dv]`, `mask`
/// broadcasting to `[b, hq, s, t]` (bool: may attend; float: added; shorter than `t`: never attends).
/// The result is `[b, hq, s, dv]` and the scores `[b, hq, s, t]`.
///
/// # Errors
/// If the shapes do not fit.
pub fn attention(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    mask: Option<&Tensor>,
    p: Attention<'_>,
) -> Result<(Tensor, Tensor)> {
    let (&[b, hq, s, d], &[kb, hkv, t, kd], &[vb, vh, vt, dv]) = (q.shape(), k.shape(), v.shape()) else {
        refuse!("attention of {:?}, {:?}, {:?}", q.shape(), k.shape(), v.shape());
    };
    require!(
        (kb, vb, vh, vt, kd) == (b, b, hkv, t, d) && hkv > 0 && hq % hkv == 0,
        "attention of {:?}, {:?}, {:?}",
        q.shape(),
        k.shape(),
        v.shape()
    );
    require!(
        p.valid.is_none_or(|n| n.len() == b),
        "not one valid length for each of {b} entries"
    );
    let bias = match mask {
        None => None,
        Some(m) => {
            let Some((&len, lead)) = m.shape().split_last() else {
                refuse!("a mask needs a shape");
            };
            require!(len <= t, "a mask of {len} keys, there are {t}");
            let values: Vec<f64> = match m.to_bools() {
                Ok(v) => v
                    .into_iter()
                    .map(|a| if a { 0.0 } else { f64::NEG_INFINITY })
                    .collect(),
                Err(_) => m.to_f64s()?,
            };
            let lines = index::broadcast_index(lead, &[b, hq, s])?;
            Some((values, lines, len))
        }
    };
    let (qs, ks, vs) = (q.to_f64s()?, k.to_f64s()?, v.to_f64s()?);
    super::tensor::elements(&[b, hq, s, t])?;
    let mut out = vec![0f64; super::tensor::elements(&[b, hq, s, dv])?];
    let mut scores = Vec::with_capacity(b * hq * s * t);
    for line in 0..b * hq * s {
        let (entry, head, i) = (line / (hq * s), line / s % hq, line % s);
        let kv = entry * hkv + head / (hq / hkv);
        let offset = match p.valid {
            Some(n) => n[entry] - s as i64,
            None => p.past as i64,
        };
        let here = i as i64 + offset;
        let query = &qs[line * d..][..d];
        let raw: Vec<f64> = (0..t)
            .map(|j| {
                let key = &ks[(kv * t + j) * d..][..d];
                query.iter().zip(key).map(|(a, b)| a * b).sum::<f64>() * p.scale
            })
            .collect();
        let capped: Vec<f64> = raw
            .iter()
            .map(|&a| {
                if p.softcap == 0.0 {
                    a
                } else {
                    p.softcap * (a / p.softcap).tanh()
                }
            })
            .collect();
        let biases: Vec<f64> = (0..t)
            .map(|j| {
                let at = j as i64;
                let hidden = p.causal && at > here
                    || p.left.is_some_and(|l| here.saturating_sub(at) > l)
                    || p.right.is_some_and(|r| at.saturating_sub(here) > r)
                    || p.valid.is_some_and(|n| at >= n[entry]);
                if hidden {
                    return f64::NEG_INFINITY;
                }
                match &bias {
                    None => 0.0,
                    Some((values, lines, len)) if j < *len => values[lines[line] * len + j],
                    Some(_) => f64::NEG_INFINITY,
                }
            })
            .collect();
        let biased: Vec<f64> = capped.iter().zip(&biases).map(|(a, b)| a + b).collect();
        let mut probabilities = biased.clone();
        if biases.iter().all(|&a| a == f64::NEG_INFINITY) {
            probabilities.fill(0.0);
        } else {
            softmax::line(&mut probabilities, softmax::Softmax::Softmax);
        }
        for (j, &weight) in probabilities.iter().enumerate() {
            let value = &vs[(kv * t + j) * dv..][..dv];
            if weight != 0.0 {
                out[line * dv..][..dv]
                    .iter_mut()
                    .zip(value)
                    .for_each(|(o, v)| *o += weight * v);
            }
        }
        scores.extend(match p.shown {
            Shown::Raw => raw,
            Shown::Capped => capped,
            Shown::Biased => biased,
            Shown::Probabilities => probabilities,
        });
    }
    Ok((
        Tensor::from_f64s(q.element(), vec![b, hq, s, dv], &out)?,
        Tensor::from_f64s(q.element(), vec![b, hq, s, t], &scores)?,
    ))
}

/// `[b, s, h·d]` as `[b, h, s, d]`.
///
/// # Errors
/// If the last dim does not divide.
pub fn split_heads(x: &Tensor, heads: usize) -> Result<Tensor> {
    let &[b, s, hidden] = x.shape() else {
        refuse!("[b, s, h·d] wanted, shape {:?} seen", x.shape());
    };
    require!(
        heads > 0 && hidden % heads == 0,
        "{hidden} features in {heads} heads"
    );
    let split = x.reshaped(vec![b, s, heads, hidden / heads])?;
    super::shape::transpose(&split, &[0, 2, 1, 3])
}

/// `[b, h, s, d]` as `[b, s, h·d]`.
///
/// # Errors
/// If there are not four dims.
pub fn join_heads(x: &Tensor) -> Result<Tensor> {
    let &[b, h, s, d] = x.shape() else {
        refuse!("[b, h, s, d] wanted, shape {:?} seen", x.shape());
    };
    super::shape::transpose(x, &[0, 2, 1, 3])?.reshaped(vec![b, s, h * d])
}

/// Rotates pairs of features by their position: `x` `[b, h, s, d]`; caches `[positions, r/2]` with
/// `positions` `[b, s]`, or `[b, s, r/2]` without; the first `r` features turn, the rest stay.
///
/// # Errors
/// If the shapes do not fit.
pub fn rotary(
    x: &Tensor,
    cos: &Tensor,
    sin: &Tensor,
    positions: Option<&Tensor>,
    rotated: usize,
    interleaved: bool,
) -> Result<Tensor> {
    let &[b, h, s, d] = x.shape() else {
        refuse!("[b, h, s, d] wanted, shape {:?} seen", x.shape());
    };
    let r = if rotated == 0 { d } else { rotated };
    require!(r <= d && r % 2 == 0, "{r} of {d} features to rotate");
    let half = r / 2;
    let (cos, sin) = match positions {
        Some(p) => (
            super::gather::gather(cos, p, 0)?,
            super::gather::gather(sin, p, 0)?,
        ),
        None => (cos.clone(), sin.clone()),
    };
    require!(
        cos.shape() == [b, s, half] && sin.shape() == cos.shape(),
        "caches {:?} for [{b}, {s}, {half}]",
        cos.shape()
    );
    let (c, n) = (cos.to_f64s()?, sin.to_f64s()?);
    let mut v = x.to_f64s()?;
    for line in 0..b * h * s {
        let (entry, i) = (line / (h * s), line % s);
        for k in 0..half {
            let (a, z) = if interleaved {
                (2 * k, 2 * k + 1)
            } else {
                (k, k + half)
            };
            let turn = (entry * s + i) * half + k;
            let (x1, x2) = (v[line * d + a], v[line * d + z]);
            v[line * d + a] = x1 * c[turn] - x2 * n[turn];
            v[line * d + z] = x1 * n[turn] + x2 * c[turn];
        }
    }
    Tensor::from_f64s(x.element(), x.shape().to_vec(), &v)
}

/// The recurrence of [`linear_attention`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearRule {
    /// Whether the decay input scales the state down in each step.
    pub gated: bool,
    /// Whether the state is updated by the delta rule, with the beta input as learning rate.
    pub delta: bool,
}

/// Linear attention over packed heads: `q` `[b, t, hq·dk]`, `k` `[b, t, hkv·dk]`, `v` `[b, t, hkv·dv]`, state
/// `[b, hkv, dk, dv]`, `decay` `[b, t, hkv·dk]` or `[b, t, hkv]`, `beta` `[b, t, hkv]` or `[b, t, 1]`; the
/// result is `[b, t, hq·dv]` and the new state.
///
/// # Errors
/// If the shapes do not fit.
pub fn linear_attention(
    (q, k, v): (&Tensor, &Tensor, &Tensor),
    past: Option<&Tensor>,
    decay: Option<&Tensor>,
    beta: Option<&Tensor>,
    (hq, hkv): (usize, usize),
    scale: Option<f64>,
    rule: LinearRule,
) -> Result<(Tensor, Tensor)> {
    let (&[b, t, qw], &[_, _, kw], &[_, _, vw]) = (q.shape(), k.shape(), v.shape()) else {
        refuse!(
            "linear attention of {:?}, {:?}, {:?}",
            q.shape(),
            k.shape(),
            v.shape()
        );
    };
    require!(
        hq > 0 && hkv > 0 && hq % hkv == 0 && qw % hq == 0 && kw % hkv == 0 && vw % hkv == 0,
        "{hq} query heads and {hkv} key heads of widths {qw}, {kw}, {vw}"
    );
    let (dk, dv) = (qw / hq, vw / hkv);
    require!(
        kw / hkv == dk && k.shape()[..2] == [b, t] && v.shape()[..2] == [b, t],
        "linear attention of {:?}, {:?}, {:?}",
        q.shape(),
        k.shape(),
        v.shape()
    );
    require!(
        past.is_none_or(|p| p.shape() == [b, hkv, dk, dv]),
        "the past state is not [{b}, {hkv}, {dk}, {dv}]"
    );
    let wide = |x: Option<&Tensor>, widths: &[usize], name: &str| -> Result<Option<(Vec<f64>, usize)>> {
        let Some(x) = x else { return Ok(None) };
        match x.shape() {
            [xb, xt, w] if *xb == b && *xt == t && widths.contains(w) => Ok(Some((x.to_f64s()?, *w))),
            other => refuse!("{name} has shape {other:?}"),
        }
    };
    let decays = wide(decay, &[hkv * dk, hkv], "decay")?;
    let betas = wide(beta, &[hkv, 1], "beta")?;
    require!(!rule.gated || decays.is_some(), "the gated rules need a decay");
    require!(!rule.delta || betas.is_some(), "the delta rules need a beta");
    let scale = scale.unwrap_or(1.0 / (dk as f64).sqrt());
    let (qs, ks, vs) = (q.to_f64s()?, k.to_f64s()?, v.to_f64s()?);
    let mut state = match past {
        Some(p) => p.to_f64s()?,
        None => vec![0.0; b * hkv * dk * dv],
    };
    let mut out = vec![0f64; b * t * hq * dv];
    for entry in 0..b {
        for step in 0..t {
            let row = entry * t + step;
            for head in 0..hkv {
                let s = &mut state[(entry * hkv + head) * dk * dv..][..dk * dv];
                if let (true, Some((g, w))) = (rule.gated, &decays) {
                    for i in 0..dk {
                        let at = if *w == hkv {
                            row * w + head
                        } else {
                            row * w + head * dk + i
                        };
                        s[i * dv..][..dv].iter_mut().for_each(|a| *a *= g[at].exp());
                    }
                }
                let key = &ks[row * kw + head * dk..][..dk];
                let value = &vs[row * vw + head * dv..][..dv];
                let mut learnt = value.to_vec();
                if let (true, Some((r, w))) = (rule.delta, &betas) {
                    let rate = r[row * w + if *w == 1 { 0 } else { head }];
                    for (j, l) in learnt.iter_mut().enumerate() {
                        let recalled: f64 = (0..dk).map(|i| s[i * dv + j] * key[i]).sum();
                        *l = rate * (*l - recalled);
                    }
                }
                for i in 0..dk {
                    for j in 0..dv {
                        s[i * dv + j] += key[i] * learnt[j];
                    }
                }
                for shared in 0..hq / hkv {
                    let qh = head * (hq / hkv) + shared;
                    let query = &qs[row * qw + qh * dk..][..dk];
                    for j in 0..dv {
                        out[(row * hq + qh) * dv + j] =
                            scale * (0..dk).map(|i| query[i] * s[i * dv + j]).sum::<f64>();
                    }
                }
            }
        }
    }
    let state_type = past.map_or(q.element(), Tensor::element);
    Ok((
        Tensor::from_f64s(q.element(), vec![b, t, hq * dv], &out)?,
        Tensor::from_f64s(state_type, vec![b, hkv, dk, dv], &state)?,
    ))
}

//! Softmax and its relatives, and the losses built on them.
//!
//! Invariant: the largest element of a line is subtracted before the exponential.

use super::error::{Result, refuse, require};
use super::{Tensor, index};

/// The kind of softmax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Softmax {
    Softmax,
    LogSoftmax,
    /// 1 at the first largest element, 0 elsewhere.
    Hardmax,
}

/// One line, in place.
pub fn line(v: &mut [f64], f: Softmax) {
    let max = v.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match f {
        Softmax::Hardmax => {
            let first = v.iter().position(|&a| a == max);
            v.iter_mut()
                .enumerate()
                .for_each(|(i, a)| *a = f64::from(u8::from(Some(i) == first)));
        }
        Softmax::Softmax => {
            v.iter_mut().for_each(|a| *a = (*a - max).exp());
            let sum: f64 = v.iter().sum();
            v.iter_mut().for_each(|a| *a /= sum);
        }
        Softmax::LogSoftmax => {
            let sum: f64 = v.iter().map(|a| (a - max).exp()).sum();
            v.iter_mut().for_each(|a| *a = *a - max - sum.ln());
        }
    }
}

/// `f` of each line along `axis`.
///
/// # Errors
/// If the elements are no numbers.
pub fn softmax(x: &Tensor, axis: usize, f: Softmax) -> Result<Tensor> {
    let mut v = x.to_f64s()?;
    let (bases, offsets) = index::groups(x.shape(), &[axis]);
    for b in bases {
        let mut one: Vec<f64> = offsets.iter().map(|o| v[b + o]).collect();
        line(&mut one, f);
        offsets.iter().zip(one).for_each(|(o, a)| v[b + o] = a);
    }
    Tensor::from_f64s(x.element(), x.shape().to_vec(), &v)
}

/// How single losses are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LossReduction {
    None,
    Sum,
    Mean,
}

/// The negative log likelihood: `log_prob` `[n, c, …]`, `target` `[n, …]` of classes, `weight` `[c]`.
///
/// # Errors
/// If shapes do not fit or a class is out of range.
pub fn nll_loss(
    log_prob: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    ignore: Option<i64>,
    reduction: LossReduction,
) -> Result<Tensor> {
    require!(
        log_prob.rank() >= 2,
        "[n, c, …] wanted, shape {:?} seen",
        log_prob.shape()
    );
    let (n, c, inner) = index::around(log_prob.shape(), 1);
    let mut shape = log_prob.shape().to_vec();
    shape.remove(1);
    require!(
        target.shape() == shape,
        "targets {:?} for scores {:?}",
        target.shape(),
        log_prob.shape()
    );
    require!(
        weight.is_none_or(|w| w.len() == c),
        "not one weight for each of {c} classes"
    );
    let (v, t) = (log_prob.to_f64s()?, target.to_i64s()?);
    let w = weight.map(Tensor::to_f64s).transpose()?;
    let (mut losses, mut total) = (Vec::with_capacity(n * inner), 0.0);
    for b in 0..n {
        for i in 0..inner {
            let class = t[b * inner + i];
            if Some(class) == ignore {
                losses.push(0.0);
                continue;
            }
            let Some(class) = usize::try_from(class).ok().filter(|&k| k < c) else {
                refuse!("class {class} of {c}");
            };
            let weight = w.as_ref().map_or(1.0, |w| w[class]);
            losses.push(-v[(b * c + class) * inner + i] * weight);
            total += weight;
        }
    }
    let sum: f64 = losses.iter().sum();
    let element = log_prob.element();
    match reduction {
        LossReduction::None => Tensor::from_f64s(element, shape, &losses),
        LossReduction::Sum => Tensor::from_f64s(element, vec![], &[sum]),
        LossReduction::Mean => Tensor::from_f64s(element, vec![], &[sum / total]),
    }
}

//! Losses of classes: SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss of f32.
//!
//! Invariant: losses and weights are summed up in f64, as the reference does.
//!
//! Not here: losses of other types.

use polychip_cpu_kernels::softmax::log_softmax;
use polychip_lowering::{Layout, Storage};
use polychip_ops::operator::{self, LossReduction};
use polychip_ops::{DType, Op};
use polychip_sdk::{Error, ErrorKind, Result};

use super::builder::Lowering;
use crate::part::Node;
use crate::step::Operands;
use crate::work::Class;

/// What becomes of the losses of all.
#[derive(Clone, Copy, PartialEq)]
enum Reduction {
    None,
    Sum,
    Mean,
}

/// Scores `[n, classes, inner]`, of each `[n, inner]` the class that is right.
#[derive(Clone, Copy)]
struct Loss {
    n: usize,
    classes: usize,
    inner: usize,
    ignored: Option<i64>,
    reduction: Reduction,
    weighted: bool,
}

/// Lowers a node of this sort.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Some(x), Some(labels), Some(y)) = (node.input(0), node.input(1), node.output(0)) else {
        return Ok(false);
    };
    let softmax = match node.op {
        Op::SoftmaxCrossEntropyLoss => true,
        Op::NegativeLogLikelihoodLoss => false,
        _ => return Ok(false),
    };
    let Ok(attributes) = node.typed::<operator::Loss>() else {
        return Ok(false);
    };
    let reduction = match attributes.reduction {
        LossReduction::None => Reduction::None,
        LossReduction::Sum => Reduction::Sum,
        LossReduction::Mean => Reduction::Mean,
    };
    let weights = node.input(2);
    let floats = [Some(x), weights, node.output(1), Some(y)];
    if !floats.into_iter().flatten().all(|t| l.part.plain_f32(t)) {
        return Ok(false);
    }
    let wide = match l.dtype(labels) {
        DType::I64 => true,
        DType::I32 => false,
        _ => return Ok(false),
    };
    let &[n, classes, ref inner @ ..] = l.shape(x)? else {
        return Ok(false);
    };
    let fits = matches!(l.shape(labels)?, [first, rest @ ..] if *first == n && rest == inner);
    if !fits || weights.is_some_and(|t| l.part.dims(t) != Some(&[classes])) {
        return Ok(false);
    }
    let loss = Loss {
        n,
        classes,
        inner: inner.iter().product(),
        ignored: attributes.ignore_index,
        reduction,
        weighted: weights.is_some(),
    };
    let results = match reduction {
        Reduction::None => loss.n * loss.inner,
        _ => 1,
    };
    if l.shape(y)?.iter().product::<usize>() != results {
        return Ok(false);
    }
    let mut scores = l.rows(x)?;
    if softmax {
        let sizes = [loss.n, loss.classes, loss.inner];
        let logarithms = match node.output(1) {
            Some(t) => l.write(t, Layout::RowMajor, Storage::Real)?,
            None => l.fresh(DType::F32, l.shape(x)?.to_vec())?,
        };
        let isa = l.isa;
        l.step(
            "softmax",
            &[scores],
            &[logarithms],
            None,
            Box::new(move |o| {
                log_softmax(isa, o.pool, sizes, o.slice(0), o.slice_mut(0));
                Ok(())
            }),
        )
        .is(Class::Softmax);
        scores = logarithms;
    }
    let mut reads = vec![scores, l.rows(labels)?];
    if let Some(weights) = weights {
        reads.push(l.rows(weights)?);
    }
    let to = l.write_rows(y)?;
    l.step(
        "loss",
        &reads,
        &[to],
        None,
        Box::new(move |o| {
            if wide {
                let labels = o.read::<i64>(1);
                loss.run(o, labels.iter().copied())
            } else {
                let labels = o.read::<i32>(1);
                loss.run(o, labels.iter().map(|&label| i64::from(label)))
            }
        }),
    )
    .does(Class::Select, loss.n * loss.inner);
    Ok(true)
}

impl Loss {
    fn run(&self, o: &mut Operands<'_>, labels: impl Iterator<Item = i64>) -> Result<()> {
        let (x, y) = (o.read::<f32>(0), o.write::<f32>(0));
        let weights = if self.weighted { o.read::<f32>(2) } else { &[] };
        let (mut sum, mut total) = (0.0, 0.0);
        for (at, class) in labels.enumerate() {
            let ignored = Some(class) == self.ignored;
            let place = match usize::try_from(class) {
                Ok(class) if class < self.classes => class,
                _ if ignored => 0,
                _ => {
                    let message = format!("class {class} of {}", self.classes);
                    return Err(Error::new(ErrorKind::BadArgument, message));
                }
            };
            let mut own = 0.0;
            if !ignored {
                let weight = weights.get(place).map_or(1.0, |&weight| f64::from(weight));
                let (image, pixel) = (at / self.inner, at % self.inner);
                own = -f64::from(x[(image * self.classes + place) * self.inner + pixel]) * weight;
                total += weight;
            }
            match self.reduction {
                Reduction::None => y[at] = own as f32,
                _ => sum += own,
            }
        }
        match self.reduction {
            Reduction::None => {}
            Reduction::Sum => y[0] = sum as f32,
            Reduction::Mean => y[0] = (sum / total) as f32,
        }
        Ok(())
    }
}

//! Optimisers of ONNX's preview domain for training (`ai.onnx.preview.training`), said in ops of ONNX: one step each.
//!
//! Source: the formulas in the ops' own documentation (ONNX, `docs/Operators.md`).
//!
//! Invariant: what is updated is given back; no state stays in the graph. A node whose numbers have different element types
//! is left as it is, and then known to no device.
//! Not here: Gradient, which differentiates a graph.

use polychip_ops::{Attributes, Op};

use super::foreign::Foreign;
use super::rewrite::Rewrite;
use crate::onnx::target::Target;
use crate::{Error, Node, TensorId};

/// Adds what says in ONNX what the node says; `false` where it is not expressed here, and nothing was added.
pub(super) fn expand(target: &mut Target<'_>, node: &Node) -> Result<bool, Error> {
    let step = Foreign(Rewrite {
        target,
        node: node.clone(),
        version: 0,
    });
    let (Some(rate), Some(count)) = (node.input(0), node.input(1)) else {
        return Ok(false);
    };
    // tensors come in groups: those that are trained, their gradients, and what the optimiser remembers of each
    let groups = match &*node.op_name {
        "Adagrad" | "Momentum" => 3,
        "Adam" => 4,
        _ => return Ok(false),
    };
    let tensors: Vec<TensorId> = node.inputs[2..].iter().copied().flatten().collect();
    let whole = tensors.len() + 2 == node.inputs.len() && !tensors.is_empty();
    let dtype = step.dtype(rate);
    if !whole
        || !tensors.len().is_multiple_of(groups)
        || dtype.is_none()
        || tensors.iter().any(|&tensor| step.dtype(tensor) != dtype)
    {
        return Ok(false);
    }
    let mut update = Update {
        step,
        rate,
        count,
        of: 0,
    };
    let each = tensors.len() / groups;
    for index in 0..each {
        update.of = index;
        let of = |group: usize| tensors[group * each + index];
        let outputs: Vec<TensorId> = match &*node.op_name {
            "Adagrad" => update.adagrad(of(0), of(1), of(2))?.into(),
            "Momentum" => match update.momentum(of(0), of(1), of(2))? {
                Some(outputs) => outputs.into(),
                None => return Ok(false),
            },
            _ => update.adam(of(0), of(1), of(2), of(3))?.into(),
        };
        for (group, made) in outputs.into_iter().enumerate() {
            if let Some(output) = node.output(group * each + index) {
                let name = update.role("whole");
                let rewrite = &mut update.step.0;
                rewrite.emit(Op::Identity, &[made], output, &name, Attributes::new())?;
            }
        }
    }
    Ok(true)
}

/// One tensor's update.
struct Update<'t, 'g> {
    step: Foreign<'t, 'g>,
    rate: TensorId,
    count: TensorId,
    of: usize,
}

impl Update<'_, '_> {
    fn role(&self, role: &str) -> String {
        self.step.0.name(&format!("{}.{role}", self.of))
    }

    fn op(&mut self, op: Op, inputs: &[TensorId], role: &str) -> Result<TensorId, Error> {
        let role = format!("{}.{role}", self.of);
        self.step.0.step(op, inputs, &role, Attributes::new())
    }

    fn number(&mut self, value: f32, role: &str) -> Result<TensorId, Error> {
        let role = format!("{}.{role}", self.of);
        self.step.0.scalar_like(&role, value, self.rate)
    }

    fn attribute(&self, name: &str, default: f32) -> f32 {
        self.step.float(name).unwrap_or(default)
    }

    fn times(&mut self, x: TensorId, factor: f32, role: &str) -> Result<TensorId, Error> {
        let factor = self.number(factor, &format!("{role}.factor"))?;
        self.op(Op::Mul, &[x, factor], role)
    }

    fn plus(&mut self, x: TensorId, term: f32, role: &str) -> Result<TensorId, Error> {
        let term = self.number(term, &format!("{role}.term"))?;
        self.op(Op::Add, &[x, term], role)
    }

    /// The count of steps in the type of the rate.
    fn steps(&mut self) -> Result<TensorId, Error> {
        self.op(Op::CastLike, &[self.count, self.rate], "count")
    }

    /// The gradient of the loss with the weights' own norm in it.
    fn gradient(&mut self, x: TensorId, gradient: TensorId) -> Result<TensorId, Error> {
        let norm = self.times(x, self.attribute("norm_coefficient", 0.0), "norm")?;
        self.op(Op::Add, &[norm, gradient], "gradient")
    }

    fn adagrad(&mut self, x: TensorId, gradient: TensorId, h: TensorId) -> Result<[TensorId; 2], Error> {
        let count = self.steps()?;
        let decay = self.times(count, self.attribute("decay_factor", 0.0), "decay")?;
        let decay = self.plus(decay, 1.0, "slower")?;
        let rate = self.op(Op::Div, &[self.rate, decay], "rate")?;
        let gradient = self.gradient(x, gradient)?;
        let square = self.op(Op::Mul, &[gradient, gradient], "square")?;
        let h = self.op(Op::Add, &[h, square], "h")?;
        let root = self.op(Op::Sqrt, &[h], "root")?;
        let root = self.plus(root, self.attribute("epsilon", 1e-6), "divisor")?;
        let step = self.op(Op::Mul, &[rate, gradient], "step")?;
        let step = self.op(Op::Div, &[step, root], "adapted")?;
        let x = self.op(Op::Sub, &[x, step], "x")?;
        Ok([x, h])
    }

    /// `None` for a mode that there is not, and before anything is added.
    fn momentum(
        &mut self,
        x: TensorId,
        gradient: TensorId,
        v: TensorId,
    ) -> Result<Option<[TensorId; 2]>, Error> {
        let nesterov = match self.step.text("mode").as_deref() {
            Some("standard") => false,
            Some("nesterov") => true,
            _ => return Ok(None),
        };
        let alpha = self.attribute("alpha", 0.0);
        let gradient = self.gradient(x, gradient)?;
        // the first gradient counts in full
        let zero = self.number(0.0, "zero")?;
        let one = self.number(1.0, "one")?;
        let beta = self.number(self.attribute("beta", 0.0), "beta")?;
        let count = self.steps()?;
        let later = self.op(Op::Greater, &[count, zero], "later")?;
        let beta = self.op(Op::Where, &[later, beta, one], "share")?;
        let old = self.times(v, alpha, "old")?;
        let new = self.op(Op::Mul, &[beta, gradient], "new")?;
        let v = self.op(Op::Add, &[old, new], "v")?;
        let along = if nesterov {
            let ahead = self.times(v, alpha, "ahead")?;
            self.op(Op::Add, &[gradient, ahead], "along")?
        } else {
            v
        };
        let step = self.op(Op::Mul, &[self.rate, along], "step")?;
        let x = self.op(Op::Sub, &[x, step], "x")?;
        Ok(Some([x, v]))
    }

    fn adam(
        &mut self,
        x: TensorId,
        gradient: TensorId,
        v: TensorId,
        h: TensorId,
    ) -> Result<[TensorId; 3], Error> {
        let (alpha, beta) = (self.attribute("alpha", 0.9), self.attribute("beta", 0.999));
        let gradient = self.gradient(x, gradient)?;
        let v = self.mixed(v, gradient, alpha, "v")?;
        let square = self.op(Op::Mul, &[gradient, gradient], "square")?;
        let h = self.mixed(h, square, beta, "h")?;
        let root = self.op(Op::Sqrt, &[h], "root")?;
        let root = self.plus(root, self.attribute("epsilon", 1e-6), "divisor")?;
        // both momentums start from nothing, which the rate makes good from the first step on
        let count = self.steps()?;
        let left = |update: &mut Self, factor: f32, role: &str| {
            let one = update.number(1.0, &format!("{role}.one"))?;
            let factor = update.number(factor, &format!("{role}.factor"))?;
            let power = update.op(Op::Pow, &[factor, count], &format!("{role}.power"))?;
            update.op(Op::Sub, &[one, power], role)
        };
        let beta = left(self, beta, "beta")?;
        let alpha = left(self, alpha, "alpha")?;
        let beta = self.op(Op::Sqrt, &[beta], "beta.root")?;
        let rate = self.op(Op::Mul, &[self.rate, beta], "rate.high")?;
        let rate = self.op(Op::Div, &[rate, alpha], "rate.both")?;
        let zero = self.number(0.0, "zero")?;
        let later = self.op(Op::Greater, &[count, zero], "later")?;
        let rate = self.op(Op::Where, &[later, rate, self.rate], "rate")?;
        let along = self.op(Op::Div, &[v, root], "along")?;
        let step = self.op(Op::Mul, &[rate, along], "step")?;
        let x = self.op(Op::Sub, &[x, step], "moved")?;
        let x = self.times(x, 1.0 - self.attribute("norm_coefficient_post", 0.0), "x")?;
        Ok([x, v, h])
    }

    /// `share * old + (1 - share) * new`.
    fn mixed(&mut self, old: TensorId, new: TensorId, share: f32, role: &str) -> Result<TensorId, Error> {
        let old = self.times(old, share, &format!("{role}.old"))?;
        let new = self.times(new, 1.0 - share, &format!("{role}.new"))?;
        self.op(Op::Add, &[old, new], role)
    }
}

//! Linear models: a product, what is added, and what becomes of the scores.

use polychip_ops::{Attr, Attributes, Literal, Op};

use super::scores::Post;
use crate::onnx::convert::foreign::Foreign;
use crate::{Error, TensorId};

impl Foreign<'_, '_> {
    /// Rows times weights `[targets, features]`, and what is added to each target.
    pub(super) fn product(
        &mut self,
        x: TensorId,
        weights: &[f32],
        targets: usize,
        added: &[f32],
        role: &str,
    ) -> Result<TensorId, Error> {
        let literal = Literal {
            shape: vec![targets, weights.len() / targets],
            ..Literal::f32s(weights)
        };
        let weights = self.0.constant(&format!("{role}.weights"), &literal);
        let mut inputs = vec![Some(x), Some(weights)];
        if !added.is_empty() {
            inputs.push(Some(self.numbers(added, &format!("{role}.added"))));
        }
        self.node(
            Op::Gemm,
            inputs,
            role,
            Attributes::new().with_int(Attr::TransB, 1),
        )
    }

    pub(super) fn linear(&mut self) -> Result<bool, Error> {
        let x = self.0.input(0)?;
        let targets = usize::try_from(self.int("targets").unwrap_or(1)).unwrap_or(0);
        let (weights, added) = (self.floats("coefficients"), self.floats("intercepts"));
        let Some(post) = self.post().filter(|_| self.rank(x) == Some(2)) else {
            return Ok(false);
        };
        if targets == 0 || !whole(&weights, targets) || !(added.is_empty() || added.len() == targets) {
            return Ok(false);
        }
        let x = self.real(x, "real")?;
        let scores = self.product(x, &weights, targets, &added, "scores")?;
        self.transformed(0, scores, post)?;
        Ok(true)
    }

    pub(super) fn linear_classes(&mut self) -> Result<bool, Error> {
        let x = self.0.input(0)?;
        let (weights, added) = (self.floats("coefficients"), self.floats("intercepts"));
        let (Some(labels), Some(post)) = (self.labels("classlabels_ints"), self.post()) else {
            return Ok(false);
        };
        let classes = labels.shape[0];
        let targets = if added.is_empty() { classes } else { added.len() };
        // the scores of one class for two are its own and what is left
        let single = targets == 1 && classes == 2 && post != Post::Softmax;
        if self.rank(x) != Some(2)
            || !(single || (targets == classes && classes > 1))
            || !whole(&weights, targets)
        {
            return Ok(false);
        }
        let x = self.real(x, "real")?;
        let scores = self.product(x, &weights, targets, &added, "scores")?;
        if single {
            return self.shares(scores, &labels, post);
        }
        self.best(scores, &labels)?;
        self.transformed(1, scores, post)?;
        Ok(true)
    }

    /// As [`one_score`](Self::one_score) above zero, but without a transformation the other score is what is left of one.
    fn shares(&mut self, score: TensorId, labels: &Literal, post: Post) -> Result<bool, Error> {
        if post != Post::None {
            return self.one_score(score, labels, 0.0, post);
        }
        let output = self.0.node.outputs.get_mut(1).and_then(Option::take);
        self.one_score(score, labels, 0.0, post)?;
        if let Some(output) = output {
            let one = self.0.scalar_like("one", 1.0, score)?;
            let other = self.step(Op::Sub, &[one, score], "other")?;
            let along = Attributes::new().with_int(Attr::Axis, 1);
            let name = self.0.name("shares");
            self.0.emit(Op::Concat, &[other, score], output, &name, along)?;
        }
        Ok(true)
    }
}

fn whole(weights: &[f32], targets: usize) -> bool {
    !weights.is_empty() && weights.len().is_multiple_of(targets)
}

//! What classifiers do with scores: the label of the best, and how scores are given.

use polychip_ops::{Attr, Attributes, DType, Literal, Op};

use super::listed;
use crate::onnx::convert::foreign::Foreign;
use crate::{Error, TensorId};

/// What a model does to scores, as far as it is said here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Post {
    None,
    Logistic,
    Softmax,
}

impl Foreign<'_, '_> {
    /// The node's transformation of scores; `None` for one that is not expressed here.
    pub(super) fn post(&self) -> Option<Post> {
        match self.text("post_transform").as_deref() {
            None | Some("NONE") => Some(Post::None),
            Some("LOGISTIC") => Some(Post::Logistic),
            Some("SOFTMAX") => Some(Post::Softmax),
            _ => None,
        }
    }

    /// The class labels, integers or texts.
    pub(super) fn labels(&self, ints: &str) -> Option<Literal> {
        let texts = self.texts("classlabels_strings");
        if texts.is_empty() {
            return listed(self, ["", ints, "", ""]).filter(|labels| labels.dtype == DType::I64);
        }
        Literal::from_strings(&texts)
    }

    /// Gives scores, transformed, as the node's output `index`.
    pub(super) fn transformed(&mut self, index: usize, scores: TensorId, post: Post) -> Result<(), Error> {
        match post {
            Post::None => self.give(index, Op::Identity, &[scores], Attributes::new()),
            Post::Logistic => self.give(index, Op::Sigmoid, &[scores], Attributes::new()),
            Post::Softmax => {
                let axis = Attributes::new().with_int(Attr::Axis, -1);
                self.give(index, Op::Softmax, &[scores], axis)
            }
        }
    }

    /// Gives the label of the highest score of each row as the first output.
    pub(super) fn best(&mut self, scores: TensorId, labels: &Literal) -> Result<(), Error> {
        let along = Attributes::new()
            .with_int(Attr::Axis, 1)
            .with_int(Attr::Keepdims, 0);
        if counts(labels) {
            return self.give(0, Op::ArgMax, &[scores], along);
        }
        let best = self.0.step(Op::ArgMax, &[scores], "best", along)?;
        self.label(best, labels)
    }

    /// Gives labels by their places as the first output.
    pub(super) fn label(&mut self, places: TensorId, labels: &Literal) -> Result<(), Error> {
        let labels = self.0.constant("labels", labels);
        let axis = Attributes::new().with_int(Attr::Axis, 0);
        self.give(0, Op::Gather, &[labels, places], axis)
    }

    /// Gives the second of two labels where the one score `[n, 1]` is above a threshold, and both classes' scores.
    pub(super) fn one_score(
        &mut self,
        score: TensorId,
        labels: &Literal,
        threshold: f32,
        post: Post,
    ) -> Result<bool, Error> {
        let limit = self.0.scalar_like("threshold", threshold, score)?;
        let above = self.step(Op::Greater, &[score, limit], "above")?;
        let place = self.cast(above, DType::I64, "place")?;
        let axes = self.0.constant("axes", &Literal::i64s(&[1]));
        if counts(labels) {
            self.give(0, Op::Squeeze, &[place, axes], Attributes::new())?;
        } else {
            let place = self.step(Op::Squeeze, &[place, axes], "place.flat")?;
            self.label(place, labels)?;
        }
        if self.0.node.output(1).is_none() {
            return Ok(true);
        }
        let other = if post == Post::None && threshold > 0.0 {
            // scores that are shares of one
            let one = self.0.scalar_like("one", 1.0, score)?;
            self.step(Op::Sub, &[one, score], "other")?
        } else {
            self.step(Op::Neg, &[score], "other")?
        };
        let along = Attributes::new().with_int(Attr::Axis, 1);
        if post == Post::None {
            self.give(1, Op::Concat, &[other, score], along)?;
        } else {
            let both = self.0.step(Op::Concat, &[other, score], "both", along)?;
            self.transformed(1, both, post)?;
        }
        Ok(true)
    }
}

/// Whether labels are the integers from zero on, so that a place is its label.
fn counts(labels: &Literal) -> bool {
    let ints = labels.as_i64s().filter(|_| labels.dtype == DType::I64);
    ints.is_some_and(|ints| ints.iter().copied().eq(0..ints.len() as i64))
}

//! Ensembles of trees: those of a classifier are those of a regressor with a target for each class.

use polychip_ops::{Attr, AttrKey, Attributes, DType, Op};

use super::scores::Post;
use crate::onnx::convert::foreign::Foreign;
use crate::{Error, Node, TensorId};

/// How often a branch was taken in training: nothing follows from it.
const HINTS: [&str; 2] = ["nodes_hitrates", "nodes_hitrates_as_tensor"];

impl Foreign<'_, '_> {
    /// The rows as trees take them: f32 or f64.
    fn rows(&mut self) -> Result<Option<TensorId>, Error> {
        let x = self.0.input(0)?;
        match self.dtype(x) {
            Some(DType::F32 | DType::F64) => Ok(Some(x)),
            Some(DType::I32 | DType::I64) => self.cast(x, DType::F32, "real").map(Some),
            _ => Ok(None),
        }
    }

    /// Both forms of an ensemble; how scores are given is said behind it, where that is an op.
    pub(super) fn trees(&mut self, op: Op) -> Result<bool, Error> {
        for name in HINTS {
            self.0.take(name);
        }
        let newest = op == Op::TreeEnsemble;
        let x = if newest { self.input(0) } else { self.rows()? };
        let post = match self.int("post_transform") {
            Some(0) => Some(Post::None),
            Some(1) => Some(Post::Softmax),
            Some(2) => Some(Post::Logistic),
            Some(_) => None,
            None => self.post(),
        };
        let mut attributes = self.0.node.attributes.clone();
        let Some(x) = x else { return Ok(false) };
        match post {
            Some(post @ (Post::Logistic | Post::Softmax)) => {
                attributes.remove(&AttrKey::Known(Attr::PostTransform));
                let sums = self.0.step(op, &[x], "sums", attributes)?;
                self.transformed(0, sums, post)?;
                Ok(true)
            }
            _ => self.last(op, vec![Some(x)], attributes),
        }
    }

    pub(super) fn tree_classes(&mut self) -> Result<bool, Error> {
        let (Some(labels), Some(post)) = (self.labels("classlabels_int64s"), self.post()) else {
            return Ok(false);
        };
        let classes = labels.shape[0];
        let ids = self.ints("class_ids");
        let weights = match self.tensor("class_weights_as_tensor") {
            Some(tensor) => tensor.as_f64s().unwrap_or_default(),
            None => self.floats("class_weights").into_iter().map(f64::from).collect(),
        };
        // two classes whose leaves only speak of the first: a score for the second, and what is left for the other
        let single = classes == 2 && !ids.is_empty() && ids.iter().all(|&id| id == 0);
        let only_second = classes == 2 && ids.iter().all(|&id| id == 1);
        let base = match self.tensor("base_values_as_tensor") {
            Some(tensor) => tensor.elements().unwrap_or(0),
            None => self.floats("base_values").len(),
        };
        let targets = if single { 1 } else { classes };
        if classes < 2
            || (only_second && !single)
            || (single && post == Post::Softmax)
            || !(base == 0 || base == targets)
        {
            return Ok(false);
        }
        let Some(x) = self.rows()? else {
            return Ok(false);
        };
        let mut attributes = Attributes::new().with_int(
            Attr::NTargets,
            i64::try_from(targets).expect("invariant: lists fit memory"),
        );
        for (key, value) in self.0.node.attributes.iter() {
            let renamed = match key.name() {
                "class_ids" => "target_ids",
                "class_nodeids" => "target_nodeids",
                "class_treeids" => "target_treeids",
                "class_weights" => "target_weights",
                "class_weights_as_tensor" => "target_weights_as_tensor",
                "classlabels_int64s" | "classlabels_strings" | "post_transform" => continue,
                name if HINTS.contains(&name) => continue,
                name => name,
            };
            attributes.set(AttrKey::from_name(renamed), value.clone());
        }
        let name = self.0.name("sums");
        let sums = self.0.target.fresh(name.clone());
        let node = Node::new(Op::TreeEnsembleRegressor, vec![Some(x)], vec![Some(sums)]);
        self.0.target.add(node.named(name).with(attributes))?;
        if single {
            // weights that are all shares of one are above a half, others above zero
            let shares = weights.iter().all(|&weight| weight >= 0.0);
            return self.one_score(sums, &labels, if shares { 0.5 } else { 0.0 }, post);
        }
        self.best(sums, &labels)?;
        self.transformed(1, sums, post)?;
        Ok(true)
    }
}

//! Nodes computed as the primitive ops that they were recomposed from.

use super::{Node, Part, TensorIndex};

impl Part {
    /// The part with some nodes computed as the primitive ops that they were recomposed from; a node that was not
    /// stays.
    #[must_use]
    pub fn decomposed(mut self, which: impl Fn(usize) -> bool) -> Part {
        let nodes = std::mem::take(&mut self.nodes);
        for (index, mut node) in nodes.into_iter().enumerate() {
            let inner = node.decomposition.take_if(|inner| {
                which(index)
                    && inner.inputs.len() == node.inputs.iter().flatten().count()
                    && inner.outputs.len() == node.outputs.iter().flatten().count()
            });
            match inner {
                Some(inner) => self.splice(&node, *inner),
                None => self.nodes.push(node),
            }
        }
        self
    }

    /// Adds the nodes of a decomposition in the place of a node.
    fn splice(&mut self, node: &Node, inner: Part) {
        let mut map: Vec<Option<TensorIndex>> = vec![None; inner.tensors.len()];
        let inside = inner.inputs.iter().chain(&inner.outputs);
        let outside = node.inputs.iter().chain(&node.outputs).flatten();
        for (&inside, &outside) in inside.zip(outside) {
            map[inside] = Some(outside);
        }
        for (tensor, outside) in inner.tensors.into_iter().zip(&mut map) {
            if outside.is_none() {
                *outside = Some(self.tensors.len());
                self.tensors.push(tensor);
            }
        }
        for mut primitive in inner.nodes {
            for tensor in primitive.tensors_mut() {
                *tensor = map[*tensor].expect("invariant: each tensor of the inner part has a place");
            }
            primitive.index = node.index;
            self.nodes.push(primitive);
        }
    }
}

//! What reduced precision leaves alone.
//!
//! Where more bits would show in the result and cost little to keep, a tensor stays f32: behind the last product, and in
//! the sums that are normalised over rows, which a whole encoder adds up into. Products that are too small to gain are
//! none to this.
//!
//! Not here: how tensors come to be bf16 (`materialize`), which nodes are such products (`fuse`).

use polychip_ops::Op;

use crate::part::{Node, Part, TensorIndex};

/// What reduced precision leaves alone.
pub(super) struct Precision {
    /// The tensor stays f32.
    wide: Vec<bool>,
    /// A product reads the tensor, as bf16.
    multiplied: Vec<bool>,
}

impl Precision {
    /// Nothing is looked at where precision is not reduced.
    pub(super) fn full(part: &Part) -> Self {
        let nothing = || vec![false; part.tensors.len()];
        Self {
            wide: nothing(),
            multiplied: nothing(),
        }
    }

    /// Looks through a part whose products are these.
    pub(super) fn reduced(part: &Part, is_product: impl Fn(&Node) -> bool) -> Self {
        let Self {
            mut wide,
            mut multiplied,
        } = Self::full(part);
        // whether a product comes behind the tensor
        let mut before = vec![false; part.tensors.len()];
        // whoever reads what a node makes comes later
        for node in part.nodes.iter().rev() {
            let is_product = is_product(node);
            let leads = is_product || node.outputs.iter().flatten().any(|&t| before[t]);
            for t in node.reads() {
                before[t] |= leads;
                multiplied[t] |= is_product;
            }
            let terms = match node.op {
                Op::LayerNormalization | Op::RMSNormalization => 1,
                Op::Identity | Op::Reshape if node.output(0).is_some_and(|sum| wide[sum]) => 1,
                Op::Add | Op::Sub if node.output(0).is_some_and(|sum| wide[sum]) => 2,
                _ => 0,
            };
            for &term in node.inputs.iter().take(terms).flatten() {
                wide[term] = true;
            }
        }
        for &t in part.nodes.iter().flat_map(|node| &node.outputs).flatten() {
            wide[t] |= !before[t];
        }
        Self { wide, multiplied }
    }

    /// Whether a tensor stays f32.
    pub(super) fn is_wide(&self, tensor: TensorIndex) -> bool {
        self.wide[tensor]
    }

    /// Whether a tensor is wanted as f32 and as bf16.
    pub(super) fn is_both(&self, tensor: TensorIndex) -> bool {
        self.wide[tensor] && self.multiplied[tensor]
    }
}

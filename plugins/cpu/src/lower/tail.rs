//! What is fused with a node.
//!
//! Not here: which nodes are (`fuse`).

use polychip_cpu_kernels::{Epilogue, Residual, Unary};
use polychip_sdk::Result;

use crate::part::{Tensor, TensorIndex};

/// The activation that changes nothing.
pub(super) const IDENTITY: Unary = Unary::Identity;

/// What is computed behind an anchor.
#[derive(Debug, Clone)]
pub(super) struct Tail {
    /// A constant added per output channel or column, as many elements as there are of them.
    pub(super) bias: Option<TensorIndex>,
    /// A tensor of the result's shape that is added.
    pub(super) residual: Option<TensorIndex>,
    /// The residual is added after the activation.
    pub(super) after: bool,
    /// Applied to the sum.
    pub(super) activation: Unary,
    /// Factor of a product of two computed operands.
    pub(super) alpha: f32,
    /// The tensor that comes out, where nodes are fused behind the anchor.
    pub(super) output: Option<TensorIndex>,
    /// The sum that the anchor, a normalisation, makes on its way.
    pub(super) sum: Option<Sum>,
    /// Products that are computed in one step with the anchor, a product with blocks.
    pub(super) beside: Vec<usize>,
}

/// A sum of two tensors of one shape, made by the normalisation that reads it first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sum {
    /// What is added.
    pub(super) terms: [TensorIndex; 2],
    /// Others read the sum, too.
    pub(super) kept: bool,
}

impl Tail {
    /// Nothing behind the anchor.
    pub(super) const NONE: Tail = Tail {
        bias: None,
        residual: None,
        after: false,
        activation: IDENTITY,
        alpha: 1.0,
        output: None,
        sum: None,
        beside: Vec::new(),
    };

    /// What a kernel does to its sums.
    pub(super) fn epilogue(&self) -> Epilogue {
        Epilogue {
            activation: self.activation,
            residual: if self.after {
                Residual::AfterActivation
            } else {
                Residual::BeforeActivation
            },
        }
    }
}

/// A bias of one or `n` elements as `n`, times `beta`.
pub(super) fn spread(bias: &Tensor, n: usize, beta: f32) -> Result<Vec<f32>> {
    let mut values = bias.reals()?;
    if values.len() == 1 {
        values = vec![values[0]; n];
    }
    values.iter_mut().for_each(|value| *value *= beta);
    Ok(values)
}

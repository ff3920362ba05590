//! The epilogue of a fusion group: what its step computes besides the anchor node.
//!
//! Not here: which nodes are fused (`fuse`).

use polychip_cpu_kernels::{Epilogue, Residual, Unary};
use polychip_sdk::Result;

use crate::part::{Tensor, TensorIndex};

/// The activation that changes nothing.
pub(super) const IDENTITY: Unary = Unary::Identity;

/// What the step of an anchor computes besides the anchor.
#[derive(Debug, Clone)]
pub(super) struct FusedEpilogue {
    /// A constant added per output channel or column, as many elements as there are of them.
    pub(super) bias: Option<TensorIndex>,
    /// A tensor of the result's shape that is added.
    pub(super) residual: Option<TensorIndex>,
    /// Whether the residual is added after the activation.
    pub(super) after: bool,
    /// Applied to the sum.
    pub(super) activation: Unary,
    /// Factor of a product of two computed operands.
    pub(super) alpha: f32,
    /// The tensor that comes out, where nodes are fused behind the anchor.
    pub(super) output: Option<TensorIndex>,
    /// The sum that the anchor, a normalisation, reads and computes itself.
    pub(super) sum: Option<Sum>,
    /// Products computed in one step with the anchor, a product with block-quantised weights.
    pub(super) beside: Vec<usize>,
}

/// A sum of two tensors of one shape, computed by the normalisation that reads it first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sum {
    /// The two operands.
    pub(super) addends: [TensorIndex; 2],
    /// Whether other nodes read the sum, too.
    pub(super) is_stored: bool,
}

impl FusedEpilogue {
    /// The anchor alone.
    pub(super) const NONE: FusedEpilogue = FusedEpilogue {
        bias: None,
        residual: None,
        after: false,
        activation: IDENTITY,
        alpha: 1.0,
        output: None,
        sum: None,
        beside: Vec::new(),
    };

    /// The epilogue of the kernel.
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

//! The hidden input with the run that random numbers are of.
//!
//! Not here: what is written there (`bindings`), the nodes that read it (`polychip_graph::random`).

use polychip_graph::random;
use polychip_ops::DType;

use crate::tensor::TensorSpec;

/// Index of that input, if the model draws random numbers.
pub(crate) fn run_input<'a>(inputs: impl ExactSizeIterator<Item = &'a TensorSpec>) -> Option<usize> {
    let last = inputs.enumerate().last();
    last.filter(|(_, spec)| spec.name == random::RUN && spec.dtype == DType::I64 && spec.shape == [2])
        .map(|(index, _)| index)
}

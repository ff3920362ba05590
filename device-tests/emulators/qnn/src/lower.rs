//! The recipes that compute QNN ops.
//!
//! Invariants:
//! 1. Layouts are QNN's: channels last, filters `[kh, kw, in, out]`. The scalar reference uses
//!    ONNX's layouts, so recipes transpose.
//! 2. An op without a recipe is unknown to the emulated library.
//!
//! Not here: the element types of an op (`support`). Names of ops and parameters are those that
//! ONNX Runtime's and ExecuTorch's QNN clients use.

mod activation;
mod conv;
mod elementwise;
mod gather;
mod norm;
mod reduce;
mod resize;
mod shape;

pub(crate) use activation::operation as activation;
pub(crate) use conv::{geometry, scaled_bias};
pub(crate) use elementwise::operation;

use crate::recipe::Recipe;
use crate::view::{Refusal, View};

/// One family's answer; `None` for an op of another one.
type Family = fn(&View<'_>) -> Option<Result<Recipe, Refusal>>;

/// The recipe of a node.
pub(crate) fn lower(view: &View<'_>) -> Result<Recipe, Refusal> {
    const FAMILIES: [Family; 8] = [
        elementwise::lower,
        activation::lower,
        conv::lower,
        norm::lower,
        reduce::lower,
        shape::lower,
        gather::lower,
        resize::lower,
    ];
    FAMILIES
        .iter()
        .find_map(|family| family(view))
        .unwrap_or(Err(Refusal::Unknown))
}

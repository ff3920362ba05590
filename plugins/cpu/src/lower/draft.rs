//! Drafts: a part lowered for what it says alone, for support and estimates.
//!
//! Invariants:
//! 1. The steps of a draft are those that lowering makes of the same part, where it lowers (the tests of lowering compare
//!    them).
//! 2. No weight is read or copied for one, and no memory planned: it takes time linear in the nodes.
//!
//! Not here: how nodes lower (`lower`), what steps cost (`estimate`).

use polychip_ops::axis;
use polychip_sdk::{Error, Result};

use super::{Forms, Lowering, Options, finish};
use crate::part::{Part, TensorIndex};
use crate::step::Step;

/// A terabyte of bytes.
const MOST_ELEMENTS: usize = 1 << 40;

/// A part lowered for what it says alone: nothing of it can run.
pub(crate) struct Draft {
    /// The steps in order, whose memory is not planned.
    pub(crate) steps: Vec<Step>,
    /// Per node why it cannot be lowered, where it cannot.
    pub(crate) refused: Vec<Option<Error>>,
}

/// Lowers a part without reading or copying its weights and without planning memory, whatever of it can be lowered: a
/// node that is refused has no steps, and who reads what it would give finds a tensor.
pub(crate) fn draft(part: &Part, options: &Options<'_>) -> Draft {
    let (mut lowering, groups) = Lowering::new(part, options);
    lowering.dry = true;
    let mut refused: Vec<Option<Error>> = part.nodes.iter().map(|_| None).collect();
    for port in 0..part.inputs.len() {
        if lowering.feed(port).is_err() {
            lowering.stand_in(part.inputs[port]);
        }
    }
    for index in 0..part.nodes.len() {
        let Some((anchor, tail)) = groups.at(index) else {
            continue;
        };
        lowering.node = anchor;
        let steps = lowering.steps.len();
        let emitted = within_memory(part, anchor)
            .and_then(|()| within_memory(part, index))
            .and_then(|()| lowering.emit(&part.nodes[anchor], tail));
        if let Err(error) = emitted {
            lowering.steps.truncate(steps);
            for &tensor in part.nodes[anchor].outputs.iter().chain([&tail.output]).flatten() {
                lowering.stand_in(tensor);
            }
            refused[anchor] = Some(error);
        }
    }
    finish::draft(&mut lowering);
    Draft {
        steps: lowering.steps,
        refused,
    }
}

/// Refuses a node that touches a tensor which no machine holds: below that, counts of what a node does fit 64 bits.
fn within_memory(part: &Part, node: usize) -> Result<()> {
    let node = &part.nodes[node];
    for tensor in node.reads().chain(node.outputs.iter().copied().flatten()) {
        let t = &part.tensors[tensor];
        let elements = t.dims.as_ref().map_or(Some(0), |dims| axis::product(dims));
        if elements.is_none_or(|elements| elements > MOST_ELEMENTS) {
            let what = format!("tensor '{}' has more elements than any machine holds", t.name);
            return Err(Error::unsupported(what).at_tensor(tensor as u32));
        }
    }
    Ok(())
}

impl Lowering<'_> {
    /// A tensor that nothing computes, in place of one whose node is refused.
    fn stand_in(&mut self, tensor: TensorIndex) {
        let t = &self.part.tensors[tensor];
        let value = match (self.is_known(tensor), &t.dims) {
            (true, Some(dims)) => self.fresh(self.real_dtype(tensor), dims.clone()).ok(),
            _ => None,
        };
        let value = value.unwrap_or_else(|| self.boxed(t.dtype));
        self.forms[tensor] = Forms {
            rows: Some(value),
            ..Forms::default()
        };
    }
}

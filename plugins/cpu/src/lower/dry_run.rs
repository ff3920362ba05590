//! Dry runs of lowering: the steps of a part, without weights or memory. Support and estimates come from one, so the supported
//! nodes are those that lower, and the priced steps are those that would run.
//!
//! Invariants:
//! 1. The steps equal those of lowering the same part, where it lowers (the tests of lowering compare them).
//! 2. A dry run reads and copies no weight and plans no memory: it takes time linear in the nodes.
//!
//! Not here: how nodes lower (`dispatch`), what steps cost (`estimate`).

use polychip_lowering::{Outcome, Refusal};
use polychip_ops::{DType, axis};
use polychip_sdk::{Error, Reason};

use super::builder::{LowerBody, Lowering, Options};
use super::encoding::range;
use super::tensor_forms::TensorForms;
use super::{dispatch, finish, fuse};
use crate::part::{Node, Part, TensorIndex};
use crate::step::Step;

/// A terabyte of bytes.
const MOST_ELEMENTS: usize = 1 << 40;

/// The steps of a part, which cannot run.
pub(crate) struct DryRun {
    /// The steps in order, whose memory is not planned.
    pub(crate) steps: Vec<Step>,
    /// Per node the reason why it cannot be lowered, if so.
    pub(crate) refused: Vec<Option<Refusal>>,
}

/// Lowers what it can of a part, without reading or copying weights and without planning memory. A refused node has no steps;
/// its outputs are stand-ins that later nodes can read.
pub(super) fn dry_run(part: &Part, options: &Options<'_>, lower_body: LowerBody) -> DryRun {
    let (mut lowering, groups) = fuse::begin(part, options);
    lowering.dry = true;
    lowering.lower_body = lower_body;
    let admitted = part.nodes.iter().map(|node| admit(part, node).err());
    let mut refused: Vec<Option<Refusal>> = admitted.collect();
    for port in 0..part.inputs.len() {
        if lowering.feed(port).is_err() {
            lowering.stand_in(part.inputs[port]);
        }
    }
    for index in 0..part.nodes.len() {
        let Some((anchor, fused)) = groups.at(index) else {
            continue;
        };
        lowering.node = anchor;
        let node = &part.nodes[anchor];
        let steps = lowering.steps.len();
        if refused[anchor].is_none() && refused[index].is_none() {
            let emitted = dispatch::emit(&mut lowering, node, fused);
            refused[anchor] = emitted.err().map(|error| refusal(part, node, &error));
        }
        if refused[anchor].is_some() || refused[index].is_some() {
            lowering.steps.truncate(steps);
            for &tensor in node.outputs.iter().chain([&fused.output]).flatten() {
                lowering.stand_in(tensor);
            }
        }
    }
    finish::dry_run(&mut lowering);
    DryRun {
        steps: lowering.steps,
        refused,
    }
}

/// Refuses a node that touches a tensor which nothing could hold, or which no kernel reads.
fn admit(part: &Part, node: &Node) -> Outcome<()> {
    for tensor in node.reads().chain(node.outputs.iter().copied().flatten()) {
        encoding(part, tensor)?;
        // below this, counts of what a node does fit 64 bits
        let t = &part.tensors[tensor];
        let elements = t.dims.as_ref().map_or(Some(0), |dims| axis::product(dims));
        if elements.is_none_or(|elements| elements > MOST_ELEMENTS) {
            let what = format!("tensor '{}' has more elements than any machine holds", t.name);
            return Err(Refusal::op(what));
        }
    }
    Ok(())
}

fn encoding(part: &Part, tensor: TensorIndex) -> Outcome<()> {
    let t = &part.tensors[tensor];
    let message = match &t.encoding {
        Some(encoding) if encoding.real_dtype != DType::F32 => format!(
            "'{}' is quantised from {}, not f32",
            t.name,
            encoding.real_dtype.name()
        ),
        Some(_) if range(t.dtype).is_none() => format!("'{}' is quantised to {}", t.name, t.dtype.name()),
        Some(_) if t.dims.is_none() => format!("'{}' is quantised and of unknown shape", t.name),
        _ => return Ok(()),
    };
    Err(Refusal::encoding(message))
}

/// Why a node is refused that cannot be emitted.
fn refusal(part: &Part, node: &Node, error: &Error) -> Refusal {
    if !node.bodies.is_empty() {
        return Refusal::new(Reason::Body, error.to_string());
    }
    let dtypes: Vec<_> = node.inputs.iter().map(|t| t.map(|t| part.real(t))).collect();
    let Err(why) = polychip_reference::supported(node.op, &node.attributes, &dtypes) else {
        return Refusal::op(error.to_string());
    };
    let message = why.to_string();
    if message.starts_with("input ") {
        Refusal::dtype(message)
    } else {
        Refusal::op(message)
    }
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
        self.tensor_forms[tensor] = TensorForms::at(value);
    }
}

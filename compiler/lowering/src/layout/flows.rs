//! The plan of a part, made of what each of its nodes wants.
//!
//! Invariant: only tensors of three or more axes that are no constants count: others are the same in both
//! orders, or are transposed when the part is compiled.
//!
//! Not here: what a node wants (each plugin's `lower`), how the plan is found (`plan`).

use super::plan::{Flow, Use, Want, plan};
use super::{Layout, keeps_memory};
use crate::{Node, Part, TensorIndex};

/// A transposition costs its bytes and as many as could be moved while it is started.
const START_BYTES: u64 = 4096;

/// The planned order of each node of a part, whose ports are row-major. `extents` gives the ONNX shape of a tensor and
/// the bytes of an element, where the tensor is one that the device stores; `wants` what a node wants of its inputs and
/// of its outputs.
pub fn planned<'a>(
    part: &Part,
    extents: impl Fn(TensorIndex) -> Option<(&'a [usize], usize)>,
    wants: impl Fn(&Node) -> (Want, Want),
) -> Vec<Layout> {
    const ROW: Want = Want::Fixed(Layout::RowMajor);
    let outside = Use { node: 0, want: ROW };
    let rank = |tensor: TensorIndex| extents(tensor).map_or(0, |(shape, _)| shape.len());
    let flow = |tensor: TensorIndex| {
        let (shape, width) = extents(tensor)?;
        if part.is_constant(tensor) || shape.len() < 3 {
            return None;
        }
        // where only the names of axes change, a transposition is a reshape
        let free = keeps_memory(shape, &Layout::ChannelsLast.permutation(shape.len()));
        let bytes = (shape.iter().product::<usize>() * width) as u64;
        Some(Flow {
            cost: if free { 64 } else { bytes + START_BYTES },
            writer: outside,
            readers: Vec::new(),
        })
    };
    let mut flows: Vec<Option<Flow>> = (0..part.tensors.len()).map(flow).collect();
    for (index, node) in part.nodes.iter().enumerate() {
        let (input, output) = wants(node);
        let given = || node.inputs.iter().copied().flatten();
        let widest = node.writes().chain(given()).map(rank).max();
        for tensor in given() {
            if let Some(flow) = &mut flows[tensor] {
                // an operand that broadcasts to more axes is read row-major and reshaped
                let narrow = input == Want::Planned && Some(rank(tensor)) != widest;
                let want = if narrow { ROW } else { input };
                flow.readers.push(Use { node: index, want });
            }
        }
        for tensor in node.writes() {
            if let Some(flow) = &mut flows[tensor] {
                flow.writer = Use {
                    node: index,
                    want: output,
                };
            }
        }
    }
    for &output in &part.outputs {
        if let Some(flow) = &mut flows[output] {
            flow.readers.push(outside);
        }
    }
    let flows: Vec<Flow> = flows.into_iter().flatten().collect();
    plan(part.nodes.len(), &flows)
}

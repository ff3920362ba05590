//! Lowering: a part becomes launches of kernels over values, with layouts, fusion, packing and memory decided once.
//!
//! Invariants:
//! 1. Same part, options and target, and same kept times where kernels are timed: the same program and constants,
//!    byte for byte.
//! 2. A tensor may exist in ONNX order, channels last, or both, as real values, as stored integers, or both;
//!    a step asks for the form it wants, and the conversion is made once, where it is first asked for.
//! 3. What is not lowered is refused with a reason: never approximated, never wrong. A node that lowers alone
//!    lowers within any part: a fused epilogue that fails is undone, and its nodes stand alone.
//! 4. A dry lowering makes the same steps and reads no constant but small ones.
//!
//! Not here: running (`exec`), offsets (the SDK's `arena`), which nodes stand behind which (`fuse`).
//! Start reading at [`lower`], then [`Lowering`], which all others build with: `values` and `tensor_forms` lie below it, `map`,
//! `encoding`, `materialize` and `epilogue` are what the files of op classes share, `emit` hands each node to its class.

mod arrange;
mod attention;
mod builder;
mod class;
mod column_split;
mod conv;
mod deferrals;
mod deferred;
mod elementwise;
mod emit;
mod encoding;
mod epilogue;
mod few_rows;
mod finish;
mod fuse;
mod gather;
mod image;
mod launch_split;
mod map;
mod materialize;
mod matmul;
mod movement;
mod norm;
mod pool;
mod product;
mod quantise;
mod reduce;
mod resize;
mod rotary;
mod tensor_forms;
mod values;

use polychip_lowering::{Extract, Outcome, Part, Refusal};
use polychip_sdk::{CompileOptions, Error, GraphView, PortRequest, Reason, Result, Support};

use crate::blob::Lowered;
use crate::target::Target;
use builder::Lowering;

/// Lowers a part.
///
/// # Errors
/// Where a node is not lowered; it names the node and the reason.
pub fn lower(graph: &GraphView<'_>, options: &CompileOptions, target: &Target) -> Result<Lowered> {
    if let Some(point) = options.operating_point {
        return Err(Error::bad_argument(format!("operating point {point} of 0")));
    }
    let part = Part::of(graph, |_| true);
    let own = part.tensors.len();
    let part = resolved(part, options, target);
    Ok(run(&part, options, target, Some(own))?)
}

/// Lowers a part without reading its weights, with these ports channels last: for estimates.
///
/// # Errors
/// As [`lower`].
pub(crate) fn lower_dry(part: Part, channels_last: &[u32], target: &Target) -> Result<Lowered> {
    let request = |&port: &u32| PortRequest {
        port,
        layout: polychip_sdk::Layout::ChannelsLast,
    };
    let options = CompileOptions {
        ports: channels_last.iter().map(request).collect(),
        ..CompileOptions::default()
    };
    let part = resolved(part, &options, target);
    Ok(run(&part, &options, target, None)?)
}

/// The part with each node that is not lowered, but that was recomposed from others, computed as those.
fn resolved(part: Part, options: &CompileOptions, target: &Target) -> Part {
    let options = CompileOptions {
        ports: Vec::new(),
        ..options.clone()
    };
    let mut extract = Extract::new(&part);
    let refused: Vec<bool> = (0..part.nodes.len())
        .map(|node| {
            part.nodes[node].decomposition.is_some()
                && run(&extract.node(node), &options, target, None).is_err()
        })
        .collect();
    part.decomposed(|node| refused[node])
}

/// Whether each node is lowered, or what it was recomposed from, and if not, why: each is lowered alone and dry.
pub fn supports(graph: &GraphView<'_>, target: &Target) -> Vec<Support> {
    let part = Part::of(graph, |_| true);
    let options = CompileOptions::default();
    let mut extract = Extract::new(&part);
    (0..part.nodes.len())
        .map(|node| {
            let alone = extract.node(node);
            let Err(refusal) = run(&alone, &options, target, None) else {
                return Support::Yes;
            };
            let recomposed = alone.nodes[0].decomposition.is_some();
            if recomposed && run(&alone.decomposed(|_| true), &options, target, None).is_ok() {
                return Support::Yes;
            }
            refusal.support()
        })
        .collect()
}

/// Lowers a part, of whose tensors the first ones are those of the graph; dry where it is not said how many.
fn run(
    part: &Part,
    options: &CompileOptions,
    target: &Target,
    graph_tensors: Option<usize>,
) -> Outcome<Lowered> {
    if let Some(node) = part.nodes.iter().find(|node| !node.bodies.is_empty()) {
        let message = format!("{} has a body graph", node.op_name);
        return Err(Refusal::new(Reason::Body, message).at(node.index));
    }
    let mut lowering = Lowering::new(part, options, target, graph_tensors.is_none());
    lowering.graph_tensors = graph_tensors.unwrap_or(0);
    lowering.wishes = finish::wishes(&lowering);
    lowering.feed()?;
    for (index, group) in fuse::plan(&lowering).into_iter().enumerate() {
        let node = part.nodes[index].index;
        lowering.node = node;
        if let Some(group) = group {
            lowering.group(&group).map_err(|refusal| refusal.at(node))?;
        }
    }
    finish::finish(lowering)
}

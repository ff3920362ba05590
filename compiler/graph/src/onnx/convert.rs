//! Ops of older opsets brought to opset 28, node by node, as the graph is built.
//!
//! Invariants:
//! 1. What comes out means in opset 28 what the node meant in its own opset.
//! 2. A change that no node of the model needs is not made: nodes of opset 28 pass as they are.
//! 3. A meaning that opset 28 cannot express is an error that names the node.
//!
//! Not here: the nodes' own validity (inference checks that).
//! To add one: a function in the file of its kind, and its line in [`convert`] with the version that
//! changed the op.

use polychip_ops::Op;

use super::target::Target;
use crate::{Error, Node};

mod axes;
mod contrib;
mod first;
pub(super) mod flex;
mod foreign;
mod legacy;
mod limits;
mod ml;
mod normal;
mod resize;
mod rewrite;
mod scan;
mod softmax;
mod training;
mod withdrawn;

use rewrite::Rewrite;

/// Adds what says in ONNX what a node outside its present ops says; `false` where it is not expressed here, and nothing was
/// added.
pub(super) fn expand(target: &mut Target<'_>, node: &Node, domain: &str) -> Result<bool, Error> {
    match domain {
        "" if &*node.op_name == "SimplifiedLayerNormalization" => contrib::expand(target, node),
        "" => withdrawn::expand(target, node),
        super::contrib::DOMAIN => contrib::expand(target, node),
        super::contrib::ONE_CPU => Err(contrib::of_one_cpu(target, node)),
        "ai.onnx.ml" => ml::expand(target, node),
        "ai.onnx.preview.training" => training::expand(target, node),
        _ => Ok(false),
    }
}

/// Adds the node, and whatever else says in opset 28 what it said in `version`.
pub(super) fn convert(target: &mut Target<'_>, node: Node, version: i64) -> Result<(), Error> {
    let mut rewrite = Rewrite {
        target,
        node,
        version,
    };
    if let Some(most) = crate::random::own_inputs(rewrite.node.op)
        && rewrite.node.inputs.len() > most
    {
        let given = rewrite.node.inputs.len();
        return Err(rewrite.malformed(&format!("has {given} inputs, the op takes at most {most}")));
    }
    if version < 6 {
        first::five(&mut rewrite)?;
    }
    if version < 7 {
        legacy::six(&mut rewrite)?;
    }
    let done = match rewrite.node.op {
        Op::Softmax | Op::LogSoftmax | Op::Hardmax if version < 13 => softmax::flat(&mut rewrite)?,
        Op::BatchNormalization if version < 14 => normal::batch(&mut rewrite)?,
        Op::GroupNormalization if version < 21 => normal::group(&mut rewrite)?,
        Op::Dropout if version < 12 => normal::dropout(&mut rewrite)?,
        op => {
            match op {
                Op::Squeeze | Op::Unsqueeze | Op::ReduceSum if version < 13 => {
                    axes::attribute_to_input(&mut rewrite)
                }
                Op::ReduceL1
                | Op::ReduceL2
                | Op::ReduceLogSum
                | Op::ReduceLogSumExp
                | Op::ReduceMax
                | Op::ReduceMean
                | Op::ReduceMin
                | Op::ReduceProd
                | Op::ReduceSumSquare
                    if version < 18 =>
                {
                    axes::attribute_to_input(&mut rewrite);
                }
                Op::Split if version < 18 => axes::split(&mut rewrite),
                Op::Slice if version < 10 => axes::slice(&mut rewrite),
                Op::TopK if version < 10 => axes::top_k(&mut rewrite),
                Op::DFT if version < 20 => axes::dft(&mut rewrite),
                Op::Clip if version < 11 => limits::clip(&mut rewrite)?,
                Op::Pad if version < 11 => limits::pad(&mut rewrite)?,
                Op::Scan if version < 9 => scan::batched(&mut rewrite)?,
                Op::Upsample => resize::upsample(&mut rewrite)?,
                Op::Resize if version < 11 => resize::resize(&mut rewrite)?,
                Op::Resize => resize::tidy(&mut rewrite),
                Op::RoiAlign if version < 16 => resize::roi_align(&mut rewrite),
                Op::GridSample if version < 20 => resize::grid_sample(&mut rewrite),
                Op::Scatter => rewrite.rename(Op::ScatterElements),
                _ => {}
            }
            false
        }
    };
    if !done {
        rewrite.target.add(rewrite.node)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;

//! Where tensors may be computed in place: in an output port's memory, or in a concatenation of channels.
//!
//! Not here: whether they are, which who computes them decides (`conv`, `resize`, the builder's `write`).

use polychip_lowering::Layout;
use polychip_ops::operator::{Along, Split};
use polychip_ops::{Op, Operator, axis};

use super::encoding::is_unrounded;
use crate::part::{Node, Part, TensorIndex};

/// A tensor's channels in a concatenation of images.
#[derive(Debug, Clone, Copy)]
pub(super) struct InPlaceConcat {
    /// The concatenation's result.
    pub(super) output: TensorIndex,
    /// First channel.
    pub(super) first: usize,
    /// Channels of the result.
    pub(super) channels: usize,
}

/// For each tensor the place in a concatenation of images along channels where it may be computed.
///
/// Other readers find it there too; a tensor that is split into neighbours of a concatenation has their place.
pub(super) fn concats(part: &Part) -> Vec<Option<InPlaceConcat>> {
    let mut places = vec![None; part.tensors.len()];
    let along_channels = |node: &Node, dims: &[usize]| {
        let along = match node.operator() {
            Ok(Operator::Concat(Along { axis }) | Operator::Split(Split { axis, .. })) => Some(axis),
            _ => None,
        };
        let axis = along.and_then(|along| axis::normalise(along, dims.len()));
        (3..=5).contains(&dims.len()) && axis == Some(1)
    };
    for node in part.nodes.iter().filter(|node| node.op == Op::Concat) {
        let Some(output) = node.output(0).filter(|&t| is_unrounded(part, t)) else {
            continue;
        };
        let dims = part.dims(output).unwrap_or(&[]);
        if !along_channels(node, dims) || !node.inputs.iter().flatten().all(|&t| is_unrounded(part, t)) {
            continue;
        }
        let mut first = 0;
        for &tensor in node.inputs.iter().flatten() {
            let Some(&[_, channels, ..]) = part.dims(tensor) else {
                break;
            };
            if places[tensor].is_none() && !part.outputs.contains(&tensor) {
                places[tensor] = Some(InPlaceConcat {
                    output,
                    first,
                    channels: dims[1],
                });
            }
            first += channels;
        }
    }
    for node in part.nodes.iter().filter(|node| node.op == Op::Split) {
        let Some(x) = node.input(0).filter(|&x| is_unrounded(part, x)) else {
            continue;
        };
        let whole = part.dims(x).unwrap_or(&[]);
        if places[x].is_some() || part.outputs.contains(&x) || !along_channels(node, whole) {
            continue;
        }
        let mut begin: Option<InPlaceConcat> = None;
        let mut channels = 0;
        let neighbours = node.outputs.iter().all(|&output| {
            let (Some(place), Some(&[_, own, ..])) = (
                output.and_then(|output: TensorIndex| places[output]),
                output.and_then(|output| part.dims(output)),
            ) else {
                return false;
            };
            let begin = begin.get_or_insert(place);
            let follows = place.output == begin.output && place.first == begin.first + channels;
            channels += own;
            follows
        });
        if neighbours && Some(&channels) == whole.get(1) {
            places[x] = begin;
        }
    }
    places
}

/// For each tensor the output port in whose memory it should be computed.
pub(super) fn ports(part: &Part, layouts: &[Layout]) -> Vec<Option<usize>> {
    let mut ports = vec![None; part.tensors.len()];
    let uses = part.uses();
    for (port, &tensor) in part.outputs.iter().enumerate() {
        let is_state = part.states.iter().any(|&(_, output)| output == tensor);
        if !is_state && part.tensors[tensor].constant.is_none() && ports[tensor].is_none() {
            ports[tensor] = Some(part.inputs.len() + port);
        }
    }
    for node in part.nodes.iter().rev() {
        if !matches!(
            node.op,
            Op::Identity | Op::Reshape | Op::Flatten | Op::Squeeze | Op::Unsqueeze
        ) {
            continue;
        }
        if let (Some(x), Some(y)) = (node.input(0), node.output(0))
            && uses[x] == 1
            && ports[x].is_none()
            && part.tensors[x].constant.is_none()
            && part.tensors[y].encoding.is_none()
        {
            // another shape of the same elements lies as the port wants it in ONNX order only
            let fits = |&port: &usize| layouts[port] == Layout::RowMajor || part.dims(x) == part.dims(y);
            ports[x] = ports[y].filter(fits);
        }
    }
    for &input in &part.inputs {
        ports[input] = None;
    }
    ports
}

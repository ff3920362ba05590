//! Types of ops over sequences and optionals, which shape functions do not know.
//!
//! Invariant: only containers, element types and ranks are inferred; lengths are not.

use polychip_ops::operator::SequenceEmpty;
use polychip_ops::{DType, Op, TensorType};

use crate::describe::describe;
use crate::{Container, Error, Graph, NodeId, Tensor, TensorId};

/// Infers the node if it works on sequences or optionals; `false` where shape functions should.
pub(super) fn infer(graph: &mut Graph, id: NodeId) -> Result<bool, Error> {
    let node = graph.node(id);
    let input = |index: usize| {
        node.input(index)
            .map(|id| graph.tensor(id))
            .filter(|tensor| tensor.typed)
    };
    let first = input(0);
    let unranked = |tensor: &Tensor| TensorType::unranked(tensor.ty.dtype);
    let found: Option<(TensorType, Container)> = match node.op {
        Op::SequenceEmpty => {
            let empty: SequenceEmpty = node
                .typed()
                .map_err(|why| Error::infer(describe(graph, node), why))?;
            Some((TensorType::unranked(empty.element()), Container::Sequence))
        }
        Op::SequenceConstruct => first.map(|tensor| {
            let same = node.reads().all(|id| graph.tensor(id).ty == tensor.ty);
            (
                if same { tensor.ty.clone() } else { unranked(tensor) },
                Container::Sequence,
            )
        }),
        Op::SequenceInsert => first.map(|sequence| {
            let same = input(1).is_some_and(|tensor| tensor.ty == sequence.ty);
            (
                if same {
                    sequence.ty.clone()
                } else {
                    unranked(sequence)
                },
                Container::Sequence,
            )
        }),
        Op::SequenceErase => first.map(|sequence| (sequence.ty.clone(), Container::Sequence)),
        Op::SplitToSequence => first.map(|tensor| (unranked(tensor), Container::Sequence)),
        Op::SequenceAt => first.map(|sequence| (sequence.ty.clone(), Container::Tensor)),
        Op::ConcatFromSequence => first.map(|sequence| (unranked(sequence), Container::Tensor)),
        Op::SequenceLength => Some((TensorType::known(DType::I64, &[]), Container::Tensor)),
        Op::OptionalHasElement => Some((TensorType::known(DType::Bool, &[]), Container::Tensor)),
        Op::Optional => first.map(|tensor| {
            let container = match tensor.container {
                Container::Sequence => Container::OptionalSequence,
                _ => Container::Optional,
            };
            (tensor.ty.clone(), container)
        }),
        Op::OptionalGetElement => first.map(|tensor| {
            let container = match tensor.container {
                Container::OptionalSequence | Container::Sequence => Container::Sequence,
                _ => Container::Tensor,
            };
            (tensor.ty.clone(), container)
        }),
        Op::Identity => match first {
            Some(tensor) if tensor.container != Container::Tensor => {
                Some((tensor.ty.clone(), tensor.container))
            }
            _ => return Ok(false),
        },
        _ => return Ok(false),
    };
    if let (Some((ty, container)), Some(output)) = (found, node.output(0)) {
        assign(graph, output, ty, container);
    }
    Ok(true)
}

fn assign(graph: &mut Graph, output: TensorId, ty: TensorType, container: Container) {
    let tensor = graph.tensor_mut(output);
    let declared = tensor.typed && tensor.ty.shape.is_some() && ty.shape.is_none();
    if !declared {
        tensor.ty = ty;
    }
    tensor.typed = true;
    tensor.container = container;
}

//! From nodes to operations of the library, as plain data: the operand-graph front end makes the steps.
//!
//! Invariants:
//! 1. A node that no library operation computes exactly is refused with a reason; nothing is approximated.
//! 2. A Relu or a Clip becomes the activation of the operation before it, if that has one.
//!
//! Not here: which steps a node becomes (`polychip_lowering::operands`), the verdict of the library on an operation (`caps`),
//! its calls (`api`). Start reading at [`whole`].

mod chip;
mod encode;

pub(crate) use chip::Chip;

use polychip_lowering::operands::{self, Info};
use polychip_lowering::{Node, Outcome, Part, Refusal};
use polychip_sdk::GraphView;

use crate::program::Program;

/// The part that a view shows: nodes that the library has no operation for are computed as what they were made of.
pub(crate) fn read(graph: &GraphView<'_>) -> Part {
    let part = Part::of(graph, |_| false);
    let offered = part.nodes.iter().map(|node| operands::offers(node.op, &Chip));
    let offered: Vec<bool> = offered.collect();
    part.decomposed(|index| !offered[index])
}

/// Lowers a part.
///
/// # Errors
/// The refused node of the call's graph, and the reason.
pub(crate) fn whole(part: &Part, relaxed: bool) -> Result<Program, Refusal> {
    let mut steps = operands::whole(part, &Chip)?;
    steps.fuse(encode::takes_activation, |range| {
        encode::activation(range).is_some()
    });
    let mut program = encode::program(&steps)?;
    program.relaxed = relaxed;
    Ok(program)
}

/// Lowers one node as a part of its own, once in each order that it may be planned in. Without `data`, constants are empty.
pub(crate) fn alone(part: &Part, infos: &[Outcome<Info>], node: &Node, data: bool) -> Outcome<Vec<Program>> {
    let programs = operands::alone(part, infos, &Chip, node, data)?;
    programs.iter().map(encode::program).collect()
}

#[cfg(test)]
mod tests {
    use polychip_lowering::Tensor;
    use polychip_ops::{Attr, AttrValue, DType, Op};
    use polychip_sdk::Constant;
    use polychip_sys::neuron::bindings as sys;

    use super::*;

    /// Weights that live as long as the program.
    fn filter(out: usize, inner: usize) -> Tensor {
        let zeros: &'static [u8] = Box::leak(vec![0u8; 4 * 9 * out * inner].into_boxed_slice());
        let mut tensor = Tensor::new(DType::F32, Some(vec![out, inner, 3, 3]));
        tensor.constant = Some(Constant::of_static(zeros));
        tensor
    }

    /// Two convolutions with a Relu between them.
    fn chain() -> Part {
        let image = |channels| Tensor::new(DType::F32, Some(vec![1, channels, 8, 8]));
        let mut nodes = vec![
            Node::new(Op::Conv, &[0, 4], &[1]),
            Node::new(Op::Relu, &[1], &[2]),
            Node::new(Op::Conv, &[2, 5], &[3]),
        ];
        for (index, node) in nodes.iter_mut().enumerate() {
            node.index = index as u32;
            if node.op == Op::Conv {
                node.attributes.set(Attr::Pads, AttrValue::Ints(vec![1, 1, 1, 1]));
            }
        }
        Part {
            nodes,
            tensors: vec![image(3), image(4), image(4), image(2), filter(4, 3), filter(2, 4)],
            inputs: vec![0],
            outputs: vec![3],
            states: Vec::new(),
        }
    }

    #[test]
    fn images_stay_channels_last_and_relu_is_fused_into_the_convolution() {
        let program = whole(&chain(), false).unwrap();
        let codes: Vec<u32> = program
            .operations
            .iter()
            .map(|operation| operation.code)
            .collect();
        let (turn, conv) = (sys::NEURON_TRANSPOSE, sys::NEURON_CONV_2D);
        assert_eq!(codes, [turn, conv, conv, turn]);
        // x, w, b, the code of equal pads, steps, the activation, order, dilations
        let first = &program.operations[1];
        let number = |place: usize| {
            let value = program.operands[first.inputs[place]].value.as_ref().unwrap();
            value.bytes().to_vec()
        };
        assert_eq!(first.inputs.len(), 10);
        assert_eq!(number(3), 1i32.to_le_bytes());
        assert_eq!(number(6), (sys::NEURON_FUSED_RELU as i32).to_le_bytes());
        assert_eq!(number(7), [0]);
        assert_eq!(program.operands[first.inputs[1]].dims, [4, 3, 3, 3]);
        assert_eq!(
            program.operands[program.operations[1].outputs[0]].dims,
            [1, 8, 8, 4]
        );
    }

    #[test]
    fn op_without_a_rule_is_refused_by_name() {
        let mut part = chain();
        part.nodes[1] = Node {
            index: 1,
            ..Node::new(Op::Erf, &[1], &[2])
        };
        let refusal = whole(&part, false).unwrap_err();
        assert!(refusal.words().contains("Erf"), "{}", refusal.words());
    }
}

//! QLinearConv and QLinearMatMul as the op of floats between DequantizeLinear and QuantizeLinear, which become encodings like
//! those of other graphs.
//!
//! Invariants:
//! 1. Scales and zero points are constants: one of each for what is computed, and for constant weights one of each per output
//!    too. Other nodes stay.
//! 2. The bias keeps its integers: its scale is the product of the scales of both operands.
//! 3. Computed operands may carry an encoding: codes that another node computes with (Pad, ArgMax, Equal) stay integers,
//!    because the product would run in floats.

use std::collections::{HashMap, HashSet};

use polychip_ops::{Attr, Attributes, DType, Literal, Op, TensorType};

use super::carriers;
use crate::passes::pattern;
use crate::{Constant, Error, Graph, Node, NodeId, Tensor, TensorId};

/// Runs the pass; returns the number of nodes that were rewritten.
pub(in crate::passes) fn run(graph: &mut Graph) -> Result<usize, Error> {
    let mut carried = HashMap::new();
    let mut changes = 0;
    for id in graph.node_ids() {
        if let Some(product) = product(graph, id)
            && product.may_carry(graph, &mut carried)
        {
            product.commit(graph, id);
            changes += 1;
        }
    }
    Ok(changes)
}

/// Whether codes may carry an encoding, and all that would share it; `known` keeps what was found.
fn may_carry(graph: &Graph, codes: TensorId, known: &mut HashMap<TensorId, bool>) -> bool {
    if let Some(&carried) = known.get(&codes) {
        return carried;
    }
    let mut seen = HashSet::from([codes]);
    let mut open = vec![codes];
    let mut carried = true;
    while let Some(member) = open.pop() {
        let tensor = graph.tensor(member);
        carried &= !tensor.is_constant() && tensor.encoding.is_none();
        let maker = graph.producer(member).map(|node| (node, Op::QuantizeLinear));
        let readers = graph.consumers(member).iter();
        let readers = readers.map(|&node| (node, Op::DequantizeLinear));
        for (node, of_reals) in maker.into_iter().chain(readers) {
            let node = graph.node(node);
            if node.op == of_reals || matches!(node.op, Op::QLinearConv | Op::QLinearMatMul) {
                continue;
            }
            let moved = carriers::moved(graph, node);
            carried &= moved.contains(&member) && node.bodies.is_empty();
            open.extend(moved.into_iter().filter(|id| seen.insert(*id)));
        }
    }
    known.extend(seen.into_iter().map(|member| (member, carried)));
    carried
}

/// Scales and zero points of a tensor.
struct Grid {
    codes: TensorId,
    scales: Vec<f32>,
    zeros: Vec<i64>,
    axis: Option<usize>,
}

/// A product to rewrite.
struct Product {
    left: Grid,
    right: Grid,
    bias: Option<Grid>,
    result: Grid,
    op: Op,
}

fn product(graph: &Graph, id: NodeId) -> Option<Product> {
    let node = graph.node(id);
    let op = match node.op {
        Op::QLinearConv => Op::Conv,
        Op::QLinearMatMul => Op::MatMul,
        _ => return None,
    };
    let codes = node.input(3)?;
    let rank = graph.tensor(codes).ty.rank()?;
    // a list has no axis of outputs: its only one is summed
    let columns = rank.checked_sub(1).filter(|&axis| axis > 0);
    let axis = if op == Op::Conv { Some(0) } else { columns };
    let left = grid(graph, node.input(0)?, node.input(1)?, node.input(2), None)?;
    let along = axis.filter(|_| graph.tensor(codes).is_constant());
    let right = grid(graph, codes, node.input(4)?, node.input(5), along)?;
    let result = grid(graph, node.output(0)?, node.input(6)?, node.input(7), None)?;
    let bias = match node.input(8) {
        None => None,
        Some(codes) => {
            let tensor = graph.tensor(codes);
            if !tensor.typed || tensor.ty.dtype != DType::I32 || !tensor.is_constant() {
                return None;
            }
            let scales: Vec<f32> = right.scales.iter().map(|scale| left.scales[0] * scale).collect();
            if !scales.iter().all(|scale| scale.is_normal()) {
                return None;
            }
            Some(Grid {
                codes,
                zeros: vec![0; scales.len()],
                axis: (scales.len() > 1).then_some(0),
                scales,
            })
        }
    };
    Some(Product {
        left,
        right,
        bias,
        result,
        op,
    })
}

/// The scales and zero points of 8-bit codes: one of each, or several along an axis.
fn grid(
    graph: &Graph,
    codes: TensorId,
    scale: TensorId,
    zero: Option<TensorId>,
    along: Option<usize>,
) -> Option<Grid> {
    let tensor = graph.tensor(codes);
    let bytes = tensor.typed && matches!(tensor.ty.dtype, DType::U8 | DType::I8);
    if !bytes || tensor.encoding.is_some() || graph.tensor(scale).ty.dtype != DType::F32 {
        return None;
    }
    let scales: Vec<f32> = pattern::floats(graph, scale)?
        .iter()
        .map(|&scale| scale as f32)
        .collect();
    let mut zeros = match zero {
        None => vec![0],
        Some(zero) if graph.tensor(zero).ty.dtype == tensor.ty.dtype => {
            let tensor = graph.tensor(zero);
            tensor.data.as_ref()?.to_literal(&tensor.ty)?.as_i64s()?
        }
        Some(_) => return None,
    };
    let axis = along.filter(|_| scales.len() > 1 || zeros.len() > 1);
    let count = match axis {
        None => 1,
        Some(axis) => tensor.ty.sizes()?.get(axis).copied()?,
    };
    let spread = |len: usize| len == 1 || len == count;
    let sound = scales.iter().all(|scale| scale.is_normal() && *scale > 0.0);
    if !sound || !spread(scales.len()) || !spread(zeros.len()) {
        return None;
    }
    if zeros.len() == 1 {
        zeros = vec![zeros[0]; count];
    }
    let scales = if scales.len() == 1 {
        vec![scales[0]; count]
    } else {
        scales
    };
    Some(Grid {
        codes,
        scales,
        zeros,
        axis,
    })
}

impl Product {
    /// Whether the computed operands may carry an encoding.
    fn may_carry(&self, graph: &Graph, known: &mut HashMap<TensorId, bool>) -> bool {
        let mut operands = [self.left.codes, self.right.codes].into_iter();
        operands.all(|codes| graph.tensor(codes).is_constant() || may_carry(graph, codes, known))
    }

    fn commit(self, graph: &mut Graph, id: NodeId) {
        let mut inputs = vec![
            Some(self.left.dequantised(graph)),
            Some(self.right.dequantised(graph)),
        ];
        inputs.extend(self.bias.map(|bias| Some(bias.dequantised(graph))));
        let real = real(graph, self.result.codes, "real");
        let (scale, zero) = self.result.constants(graph);
        let attributes = graph.node(id).attributes.clone();
        graph.edit_node(id, |node| {
            *node = Node {
                name: std::mem::take(&mut node.name),
                ..Node::new(self.op, inputs, vec![Some(real)]).with(attributes)
            };
        });
        let inputs = vec![Some(real), Some(scale), Some(zero)];
        graph.add_node(Node::new(
            Op::QuantizeLinear,
            inputs,
            vec![Some(self.result.codes)],
        ));
    }
}

impl Grid {
    fn dequantised(&self, graph: &mut Graph) -> TensorId {
        let to = real(graph, self.codes, "dequantised");
        let (scale, zero) = self.constants(graph);
        let mut attributes = Attributes::new();
        if let Some(axis) = self.axis {
            attributes = attributes.with_int(Attr::Axis, axis as i64);
        }
        let inputs = vec![Some(self.codes), Some(scale), Some(zero)];
        graph.add_node(Node::new(Op::DequantizeLinear, inputs, vec![Some(to)]).with(attributes));
        to
    }

    fn constants(&self, graph: &mut Graph) -> (TensorId, TensorId) {
        let shape: Vec<usize> = self.axis.map(|_| self.scales.len()).into_iter().collect();
        let tensor = graph.tensor(self.codes);
        let (name, dtype) = (tensor.name.clone(), tensor.ty.dtype);
        let scales = Literal {
            shape: shape.clone(),
            ..Literal::f32s(&self.scales)
        };
        let zeros = Literal::from_ints(dtype, shape, &self.zeros)
            .expect("invariant: zero points were read from this type");
        let mut constant = |role: &str, literal: &Literal| {
            let data = Constant::from_literal(literal);
            graph.add_tensor(Tensor::constant(format!("{name}.{role}"), literal.ty(), data))
        };
        (constant("scale", &scales), constant("zero", &zeros))
    }
}

/// A tensor of floats of the shape of another.
fn real(graph: &mut Graph, like: TensorId, role: &str) -> TensorId {
    let tensor = graph.tensor(like);
    let ty = TensorType {
        dtype: DType::F32,
        ..tensor.ty.clone()
    };
    let real = Tensor {
        upper_bound: tensor.upper_bound,
        ..Tensor::new(format!("{}.{role}", tensor.name), ty)
    };
    graph.add_tensor(real)
}

//! The encoding that a QuantizeLinear or DequantizeLinear node speaks of, and which nodes heed encodings.
//!
//! Invariants:
//! 1. Only integers of up to 32 bits have one, with constant scales that are finite; and positive, but for weights: quantisers
//!    that give the farthest value the code that has no counterpart (-8 of 4 bits) write scales of both signs, and 0 where all
//!    weights of a block are.
//! 2. Zero points that are all zero are dropped, so that equal encodings compare equal.

use polychip_ops::operator::{Dequantize, Quantize};
use polychip_ops::{DType, Literal, Op, Operator};

use crate::passes::pattern;
use crate::{Encoding, EncodingAxis, Graph, Node, TensorId};

/// Whether a tensor of this type can have an encoding.
pub(super) fn is_storage(dtype: DType) -> bool {
    matches!(
        dtype,
        DType::U8
            | DType::I8
            | DType::U16
            | DType::I16
            | DType::I32
            | DType::U4
            | DType::I4
            | DType::U2
            | DType::I2
    )
}

/// Whether encodings of what a node reads and writes would be heeded.
pub(super) fn computes(node: &Node) -> bool {
    let not = matches!(
        node.op,
        Op::QuantizeLinear
            | Op::DequantizeLinear
            | Op::DynamicQuantizeLinear
            | Op::QLinearConv
            | Op::QLinearMatMul
            | Op::ConvInteger
            | Op::MatMulInteger
            | Op::Cast
            | Op::CastLike
            | Op::BitCast
    );
    !not && node.bodies.is_empty() && pattern::is_pure(node)
}

/// The encoding of the integer side of a quantise or dequantise node.
pub(in crate::passes) fn encoding(graph: &Graph, node: &Node) -> Option<Encoding> {
    // of other reals no device takes an encoding: the nodes themselves run everywhere
    let found = stated(graph, node).filter(|encoding| encoding.real == DType::F32)?;
    found.scales.iter().all(|scale| *scale > 0.0).then_some(found)
}

/// The encoding of a constant that a dequantise node reads, for readers that only multiply by it: scales have any
/// sign, and the reals may have 16 bits.
pub(super) fn weights(graph: &Graph, node: &Node) -> Option<Encoding> {
    let is_weights = node.op == Op::DequantizeLinear && graph.tensor(node.input(0)?).is_constant();
    stated(graph, node).filter(|_| is_weights)
}

fn stated(graph: &Graph, node: &Node) -> Option<Encoding> {
    let (stored, real) = match node.op {
        Op::QuantizeLinear => (node.output(0)?, node.input(0)?),
        Op::DequantizeLinear => (node.input(0)?, node.output(0)?),
        _ => return None,
    };
    let (stored, real) = (graph.tensor(stored), graph.tensor(real));
    let typed = stored.typed && real.typed;
    let is_real = matches!(real.ty.dtype, DType::F32 | DType::F16 | DType::BF16);
    if !typed || !is_storage(stored.ty.dtype) || !is_real {
        return None;
    }
    let (along, block, precision) = match node.operator().ok()? {
        Operator::QuantizeLinear(Quantize {
            axis,
            block,
            precision,
            ..
        }) => (axis, block, precision),
        Operator::DequantizeLinear(Dequantize { axis, block, .. }) => (axis, block, None),
        _ => return None,
    };
    if precision.is_some() {
        return None;
    }
    let scale = node.input(1)?;
    let scale_ty = &graph.tensor(scale).ty;
    // the quotient is computed in the type of the scale
    if scale_ty.dtype != real.ty.dtype {
        return None;
    }
    let scales: Vec<f32> = pattern::floats(graph, scale)?
        .iter()
        .map(|&scale| scale as f32)
        .collect();
    if scales.is_empty() || !scales.iter().all(|scale| scale.is_finite()) {
        return None;
    }
    let axis = axis(along, block, &stored.ty.shape, &scale_ty.sizes()?)?;
    let mut zero_points = match node.input(2) {
        None => Vec::new(),
        Some(zero) => integers(graph, zero)?,
    };
    if zero_points.iter().all(|&zero| zero == 0) {
        zero_points.clear();
    }
    if !zero_points.is_empty() && zero_points.len() != scales.len() {
        return None;
    }
    Some(Encoding {
        axis,
        scales: scales.into(),
        zero_points: zero_points.into(),
        real: real.ty.dtype,
    })
}

fn axis(
    along: i64,
    block: usize,
    shape: &Option<Vec<polychip_ops::Dim>>,
    scale: &[usize],
) -> Option<EncodingAxis> {
    if scale.iter().product::<usize>() == 1 && block == 0 {
        return Some(EncodingAxis::PerTensor);
    }
    let shape = shape.as_ref()?;
    let axis = polychip_ops::axis::normalise(along, shape.len())?;
    if block == 0 {
        return (scale.len() == 1 && shape[axis].known() == Some(scale[0]))
            .then_some(EncodingAxis::PerAxis(axis));
    }
    let blocks = |(index, dim): (usize, &polychip_ops::Dim)| {
        let size = dim.known()?;
        Some(if index == axis { size.div_ceil(block) } else { size })
    };
    let expected: Option<Vec<usize>> = shape.iter().enumerate().map(blocks).collect();
    (expected? == scale).then_some(EncodingAxis::PerBlock { axis, block })
}

/// The integers of a constant, packed ones too.
pub(in crate::passes) fn integers(graph: &Graph, id: TensorId) -> Option<Vec<i32>> {
    let tensor = graph.tensor(id);
    let literal = tensor.data.as_ref()?.to_literal(&tensor.ty)?;
    if let Some(values) = literal.as_i64s() {
        return values
            .into_iter()
            .map(|value| i32::try_from(value).ok())
            .collect();
    }
    packed(&literal)
}

fn packed(literal: &Literal) -> Option<Vec<i32>> {
    let (bits, signed) = match literal.dtype {
        DType::U4 => (4, false),
        DType::I4 => (4, true),
        DType::U2 => (2, false),
        DType::I2 => (2, true),
        _ => return None,
    };
    let per_byte = 8 / bits;
    let value = |index: usize| {
        let raw = literal.bytes.get(index / per_byte)? >> (index % per_byte * bits);
        let raw = i32::from(raw) & ((1 << bits) - 1);
        let negative = signed && raw >= 1 << (bits - 1);
        Some(if negative { raw - (1 << bits) } else { raw })
    };
    (0..literal.elements()?).map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_integers_are_read_low_bits_first() {
        let four = |dtype| Literal::new(dtype, vec![3], vec![0xf1, 0x08]).unwrap();
        assert_eq!(packed(&four(DType::U4)), Some(vec![1, 15, 8]));
        assert_eq!(packed(&four(DType::I4)), Some(vec![1, -1, -8]));
        let two = Literal::new(DType::I2, vec![4], vec![0b1110_0100]).unwrap();
        assert_eq!(packed(&two), Some(vec![0, 1, -2, -1]));
    }
}

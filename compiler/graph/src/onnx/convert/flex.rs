//! FlexAttention of ONNX's preview domain (`ai.onnx.preview`): attention whose scores and probabilities are modified by graphs
//! of the model, which the importer inlines between the pieces that stand here.
//!
//! Source: the op's function body in ONNX 1.23.
//!
//! Invariants:
//! 1. Without modifiers it is ONNX's Attention.
//! 2. Heads must be known numbers where query and key have other numbers of them.

use polychip_ops::{Attr, Attributes, DType, Literal, Op};

use super::foreign::Foreign;
use super::rewrite::Rewrite;
use crate::onnx::target::Target;
use crate::{Error, Node, TensorId};

/// The node on its way; `node` has its inputs, outputs and attributes other than graphs.
fn way<'t, 'g>(target: &'t mut Target<'g>, node: &Node) -> Foreign<'t, 'g> {
    Foreign(Rewrite {
        target,
        node: node.clone(),
        version: 0,
    })
}

fn cast(flex: &mut Foreign<'_, '_>, x: TensorId, dtype: DType, role: &str) -> Result<TensorId, Error> {
    if flex.dtype(x) == Some(dtype) {
        return Ok(x);
    }
    let to = Attributes::new().with_int(Attr::To, dtype.code().into());
    flex.0.step(Op::Cast, &[x], role, to)
}

/// The element type in which scores and probabilities are.
fn precision(flex: &Foreign<'_, '_>) -> Result<DType, Error> {
    let data = flex.dtype(flex.0.input(0)?);
    match flex.int("softmax_precision") {
        Some(code) => u32::try_from(code)
            .ok()
            .and_then(DType::from_code)
            .ok_or_else(|| flex.0.malformed(&format!("softmax_precision is {code}"))),
        None if data == Some(DType::F64) => Ok(DType::F64),
        None => Ok(DType::F32),
    }
}

/// The whole op, where nothing is modified.
pub(in crate::onnx) fn plain(target: &mut Target<'_>, node: &Node) -> Result<(), Error> {
    let mut flex = way(target, node);
    let mut attributes = Attributes::new();
    if let Some(scale) = flex.float("scale") {
        attributes = attributes.with_float(Attr::Scale, scale);
    }
    let precision = precision(&flex)?;
    attributes = attributes.with_int(Attr::SoftmaxPrecision, precision.code().into());
    let inputs = (0..3).map(|slot| flex.input(slot)).collect();
    flex.last(Op::Attention, inputs, attributes).map(|_| ())
}

/// The scores, before they are modified.
pub(in crate::onnx) fn scores(target: &mut Target<'_>, node: &Node) -> Result<TensorId, Error> {
    let mut flex = way(target, node);
    let (q, k) = (flex.0.input(0)?, flex.0.input(1)?);
    let root = match (flex.float("scale"), size(&flex, q, 3)) {
        (Some(scale), _) => flex.0.scalar_like("root", scale.sqrt(), q)?,
        (None, Some(width)) => {
            let scale = 1.0 / (width as f32).sqrt();
            flex.0.scalar_like("root", scale.sqrt(), q)?
        }
        _ => return Err(flex.0.unsupported("a head size that is not known")),
    };
    let k = aligned(&mut flex, k, "k")?;
    let q = flex.step(Op::Mul, &[q, root], "q.scaled")?;
    let k = flex.step(Op::Mul, &[k, root], "k.scaled")?;
    let perm = Attributes::new().with_ints(Attr::Perm, &[0, 1, 3, 2]);
    let k = flex.0.step(Op::Transpose, &[k], "k.transposed", perm)?;
    let scores = flex.step(Op::MatMul, &[q, k], "products")?;
    let precision = precision(&flex)?;
    cast(&mut flex, scores, precision, "scores")
}

/// The probabilities, before they are modified.
pub(in crate::onnx) fn probabilities(
    target: &mut Target<'_>,
    node: &Node,
    scores: TensorId,
) -> Result<TensorId, Error> {
    let mut flex = way(target, node);
    let axis = Attributes::new().with_int(Attr::Axis, -1);
    flex.0.step(Op::Softmax, &[scores], "probabilities", axis)
}

/// What comes out.
pub(in crate::onnx) fn values(
    target: &mut Target<'_>,
    node: &Node,
    probabilities: TensorId,
) -> Result<(), Error> {
    let mut flex = way(target, node);
    let v = flex.0.input(2)?;
    let dtype = flex.dtype(v);
    let v = aligned(&mut flex, v, "v")?;
    let precision = precision(&flex)?;
    let v = cast(&mut flex, v, precision, "v.cast")?;
    let inputs = vec![Some(probabilities), Some(v)];
    match dtype.filter(|&dtype| dtype != precision) {
        None => flex.last(Op::MatMul, inputs, Attributes::new()).map(|_| ()),
        Some(dtype) => {
            let wide = flex.step(Op::MatMul, &[probabilities, v], "values")?;
            let to = Attributes::new().with_int(Attr::To, dtype.code().into());
            flex.last(Op::Cast, vec![Some(wide)], to).map(|_| ())
        }
    }
}

/// A size of a tensor, where it is known.
fn size(flex: &Foreign<'_, '_>, tensor: TensorId, axis: usize) -> Option<usize> {
    flex.0.target.ty(tensor)?.shape.as_ref()?.get(axis)?.known()
}

/// Keys or values with as many heads as the queries: each of theirs serves a group of those.
fn aligned(flex: &mut Foreign<'_, '_>, x: TensorId, role: &str) -> Result<TensorId, Error> {
    let q = flex.0.input(0)?;
    let (Some(heads), Some(own), Some(width)) = (size(flex, q, 1), size(flex, x, 1), size(flex, x, 3)) else {
        return Err(flex.0.unsupported("a number of heads that is not known"));
    };
    if heads == own {
        return Ok(x);
    }
    if own == 0 || heads % own != 0 {
        return Err(flex.0.malformed(&format!("{heads} heads of queries over {own}")));
    }
    let whole = |size: usize| i64::try_from(size).expect("invariant: sizes fit");
    let axis = flex.0.constant(&format!("{role}.axis"), &Literal::i64s(&[2]));
    let x = flex.step(Op::Unsqueeze, &[x, axis], &format!("{role}.grouped"))?;
    let times = Literal::i64s(&[1, 1, whole(heads / own), 1, 1]);
    let times = flex.0.constant(&format!("{role}.times"), &times);
    let x = flex.step(Op::Expand, &[x, times], &format!("{role}.repeated"))?;
    let shape = Literal::i64s(&[0, whole(heads), -1, whole(width)]);
    let shape = flex.0.constant(&format!("{role}.shape"), &shape);
    flex.step(Op::Reshape, &[x, shape], &format!("{role}.aligned"))
}

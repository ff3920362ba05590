//! Messages that stand alone: attributes, nodes that the graph does not have, the head of a tensor.

use polychip_ops::{Attr, AttrValue, DType};

use super::schema::{field, kind};
use super::wire::Wire;
use crate::Result;

/// An attribute.
pub(super) fn attribute(wire: &mut Wire, name: &str, value: &AttrValue) -> Result<()> {
    wire.message(field::NODE_ATTRIBUTE, |wire| {
        wire.text(field::ATTRIBUTE_NAME, name);
        let kind = match value {
            AttrValue::Int(value) => {
                wire.int(field::ATTRIBUTE_INT, *value);
                kind::INT
            }
            AttrValue::Float(value) => {
                wire.float(field::ATTRIBUTE_FLOAT, *value);
                kind::FLOAT
            }
            AttrValue::String(text) => {
                wire.text(field::ATTRIBUTE_TEXT, text);
                kind::TEXT
            }
            AttrValue::Ints(values) => {
                for &value in values {
                    wire.int(field::ATTRIBUTE_INTS, value);
                }
                kind::INTS
            }
            AttrValue::Floats(values) => {
                for &value in values {
                    wire.float(field::ATTRIBUTE_FLOATS, value);
                }
                kind::FLOATS
            }
            AttrValue::Strings(texts) => {
                for text in texts {
                    wire.text(field::ATTRIBUTE_TEXTS, text);
                }
                kind::TEXTS
            }
            // those of nodes are written from their views
            AttrValue::Tensor(literal) => {
                wire.message(field::ATTRIBUTE_TENSOR, |wire| {
                    head(wire, "", literal.dtype, &literal.shape);
                    wire.bytes(field::TENSOR_RAW, &literal.bytes)
                })?;
                kind::TENSOR
            }
        };
        wire.int(field::ATTRIBUTE_TYPE, kind);
        Ok(())
    })
}

/// A node of one output that the graph does not have.
pub(super) fn simple(
    wire: &mut Wire,
    name: &str,
    op: &str,
    inputs: &[&str],
    output: &str,
    attributes: &[(&str, i64)],
) -> Result<()> {
    wire.message(field::GRAPH_NODE, |wire| {
        for input in inputs {
            wire.text(field::NODE_INPUT, input);
        }
        wire.text(field::NODE_OUTPUT, output);
        wire.text(field::NODE_NAME, name);
        wire.text(field::NODE_OP, op);
        attributes
            .iter()
            .try_for_each(|&(name, value)| attribute(wire, name, &AttrValue::Int(value)))
    })
}

/// A Cast that the graph does not have.
pub(super) fn cast(wire: &mut Wire, from: &str, to: &str, dtype: DType) -> Result<()> {
    let to_attribute = [(Attr::To.name(), i64::from(dtype.code()))];
    simple(wire, &format!("{to}.cast"), "Cast", &[from], to, &to_attribute)
}

/// Dims, element type and name of a tensor.
pub(super) fn head(wire: &mut Wire, name: &str, dtype: DType, dims: &[usize]) {
    for &dim in dims {
        wire.int(field::TENSOR_DIMS, dim as i64);
    }
    wire.int(field::TENSOR_ELEMENT, i64::from(dtype.code()));
    if !name.is_empty() {
        wire.text(field::TENSOR_NAME, name);
    }
}

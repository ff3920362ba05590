//! Attributes of a node message as values.
//!
//! Invariants:
//! 1. Inside a function, an attribute that refers to one of the caller's is that value, or absent
//!    where the caller gives none and the function has no default.
//! 2. Older writers leave the kind of an attribute out: it then follows from the field in use.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use polychip_ops::{AttrKey, AttrValue, Attributes};

use super::external::Files;
use super::messages::{Attribute, Graph, Node, attribute_type as kind};
use super::weights;
use crate::Error;

/// Attributes that a function body may refer to, by name.
pub(super) type Bindings = BTreeMap<String, Attribute>;

/// Attributes of a node: values, and body graphs by name.
#[derive(Default)]
pub(super) struct Read<'m> {
    pub(super) values: Attributes,
    pub(super) graphs: Vec<(String, &'m Graph)>,
}

/// The kind of an attribute.
pub(super) fn kind_of(attribute: &Attribute) -> i32 {
    if attribute.r#type != kind::UNDEFINED {
        return attribute.r#type;
    }
    match attribute {
        a if a.f.is_some() => kind::FLOAT,
        a if a.i.is_some() => kind::INT,
        a if a.s.is_some() => kind::STRING,
        a if a.t.is_some() => kind::TENSOR,
        a if a.g.is_some() => kind::GRAPH,
        a if a.sparse_tensor.is_some() => kind::SPARSE_TENSOR,
        a if !a.floats.is_empty() => kind::FLOATS,
        a if !a.ints.is_empty() => kind::INTS,
        a if !a.strings.is_empty() => kind::STRINGS,
        _ => kind::UNDEFINED,
    }
}

/// The attribute itself, or the one it refers to; `None` where the caller gave none.
pub(super) fn resolve<'a>(
    attribute: &'a Attribute,
    bindings: Option<&'a Bindings>,
    what: &str,
) -> Result<Option<&'a Attribute>, Error> {
    if attribute.ref_attr_name.is_empty() {
        return Ok(Some(attribute));
    }
    match bindings {
        Some(bindings) => Ok(bindings.get(&attribute.ref_attr_name)),
        None => Err(Error::malformed(format!(
            "{what}: attribute \"{}\" refers to \"{}\", but stands in no function",
            attribute.name, attribute.ref_attr_name
        ))),
    }
}

/// Reads the attributes of a node.
pub(super) fn read<'m>(
    node: &'m Node,
    bindings: Option<&'m Bindings>,
    what: &str,
    files: &mut Files<'_>,
) -> Result<Read<'m>, Error> {
    let mut read = Read::default();
    for attribute in &node.attribute {
        let name = attribute.name.as_str();
        let Some(resolved) = resolve(attribute, bindings, what)? else {
            continue;
        };
        if let (kind::GRAPH, Some(graph)) = (kind_of(resolved), &resolved.g) {
            read.graphs.push((name.to_owned(), graph));
            continue;
        }
        let Some(value) = value(resolved, what, files)? else {
            continue;
        };
        let key = AttrKey::from_name(name);
        if read.values.get_key(&key).is_some() {
            return Err(Error::malformed(format!(
                "{what}: attribute \"{name}\" is given twice"
            )));
        }
        read.values.set(key, value);
    }
    Ok(read)
}

/// The value of an attribute that is no graph; `None` for kinds that no op computes with.
fn value(attribute: &Attribute, what: &str, files: &mut Files<'_>) -> Result<Option<AttrValue>, Error> {
    let name = attribute.name.as_str();
    let text = |bytes: &Bytes| {
        std::str::from_utf8(bytes)
            .map(Arc::<str>::from)
            .map_err(|_| Error::malformed(format!("{what}: attribute \"{name}\" is not UTF-8")))
    };
    let missing = || Error::malformed(format!("{what}: attribute \"{name}\" has no value of its kind"));
    Ok(Some(match kind_of(attribute) {
        kind::FLOAT => AttrValue::Float(attribute.f.unwrap_or(0.0)),
        kind::INT => AttrValue::Int(attribute.i.unwrap_or(0)),
        kind::STRING => AttrValue::String(text(attribute.s.as_ref().unwrap_or(&Bytes::new()))?),
        kind::FLOATS => AttrValue::Floats(attribute.floats.clone()),
        kind::INTS => AttrValue::Ints(attribute.ints.clone()),
        kind::STRINGS => AttrValue::Strings(attribute.strings.iter().map(text).collect::<Result<_, _>>()?),
        kind::TENSOR => {
            let tensor = attribute.t.as_ref().ok_or_else(missing)?;
            let (ty, data) = weights::constant(tensor, files)?;
            AttrValue::Tensor(data.to_literal(&ty).expect("invariant: a constant fits its type"))
        }
        kind::SPARSE_TENSOR => {
            let sparse = attribute.sparse_tensor.as_ref().ok_or_else(missing)?;
            let (_, ty, data) = weights::dense(sparse, files)?;
            AttrValue::Tensor(data.to_literal(&ty).expect("invariant: a constant fits its type"))
        }
        kind::GRAPH => return Err(missing()),
        // Optional's element type: nothing is computed from it
        kind::TYPE => return Ok(None),
        // an empty list written without its kind: what it holds does not matter
        kind::UNDEFINED => return Ok(None),
        other => {
            return Err(Error::unsupported(format!(
                "{what}: attribute \"{name}\" is of kind {other}"
            )));
        }
    }))
}

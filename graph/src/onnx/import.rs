//! From the bytes of a model to a graph: header checks, then the walk over the nodes.
//!
//! Invariants:
//! 1. The bytes are decoded once, in place; the messages are dropped before the graph is returned.
//! 2. Opsets of the default domain outside 6 to 28 are refused.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use prost::Message;

use super::build::{Importer, Opsets};
use super::external::{ExternalData, Files};
use super::messages::{Model, OperatorSetId};
use crate::{Error, Graph};

/// Oldest opset of the default domain that is read.
pub(super) const OLDEST: i64 = 6;
/// The opset that graphs are in.
pub(super) const NEWEST: i64 = 28;
/// IR versions that are read. 3 is the first that names opsets.
const IR_VERSIONS: std::ops::RangeInclusive<i64> = 3..=14;

/// How a model is read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Most nodes after functions are inlined.
    pub node_limit: usize,
    /// Whether sizes that the model declares of intermediate values and outputs are believed where
    /// inference knows none. Element types are always believed.
    pub declared: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            node_limit: 1 << 20,
            declared: true,
        }
    }
}

/// Reads a model. `bytes` should come from an owner (`Bytes::from_owner`) of mapped memory: weights
/// are slices of it, and keep it alive.
///
/// # Errors
/// If the bytes are no ONNX model, the model contradicts itself, or needs what is not supported; the
/// message names the node, tensor or file. Ops that are not known are no error: they become
/// [`Op::Custom`](polychip_ops::Op::Custom).
///
/// ```
/// use bytes::Bytes;
/// use polychip_graph::onnx::{self, NoExternalData, Options};
///
/// let error = onnx::import(Bytes::new(), &NoExternalData, &Options::default()).unwrap_err();
/// assert_eq!(error.to_string(), "the model is empty");
/// ```
pub fn import(bytes: Bytes, external: &dyn ExternalData, options: &Options) -> Result<Graph, Error> {
    if bytes.is_empty() {
        return Err(Error::malformed("the model is empty"));
    }
    let mut model = Model::decode(bytes.clone()).map_err(Error::wire)?;
    let graph = model
        .graph
        .take()
        .ok_or_else(|| Error::malformed("the model has no graph"))?;
    match model.ir_version {
        None => return Err(Error::malformed("the model has no IR version")),
        Some(version) if !IR_VERSIONS.contains(&version) => {
            return Err(Error::unsupported(format!(
                "the model has IR version {version}; versions {} to {} are read",
                IR_VERSIONS.start(),
                IR_VERSIONS.end()
            )));
        }
        Some(_) => {}
    }
    let opsets = Rc::new(opsets(&model.opset_import, "the model")?);
    let mut functions = BTreeMap::new();
    for function in &model.functions {
        let key = (
            domain(&function.domain).to_owned(),
            function.name.clone(),
            function.overload.clone(),
        );
        if functions.insert(key, function).is_some() {
            return Err(Error::malformed(format!(
                "function \"{}.{}\" is defined twice",
                function.domain, function.name
            )));
        }
    }
    let files = Files::new(bytes, external);
    Importer::new(files, functions, options).model(&graph, opsets)
}

/// The domain under its canonical name: the default one is empty.
pub(super) fn domain(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// The opset versions by domain, checked.
pub(super) fn opsets(imports: &[OperatorSetId], what: &str) -> Result<Opsets, Error> {
    let mut opsets = Opsets::new();
    for import in imports {
        let domain = domain(&import.domain);
        if domain.is_empty() && !(OLDEST..=NEWEST).contains(&import.version) {
            return Err(Error::unsupported(format!(
                "{what} uses opset {}; opsets {OLDEST} to {NEWEST} are read",
                import.version
            )));
        }
        if let Some(before) = opsets.insert(domain.to_owned(), import.version)
            && before != import.version
        {
            return Err(Error::malformed(format!(
                "{what} imports opset {before} and opset {} of domain \"{domain}\"",
                import.version
            )));
        }
    }
    Ok(opsets)
}

#[cfg(test)]
mod tests;

//! From the bytes of a model to a graph: header checks, then the walk over the nodes.
//!
//! Invariants:
//! 1. The bytes are decoded once, in place; the messages are dropped before the graph is returned.
//! 2. IR versions outside 1 to 14 are refused; one that names no opset is of the first.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use prost::Message;

use super::build::Importer;
use super::external::{ExternalData, Files};
use super::messages::{Model, OperatorSetId};
use super::opsets::{domain, opsets};
use super::options::Options;
use crate::{Error, Graph};

/// IR versions that are read.
const IR_VERSIONS: std::ops::RangeInclusive<i64> = 1..=14;

/// The first IR version that names opsets: before it, ops are those of opset 1.
const NAMES_OPSETS: i64 = 3;

/// The first IR version in which an initialiser that is listed as an input is a default: before it, each had to be listed.
const HAS_DEFAULTS: i64 = 4;

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
    let model = Model::decode(bytes.clone()).map_err(Error::wire)?;
    read(model, Files::new(bytes, external), options)
}

/// Reads a model that the caller holds in other structures than a file, as messages: nothing is written out and read
/// again. Raw data stays where the messages have it.
///
/// # Errors
/// As [`import`].
pub fn import_model(model: Model, external: &dyn ExternalData, options: &Options) -> Result<Graph, Error> {
    read(model, Files::new(Bytes::new(), external), options)
}

/// As [`import_model`], for messages whose raw data may lie in mapped files: such constants state their place there
/// ([`Constant::file`](crate::Constant::file)). The files have names, which the graph lists in this order; the first
/// one is the model's own file.
///
/// # Errors
/// As [`import`].
pub fn import_model_over(
    model: Model,
    mapped: &[(String, Bytes)],
    options: &Options,
) -> Result<Graph, Error> {
    read(model, Files::over(mapped), options)
}

fn read(mut model: Model, files: Files<'_>, options: &Options) -> Result<Graph, Error> {
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
    if model.opset_import.is_empty() && model.ir_version.is_some_and(|version| version < NAMES_OPSETS) {
        model.opset_import.push(OperatorSetId {
            domain: String::new(),
            version: 1,
        });
    }
    let overridable = model.ir_version.is_some_and(|version| version >= HAS_DEFAULTS);
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
    Importer::new(files, functions, options, overridable).model(&graph, opsets)
}

#[cfg(test)]
mod tests;

//! ONNX Runtime's graphs as the messages that `graph` imports, without serialisation.
//!
//! Invariant: constants are kept if the graph is, since the runtime may release its own: large ones that lie in the
//! model's files are used there, and others are copied. While the runtime only asks which nodes are supported, they are
//! read in place.
//!
//! Not here: the meaning of nodes (`graph`), the model's files (`source`).

#![allow(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use polychip::Runtime;
use polychip_graph::fingerprint::ConstantHashes;
use polychip_graph::onnx::messages::{self, TypeValue, attribute_type as kind};
use polychip_graph::onnx::{self, NoExternalData};
use polychip_ops::DType;

use crate::api::Api;
use crate::failure::{Failure, Result};
use crate::ort::{Attribute, AttributeValue, Graph, Info, Node, Size, Type};
use crate::source::{Files, Source};
use crate::value::{Value, onnx_code};

/// Version of ONNX's format for the messages.
const FORMAT: i64 = 10;

/// Alignment of the tables that devices read in place, in bytes.
const ALIGN: usize = 8;

/// Storage of the constants of a graph.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Constants {
    /// In the runtime's memory: the graph is dropped before the call ends.
    InPlace,
    /// In the model's files or, if these do not hold them, copied.
    Kept,
}

/// Nodes with their constants, which may lie in files.
#[derive(Clone)]
pub(crate) struct Nodes {
    pub(crate) model: messages::Model,
    pub(crate) files: Option<Files>,
    /// Known hashes of constants.
    pub(crate) hashes: Arc<ConstantHashes>,
}

impl Nodes {
    /// The model of a session, by this name.
    pub(crate) fn load(self, runtime: &Runtime, name: &str) -> Result<polychip::Model> {
        let options = onnx::Options::default();
        let graph = match &self.files {
            Some(files) => onnx::import_model_over(self.model, &files.mapped, &options)?,
            None => onnx::import_model(self.model, &NoExternalData, &options)?,
        };
        let folder = self.files.map(|files| files.folder);
        Ok(runtime.load_graph_hashed(name, graph, folder, self.hashes))
    }

    /// Bytes of the constants.
    pub(crate) fn constant_bytes(&self) -> usize {
        let constants = self.model.graph.iter().flat_map(|graph| &graph.initializer);
        constants
            .filter_map(|tensor| tensor.raw_data.as_ref())
            .map(Bytes::len)
            .sum()
    }

    /// The nodes with so many open sizes for the inputs at these places.
    pub(crate) fn ranked(&self, ranks: impl Iterator<Item = (usize, usize)>) -> Nodes {
        Nodes {
            model: ranked(&self.model, ranks),
            ..self.clone()
        }
    }
}

/// Constants that bodies of claimed nodes read of the graphs around them: the oldest runtime does not give them with what is
/// compiled. By the first output of the node, and the constant's name: names are those of one graph, and another graph of the
/// model may use them again.
pub(crate) type Captured = BTreeMap<(String, String), messages::Tensor>;

/// Identity of a node, in the graph and in compiled content: its first output.
pub(crate) fn known_by(node: Node<'_>) -> Result<String> {
    let first = node.outputs()?.into_iter().flatten().next();
    Ok(match first {
        Some(info) => info.name()?.to_owned(),
        None => String::new(),
    })
}

/// Reads graphs.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'r> {
    pub(crate) api: Api,
    pub(crate) constants: Constants,
    pub(crate) captured: &'r Captured,
    /// Where constants lie that are kept.
    pub(crate) source: Option<&'r Source>,
}

impl Reader<'_> {
    /// A graph with all its nodes.
    pub(crate) fn whole(self, graph: Graph<'_>) -> Result<messages::Model> {
        let opsets = graph.opsets()?;
        Ok(model(self.graph(graph)?, opsets))
    }

    /// The constants that bodies of a node read of the graphs around it.
    pub(crate) fn captured(self, node: Node<'_>) -> Result<Captured> {
        let known_by = known_by(node)?;
        let mut captured = Captured::new();
        for info in node.captures()? {
            if let Some(tensor) = self.constant(info, false)? {
                captured.insert((known_by.clone(), info.name()?.to_owned()), tensor);
            }
        }
        Ok(captured)
    }

    /// A node with its constants, as a graph of its own.
    pub(crate) fn alone(self, node: Node<'_>, opsets: Vec<(String, i64)>) -> Result<messages::Model> {
        let mut graph = messages::Graph {
            name: node.name()?.to_owned(),
            node: vec![self.node(node)?],
            ..messages::Graph::default()
        };
        let mut seen = BTreeSet::new();
        let read = node.inputs()?.into_iter().flatten().chain(node.captures()?);
        for info in read {
            let name = info.name()?.to_owned();
            if !name.is_empty() && seen.insert(name) {
                match self.constant(info, false)? {
                    Some(tensor) => graph.initializer.push(tensor),
                    None => graph.input.push(self.info(info)?),
                }
            }
        }
        for info in node.outputs()?.into_iter().flatten() {
            if !info.name()?.is_empty() {
                graph.output.push(self.info(info)?);
            }
        }
        Ok(model(graph, opsets))
    }

    fn graph(self, graph: Graph<'_>) -> Result<messages::Graph> {
        let mut made = messages::Graph {
            name: graph.name()?.to_owned(),
            ..messages::Graph::default()
        };
        let mut constants = BTreeSet::new();
        let nodes = graph.nodes()?;
        let tables = tables(&nodes)?;
        for info in graph.initializers()? {
            if let Some(tensor) = self.constant(info, tables.contains(info.name()?))? {
                constants.insert(tensor.name.clone());
                made.initializer.push(tensor);
            }
        }
        for info in graph.inputs()? {
            if !constants.contains(info.name()?) {
                made.input.push(self.info(info)?);
            }
        }
        let outputs = graph.outputs()?;
        let mut outer = BTreeSet::new();
        for info in &outputs {
            outer.insert(info.name()?.to_owned());
            made.output.push(self.info(*info)?);
        }
        for node in nodes {
            for info in node.outputs()?.into_iter().flatten() {
                let name = info.name()?;
                if !name.is_empty() && !outer.contains(name) {
                    made.value_info.push(self.info(info)?);
                }
            }
            made.node.push(self.node(node)?);
        }
        self.captures(graph, &mut made)?;
        Ok(made)
    }

    /// Adds what bodies within a graph read of graphs around it, as constants or inputs: where nodes were cut out of their
    /// graph, older runtimes do not say it otherwise.
    fn captures(self, graph: Graph<'_>, made: &mut messages::Graph) -> Result<()> {
        let mut missing = Vec::new();
        for node in graph.nodes()? {
            let captures = node.captures()?;
            if !captures.is_empty() {
                let known_by = known_by(node)?;
                missing.extend(captures.into_iter().map(|info| (known_by.clone(), info)));
            }
        }
        if missing.is_empty() || graph.parent()?.is_some() {
            return Ok(());
        }
        let named = made.initializer.iter().map(|tensor| &tensor.name);
        let given = made.input.iter().map(|info| &info.name);
        let written = made.node.iter().flat_map(|node| &node.output);
        let mut defined: BTreeSet<String> = named.chain(given).chain(written).cloned().collect();
        for (known_by, info) in missing {
            let name = info.name()?;
            if defined.insert(name.to_owned()) {
                let kept = || self.captured.get(&(known_by, name.to_owned())).cloned();
                match self.constant(info, false)?.or_else(kept) {
                    Some(constant) => made.initializer.push(constant),
                    None => made.input.push(self.info(info)?),
                }
            }
        }
        Ok(())
    }

    fn node(self, node: Node<'_>) -> Result<messages::Node> {
        let names = |infos: Vec<Option<Info<'_>>>| -> Result<Vec<String>> {
            let name = |info: &Option<Info<'_>>| match info {
                Some(info) => Ok(info.name()?.to_owned()),
                None => Ok(String::new()),
            };
            infos.iter().map(name).collect()
        };
        let mut made = messages::Node {
            input: names(node.inputs()?)?,
            output: names(node.outputs()?)?,
            name: node.name()?.to_owned(),
            op_type: node.op()?.to_owned(),
            domain: node.domain()?.to_owned(),
            ..messages::Node::default()
        };
        for attribute in node.attributes()? {
            made.attribute.extend(self.attribute(attribute)?);
        }
        for (name, body) in node.bodies()? {
            made.attribute.push(messages::Attribute {
                name: name.to_owned(),
                r#type: kind::GRAPH,
                g: Some(Box::new(self.graph(body)?)),
                ..messages::Attribute::default()
            });
        }
        Ok(made)
    }

    fn attribute(self, attribute: Attribute<'_>) -> Result<Option<messages::Attribute>> {
        let mut made = messages::Attribute {
            name: attribute.name()?.to_owned(),
            ..messages::Attribute::default()
        };
        match attribute.value()? {
            AttributeValue::Int(value) => (made.r#type, made.i) = (kind::INT, Some(value)),
            AttributeValue::Ints(values) => (made.r#type, made.ints) = (kind::INTS, values),
            AttributeValue::Float(value) => (made.r#type, made.f) = (kind::FLOAT, Some(value)),
            AttributeValue::Floats(values) => (made.r#type, made.floats) = (kind::FLOATS, values),
            AttributeValue::String(bytes) => (made.r#type, made.s) = (kind::STRING, Some(Bytes::from(bytes))),
            AttributeValue::Strings(strings) => {
                made.r#type = kind::STRINGS;
                made.strings = strings.into_iter().map(Bytes::from).collect();
            }
            AttributeValue::Tensor(value) => {
                // SAFETY: the value holds a tensor and lives until it is read.
                let value = unsafe { Value::new(self.api, value.raw()) };
                // the value goes before the graph does
                let tensor = self.tensor(&made.name, value, Constants::Kept, None)?;
                (made.r#type, made.t) = (kind::TENSOR, Some(Box::new(tensor)));
            }
            AttributeValue::Graph | AttributeValue::Nothing => return Ok(None),
        }
        Ok(Some(made))
    }

    /// The tensor of a value that no run changes. A table is used in a file only if it is aligned there: devices read it in
    /// place, and would copy one that is not aligned for each list of input sizes.
    fn constant(self, info: Info<'_>, is_table: bool) -> Result<Option<messages::Tensor>> {
        if !info.is_constant()? {
            return Ok(None);
        }
        let Some(value) = info.initializer()? else {
            return Ok(None);
        };
        // SAFETY: an initialiser is a tensor, which lives as long as the graph.
        let value = unsafe { Value::new(self.api, value) };
        let mut found = None;
        if self.constants == Constants::Kept
            && let Some(source) = self.source
        {
            found = match info.external()? {
                Some((location, offset, bytes)) => source.beside((&location, offset, bytes)),
                None => None,
            };
            if found.is_none() {
                // SAFETY: as above; the bytes are read now. Strings have none.
                let bytes = unsafe { value.bytes() }.ok();
                let name = info.name()?;
                found = bytes.and_then(|(_, _, bytes)| source.find(name, bytes));
            }
            found = found.filter(|found| !is_table || found.as_ptr().addr().is_multiple_of(ALIGN));
        }
        self.tensor(info.name()?, value, self.constants, found).map(Some)
    }

    /// The message of a tensor; `found` are its bytes in a file, if that is known.
    fn tensor(
        self,
        name: &str,
        value: Value,
        constants: Constants,
        found: Option<Bytes>,
    ) -> Result<messages::Tensor> {
        let (dtype, sizes) = value.form()?;
        let mut tensor = messages::Tensor {
            name: name.to_owned(),
            dims: sizes.iter().map(|size| *size as i64).collect(),
            data_type: dtype.code() as i32,
            ..messages::Tensor::default()
        };
        if dtype == DType::String {
            let literal = value.strings()?;
            let strings = literal.strings().unwrap_or_default();
            tensor.string_data = strings
                .iter()
                .map(|text| Bytes::copy_from_slice(text.as_bytes()))
                .collect();
            return Ok(tensor);
        }
        // SAFETY: a constant is not written; where it is lent, the graph is gone before the call ends.
        let (_, _, bytes) = unsafe { value.bytes::<'static>() }?;
        tensor.raw_data = Some(match constants {
            Constants::InPlace => Bytes::from_static(bytes),
            Constants::Kept => {
                let found = found.filter(|found| found.len() == bytes.len());
                found.unwrap_or_else(|| Bytes::copy_from_slice(bytes))
            }
        });
        Ok(tensor)
    }

    fn info(self, info: Info<'_>) -> Result<messages::ValueInfo> {
        let element = || Box::new(messages::ElementKind { elem_type: None });
        let value = match info.ty()? {
            Type::Tensor(code, mut sizes) => {
                // the oldest runtime does not tell a scalar from a tensor of which no size is known
                if !self.api.has_shapes {
                    sizes = sizes.filter(|sizes| !sizes.is_empty());
                }
                let code = onnx_code(code).ok_or_else(|| {
                    let name = info.name().unwrap_or_default();
                    Failure::new(format!("value {name:?} is of the unknown element type {code}"))
                })?;
                Some(TypeValue::Tensor(messages::TensorKind {
                    elem_type: code as i32,
                    shape: sizes.map(|sizes| messages::Shape {
                        dim: sizes.into_iter().map(dimension).collect(),
                    }),
                }))
            }
            Type::Sequence => Some(TypeValue::Sequence(element())),
            Type::Optional => Some(TypeValue::Optional(element())),
            Type::Other => None,
        };
        Ok(messages::ValueInfo {
            name: info.name()?.to_owned(),
            r#type: value.map(|value| messages::Type { value: Some(value) }),
        })
    }
}

/// Names of what Gather reads rows of, such as embeddings.
fn tables(nodes: &[Node<'_>]) -> Result<BTreeSet<String>> {
    let mut tables = BTreeSet::new();
    for node in nodes {
        if node.op()? == "Gather"
            && let Some(Some(table)) = node.inputs()?.first()
        {
            tables.insert(table.name()?.to_owned());
        }
    }
    Ok(tables)
}

fn model(graph: messages::Graph, opsets: Vec<(String, i64)>) -> messages::Model {
    let import = |(domain, version): (String, i64)| messages::OperatorSetId { domain, version };
    messages::Model {
        ir_version: Some(FORMAT),
        graph: Some(graph),
        opset_import: opsets.into_iter().map(import).collect(),
        ..messages::Model::default()
    }
}

/// Imports what was read.
pub(crate) fn imported(model: messages::Model) -> Result<polychip_graph::Graph> {
    Ok(onnx::import_model(
        model,
        &NoExternalData,
        &onnx::Options::default(),
    )?)
}

/// The inputs of which not even the number of sizes is known, by their places among the inputs.
pub(crate) fn unranked(model: &messages::Model) -> Vec<usize> {
    let inputs = model.graph.iter().flat_map(|graph| &graph.input).enumerate();
    let is_open = |info: &messages::ValueInfo| {
        let value = info.r#type.as_ref().and_then(|ty| ty.value.as_ref());
        matches!(
            value,
            Some(TypeValue::Tensor(messages::TensorKind { shape: None, .. }))
        )
    };
    inputs
        .filter(|(_, info)| is_open(info))
        .map(|(place, _)| place)
        .collect()
}

/// The model with so many open sizes for the inputs at these places.
pub(crate) fn ranked(
    model: &messages::Model,
    ranks: impl Iterator<Item = (usize, usize)>,
) -> messages::Model {
    let mut model = model.clone();
    let inputs = model
        .graph
        .as_mut()
        .map(|graph| &mut graph.input[..])
        .unwrap_or_default();
    for (place, rank) in ranks {
        let ty = inputs[place].r#type.as_mut().and_then(|ty| ty.value.as_mut());
        if let Some(TypeValue::Tensor(kind)) = ty {
            let dim = vec![messages::Dimension { value: None }; rank];
            kind.shape = Some(messages::Shape { dim });
        }
    }
    model
}

fn dimension(size: Size) -> messages::Dimension {
    let value = match size {
        Size::Known(size) => Some(messages::DimensionValue::Value(size)),
        Size::Named(name) => Some(messages::DimensionValue::Param(name)),
        Size::Open => None,
    };
    messages::Dimension { value }
}

//! The walk over a graph that writes it.
//!
//! Invariants:
//! 1. A name is written once per model: inner graphs add the path of their nodes to it.
//! 2. An encoded tensor is stored under its own name; who computes on it reads `NAME.real`, dequantised where it
//!    is first read, and who makes it writes `NAME.exact`, quantised at once.

use std::collections::{BTreeMap, BTreeSet};

use polychip_ops::{Attr, AttrDefault, AttrKey, AttrValue, DType, Op};

use super::wire::Wire;
use super::{Options, Release, Weights};
use crate::{BodyView, EncodingKind, EncodingView, Error, GraphView, NodeView, Result, TensorView};

/// Field numbers of ONNX's messages.
mod field {
    pub(super) const MODEL_IR_VERSION: u32 = 1;
    pub(super) const MODEL_PRODUCER: u32 = 2;
    pub(super) const MODEL_GRAPH: u32 = 7;
    pub(super) const MODEL_OPSET: u32 = 8;
    pub(super) const OPSET_DOMAIN: u32 = 1;
    pub(super) const OPSET_VERSION: u32 = 2;
    pub(super) const GRAPH_NODE: u32 = 1;
    pub(super) const GRAPH_NAME: u32 = 2;
    pub(super) const GRAPH_INITIALIZER: u32 = 5;
    pub(super) const GRAPH_INPUT: u32 = 11;
    pub(super) const GRAPH_OUTPUT: u32 = 12;
    pub(super) const NODE_INPUT: u32 = 1;
    pub(super) const NODE_OUTPUT: u32 = 2;
    pub(super) const NODE_NAME: u32 = 3;
    pub(super) const NODE_OP: u32 = 4;
    pub(super) const NODE_ATTRIBUTE: u32 = 5;
    pub(super) const NODE_DOMAIN: u32 = 7;
    pub(super) const ATTRIBUTE_NAME: u32 = 1;
    pub(super) const ATTRIBUTE_FLOAT: u32 = 2;
    pub(super) const ATTRIBUTE_INT: u32 = 3;
    pub(super) const ATTRIBUTE_TEXT: u32 = 4;
    pub(super) const ATTRIBUTE_TENSOR: u32 = 5;
    pub(super) const ATTRIBUTE_GRAPH: u32 = 6;
    pub(super) const ATTRIBUTE_FLOATS: u32 = 7;
    pub(super) const ATTRIBUTE_INTS: u32 = 8;
    pub(super) const ATTRIBUTE_TEXTS: u32 = 9;
    pub(super) const ATTRIBUTE_TYPE: u32 = 20;
    pub(super) const VALUE_NAME: u32 = 1;
    pub(super) const VALUE_TYPE: u32 = 2;
    pub(super) const TYPE_TENSOR: u32 = 1;
    pub(super) const TENSOR_TYPE_ELEMENT: u32 = 1;
    pub(super) const TENSOR_TYPE_SHAPE: u32 = 2;
    pub(super) const SHAPE_DIM: u32 = 1;
    pub(super) const DIM_VALUE: u32 = 1;
    pub(super) const TENSOR_DIMS: u32 = 1;
    pub(super) const TENSOR_ELEMENT: u32 = 2;
    pub(super) const TENSOR_NAME: u32 = 8;
    pub(super) const TENSOR_RAW: u32 = 9;
    pub(super) const TENSOR_EXTERNAL: u32 = 13;
    pub(super) const TENSOR_LOCATION: u32 = 14;
    pub(super) const PAIR_KEY: u32 = 1;
    pub(super) const PAIR_VALUE: u32 = 2;
}

/// Kinds of attribute, as `ATTRIBUTE_TYPE` says them.
mod kind {
    pub(super) const FLOAT: i64 = 1;
    pub(super) const INT: i64 = 2;
    pub(super) const TEXT: i64 = 3;
    pub(super) const TENSOR: i64 = 4;
    pub(super) const GRAPH: i64 = 5;
    pub(super) const FLOATS: i64 = 6;
    pub(super) const INTS: i64 = 7;
    pub(super) const TEXTS: i64 = 8;
}

/// `TENSOR_LOCATION` of a tensor whose elements stand elsewhere.
const EXTERNAL: i64 = 1;
/// Location that says: the offset is an address of this process.
const ADDRESS: &str = "*/_ORT_MEM_ADDR_/*";
/// Bodies in bodies are checked to be fewer when the view is made; decompositions are not nested deeper.
const DEEPEST: usize = 32;

/// The nodes of a model: all of a graph, or one, whose model does not depend on where it stands.
pub(super) enum Nodes {
    All,
    One(u32),
}

pub(super) fn model(
    graph: &GraphView<'_>,
    nodes: &Nodes,
    inputs: &[u32],
    outputs: &[u32],
    options: &Options<'_>,
    release: Release,
) -> Result<Vec<u8>> {
    let mut wire = Wire::default();
    wire.int(field::MODEL_IR_VERSION, release.ir_version);
    wire.text(field::MODEL_PRODUCER, "polychip");
    let mut writer = Writer {
        options: *options,
        domains: BTreeSet::from([""]),
        depth: 0,
    };
    wire.message(field::MODEL_GRAPH, |wire| {
        let mut scope = Scope::new(graph, String::new());
        for (place, &tensor) in inputs.iter().enumerate() {
            scope.names.insert(tensor, format!("i{place}"));
        }
        wire.text(field::GRAPH_NAME, "part");
        for &tensor in inputs {
            value(
                wire,
                field::GRAPH_INPUT,
                &scope.name(tensor),
                &graph.tensor(tensor),
                true,
            )?;
        }
        let copies = scope.name_outputs(outputs);
        match nodes {
            Nodes::All => {
                for node in graph.nodes() {
                    writer.node(wire, &mut scope, &node)?;
                }
            }
            &Nodes::One(index) => {
                let node = graph.node(index as usize);
                let constants = node.inputs().flatten();
                let captured = node.bodies().flat_map(|body| body.captures().collect::<Vec<_>>());
                for tensor in constants.chain(captured.map(|(outer, _)| outer)) {
                    let next = scope.numbers.len() as u32;
                    scope.numbers.entry(tensor).or_insert(next);
                }
                scope.one = Some(index);
                writer.node(wire, &mut scope, &node)?;
            }
        }
        writer.outputs(wire, &mut scope, outputs, &copies, true)
    })?;
    for domain in &writer.domains {
        wire.message(field::MODEL_OPSET, |wire| {
            wire.text(field::OPSET_DOMAIN, domain);
            // graphs do not keep the versions of other domains: the newest of ONNX's own, the first of others
            let version = match *domain {
                "" => release.opset,
                "ai.onnx.ml" => 5,
                _ => 1,
            };
            wire.int(field::OPSET_VERSION, version);
            Ok(())
        })?;
    }
    wire.finish()
}

struct Writer<'a, 'o> {
    options: Options<'o>,
    domains: BTreeSet<&'a str>,
    depth: usize,
}

/// The names of one graph.
struct Scope<'g, 'a> {
    graph: &'g GraphView<'a>,
    /// What names of this graph begin with.
    prefix: String,
    /// Tensors that have a name of the graph around, or one of the model's inputs.
    names: BTreeMap<u32, String>,
    /// Numbers of tensors in names, where they are not those of the graph.
    numbers: BTreeMap<u32, u32>,
    /// The only node that is written; it is named as the first.
    one: Option<u32>,
    /// Constants that are written.
    constants: BTreeSet<u32>,
    /// Encoded tensors that are dequantised.
    reals: BTreeSet<u32>,
}

impl<'g, 'a> Scope<'g, 'a> {
    fn new(graph: &'g GraphView<'a>, prefix: String) -> Scope<'g, 'a> {
        Scope {
            graph,
            prefix,
            names: BTreeMap::new(),
            numbers: BTreeMap::new(),
            one: None,
            constants: BTreeSet::new(),
            reals: BTreeSet::new(),
        }
    }

    /// Gives outputs their names. Says of each whether it must be copied: it is an input, a constant, of the
    /// graph around, or given twice.
    fn name_outputs(&mut self, outputs: &[u32]) -> Vec<bool> {
        let mut copies = Vec::with_capacity(outputs.len());
        for (place, &tensor) in outputs.iter().enumerate() {
            let copy = self.names.contains_key(&tensor)
                || self.graph.inputs().contains(&tensor)
                || self.graph.tensor(tensor).is_constant();
            if !copy {
                self.names.insert(tensor, format!("{}o{place}", self.prefix));
            }
            copies.push(copy);
        }
        copies
    }

    fn name(&self, tensor: u32) -> String {
        self.names
            .get(&tensor)
            .cloned()
            .unwrap_or_else(|| self.numbered(tensor))
    }

    fn numbered(&self, tensor: u32) -> String {
        format!("{}t{}", self.prefix, self.numbers.get(&tensor).unwrap_or(&tensor))
    }

    fn node_name(&self, node: &NodeView<'_>) -> String {
        let index = if self.one.is_some() { 0 } else { node.index() };
        format!("{}n{index}", self.prefix)
    }
}

/// Whether a node reads and writes stored elements, whatever encoding they have.
fn on_stored(op: Op) -> bool {
    matches!(op, Op::QuantizeLinear | Op::DequantizeLinear)
}

impl<'a> Writer<'a, '_> {
    /// The name of a tensor's stored elements; writes the constant where it is one.
    fn stored(&mut self, wire: &mut Wire, scope: &mut Scope<'_, 'a>, tensor: u32) -> Result<String> {
        let name = scope.name(tensor);
        let view = scope.graph.tensor(tensor);
        // one that the graph around names is written there
        if view.is_constant() && !scope.names.contains_key(&tensor) && scope.constants.insert(tensor) {
            constant(wire, field::GRAPH_INITIALIZER, &name, &view, self.options.weights)?;
        }
        Ok(name)
    }

    /// The name of what a tensor stands for: dequantised where it has an encoding.
    fn real(&mut self, wire: &mut Wire, scope: &mut Scope<'_, 'a>, tensor: u32) -> Result<String> {
        let stored = self.stored(wire, scope, tensor)?;
        let view = scope.graph.tensor(tensor);
        let Some(encoding) = view.encoding() else {
            return Ok(stored);
        };
        let real = format!("{}.real", scope.numbered(tensor));
        if scope.reals.insert(tensor) {
            let tail = cast_tail(&real, &encoding);
            let name = tail.as_deref().unwrap_or(&real);
            quantising(wire, "DequantizeLinear", &view, &encoding, &stored, name)?;
            if let Some(from) = &tail {
                cast(wire, from, &real, encoding.real_dtype())?;
            }
        }
        Ok(real)
    }

    fn node(&mut self, wire: &mut Wire, scope: &mut Scope<'_, 'a>, node: &NodeView<'a>) -> Result<()> {
        let at = |error: Error| error.at_node(node.index());
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(at(Error::unsupported(format!(
                "bodies and decompositions are nested deeper than {DEEPEST}"
            ))));
        }
        let result = match node.decomposition() {
            Some(inner) if (self.options.decompose)(node) => self.decomposed(wire, scope, node, &inner),
            _ => self.primitive(wire, scope, node),
        };
        self.depth -= 1;
        result.map_err(at)
    }

    /// The primitive ops of a node, in its place.
    fn decomposed(
        &mut self,
        wire: &mut Wire,
        scope: &mut Scope<'_, 'a>,
        node: &NodeView<'a>,
        graph: &GraphView<'a>,
    ) -> Result<()> {
        let mut inner = Scope::new(graph, format!("{}.", scope.node_name(node)));
        for (outer, &tensor) in node.inputs().flatten().zip(graph.inputs()) {
            let name = match graph.tensor(tensor).encoding() {
                Some(_) => self.stored(wire, scope, outer)?,
                None => self.real(wire, scope, outer)?,
            };
            inner.names.insert(tensor, name);
        }
        let mut copies = Vec::new();
        for (outer, &tensor) in node.outputs().flatten().zip(graph.outputs()) {
            let encoded = scope.graph.tensor(outer).encoding();
            let to = match encoded.filter(|_| graph.tensor(tensor).encoding().is_none()) {
                Some(_) => format!("{}.exact", scope.name(outer)),
                None => scope.name(outer),
            };
            // what is an input, a constant, or given twice needs a node of its own
            if graph.tensor(tensor).is_constant() || inner.names.contains_key(&tensor) {
                copies.push((tensor, to));
            } else {
                inner.names.insert(tensor, to);
            }
        }
        for node in graph.nodes() {
            self.node(wire, &mut inner, &node)?;
        }
        for (tensor, to) in copies {
            let from = self.stored(wire, &mut inner, tensor)?;
            simple(wire, &format!("{to}.copy"), "Identity", &[&from], &to, &[])?;
        }
        for (outer, &tensor) in node.outputs().flatten().zip(graph.outputs()) {
            if graph.tensor(tensor).encoding().is_none() {
                self.quantised(wire, scope, outer)?;
            }
        }
        Ok(())
    }

    /// Quantises `NAME.exact` to `NAME` where the tensor has an encoding.
    fn quantised(&mut self, wire: &mut Wire, scope: &mut Scope<'_, 'a>, tensor: u32) -> Result<()> {
        let view = scope.graph.tensor(tensor);
        let Some(encoding) = view.encoding() else {
            return Ok(());
        };
        let name = scope.name(tensor);
        let exact = format!("{name}.exact");
        let head = cast_tail(&exact, &encoding);
        if let Some(head) = &head {
            cast(wire, &exact, head, DType::F32)?;
        }
        let from = head.as_deref().unwrap_or(&exact);
        quantising(wire, "QuantizeLinear", &view, &encoding, from, &name)
    }

    fn primitive(&mut self, wire: &mut Wire, scope: &mut Scope<'_, 'a>, node: &NodeView<'a>) -> Result<()> {
        let stored = on_stored(node.op());
        let mut inputs = Vec::new();
        for input in node.inputs() {
            inputs.push(match input {
                None => String::new(),
                Some(tensor) if stored => self.stored(wire, scope, tensor)?,
                Some(tensor) => self.real(wire, scope, tensor)?,
            });
        }
        // a constant that a body captures is written in the graph that holds it
        for body in node.bodies() {
            for (outer, _) in body.captures() {
                self.stored(wire, scope, outer)?;
            }
        }
        let mut outputs = Vec::new();
        for output in node.outputs() {
            outputs.push(match output {
                None => String::new(),
                Some(tensor) if !stored && scope.graph.tensor(tensor).encoding().is_some() => {
                    format!("{}.exact", scope.name(tensor))
                }
                Some(tensor) => scope.name(tensor),
            });
        }
        for names in [&mut inputs, &mut outputs] {
            while names.last().is_some_and(String::is_empty) {
                names.pop();
            }
        }
        let domain = match node.domain() {
            "ai.onnx" => "",
            domain => domain,
        };
        self.domains.insert(domain);
        wire.message(field::GRAPH_NODE, |wire| {
            for name in &inputs {
                wire.text(field::NODE_INPUT, name);
            }
            for name in &outputs {
                wire.text(field::NODE_OUTPUT, name);
            }
            wire.text(field::NODE_NAME, &scope.node_name(node));
            let op = if node.op() == Op::Custom {
                node.op_name()
            } else {
                node.op().name()
            };
            wire.text(field::NODE_OP, op);
            for view in node.attribute_views() {
                let name = view.name();
                match view.tensor() {
                    Some(tensor) => wire.message(field::NODE_ATTRIBUTE, |wire| {
                        wire.text(field::ATTRIBUTE_NAME, name);
                        wire.int(field::ATTRIBUTE_TYPE, kind::TENSOR);
                        constant(wire, field::ATTRIBUTE_TENSOR, "", &tensor, Weights::Inline)
                    })?,
                    None => attribute(wire, name, &view.value())?,
                }
            }
            for (attr, value) in defaults(node) {
                attribute(wire, attr.name(), &value)?;
            }
            for (place, body) in node.bodies().enumerate() {
                let Some(attr) = body.attr else {
                    return Err(Error::unsupported("a body of an unknown attribute"));
                };
                wire.message(field::NODE_ATTRIBUTE, |wire| {
                    wire.text(field::ATTRIBUTE_NAME, attr.name());
                    wire.int(field::ATTRIBUTE_TYPE, kind::GRAPH);
                    wire.message(field::ATTRIBUTE_GRAPH, |wire| {
                        let prefix = format!("{}.{place}.", scope.node_name(node));
                        self.body(wire, scope, &body, prefix)
                    })
                })?;
            }
            wire.text(field::NODE_DOMAIN, domain);
            Ok(())
        })?;
        if !stored {
            for tensor in node.outputs().flatten() {
                self.quantised(wire, scope, tensor)?;
            }
        }
        Ok(())
    }

    fn body(
        &mut self,
        wire: &mut Wire,
        around: &Scope<'_, 'a>,
        body: &BodyView<'a>,
        prefix: String,
    ) -> Result<()> {
        let graph = body.graph;
        let mut scope = Scope::new(&graph, prefix);
        for (outer, inner) in body.captures() {
            scope.names.insert(inner, around.name(outer));
        }
        wire.text(field::GRAPH_NAME, &scope.prefix);
        for &tensor in graph.inputs() {
            if !scope.names.contains_key(&tensor) {
                value(
                    wire,
                    field::GRAPH_INPUT,
                    &scope.name(tensor),
                    &graph.tensor(tensor),
                    false,
                )?;
            }
        }
        let copies = scope.name_outputs(graph.outputs());
        for node in graph.nodes() {
            self.node(wire, &mut scope, &node)?;
        }
        self.outputs(wire, &mut scope, graph.outputs(), &copies, false)
    }

    /// The outputs of a graph, the nodes before; copies those that need a node of their own.
    fn outputs(
        &mut self,
        wire: &mut Wire,
        scope: &mut Scope<'_, 'a>,
        outputs: &[u32],
        copies: &[bool],
        typed: bool,
    ) -> Result<()> {
        for (place, (&tensor, &copy)) in outputs.iter().zip(copies).enumerate() {
            let name = format!("{}o{place}", scope.prefix);
            if copy {
                let from = self.stored(wire, scope, tensor)?;
                simple(wire, &format!("{name}.copy"), "Identity", &[&from], &name, &[])?;
            }
            value(
                wire,
                field::GRAPH_OUTPUT,
                &name,
                &scope.graph.tensor(tensor),
                typed,
            )?;
        }
        Ok(())
    }
}

/// What a node leaves to its defaults.
fn defaults(node: &NodeView<'_>) -> Vec<(Attr, AttrValue)> {
    if node.op() == Op::Custom {
        return Vec::new();
    }
    let given: BTreeSet<AttrKey> = node.attribute_views().map(|view| view.key()).collect();
    node.op()
        .spec()
        .attributes
        .iter()
        .filter(|spec| !given.contains(&AttrKey::Known(spec.attr)))
        .filter_map(|spec| {
            let value = match spec.default? {
                AttrDefault::Int(value) => AttrValue::Int(value),
                AttrDefault::Float(value) => AttrValue::Float(value),
                AttrDefault::String(text) => AttrValue::String(text.into()),
                AttrDefault::Ints(values) => AttrValue::Ints(values.to_vec()),
                AttrDefault::Strings(texts) => {
                    AttrValue::Strings(texts.iter().map(|&text| text.into()).collect())
                }
            };
            Some((spec.attr, value))
        })
        .collect()
}

fn attribute(wire: &mut Wire, name: &str, value: &AttrValue) -> Result<()> {
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
fn simple(
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

fn cast(wire: &mut Wire, from: &str, to: &str, dtype: DType) -> Result<()> {
    let to_attribute = [(Attr::To.name(), i64::from(dtype.code()))];
    simple(wire, &format!("{to}.cast"), "Cast", &[from], to, &to_attribute)
}

/// Scales are f32: a tensor that stands for another float type is cast between.
fn cast_tail(name: &str, encoding: &EncodingView<'_>) -> Option<String> {
    (encoding.real_dtype() != DType::F32).then(|| format!("{name}.f32"))
}

/// A QuantizeLinear or DequantizeLinear with its constants.
fn quantising(
    wire: &mut Wire,
    op: &str,
    tensor: &TensorView<'_>,
    encoding: &EncodingView<'_>,
    from: &str,
    to: &str,
) -> Result<()> {
    let unsupported = |what: &str| {
        Error::unsupported(format!("the encoding of tensor {}: {what}", tensor.name()))
            .at_tensor(tensor.index())
    };
    let dtype = tensor.dtype();
    if dtype == DType::I32 && op == "QuantizeLinear" {
        return Err(unsupported("ONNX quantises nothing to i32"));
    }
    let (scales, zero_points) = (encoding.scales(), encoding.zero_points());
    let mut attributes = Vec::new();
    let dims: Vec<usize> = match encoding.kind() {
        EncodingKind::PerTensor => Vec::new(),
        EncodingKind::PerAxis { axis } => {
            attributes.push((Attr::Axis.name(), axis as i64));
            vec![scales.len()]
        }
        EncodingKind::PerBlock { axis, block } => {
            attributes.push((Attr::Axis.name(), axis as i64));
            attributes.push((Attr::BlockSize.name(), block as i64));
            let mut dims = tensor
                .shape()
                .ok_or_else(|| unsupported("blocks of an unknown shape"))?;
            let along = dims.get_mut(axis).ok_or_else(|| unsupported("no such axis"))?;
            *along = along.div_ceil(block.max(1));
            dims
        }
    };
    if dims.iter().product::<usize>() != scales.len() {
        return Err(unsupported("the number of scales is not that of its blocks"));
    }
    let scale = format!("{to}.scale");
    wire.message(field::GRAPH_INITIALIZER, |wire| {
        head(wire, &scale, DType::F32, &dims);
        let bytes: Vec<u8> = scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
        wire.bytes(field::TENSOR_RAW, &bytes)
    })?;
    let zero = format!("{to}.zero");
    let mut inputs = vec![from, &*scale];
    // where it may be left out it says the type
    if dtype != DType::I32 {
        let values = match zero_points {
            [] => vec![0; scales.len()],
            given => given.to_vec(),
        };
        let bytes = packed(dtype, &values).ok_or_else(|| unsupported("zero points of this type"))?;
        wire.message(field::GRAPH_INITIALIZER, |wire| {
            head(wire, &zero, dtype, &dims);
            wire.bytes(field::TENSOR_RAW, &bytes)
        })?;
        inputs.push(&zero);
    } else if zero_points.iter().any(|&zero| zero != 0) {
        return Err(unsupported("zero points of i32"));
    }
    simple(wire, &format!("{to}.{op}"), op, &inputs, to, &attributes)
}

/// Integers as raw data of a type.
fn packed(dtype: DType, values: &[i32]) -> Option<Vec<u8>> {
    let bits = dtype.bits()?;
    let integer = matches!(
        dtype,
        DType::U2 | DType::I2 | DType::U4 | DType::I4 | DType::U8 | DType::I8 | DType::U16 | DType::I16
    );
    let float8 = dtype.is_float() && values.iter().all(|&value| value == 0);
    if !integer && !float8 {
        return None;
    }
    let mut bytes = vec![0u8; dtype.byte_len(values.len())?];
    for (index, &value) in values.iter().enumerate() {
        let at = index * bits;
        if bits >= 8 {
            let width = bits / 8;
            bytes[at / 8..at / 8 + width].copy_from_slice(&value.to_le_bytes()[..width]);
        } else {
            bytes[at / 8] |= (value as u8 & ((1 << bits) - 1)) << (at % 8);
        }
    }
    Some(bytes)
}

/// Dims, element type and name of a tensor.
fn head(wire: &mut Wire, name: &str, dtype: DType, dims: &[usize]) {
    for &dim in dims {
        wire.int(field::TENSOR_DIMS, dim as i64);
    }
    wire.int(field::TENSOR_ELEMENT, i64::from(dtype.code()));
    if !name.is_empty() {
        wire.text(field::TENSOR_NAME, name);
    }
}

/// A constant.
fn constant(wire: &mut Wire, at: u32, name: &str, tensor: &TensorView<'_>, weights: Weights) -> Result<()> {
    let refused = |what: &str| {
        Error::unsupported(format!("constant {} {what}", tensor.name())).at_tensor(tensor.index())
    };
    if tensor.dtype() == DType::String {
        return Err(refused("is of strings"));
    }
    let dims = tensor.shape().ok_or_else(|| refused("has no known shape"))?;
    let data = tensor.constant().ok_or_else(|| refused("has no data"))?;
    let bytes = data.bytes();
    wire.message(at, |wire| {
        head(wire, name, tensor.dtype(), &dims);
        let address = match weights {
            Weights::Address(least) if bytes.len() >= least.max(1) => bytes.as_ptr() as usize,
            Weights::Placeholder(least) if bytes.len() >= least.max(1) => 1,
            _ => return wire.bytes(field::TENSOR_RAW, bytes),
        };
        let pairs = [
            ("location", ADDRESS.to_owned()),
            ("offset", address.to_string()),
            ("length", bytes.len().to_string()),
        ];
        for (key, value) in &pairs {
            wire.message(field::TENSOR_EXTERNAL, |wire| {
                wire.text(field::PAIR_KEY, key);
                wire.text(field::PAIR_VALUE, value);
                Ok(())
            })?;
        }
        wire.int(field::TENSOR_LOCATION, EXTERNAL);
        Ok(())
    })
}

/// An input or output with its type; one that is no tensor is refused where the type is `needed`.
fn value(wire: &mut Wire, at: u32, name: &str, tensor: &TensorView<'_>, needed: bool) -> Result<()> {
    if !tensor.is_plain() && needed {
        let what = format!("tensor {} is no plain tensor", tensor.name());
        return Err(Error::unsupported(what).at_tensor(tensor.index()));
    }
    wire.message(at, |wire| {
        wire.text(field::VALUE_NAME, name);
        if !tensor.is_plain() {
            return Ok(());
        }
        wire.message(field::VALUE_TYPE, |wire| {
            wire.message(field::TYPE_TENSOR, |wire| {
                wire.int(field::TENSOR_TYPE_ELEMENT, i64::from(tensor.dtype().code()));
                let Some(dims) = tensor.dims() else {
                    return Ok(());
                };
                wire.message(field::TENSOR_TYPE_SHAPE, |wire| {
                    for &dim in dims {
                        wire.message(field::SHAPE_DIM, |wire| {
                            if dim >= 0 && !tensor.is_upper_bound() {
                                wire.int(field::DIM_VALUE, dim);
                            }
                            Ok(())
                        })?;
                    }
                    Ok(())
                })
            })
        })
    })
}

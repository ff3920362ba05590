//! The walk over a graph that writes it.
//!
//! Invariants:
//! 1. A name is written once per model: inner graphs add the path of their nodes to it.
//! 2. An encoded tensor is stored under its own name. Nodes that compute on it read `NAME.real`, which is dequantised
//!    before its first reader. The node that makes it writes `NAME.exact`, which is quantised at once.
//! 3. With fake quantisation, the ports `i0` and `o0` are f32, and `i0.q` and `o0.q` hold the stored integers.

use std::collections::{BTreeMap, BTreeSet};

use polychip_ops::{Attr, AttrDefault, AttrKey, AttrValue, DType, Op};

use super::message::{attribute, cast, simple};
use super::options::{Options, Quantised, Release, Weights};
use super::quantise::{cast_tail, constant, quantising, stored_dtype};
use super::schema::{field, kind};
use super::wire::Wire;
use crate::{BodyView, EncodingView, Error, GraphView, NodeView, Result, TensorView};

/// Bodies in bodies are checked to be fewer when the view is made; decompositions are not nested deeper.
const DEEPEST: usize = 32;

/// The nodes of a model: all of a graph, or one. The model of one node does not depend on its place
/// in the graph.
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
        ml: 0,
        depth: 0,
    };
    wire.message(field::MODEL_GRAPH, |wire| {
        let mut scope = Scope::new(graph, String::new());
        wire.text(field::GRAPH_NAME, "part");
        for (place, &tensor) in inputs.iter().enumerate() {
            let (name, view) = (format!("i{place}"), graph.tensor(tensor));
            let dtype = writer.port_dtype(&view);
            value(wire, field::GRAPH_INPUT, &name, &view, dtype, true)?;
            scope.names.insert(tensor, writer.stored_port(&name, &view));
        }
        for (place, &tensor) in inputs.iter().enumerate() {
            let view = graph.tensor(tensor);
            if let Some(encoding) = writer.faked(&view) {
                let (from, to) = (format!("i{place}"), scope.name(tensor));
                let fake = Quantised::Fake;
                quantising(wire, "QuantizeLinear", &view, &encoding, fake, &from, &to)?;
            }
        }
        let copies = scope.name_outputs(outputs, writer.options.quantised);
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
                ML => writer.ml,
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
    /// The version of [`ML`] that its nodes need.
    ml: i64,
    depth: usize,
}

/// ONNX's domain of classical machine learning.
const ML: &str = "ai.onnx.ml";

/// The names of one graph.
struct Scope<'g, 'a> {
    graph: &'g GraphView<'a>,
    /// Prefix of all names in this graph.
    prefix: String,
    /// Names of tensors that are inputs of the model or belong to the outer graph.
    names: BTreeMap<u32, String>,
    /// Numbers for the names of tensors, if they differ from the indices in the graph.
    numbers: BTreeMap<u32, u32>,
    /// The only node that is written; it is named as the first.
    one: Option<u32>,
    /// Constants that are written.
    constants: BTreeSet<u32>,
    /// Encoded tensors whose dequantised values are already written.
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

    /// Names the outputs, and returns for each whether it must be copied: because it is an input, a constant, of the
    /// outer graph, or listed twice.
    fn name_outputs(&mut self, outputs: &[u32], quantised: Quantised) -> Vec<bool> {
        let mut copies = Vec::with_capacity(outputs.len());
        for (place, &tensor) in outputs.iter().enumerate() {
            let copy = self.names.contains_key(&tensor)
                || self.graph.inputs().contains(&tensor)
                || self.graph.tensor(tensor).is_constant();
            if !copy {
                let name = format!("{}o{place}", self.prefix);
                let fake = quantised == Quantised::Fake && self.graph.tensor(tensor).encoding().is_some();
                self.names
                    .insert(tensor, if fake { format!("{name}.q") } else { name });
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

/// Whether a node draws random numbers.
fn drawn(node: &NodeView<'_>) -> bool {
    match node.op() {
        Op::Bernoulli
        | Op::Multinomial
        | Op::RandomNormal
        | Op::RandomNormalLike
        | Op::RandomUniform
        | Op::RandomUniformLike => true,
        // its run, where it trains
        Op::Dropout => node.inputs().nth(3).is_some(),
        _ => false,
    }
}

impl<'a> Writer<'a, '_> {
    /// The encoding of a port that is f32 in the model.
    fn faked<'v>(&self, tensor: &TensorView<'v>) -> Option<EncodingView<'v>> {
        tensor
            .encoding()
            .filter(|_| self.options.quantised == Quantised::Fake)
    }

    fn port_dtype(&self, tensor: &TensorView<'_>) -> DType {
        self.faked(tensor).map_or(tensor.dtype(), |_| DType::F32)
    }

    /// The name of a port's stored elements.
    fn stored_port(&self, name: &str, tensor: &TensorView<'_>) -> String {
        self.faked(tensor)
            .map_or(name.to_owned(), |_| format!("{name}.q"))
    }

    /// The name of a tensor's stored elements. Writes the tensor if it is a constant.
    fn stored(&mut self, wire: &mut Wire, scope: &mut Scope<'_, 'a>, tensor: u32) -> Result<String> {
        let name = scope.name(tensor);
        let view = scope.graph.tensor(tensor);
        // one that the graph around names is written there
        if view.is_constant() && !scope.names.contains_key(&tensor) && scope.constants.insert(tensor) {
            constant(
                wire,
                field::GRAPH_INITIALIZER,
                &name,
                &view,
                (self.options.weights, self.options.quantised),
            )?;
        }
        Ok(name)
    }

    /// The name of a tensor's real values, which are dequantised if it has an encoding.
    fn real(&mut self, wire: &mut Wire, scope: &mut Scope<'_, 'a>, tensor: u32) -> Result<String> {
        let stored = self.stored(wire, scope, tensor)?;
        let view = scope.graph.tensor(tensor);
        let Some(encoding) = view.encoding() else {
            return Ok(stored);
        };
        if stored_dtype(&view, self.options.quantised) == encoding.real_dtype() {
            return Ok(stored);
        }
        let real = format!("{}.real", scope.numbered(tensor));
        if scope.reals.insert(tensor) {
            let tail = cast_tail(&real, &encoding);
            let name = tail.as_deref().unwrap_or(&real);
            let quantised = self.options.quantised;
            quantising(
                wire,
                "DequantizeLinear",
                &view,
                &encoding,
                quantised,
                &stored,
                name,
            )?;
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
        if drawn(node) {
            let words = "random numbers are drawn by the session's generator, which other runtimes lack";
            return Err(at(Error::unsupported(words)));
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

    /// Quantises `NAME.exact` to `NAME` if the tensor has an encoding.
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
        let quantised = self.options.quantised;
        quantising(wire, "QuantizeLinear", &view, &encoding, quantised, from, &name)
    }

    /// A node that quantises or dequantises, by the encoding of the tensor that it is about.
    fn bordering(&mut self, wire: &mut Wire, scope: &mut Scope<'_, 'a>, node: &NodeView<'a>) -> Result<()> {
        let quantises = node.op() == Op::QuantizeLinear;
        let (Some(from), Some(to)) = (node.input(0), node.output(0)) else {
            return Err(Error::unsupported(format!("{} without a tensor", node.op_name())));
        };
        let about = scope.graph.tensor(if quantises { to } else { from });
        let encoding = about.encoding().ok_or_else(|| {
            Error::unsupported(format!(
                "tensor {} has integers without an encoding",
                about.name()
            ))
        })?;
        let (from, to) = (self.stored(wire, scope, from)?, scope.name(to));
        quantising(
            wire,
            node.op().name(),
            &about,
            &encoding,
            Quantised::Fake,
            &from,
            &to,
        )
    }

    fn primitive(&mut self, wire: &mut Wire, scope: &mut Scope<'_, 'a>, node: &NodeView<'a>) -> Result<()> {
        let stored = on_stored(node.op());
        if stored && self.options.quantised == Quantised::Fake {
            return self.bordering(wire, scope, node);
        }
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
            "ai.onnx" | "" if node.op().is_ml() => ML,
            "ai.onnx" => "",
            domain => domain,
        };
        if domain == ML {
            // TreeEnsemble came with the version that gave up TreeEnsembleRegressor
            let version = match node.op() {
                Op::LabelEncoder | Op::TreeEnsembleRegressor => 4,
                _ => 5,
            };
            self.ml = self.ml.max(version);
        }
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
                        let as_stored = (Weights::Inline, Quantised::Stored);
                        constant(wire, field::ATTRIBUTE_TENSOR, "", &tensor, as_stored)
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
                let (name, view) = (scope.name(tensor), graph.tensor(tensor));
                value(wire, field::GRAPH_INPUT, &name, &view, view.dtype(), false)?;
            }
        }
        let copies = scope.name_outputs(graph.outputs(), Quantised::Stored);
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
            let view = scope.graph.tensor(tensor);
            let faked = self.faked(&view).filter(|_| typed);
            if let Some(encoding) = &faked {
                let (from, fake) = (self.stored(wire, scope, tensor)?, Quantised::Fake);
                quantising(wire, "DequantizeLinear", &view, encoding, fake, &from, &name)?;
            } else if copy {
                let from = self.stored(wire, scope, tensor)?;
                simple(wire, &format!("{name}.copy"), "Identity", &[&from], &name, &[])?;
            }
            let dtype = faked.map_or(view.dtype(), |_| DType::F32);
            value(wire, field::GRAPH_OUTPUT, &name, &view, dtype, typed)?;
        }
        Ok(())
    }
}

/// The attributes that a node omits, with their defaults.
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

/// Writes an input or output with its type. If the type is `needed`, refuses one that is not a
/// tensor.
fn value(
    wire: &mut Wire,
    at: u32,
    name: &str,
    tensor: &TensorView<'_>,
    dtype: DType,
    needed: bool,
) -> Result<()> {
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
                wire.int(field::TENSOR_TYPE_ELEMENT, i64::from(dtype.code()));
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

//! The walk over a model's nodes that builds the graph: names, functions, bodies, conversion.
//!
//! Invariants:
//! 1. A node is inferred as soon as it is added, so that the conversion of the next one knows types.
//! 2. A name is looked up in its own scope; a body looks further out, a function does not.
//! 3. Inlining ends: a function that calls itself is an error, and nodes are counted.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use polychip_ops::{Attr, AttrKey, Attributes, DType, Dim, Literal, Op, TensorType};

use super::attribute::{self, Bindings};
use super::contrib;
use super::convert;
use super::external::Files;
use super::messages::{self, attribute_type as kind};
use super::opsets::{self, Opsets, domain};
use super::options::Options;
use super::order;
use super::target::{Target, trim};
use super::types::{self, Declared};
use super::weights;
use crate::infer::{self, Values};
use crate::{Body, Capture, Constant, Container, Error, Graph, Node, Tensor, TensorId};

mod inline;

/// Model-local functions by domain, name and overload.
pub(super) type Functions<'m> = BTreeMap<(String, String, String), &'m messages::Function>;

/// Reads one model.
pub(super) struct Importer<'m> {
    files: Files<'m>,
    functions: Functions<'m>,
    /// The graph that is built, and the graphs around it, outermost first.
    levels: Vec<Level>,
    /// Functions that are being inlined, outermost first.
    calls: Vec<(String, String, String)>,
    /// Size names of the model's inputs.
    symbols: BTreeSet<Arc<str>>,
    nodes: usize,
    options: &'m Options,
    /// Whether a run may be given what has a default: before IR version 4 a constant had to be listed as an input.
    overridable: bool,
}

/// One graph under construction.
struct Level {
    graph: Graph,
    values: Values,
    captures: Vec<Capture>,
    /// The graph's own scope, then those of functions being inlined.
    scopes: Vec<Scope>,
    /// Whether this is a branch of an If.
    branch: bool,
}

/// Deepest calls of functions by functions, and of bodies in bodies: each takes a piece of the stack.
const MOST_NESTED: usize = 64;

/// Longest beginning of the names of an inlined function: each of its nodes and tensors has it.
const LONGEST_PREFIX: usize = 256;

/// A prefix without its beginning, where it is too long.
fn shortened(prefix: String) -> String {
    match prefix.len().checked_sub(LONGEST_PREFIX) {
        None | Some(0) => prefix,
        Some(over) => {
            let from = (over..prefix.len()).find(|&at| prefix.is_char_boundary(at));
            prefix[from.unwrap_or(prefix.len())..].to_owned()
        }
    }
}

/// Names of one graph or function call.
struct Scope {
    /// `None` is an optional input of a function that the caller left out.
    names: BTreeMap<String, Option<TensorId>>,
    declared: BTreeMap<String, Declared>,
    opsets: Rc<Opsets>,
    bindings: Option<Rc<Bindings>>,
    /// Whether names may come from the level around this one.
    open: bool,
    /// What node and tensor names of an inlined function begin with.
    prefix: String,
}

impl Level {
    fn new(name: &str, scope: Scope, branch: bool) -> Level {
        Level {
            graph: Graph::new(name),
            values: Values::default(),
            captures: Vec::new(),
            scopes: vec![scope],
            branch,
        }
    }

    fn scope(&mut self) -> &mut Scope {
        self.scopes
            .last_mut()
            .expect("invariant: a level has its own scope")
    }
}

impl<'m> Importer<'m> {
    pub(super) fn new(
        files: Files<'m>,
        functions: Functions<'m>,
        options: &'m Options,
        overridable: bool,
    ) -> Importer<'m> {
        Importer {
            files,
            functions,
            levels: Vec::new(),
            calls: Vec::new(),
            symbols: BTreeSet::new(),
            nodes: 0,
            options,
            overridable,
        }
    }

    /// Builds the model's main graph.
    pub(super) fn model(mut self, graph: &messages::Graph, opsets: Rc<Opsets>) -> Result<Graph, Error> {
        for input in &graph.input {
            let shape = types::declared(input)?
                .ty
                .and_then(|ty| ty.shape)
                .unwrap_or_default();
            self.symbols.extend(shape.into_iter().filter_map(|dim| match dim {
                Dim::Symbol(name) => Some(name),
                _ => None,
            }));
        }
        let scope = Scope {
            names: BTreeMap::new(),
            declared: BTreeMap::new(),
            opsets,
            bindings: None,
            open: false,
            prefix: String::new(),
        };
        self.levels.push(Level::new(&graph.name, scope, false));
        self.graph(graph, &[])?;
        let level = self.levels.pop().expect("invariant: the main graph's level");
        let mut graph = level.graph;
        graph.files = self.files.into_names()?;
        graph.sort()?;
        crate::verify(&graph)?;
        Ok(graph)
    }

    fn level(&mut self) -> &mut Level {
        self.levels.last_mut().expect("invariant: a graph is being built")
    }

    /// Where the nodes of the innermost level go.
    fn target(&mut self) -> Target<'_> {
        // a branch whose shapes do not fit may be one that never runs: its If decides
        let lenient = self.levels.iter().any(|level| level.branch);
        let level = self.level();
        Target {
            graph: &mut level.graph,
            values: &mut level.values,
            lenient,
        }
    }

    /// Fills the innermost level from a graph message; `passed` are element types of its inputs that
    /// are known better than what it declares.
    fn graph(&mut self, message: &messages::Graph, passed: &[Option<DType>]) -> Result<(), Error> {
        for info in message.value_info.iter().chain(&message.output) {
            let mut declared = self.weakened(types::declared(info)?);
            if let (false, Some(ty)) = (self.options.declared, &mut declared.ty) {
                ty.shape = None;
            }
            let known = self.level().scope().declared.entry(info.name.clone());
            known.or_insert(declared);
        }
        let is_outermost = self.levels.len() == 1;
        let options = self.options;
        let is_given = |name: &str| {
            is_outermost && options.given.contains(name) && message.input.iter().any(|info| info.name == name)
        };
        for tensor in &message.initializer {
            if is_given(&tensor.name) {
                self.files.skip();
            } else {
                let (ty, data) = weights::constant(tensor, &mut self.files)?;
                self.initializer(&tensor.name, ty, data)?;
            }
        }
        for sparse in &message.sparse_initializer {
            let (name, ty, data) = weights::dense(sparse, &mut self.files)?;
            if !is_given(&name) {
                self.initializer(&name, ty, data)?;
            }
        }
        for (index, info) in message.input.iter().enumerate() {
            if info.name == crate::random::RUN {
                return Err(Error::malformed(format!(
                    "input \"{}\": this name is reserved for the run that random numbers are of; rename the input",
                    info.name
                )));
            }
            // before IR version 4 initialisers were inputs too; later they are defaults of inputs
            let level = self.level();
            let defined = level.scope().names.get(&info.name).copied().flatten();
            let constant = defined
                .map(|id| level.graph.tensor(id))
                .filter(|tensor| tensor.is_constant())
                .map(|tensor| tensor.ty.clone());
            if constant.is_some() && !(is_outermost && self.overridable) {
                continue;
            }
            let mut declared = self.weakened(types::declared(info)?);
            if is_outermost && let Some(ty) = &mut declared.ty {
                if ty.shape.is_none()
                    && let Some(&rank) = self.options.ranks.get(&info.name)
                {
                    ty.shape = Some(vec![Dim::Unknown; rank]);
                }
                if let Some(shape) = &mut ty.shape {
                    types::name_open(&info.name, shape);
                }
            }
            if let Some(stored) = constant {
                let ty = declared.ty.filter(|ty| ty.shape.is_some()).unwrap_or(stored);
                self.level().graph.defaults.push(Tensor::new(&info.name, ty));
                continue;
            }
            let mut tensor = match (passed.get(index).copied().flatten(), declared.ty) {
                (Some(dtype), Some(ty)) if ty.dtype == dtype => Tensor::new(&info.name, ty),
                (Some(dtype), _) => Tensor::new(&info.name, TensorType::unranked(dtype)),
                (None, Some(ty)) => Tensor::new(&info.name, ty),
                (None, None) => Tensor::untyped(&info.name),
            };
            tensor.container = declared.container;
            let id = self.define(&info.name, tensor)?;
            self.level().graph.inputs.push(id);
        }
        self.run(&message.node)?;
        for info in &message.output {
            let id = self
                .lookup(&info.name)
                .flatten()
                .ok_or_else(|| Error::malformed(format!("output \"{}\" is made by no node", info.name)))?;
            let container = self.weakened(types::declared(info)?);
            let level = self.level();
            let tensor = level.graph.tensor_mut(id);
            if let (false, Some(ty)) = (tensor.typed, container.ty) {
                tensor.ty = ty;
                tensor.typed = true;
            }
            level.graph.outputs.push(id);
        }
        Ok(())
    }

    /// A declaration without the named sizes that occur nowhere else: nothing would bind them.
    fn weakened(&self, mut declared: Declared) -> Declared {
        if let Some(shape) = declared.ty.as_mut().and_then(|ty| ty.shape.as_mut()) {
            for dim in shape {
                if matches!(dim, Dim::Symbol(name) if !self.symbols.contains(name)) {
                    *dim = Dim::Unknown;
                }
            }
        }
        declared
    }

    /// Adds the nodes of a graph or function, in an order in which inputs come first.
    fn run(&mut self, nodes: &[messages::Node]) -> Result<(), Error> {
        for index in order::order(nodes)? {
            self.node(&nodes[index])?;
        }
        Ok(())
    }

    /// Adds a tensor under a name of the innermost scope.
    fn define(&mut self, name: &str, tensor: Tensor) -> Result<TensorId, Error> {
        if name.is_empty() {
            return Err(Error::malformed("a tensor has no name"));
        }
        if self.level().scope().names.contains_key(name) {
            return Err(Error::malformed(format!("the name \"{name}\" is defined twice")));
        }
        let level = self.level();
        let id = level.graph.add_tensor(tensor);
        level.scope().names.insert(name.to_owned(), Some(id));
        Ok(id)
    }

    /// Adds a constant of the model's list. Of two with one name the last counts, as in ONNX Runtime.
    fn initializer(&mut self, name: &str, ty: TensorType, data: Constant) -> Result<(), Error> {
        let level = self.level();
        let before = level.scope().names.get(name).copied().flatten();
        let Some(before) = before else {
            return self.constant(name, ty, data).map(drop);
        };
        let tensor = level.graph.tensor_mut(before);
        if tensor.ty != ty {
            return Err(Error::malformed(format!(
                "the initialiser \"{name}\" is defined twice, as {} and as {ty}",
                tensor.ty
            )));
        }
        let is_equal = tensor
            .data
            .as_ref()
            .is_some_and(|known| known.bytes == data.bytes);
        tensor.data = Some(data);
        if !is_equal {
            let words = format!(
                "the initialiser \"{name}\" is defined twice with other values; the last one is used"
            );
            self.levels[0].graph.warnings.push(words);
        }
        Ok(())
    }

    fn constant(&mut self, name: &str, ty: TensorType, data: Constant) -> Result<TensorId, Error> {
        let full = self.prefixed(name);
        self.define(name, Tensor::constant(full, ty, data))
    }

    /// A name as the graph shows it: with the calls it was inlined from.
    fn prefixed(&mut self, name: &str) -> String {
        format!("{}{name}", self.level().scope().prefix)
    }

    /// The tensor of a name, captured from outer graphs where need be.
    fn lookup(&mut self, name: &str) -> Option<Option<TensorId>> {
        self.lookup_at(self.levels.len() - 1, name)
    }

    fn lookup_at(&mut self, at: usize, name: &str) -> Option<Option<TensorId>> {
        let scope = self.levels[at].scope();
        if let Some(&id) = scope.names.get(name) {
            return Some(id);
        }
        if !scope.open || at == 0 {
            return None;
        }
        let Some(outer) = self.lookup_at(at - 1, name)? else {
            return Some(None);
        };
        let mut tensor = self.levels[at - 1].graph.tensor(outer).clone();
        let value = infer::value_of(&self.levels[at - 1].graph, &self.levels[at - 1].values, outer);
        tensor.data = None;
        let level = &mut self.levels[at];
        let inner = level.graph.add_tensor(tensor);
        level.values.set(inner, value);
        level.captures.push(Capture { outer, inner });
        // known to the graph's own scope, where every body node of this level may find it
        level.scopes[0].names.insert(name.to_owned(), Some(inner));
        Some(Some(inner))
    }

    fn node(&mut self, message: &messages::Node) -> Result<(), Error> {
        self.nodes += 1;
        if self.nodes > self.options.node_limit {
            return Err(Error::unsupported(format!(
                "the model has more than {} nodes after functions are inlined",
                self.options.node_limit
            )));
        }
        let domain = domain(&message.domain);
        let key = (
            domain.to_owned(),
            message.op_type.clone(),
            message.overload.clone(),
        );
        let what = message.what();
        if let Some(&function) = self.functions.get(&key) {
            return self.call(message, function, key, &what);
        }
        let scope = self.level().scope();
        let version = scope.opsets.get(domain).copied();
        let bindings = scope.bindings.clone();
        let Some(version) = version else {
            return Err(Error::malformed(format!(
                "{what} is of domain \"{domain}\", of which the model imports no opset"
            )));
        };
        if domain.is_empty() && message.op_type == "Constant" {
            return self.constant_node(message, bindings.as_deref(), &what);
        }
        let read = attribute::read(message, bindings.as_deref(), &what, &mut self.files)?;
        let inputs = self.inputs(message, &what)?;
        if (domain, message.op_type.as_str()) == ("ai.onnx.preview", "FlexAttention") {
            return self.flex(message, read, inputs, &what);
        }
        let (listed, version) = if domain.is_empty() {
            (Op::from_name(&message.op_type).filter(|op| !op.is_ml()), version)
        } else {
            (contrib::equal(domain, &message.op_type), opsets::NEWEST)
        };
        let mut bodies = Vec::new();
        for (name, graph) in &read.graphs {
            let AttrKey::Known(attr) = AttrKey::from_name(name) else {
                return Err(Error::unsupported(format!(
                    "{what}: attribute \"{name}\" is a graph"
                )));
            };
            bodies.push(self.body(attr, graph, listed, &inputs, &read.values)?);
        }
        // then before else, whatever the model's order
        bodies.sort_by_key(|body| (body.attr != Attr::ThenBranch, body.attr));
        self.check_bodies(listed, &bodies, &what)?;
        let outputs = self.outputs(message)?;
        if let (Some(Op::Optional), Some(Some(output))) = (listed, outputs.first()) {
            self.empty_optional(message, &inputs, *output, &what)?;
        }
        let mut node = match listed {
            Some(op) => Node::new(op, inputs, outputs),
            None => Node::custom(domain, &message.op_type, inputs, outputs),
        };
        node.name = self.prefixed(&message.name);
        if message.name.is_empty() {
            node.name.clear();
        }
        node.attributes = read.values;
        node.bodies = bodies;
        let kept = self.options.keep_decoder_ops && contrib::is_decoder_op(domain, &message.op_type);
        let mut target = self.target();
        if listed.is_some() {
            convert::convert(&mut target, node, version)
        } else if !kept && convert::expand(&mut target, &node, domain)? {
            Ok(())
        } else {
            target.add(node).map(|_| ())
        }
    }

    /// Gives an Optional of nothing the type that its attribute states.
    fn empty_optional(
        &mut self,
        message: &messages::Node,
        inputs: &[Option<TensorId>],
        output: TensorId,
        what: &str,
    ) -> Result<(), Error> {
        let stated = message
            .attribute
            .iter()
            .find_map(|attribute| attribute.tp.as_deref());
        let (true, Some(stated)) = (inputs.is_empty(), stated) else {
            return Ok(());
        };
        let declared = types::read(stated, &|| what.to_owned(), Container::Tensor)?;
        let tensor = self.level().graph.tensor_mut(output);
        if let Some(ty) = declared.ty {
            tensor.ty = ty;
            tensor.typed = true;
        }
        tensor.container = match declared.container {
            Container::Sequence => Container::OptionalSequence,
            _ => Container::Optional,
        };
        Ok(())
    }

    fn inputs(&mut self, message: &messages::Node, what: &str) -> Result<Vec<Option<TensorId>>, Error> {
        let mut inputs = Vec::with_capacity(message.input.len());
        for name in &message.input {
            inputs.push(if name.is_empty() {
                None
            } else {
                self.lookup(name).ok_or_else(|| {
                    Error::malformed(format!("{what} reads \"{name}\", which nothing defines"))
                })?
            });
        }
        trim(&mut inputs);
        Ok(inputs)
    }

    fn outputs(&mut self, message: &messages::Node) -> Result<Vec<Option<TensorId>>, Error> {
        let mut outputs = Vec::with_capacity(message.output.len());
        for name in &message.output {
            if name.is_empty() {
                outputs.push(None);
                continue;
            }
            let full = self.prefixed(name);
            let mut tensor = Tensor::untyped(full);
            if let Some(declared) = self.level().scope().declared.get(name).cloned() {
                if let Some(ty) = declared.ty {
                    tensor = Tensor::new(tensor.name, ty);
                }
                tensor.container = declared.container;
            }
            outputs.push(Some(self.define(name, tensor)?));
        }
        trim(&mut outputs);
        Ok(outputs)
    }

    /// A Constant node becomes a constant tensor.
    fn constant_node(
        &mut self,
        message: &messages::Node,
        bindings: Option<&Bindings>,
        what: &str,
    ) -> Result<(), Error> {
        let [name] = &message.output[..] else {
            return Err(Error::malformed(format!(
                "{what} has {} outputs instead of 1",
                message.output.len()
            )));
        };
        let [attribute] = &message.attribute[..] else {
            return Err(Error::malformed(format!(
                "{what} has {} attributes instead of 1",
                message.attribute.len()
            )));
        };
        let missing = || Error::malformed(format!("{what} has no value"));
        let resolved = attribute::resolve(attribute, bindings, what)?.ok_or_else(missing)?;
        let (ty, data) = match attribute::kind_of(resolved) {
            kind::TENSOR => {
                let tensor = resolved.t.as_ref().ok_or_else(missing)?;
                weights::constant(tensor, &mut self.files)?
            }
            kind::SPARSE_TENSOR => {
                let sparse = resolved.sparse_tensor.as_ref().ok_or_else(missing)?;
                let (_, ty, data) = weights::dense(sparse, &mut self.files)?;
                (ty, data)
            }
            other => {
                let text = |bytes: &bytes::Bytes| {
                    String::from_utf8(bytes.to_vec())
                        .map_err(|_| Error::malformed(format!("{what} holds a string that is not UTF-8")))
                };
                let literal = match other {
                    kind::INT => Some(Literal::scalar_i64(resolved.i.unwrap_or(0))),
                    kind::FLOAT => Some(Literal::scalar_f32(resolved.f.unwrap_or(0.0))),
                    kind::INTS => Some(Literal::i64s(&resolved.ints)),
                    kind::FLOATS => Some(Literal::f32s(&resolved.floats)),
                    kind::STRING => {
                        let text = text(resolved.s.as_ref().unwrap_or(&bytes::Bytes::new()))?;
                        Literal::from_strings(&[text]).map(|literal| Literal {
                            shape: Vec::new(),
                            ..literal
                        })
                    }
                    kind::STRINGS => {
                        let texts = resolved.strings.iter().map(text).collect::<Result<Vec<_>, _>>()?;
                        Literal::from_strings(&texts)
                    }
                    kind::UNDEFINED if attribute.name == "value_ints" => Some(Literal::i64s(&[])),
                    kind::UNDEFINED if attribute.name == "value_floats" => Some(Literal::f32s(&[])),
                    _ => None,
                }
                .ok_or_else(|| {
                    Error::malformed(format!(
                        "{what} has the attribute \"{}\" of kind {other}",
                        attribute.name
                    ))
                })?;
                (literal.ty(), Constant::from_literal(&literal))
            }
        };
        self.constant(name, ty, data)?;
        Ok(())
    }

    /// Builds a body graph of a node with these inputs.
    fn body(
        &mut self,
        attr: Attr,
        message: &messages::Graph,
        op: Option<Op>,
        inputs: &[Option<TensorId>],
        attributes: &Attributes,
    ) -> Result<Body, Error> {
        if self.levels.len() > MOST_NESTED {
            return Err(Error::malformed(format!(
                "bodies of nodes are nested more than {MOST_NESTED} deep"
            )));
        }
        let scope = self.level().scope();
        let inner = Scope {
            names: BTreeMap::new(),
            declared: BTreeMap::new(),
            opsets: scope.opsets.clone(),
            bindings: scope.bindings.clone(),
            open: true,
            prefix: scope.prefix.clone(),
        };
        let passed = self.passed(op, inputs, attributes);
        self.levels
            .push(Level::new(&message.name, inner, op == Some(Op::If)));
        let result = self.graph(message, &passed);
        let mut level = self.levels.pop().expect("invariant: the body's own level");
        result?;
        level
            .graph
            .inputs
            .extend(level.captures.iter().map(|capture| capture.inner));
        Ok(Body {
            attr,
            graph: level.graph,
            captures: level.captures,
        })
    }

    /// Element types of what an op passes to its body, as far as they are known.
    fn passed(
        &mut self,
        op: Option<Op>,
        inputs: &[Option<TensorId>],
        attributes: &Attributes,
    ) -> Vec<Option<DType>> {
        let level = self.level();
        // before 9 the lengths of sequences came first, which the body does not see
        let lengths = usize::from(level.scope().opsets.get("").is_some_and(|&version| version < 9));
        let of = |input: &Option<TensorId>| {
            let tensor = level.graph.tensor((*input)?);
            tensor.typed.then_some(tensor.ty.dtype)
        };
        match op {
            Some(Op::Loop) => {
                let states = inputs.iter().skip(2).map(of);
                [Some(DType::I64), Some(DType::Bool)]
                    .into_iter()
                    .chain(states)
                    .collect()
            }
            Some(Op::Scan) if attributes.get(Attr::NumScanInputs).is_some() => {
                inputs.iter().skip(lengths).map(of).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Inlines a call of a model-local function.
    fn call(
        &mut self,
        message: &messages::Node,
        function: &'m messages::Function,
        key: (String, String, String),
        what: &str,
    ) -> Result<(), Error> {
        if self.calls.contains(&key) {
            return Err(Error::malformed(format!(
                "{what}: the function \"{}\" calls itself",
                function.name
            )));
        }
        if self.calls.len() >= MOST_NESTED {
            return Err(Error::malformed(format!(
                "{what}: functions call each other more than {MOST_NESTED} deep"
            )));
        }
        let inputs = self.inputs(message, what)?;
        if inputs.len() > function.input.len() || message.output.len() > function.output.len() {
            return Err(Error::malformed(format!(
                "{what} has {} inputs and {} outputs, but the function \"{}\" has {} and {}",
                inputs.len(),
                message.output.len(),
                function.name,
                function.input.len(),
                function.output.len()
            )));
        }
        let outer = self.level().scope().bindings.clone();
        let mut bindings = Bindings::new();
        for default in &function.attribute_proto {
            bindings.insert(default.name.clone(), default.clone());
        }
        for attribute in &message.attribute {
            if let Some(resolved) = attribute::resolve(attribute, outer.as_deref(), what)? {
                bindings.insert(attribute.name.clone(), resolved.clone());
            }
        }
        let opsets = if function.opset_import.is_empty() {
            self.level().scope().opsets.clone()
        } else {
            Rc::new(opsets::opsets(
                &function.opset_import,
                &format!("function \"{}\"", function.name),
            )?)
        };
        let own = if message.name.is_empty() {
            &message.op_type
        } else {
            &message.name
        };
        let prefix = shortened(format!("{}{own}/", self.level().scope().prefix));
        let formals = function
            .input
            .iter()
            .cloned()
            .zip(inputs.iter().copied().chain(std::iter::repeat(None)));
        let scope = Scope {
            names: formals.collect(),
            declared: BTreeMap::new(),
            opsets,
            bindings: Some(Rc::new(bindings)),
            open: false,
            prefix,
        };
        self.level().scopes.push(scope);
        self.calls.push(key);
        self.run(&function.node)?;
        let mut made = Vec::new();
        for (formal, actual) in function.output.iter().zip(&message.output) {
            if !actual.is_empty() {
                let id = self.lookup(formal).flatten().ok_or_else(|| {
                    Error::malformed(format!(
                        "{what}: the function's output \"{formal}\" is made by no node"
                    ))
                })?;
                made.push((actual, id));
            }
        }
        self.calls.pop();
        self.level().scopes.pop();
        for (index, &(actual, id)) in made.iter().enumerate() {
            let name = self.prefixed(actual);
            let fresh = self.level().graph.producer(id).is_some()
                && !inputs.contains(&Some(id))
                && made[..index].iter().all(|(_, before)| *before != id);
            if fresh {
                if self
                    .level()
                    .scope()
                    .names
                    .insert(actual.clone(), Some(id))
                    .is_some()
                {
                    return Err(Error::malformed(format!(
                        "the name \"{actual}\" is defined twice"
                    )));
                }
                self.level().graph.tensor_mut(id).name = name;
            } else {
                // a constant, an input or one tensor twice: each output needs a name of its own
                let output = self.define(actual, Tensor::untyped(name))?;
                self.target()
                    .add(Node::new(Op::Identity, vec![Some(id)], vec![Some(output)]))?;
            }
        }
        Ok(())
    }

    /// Whether the op has the bodies that it needs.
    fn check_bodies(&self, op: Option<Op>, bodies: &[Body], what: &str) -> Result<(), Error> {
        let needed: &[Attr] = match op {
            Some(Op::If) => &[Attr::ThenBranch, Attr::ElseBranch],
            Some(Op::Loop | Op::Scan | Op::SequenceMap) => &[Attr::Body],
            Some(_) => &[],
            None => return Ok(()),
        };
        if needed.iter().eq(bodies.iter().map(|body| &body.attr)) {
            return Ok(());
        }
        let names = |attrs: &mut dyn Iterator<Item = &str>| {
            let names: Vec<&str> = attrs.collect();
            if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            }
        };
        Err(Error::malformed(format!(
            "{what} has the body graphs {}, but needs {}",
            names(&mut bodies.iter().map(|body| body.attr.name())),
            names(&mut needed.iter().map(|attr| attr.name()))
        )))
    }
}

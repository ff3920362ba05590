//! Nodes with dynamic shapes: lowered at run time for the shapes of a run, if that pays off, and cached.
//!
//! Invariants:
//! 1. A specialization equals what lowering gives for the same static shapes; nodes that it leaves to the reference evaluator
//!    stay there.
//! 2. The cache is bounded, and drops the least recently used entry. Shapes that occur once with little work are not lowered:
//!    lowering would take longer than computing.
//! 3. The step is the reference's, with the same operands and results.
//!
//! Not here: how the evaluator computes a node (`reference`), how a program runs inside a step (`step::nested`).
#![allow(unsafe_code)]

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polychip_cpu_kernels::{AlignedVec, Isa};
use polychip_ops::{DType, Dim, InferInput, Literal, Op, TensorType, Value, axis, infer};
use polychip_reference::Tensor;
use polychip_sdk::{Constant, Result};

use super::builder::{LowerBody, Lowering, Options};
use crate::part::{BodyPart, Feed, Node, Part, Programs, TensorIndex};
use crate::step::{Nested, Operands, Wanted};
use crate::tune::Choices;
use crate::weights::Weights;
use crate::work::{Repeated, of_node};

/// Most specializations that are cached per node.
const MAX_CACHED: usize = 512;
/// Most shapes that are remembered as seen per node.
const MAX_SEEN: usize = 2048;
/// Elements below which the evaluator ends before a cached program is found. The tests, which are small, lower all.
const FEW_ELEMENTS: usize = if cfg!(test) { 1 } else { 4 << 10 };
/// Elements of all operands below which not even the shapes of the results are inferred.
const FEW_OPERAND_ELEMENTS: usize = if cfg!(test) { 1 } else { 256 };
/// Loop iterations of the evaluator that take longer than lowering a node.
const MUCH_WORK: u64 = 200_000;
/// Most elements of an input whose values may determine shapes.
const MAX_VALUES: usize = 16;

#[cfg(test)]
thread_local! {
    /// Runs of specializations on this thread.
    pub(super) static CALLS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The key of a specialization: threads, then rank and extents of each operand, and the values that determine shapes.
type Key = Vec<u64>;

/// A node that is lowered at run time.
pub(super) struct DynamicNode {
    /// A part that holds only the node.
    part: Part,
    /// The operand of each input port.
    operands: Vec<usize>,
    /// Whether few elements may produce many.
    grows: bool,
    /// Elements of its constants.
    constants: usize,
    isa: Isa,
    reduced: bool,
    lower: LowerBody,
    cache: Mutex<SpecializationCache>,
    weights: Weights,
}

#[derive(Default)]
struct SpecializationCache {
    specializations: HashMap<Key, Specialization>,
    /// Hashes of keys that were seen and not lowered.
    seen: HashSet<u64>,
    /// The same, the most recent one last.
    seen_order: VecDeque<u64>,
    uses: u64,
    /// Whether shapes of the results depend on values of operands.
    by_values: bool,
    scratch: Vec<AlignedVec>,
}

/// The node, lowered for one key.
struct Specialization {
    used: u64,
    /// None if no kernel covers it.
    compiled: Option<Arc<CompiledNode>>,
}

struct CompiledNode {
    nested: Nested,
    /// The operand of each of its input ports.
    operands: Vec<usize>,
    /// Extents of each result, if known.
    results: Vec<Option<Vec<usize>>>,
    /// Values that the program holds as constants.
    _values: Vec<Arc<[u8]>>,
}

/// The shapes of the operands, and the values that determine shapes.
struct Sizes {
    dims: Vec<Vec<usize>>,
    values: Vec<Option<Literal>>,
    /// Extents of each result, unless they depend on the data.
    results: Vec<Option<Vec<usize>>>,
}

impl DynamicNode {
    /// For a node whose operands are its inputs in order, with repetitions; `None` for a node that is lowered at compile
    /// time, or never.
    pub(super) fn of(l: &Lowering<'_>, node: &Node) -> Option<DynamicNode> {
        let tensors = node.inputs.iter().chain(&node.outputs).flatten();
        let plain = |&t: &usize| {
            let t = &l.part.tensors[t];
            t.plain && !t.packed && t.encoding.is_none() && t.dtype.byte_width().is_some()
        };
        // the evaluator shares the elements of an operand that has another shape
        let views = matches!(
            node.op,
            Op::Reshape | Op::Squeeze | Op::Unsqueeze | Op::Flatten | Op::Identity
        );
        if views || l.all_known(node) || !node.bodies.is_empty() || !tensors.into_iter().all(plain) {
            return None;
        }
        let (part, inputs) = isolated(l.part, node);
        let given: Vec<usize> = node.inputs.iter().copied().flatten().collect();
        let place = |tensor: &usize| given.iter().position(|given| given == tensor);
        let operands = inputs.iter().map(place).collect::<Option<_>>()?;
        Some(DynamicNode {
            grows: grows(node.op),
            constants: constants(&part),
            part,
            operands,
            isa: l.isa,
            reduced: l.reduced,
            lower: l.lower_body,
            cache: Mutex::default(),
            weights: Weights::default(),
        })
    }

    /// The expected work of the node, if upper bounds of its shapes are known: that for these bounds.
    pub(super) fn expected(&self, l: &Lowering<'_>) -> Option<Vec<Repeated>> {
        let mut part = self.part.clone();
        for t in &mut part.tensors {
            if t.dims.is_none() {
                t.dims = Some(t.bounds.clone()?);
            }
        }
        let body = as_body(part);
        let lowered = (self.lower)(
            &body,
            &self.options(&body.programs, l.pool, &layouts(&body.part)),
            true,
        );
        let work = lowered.ok().flatten()?.work;
        (!work.iter().any(|step| step.work.class.is_reference())).then_some(work)
    }

    fn options<'a>(
        &self,
        programs: &'a Programs,
        pool: &'a polychip_cpu_kernels::ThreadPool,
        layouts: &'a [polychip_sdk::Layout],
    ) -> Options<'a> {
        Options {
            programs,
            isa: self.isa,
            pool,
            layouts,
            reduced: self.reduced,
            choices: Choices::Rule,
        }
    }

    fn cache(&self) -> MutexGuard<'_, SpecializationCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Computes the node with a cached or a new specialization; `false` if neither exists, and nothing was computed.
    ///
    /// # Errors
    /// A kernel fails.
    pub(super) fn run(&self, o: &mut Operands<'_>) -> Result<bool> {
        if !self.grows && self.operand_elements(o) < FEW_OPERAND_ELEMENTS {
            return Ok(false);
        }
        let by_values = self.cache().by_values;
        let Some(key) = self.key(o, by_values) else {
            return Ok(false);
        };
        let found = self.cache().find(&key);
        let compiled = match found {
            Some(compiled) => compiled,
            None => self.specialize(o, &key, by_values)?,
        };
        match compiled {
            None => Ok(false),
            Some(compiled) => self.call(o, &compiled).map(|()| true),
        }
    }

    /// Elements of all operands.
    fn operand_elements(&self, o: &Operands<'_>) -> usize {
        let ports = self.operands.iter().filter_map(|&operand| o.dims(operand));
        let ports = ports.map(|dims| axis::product(dims).unwrap_or(usize::MAX));
        ports.fold(self.constants, usize::saturating_add)
    }

    fn key(&self, o: &Operands<'_>, by_values: bool) -> Option<Key> {
        let mut key = Vec::with_capacity(16);
        key.push(o.pool.threads() as u64);
        for &operand in &self.operands {
            let dims = o.dims(operand)?;
            key.push(dims.len() as u64);
            key.extend(dims.iter().map(|&size| size as u64));
            if by_values && axis::product(dims).is_some_and(|count| count <= MAX_VALUES) {
                let bytes = bytes_of(o, operand)?;
                let word = |chunk: &[u8]| {
                    chunk
                        .iter()
                        .rev()
                        .fold(0, |word, &byte| word << 8 | u64::from(byte))
                };
                key.extend(bytes.chunks(8).map(word));
            }
        }
        Some(key)
    }

    /// Lowers the node for a key that is not cached, if that pays off.
    fn specialize(&self, o: &Operands<'_>, key: &Key, by_values: bool) -> Result<Option<Arc<CompiledNode>>> {
        let Some(sizes) = self.sizes(o, by_values) else {
            if !by_values {
                // from now on the key holds the values too
                self.cache().by_values = true;
            }
            return Ok(None);
        };
        let count = |dims: &Vec<usize>| axis::product(dims).unwrap_or(usize::MAX);
        let taken = sizes.dims.iter().map(count);
        let given = sizes.results.iter().flatten().map(count);
        let elements = taken.chain(given).fold(self.constants, usize::saturating_add);
        if elements < FEW_ELEMENTS {
            return Ok(None);
        }
        let (part, operands, values) = self.part_of(&sizes);
        let work = of_node(&part, &part.nodes[0]);
        let much = work.units.saturating_add(work.boxed.all()) >= MUCH_WORK;
        if !much && !self.cache().mark_seen(key) {
            return Ok(None);
        }
        let compiled = self.compile(o, part, operands, values, sizes.results)?;
        self.cache().insert(key.clone(), compiled.clone());
        Ok(compiled)
    }

    /// The shapes of a run; `None` if the shapes of the results do not follow from them.
    fn sizes(&self, o: &Operands<'_>, by_values: bool) -> Option<Sizes> {
        let node = &self.part.nodes[0];
        let mut sizes = Sizes {
            dims: Vec::new(),
            values: Vec::new(),
            results: Vec::new(),
        };
        for (&operand, &tensor) in self.operands.iter().zip(&self.part.inputs) {
            let dims = o.dims(operand)?.to_vec();
            let few = axis::product(&dims).is_some_and(|count| count <= MAX_VALUES);
            let value = (by_values && few)
                .then(|| {
                    let dtype = self.part.tensors[tensor].dtype;
                    Literal::new(dtype, dims.clone(), bytes_of(o, operand)?)
                })
                .flatten();
            sizes.dims.push(dims);
            sizes.values.push(value);
        }
        let mut facts: Vec<Option<(TensorType, Option<Value>)>> = Vec::new();
        for input in &node.inputs {
            facts.push(match *input {
                None => None,
                Some(tensor) => {
                    let t = &self.part.tensors[tensor];
                    let port = self.part.inputs.iter().position(|&port| port == tensor);
                    let (dims, value) = match port {
                        Some(port) => (&sizes.dims[port], sizes.values[port].clone()),
                        None => (t.dims.as_ref()?, self.literal(tensor)),
                    };
                    Some((TensorType::known(t.dtype, dims), value.map(Value::Literal)))
                }
            });
        }
        let inputs: Vec<Option<InferInput<'_>>> = facts
            .iter()
            .map(|fact| {
                fact.as_ref().map(|(ty, value)| InferInput {
                    ty,
                    value: value.as_ref(),
                })
            })
            .collect();
        let inferred = infer(node.op, &node.attributes, &inputs, node.outputs.len()).ok()?;
        for (output, fact) in node.outputs.iter().zip(&inferred) {
            if output.is_none() {
                continue;
            }
            let known = fact.ty.shape.as_ref().and_then(|dims| {
                let size = |dim: &Dim| match dim {
                    Dim::Known(size) => Some(*size),
                    _ => None,
                };
                dims.iter().map(size).collect::<Option<Vec<usize>>>()
            });
            let known = known?;
            sizes.results.push((!fact.upper_bound).then_some(known));
        }
        (sizes.results.len() == self.part.outputs.len()).then_some(sizes)
    }

    /// The elements of a constant that is small enough to determine shapes.
    fn literal(&self, tensor: usize) -> Option<Literal> {
        let t = &self.part.tensors[tensor];
        let dims = t.dims.as_ref()?;
        let few = axis::product(dims).is_some_and(|count| count <= MAX_VALUES);
        let bytes = t.constant.as_ref().filter(|_| few)?.bytes();
        Literal::new(t.dtype, dims.clone(), bytes.to_vec())
    }

    /// The node with these shapes, the operand of each of its ports, and the values that it holds as constants.
    fn part_of(&self, sizes: &Sizes) -> (Part, Vec<usize>, Vec<Arc<[u8]>>) {
        let mut part = self.part.clone();
        let (mut ports, mut operands, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for (port, &tensor) in self.part.inputs.iter().enumerate() {
            let t = &mut part.tensors[tensor];
            t.dims = Some(sizes.dims[port].clone());
            t.bounds.clone_from(&t.dims);
            match &sizes.values[port] {
                Some(value) => {
                    // SAFETY: the user of the part keeps the values as long
                    t.constant = Some(unsafe { Constant::kept(&value.bytes) });
                    values.push(Arc::clone(&value.bytes));
                }
                None => {
                    ports.push(tensor);
                    operands.push(self.operands[port]);
                }
            }
        }
        for (&tensor, dims) in self.part.outputs.iter().zip(&sizes.results) {
            let t = &mut part.tensors[tensor];
            t.dims.clone_from(dims);
            t.bounds.clone_from(dims);
        }
        part.inputs = ports;
        (part, operands, values)
    }

    fn compile(
        &self,
        o: &Operands<'_>,
        part: Part,
        operands: Vec<usize>,
        values: Vec<Arc<[u8]>>,
        results: Vec<Option<Vec<usize>>>,
    ) -> Result<Option<Arc<CompiledNode>>> {
        let body = as_body(part);
        let layouts = layouts(&body.part);
        let options = self.options(&body.programs, o.pool, &layouts);
        // a node that cannot be lowered is computed by the evaluator, whose error is reported
        let Ok(Some(lowered)) = (self.lower)(&body, &options, false) else {
            return Ok(None);
        };
        let by_kernels = !lowered.work.iter().any(|step| step.work.class.is_reference());
        let Some(mut program) = lowered.program.filter(|_| by_kernels) else {
            return Ok(None);
        };
        let packed = self.weights.pack(&std::mem::take(&mut program.packers), o.pool)?;
        Ok(Some(Arc::new(CompiledNode {
            nested: Nested::with_weights(program, packed),
            operands,
            results,
            _values: values,
        })))
    }

    fn call(&self, o: &mut Operands<'_>, compiled: &CompiledNode) -> Result<()> {
        let mut made: Vec<Option<Tensor>> = Vec::with_capacity(compiled.results.len());
        for (i, (dims, &tensor)) in compiled.results.iter().zip(&self.part.outputs).enumerate() {
            let dtype = self.part.tensors[tensor].dtype;
            // truth values are checked when they are boxed
            let room = match dims {
                Some(dims) if o.gives_boxed(i) && dtype != DType::Bool => {
                    let room = Tensor::zeros(polychip_reference::element(dtype), dims.clone());
                    room.ok().filter(|room| room.bytes().is_some())
                }
                _ => None,
            };
            made.push(room);
        }
        let mut wanted = Vec::with_capacity(made.len());
        for (i, room) in made.iter_mut().enumerate() {
            let dims = compiled.results[i].as_deref().unwrap_or(&[]);
            let dtype = self.part.tensors[self.part.outputs[i]].dtype;
            wanted.push(if room.is_none() {
                o.wanted(i, room)
            } else {
                let bytes = room.as_mut().and_then(Tensor::bytes_mut);
                let bytes = bytes.expect("invariant: room was made of what has bytes");
                Wanted::Memory(bytes, dtype, dims)
            });
        }
        let given = compiled.operands.iter().map(|&operand| o.given_in_place(operand));
        let given = given.collect::<Result<Vec<_>>>()?;
        let mut scratch = self.scratch(compiled.nested.scratch_bytes().div_ceil(4))?;
        o.call(&compiled.nested, &mut scratch, given, wanted)?;
        self.cache().scratch.push(scratch);
        #[cfg(test)]
        CALLS.set(CALLS.get() + 1);
        for (i, tensor) in made.into_iter().enumerate() {
            if let Some(tensor) = tensor {
                o.store(i, tensor)?;
            }
        }
        Ok(())
    }

    /// Memory of at least so many floats.
    fn scratch(&self, floats: usize) -> Result<AlignedVec> {
        let memory = self.cache().scratch.pop();
        match memory {
            Some(memory) if memory.len() >= floats => Ok(memory),
            // one that is too small goes
            _ => crate::arena::memory(floats, "a node's scratch"),
        }
    }
}

impl SpecializationCache {
    /// The entry of this key.
    fn find(&mut self, key: &Key) -> Option<Option<Arc<CompiledNode>>> {
        self.uses += 1;
        let uses = self.uses;
        let entry = self.specializations.get_mut(key)?;
        entry.used = uses;
        Some(entry.compiled.clone())
    }

    /// Whether this key was seen before; marks it as seen.
    fn mark_seen(&mut self, key: &Key) -> bool {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let hash = hasher.finish();
        if !self.seen.insert(hash) {
            return true;
        }
        self.seen_order.push_back(hash);
        if self.seen_order.len() > MAX_SEEN
            && let Some(oldest) = self.seen_order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        false
    }

    fn insert(&mut self, key: Key, compiled: Option<Arc<CompiledNode>>) {
        if self.specializations.len() == MAX_CACHED {
            let oldest = self.specializations.iter().min_by_key(|(_, entry)| entry.used);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.specializations.remove(&oldest);
            }
        }
        let used = self.uses;
        self.specializations
            .insert(key, Specialization { used, compiled });
    }
}

/// Whether few elements may produce many.
fn grows(op: Op) -> bool {
    matches!(
        op,
        Op::Expand
            | Op::Tile
            | Op::Range
            | Op::ConstantOfShape
            | Op::Pad
            | Op::Resize
            | Op::Upsample
            | Op::OneHot
            | Op::EyeLike
    )
}

fn constants(part: &Part) -> usize {
    let constants = part.tensors.iter().filter(|t| t.is_constant());
    let counts = constants.filter_map(|t| axis::product(t.dims.as_ref()?));
    counts.fold(0, usize::saturating_add)
}

/// A part that holds only this node, and the tensor of `whole` at each input port.
fn isolated(whole: &Part, node: &Node) -> (Part, Vec<TensorIndex>) {
    let mut part = Part::default();
    let mut seen: Vec<TensorIndex> = Vec::new();
    let mut place = |tensor: TensorIndex, part: &mut Part| {
        seen.iter().position(|&other| other == tensor).unwrap_or_else(|| {
            seen.push(tensor);
            part.tensors.push(whole.tensors[tensor].clone());
            seen.len() - 1
        })
    };
    let mut own = node.clone();
    let mut inputs = Vec::new();
    for input in own.inputs.iter_mut().flatten() {
        let tensor = *input;
        *input = place(tensor, &mut part);
        if !whole.is_constant(tensor) && !part.inputs.contains(input) {
            part.inputs.push(*input);
            inputs.push(tensor);
        }
    }
    for output in own.outputs.iter_mut().flatten() {
        *output = place(*output, &mut part);
        part.outputs.push(*output);
    }
    own.decomposition = None;
    part.nodes.push(own);
    (part, inputs)
}

/// The part as a body.
fn as_body(part: Part) -> BodyPart {
    BodyPart {
        feeds: (0..part.inputs.len()).map(Feed::Passed).collect(),
        part,
        programs: Programs::default(),
    }
}

fn layouts(part: &Part) -> Vec<polychip_sdk::Layout> {
    vec![polychip_sdk::Layout::RowMajor; part.inputs.len() + part.outputs.len()]
}

/// The bytes of an operand.
fn bytes_of(o: &Operands<'_>, operand: usize) -> Option<Vec<u8>> {
    match o.boxed(operand) {
        Some(tensor) => Some(tensor.to_bytes()),
        None => o.dims(operand).map(|_| o.read::<u8>(operand).to_vec()),
    }
}

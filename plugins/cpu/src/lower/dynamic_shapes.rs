//! Nodes with dynamic shapes: lowered at run time for the shapes of a run, if that pays off, and cached. A single node is
//! lowered in its step; the nodes of a region are lowered together, as a static part would be.
//!
//! Invariants:
//! 1. A specialization equals what lowering gives for the same static shapes; a single node that it leaves to the reference
//!    evaluator stays there.
//! 2. The cache is bounded, and drops the least recently used entry. Shapes that occur once with little work are not lowered:
//!    lowering would take longer than computing.
//! 3. Operands and results are those of the steps in whose stead it runs. The results of a region are stored when all
//!    operands were read: they may lie where an operand lies.
//!
//! Not here: how the evaluator computes a node (`reference`), which nodes form a region (`regions`), how a program runs
//! inside a step (`step::nested`).
#![allow(unsafe_code)]

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polychip_cpu_kernels::{AlignedVec, Isa};
use polychip_ops::{DType, Dim, InferInput, Inferred, Literal, Op, TensorType, Value, axis, infer};
use polychip_reference::Tensor;
use polychip_sdk::{Constant, Result};

use super::builder::{LowerBody, Lowering, Options};
use crate::part::{BodyPart, Feed, Node, Part, Programs, Tensor as PartTensor, TensorIndex};
use crate::step::{Context, Nested, Operands, Wanted, tensor_from_bytes};
use crate::tune::Choices;
use crate::weights::{HeldContents, Weights};
use crate::work::{Repeated, of_node};

/// Most specializations that are cached per node, and fewest per region.
const MAX_CACHED: usize = 512;
const MIN_CACHED: usize = 8;
/// Nodes of all specializations that are cached per region: each takes up to a kilobyte.
const MAX_CACHED_NODES: usize = 8192;
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

/// Nodes that are lowered at run time.
pub(super) struct DynamicPart {
    /// A part that holds only these nodes.
    part: Part,
    /// The node of the whole part that each of them is; none of a single node, whose step is named.
    region: Option<Vec<u32>>,
    /// The input ports whose values may determine shapes.
    by_values: Vec<bool>,
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

/// The nodes, lowered for one key.
struct Specialization {
    used: u64,
    /// None if they cannot be lowered, or no kernel covers a single node.
    compiled: Option<Arc<CompiledPart>>,
}

struct CompiledPart {
    nested: Nested,
    /// The node of the whole part that each of its nodes is, of a region.
    nodes: Option<Vec<u32>>,
    /// The operand of each of its input ports.
    operands: Vec<usize>,
    results: Vec<Known>,
    /// Values that the program holds as constants.
    _values: Vec<Arc<[u8]>>,
    /// Spares another size the hashes of the weights.
    _contents: HeldContents,
}

/// What is known of a result before it is computed.
enum Known {
    /// Its extents; nothing if they depend on the data.
    Dims(Option<Vec<usize>>),
    /// All of it.
    Value(Literal),
}

/// The shapes of the operands, and the values that determine shapes.
struct Sizes {
    dims: Vec<Vec<usize>>,
    values: Vec<Option<Literal>>,
    /// Of the tensors that the nodes make, in their order: extents, unless they depend on the data, and the value, if
    /// that follows from shapes.
    made: Vec<Made>,
}

/// The nodes with the shapes of a run.
struct Specialized {
    part: Part,
    /// The node of the whole part that each of its nodes is, of a region.
    nodes: Option<Vec<u32>>,
    /// The operand of each of its input ports.
    operands: Vec<usize>,
    /// Values that it holds as constants.
    values: Vec<Arc<[u8]>>,
}

/// What follows of a tensor that the nodes make.
struct Made {
    tensor: TensorIndex,
    dims: Option<Vec<usize>>,
    value: Option<Literal>,
}

impl DynamicPart {
    /// For a node whose operands are its inputs in order, with repetitions; `None` for a node that is lowered at compile
    /// time, or never.
    pub(super) fn of_node(l: &Lowering<'_>, node: &Node) -> Option<DynamicPart> {
        // the evaluator shares the elements of an operand that has another shape
        let views = matches!(
            node.op,
            Op::Reshape | Op::Squeeze | Op::Unsqueeze | Op::Flatten | Op::Identity
        );
        if views || l.all_known(node) || !is_plain(l.part, node) {
            return None;
        }
        let isolated = isolated(l.part, std::slice::from_ref(node), &[]);
        let given: Vec<usize> = node.inputs.iter().copied().flatten().collect();
        let place = |tensor: &usize| given.iter().position(|given| given == tensor);
        let operands = isolated.inputs.iter().map(place).collect::<Option<_>>()?;
        let by_values = vec![true; isolated.inputs.len()];
        Some(Self::new(l, isolated.part, operands, by_values, None))
    }

    /// For the nodes of a region, of which these tensors are read behind it, and whose operands are its inputs, each once.
    /// `by_values` tells of which of them values determine shapes.
    pub(super) fn of_region(
        l: &Lowering<'_>,
        nodes: std::ops::Range<usize>,
        results: &[TensorIndex],
        by_values: impl Fn(TensorIndex) -> bool,
    ) -> (DynamicPart, Vec<TensorIndex>) {
        let isolated = isolated(l.part, &l.part.nodes[nodes.clone()], results);
        let operands = (0..isolated.inputs.len()).collect();
        let by_values = isolated.inputs.iter().map(|&t| by_values(t)).collect();
        let region = nodes.map(|node| node as u32).collect();
        let dynamic = Self::new(l, isolated.part, operands, by_values, Some(region));
        (dynamic, isolated.inputs)
    }

    fn new(
        l: &Lowering<'_>,
        part: Part,
        operands: Vec<usize>,
        by_values: Vec<bool>,
        region: Option<Vec<u32>>,
    ) -> DynamicPart {
        let cache = SpecializationCache {
            by_values: region.is_some() && by_values.contains(&true),
            ..SpecializationCache::default()
        };
        DynamicPart {
            grows: region.is_some() || part.nodes.iter().any(|node| grows(node.op)),
            constants: constants(&part),
            part,
            region,
            by_values,
            operands,
            isa: l.isa,
            reduced: l.reduced,
            lower: l.lower_body,
            cache: Mutex::new(cache),
            weights: Weights::default(),
        }
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

    /// Computes the nodes with a cached or a new specialization; `false` if neither exists, and nothing was computed.
    ///
    /// # Errors
    /// A kernel fails.
    pub(super) fn run(&self, o: &mut Operands<'_>, context: &Context<'_>) -> Result<bool> {
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
            None => self.specialize(o, &key, by_values, context.once)?,
        };
        match compiled {
            None => Ok(false),
            Some(compiled) => self.call(o, &compiled, context).map(|()| true),
        }
    }

    /// Caches a specialization, or that there is none.
    fn insert(&self, key: &Key, compiled: Option<Arc<CompiledPart>>) {
        let most = (MAX_CACHED_NODES / self.part.nodes.len().max(1)).clamp(MIN_CACHED, MAX_CACHED);
        self.cache().insert(key.clone(), compiled, most);
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
        for (&operand, &may_determine) in self.operands.iter().zip(&self.by_values) {
            let dims = o.dims(operand)?;
            key.push(dims.len() as u64);
            key.extend(dims.iter().map(|&size| size as u64));
            let few = axis::product(dims).is_some_and(|count| count <= MAX_VALUES);
            if by_values && may_determine && few {
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

    /// Lowers the nodes for a key that is not cached, if that pays off. `once` tells that the shapes do not change while
    /// the part runs.
    fn specialize(
        &self,
        o: &Operands<'_>,
        key: &Key,
        by_values: bool,
        once: bool,
    ) -> Result<Option<Arc<CompiledPart>>> {
        // in a loop whose state grows, sizes never come again: then not even shapes are inferred
        if self.region.is_some() && !once && !self.cache().mark_seen(key) {
            return Ok(None);
        }
        let Some(sizes) = self.sizes(o, by_values) else {
            if self.region.is_some() {
                // shapes that follow from data: these nodes run one by one
                self.insert(key, None);
            } else if !by_values {
                // from now on the key holds the values too
                self.cache().by_values = true;
            }
            return Ok(None);
        };
        let count = |dims: &Vec<usize>| axis::product(dims).unwrap_or(usize::MAX);
        let taken = sizes.dims.iter().map(count);
        let given = sizes.made.iter().filter_map(|made| made.dims.as_ref().map(count));
        let elements = taken.chain(given).fold(self.constants, usize::saturating_add);
        if elements < FEW_ELEMENTS {
            if self.region.is_some() {
                // the shapes of many nodes are not inferred again
                self.insert(key, None);
            }
            return Ok(None);
        }
        let specialized = self.part_of(&sizes);
        let part = &specialized.part;
        let works = part.nodes.iter().map(|node| of_node(part, node));
        let units = works.fold(0_u64, |sum, work| {
            sum.saturating_add(work.units).saturating_add(work.boxed.all())
        });
        // the nodes of a region take that much work each, and would each be lowered
        let count = part.nodes.len() as u64;
        let much = units >= MUCH_WORK.saturating_mul(count);
        if !much && !self.cache().mark_seen(key) {
            return Ok(None);
        }
        let results = self.results(&sizes);
        let compiled = self.compile(o, specialized, results)?;
        self.insert(key, compiled.clone());
        Ok(compiled)
    }

    /// The shapes of a run; `None` if the shapes of the results do not follow from them.
    fn sizes(&self, o: &Operands<'_>, by_values: bool) -> Option<Sizes> {
        let mut sizes = Sizes {
            dims: Vec::new(),
            values: Vec::new(),
            made: Vec::new(),
        };
        let mut facts: Vec<Option<(TensorType, Option<Value>)>> = vec![None; self.part.tensors.len()];
        let ports = self.operands.iter().zip(&self.part.inputs).zip(&self.by_values);
        for ((&operand, &tensor), &may_determine) in ports {
            let dims = o.dims(operand)?.to_vec();
            let dtype = self.part.tensors[tensor].dtype;
            let few = axis::product(&dims).is_some_and(|count| count <= MAX_VALUES);
            let value = (by_values && may_determine && few)
                .then(|| Literal::new(dtype, dims.clone(), bytes_of(o, operand)?))
                .flatten();
            facts[tensor] = Some((TensorType::known(dtype, &dims), value.clone().map(Value::Literal)));
            sizes.dims.push(dims);
            sizes.values.push(value);
        }
        for node in &self.part.nodes {
            for &tensor in node.inputs.iter().flatten() {
                if facts[tensor].is_none() {
                    let t = &self.part.tensors[tensor];
                    let value = self.literal(tensor).map(Value::Literal);
                    facts[tensor] = Some((TensorType::known(t.dtype, t.dims.as_ref()?), value));
                }
            }
            let inputs: Vec<Option<InferInput<'_>>> = node
                .inputs
                .iter()
                .map(|&input| {
                    let (ty, value) = facts[input?].as_ref()?;
                    Some(InferInput {
                        ty,
                        value: value.as_ref(),
                    })
                })
                .collect();
            let inferred = infer(node.op, &node.attributes, &inputs, node.outputs.len()).ok()?;
            if inferred.len() < node.outputs.len() {
                return None;
            }
            // a node that makes something else besides is computed
            let follows = |fact: &Inferred| matches!(fact.value, Some(Value::Literal(_)));
            let is_fixed = self.region.is_some() && inferred.iter().take(node.outputs.len()).all(follows);
            for (&output, fact) in node.outputs.iter().zip(inferred) {
                let Some(tensor) = output else { continue };
                let known = fact.ty.shape.as_ref().and_then(|dims| {
                    let size = |dim: &Dim| match dim {
                        Dim::Known(size) => Some(*size),
                        _ => None,
                    };
                    dims.iter().map(size).collect::<Option<Vec<usize>>>()
                });
                let known = known?;
                if fact.upper_bound && self.region.is_some() {
                    return None;
                }
                let value = match &fact.value {
                    Some(Value::Literal(literal)) => Some(literal.clone()),
                    _ => None,
                };
                sizes.made.push(Made {
                    tensor,
                    dims: (!fact.upper_bound).then_some(known),
                    value: value.filter(|_| is_fixed),
                });
                facts[tensor] = Some((fact.ty, fact.value));
            }
        }
        Some(sizes)
    }

    /// What is known of each result.
    fn results(&self, sizes: &Sizes) -> Vec<Known> {
        let of = |&tensor: &TensorIndex| {
            let made = sizes.made.iter().find(|made| made.tensor == tensor);
            match made {
                Some(Made {
                    value: Some(value), ..
                }) => Known::Value(value.clone()),
                made => Known::Dims(made.and_then(|made| made.dims.clone())),
            }
        };
        self.part.outputs.iter().map(of).collect()
    }

    /// The elements of a constant that is small enough to determine shapes.
    fn literal(&self, tensor: usize) -> Option<Literal> {
        let t = &self.part.tensors[tensor];
        let dims = t.dims.as_ref()?;
        let few = axis::product(dims).is_some_and(|count| count <= MAX_VALUES);
        let bytes = t.constant.as_ref().filter(|_| few)?.bytes();
        Literal::new(t.dtype, dims.clone(), bytes.to_vec())
    }

    /// The nodes with these shapes. What follows from shapes is a constant, and nothing computes it.
    fn part_of(&self, sizes: &Sizes) -> Specialized {
        let mut part = self.part.clone();
        let (mut ports, mut operands, mut values) = (Vec::new(), Vec::new(), Vec::new());
        let mut fix = |t: &mut PartTensor, value: &Literal| {
            // SAFETY: the user of the part keeps the values as long
            t.constant = Some(unsafe { Constant::kept(&value.bytes) });
            values.push(Arc::clone(&value.bytes));
        };
        for (port, &tensor) in self.part.inputs.iter().enumerate() {
            let t = &mut part.tensors[tensor];
            t.dims = Some(sizes.dims[port].clone());
            t.bounds.clone_from(&t.dims);
            match &sizes.values[port] {
                Some(value) => fix(t, value),
                None => {
                    ports.push(tensor);
                    operands.push(self.operands[port]);
                }
            }
        }
        for made in &sizes.made {
            let t = &mut part.tensors[made.tensor];
            t.dims.clone_from(&made.dims);
            t.bounds.clone_from(&made.dims);
            if let Some(value) = &made.value {
                fix(t, value);
            }
        }
        let mut nodes = None;
        if let Some(region) = &self.region {
            let is_fixed = |tensor: &TensorIndex| part.tensors[*tensor].constant.is_some();
            part.outputs.retain(|tensor| !is_fixed(tensor));
            let own = part.nodes.drain(..).zip(region);
            let kept = own.filter(|(node, _)| !node.outputs.iter().flatten().all(is_fixed));
            let (kept, places): (Vec<Node>, Vec<u32>) = kept.unzip();
            (part.nodes, nodes) = (kept, Some(places));
        }
        part.inputs = ports;
        Specialized {
            part,
            nodes,
            operands,
            values,
        }
    }

    fn compile(
        &self,
        o: &Operands<'_>,
        specialized: Specialized,
        results: Vec<Known>,
    ) -> Result<Option<Arc<CompiledPart>>> {
        let Specialized {
            part,
            nodes,
            operands,
            values,
        } = specialized;
        let constants = part.tensors.iter().filter_map(|t| t.constant).collect();
        let body = as_body(part);
        let layouts = layouts(&body.part);
        let options = self.options(&body.programs, o.pool, &layouts);
        // a node that cannot be lowered is computed by the evaluator, whose error is reported
        let Ok(Some(lowered)) = (self.lower)(&body, &options, false) else {
            return Ok(None);
        };
        let by_kernels = !lowered.work.iter().any(|step| step.work.class.is_reference());
        let Some(mut program) = lowered.program.filter(|_| by_kernels || self.region.is_some()) else {
            return Ok(None);
        };
        let packed = self.weights.pack(&std::mem::take(&mut program.packers), o.pool)?;
        let contents = self.weights.hold(&packed, constants);
        Ok(Some(Arc::new(CompiledPart {
            nested: Nested::with_weights(program, packed),
            nodes,
            operands,
            results,
            _values: values,
            _contents: contents,
        })))
    }

    fn call(&self, o: &mut Operands<'_>, compiled: &CompiledPart, context: &Context<'_>) -> Result<()> {
        let is_region = self.region.is_some();
        let mut made: Vec<(usize, Option<Tensor>)> = Vec::with_capacity(compiled.results.len());
        for (i, (known, &tensor)) in compiled.results.iter().zip(&self.part.outputs).enumerate() {
            let dtype = self.part.tensors[tensor].dtype;
            let dims = match known {
                Known::Value(_) => continue,
                Known::Dims(dims) => dims,
            };
            // truth values are checked when they are boxed
            let room = match dims {
                Some(dims) if (is_region || o.gives_boxed(i)) && dtype != DType::Bool => {
                    let room = Tensor::zeros(polychip_reference::element(dtype), dims.clone());
                    room.ok().filter(|room| room.bytes().is_some())
                }
                _ => None,
            };
            made.push((i, room));
        }
        let mut wanted = Vec::with_capacity(made.len());
        for (i, room) in &mut made {
            let dims = match &compiled.results[*i] {
                Known::Dims(Some(dims)) => dims.as_slice(),
                _ => &[],
            };
            let dtype = self.part.tensors[self.part.outputs[*i]].dtype;
            wanted.push(if room.is_some() {
                let bytes = room.as_mut().and_then(Tensor::bytes_mut);
                let bytes = bytes.expect("invariant: room was made of what has bytes");
                Wanted::Memory(bytes, dtype, dims)
            } else if is_region {
                Wanted::Boxed(room)
            } else {
                o.wanted(*i, room)
            });
        }
        let given = compiled.operands.iter().map(|&operand| o.given_in_place(operand));
        let given = given.collect::<Result<Vec<_>>>()?;
        let mut scratch = self.scratch(compiled.nested.scratch_bytes().div_ceil(4))?;
        let inner = compiled.nodes.as_deref();
        let node = |node: u32| (context.node)(*inner?.get(node as usize)?);
        let context = Context {
            node: &node,
            clock: context.clock.filter(|_| is_region),
            once: context.once,
        };
        o.call(&compiled.nested, &mut scratch, given, wanted, &context)?;
        self.cache().scratch.push(scratch);
        #[cfg(test)]
        CALLS.set(CALLS.get() + self.part.nodes.len());
        o.by_kernel = true;
        for (i, tensor) in made {
            if let Some(tensor) = tensor {
                o.store(i, tensor)?;
            }
        }
        for (i, known) in compiled.results.iter().enumerate() {
            if let Known::Value(value) = known {
                o.store(i, tensor_from_bytes(value.dtype, &value.shape, &value.bytes)?)?;
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
    fn find(&mut self, key: &Key) -> Option<Option<Arc<CompiledPart>>> {
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

    /// Adds an entry in place of the one that was used least recently, if there are `most`.
    fn insert(&mut self, key: Key, compiled: Option<Arc<CompiledPart>>, most: usize) {
        if self.specializations.len() >= most {
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

/// Whether all tensors of a node are numbers without encodings, and it has no bodies.
pub(super) fn is_plain(part: &Part, node: &Node) -> bool {
    let plain = |&t: &usize| {
        let t = &part.tensors[t];
        t.plain && !t.packed && t.encoding.is_none() && t.dtype.byte_width().is_some()
    };
    node.bodies.is_empty() && node.inputs.iter().chain(&node.outputs).flatten().all(plain)
}

/// A part that holds only some nodes.
struct Isolated {
    part: Part,
    /// The tensor of the whole part at each input port.
    inputs: Vec<TensorIndex>,
}

/// Copies nodes of a part into one of their own, whose results are these tensors; of a single node, all that it makes.
fn isolated(whole: &Part, nodes: &[Node], results: &[TensorIndex]) -> Isolated {
    let mut part = Part::default();
    let mut seen: HashMap<TensorIndex, TensorIndex> = HashMap::new();
    let mut place = |tensor: TensorIndex, part: &mut Part| {
        *seen.entry(tensor).or_insert_with(|| {
            part.tensors.push(whole.tensors[tensor].clone());
            part.tensors.len() - 1
        })
    };
    let mut inputs = Vec::new();
    let mut is_made = vec![false; whole.tensors.len()];
    for node in nodes {
        let mut own = node.clone();
        for input in own.inputs.iter_mut().flatten() {
            let tensor = *input;
            *input = place(tensor, &mut part);
            if !whole.is_constant(tensor) && !is_made[tensor] && !part.inputs.contains(input) {
                part.inputs.push(*input);
                inputs.push(tensor);
            }
        }
        for output in own.outputs.iter_mut().flatten() {
            let tensor = *output;
            is_made[tensor] = true;
            *output = place(tensor, &mut part);
            if nodes.len() == 1 {
                part.outputs.push(*output);
            }
        }
        own.decomposition = None;
        part.nodes.push(own);
    }
    if nodes.len() > 1 {
        part.outputs = results.iter().map(|&tensor| place(tensor, &mut part)).collect();
    }
    Isolated { part, inputs }
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

//! Nodes whose sizes only the run knows: lowered for the sizes that a run brings, once those are worth it, and kept.
//!
//! Invariants:
//! 1. What is lowered late is what would have been lowered for sizes known before; what that leaves to the reference
//!    evaluator stays there.
//! 2. What is kept is bounded, and what was used longest ago goes first. Sizes that come once and bring little work are not
//!    lowered: that would take longer than computing them.
//! 3. The step is the reference's, with the same operands and results.
//!
//! Not here: how the evaluator computes a node (`reference`), how a program runs inside a step (`step::nested`).
#![allow(unsafe_code)]

use std::collections::VecDeque;
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

/// Sizes of a node that are kept, at most.
const MOST_KEPT: usize = 64;
/// Sizes of a node that are remembered as seen, at most.
const MOST_SEEN: usize = 256;
/// Elements below which the evaluator is done before a program is found; in the tests, which are small, all are enough.
const FEW_ELEMENTS: usize = if cfg!(test) { 1 } else { 4 << 10 };
/// Elements of all operands below which not even the sizes of the results are asked for.
const FEW_TAKEN: usize = if cfg!(test) { 1 } else { 256 };
/// Turns of the evaluator's loops that take longer than lowering a node.
const MUCH_WORK: u64 = 200_000;
/// Elements of an input whose values may tell sizes.
const MOST_VALUES: usize = 16;

#[cfg(test)]
thread_local! {
    /// Nodes that kernels computed late on this thread.
    pub(super) static CALLS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// What a node is lowered for: threads, then rank and extents of each operand, then the values that tell sizes.
type Key = Vec<u64>;

/// A node that is lowered late.
pub(super) struct Late {
    /// The node alone, with ports around it.
    part: Part,
    /// The operand of each input port.
    operands: Vec<usize>,
    /// Its results may be large where its operands are few elements.
    grows: bool,
    /// Elements of its constants.
    constants: usize,
    isa: Isa,
    reduced: bool,
    lower: LowerBody,
    kept: Mutex<Kept>,
    weights: Weights,
}

#[derive(Default)]
struct Kept {
    specials: Vec<Special>,
    /// Hashes of sizes that came and were not worth it, the last one last.
    seen: VecDeque<u64>,
    uses: u64,
    /// Sizes of the results follow from values of operands.
    by_values: bool,
    scratch: Vec<AlignedVec>,
}

/// The node for some sizes.
struct Special {
    key: Key,
    used: u64,
    /// None where no kernel covers it.
    ready: Option<Arc<Ready>>,
}

struct Ready {
    nested: Nested,
    /// The operand of each of its input ports.
    operands: Vec<usize>,
    /// Extents of each result, where they are known.
    results: Vec<Option<Vec<usize>>>,
    /// Values that became constants of the program.
    _values: Vec<Arc<[u8]>>,
}

/// The operands with their values, as far as those tell sizes.
struct Sizes {
    dims: Vec<Vec<usize>>,
    values: Vec<Option<Literal>>,
    /// Extents of each result, where values do not tell them.
    results: Vec<Option<Vec<usize>>>,
}

impl Late {
    /// For a node of the part whose operands are its inputs in order, each as often as it stands there; `None` where it is
    /// lowered before, or never.
    pub(super) fn of(l: &Lowering<'_>, node: &Node) -> Option<Late> {
        let tensors = node.inputs.iter().chain(&node.outputs).flatten();
        let plain = |&t: &usize| {
            let t = &l.part.tensors[t];
            t.plain && !t.packed && t.encoding.is_none() && t.dtype.byte_width().is_some()
        };
        if l.all_known(node) || !node.bodies.is_empty() || !tensors.into_iter().all(plain) {
            return None;
        }
        let (part, inputs) = alone_of(l.part, node);
        let given: Vec<usize> = node.inputs.iter().copied().flatten().collect();
        let place = |tensor: &usize| given.iter().position(|given| given == tensor);
        let operands = inputs.iter().map(place).collect::<Option<_>>()?;
        Some(Late {
            grows: grows(node.op),
            constants: constants(&part),
            part,
            operands,
            isa: l.isa,
            reduced: l.reduced,
            lower: l.lower_body,
            kept: Mutex::default(),
            weights: Weights::default(),
        })
    }

    /// What the node is expected to cost, where bounds of its sizes are known: as if they were its sizes.
    pub(super) fn expected(&self, l: &Lowering<'_>) -> Option<Vec<Repeated>> {
        let mut part = self.part.clone();
        for t in &mut part.tensors {
            if t.dims.is_none() {
                t.dims = Some(t.bounds.clone()?);
            }
        }
        let body = alone(part);
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

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Computes the node by kernels, where it is lowered for these sizes or is worth that now; `false` where nothing was
    /// computed.
    ///
    /// # Errors
    /// A kernel fails.
    pub(super) fn run(&self, o: &mut Operands<'_>) -> Result<bool> {
        if !self.grows && self.taken(o) < FEW_TAKEN {
            return Ok(false);
        }
        let by_values = self.kept().by_values;
        let Some(key) = self.key(o, by_values) else {
            return Ok(false);
        };
        let found = self.kept().find(&key);
        let ready = match found {
            Some(ready) => ready,
            None => self.worth(o, &key, by_values)?,
        };
        match ready {
            None => Ok(false),
            Some(ready) => self.call(o, &ready).map(|()| true),
        }
    }

    /// Elements of all operands.
    fn taken(&self, o: &Operands<'_>) -> usize {
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
            if by_values && axis::product(dims).is_some_and(|count| count <= MOST_VALUES) {
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

    /// The program for sizes that none is kept for, where they are worth one.
    fn worth(&self, o: &Operands<'_>, key: &Key, by_values: bool) -> Result<Option<Arc<Ready>>> {
        let Some(sizes) = self.sizes(o, by_values) else {
            if !by_values {
                // from now on the key holds the values too
                self.kept().by_values = true;
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
        if !much && !self.kept().saw(key) {
            return Ok(None);
        }
        let ready = self.ready(o, part, operands, values, sizes.results)?;
        self.kept().keep(key.clone(), ready.clone());
        Ok(ready)
    }

    /// The sizes of a run; `None` where they do not tell those of the results.
    fn sizes(&self, o: &Operands<'_>, by_values: bool) -> Option<Sizes> {
        let node = &self.part.nodes[0];
        let mut sizes = Sizes {
            dims: Vec::new(),
            values: Vec::new(),
            results: Vec::new(),
        };
        for (&operand, &tensor) in self.operands.iter().zip(&self.part.inputs) {
            let dims = o.dims(operand)?.to_vec();
            let few = axis::product(&dims).is_some_and(|count| count <= MOST_VALUES);
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

    /// The elements of a constant that is small enough to tell sizes.
    fn literal(&self, tensor: usize) -> Option<Literal> {
        let t = &self.part.tensors[tensor];
        let dims = t.dims.as_ref()?;
        let few = axis::product(dims).is_some_and(|count| count <= MOST_VALUES);
        let bytes = t.constant.as_ref().filter(|_| few)?.bytes();
        Literal::new(t.dtype, dims.clone(), bytes.to_vec())
    }

    /// The node for these sizes, the operand of each of its ports, and the values that it holds as constants.
    fn part_of(&self, sizes: &Sizes) -> (Part, Vec<usize>, Vec<Arc<[u8]>>) {
        let mut part = self.part.clone();
        let (mut ports, mut operands, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for (port, &tensor) in self.part.inputs.iter().enumerate() {
            let t = &mut part.tensors[tensor];
            t.dims = Some(sizes.dims[port].clone());
            t.bounds.clone_from(&t.dims);
            match &sizes.values[port] {
                Some(value) => {
                    // SAFETY: whoever uses the part keeps the values as long
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

    fn ready(
        &self,
        o: &Operands<'_>,
        part: Part,
        operands: Vec<usize>,
        values: Vec<Arc<[u8]>>,
        results: Vec<Option<Vec<usize>>>,
    ) -> Result<Option<Arc<Ready>>> {
        let body = alone(part);
        let layouts = layouts(&body.part);
        let options = self.options(&body.programs, o.pool, &layouts);
        // what cannot be lowered is computed by the evaluator, in whose words it fails
        let Ok(Some(lowered)) = (self.lower)(&body, &options, false) else {
            return Ok(None);
        };
        let by_kernels = !lowered.work.iter().any(|step| step.work.class.is_reference());
        let Some(mut program) = lowered.program.filter(|_| by_kernels) else {
            return Ok(None);
        };
        let packed = self.weights.pack(&std::mem::take(&mut program.packers), o.pool)?;
        Ok(Some(Arc::new(Ready {
            nested: Nested::with_weights(program, packed),
            operands,
            results,
            _values: values,
        })))
    }

    fn call(&self, o: &mut Operands<'_>, ready: &Ready) -> Result<()> {
        let mut made: Vec<Option<Tensor>> = Vec::with_capacity(ready.results.len());
        for (i, (dims, &tensor)) in ready.results.iter().zip(&self.part.outputs).enumerate() {
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
            let dims = ready.results[i].as_deref().unwrap_or(&[]);
            let dtype = self.part.tensors[self.part.outputs[i]].dtype;
            wanted.push(if room.is_none() {
                o.wanted(i, room)
            } else {
                let bytes = room.as_mut().and_then(Tensor::bytes_mut);
                let bytes = bytes.expect("invariant: room was made of what has bytes");
                Wanted::Memory(bytes, dtype, dims)
            });
        }
        let given = ready.operands.iter().map(|&operand| o.given_in_place(operand));
        let given = given.collect::<Result<Vec<_>>>()?;
        let mut scratch = self.scratch(ready.nested.scratch_bytes().div_ceil(4))?;
        o.call(&ready.nested, &mut scratch, given, wanted)?;
        self.kept().scratch.push(scratch);
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
        let kept = self.kept().scratch.pop();
        match kept {
            Some(memory) if memory.len() >= floats => Ok(memory),
            // one that is too small goes
            _ => crate::arena::memory(floats, "a node's scratch"),
        }
    }
}

impl Kept {
    /// What is kept for these sizes.
    fn find(&mut self, key: &Key) -> Option<Option<Arc<Ready>>> {
        self.uses += 1;
        let uses = self.uses;
        let special = self.specials.iter_mut().find(|special| special.key == *key)?;
        special.used = uses;
        Some(special.ready.clone())
    }

    /// Whether these sizes came before; they have now.
    fn saw(&mut self, key: &Key) -> bool {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let hash = hasher.finish();
        if self.seen.contains(&hash) {
            return true;
        }
        if self.seen.len() == MOST_SEEN {
            self.seen.pop_front();
        }
        self.seen.push_back(hash);
        false
    }

    fn keep(&mut self, key: Key, ready: Option<Arc<Ready>>) {
        if self.specials.len() == MOST_KEPT {
            let oldest = self
                .specials
                .iter()
                .enumerate()
                .min_by_key(|(_, special)| special.used);
            if let Some((oldest, _)) = oldest {
                self.specials.swap_remove(oldest);
            }
        }
        let used = self.uses;
        self.specials.push(Special { key, used, ready });
    }
}

/// Whether few elements may make many.
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

/// A node with ports around it, and the tensor of the part that each input port is.
fn alone_of(whole: &Part, node: &Node) -> (Part, Vec<TensorIndex>) {
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

/// A part of one node as the body of nothing.
fn alone(part: Part) -> BodyPart {
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

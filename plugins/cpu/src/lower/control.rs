//! If and Loop over bodies that are lowered as the part around them is: programs inside the node's step.
//!
//! Invariants:
//! 1. A body is lowered once, whatever calls it; a round allocates only for tensors whose size no body states.
//! 2. Captured and carried tensors are passed by address where both sides know the size.
//! 3. What cannot be lowered so is left to `body`, with nothing added.
//!
//! Not here: how a program runs inside a step (`step::nested`), Scan (`scan`), SequenceMap (`body`).

use polychip_lowering::Layout;
use polychip_ops::{DType, Op};
use polychip_reference::Tensor;
use polychip_sdk::{AlignedBytes, Error, ErrorKind, Result};

use super::builder::{Lowering, Options, bytes_of};
use crate::arena::ALIGN;
use crate::part::{BodyPart, Feed, Node, TensorIndex};
use crate::step::{Context, Given, Nested, Operands, ValueId, Wanted, tensor_from_bytes};
use crate::tune::Choices;
use crate::work::{Class, Repeated, rounds};

/// A body with the places of what it captures among the step's operands.
pub(super) struct Body {
    pub(super) nested: Option<Nested>,
    /// Per input port.
    pub(super) feeds: Vec<Fed>,
    pub(super) outputs: usize,
    pub(super) work: Vec<Repeated>,
}

/// What an input port of a body is fed.
#[derive(Clone, Copy)]
pub(super) enum Fed {
    /// An operand of the step.
    Operand(usize),
    /// What the op passes at this place.
    Passed(usize),
}

/// Adds a step that runs a node with bodies; `false` where a body cannot be lowered.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let parts = l.programs.parts(node);
    let wanted = match node.op {
        Op::If => 2,
        Op::Loop => 1,
        _ => return Ok(false),
    };
    let tensors = node.reads().chain(node.writes());
    let plain = |t: TensorIndex| l.part.tensors[t].encoding.is_none();
    if parts.len() != wanted
        || !tensors.into_iter().all(plain)
        || !parts.iter().all(|part| fits(l, node, part))
    {
        return Ok(false);
    }
    let Some(lowered) = lowered(l, parts)? else {
        return Ok(false);
    };
    let mut reads = Vec::new();
    let mut bodies = Vec::new();
    let mut inputs = Vec::new();
    for &input in &node.inputs {
        inputs.push(input.map(|t| place(l, &mut reads, t)).transpose()?);
    }
    for (part, (nested, work)) in parts.iter().zip(lowered) {
        let feeds = part.feeds.iter().map(|&feed| match feed {
            Feed::Captured(tensor) => place(l, &mut reads, tensor).map(Fed::Operand),
            Feed::Passed(index) => Ok(Fed::Passed(index)),
        });
        bodies.push(Body {
            nested,
            feeds: feeds.collect::<Result<_>>()?,
            outputs: part.part.outputs.len(),
            work,
        });
    }
    match node.op {
        Op::If => branch(l, node, &reads, bodies)?,
        _ => repeated(l, node, &reads, &inputs, parts, bodies)?,
    }
    Ok(true)
}

/// The place of a tensor among the operands, in the form in which it passes a port.
pub(super) fn place(l: &mut Lowering<'_>, reads: &mut Vec<ValueId>, tensor: TensorIndex) -> Result<usize> {
    let value = l.read(tensor, Layout::RowMajor, l.at_port(tensor))?;
    Ok(reads.iter().position(|&read| read == value).unwrap_or_else(|| {
        reads.push(value);
        reads.len() - 1
    }))
}

/// Whether what is captured is in the body what it is around it, and all that the op passes is there.
fn fits(l: &Lowering<'_>, node: &Node, body: &BodyPart) -> bool {
    let inner = &body.part.tensors;
    let feeds = body.part.inputs.iter().zip(&body.feeds);
    let captured = feeds.into_iter().all(|(&port, &feed)| match feed {
        Feed::Captured(tensor) => {
            let (a, b) = (&l.part.tensors[tensor], &inner[port]);
            a.dtype == b.dtype
                && a.packed == b.packed
                && b.encoding.is_none()
                && agree(a.dims.as_deref(), b.dims.as_deref())
        }
        Feed::Passed(_) => inner[port].encoding.is_none(),
    });
    let stacks = |t: TensorIndex| {
        inner[t].encoding.is_none() && (node.op == Op::If || inner[t].dtype != DType::String)
    };
    let outputs = body.part.outputs.iter().all(|&t| stacks(t));
    let complete = match node.op {
        Op::If => body.part.outputs.len() >= node.outputs.len(),
        // unused outputs may be left out at the end
        _ => {
            let carried = node.inputs.get(2..).unwrap_or(&[]);
            let results = body.part.outputs.len().checked_sub(1);
            node.inputs.len() >= 2
                && carried.iter().all(Option::is_some)
                && results.is_some_and(|results| results >= carried.len().max(node.outputs.len()))
        }
    };
    captured && outputs && complete
}

/// Whether extents that both sides know are the same.
pub(super) fn agree(a: Option<&[usize]>, b: Option<&[usize]>) -> bool {
    a.zip(b).is_none_or(|(a, b)| a == b)
}

pub(super) type Ready = (Option<Nested>, Vec<Repeated>);

/// The bodies as programs, whose packed weights and algorithms join those of the program around them.
pub(super) fn lowered(l: &mut Lowering<'_>, parts: &[BodyPart]) -> Result<Option<Vec<Ready>>> {
    let mut all = Vec::new();
    let mut algorithms: Vec<u8> = Vec::new();
    for body in parts {
        let layouts = vec![polychip_sdk::Layout::RowMajor; body.part.inputs.len() + body.part.outputs.len()];
        let choices = match l.choices {
            Choices::Given(codes) => {
                let before = l.algorithms.len() + algorithms.len();
                Choices::Given(codes.get(before..).unwrap_or(&[]))
            }
            choices => choices,
        };
        let options = Options {
            programs: &body.programs,
            isa: l.isa,
            pool: l.pool,
            layouts: &layouts,
            reduced: l.reduced,
            choices,
        };
        let Some(lowered) = (l.lower_body)(body, &options, l.dry)? else {
            return Ok(None);
        };
        if let Some(program) = &lowered.program {
            algorithms.extend(&program.algorithms);
        }
        all.push(lowered);
    }
    l.algorithms.extend(algorithms);
    let mut ready = Vec::new();
    for lowered in all {
        let nested = match lowered.program {
            None => None,
            Some(mut program) => {
                let start = l.adopt(&mut program)?;
                Some(Nested::new(program, start))
            }
        };
        ready.push((nested, lowered.work));
    }
    Ok(Some(ready))
}

/// Scratch for the calls of any of these, as the last result of the step.
pub(super) fn scratch(l: &mut Lowering<'_>, bodies: &[Body]) -> Result<Option<ValueId>> {
    let bytes = bodies
        .iter()
        .filter_map(|body| body.nested.as_ref())
        .map(Nested::scratch_bytes);
    l.scratch(bytes.max().unwrap_or(0).div_ceil(4))
}

fn write(l: &mut Lowering<'_>, tensor: TensorIndex) -> Result<ValueId> {
    l.write(tensor, Layout::RowMajor, l.at_port(tensor))
}

/// The values of a node's first results, and the place of each among them, where it is wanted.
pub(super) fn results(
    l: &mut Lowering<'_>,
    node: &Node,
    count: usize,
) -> Result<(Vec<ValueId>, Vec<Option<usize>>)> {
    let mut writes = Vec::new();
    let mut places = Vec::with_capacity(count);
    for index in 0..count {
        places.push(match node.output(index) {
            None => None,
            Some(t) => {
                writes.push(write(l, t)?);
                Some(writes.len() - 1)
            }
        });
    }
    Ok((writes, places))
}

pub(super) fn not_lowered() -> Error {
    Error::new(ErrorKind::Persistent, "a body was lowered for its steps alone")
}

pub(super) fn uncomputed() -> Error {
    Error::new(
        ErrorKind::Persistent,
        "a body does not compute one of its outputs",
    )
}

/// The value of a tensor of one element.
fn truth(o: &Operands<'_>, i: usize) -> Result<bool> {
    match o.given(i)? {
        Given::Memory([one, ..], _, _) => Ok(*one != 0),
        Given::Memory(..) => Err(Error::bad_argument("a condition has no element")),
        Given::Boxed(tensor) => boxed_truth(&tensor),
    }
}

fn boxed_truth(tensor: &Tensor) -> Result<bool> {
    match tensor.to_bools().as_deref() {
        Ok([one]) => Ok(*one),
        _ => Err(Error::bad_argument("a condition is not one truth value")),
    }
}

fn branch(l: &mut Lowering<'_>, node: &Node, reads: &[ValueId], bodies: Vec<Body>) -> Result<()> {
    let then_first = node.bodies[0].attr == Some(polychip_ops::Attr::ThenBranch);
    let (writes, results) = results(l, node, node.outputs.len())?;
    let scratch = scratch(l, &bodies)?;
    let scratch_at = writes.len();
    // the dearer branch counts
    let cost = |body: &&Body| {
        body.work
            .iter()
            .map(|inner| inner.work.units.max(inner.work.bytes))
            .sum::<u64>()
    };
    let within = bodies.iter().max_by_key(cost).map(|body| body.work.clone());
    let step = l.step(
        node.op.name(),
        reads,
        &writes,
        scratch,
        Box::new(move |o| {
            let first = truth(o, 0)? == then_first;
            let body = &bodies[usize::from(!first)];
            let nested = body.nested.as_ref().ok_or_else(not_lowered)?;
            let given = body.feeds.iter().map(|fed| match *fed {
                Fed::Operand(i) => o.given(i),
                Fed::Passed(_) => Err(Error::bad_argument("a branch takes no inputs")),
            });
            let given = given.collect::<Result<Vec<_>>>()?;
            let scratch = o.scratch(scratch_at);
            let mut boxes: Vec<Option<Tensor>> = vec![None; body.outputs];
            let mut wanted = Vec::with_capacity(boxes.len());
            for (output, target) in boxes.iter_mut().enumerate() {
                wanted.push(match results.get(output).copied().flatten() {
                    Some(i) => o.wanted(i, target),
                    None => Wanted::Boxed(target),
                });
            }
            o.call(nested, scratch, given, wanted, &Context::BODY)?;
            for (output, tensor) in boxes.into_iter().enumerate() {
                if let (Some(i), Some(tensor)) = (results.get(output).copied().flatten(), tensor) {
                    o.store(i, tensor)?;
                }
            }
            Ok(())
        }),
    );
    step.does(Class::Copy, 0).within = within.unwrap_or_default();
    step.work.bytes = 0;
    Ok(())
}

/// How a state of a loop passes from round to round.
#[derive(Clone, Copy)]
struct State {
    /// The operand that it starts as.
    start: usize,
    /// The result that it ends as.
    result: Option<usize>,
    /// Two pieces of memory, one of which holds what a round was given, the other what it gives; none where the state is
    /// boxed.
    memory: Option<[usize; 2]>,
}

/// How the values of the rounds are stacked to a result.
struct Stacked {
    /// The result, if it is wanted.
    result: Option<usize>,
    dtype: DType,
    /// Extents of one round's value, where they are known.
    dims: Option<Vec<usize>>,
    /// Whether the result has an address.
    in_place: bool,
    /// What a loop without rounds gives: extents of a value, 0 where they are not known.
    none: Vec<usize>,
}

fn repeated(
    l: &mut Lowering<'_>,
    node: &Node,
    reads: &[ValueId],
    inputs: &[Option<usize>],
    parts: &[BodyPart],
    mut bodies: Vec<Body>,
) -> Result<()> {
    let (inner, body) = (&parts[0], bodies.remove(0));
    let (mut writes, results) = results(l, node, inner.part.outputs.len() - 1)?;
    let passed = |place: usize| {
        let port = inner.feeds.iter().position(|&feed| feed == Feed::Passed(place))?;
        Some(inner.part.inputs[port])
    };
    let mut states = Vec::new();
    for (index, &input) in node.inputs[2..].iter().enumerate() {
        let (outer, gives) = (
            input.expect("invariant: `fits` saw that states are given"),
            inner.part.outputs[1 + index],
        );
        let takes = passed(2 + index);
        // one size everywhere: outside, as it is taken, as it is given, and as the result
        let sizes = [takes, Some(gives)].map(|t| t.and_then(|t| inner.part.tensors[t].dims.as_deref()));
        let result = node.output(index).map(|t| l.part.tensors[t].dims.as_deref());
        let known = l.is_known(outer)
            && sizes.iter().all(|&dims| dims == l.part.dims(outer))
            && result.is_none_or(|dims| dims == l.part.dims(outer));
        let memory = if known {
            let value = reads[inputs[2 + index].expect("invariant: `fits` saw that states are given")];
            let (dtype, dims) = (l.values[value.0 as usize].dtype, l.value_shape(value).to_vec());
            let pieces = [l.fresh(dtype, dims.clone())?, l.fresh(dtype, dims)?];
            Some(pieces.map(|piece| {
                writes.push(piece);
                writes.len() - 1
            }))
        } else {
            None
        };
        states.push(State {
            start: inputs[2 + index].expect("invariant: `fits` saw that states are given"),
            result: results[index],
            memory,
        });
    }
    let mut scans = Vec::new();
    for (index, &result) in results.iter().enumerate().skip(states.len()) {
        let t = &inner.part.tensors[inner.part.outputs[1 + index]];
        scans.push(Stacked {
            result,
            dtype: t.dtype,
            dims: t.dims.clone().filter(|_| t.dtype != DType::String),
            in_place: node.output(index).is_some_and(|t| l.is_known(t)),
            none: node.bodies[0].outputs[1 + index]
                .as_ref()
                .map_or(Vec::new(), |(_, sizes)| sizes.clone()),
        });
    }
    let scratch = scratch(l, std::slice::from_ref(&body))?;
    let scratch_at = writes.len();
    let times = rounds(l.part, node);
    let within = body.work.iter().map(|inner| Repeated {
        times: inner.times.saturating_mul(times),
        ..*inner
    });
    let within = within.collect();
    let (most, going) = (inputs[0], inputs[1]);
    let step = l.step(
        node.op.name(),
        reads,
        &writes,
        scratch,
        Box::new(move |o| {
            let most = most.map(|i| count(o, i)).transpose()?;
            let going = going.map_or(Ok(true), |i| truth(o, i))?;
            let scratch = o.scratch(scratch_at);
            turn(o, &body, scratch, (most, going), &states, &scans)
        }),
    );
    step.does(Class::Copy, 0).within = within;
    step.work.bytes = 0;
    Ok(())
}

/// The integer of a tensor of one element.
fn count(o: &Operands<'_>, i: usize) -> Result<i64> {
    let wrong = || Error::bad_argument("a count of rounds is not one integer");
    match o.given(i)? {
        Given::Memory(bytes, DType::I64, _) => match bytes.first_chunk() {
            Some(&one) => Ok(i64::from_le_bytes(one)),
            None => Err(wrong()),
        },
        Given::Memory(..) => Err(wrong()),
        Given::Boxed(tensor) => match tensor.to_i64s().as_deref() {
            Ok([one]) => Ok(*one),
            _ => Err(wrong()),
        },
    }
}

/// A state between two rounds.
enum Carried<'a> {
    Memory {
        /// What it started as, before the first round.
        start: Option<&'a [u8]>,
        dtype: DType,
        dims: &'a [usize],
        now: &'a mut [u8],
        next: &'a mut [u8],
    },
    Boxed(Option<Tensor>),
}

/// The values of the rounds so far.
struct Stack<'a> {
    stacked: &'a Stacked,
    /// Memory of the whole result.
    whole: Option<&'a mut [u8]>,
    /// Memory of one round's value.
    one: Option<AlignedBytes>,
    /// The values where the result has no address.
    bytes: Vec<u8>,
    /// Their extents.
    dims: Option<Vec<usize>>,
    boxed: Option<Tensor>,
}

fn turn(
    o: &mut Operands<'_>,
    body: &Body,
    scratch: &mut [f32],
    (most, mut going): (Option<i64>, bool),
    states: &[State],
    scans: &[Stacked],
) -> Result<()> {
    let nested = body.nested.as_ref().ok_or_else(not_lowered)?;
    let mut carried = Vec::with_capacity(states.len());
    for state in states {
        carried.push(match (o.given(state.start)?, state.memory) {
            (Given::Memory(bytes, dtype, dims), Some([now, next])) => Carried::Memory {
                start: Some(bytes),
                dtype,
                dims,
                now: o.write(now),
                next: o.write(next),
            },
            (given, _) => Carried::Boxed(Some(given.tensor()?)),
        });
    }
    let mut stacks = Vec::with_capacity(scans.len());
    for stacked in scans {
        let one_len = match &stacked.dims {
            Some(dims) => Some(bytes_of(stacked.dtype, dims)?),
            None => None,
        };
        let whole = match stacked.result {
            Some(i) if stacked.in_place && one_len.is_some() => Some(o.write::<u8>(i)),
            _ => None,
        };
        stacks.push(Stack {
            stacked,
            one: match (&whole, one_len) {
                (None, Some(len)) => Some(AlignedBytes::zeroed(len, ALIGN)?),
                _ => None,
            },
            whole,
            bytes: Vec::new(),
            dims: None,
            boxed: None,
        });
    }
    let mut round = 0i64;
    while going && most.is_none_or(|most| round < most) {
        let number = round.to_le_bytes();
        let mut given = Vec::with_capacity(body.feeds.len());
        let (mut truth_byte, mut truth_box) = ([1u8], None);
        let mut wanted = Vec::with_capacity(body.outputs);
        wanted.push(match nested.port(body.feeds.len()) {
            (dtype, Some(dims)) => Wanted::Memory(&mut truth_byte, dtype, dims),
            _ => Wanted::Boxed(&mut truth_box),
        });
        let always = [1u8];
        let mut taken: Vec<Option<Given<'_>>> = Vec::with_capacity(carried.len());
        for state in &mut carried {
            match state {
                Carried::Memory {
                    start,
                    dtype,
                    dims,
                    now,
                    next,
                } => {
                    taken.push(Some(Given::Memory(start.unwrap_or(now), *dtype, dims)));
                    wanted.push(Wanted::Memory(next, *dtype, dims));
                }
                Carried::Boxed(tensor) => {
                    taken.push(tensor.take().map(Given::Boxed));
                    wanted.push(Wanted::Boxed(tensor));
                }
            }
        }
        for (port, fed) in body.feeds.iter().enumerate() {
            given.push(match *fed {
                Fed::Operand(i) => o.given(i)?,
                Fed::Passed(0) => Given::Memory(&number, DType::I64, one_element(nested, port)),
                Fed::Passed(1) => Given::Memory(&always, DType::Bool, one_element(nested, port)),
                Fed::Passed(place) => taken
                    .get_mut(place - 2)
                    .and_then(Option::take)
                    .ok_or_else(uncomputed)?,
            });
        }
        for stack in &mut stacks {
            let dims = stack.stacked.dims.as_deref();
            wanted.push(match (&mut stack.whole, &mut stack.one, dims) {
                (Some(whole), _, Some(dims)) => {
                    let len = bytes_of(stack.stacked.dtype, dims)?;
                    let start = usize::try_from(round)
                        .ok()
                        .and_then(|round| round.checked_mul(len));
                    let piece = start.and_then(|start| whole.get_mut(start..)?.get_mut(..len));
                    let piece = piece.ok_or_else(|| {
                        Error::bad_argument("a loop has more rounds than its result has room for")
                    })?;
                    Wanted::Memory(piece, stack.stacked.dtype, dims)
                }
                (_, Some(one), Some(dims)) => Wanted::Memory(one, stack.stacked.dtype, dims),
                _ => Wanted::Boxed(&mut stack.boxed),
            });
        }
        o.call(nested, scratch, given, wanted, &Context::BODY)?;
        going = match truth_box {
            Some(tensor) => boxed_truth(&tensor)?,
            None => truth_byte[0] != 0,
        };
        for state in &mut carried {
            if let Carried::Memory { start, now, next, .. } = state {
                *start = None;
                std::mem::swap(now, next);
            }
        }
        for stack in &mut stacks {
            stack.push()?;
        }
        round += 1;
    }
    for (state, carried) in states.iter().zip(carried) {
        let Some(result) = state.result else { continue };
        match carried {
            Carried::Memory { start, now, .. } => o.write::<u8>(result).copy_from_slice(start.unwrap_or(now)),
            Carried::Boxed(tensor) => o.store(result, tensor.ok_or_else(uncomputed)?)?,
        }
    }
    for stack in stacks {
        stack.finish(o, round as usize)?;
    }
    Ok(())
}

/// The extents in which a body takes a number that the loop passes: it may take it as a tensor of one dimension.
fn one_element(nested: &Nested, port: usize) -> &[usize] {
    nested
        .port(port)
        .1
        .filter(|dims| dims.iter().all(|&size| size == 1))
        .unwrap_or(&[])
}

impl Stack<'_> {
    /// Takes in the value of a round.
    fn push(&mut self) -> Result<()> {
        if self.whole.is_some() {
            return Ok(());
        }
        let dims = match (&self.one, self.boxed.take()) {
            (Some(one), _) => {
                self.bytes.extend_from_slice(one);
                self.stacked.dims.clone().unwrap_or_default()
            }
            (None, Some(tensor)) => {
                self.bytes.extend_from_slice(&tensor.to_bytes());
                tensor.shape().to_vec()
            }
            (None, None) => return Err(uncomputed()),
        };
        match &self.dims {
            Some(before) if *before != dims => Err(Error::bad_argument(format!(
                "the rounds of a loop give values of {before:?} and {dims:?}, which do not stack"
            ))),
            _ => {
                self.dims = Some(dims);
                Ok(())
            }
        }
    }

    /// Gives the result after so many rounds.
    fn finish(self, o: &mut Operands<'_>, rounds: usize) -> Result<()> {
        let Some(result) = self.stacked.result else {
            return Ok(());
        };
        if let Some(whole) = self.whole {
            let one = self
                .stacked
                .dims
                .as_deref()
                .map_or(Ok(0), |dims| bytes_of(self.stacked.dtype, dims))?;
            if one * rounds != whole.len() {
                return Err(Error::bad_argument(
                    "a loop has fewer rounds than its result says",
                ));
            }
            return Ok(());
        }
        let mut shape = vec![rounds];
        shape.extend(self.dims.as_ref().unwrap_or(&self.stacked.none));
        o.store(
            result,
            tensor_from_bytes(self.stacked.dtype, &shape, &self.bytes)?,
        )
    }
}

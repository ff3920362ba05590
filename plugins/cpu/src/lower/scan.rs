//! Scan over a body that is lowered as the part around it is: a program inside the node's step.
//!
//! Invariants:
//! 1. A round allocates nothing but lists of addresses: states alternate between two pieces of memory, and elements
//!    of sequences and of stacked results stay where they are.
//! 2. What cannot be lowered so is left to `body`, with nothing added.
//!
//! Not here: sequences along other axes than the first, and what has no known size.

use polychip_ops::{DType, Op, operator};
use polychip_sdk::Result;

use super::builder::{Lowering, bytes_of};
use super::control::{Body, Fed, agree, lowered, not_lowered, place, results, scratch, uncomputed};
use crate::part::{BodyPart, Feed, Node, TensorIndex};
use crate::step::{Context, Given, Operands, Wanted};
use crate::work::{Class, Repeated, rounds};

/// A tensor that a round takes or gives.
struct One {
    dtype: DType,
    dims: Vec<usize>,
    bytes: usize,
}

/// A state, which a round takes and gives.
struct State {
    one: One,
    /// The operand that it starts as.
    start: usize,
    /// Two pieces of memory, used alternately.
    memory: [usize; 2],
    /// The result that it ends as.
    result: Option<usize>,
}

/// A sequence whose elements the rounds take.
struct Taken {
    one: One,
    operand: usize,
    backwards: bool,
}

/// A result that stacks the values of the iterations; scratch memory if it is unused.
struct Stacked {
    one: One,
    result: Option<usize>,
    unwanted: Option<usize>,
    backwards: bool,
}

struct Scan {
    body: Body,
    length: usize,
    states: Vec<State>,
    taken: Vec<Taken>,
    stacked: Vec<Stacked>,
    scratch_at: usize,
}

fn backwards(directions: &[i64], index: usize) -> bool {
    directions.get(index).is_some_and(|&direction| direction != 0)
}

/// How many states a node carries and how many sequences it takes, where this file covers it.
fn counts(l: &Lowering<'_>, node: &Node, body: &BodyPart) -> Option<(usize, usize, usize)> {
    let attributes: operator::Scan = node.typed().ok()?;
    let taken = attributes.scan_inputs;
    let states = node.inputs.len().checked_sub(taken).filter(|_| taken > 0)?;
    let inner = &body.part;
    let known = |t: TensorIndex| l.is_known(t) && l.part.tensors[t].encoding.is_none();
    let known_inside = |t: &TensorIndex| {
        let t = &inner.tensors[*t];
        t.encoding.is_none() && t.dims.is_some() && t.dtype != DType::String && !t.packed
    };
    let length = *l.part.dims(node.input(states)?)?.first()?;
    let outside = node.inputs.iter().all(|t| t.is_some_and(known))
        && node.outputs.iter().flatten().all(|&t| known(t))
        && inner.inputs.iter().chain(&inner.outputs).all(known_inside)
        && inner.outputs.len() >= node.outputs.len().max(states);
    let mut axes = attributes.input_axes.iter().chain(&attributes.output_axes);
    let plain = axes.all(|&axis| axis == 0);
    if !outside || !plain {
        return None;
    }
    // a tensor outside and inside, of one element of which the one outside is a sequence
    let is = |outer: TensorIndex, t: TensorIndex, sequence: bool| {
        let (Some(dims), Some(own)) = (l.part.dims(outer), inner.tensors[t].dims.as_deref()) else {
            return false;
        };
        let dims = match (sequence, dims) {
            (true, [first, rest @ ..]) if *first == length => rest,
            (false, dims) => dims,
            _ => return false,
        };
        l.part.tensors[outer].dtype == inner.tensors[t].dtype && dims == own
    };
    let fed = body
        .part
        .inputs
        .iter()
        .zip(&body.feeds)
        .all(|(&port, &feed)| match feed {
            Feed::Captured(tensor) => {
                known(tensor)
                    && l.part.tensors[tensor].dtype == inner.tensors[port].dtype
                    && agree(l.part.dims(tensor), inner.tensors[port].dims.as_deref())
            }
            Feed::Passed(at) => node.input(at).is_some_and(|outer| is(outer, port, at >= states)),
        });
    let given = inner.outputs.iter().enumerate().all(|(at, &t)| {
        let state = at >= states || node.input(at).is_some_and(|outer| is(outer, t, false));
        state && node.output(at).is_none_or(|outer| is(outer, t, at >= states))
    });
    (fed && given).then_some((states, taken, length))
}

fn one(body: &BodyPart, t: TensorIndex) -> Result<One> {
    let t = &body.part.tensors[t];
    let dims = t.dims.clone().unwrap_or_default();
    Ok(One {
        dtype: t.dtype,
        bytes: bytes_of(t.dtype, &dims)?,
        dims,
    })
}

/// Adds a step that runs a Scan; `false` where its body cannot be lowered.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let parts = l.programs.parts(node);
    let (Op::Scan, [part]) = (node.op, parts) else {
        return Ok(false);
    };
    let Some((carried, sequences, length)) = counts(l, node, part) else {
        return Ok(false);
    };
    let Ok(attributes) = node.typed::<operator::Scan>() else {
        return Ok(false);
    };
    // results are numbered by bits
    if 3 * part.part.outputs.len() + 1 > 60 {
        return Ok(false);
    }
    let Some(mut ready) = lowered(l, parts)? else {
        return Ok(false);
    };
    let Some((nested, work)) = ready.pop() else {
        return Ok(false);
    };
    let mut reads = Vec::new();
    let mut inputs = Vec::new();
    for &input in node.inputs.iter().flatten() {
        inputs.push(place(l, &mut reads, input)?);
    }
    let feeds = part.feeds.iter().map(|&feed| match feed {
        Feed::Captured(tensor) => place(l, &mut reads, tensor).map(Fed::Operand),
        Feed::Passed(index) => Ok(Fed::Passed(index)),
    });
    let body = Body {
        nested,
        feeds: feeds.collect::<Result<_>>()?,
        outputs: part.part.outputs.len(),
        work,
    };
    let (mut writes, places) = results(l, node, body.outputs)?;
    let mut piece = |l: &mut Lowering<'_>, one: &One| -> Result<usize> {
        writes.push(l.fresh(one.dtype, one.dims.clone())?);
        Ok(writes.len() - 1)
    };
    let (mut states, mut stacked) = (Vec::new(), Vec::new());
    for (at, &t) in part.part.outputs.iter().enumerate() {
        let one = one(part, t)?;
        if at < carried {
            states.push(State {
                start: inputs[at],
                memory: [piece(l, &one)?, piece(l, &one)?],
                result: places[at],
                one,
            });
            continue;
        }
        stacked.push(Stacked {
            unwanted: match places[at] {
                None => Some(piece(l, &one)?),
                Some(_) => None,
            },
            result: places[at],
            backwards: backwards(&attributes.output_directions, at - carried),
            one,
        });
    }
    let mut taken = Vec::new();
    for (at, &operand) in inputs.iter().enumerate().skip(carried).take(sequences) {
        let outer = node.inputs[at].expect("invariant: `counts` saw that all inputs are given");
        let dims = l.shape(outer)?[1..].to_vec();
        let dtype = l.dtype(outer);
        taken.push(Taken {
            one: One {
                dtype,
                bytes: bytes_of(dtype, &dims)?,
                dims,
            },
            operand,
            backwards: backwards(&attributes.input_directions, at - carried),
        });
    }
    let scratch = scratch(l, std::slice::from_ref(&body))?;
    let times = rounds(l.part, node);
    let within = body.work.iter().map(|inner| Repeated {
        times: inner.times.saturating_mul(times),
        ..*inner
    });
    let within = within.collect();
    let scan = Scan {
        scratch_at: writes.len(),
        body,
        length,
        states,
        taken,
        stacked,
    };
    let step = l.step(
        node.op.name(),
        &reads,
        &writes,
        scratch,
        Box::new(move |o| scan.run(o)),
    );
    step.does(Class::Copy, 0).within = within;
    step.work.bytes = 0;
    Ok(true)
}

/// The bytes of one of `length` elements of a sequence.
fn range(round: usize, length: usize, backwards: bool, bytes: usize) -> std::ops::Range<usize> {
    let at = if backwards { length - 1 - round } else { round };
    at * bytes..(at + 1) * bytes
}

impl Scan {
    fn run(&self, o: &mut Operands<'_>) -> Result<()> {
        let nested = self.body.nested.as_ref().ok_or_else(not_lowered)?;
        let scratch = o.scratch(self.scratch_at);
        let mut now: Vec<(&[u8], &mut [u8])> = Vec::with_capacity(self.states.len());
        let mut next: Vec<&mut [u8]> = Vec::with_capacity(self.states.len());
        for state in &self.states {
            now.push((o.read::<u8>(state.start), o.write(state.memory[0])));
            next.push(o.write(state.memory[1]));
        }
        let sequences: Vec<&[u8]> = self.taken.iter().map(|taken| o.read(taken.operand)).collect();
        let mut stacks: Vec<&mut [u8]> = Vec::with_capacity(self.stacked.len());
        for stacked in &self.stacked {
            stacks.push(match (stacked.result, stacked.unwanted) {
                (Some(i), _) | (None, Some(i)) => o.write(i),
                (None, None) => &mut [],
            });
        }
        for round in 0..self.length {
            let mut given = Vec::with_capacity(self.body.feeds.len());
            for fed in &self.body.feeds {
                given.push(match *fed {
                    Fed::Operand(i) => o.given(i)?,
                    Fed::Passed(at) if at < self.states.len() => {
                        let one = &self.states[at].one;
                        let (start, memory) = &now[at];
                        let bytes = if round == 0 { start } else { &**memory };
                        Given::Memory(bytes, one.dtype, &one.dims)
                    }
                    Fed::Passed(at) => {
                        let taken = self.taken.get(at - self.states.len()).ok_or_else(uncomputed)?;
                        let own = range(round, self.length, taken.backwards, taken.one.bytes);
                        let bytes = &sequences[at - self.states.len()][own];
                        Given::Memory(bytes, taken.one.dtype, &taken.one.dims)
                    }
                });
            }
            let mut wanted = Vec::with_capacity(self.body.outputs);
            for (state, next) in self.states.iter().zip(&mut next) {
                wanted.push(Wanted::Memory(next, state.one.dtype, &state.one.dims));
            }
            for (stacked, stack) in self.stacked.iter().zip(&mut stacks) {
                let own = match stacked.result {
                    Some(_) => range(round, self.length, stacked.backwards, stacked.one.bytes),
                    None => 0..stacked.one.bytes,
                };
                wanted.push(Wanted::Memory(
                    &mut stack[own],
                    stacked.one.dtype,
                    &stacked.one.dims,
                ));
            }
            o.call(nested, scratch, given, wanted, &Context::BODY)?;
            for ((_, now), next) in now.iter_mut().zip(&mut next) {
                std::mem::swap(now, next);
            }
        }
        for (state, (start, now)) in self.states.iter().zip(now) {
            if let Some(result) = state.result {
                let last = if self.length == 0 { start } else { now };
                o.write::<u8>(result).copy_from_slice(last);
            }
        }
        Ok(())
    }
}

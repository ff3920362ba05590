//! The last passes of lowering: output ports, memory that results share with operands, and the arena.
//!
//! Invariants:
//! 1. An output port whose tensor is not computed in place is copied at the end of the run.
//! 2. A state's output is always copied at the end, because its port is also the input's memory.
//! 3. Allocations that share memory are merged before the arena is planned, so that it sees their joint life.

use polychip_lowering::{Layout, Storage};
use polychip_ops::{DType, Op};
use polychip_sdk::arena::{self, Piece};
use polychip_sdk::{Error, ErrorKind, Result};

use super::builder::Lowering;
use crate::arena::ALIGN;
use crate::part::{BodyPart, Feed, Node, Part, Programs, TensorIndex};
use crate::step::{AllocationId, Home, PortUse, Program, Region, ValueId};

/// Finishes a program.
pub(super) fn finish(mut l: Lowering<'_>, regions: Vec<Region>) -> Result<Program> {
    let part = l.part;
    let mut ports = Vec::new();
    for &tensor in &part.inputs {
        let boxed = !l.is_known(tensor);
        let value = if boxed {
            l.tensor_forms[tensor].get(Layout::RowMajor, Storage::Real)
        } else {
            // the value at the port is the first that was made of it
            let port = ports.len();
            let mut values = (0..l.values.len() as u32).map(ValueId);
            values.find(|&value| matches!(l.home(value), Home::Port(p) if *p == port))
        };
        let value = value.ok_or_else(|| l.not_computed(tensor))?;
        ports.push(PortUse {
            value,
            boxed,
            unbounded: is_unbounded(part, tensor),
            packed: packed(part, tensor),
        });
    }
    let makers = part.producers();
    for (index, &tensor) in part.outputs.iter().enumerate() {
        l.node = makers[tensor].unwrap_or(0);
        l.members = makers[tensor].map(|maker| maker as u32).into_iter().collect();
        let value = output(&mut l, part.inputs.len() + index, tensor)?;
        ports.push(value);
    }
    share(&mut l);
    mark_last_reads(&mut l, &ports);
    let (arena_bytes, arena_bound) = place(&mut l)?;
    Ok(Program {
        values: l.values,
        allocations: l.allocations,
        steps: l.steps,
        regions,
        arena_bytes,
        arena_bound,
        slots: l.slots,
        copies: l.copies,
        sections: l.sections,
        packers: l.packers,
        packed_len: l.packed_len,
        algorithms: l.algorithms,
        ports,
        boundless: is_boundless(part, l.programs),
    })
}

/// Whether a run's time depends on values: a Loop may never end, unless a constant gives its trip count. An If is as
/// slow as its slower branch, and a Scan's time follows its sequence's length.
fn is_boundless(part: &Part, programs: &Programs) -> bool {
    part.nodes.iter().any(|node| {
        let bodies = programs.parts(node);
        let unknown = bodies.len() != node.bodies.len();
        let inside = |body: &BodyPart| is_boundless(&body.part, &body.programs);
        let ends = node.op == Op::Loop && !bodies.iter().all(|body| is_counted(part, node, body));
        ends || unknown || bodies.iter().any(inside)
    })
}

/// Whether a Loop turns as often as a constant says: its condition is true from the start, and the body hands it on.
fn is_counted(part: &Part, node: &Node, body: &BodyPart) -> bool {
    let holds = |part: &Part, t: TensorIndex| part.scalar(t).is_some_and(|value| value != 0.0);
    let counted = node.input(0).is_some_and(|t| part.scalar(t).is_some());
    let begins = node.input(1).is_none_or(|t| holds(part, t));
    let inner = &body.part;
    let Some(&condition) = inner.outputs.first() else {
        return false;
    };
    let passed = |t: TensorIndex| {
        let port = inner.inputs.iter().position(|&input| input == t);
        port.is_some_and(|port| matches!(body.feeds[port], Feed::Passed(1)))
    };
    let handed_on = |t: TensorIndex| {
        let maker = inner.producers()[t].map(|maker| &inner.nodes[maker]);
        maker.is_some_and(|maker| maker.op == Op::Identity && maker.input(0).is_some_and(passed))
    };
    counted && begins && (passed(condition) || holds(inner, condition) || handed_on(condition))
}

/// Adds the steps that bring the outputs to their ports, where that can be.
pub(super) fn dry_run(l: &mut Lowering<'_>) {
    let makers = l.part.producers();
    for (index, &tensor) in l.part.outputs.iter().enumerate() {
        let steps = l.steps.len();
        l.node = makers[tensor].unwrap_or(0);
        if output(l, l.part.inputs.len() + index, tensor).is_err() {
            l.steps.truncate(steps);
        }
    }
}

/// What a port carries packed: strings, or the bytes of a sequence or optional.
fn packed(part: &Part, tensor: TensorIndex) -> Option<DType> {
    let t = &part.tensors[tensor];
    (t.packed || t.dtype == DType::String).then_some(t.dtype)
}

/// Whether not even bounds of a tensor's extents are known.
fn is_unbounded(part: &Part, tensor: TensorIndex) -> bool {
    let t = &part.tensors[tensor];
    !t.packed && t.dtype != DType::String && t.dims.is_none() && t.bounds.is_none()
}

/// Brings a tensor to its output port.
fn output(l: &mut Lowering<'_>, port: usize, tensor: TensorIndex) -> Result<PortUse> {
    if !l.is_known(tensor) {
        return Ok(PortUse {
            value: l.rows(tensor)?,
            boxed: true,
            unbounded: is_unbounded(l.part, tensor),
            packed: packed(l.part, tensor),
        });
    }
    let storage = l.at_port(tensor);
    let layout = match storage {
        Storage::Stored => Layout::RowMajor,
        _ => l.layouts[port],
    };
    let value = l.read(tensor, layout, storage)?;
    let at = &l.values[value.0 as usize];
    if matches!(l.home(value), Home::Port(p) if *p == port) && at.offset == 0 {
        return Ok(PortUse {
            value,
            boxed: false,
            unbounded: false,
            packed: None,
        });
    }
    let result = l.value(at.dtype, layout.dims(l.shape(tensor)?), Home::Port(port))?;
    l.step(
        "to port",
        &[value],
        &[result],
        None,
        Box::new(|o| {
            o.write::<u8>(0).copy_from_slice(o.read::<u8>(0));
            Ok(())
        }),
    );
    Ok(PortUse {
        value: result,
        boxed: false,
        unbounded: false,
        packed: None,
    })
}

/// First and last step that touches each allocation.
fn lives(l: &Lowering<'_>) -> Vec<Option<(usize, usize)>> {
    let mut lives: Vec<Option<(usize, usize)>> = vec![None; l.allocations.len()];
    for (index, step) in l.steps.iter().enumerate() {
        for &value in step.reads.iter().chain(&step.writes) {
            let allocation = l.values[value.0 as usize].allocation.0 as usize;
            let life = lives[allocation].get_or_insert((index, index));
            life.1 = index;
        }
    }
    lives
}

/// Lets first results overwrite operands that are not read later.
fn share(l: &mut Lowering<'_>) {
    let mut lives = lives(l);
    // what an allocation was merged into
    let mut merged: Vec<u32> = (0..l.allocations.len() as u32).collect();
    let root = |merged: &[u32], mut id: u32| {
        while merged[id as usize] != id {
            id = merged[id as usize];
        }
        id
    };
    for index in 0..l.steps.len() {
        let step = &l.steps[index];
        let Some(&target) = step.writes.first() else {
            continue;
        };
        let target = &l.values[target.0 as usize];
        let own = root(&merged, target.allocation.0);
        let is_arena = |id: u32| matches!(l.allocations[id as usize].home, Home::Arena(_));
        let is_fresh = lives[own as usize].is_some_and(|(first, _)| first == index);
        if !is_arena(own) || !is_fresh || target.bytes != l.allocations[own as usize].bytes {
            continue;
        }
        let choice = step.may_share.iter().copied().find(|&read| {
            let operand = &l.values[step.reads[read].0 as usize];
            let id = root(&merged, operand.allocation.0);
            let alone =
                step.reads.iter().enumerate().all(|(i, value)| {
                    i == read || root(&merged, l.values[value.0 as usize].allocation.0) != id
                });
            is_arena(id)
                && alone
                && operand.offset == 0
                && operand.bytes == target.bytes
                && l.allocations[id as usize].bytes == target.bytes
                && lives[id as usize].is_some_and(|(_, last)| last == index)
        });
        if let Some(read) = choice {
            let id = root(&merged, l.values[step.reads[read].0 as usize].allocation.0);
            merged[own as usize] = id;
            let last = lives[own as usize].map_or(index, |(_, last)| last);
            if let Some(life) = &mut lives[id as usize] {
                life.1 = last;
            }
            l.steps[index].shared = Some(read);
        }
    }
    for value in &mut l.values {
        value.allocation = AllocationId(root(&merged, value.allocation.0));
    }
}

/// Tells each step which boxed operands it may take, because no step reads them later and no port gives them.
fn mark_last_reads(l: &mut Lowering<'_>, ports: &[PortUse]) {
    let lives = lives(l);
    let of = |value: ValueId| l.values[value.0 as usize].allocation.0 as usize;
    let outputs = &ports[l.part.inputs.len()..];
    let mut is_given = vec![false; l.allocations.len()];
    for port in outputs {
        is_given[of(port.value)] = true;
    }
    let mut marks = Vec::with_capacity(l.steps.len());
    for (index, step) in l.steps.iter().enumerate() {
        let mut mark = 0u64;
        for (read, &value) in step.reads.iter().enumerate().take(u64::BITS as usize) {
            let allocation = of(value);
            let once = step
                .reads
                .iter()
                .filter(|&&other| of(other) == allocation)
                .count()
                == 1;
            let is_last = lives[allocation].is_some_and(|(_, last)| last == index);
            let is_boxed = matches!(l.allocations[allocation].home, Home::Slot(_));
            if is_boxed && is_last && once && !is_given[allocation] {
                mark |= 1 << read;
            }
        }
        marks.push(mark);
    }
    for (step, mark) in l.steps.iter_mut().zip(marks) {
        step.last_reads = mark;
    }
}

/// Plans the arena: its size in bytes, and what that cannot go below.
fn place(l: &mut Lowering<'_>) -> Result<(usize, u64)> {
    let lives = lives(l);
    let mut allocations = Vec::new();
    let mut pieces = Vec::new();
    for (index, (allocation, life)) in l.allocations.iter().zip(&lives).enumerate() {
        if let (Home::Arena(_), &Some((first, last))) = (&allocation.home, life) {
            allocations.push(index);
            pieces.push(Piece {
                bytes: allocation.bytes as u64,
                first,
                last,
            });
        }
    }
    let (offsets, total) = arena::plan(&pieces, ALIGN as u64).ok_or_else(|| {
        Error::new(
            ErrorKind::OutOfMemory,
            "the intermediate tensors do not fit memory",
        )
    })?;
    for (allocation, offset) in allocations.into_iter().zip(offsets) {
        l.allocations[allocation].home = Home::Arena(offset as usize);
    }
    Ok((
        total as usize,
        arena::bound(&pieces, ALIGN as u64).unwrap_or(total),
    ))
}

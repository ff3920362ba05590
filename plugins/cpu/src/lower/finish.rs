//! The last passes of lowering: output ports, memory that results share with operands, and the arena.
//!
//! Invariants:
//! 1. An output port whose tensor is not computed in place is copied at the end of the run.
//! 2. A state's output is always copied at the end, because its port is also the input's memory.
//! 3. Storages that share memory are merged before the arena is planned, so that it sees their joint life.

use polychip_ops::{DType, Op};
use polychip_sdk::arena::{self, Piece};
use polychip_sdk::{Error, ErrorKind, Layout, Result};

use super::{Lowering, channels_last};
use crate::arena::ALIGN;
use crate::part::{Part, TensorIndex};
use crate::step::{Home, PortUse, Program, StorageId, ValueId};

/// For each tensor the output port in whose memory it should be computed.
pub(super) fn wishes(part: &Part) -> Vec<Option<usize>> {
    let mut wishes = vec![None; part.tensors.len()];
    let uses = part.uses();
    for (port, &tensor) in part.outputs.iter().enumerate() {
        let is_state = part.states.iter().any(|&(_, output)| output == tensor);
        if !is_state && part.tensors[tensor].constant.is_none() && wishes[tensor].is_none() {
            wishes[tensor] = Some(part.inputs.len() + port);
        }
    }
    for node in part.nodes.iter().rev() {
        if !matches!(
            node.op,
            Op::Identity | Op::Reshape | Op::Flatten | Op::Squeeze | Op::Unsqueeze
        ) {
            continue;
        }
        if let (Some(x), Some(y)) = (node.input(0), node.output(0))
            && uses[x] == 1
            && wishes[x].is_none()
            && part.tensors[x].constant.is_none()
            && part.tensors[y].encoding.is_none()
        {
            wishes[x] = wishes[y];
        }
    }
    for &input in &part.inputs {
        wishes[input] = None;
    }
    wishes
}

/// Finishes a program.
pub(super) fn finish(mut l: Lowering<'_>) -> Result<Program> {
    let part = l.part;
    let mut ports = Vec::new();
    for &tensor in &part.inputs {
        let forms = &l.forms[tensor];
        let boxed = !l.is_known(tensor);
        let value = if boxed {
            forms.rows
        } else {
            // the value at the port is the first that was made of it
            let port = ports.len();
            l.values
                .iter()
                .position(
                    |value| matches!(l.storages[value.storage.0 as usize].home, Home::Port(p) if p == port),
                )
                .map(|index| ValueId(index as u32))
        };
        let value = value.ok_or_else(|| l.not_computed(tensor))?;
        ports.push(PortUse {
            value,
            boxed,
            packed: packed(part, tensor),
        });
    }
    let makers = part.producers();
    for (index, &tensor) in part.outputs.iter().enumerate() {
        l.node = makers[tensor].unwrap_or(0);
        let value = output(&mut l, part.inputs.len() + index, tensor)?;
        ports.push(value);
    }
    share(&mut l);
    let (arena_bytes, arena_bound) = place(&mut l)?;
    Ok(Program {
        values: l.values,
        storages: l.storages,
        steps: l.steps,
        arena_bytes,
        arena_bound,
        slots: l.slots,
        copies: l.copies,
        sections: l.sections,
        packed_len: l.packed_len,
        algorithms: l.algorithms,
        ports,
        boundless: part.nodes.iter().any(|node| !node.bodies.is_empty()),
    })
}

/// Adds the steps that bring the outputs to their ports, where that can be.
pub(super) fn draft(l: &mut Lowering<'_>) {
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

/// Brings a tensor to its output port.
fn output(l: &mut Lowering<'_>, port: usize, tensor: TensorIndex) -> Result<PortUse> {
    if !l.is_known(tensor) {
        return Ok(PortUse {
            value: l.rows(tensor)?,
            boxed: true,
            packed: packed(l.part, tensor),
        });
    }
    let t = &l.part.tensors[tensor];
    let value = if t.encoding.is_some() {
        l.stored(tensor)?
    } else if l.layouts[port] == Layout::ChannelsLast {
        l.channels(tensor)?
    } else {
        l.rows(tensor)?
    };
    let at = &l.values[value.0 as usize];
    if matches!(l.storages[at.storage.0 as usize].home, Home::Port(p) if p == port) && at.offset == 0 {
        return Ok(PortUse {
            value,
            boxed: false,
            packed: None,
        });
    }
    let (dtype, bytes) = (at.dtype, at.bytes);
    let dims = l.shape(tensor)?;
    let shape = if l.layouts[port] == Layout::ChannelsLast && t.encoding.is_none() {
        channels_last(dims)
    } else {
        dims.to_vec()
    };
    let storage = l.storage(bytes, Home::Port(port));
    let result = l.value(dtype, shape, bytes, storage);
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
        packed: None,
    })
}

/// First and last step that touches each storage.
fn lives(l: &Lowering<'_>) -> Vec<Option<(usize, usize)>> {
    let mut lives: Vec<Option<(usize, usize)>> = vec![None; l.storages.len()];
    for (index, step) in l.steps.iter().enumerate() {
        for &value in step.reads.iter().chain(&step.writes) {
            let storage = l.values[value.0 as usize].storage.0 as usize;
            let life = lives[storage].get_or_insert((index, index));
            life.1 = index;
        }
    }
    lives
}

/// Lets first results overwrite operands that nobody reads later.
fn share(l: &mut Lowering<'_>) {
    let mut lives = lives(l);
    // what a storage was merged into
    let mut merged: Vec<u32> = (0..l.storages.len() as u32).collect();
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
        let own = root(&merged, target.storage.0);
        let is_arena = |id: u32| matches!(l.storages[id as usize].home, Home::Arena(_));
        let is_fresh = lives[own as usize].is_some_and(|(first, _)| first == index);
        if !is_arena(own) || !is_fresh || target.bytes != l.storages[own as usize].bytes {
            continue;
        }
        let choice = step.may_share.iter().copied().find(|&read| {
            let operand = &l.values[step.reads[read].0 as usize];
            let id = root(&merged, operand.storage.0);
            let alone = step
                .reads
                .iter()
                .enumerate()
                .all(|(i, value)| i == read || root(&merged, l.values[value.0 as usize].storage.0) != id);
            is_arena(id)
                && alone
                && operand.offset == 0
                && operand.bytes == target.bytes
                && l.storages[id as usize].bytes == target.bytes
                && lives[id as usize].is_some_and(|(_, last)| last == index)
        });
        if let Some(read) = choice {
            let id = root(&merged, l.values[step.reads[read].0 as usize].storage.0);
            merged[own as usize] = id;
            let last = lives[own as usize].map_or(index, |(_, last)| last);
            if let Some(life) = &mut lives[id as usize] {
                life.1 = last;
            }
            l.steps[index].shared = Some(read);
        }
    }
    for value in &mut l.values {
        value.storage = StorageId(root(&merged, value.storage.0));
    }
}

/// Plans the arena: its size in bytes, and what that cannot go below.
fn place(l: &mut Lowering<'_>) -> Result<(usize, u64)> {
    let lives = lives(l);
    let mut storages = Vec::new();
    let mut pieces = Vec::new();
    for (index, (storage, life)) in l.storages.iter().zip(&lives).enumerate() {
        if let (Home::Arena(_), &Some((first, last))) = (&storage.home, life) {
            storages.push(index);
            pieces.push(Piece {
                bytes: storage.bytes as u64,
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
    for (storage, offset) in storages.into_iter().zip(offsets) {
        l.storages[storage].home = Home::Arena(offset as usize);
    }
    Ok((
        total as usize,
        arena::bound(&pieces, ALIGN as u64).unwrap_or(total),
    ))
}

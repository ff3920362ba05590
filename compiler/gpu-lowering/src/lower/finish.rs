//! The last passes of lowering: output ports, the lives of values, the arena.
//!
//! Invariants:
//! 1. An output port whose tensor is not computed in place is copied at the end of the run.
//! 2. A state's output is always copied at the end, because its port is also the input's memory.
//! 3. On a device behind a link an output that later steps read is computed in the arena, and copied once.

use polychip_lowering::{Layout, Outcome, Part, Refusal, Storage};
use polychip_ops::Op;
use polychip_sdk::arena::{self, Piece};
use polychip_sdk::{Port, Reason};

use super::builder::Lowering;
use crate::blob::Lowered;
use crate::program::{ALIGN, Home, Program, Value};

/// For each tensor the output port in whose memory it should be computed.
pub(super) fn wishes(l: &Lowering<'_>) -> Vec<Option<usize>> {
    let (part, target, layouts) = (l.part, l.target, &l.layouts);
    let mut wishes = vec![None; part.tensors.len()];
    let readers = part.readers();
    for (port, &tensor) in part.outputs.iter().enumerate() {
        let is_state = part.states.iter().any(|&(_, output)| output == tensor);
        let reads = |&reader: &usize| !l.deferrals.widens(part, reader);
        let stays = target.discrete && readers[tensor].iter().any(reads);
        if !is_state && !stays && !part.is_constant(tensor) && wishes[tensor].is_none() {
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
            && readers[x].len() == 1
            && !part.outputs.contains(&x)
            && !part.is_constant(x)
            && part.tensors[x].encoding == part.tensors[y].encoding
        {
            // another shape of the same elements lies as the port wants it in ONNX order only
            let fits = |&port: &usize| layouts[port] == Layout::RowMajor || part.dims(x) == part.dims(y);
            wishes[x] = wishes[y].filter(fits);
        }
    }
    for &input in &part.inputs {
        wishes[input] = None;
    }
    wishes
}

/// Finishes a program.
pub(super) fn finish(mut l: Lowering<'_>) -> Outcome<Lowered> {
    let part = l.part;
    l.node = part.nodes.last().map_or(0, |node| node.index);
    let inputs = part.inputs.len();
    let mut ports = Vec::with_capacity(inputs + part.outputs.len());
    for (index, &tensor) in part.outputs.iter().enumerate() {
        output(&mut l, inputs + index, tensor)?;
    }
    let port_values = l
        .ports
        .iter()
        .map(|value| {
            value
                .map(|value| value.0)
                .ok_or_else(|| Refusal::op("a port without a value"))
        })
        .collect::<Outcome<Vec<u32>>>()?;
    for (index, &tensor) in part.inputs.iter().chain(&part.outputs).enumerate() {
        let t = &part.tensors[tensor];
        let mut port = Port::dense(index >= inputs, t.dtype, l.dims(tensor)?)
            .map_err(|error| Refusal::new(Reason::DType, error.to_string()))?;
        if l.layouts[index] == Layout::ChannelsLast {
            port.layout = polychip_sdk::Layout::ChannelsLast;
        }
        port.encoding = t.encoding.clone();
        port.state_port = part.state_port(index);
        ports.push(port);
    }
    let arena_bytes = place(&mut l)?;
    Ok(Lowered {
        program: Program {
            kernels: l.kernels,
            values: l
                .values
                .iter()
                .map(|stored| Value {
                    home: stored.home,
                    bytes: stored.bytes,
                })
                .collect(),
            steps: l.steps,
            arena_bytes,
            ports: port_values,
        },
        constants: l.constants,
        ports,
    })
}

/// Brings a tensor to its output port.
fn output(l: &mut Lowering<'_>, port: usize, tensor: usize) -> Outcome<()> {
    // a constant as the app sees it, even where it is multiplied in less precision
    let kind = if l.part.is_constant(tensor) {
        Storage::Stored
    } else {
        l.outer_kind(tensor)
    };
    let layout = l.layouts[port];
    let dims = l.dims(tensor)?;
    if l.ports[port].is_none() {
        // the conversion that is made for this port may write it at once
        l.wishes[tensor] = l.wishes[tensor]
            .or(Some(port))
            .filter(|_| !part_state(l.part, tensor));
        let value = l.get(tensor, layout, kind)?;
        if l.ports[port] != Some(value) {
            if l.ports[port].is_some() {
                return Err(Refusal::op("an output computed twice"));
            }
            let scalar = l.stored_scalar(tensor)?;
            let target = l.value(Home::Port(port as u32, 0), scalar, &layout.dims(dims))?;
            l.ports[port] = Some(target);
            l.relayout(value, dims, layout, layout, target)?;
        }
    }
    Ok(())
}

fn part_state(part: &Part, tensor: usize) -> bool {
    part.states.iter().any(|&(_, output)| output == tensor)
}

/// Plans the arena: its size in bytes.
fn place(l: &mut Lowering<'_>) -> Outcome<u64> {
    let mut lives: Vec<Option<(usize, usize)>> = vec![None; l.values.len()];
    for (index, step) in l.steps.iter().enumerate() {
        for &value in &step.operands {
            // a view keeps its root alive
            let root = l.values[value as usize].root;
            let root = root.map_or(value as usize, |(root, _)| root.0 as usize);
            lives[root].get_or_insert((index, index)).1 = index;
        }
    }
    let mut indices = Vec::new();
    let mut lifetimes = Vec::new();
    for (index, (stored, life)) in l.values.iter().zip(&lives).enumerate() {
        if let (Home::Arena(_), &Some((first, last))) = (stored.home, life) {
            indices.push(index);
            lifetimes.push(Piece {
                bytes: stored.bytes.max(4),
                first,
                last,
            });
        }
    }
    let (offsets, total) = arena::plan(&lifetimes, ALIGN)
        .ok_or_else(|| Refusal::new(Reason::Memory, "the intermediate tensors do not fit memory"))?;
    for (index, offset) in indices.into_iter().zip(offsets) {
        l.values[index].home = Home::Arena(offset);
    }
    for index in 0..l.values.len() {
        if let (Home::Arena(_), Some((root, from))) = (l.values[index].home, l.values[index].root)
            && let Home::Arena(at) = l.values[root.0 as usize].home
        {
            l.values[index].home = Home::Arena(at + from);
        }
    }
    Ok(total)
}

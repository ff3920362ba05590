//! The memory of a slot: crossings in an arena, outputs, and copies between devices that share
//! none.
//!
//! Invariant: a tensor whose users all import host memory has one location; any other has a buffer
//! per device and explicit copies.

use std::collections::BTreeMap;
use std::sync::Arc;

use polychip_host::{Access, Buffer, Device, Memory, Submission};

use crate::error::{Error, ErrorKind, Result};
use crate::session::arena::{self, Resident};
use crate::session::copy::Copy;
use crate::session::run_state::RunState;
use crate::session::wiring::{Between, OutputSource, Wiring};
use crate::tensor::{DeviceBuffer, PlanMemory, TensorMemory, TensorSpec};

/// What the crossings and outputs of one slot occupy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Footprint {
    /// The shared arena, in bytes.
    pub(crate) arena_bytes: u64,
    /// The same tensors without sharing, in bytes.
    pub(crate) unshared_bytes: u64,
    /// Outputs of the model, in bytes.
    pub(crate) output_bytes: u64,
}

/// A buffer, and an offset in it.
type BufferRegion = (Arc<Buffer>, u64);

/// Makes a slot with everything bound but the graph inputs.
pub(crate) fn slot(wiring: &Wiring, devices: &[Device], plan: u64) -> Result<(RunState, Footprint)> {
    let mut submissions: Vec<Submission> = wiring
        .parts
        .iter()
        .map(|part| Submission::new(&part.executable, part.after_on_device.len()))
        .collect();
    let mut copies: Vec<Vec<Copy>> = wiring.parts.iter().map(|_| Vec::new()).collect();
    let mut outputs: Vec<Option<TensorMemory>> = wiring.outputs.iter().map(|_| None).collect();
    let mut footprint = Footprint::default();

    let (resident, alone): (Vec<&Between>, Vec<&Between>) = wiring.between.iter().partition(|tensor| {
        // caches are looked after for a dma-buf as a whole, which two parts that run at once would disturb
        let imported = users(wiring, tensor, devices)
            .iter()
            .all(|(_, device)| device.info().imports_memory() && !device.info().wants_dma_bufs());
        // guard bytes lie around memory, not inside it
        tensor.output.is_none() && imported && !polychip_host::buffers_are_guarded()
    });
    let residents: Vec<Resident> = resident
        .iter()
        .map(|tensor| Resident {
            bytes: tensor.bytes,
            alignment: std::iter::once(&tensor.writer)
                .chain(&tensor.readers)
                .map(|&(part, port)| wiring.parts[part].executable.ports()[port as usize].alignment)
                .max()
                .unwrap_or(1),
            writer: tensor.writer.0,
            readers: tensor.readers.iter().map(|(part, _)| *part).collect(),
        })
        .collect();
    let layout = arena::place(&residents, &wiring.after);
    footprint.arena_bytes = layout.bytes;
    footprint.unshared_bytes = residents.iter().map(|resident| resident.bytes).sum();
    let ports = |tensor: &Between| -> Vec<usize> {
        let readers = tensor.readers.iter().map(|(part, _)| *part);
        std::iter::once(tensor.writer.0).chain(readers).collect()
    };
    let sharers = resident
        .iter()
        .flat_map(|tensor| ports(tensor))
        .map(|part| devices[wiring.parts[part].device].info());
    let shared = Memory::for_devices(layout.bytes, sharers).map_err(no_memory)?;
    let mut arenas: BTreeMap<usize, Arc<Buffer>> = BTreeMap::new();
    for (tensor, offset) in resident.iter().zip(&layout.offsets) {
        let ports = std::iter::once(&tensor.writer).chain(&tensor.readers);
        for &(part, port) in ports {
            let index = wiring.parts[part].device;
            let buffer = match arenas.get(&index) {
                Some(buffer) => Arc::clone(buffer),
                None => {
                    let buffer = Arc::new(devices[index].import_buffer(&shared).map_err(no_memory)?);
                    Arc::clone(arenas.entry(index).or_insert(buffer))
                }
            };
            bind(wiring, &mut submissions, part, port, &(buffer, *offset))?;
        }
    }
    for tensor in alone {
        let spec = spec_of(wiring, tensor);
        let memory = TensorMemory::new(&spec, false, plan, &users(wiring, tensor, devices))?;
        let bound = memory.bound();
        for &(part, port) in std::iter::once(&tensor.writer).chain(&tensor.readers) {
            let buffer = bound
                .buffer(wiring.parts[part].device)
                .expect("invariant: every user has a buffer");
            bind(wiring, &mut submissions, part, port, &(Arc::clone(buffer), 0))?;
        }
        let writer = wiring.parts[tensor.writer.0].device;
        copies[tensor.writer.0].extend(copies_from(
            wiring,
            &bound,
            memory.bytes,
            writer,
            tensor.output,
            devices,
        ));
        if let Some(output) = tensor.output {
            footprint.output_bytes += tensor.bytes;
            outputs[output] = Some(memory);
        }
    }
    for (index, output) in wiring.outputs.iter().enumerate() {
        if let OutputSource::Input(_) = output.source {
            // no device is needed to hand an input through
            outputs[index] = Some(TensorMemory::new(&output.spec, true, plan, &[])?);
            footprint.output_bytes += output.spec.bytes;
        }
    }
    Ok((RunState::new(submissions, outputs, copies, wiring), footprint))
}

/// Writes an output that is an input handed through: an explicit copy, because the app may write the
/// input again while it reads the output.
pub(crate) fn hand_through(input: &TensorMemory, output: &TensorMemory) -> Result<()> {
    let source = input.read_input()?;
    output.access(Access::Write)?.copy_from_slice(&source);
    Ok(())
}

/// Memory for an output that the app binds itself.
pub(crate) fn output(
    wiring: &Wiring,
    index: usize,
    plan: u64,
    users: &[(usize, Device)],
) -> Result<TensorMemory> {
    let tensor = written(wiring, index).ok_or_else(|| unwritten(wiring, index))?;
    TensorMemory::new(&spec_of(wiring, tensor), false, plan, users)
}

/// That an output has no memory of its own that a run could write.
pub(crate) fn unwritten(wiring: &Wiring, index: usize) -> Error {
    let words = format!(
        "output {:?} is a constant, an input or a duplicate of another output, so no run writes it",
        wiring.outputs[index].spec.name
    );
    Error::new(ErrorKind::BadInput, words)
}

/// Gives an output of a slot memory for `bytes` bytes, which are more than a run was known to take.
pub(crate) fn grow_output(
    wiring: &Wiring,
    slot: &mut RunState,
    index: usize,
    bytes: u64,
    devices: &[Device],
    plan: u64,
) -> Result<()> {
    let Some(tensor) = written(wiring, index) else {
        return Ok(());
    };
    let spec = TensorSpec {
        // so that a few more elements need not grow it again
        bytes: bytes.checked_next_power_of_two().unwrap_or(bytes),
        ..spec_of(wiring, tensor)
    };
    let memory = TensorMemory::new(&spec, false, plan, &users(wiring, tensor, devices))?;
    bind_output(wiring, slot, index, &memory, devices)?;
    slot.outputs[index] = Some(memory);
    Ok(())
}

/// The tensor of an output that a part writes.
fn written(wiring: &Wiring, index: usize) -> Option<&Between> {
    let between = wiring.between.iter().find(|tensor| tensor.output == Some(index));
    between.filter(|_| matches!(wiring.outputs[index].source, OutputSource::Part(..)))
}

/// The devices of a plan that use an output.
pub(crate) fn output_users(wiring: &Wiring, index: usize, devices: &[Device]) -> Vec<(usize, Device)> {
    written(wiring, index).map_or_else(Vec::new, |tensor| users(wiring, tensor, devices))
}

/// The devices of a plan that read an input.
pub(crate) fn input_users(wiring: &Wiring, index: usize, devices: &[Device]) -> Vec<(usize, Device)> {
    let readers = wiring.inputs[index].readers.iter().map(|(part, _)| *part);
    wiring.devices_of(readers, devices)
}

/// The devices of a plan that read an input and write or read the output that becomes it.
pub(crate) fn state_users(
    wiring: &Wiring,
    input: usize,
    output: usize,
    devices: &[Device],
) -> Result<Vec<(usize, Device)>> {
    let readers = wiring.inputs[input].readers.iter().map(|(part, _)| *part);
    let tensor = written(wiring, output).ok_or_else(|| {
        let words = format!(
            "output {:?} is a constant or an input and cannot be a state",
            wiring.outputs[output].spec.name
        );
        Error::new(ErrorKind::BadInput, words)
    })?;
    let ports = std::iter::once(tensor.writer.0).chain(tensor.readers.iter().map(|(part, _)| *part));
    let users = wiring.devices_of(readers.chain(ports), devices);
    match users.iter().find(|(_, device)| !device.info().imports_memory()) {
        None => Ok(users),
        Some((_, device)) => {
            let words = format!(
                "state {:?} cannot be used in place: {} shares no memory with the host",
                wiring.inputs[input].spec.name,
                device.name()
            );
            Err(Error::new(ErrorKind::BadInput, words))
        }
    }
}

/// Binds an output's memory to the parts that write and read it.
pub(crate) fn bind_output(
    wiring: &Wiring,
    slot: &mut RunState,
    index: usize,
    memory: &TensorMemory,
    devices: &[Device],
) -> Result<()> {
    let Some(tensor) = wiring.between.iter().find(|tensor| tensor.output == Some(index)) else {
        return Ok(());
    };
    let bound = memory.bound();
    for &(part, port) in std::iter::once(&tensor.writer).chain(&tensor.readers) {
        let buffer = bound
            .buffer(wiring.parts[part].device)
            .expect("invariant: every user has a buffer");
        let submission = &mut slot.submissions[part];
        let bind = if memory.bytes > tensor.bytes {
            submission.bind_whole(port, buffer)
        } else {
            submission.bind(port, buffer, 0)
        };
        bind.map_err(|error| wiring.parts[part].failed(error))?;
    }
    // copies name buffers, so another output needs others; where none are needed nothing is allocated
    let writer = wiring.parts[tensor.writer.0].device;
    let copies = &mut slot.copies[tensor.writer.0];
    copies.retain(|copy| copy.output != Some(index));
    copies.extend(copies_from(
        wiring,
        &bound,
        memory.bytes,
        writer,
        Some(index),
        devices,
    ));
    Ok(())
}

/// Copies of a tensor from the device that wrote it to those that share no memory with it.
fn copies_from(
    wiring: &Wiring,
    memory: &PlanMemory,
    bytes: u64,
    writer: usize,
    output: Option<usize>,
    devices: &[Device],
) -> Vec<Copy> {
    let imports = |index: usize| devices[index].info().imports_memory();
    let Some(from) = memory.buffer(writer) else {
        return Vec::new();
    };
    let mut shared_done = imports(writer);
    let mut copies = Vec::new();
    for DeviceBuffer { device, buffer, .. } in memory.buffers() {
        let reached = *device == writer || (imports(*device) && shared_done);
        if !reached {
            shared_done |= imports(*device);
            copies.push(Copy {
                output,
                from: (Arc::clone(from), 0),
                to: (Arc::clone(buffer), 0),
                bytes,
                counter: Arc::clone(&wiring.copied),
            });
        }
    }
    copies
}

fn users(wiring: &Wiring, tensor: &Between, devices: &[Device]) -> Vec<(usize, Device)> {
    let parts = std::iter::once(tensor.writer.0).chain(tensor.readers.iter().map(|(part, _)| *part));
    wiring.devices_of(parts, devices)
}

fn spec_of(wiring: &Wiring, tensor: &Between) -> TensorSpec {
    let port = &wiring.parts[tensor.writer.0].executable.ports()[tensor.writer.1 as usize];
    TensorSpec {
        name: tensor.output.map_or_else(
            || format!("#{}", tensor.tensor.index()),
            |i| wiring.outputs[i].spec.name.clone(),
        ),
        dtype: port.dtype,
        shape: port
            .dims
            .iter()
            .map(|dim| usize::try_from(*dim).unwrap_or(0))
            .collect(),
        open: Vec::new(),
        any_rank: false,
        upper_bound: port.upper_bound,
        packed: false,
        bytes: port.bytes,
    }
}

fn bind(
    wiring: &Wiring,
    submissions: &mut [Submission],
    part: usize,
    port: u32,
    place: &BufferRegion,
) -> Result<()> {
    submissions[part]
        .bind(port, &place.0, place.1)
        .map_err(|error| wiring.parts[part].failed(error))
}

fn no_memory(error: polychip_host::Error) -> Error {
    let kind = match error.kind() {
        polychip_host::ErrorKind::DeviceLost => ErrorKind::DeviceLost,
        _ => ErrorKind::DeviceFailed,
    };
    Error::caused(kind, "memory of a run", error)
}

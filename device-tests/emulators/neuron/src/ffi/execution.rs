//! Executions and shared memory as C sees them.
//!
//! Invariant: only memory that the client passed is accessed.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::sync::{Arc, Mutex};

use polychip_emulator_chip::table::Width;
use polychip_sys::neuron::bindings as sys;
use serde_json::json;

use super::{give, guard, handle, number};
use crate::code::{Code, Result};
use crate::trace;
use crate::world::{self, COMPILATIONS, EXECUTIONS, Execution, MEMORIES, Memory, Place, lock};

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronExecution_create(
    compilation: *mut sys::NeuronCompilation,
    out: *mut *mut sys::NeuronExecution,
) -> c_int {
    guard(|| {
        let object = COMPILATIONS.get(number(compilation))?;
        let compilation = lock(&object);
        let program = compilation.program.clone().ok_or(Code::BAD_STATE)?;
        if out.is_null() {
            return Err(Code::NULL);
        }
        let model = compilation.model.clone();
        let at = EXECUTIONS.add(Mutex::new(Execution {
            program,
            inputs: vec![None; model.inputs.len()],
            outputs: vec![None; model.outputs.len()],
            model: Arc::new(model),
            boost: 100,
        }));
        // SAFETY: the client's place; null was checked.
        unsafe { give(out, handle(at)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronExecution_free(at: *mut sys::NeuronExecution) {
    guard(|| {
        EXECUTIONS.free(number(at));
        Ok(())
    });
}

/// Binds memory to a port. It must be at least as large as the port's elements.
fn bind(at: *mut sys::NeuronExecution, output: bool, index: i64, place: Place) -> c_int {
    guard(|| {
        let object = EXECUTIONS.get(number(at))?;
        let mut execution = lock(&object);
        let index = usize::try_from(index).map_err(|_| Code::BAD_DATA)?;
        let ports = if output {
            &execution.model.outputs
        } else {
            &execution.model.inputs
        };
        let id = *ports.get(index).ok_or(Code::BAD_DATA)?;
        let needed = execution.model.operand(id)?.bytes().ok_or(Code::BAD_DATA)?;
        let given = match &place {
            Place::Address(_, bytes) => *bytes,
            Place::Memory(memory, offset, bytes) => {
                if offset.checked_add(*bytes).is_none_or(|end| end > memory.bytes) {
                    return Err(Code::BAD_DATA);
                }
                *bytes
            }
        };
        if given < needed {
            return Err(if output { Code::TOO_SMALL } else { Code::BAD_DATA });
        }
        let bound = if output {
            &mut execution.outputs
        } else {
            &mut execution.inputs
        };
        bound[index] = Some(place);
        Ok(())
    })
}

fn address(buffer: *const c_void, length: usize) -> Result<Place> {
    if buffer.is_null() {
        return Err(Code::NULL);
    }
    Ok(Place::Address(buffer.expose_provenance(), length))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronExecution_setInput(
    at: *mut sys::NeuronExecution,
    index: i32,
    _ty: *const sys::NeuronOperandType,
    buffer: *const c_void,
    length: usize,
) -> c_int {
    match address(buffer, length) {
        Ok(place) => bind(at, false, index.into(), place),
        Err(code) => code.0,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronExecution_setOutput(
    at: *mut sys::NeuronExecution,
    index: i32,
    _ty: *const sys::NeuronOperandType,
    buffer: *mut c_void,
    length: usize,
) -> c_int {
    match address(buffer, length) {
        Ok(place) => bind(at, true, index.into(), place),
        Err(code) => code.0,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronExecution_setInputFromMemory(
    at: *mut sys::NeuronExecution,
    index: u32,
    _ty: *const sys::NeuronOperandType,
    memory: *const sys::NeuronMemory,
    offset: usize,
    length: usize,
) -> c_int {
    match MEMORIES.get(number(memory)) {
        Ok(memory) => bind(at, false, index.into(), Place::Memory(memory, offset, length)),
        Err(code) => code.0,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronExecution_setOutputFromMemory(
    at: *mut sys::NeuronExecution,
    index: u32,
    _ty: *const sys::NeuronOperandType,
    memory: *const sys::NeuronMemory,
    offset: usize,
    length: usize,
) -> c_int {
    match MEMORIES.get(number(memory)) {
        Ok(memory) => bind(at, true, index.into(), Place::Memory(memory, offset, length)),
        Err(code) => code.0,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronExecution_setBoostHint(at: *mut sys::NeuronExecution, boost: u8) -> c_int {
    guard(|| {
        let object = EXECUTIONS.get(number(at))?;
        if boost > 100 {
            return Err(Code::BAD_DATA);
        }
        trace::write(|| json!({"call": "NeuronExecution_setBoostHint", "value": boost}));
        lock(&object).boost = boost;
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronExecution_setConfig(
    at: *mut sys::NeuronExecution,
    _key: *const c_char,
    _value: *const c_char,
) -> c_int {
    guard(|| EXECUTIONS.get(number(at)).map(drop))
}

/// The bytes of a place, copied.
fn read(place: &Place, bytes: usize) -> Vec<u8> {
    let from = match place {
        Place::Address(at, _) => std::ptr::with_exposed_provenance::<u8>(*at),
        Place::Memory(memory, offset, _) => memory.map.as_ptr().wrapping_add(*offset),
    };
    let mut copy = vec![0u8; bytes];
    // SAFETY: bound with as many bytes at least; the client keeps them until the run has ended.
    unsafe { std::ptr::copy_nonoverlapping(from, copy.as_mut_ptr(), bytes) };
    copy
}

fn write(place: &Place, bytes: &[u8]) {
    let to = match place {
        Place::Address(at, _) => std::ptr::with_exposed_provenance_mut::<u8>(*at),
        Place::Memory(memory, offset, _) => memory.map.as_mut_ptr().wrapping_add(*offset),
    };
    // SAFETY: as in `read`; the client gives exclusive access to it.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronExecution_compute(at: *mut sys::NeuronExecution) -> c_int {
    guard(|| {
        let object = EXECUTIONS.get(number(at))?;
        let (program, model, inputs, outputs, boost) = {
            let run = lock(&object);
            let all = |places: &[Option<Place>]| places.iter().cloned().collect::<Option<Vec<Place>>>();
            let (inputs, outputs) = (all(&run.inputs), all(&run.outputs));
            let (inputs, outputs) = (inputs.ok_or(Code::BAD_STATE)?, outputs.ok_or(Code::BAD_STATE)?);
            (
                Arc::clone(&run.program),
                Arc::clone(&run.model),
                inputs,
                outputs,
                run.boost,
            )
        };
        world::alive()?;
        let half = world::fault("compute", Some(&model))?;
        // freed while it hung: its buffers may be gone
        if EXECUTIONS.get(number(at)).is_err() {
            return Err(Code::DEAD);
        }
        let read: Vec<Vec<u8>> = inputs
            .iter()
            .zip(program.inputs())
            .map(|(place, spec)| read(place, spec.bytes()))
            .collect();
        let slices: Vec<&[u8]> = read.iter().map(Vec::as_slice).collect();
        let (results, work) = program.run(&slices).map_err(|why| {
            eprintln!("emulated libneuron_adapter: {why}");
            Code::OP_FAILED
        })?;
        for (place, bytes) in outputs.iter().zip(&results) {
            write(place, if half { &bytes[..bytes.len() / 2] } else { bytes });
        }
        let width = match model.operand(model.inputs[0])?.ty {
            sys::NEURON_TENSOR_FLOAT32 if !model.relaxed => Width::Bits32,
            sys::NEURON_TENSOR_FLOAT32 | sys::NEURON_TENSOR_FLOAT16 => Width::Bits16,
            _ => Width::Bits8,
        };
        let chip = &*world::CHIP;
        let spent = lock(&world::HEAT).run(chip, work, width);
        let temperature = lock(&world::HEAT).mc(chip);
        trace::write(|| {
            json!({"call": "NeuronExecution_compute", "boost": boost, "emulated": {"ns": spent.ns, "nj": spent.nj,
                   "mc": temperature, "macs": work.macs, "bytes": work.bytes}})
        });
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronMemory_createFromFd(
    size: usize,
    protect: c_int,
    fd: c_int,
    offset: usize,
    out: *mut *mut sys::NeuronMemory,
) -> c_int {
    guard(|| {
        if out.is_null() {
            return Err(Code::NULL);
        }
        if size == 0 || fd < 0 || protect & !3 != 0 {
            return Err(Code::BAD_DATA);
        }
        world::fault("memory", None)?;
        let map = memmap2::MmapOptions::new()
            .offset(offset as u64)
            .len(size)
            .map_raw(fd);
        let map = map.map_err(|_| Code::UNMAPPABLE)?;
        trace::write(|| json!({"call": "NeuronMemory_createFromFd", "bytes": size, "offset": offset}));
        let at = MEMORIES.add(Memory { map, bytes: size });
        // SAFETY: the client's place; null was checked.
        unsafe { give(out, handle(at)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronMemory_createFromAHardwareBuffer(
    _buffer: *const sys::AHardwareBuffer,
    _out: *mut *mut sys::NeuronMemory,
) -> c_int {
    // as the vendor's library where the system is not Android
    Code::BAD_STATE.0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronMemory_free(at: *mut sys::NeuronMemory) {
    guard(|| {
        MEMORIES.free(number(at));
        Ok(())
    });
}

#[cfg(test)]
mod tests {
    use super::super::list;
    use super::*;

    #[test]
    fn null_lists_are_refused_and_empty_ones_are_not() {
        // SAFETY: null, and nothing is read of it.
        let (empty, null) = unsafe { (list::<u8>(std::ptr::null(), 0), list::<u8>(std::ptr::null(), 3)) };
        assert!(empty.is_ok_and(<[u8]>::is_empty));
        assert_eq!(null, Err(Code::NULL));
    }
}

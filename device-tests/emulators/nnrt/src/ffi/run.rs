//! Executors and tensors over shared memory as C sees them.
//!
//! Invariant: only memory that the client passed is accessed.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::Arc;

use polychip_emulator_chip::table::Width;
use polychip_sys::nnrt::bindings as sys;

use super::{elements, end, give, guard, object};
use crate::code::{Code, Result};
use crate::world::{
    self, Built, COMPILATIONS, DESCRIPTIONS, DEVICES, EXECUTORS, Mapped, TENSORS, fault, lock,
};

const PAGE: usize = 4096;

#[unsafe(no_mangle)]
extern "C" fn OH_NNTensor_CreateWithFd(
    id: usize,
    desc: *mut sys::NN_TensorDesc,
    fd: c_int,
    bytes: usize,
    offset: usize,
) -> *mut sys::NN_Tensor {
    object(|| {
        let tensor = lock(&*DESCRIPTIONS.get(desc.addr())?).clone();
        let wanted = tensor.bytes().ok_or(Code::INVALID)?;
        let fits = offset.checked_add(wanted).is_some_and(|end| end <= bytes);
        if !DEVICES.contains(&id) || fd < 0 || !fits {
            return Err(Code::INVALID);
        }
        // the runtime maps from the offset on, which a system does at pages only
        if !offset.is_multiple_of(PAGE) {
            return Err(Code::FAILED);
        }
        fault("tensor", &[])?;
        let map = memmap2::MmapOptions::new().len(bytes).map_raw(fd);
        let map = map.map_err(|_| Code::FAILED)?;
        Ok(TENSORS.add(Mapped { tensor, map, offset }))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn OH_NNTensor_Destroy(place: *mut *mut sys::NN_Tensor) -> c_int {
    // SAFETY: the client's place or null.
    guard(|| unsafe { end(place, |handle| TENSORS.end(handle)) })
}

#[unsafe(no_mangle)]
extern "C" fn OH_NNExecutor_Construct(compilation: *mut sys::OH_NNCompilation) -> *mut sys::OH_NNExecutor {
    object(|| {
        let built = lock(&*COMPILATIONS.get(compilation.addr())?).built.clone();
        Ok(EXECUTORS.add(built.ok_or(Code::FORBIDDEN)?))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn OH_NNExecutor_Destroy(place: *mut *mut sys::OH_NNExecutor) {
    // SAFETY: the client's place or null.
    guard(|| unsafe { end(place, |handle| EXECUTORS.end(handle)) });
}

fn built(executor: *const sys::OH_NNExecutor) -> Result<Arc<Built>> {
    EXECUTORS.get(executor.addr()).map(|built| Arc::clone(&*built))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn OH_NNExecutor_GetInputCount(
    executor: *const sys::OH_NNExecutor,
    count: *mut usize,
) -> c_int {
    // SAFETY: the client's place or null.
    guard(|| unsafe { give(count, built(executor)?.model.inputs.len()) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn OH_NNExecutor_GetOutputCount(
    executor: *const sys::OH_NNExecutor,
    count: *mut usize,
) -> c_int {
    // SAFETY: as above.
    guard(|| unsafe { give(count, built(executor)?.model.outputs.len()) })
}

/// The tensors that a client gives for ports: of their types and sizes.
///
/// # Safety
/// `list` is null or holds `count` handles.
unsafe fn bound(
    list: *mut *mut sys::NN_Tensor,
    count: usize,
    built: &Built,
    ports: &[u32],
) -> Result<Vec<Arc<Mapped>>> {
    // SAFETY: the caller vouches for it.
    let handles = unsafe { elements(list.cast_const(), count) }?;
    if handles.len() != ports.len() {
        return Err(Code::INVALID);
    }
    let tensors = handles.iter().zip(ports).map(|(handle, &port)| {
        let mapped = TENSORS.get(handle.addr())?;
        let wanted = built.model.tensor(port)?;
        if mapped.tensor.ty == wanted.ty && mapped.tensor.dims == wanted.dims {
            Ok(mapped)
        } else {
            Err(Code::INVALID)
        }
    });
    tensors.collect()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn OH_NNExecutor_RunSync(
    executor: *mut sys::OH_NNExecutor,
    inputs: *mut *mut sys::NN_Tensor,
    input_count: usize,
    outputs: *mut *mut sys::NN_Tensor,
    output_count: usize,
) -> c_int {
    guard(|| {
        let built = built(executor)?;
        // SAFETY: the client's lists.
        let inputs = unsafe { bound(inputs, input_count, &built, &built.model.inputs) }?;
        // SAFETY: as above.
        let outputs = unsafe { bound(outputs, output_count, &built, &built.model.outputs) }?;
        world::alive()?;
        let codes: Vec<u32> = built
            .model
            .operations
            .iter()
            .map(|operation| operation.code)
            .collect();
        let half = fault("run", &codes)?;
        let read: Vec<Vec<u8>> = inputs
            .iter()
            .map(|mapped| {
                let mut copy = vec![0u8; mapped.tensor.bytes().unwrap_or(0)];
                let from = mapped.map.as_ptr().wrapping_add(mapped.offset);
                // SAFETY: inside the mapping, as was checked when the tensor was made.
                unsafe { std::ptr::copy_nonoverlapping(from, copy.as_mut_ptr(), copy.len()) };
                copy
            })
            .collect();
        let slices: Vec<&[u8]> = read.iter().map(Vec::as_slice).collect();
        let (results, work) = built.program.run(&slices).map_err(|why| {
            eprintln!("emulated libneural_network_runtime: {why}");
            Code::FAILED
        })?;
        for (mapped, bytes) in outputs.iter().zip(&results) {
            let bytes = if half { &bytes[..bytes.len() / 2] } else { bytes };
            let to = mapped.map.as_mut_ptr().wrapping_add(mapped.offset);
            // SAFETY: as above; results have the sizes of their tensors.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        }
        let width = match built.model.tensor(built.model.inputs[0])?.ty {
            sys::OH_NN_FLOAT32 if !built.model.reduced => Width::Bits32,
            _ => Width::Bits16,
        };
        lock(&world::HEAT).run(&world::CHIP, work, width);
        Ok(())
    })
}

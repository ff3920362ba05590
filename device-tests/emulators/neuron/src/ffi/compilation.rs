//! Compilations as C sees them.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Arc, Mutex};

use polychip_sys::neuron::bindings as sys;
use serde_json::json;

use super::{give, guard, handle, number};
use crate::code::{Code, Result};
use crate::model;
use crate::trace;
use crate::world::{self, COMPILATIONS, Compilation, MODELS, lock};

fn with(at: *const sys::NeuronCompilation, call: impl FnOnce(&mut Compilation) -> Result<()>) -> c_int {
    guard(|| call(&mut lock(&*COMPILATIONS.get(number(at))?)))
}

/// As [`with`]; fails if the compilation is finished.
fn open(at: *const sys::NeuronCompilation, call: impl FnOnce(&mut Compilation) -> Result<()>) -> c_int {
    with(at, |compilation| match compilation.program {
        Some(_) => Err(Code::BAD_STATE),
        None => call(compilation),
    })
}

/// As [`with`]; fails unless the compilation is finished.
fn closed(at: *const sys::NeuronCompilation, call: impl FnOnce(&mut Compilation) -> Result<()>) -> c_int {
    with(at, |compilation| match compilation.program {
        Some(_) => call(compilation),
        None => Err(Code::BAD_STATE),
    })
}

/// Records a setting in the trace; it has no other effect.
fn set(at: *const sys::NeuronCompilation, call: &str, value: i64) -> c_int {
    open(at, |_| {
        trace::write(|| json!({"call": call, "value": value}));
        Ok(())
    })
}

fn create(
    model: *mut sys::NeuronModel,
    out: *mut *mut sys::NeuronCompilation,
    options: Option<&str>,
) -> Result<()> {
    if out.is_null() {
        return Err(Code::NULL);
    }
    let of = number(model);
    let model = lock(&*MODELS.get(of)?).clone();
    if !model.finished {
        return Err(Code::BAD_STATE);
    }
    trace::write(|| json!({"call": "NeuronCompilation_create", "model": of, "options": options}));
    let compilation = Compilation {
        of,
        model,
        ..Compilation::default()
    };
    let at = COMPILATIONS.add(Mutex::new(compilation));
    // SAFETY: the client's place; null was checked.
    unsafe { give(out, handle(at)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronCompilation_create(
    model: *mut sys::NeuronModel,
    out: *mut *mut sys::NeuronCompilation,
) -> c_int {
    guard(|| create(model, out, None))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronCompilation_createWithOptions(
    model: *mut sys::NeuronModel,
    out: *mut *mut sys::NeuronCompilation,
    options: *const c_char,
) -> c_int {
    guard(|| {
        if options.is_null() {
            return Err(Code::NULL);
        }
        // SAFETY: the client's text ends with a zero byte.
        let options = unsafe { CStr::from_ptr(options) };
        create(model, out, Some(&options.to_string_lossy()))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronCompilation_free(at: *mut sys::NeuronCompilation) {
    guard(|| {
        COMPILATIONS.free(number(at));
        Ok(())
    });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronCompilation_setPreference(at: *mut sys::NeuronCompilation, value: i32) -> c_int {
    match value {
        0..=3 => set(at, "NeuronCompilation_setPreference", value.into()),
        _ => open(at, |_| Err(Code::BAD_DATA)),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronCompilation_setPriority(at: *mut sys::NeuronCompilation, value: c_int) -> c_int {
    match value {
        90 | 100 | 110 => set(at, "NeuronCompilation_setPriority", value.into()),
        _ => open(at, |_| Err(Code::BAD_DATA)),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronCompilation_setOptimizationHint(
    at: *mut sys::NeuronCompilation,
    value: u32,
) -> c_int {
    match value {
        0..=7 => set(at, "NeuronCompilation_setOptimizationHint", value.into()),
        _ => open(at, |_| Err(Code::BAD_DATA)),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronCompilation_setL1MemorySizeKb(
    at: *mut sys::NeuronCompilation,
    value: u32,
) -> c_int {
    set(at, "NeuronCompilation_setL1MemorySizeKb", value.into())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronCompilation_setOptimizationString(
    at: *mut sys::NeuronCompilation,
    text: *const c_char,
) -> c_int {
    open(at, |_| {
        if text.is_null() {
            return Err(Code::NULL);
        }
        // SAFETY: the client's text ends with a zero byte.
        let text = unsafe { CStr::from_ptr(text) };
        let call = "NeuronCompilation_setOptimizationString";
        trace::write(|| json!({"call": call, "value": text.to_string_lossy()}));
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronCompilation_getSupportedOperations(
    at: *mut sys::NeuronCompilation,
    count: u32,
    supported: *mut bool,
) -> c_int {
    open(at, |compilation| {
        if supported.is_null() {
            return Err(Code::NULL);
        }
        let model = &compilation.model;
        if count as usize != model.operations.len() {
            return Err(Code::BAD_DATA);
        }
        let mut answers = Vec::new();
        for operation in &model.operations {
            let alone = model::Model {
                operations: vec![operation.clone()],
                ..model::Model::default()
            };
            // a fault at this call is a no to the operation that it names
            let denied = world::fault("supported", Some(&alone)).is_err();
            answers.push(!denied && crate::lower::supports(model, operation));
        }
        trace::write(|| json!({"call": "NeuronCompilation_getSupportedOperations", "answers": answers}));
        for (place, answer) in answers.into_iter().enumerate() {
            // SAFETY: as many places as operations.
            unsafe { supported.add(place).write(answer) };
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronCompilation_finish(at: *mut sys::NeuronCompilation) -> c_int {
    guard(|| {
        let object = COMPILATIONS.get(number(at))?;
        let model = {
            let compilation = lock(&object);
            if compilation.program.is_some() {
                return Err(Code::BAD_STATE);
            }
            compilation.model.clone()
        };
        trace::write(|| json!({"call": "NeuronCompilation_finish"}));
        world::fault("finish", Some(&model))?;
        world::revive();
        // the vendor's host library says yes to such an operation and fails here
        let whole = |operation: &model::Operation| {
            operation.code == sys::NEURON_RESHAPE
                && model.operands[operation.inputs[0] as usize].ty == sys::NEURON_TENSOR_INT32
        };
        if model.operations.iter().any(whole) {
            return Err(Code::UNMAPPABLE);
        }
        let program = crate::lower::program(&model).map_err(|why| {
            eprintln!("emulated libneuron_adapter: {why}");
            Code::OP_FAILED
        })?;
        let network = model::write(&model)?;
        let mut compilation = lock(&object);
        compilation.program = Some(Arc::new(program));
        compilation.network = Some(network.into());
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronCompilation_getCompiledNetworkSize(
    at: *mut sys::NeuronCompilation,
    size: *mut usize,
) -> c_int {
    closed(at, |compilation| {
        let bytes = compilation.network.as_ref().map_or(0, |network| network.len());
        trace::write(|| json!({"call": "NeuronCompilation_getCompiledNetworkSize", "bytes": bytes}));
        // SAFETY: the client's place, or null.
        unsafe { give(size, bytes) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronCompilation_storeCompiledNetwork(
    at: *mut sys::NeuronCompilation,
    buffer: *mut c_void,
    size: usize,
) -> c_int {
    closed(at, |compilation| {
        let network = compilation.network.as_ref().ok_or(Code::BAD_STATE)?;
        if buffer.is_null() {
            return Err(Code::NULL);
        }
        if size < network.len() {
            return Err(Code::TOO_SMALL);
        }
        let of = compilation.of;
        trace::write(
            || json!({"call": "NeuronCompilation_storeCompiledNetwork", "model": of, "bytes": size}),
        );
        // SAFETY: the client's place of so many bytes.
        unsafe { std::ptr::copy_nonoverlapping(network.as_ptr(), buffer.cast(), network.len()) };
        Ok(())
    })
}

/// Bytes of a port.
fn port(compilation: &Compilation, ports: &[u32], index: i32) -> Result<usize> {
    let index = usize::try_from(index).map_err(|_| Code::BAD_DATA)?;
    let id = *ports.get(index).ok_or(Code::BAD_DATA)?;
    compilation.model.operand(id)?.bytes().ok_or(Code::BAD_DATA)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronCompilation_getInputPaddedSize(
    at: *mut sys::NeuronCompilation,
    index: i32,
    size: *mut usize,
) -> c_int {
    closed(at, |compilation| {
        let bytes = port(compilation, &compilation.model.inputs, index)?;
        // SAFETY: the client's place, or null.
        unsafe { give(size, bytes) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronCompilation_getOutputPaddedSize(
    at: *mut sys::NeuronCompilation,
    index: i32,
    size: *mut usize,
) -> c_int {
    closed(at, |compilation| {
        let bytes = port(compilation, &compilation.model.outputs, index)?;
        // SAFETY: the client's place, or null.
        unsafe { give(size, bytes) }
    })
}

fn padded(compilation: &Compilation, ports: &[u32], index: i32, dims: *mut u32) -> Result<()> {
    port(compilation, ports, index)?;
    let operand = compilation.model.operand(ports[index as usize])?;
    for (place, &dim) in operand.dims.iter().enumerate() {
        // SAFETY: the client's place has as many extents as the port.
        unsafe { give(dims.wrapping_add(place), dim) }?;
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronCompilation_getInputPaddedDimensions(
    at: *mut sys::NeuronCompilation,
    index: i32,
    dims: *mut u32,
) -> c_int {
    closed(at, |compilation| {
        padded(compilation, &compilation.model.inputs, index, dims)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronCompilation_getOutputPaddedDimensions(
    at: *mut sys::NeuronCompilation,
    index: i32,
    dims: *mut u32,
) -> c_int {
    closed(at, |compilation| {
        padded(compilation, &compilation.model.outputs, index, dims)
    })
}

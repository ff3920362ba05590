//! Models as C sees them.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::sync::Mutex;

use polychip_sys::neuron::bindings as sys;
use serde_json::json;

use super::{give, guard, handle, list, number};
use crate::code::{Code, Result};
use crate::model::{self, Model, Operand, Operation};
use crate::trace;
use crate::world::{self, COMPILATIONS, Compilation, MODELS, lock};

fn with(at: *const sys::NeuronModel, call: impl FnOnce(&mut Model) -> Result<()>) -> c_int {
    guard(|| call(&mut lock(&*MODELS.get(number(at))?)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronModel_create(out: *mut *mut sys::NeuronModel) -> c_int {
    guard(|| {
        if out.is_null() {
            return Err(Code::NULL);
        }
        world::fault("model", None)?;
        let at = MODELS.add(Mutex::default());
        trace::write(|| json!({"call": "NeuronModel_create", "model": at}));
        // SAFETY: the client's place; null was checked.
        unsafe { give(out, handle(at)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronModel_free(at: *mut sys::NeuronModel) {
    guard(|| {
        MODELS.free(number(at));
        Ok(())
    });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronModel_setName(at: *mut sys::NeuronModel, _name: *const c_char) -> c_int {
    with(at, |_| Ok(()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronModel_addOperand(
    at: *mut sys::NeuronModel,
    ty: *const sys::NeuronOperandType,
) -> c_int {
    with(at, |model| {
        // SAFETY: the client's type, or null.
        let ty = unsafe { ty.as_ref() }.ok_or(Code::NULL)?;
        // SAFETY: as many extents as the type says.
        let dims = unsafe { list(ty.dimensions, ty.dimensionCount as usize) }?;
        let operand = Operand {
            ty: u32::try_from(ty.type_).map_err(|_| Code::BAD_DATA)?,
            dims: dims.to_vec(),
            scale: ty.scale,
            zero: ty.zeroPoint,
            ..Operand::default()
        };
        trace::write(|| {
            json!({"call": "NeuronModel_addOperand", "model": number(at), "type": operand.ty, "dims": operand.dims,
                   "scale": operand.scale, "zero": operand.zero})
        });
        model.add_operand(operand)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronModel_setOperandValue(
    at: *mut sys::NeuronModel,
    index: i32,
    buffer: *const c_void,
    length: usize,
) -> c_int {
    with(at, |model| {
        if buffer.is_null() {
            return model.set_value(index, None);
        }
        // SAFETY: as many bytes as the client says.
        let bytes = unsafe { list(buffer.cast::<u8>(), length) }?;
        trace::write(|| {
            // numbers are shown, data by its hash
            let short = (length <= 32).then_some(bytes);
            json!({"call": "NeuronModel_setOperandValue", "model": number(at), "operand": index, "bytes": length,
                   "value": short, "hash": blake3::hash(bytes).to_hex().as_str()})
        });
        model.set_value(index, Some(bytes))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronModel_setOperandSymmPerChannelQuantParams(
    at: *mut sys::NeuronModel,
    index: i32,
    channels: *const sys::NeuronSymmPerChannelQuantParams,
) -> c_int {
    with(at, |model| {
        // SAFETY: the client's record, or null.
        let channels = unsafe { channels.as_ref() }.ok_or(Code::NULL)?;
        // SAFETY: as many scales as it says.
        let scales = unsafe { list(channels.scales, channels.scaleCount as usize) }?;
        trace::write(|| {
            json!({"call": "NeuronModel_setOperandSymmPerChannelQuantParams", "model": number(at), "operand": index,
                   "axis": channels.channelDim, "scales": scales})
        });
        model.set_channels(index, channels.channelDim, scales)
    })
}

/// Scales with zero points: of extension types, which this chip does not have.
#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronModel_setOperandPerChannelQuantParams(
    at: *mut sys::NeuronModel,
    _index: i32,
    _channels: *const c_void,
) -> c_int {
    with(at, |_| Err(Code::BAD_DATA))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronModel_getExtensionOperandType(
    at: *mut sys::NeuronModel,
    _name: *const c_char,
    _code: u16,
    _ty: *mut i32,
) -> c_int {
    with(at, |_| Err(Code::BAD_DATA))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronModel_getExtensionOperationType(
    at: *mut sys::NeuronModel,
    _name: *const c_char,
    _code: u16,
    _ty: *mut i32,
) -> c_int {
    with(at, |_| Err(Code::BAD_DATA))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronModel_addOperation(
    at: *mut sys::NeuronModel,
    code: i32,
    input_count: u32,
    inputs: *const u32,
    output_count: u32,
    outputs: *const u32,
) -> c_int {
    with(at, |model| {
        // SAFETY: as many numbers as the client says.
        let inputs = unsafe { list(inputs, input_count as usize) }?;
        // SAFETY: as above.
        let outputs = unsafe { list(outputs, output_count as usize) }?;
        trace::write(|| {
            json!({"call": "NeuronModel_addOperation", "model": number(at), "operation": code, "inputs": inputs,
                   "outputs": outputs})
        });
        model.add_operation(Operation {
            code: u32::try_from(code).map_err(|_| Code::BAD_DATA)?,
            inputs: inputs.to_vec(),
            outputs: outputs.to_vec(),
        })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronModel_identifyInputsAndOutputs(
    at: *mut sys::NeuronModel,
    input_count: u32,
    inputs: *const u32,
    output_count: u32,
    outputs: *const u32,
) -> c_int {
    with(at, |model| {
        // SAFETY: as many numbers as the client says.
        let inputs = unsafe { list(inputs, input_count as usize) }?;
        // SAFETY: as above.
        let outputs = unsafe { list(outputs, output_count as usize) }?;
        trace::write(|| {
            json!({"call": "NeuronModel_identifyInputsAndOutputs", "model": number(at), "inputs": inputs,
                   "outputs": outputs})
        });
        model.identify(inputs.to_vec(), outputs.to_vec())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronModel_finish(at: *mut sys::NeuronModel) -> c_int {
    with(at, |model| {
        trace::write(|| json!({"call": "NeuronModel_finish", "model": number(at)}));
        model.finish()
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronModel_relaxComputationFloat32toFloat16(
    at: *mut sys::NeuronModel,
    allow: bool,
) -> c_int {
    with(at, |model| {
        let call = "NeuronModel_relaxComputationFloat32toFloat16";
        trace::write(|| json!({"call": call, "model": number(at), "allow": allow}));
        model.relaxed = allow;
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn NeuronModel_restoreFromCompiledNetwork(
    model_out: *mut *mut sys::NeuronModel,
    compilation_out: *mut *mut sys::NeuronCompilation,
    buffer: *const c_void,
    size: usize,
) -> c_int {
    guard(|| {
        if model_out.is_null() || compilation_out.is_null() || buffer.is_null() {
            return Err(Code::NULL);
        }
        // SAFETY: as many bytes as the client says.
        let bytes = unsafe { list(buffer.cast::<u8>(), size) }?;
        let model = model::read(bytes)?;
        world::fault("restore", Some(&model))?;
        world::revive();
        let program = crate::lower::program(&model).map_err(|_| Code::BAD_DATA)?;
        trace::write(|| json!({"call": "NeuronModel_restoreFromCompiledNetwork", "bytes": size}));
        let of = MODELS.add(Mutex::new(model.clone()));
        let compilation = Compilation {
            of,
            model,
            program: Some(program.into()),
            network: Some(bytes.into()),
        };
        let made = (of, COMPILATIONS.add(Mutex::new(compilation)));
        // SAFETY: the client's places; null was checked.
        unsafe { give(model_out, handle(made.0)) }?;
        // SAFETY: as above.
        unsafe { give(compilation_out, handle(made.1)) }
    })
}

//! Descriptions of tensors, and models, as C sees them.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::Mutex;

use polychip_sys::nnrt::bindings as sys;

use super::{elements, end, give, guard, object};
use crate::code::{Code, Result};
use crate::lower;
use crate::model::{Model, Operation, Quant, Tensor};
use crate::world::{DESCRIPTIONS, DEVICES, Draft, MODELS, QUANTS, fault, lock};

fn describe(desc: *const sys::NN_TensorDesc, change: impl FnOnce(&mut Tensor) -> Result<()>) -> c_int {
    guard(|| change(&mut lock(&*DESCRIPTIONS.get(desc.addr())?)))
}

#[unsafe(no_mangle)]
extern "C" fn OH_NNTensorDesc_Create() -> *mut sys::NN_TensorDesc {
    object(|| Ok(DESCRIPTIONS.add(Mutex::new(Tensor::default()))))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn OH_NNTensorDesc_Destroy(place: *mut *mut sys::NN_TensorDesc) -> c_int {
    // SAFETY: the client's place or null.
    guard(|| unsafe { end(place, |handle| DESCRIPTIONS.end(handle)) })
}

#[unsafe(no_mangle)]
extern "C" fn OH_NNTensorDesc_SetDataType(desc: *mut sys::NN_TensorDesc, ty: c_int) -> c_int {
    describe(desc, |tensor| {
        let ty = u32::try_from(ty).map_err(|_| Code::INVALID)?;
        crate::model::width(ty).ok_or(Code::INVALID)?;
        tensor.ty = ty;
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn OH_NNTensorDesc_SetShape(
    desc: *mut sys::NN_TensorDesc,
    shape: *const i32,
    count: usize,
) -> c_int {
    describe(desc, |tensor| {
        // as the runtime's core: what has no shape is not told of one
        if count == 0 {
            return Err(Code::INVALID);
        }
        // SAFETY: the client's list of so many.
        tensor.dims = unsafe { elements(shape, count) }?.to_vec();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn OH_NNTensorDesc_SetFormat(desc: *mut sys::NN_TensorDesc, format: c_int) -> c_int {
    describe(desc, |_| match format {
        0..=3 => Ok(()),
        _ => Err(Code::INVALID),
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn OH_NNTensorDesc_GetByteSize(
    desc: *const sys::NN_TensorDesc,
    bytes: *mut usize,
) -> c_int {
    describe(desc, |tensor| {
        // SAFETY: the client's place or null.
        unsafe { give(bytes, tensor.bytes().ok_or(Code::INVALID)?) }
    })
}

fn change(model: *mut sys::OH_NNModel, act: impl FnOnce(&mut Model) -> Result<()>) -> c_int {
    guard(|| act(&mut lock(&*MODELS.get(model.addr())?).model))
}

#[unsafe(no_mangle)]
extern "C" fn OH_NNModel_Construct() -> *mut sys::OH_NNModel {
    object(|| Ok(MODELS.add(Mutex::new(Draft::default()))))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn OH_NNModel_Destroy(place: *mut *mut sys::OH_NNModel) {
    // SAFETY: the client's place or null.
    guard(|| unsafe { end(place, |handle| MODELS.end(handle)) });
}

#[unsafe(no_mangle)]
extern "C" fn OH_NNModel_AddTensorToModel(
    model: *mut sys::OH_NNModel,
    desc: *const sys::NN_TensorDesc,
) -> c_int {
    change(model, |model| {
        model.add(lock(&*DESCRIPTIONS.get(desc.addr())?).clone())
    })
}

#[unsafe(no_mangle)]
extern "C" fn OH_NNModel_SetTensorType(model: *mut sys::OH_NNModel, index: u32, role: c_int) -> c_int {
    change(model, |model| {
        let role = u32::try_from(role).map_err(|_| Code::INVALID)?;
        model.set(index, |tensor| {
            tensor.role = role;
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn OH_NNModel_SetTensorData(
    model: *mut sys::OH_NNModel,
    index: u32,
    data: *const c_void,
    bytes: usize,
) -> c_int {
    change(model, |model| {
        // SAFETY: the client's bytes, so many.
        let data = unsafe { elements(data.cast::<u8>(), bytes) }?;
        model.set(index, |tensor| {
            if tensor.bytes() != Some(data.len()) {
                return Err(Code::INVALID);
            }
            tensor.value = Some(data.to_vec());
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn OH_NNQuantParam_Create() -> *mut sys::NN_QuantParam {
    object(|| Ok(QUANTS.add(Mutex::new(Quant::default()))))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn OH_NNQuantParam_Destroy(place: *mut *mut sys::NN_QuantParam) -> c_int {
    // SAFETY: the client's place or null.
    guard(|| unsafe { end(place, |handle| QUANTS.end(handle)) })
}

/// Sets a list of an encoding, which is of something.
///
/// # Safety
/// `data` is null or holds `count` elements.
unsafe fn listed<T: Clone>(
    at: *mut sys::NN_QuantParam,
    data: *const T,
    count: usize,
    set: impl FnOnce(&mut Quant, Vec<T>),
) -> c_int {
    guard(|| {
        // SAFETY: as the caller promises.
        let list = unsafe { elements(data, count) }?;
        let quant = QUANTS.get(at.addr())?;
        if list.is_empty() {
            return Err(Code::INVALID);
        }
        set(&mut lock(&quant), list.to_vec());
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn OH_NNQuantParam_SetScales(
    at: *mut sys::NN_QuantParam,
    scales: *const f64,
    count: usize,
) -> c_int {
    // SAFETY: the client's list of so many.
    unsafe { listed(at, scales, count, |quant, list| quant.scales = list) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn OH_NNQuantParam_SetZeroPoints(
    at: *mut sys::NN_QuantParam,
    zeros: *const i32,
    count: usize,
) -> c_int {
    // SAFETY: as above.
    unsafe { listed(at, zeros, count, |quant, list| quant.zeros = list) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn OH_NNQuantParam_SetNumBits(
    at: *mut sys::NN_QuantParam,
    bits: *const u32,
    count: usize,
) -> c_int {
    // SAFETY: as above.
    unsafe { listed(at, bits, count, |quant, list| quant.bits = list) }
}

#[unsafe(no_mangle)]
extern "C" fn OH_NNModel_SetTensorQuantParams(
    model: *mut sys::OH_NNModel,
    index: u32,
    param: *mut sys::NN_QuantParam,
) -> c_int {
    change(model, |model| {
        let quant = lock(&*QUANTS.get(param.addr())?).clone();
        model.encode(index, quant)
    })
}

/// A list of places.
///
/// # Safety
/// `list` is null or the client's, and its data of as many as it says.
unsafe fn places(list: *const sys::OH_NN_UInt32Array) -> Result<Vec<u32>> {
    // SAFETY: as the caller promises.
    let list = unsafe { list.as_ref() }.ok_or(Code::INVALID)?;
    // as the runtime's validation: of no places there is no address
    if list.size == 0 && !list.data.is_null() {
        return Err(Code::INVALID);
    }
    // SAFETY: as above.
    Ok(unsafe { elements(list.data.cast_const(), list.size as usize) }?.to_vec())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn OH_NNModel_AddOperation(
    model: *mut sys::OH_NNModel,
    operation: c_int,
    params: *const sys::OH_NN_UInt32Array,
    inputs: *const sys::OH_NN_UInt32Array,
    outputs: *const sys::OH_NN_UInt32Array,
) -> c_int {
    change(model, |model| {
        // SAFETY: the client's lists.
        let (params, inputs, outputs) = unsafe { (places(params)?, places(inputs)?, places(outputs)?) };
        let operation = Operation {
            code: u32::try_from(operation).map_err(|_| Code::INVALID)?,
            params,
            inputs,
            outputs,
        };
        model.add_operation(operation.clone())?;
        lower::checked(model, &operation)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn OH_NNModel_SpecifyInputsAndOutputs(
    model: *mut sys::OH_NNModel,
    inputs: *const sys::OH_NN_UInt32Array,
    outputs: *const sys::OH_NN_UInt32Array,
) -> c_int {
    change(model, |model| {
        // SAFETY: the client's lists.
        let (inputs, outputs) = unsafe { (places(inputs)?, places(outputs)?) };
        model.identify(inputs, outputs)
    })
}

#[unsafe(no_mangle)]
extern "C" fn OH_NNModel_Finish(model: *mut sys::OH_NNModel) -> c_int {
    guard(|| {
        let draft = MODELS.get(model.addr())?;
        let codes: Vec<u32> = lock(&draft)
            .model
            .operations
            .iter()
            .map(|operation| operation.code)
            .collect();
        fault("model", &codes)?;
        lock(&draft).model.finish()
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn OH_NNModel_GetAvailableOperations(
    model: *mut sys::OH_NNModel,
    id: usize,
    available: *mut *const bool,
    count: *mut u32,
) -> c_int {
    guard(|| {
        let draft = MODELS.get(model.addr())?;
        // SAFETY: the client's place or null; it must hold null.
        if available.is_null() || !unsafe { available.read() }.is_null() || !DEVICES.contains(&id) {
            return Err(Code::INVALID);
        }
        let finished = lock(&draft).model.clone();
        if !finished.finished {
            return Err(Code::FORBIDDEN);
        }
        if fault("available", &[])? {
            // as a driver without support queries: success, and no answers
            // SAFETY: the client's places or null.
            return unsafe { give(count, 0).and_then(|()| give(available, std::ptr::null())) };
        }
        let answers = finished.operations.iter().map(|operation| {
            // a fault at this call is a no to the operation that it names
            let denied = fault("available", &[operation.code]).is_err();
            !denied && lower::supports(&finished, operation)
        });
        let answers: Vec<bool> = answers.collect();
        let mut draft = lock(&draft);
        draft.answers = answers;
        // SAFETY: the client's places or null; the list lives as long as the model, until it is asked again.
        unsafe {
            give(count, draft.answers.len() as u32).and_then(|()| give(available, draft.answers.as_ptr()))
        }
    })
}

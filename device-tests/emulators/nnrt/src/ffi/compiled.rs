//! Compilations as C sees them.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex};

use polychip_sys::nnrt::bindings as sys;

use super::{elements, end, give, guard, object};
use crate::code::{Code, Result};
use crate::world::{self, Built, COMPILATIONS, Compilation, DEVICES, MODELS, fault, lock};
use crate::{lower, model};

/// Changes a compilation that is not built.
fn change(at: *mut sys::OH_NNCompilation, act: impl FnOnce(&mut Compilation) -> Result<()>) -> c_int {
    guard(|| {
        let compilation = COMPILATIONS.get(at.addr())?;
        let mut compilation = lock(&compilation);
        match compilation.built {
            Some(_) => Err(Code::FORBIDDEN),
            None => act(&mut compilation),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn OH_NNCompilation_Construct(model: *const sys::OH_NNModel) -> *mut sys::OH_NNCompilation {
    object(|| {
        let model = lock(&*MODELS.get(model.addr())?).model.clone();
        if !model.finished {
            return Err(Code::FORBIDDEN);
        }
        Ok(COMPILATIONS.add(Mutex::new(Compilation {
            model: Some(model),
            ..Compilation::default()
        })))
    })
}

#[unsafe(no_mangle)]
extern "C" fn OH_NNCompilation_ConstructForCache() -> *mut sys::OH_NNCompilation {
    object(|| Ok(COMPILATIONS.add(Mutex::new(Compilation::default()))))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn OH_NNCompilation_Destroy(place: *mut *mut sys::OH_NNCompilation) {
    // SAFETY: the client's place or null.
    guard(|| unsafe { end(place, |handle| COMPILATIONS.end(handle)) });
}

#[unsafe(no_mangle)]
extern "C" fn OH_NNCompilation_SetDevice(at: *mut sys::OH_NNCompilation, id: usize) -> c_int {
    change(at, |compilation| {
        compilation.device = Some(id);
        DEVICES.contains(&id).then_some(()).ok_or(Code::INVALID)
    })
}

#[unsafe(no_mangle)]
extern "C" fn OH_NNCompilation_SetPerformanceMode(at: *mut sys::OH_NNCompilation, mode: c_int) -> c_int {
    change(at, |_| (0..=4).contains(&mode).then_some(()).ok_or(Code::INVALID))
}

#[unsafe(no_mangle)]
extern "C" fn OH_NNCompilation_SetPriority(at: *mut sys::OH_NNCompilation, priority: c_int) -> c_int {
    change(at, |_| {
        (0..=3).contains(&priority).then_some(()).ok_or(Code::INVALID)
    })
}

#[unsafe(no_mangle)]
extern "C" fn OH_NNCompilation_EnableFloat16(at: *mut sys::OH_NNCompilation, enable: bool) -> c_int {
    change(at, |compilation| {
        compilation.reduced = enable;
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn OH_NNCompilation_ImportCacheFromBuffer(
    at: *mut sys::OH_NNCompilation,
    data: *const c_void,
    bytes: usize,
) -> c_int {
    change(at, |compilation| {
        // SAFETY: the client's bytes, so many.
        let data = unsafe { elements(data.cast::<u8>(), bytes) }?;
        fault("import", &[])?;
        compilation.model = Some(model::read(data)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn OH_NNCompilation_Build(at: *mut sys::OH_NNCompilation) -> c_int {
    guard(|| {
        let compilation = COMPILATIONS.get(at.addr())?;
        let mut model = {
            let compilation = lock(&compilation);
            if compilation.built.is_some() {
                return Err(Code::FORBIDDEN);
            }
            // as seen of the runtime's core, with nothing to build or nowhere to
            let ready = compilation.model.clone().filter(|_| compilation.device.is_some());
            let mut model = ready.ok_or(Code::FAILED)?;
            model.reduced = compilation.reduced;
            model
        };
        let codes: Vec<u32> = model.operations.iter().map(|operation| operation.code).collect();
        fault("build", &codes)?;
        world::revive();
        let program = lower::program(&model).map_err(|why| {
            eprintln!("emulated libneural_network_runtime: {why}");
            Code::FAILED
        })?;
        model.finished = true;
        lock(&compilation).built = Some(Arc::new(Built { model, program }));
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn OH_NNCompilation_ExportCacheToBuffer(
    at: *mut sys::OH_NNCompilation,
    place: *const c_void,
    bytes: usize,
    used: *mut usize,
) -> c_int {
    guard(|| {
        let compilation = COMPILATIONS.get(at.addr())?;
        let built = lock(&compilation).built.clone().ok_or(Code::FORBIDDEN)?;
        fault("export", &[])?;
        let network = model::write(&built.model)?;
        if place.is_null() || bytes < network.len() {
            return Err(Code::INVALID);
        }
        // SAFETY: the client's place of so many bytes, which the call fills in spite of its type.
        unsafe { std::ptr::copy_nonoverlapping(network.as_ptr(), place.cast_mut().cast(), network.len()) };
        // SAFETY: the client's place or null.
        unsafe { give(used, network.len()) }
    })
}

//! Models.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_void};

use crate::entry::entry;
use crate::failure::polychip_failure;
use crate::handle::Object;
use crate::model::{LentBytes, ModelObject, Release};
use crate::read::{Out, array, duplicated, null, text};
use crate::runtime::RuntimeObject;
use crate::status::polychip_status_t;

use super::runtime::polychip_runtime_t;

/// A model, ready to be planned.
pub type polychip_model_t = u64;
/// Called when the library no longer uses the app's memory.
pub type polychip_release_callback_t = Option<unsafe extern "C" fn(user: *mut c_void)>;

/// Reads an ONNX model from a file. Thread-safe. Blocks for file access.
///
/// Weights stay in the mapped file, which must not change while the model is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_model_load(
    runtime: polychip_runtime_t,
    path: *const c_char,
    out_model: *mut polychip_model_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rule 3 of the header.
        let path = unsafe { text(path, "path") }?;
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_model, "out_model") }?;
        let model = RuntimeObject::of(runtime)?.runtime.load(path)?;
        place.put(ModelObject(model).into_handle()?);
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Reads an ONNX model from memory; messages call it `name`. Thread-safe.
///
/// Without `release` the bytes are copied. With `release` they are borrowed: they are not copied,
/// must not change, and `release` is called once, from any thread, when neither the model nor a
/// session of it uses them. If this call fails, `release` is not called. Weights in files beside
/// the model are not found.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_model_load_bytes(
    runtime: polychip_runtime_t,
    name: *const c_char,
    data: *const c_void,
    bytes: u64,
    release: polychip_release_callback_t,
    user: *mut c_void,
    out_model: *mut polychip_model_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rule 6 of the header.
        let (owner, armed) = unsafe { Release::new(release, user) };
        // SAFETY: the caller's promise, rule 3 of the header.
        let name = unsafe { text(name, "name") }?;
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_model, "out_model") }?;
        if data.is_null() {
            return Err(null("data"));
        }
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: the caller's promise: so many bytes are there.
        let given = unsafe { array(data.cast::<u8>(), bytes, "data") }?;
        let runtime = RuntimeObject::of(runtime)?;
        let model = match release {
            None => runtime.runtime.load_bytes(name, given.to_vec())?,
            Some(_) => {
                // SAFETY: the caller's promise: they are there, unchanged, until they are released.
                let lent = unsafe { LentBytes::new(given.as_ptr(), given.len(), owner) };
                runtime.runtime.load_bytes(name, lent)?
            }
        };
        let model = ModelObject(model).into_handle()?;
        armed.arm();
        place.put(model);
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Maps an ONNX model inside an open file; messages call it `name`. Unix only. Thread-safe.
///
/// The model has `bytes` bytes starting at byte `offset`; with 0 bytes it extends to the end of the
/// file. An example is an asset inside an Android package. The descriptor is duplicated; the caller
/// closes its own. Weights in files beside the model are not found.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_model_load_file(
    runtime: polychip_runtime_t,
    name: *const c_char,
    descriptor: i32,
    offset: u64,
    bytes: u64,
    out_model: *mut polychip_model_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rule 3 of the header.
        let name = unsafe { text(name, "name") }?;
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_model, "out_model") }?;
        let runtime = RuntimeObject::of(runtime)?;
        let file = duplicated(descriptor)?;
        let len = (bytes > 0).then_some(bytes);
        let model = runtime.runtime.load_file(name, file, offset, len)?;
        place.put(ModelObject(model).into_handle()?);
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Makes a copy of the model with a fixed size for one named dimension. The original is unchanged.
/// Thread-safe.
///
/// Sessions work without this call: the tensors of each run determine the sizes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_model_bind(
    model: polychip_model_t,
    dimension: *const c_char,
    size: u64,
    out_model: *mut polychip_model_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rule 3 of the header.
        let dimension = unsafe { text(dimension, "dimension") }?;
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_model, "out_model") }?;
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let bound = ModelObject::of(model)?.0.bind([(dimension, size)])?;
        place.put(ModelObject(bound).into_handle()?);
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Destroys a model. Accepts 0. Its sessions remain valid. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_model_destroy(
    model: polychip_model_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { super::destroy::<ModelObject>(model, failure) }
}

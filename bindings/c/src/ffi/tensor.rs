//! Tensors: allocated by the library, in the app's memory, or imported.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_void};
use std::ptr::NonNull;

use polychip::{Access, Device, MAX_RANK, Memory};

use crate::entry::entry;
use crate::failure::{Failure, Result, polychip_failure};
use crate::handle::Object;
use crate::model::Release;
use crate::read::{Out, array, duplicated, null, sized};
use crate::runtime::RuntimeObject;
use crate::status::polychip_status_t;
use crate::tensor::{Form, Tensor, of_memory};

use super::model::polychip_release_callback_t;
use super::runtime::polychip_runtime_t;

/// Memory with a type and a shape.
pub type polychip_tensor_t = u64;

/// Largest rank of a tensor.
pub const POLYCHIP_MAX_RANK: usize = 16;

/// The app reads elements.
pub const POLYCHIP_ACCESS_READ: u32 = 1;
/// The app writes elements, and may read them.
pub const POLYCHIP_ACCESS_WRITE: u32 = 2;

/// A memory file (memfd), or any file that can be mapped shared.
pub const POLYCHIP_IMPORT_FILE: u32 = 1;
/// A dma-buf, such as a camera frame.
pub const POLYCHIP_IMPORT_DMA_BUF: u32 = 2;

/// The shape is an upper bound; the actual shape is known after the run.
pub const POLYCHIP_INFO_UPPER_BOUND: u32 = 1;
/// A sequence, an optional or strings, packed into bytes: the type is u8, and the shape is the
/// maximum number of bytes.
pub const POLYCHIP_INFO_PACKED: u32 = 2;
/// The model leaves the rank open; the tensor of each run determines it. The rank is given as 0.
pub const POLYCHIP_INFO_ANY_RANK: u32 = 4;
/// An input that has a default: a run may leave it out.
pub const POLYCHIP_INFO_OPTIONAL: u32 = 8;

/// Type and shape of a tensor to be made.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct polychip_tensor_desc {
    /// Size of this struct as the caller knows it, in bytes: sizeof(struct polychip_tensor_desc).
    pub struct_size: u32,
    /// One of POLYCHIP_DTYPE_*.
    pub dtype: u32,
    /// Number of axes, at most POLYCHIP_MAX_RANK.
    pub rank: u32,
    /// Zero.
    pub reserved: u32,
    /// Size of each axis, in ONNX order.
    pub shape: *const u64,
    /// Elements between two neighbours along each axis, or null for row-major order without gaps.
    /// Other orders are refused.
    pub strides: *const i64,
}

/// Type and shape of a tensor, or of an input or output of a session.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct polychip_tensor_info {
    /// Size of this struct as the caller knows it, in bytes: sizeof(struct polychip_tensor_info).
    pub struct_size: u32,
    /// One of POLYCHIP_DTYPE_*.
    pub dtype: u32,
    /// Number of axes.
    pub rank: u32,
    /// POLYCHIP_INFO_*: differences from a plain tensor.
    pub flags: u32,
    /// Bit i is set if the model leaves the size of axis i open; each run then determines it.
    pub open_axes: u32,
    /// Zero.
    pub reserved: u32,
    /// Bytes of all elements; 0 if a size is open.
    pub bytes: u64,
    /// Name in the model, valid until the session is destroyed; null for a tensor.
    pub name: *const c_char,
    /// Size of each axis, in ONNX order; 0 for an open axis and beyond the last axis.
    pub shape: [u64; POLYCHIP_MAX_RANK],
}

impl polychip_tensor_info {
    /// Fills all but the size.
    pub(super) fn fill(&mut self, dtype: u32, shape: &[usize], bytes: u64) {
        self.dtype = dtype;
        self.rank = shape.len() as u32;
        self.flags = 0;
        self.open_axes = 0;
        self.reserved = 0;
        self.bytes = bytes;
        self.name = std::ptr::null();
        self.shape = [0; POLYCHIP_MAX_RANK];
        for (to, size) in self.shape.iter_mut().zip(shape) {
            *to = *size as u64;
        }
    }
}

/// Memory in a file.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct polychip_import {
    /// Size of this struct as the caller knows it, in bytes: sizeof(struct polychip_import).
    pub struct_size: u32,
    /// One of POLYCHIP_IMPORT_*.
    pub kind: u32,
    /// The file. It is duplicated; the caller closes its own descriptor.
    pub descriptor: i32,
    /// Zero.
    pub reserved: u32,
    /// First byte of the tensor in the file; 0 for a dma-buf.
    pub offset: u64,
}

const _: () = assert!(POLYCHIP_MAX_RANK == MAX_RANK);

/// Reads what a tensor is to be.
///
/// # Safety
/// `desc` is null or as rule 4 of the header says; its arrays have `rank` elements.
unsafe fn form(desc: *const polychip_tensor_desc) -> Result<Form> {
    // SAFETY: the caller's promise.
    let desc = unsafe { sized(desc, "polychip_tensor_desc") }?;
    let rank = desc.rank as usize;
    if rank > POLYCHIP_MAX_RANK {
        return Err(Failure::argument(format!(
            "rank {rank} is above POLYCHIP_MAX_RANK, {POLYCHIP_MAX_RANK}"
        )));
    }
    // SAFETY: the caller's promise.
    let shape = unsafe { array(desc.shape, rank, "shape") }?;
    let strides = if desc.strides.is_null() {
        None
    } else {
        // SAFETY: the caller's promise.
        Some(unsafe { array(desc.strides, rank, "strides") }?)
    };
    Form::new(desc.dtype, shape, strides)
}

/// Makes a tensor of zeros, in memory that every capable device of the runtime uses in place.
/// Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_tensor_create(
    runtime: polychip_runtime_t,
    desc: *const polychip_tensor_desc,
    out_tensor: *mut polychip_tensor_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let form = unsafe { form(desc) }?;
        // SAFETY: as above.
        let place = unsafe { Out::new(out_tensor, "out_tensor") }?;
        let runtime = RuntimeObject::of(runtime)?;
        let devices = runtime.runtime.devices().iter().map(Device::info);
        let memory = Memory::for_devices(form.bytes, devices).map_err(of_memory)?;
        place.put(Tensor::new(form, memory)?.into_handle()?);
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Makes a tensor over the app's memory: `bytes` bytes starting at `data`, at least as many as the
/// tensor needs, at any address. Thread-safe.
///
/// - A device that can import the memory uses it in place. Its address must be a multiple of 64
///   bytes for OpenVINO, of 4096 bytes for GPUs, and of the element size for the CPU. For other
///   devices each run copies the memory, and the report counts the copies.
/// - The memory must stay valid until `release` is called with `user`. The library calls it once,
///   from any thread, when the tensor is destroyed and no run uses the memory. If this call fails,
///   `release` is not called. With a null `release`, the app itself must keep the memory valid
///   until all runs that use it have ended.
/// - While a run uses the tensor, the app must not write the memory, nor read what the run writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_tensor_lend(
    desc: *const polychip_tensor_desc,
    data: *mut c_void,
    bytes: u64,
    release: polychip_release_callback_t,
    user: *mut c_void,
    out_tensor: *mut polychip_tensor_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let form = unsafe { form(desc) }?;
        // SAFETY: as above.
        let place = unsafe { Out::new(out_tensor, "out_tensor") }?;
        let data = NonNull::new(data.cast::<u8>()).ok_or_else(|| null("data"))?;
        if bytes < form.bytes || bytes > isize::MAX as u64 {
            let words = format!(
                "a tensor of {} with shape {:?} takes {} bytes, {bytes} were given",
                form.dtype.name(),
                form.shape,
                form.bytes
            );
            return Err(Failure::argument(words));
        }
        // SAFETY: the caller's promise, rule 6 of the header.
        let (owner, armed) = unsafe { Release::new(release, user) };
        // SAFETY: the caller's promise: the memory stays until it is released, and is used as this call says.
        let memory = unsafe { Memory::external(data, form.bytes, owner) };
        let tensor = Tensor::new(form, memory)?.into_handle()?;
        armed.arm();
        place.put(tensor);
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Makes a tensor over memory in a file. The library maps the file; devices that can import it use
/// the descriptor. Linux and Android only. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_tensor_import(
    desc: *const polychip_tensor_desc,
    import: *const polychip_import,
    out_tensor: *mut polychip_tensor_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let form = unsafe { form(desc) }?;
        // SAFETY: as above.
        let import = unsafe { sized(import, "polychip_import") }?;
        // SAFETY: as above.
        let place = unsafe { Out::new(out_tensor, "out_tensor") }?;
        let memory = imported(import, &form)?;
        place.put(Tensor::new(form, memory)?.into_handle()?);
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn imported(import: &polychip_import, form: &Form) -> Result<Memory> {
    match import.kind {
        POLYCHIP_IMPORT_FILE => {
            let file = duplicated(import.descriptor)?;
            Memory::of_file(file, import.offset, form.bytes).map_err(of_memory)
        }
        POLYCHIP_IMPORT_DMA_BUF if import.offset != 0 => Err(Failure::argument(format!(
            "offset {}: a tensor begins with its dma-buf",
            import.offset
        ))),
        POLYCHIP_IMPORT_DMA_BUF => {
            let file = duplicated(import.descriptor)?;
            Memory::of_dma_buf(file, form.bytes).map_err(of_memory)
        }
        kind => Err(Failure::argument(format!(
            "kind {kind} is not a POLYCHIP_IMPORT_* value"
        ))),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn imported(_: &polychip_import, _: &Form) -> Result<Memory> {
    Err(Failure::argument(
        "memory files and dma-bufs can be imported on Linux and Android only",
    ))
}

/// Describes a tensor: type and shape. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_tensor_describe(
    tensor: polychip_tensor_t,
    out_info: *mut polychip_tensor_info,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_info, "out_info") }?;
        let tensor = Tensor::of(tensor)?;
        let form = &tensor.form;
        let fill = |info: &mut polychip_tensor_info| info.fill(form.dtype.code(), &form.shape, form.bytes);
        // SAFETY: as above; the caller has set the size.
        unsafe { place.fill("polychip_tensor_info", fill) }
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Maps a tensor's memory for the app with POLYCHIP_ACCESS_*, until it is unmapped. Thread-safe.
///
/// Elements are little-endian in row-major order; types of less than a byte are packed. The memory
/// of polychip_tensor_lend is at the app's own address. `out_bytes` may be null. While the tensor
/// is mapped, runs on it fail with POLYCHIP_ERROR_IN_FLIGHT. This call fails with the same status
/// while a run uses the tensor or it is already mapped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_tensor_map(
    tensor: polychip_tensor_t,
    access: u32,
    out_data: *mut *mut c_void,
    out_bytes: *mut u64,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_data, "out_data") }?;
        // SAFETY: as above.
        let length = unsafe { Out::optional(out_bytes, "out_bytes") }?;
        let access = match access {
            POLYCHIP_ACCESS_READ => Access::Read,
            POLYCHIP_ACCESS_WRITE => Access::Write,
            other if other == POLYCHIP_ACCESS_READ | POLYCHIP_ACCESS_WRITE => Access::Write,
            other => {
                return Err(Failure::argument(format!(
                    "access {other} is not a POLYCHIP_ACCESS_* value"
                )));
            }
        };
        let (data, bytes) = Tensor::of(tensor)?.map(access)?;
        place.put(data.cast());
        if let Some(length) = length {
            length.put(bytes);
        }
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Ends the app's access to a tensor's memory. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_tensor_unmap(
    tensor: polychip_tensor_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || Tensor::of(tensor)?.unmap();
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Destroys a tensor. Accepts 0. Runs in flight keep its memory. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_tensor_destroy(
    tensor: polychip_tensor_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { super::destroy::<Tensor>(tensor, failure) }
}

//! DLPack, the layout in which array libraries exchange tensors without copying: its structs,
//! import and export.
//!
//! Invariants:
//! 1. The version of a capsule is read before anything else in it.
//! 2. An imported capsule is kept unchanged, and deletes its tensor when it is collected. Releasing
//!    it does not wait for Python's lock, on whatever thread.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

use polychip::DType;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};

use crate::element;
use crate::error::BadInputError;

/// Device type: CPU memory.
pub(crate) const CPU: i32 = 1;
/// Memory of the host that a GPU has pinned.
const CUDA_HOST: i32 = 3;
/// The version that is given.
const VERSION: Version = Version { major: 1, minor: 0 };

const PLAIN: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";

#[repr(C)]
#[derive(Clone, Copy)]
struct Version {
    major: u32,
    minor: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DlDevice {
    kind: i32,
    id: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Type {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct Layout {
    data: *mut c_void,
    place: DlDevice,
    rank: i32,
    dtype: Type,
    shape: *mut i64,
    /// In elements; null where the elements lie in row-major order without gaps.
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    tensor: Layout,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
struct ManagedVersioned {
    version: Version,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    flags: u64,
    tensor: Layout,
}

/// An imported tensor.
pub(crate) struct Seen {
    pub(crate) data: *mut u8,
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    /// Which deletes the tensor when it dies: it was not renamed.
    pub(crate) capsule: Py<PyCapsule>,
}

/// Imports the tensor of an object that has `__dlpack__`; `None` if it has not.
pub(crate) fn take(object: &Bound<'_, PyAny>) -> PyResult<Option<Seen>> {
    let py = object.py();
    let Some(method) = object.getattr_opt("__dlpack__")? else {
        return Ok(None);
    };
    if let Some(device) = object.getattr_opt("__dlpack_device__")? {
        let (kind, _): (i32, i32) = device.call0()?.extract()?;
        on_host(kind)?;
    }
    let options = PyDict::new(py);
    options.set_item("max_version", (VERSION.major, VERSION.minor))?;
    let capsule = match method.call((), Some(&options)) {
        // a library older than versions
        Err(error) if error.is_instance_of::<PyTypeError>(py) => method.call0(),
        called => called,
    }?;
    let capsule = capsule.cast_into::<PyCapsule>()?;
    taken(&capsule).map(Some)
}

fn on_host(kind: i32) -> PyResult<()> {
    if kind == CPU || kind == CUDA_HOST {
        return Ok(());
    }
    Err(BadInputError::new_err(format!(
        "an array on DLPack device {kind} is not in CPU memory; copy it there first (for example .cpu())"
    )))
}

fn taken(capsule: &Bound<'_, PyCapsule>) -> PyResult<Seen> {
    let (py, raw) = (capsule.py(), capsule.as_ptr());
    // SAFETY: the capsule is alive; the names are constants, and say what it points to.
    let layout = unsafe {
        let versioned = ffi::PyCapsule_IsValid(raw, VERSIONED.as_ptr()) == 1;
        let name = if versioned { VERSIONED } else { PLAIN };
        let pointer = ffi::PyCapsule_GetPointer(raw, name.as_ptr());
        let pointer = NonNull::new(pointer).ok_or_else(|| PyErr::fetch(py))?;
        if versioned {
            let managed = pointer.cast::<ManagedVersioned>();
            let version = (&raw const (*managed.as_ptr()).version).read();
            if version.major != VERSION.major {
                return Err(PyBufferError::new_err(format!(
                    "unsupported DLPack version {}.{}; expected {}.x",
                    version.major, version.minor, VERSION.major
                )));
            }
            &raw const (*managed.as_ptr()).tensor
        } else {
            &raw const (*pointer.cast::<Managed>().as_ptr()).tensor
        }
    };
    // SAFETY: the maker of the capsule keeps it as it is until the capsule dies.
    let layout = unsafe { &*layout };
    on_host(layout.place.kind)?;
    let Type { code, bits, lanes } = layout.dtype;
    let dtype = element::of_dlpack(code, bits)
        .filter(|_| lanes == 1)
        .ok_or_else(|| {
            BadInputError::new_err(format!(
                "elements of DLPack code {code}, {bits} bits and {lanes} lanes match no element type of models"
            ))
        })?;
    let rank = usize::try_from(layout.rank).unwrap_or(0);
    let sizes = |values: *const i64| -> Vec<i64> {
        if rank == 0 || values.is_null() {
            return Vec::new();
        }
        // SAFETY: DLPack states as many sizes, and strides where there are any, as the rank.
        unsafe { std::slice::from_raw_parts(values, rank) }.to_vec()
    };
    let shape: Option<Vec<usize>> = sizes(layout.shape)
        .into_iter()
        .map(|size| usize::try_from(size).ok())
        .collect();
    let shape = shape.ok_or_else(|| BadInputError::new_err("the tensor has a negative size"))?;
    let strides = sizes(layout.strides);
    if !strides.is_empty() && !is_dense(&shape, &strides) {
        return Err(BadInputError::new_err(
            "the tensor is not in row-major order without gaps; make it contiguous first (for example \
             .contiguous())",
        ));
    }
    let data = layout
        .data
        .cast::<u8>()
        .wrapping_add(usize::try_from(layout.byte_offset).unwrap_or(0));
    Ok(Seen {
        data,
        dtype,
        shape,
        capsule: capsule.clone().unbind(),
    })
}

fn is_dense(shape: &[usize], strides: &[i64]) -> bool {
    let mut wanted = 1i64;
    shape.contains(&0)
        || shape.iter().zip(strides).rev().all(|(size, stride)| {
            let fits = *size == 1 || *stride == wanted;
            wanted = wanted.saturating_mul(*size as i64);
            fits
        })
}

/// Checks that the consumer accepts CPU memory without a copy.
pub(crate) fn on_request(device: Option<(i32, i32)>, copy: Option<bool>) -> PyResult<()> {
    if device.is_some_and(|device| device != (CPU, 0)) {
        return Err(PyBufferError::new_err(
            "the elements are in CPU memory: request device (1, 0)",
        ));
    }
    if copy == Some(true) {
        return Err(PyBufferError::new_err(
            "copies are not offered; copy the resulting array",
        ));
    }
    Ok(())
}

/// The owner of an exported tensor, held until its deleter is called.
struct ExportedTensor {
    shape: Vec<i64>,
    strides: Vec<i64>,
    _owner: Py<PyAny>,
}

/// Makes a capsule of elements that `owner` holds.
pub(crate) fn give<'py>(
    owner: &Bound<'py, PyAny>,
    data: *mut u8,
    dtype: DType,
    shape: &[usize],
    max_version: Option<&Bound<'py, PyTuple>>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let py = owner.py();
    let (code, bits) = element::dlpack(dtype)
        .ok_or_else(|| PyBufferError::new_err(format!("DLPack has no element type for {}", dtype.name())))?;
    let versioned = match max_version {
        Some(version) => version.get_item(0)?.extract::<u32>()? >= VERSION.major,
        None => false,
    };
    let mut strides = vec![1i64; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis] as i64);
    }
    let mut given = Box::new(ExportedTensor {
        shape: shape.iter().map(|size| *size as i64).collect(),
        strides,
        _owner: owner.clone().unbind(),
    });
    let tensor = Layout {
        data: data.cast(),
        place: DlDevice { kind: CPU, id: 0 },
        rank: shape.len() as i32,
        dtype: Type { code, bits, lanes: 1 },
        shape: given.shape.as_mut_ptr(),
        strides: given.strides.as_mut_ptr(),
        byte_offset: 0,
    };
    let context = Box::into_raw(given).cast::<c_void>();
    let (pointer, name, destructor): (_, _, ffi::PyCapsule_Destructor) = if versioned {
        let managed = Box::new(ManagedVersioned {
            version: VERSION,
            context,
            deleter: Some(delete_versioned),
            // neither read-only nor a copy
            flags: 0,
            tensor,
        });
        (Box::into_raw(managed).cast::<c_void>(), VERSIONED, drop_versioned)
    } else {
        let managed = Box::new(Managed {
            tensor,
            context,
            deleter: Some(delete_plain),
        });
        (Box::into_raw(managed).cast::<c_void>(), PLAIN, drop_plain)
    };
    let pointer = NonNull::new(pointer).expect("invariant: a box is somewhere");
    // SAFETY: the destructor takes what the pointer is of.
    unsafe { PyCapsule::new_with_pointer_and_destructor(py, pointer, name, Some(destructor)) }
}

/// Releases the owner: at once if this thread has Python's lock, else when a thread next has it.
fn let_go(context: *mut c_void) {
    // SAFETY: the context is the box that `give` made, and its tensor is deleted once.
    drop(unsafe { Box::from_raw(context.cast::<ExportedTensor>()) });
}

unsafe extern "C" fn delete_plain(managed: *mut Managed) {
    // SAFETY: DLPack's contract: the deleter is called once, with the tensor that it came with.
    let managed = unsafe { Box::from_raw(managed) };
    let_go(managed.context);
}

unsafe extern "C" fn delete_versioned(managed: *mut ManagedVersioned) {
    // SAFETY: as in `delete_plain`.
    let managed = unsafe { Box::from_raw(managed) };
    let_go(managed.context);
}

unsafe extern "C" fn drop_plain(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls it with the capsule that dies; one that was taken has another name.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, PLAIN.as_ptr()) == 1 {
            delete_plain(ffi::PyCapsule_GetPointer(capsule, PLAIN.as_ptr()).cast());
        }
    }
}

unsafe extern "C" fn drop_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: as in `drop_plain`.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) == 1 {
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
        }
    }
}

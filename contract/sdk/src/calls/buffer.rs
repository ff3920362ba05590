//! Entries of buffers.
//!
//! # Safety
//! As `calls`.

#![allow(
    unsafe_code,
    reason = "pointers and handles of the contract become references"
)]

use std::sync::Arc;

use polychip_abi as abi;
use polychip_abi::{polychip_buffer, polychip_device, polychip_error, polychip_memory};

use super::entry::{entry, of, out, quietly, refuse_null, shared};
use crate::raw;
use crate::{Access, Buffer, Device, Error, Memory, MemoryKind};

pub(crate) unsafe extern "C" fn buffer_create<D: Device>(
    device: *mut polychip_device,
    wanted: *const polychip_memory,
    out_buffer: *mut *mut polychip_buffer,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            refuse_null(out_buffer)?;
            let device = of::<_, D>(device, "device")?;
            let wanted = Memory::from_record(&raw::read(wanted)?)?;
            out(out_buffer, shared(device.buffer_create(&wanted)?))
        })
    }
}

pub(crate) unsafe extern "C" fn buffer_import<D: Device>(
    device: *mut polychip_device,
    memory: *const polychip_memory,
    out_buffer: *mut *mut polychip_buffer,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract; imported memory is valid until the buffer is destroyed.
    unsafe {
        entry(error, || {
            refuse_null(out_buffer)?;
            let device = of::<_, D>(device, "device")?;
            let memory = Memory::from_record(&raw::read(memory)?)?;
            let info = device.info();
            if !info.import_kinds.contains(memory.kind()) {
                return Err(Error::unsupported(format!(
                    "memory of kind {:?} cannot be imported",
                    memory.kind()
                )));
            }
            let alignment = info.import_alignment.max(1) as usize;
            if memory.kind() == MemoryKind::Host && !(memory.data() as usize).is_multiple_of(alignment) {
                return Err(Error::unsupported(format!(
                    "host memory to import must be aligned to {alignment} bytes"
                )));
            }
            out(out_buffer, shared(device.buffer_import(&memory)?))
        })
    }
}

pub(crate) unsafe extern "C" fn buffer_export<D: Device>(
    buffer: *mut polychip_buffer,
    kind: u32,
    out_memory: *mut polychip_memory,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            let buffer = of::<_, D::Buffer>(buffer, "buffer")?;
            let kind = MemoryKind::from_code(kind)
                .ok_or_else(|| Error::unsupported(format!("memory kind {kind} is not known")))?;
            raw::write(out_memory, &buffer.export(kind)?.record())
        })
    }
}

pub(crate) unsafe extern "C" fn buffer_begin_access<D: Device>(
    buffer: *mut polychip_buffer,
    access: u32,
    offset: u64,
    bytes: u64,
    out_data: *mut *mut u8,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            refuse_null(out_data)?;
            let buffer = of::<_, D::Buffer>(buffer, "buffer")?;
            let known = abi::POLYCHIP_ACCESS_READ | abi::POLYCHIP_ACCESS_WRITE;
            if access == 0 || access & !known != 0 {
                return Err(Error::bad_argument(format!("access {access} is not known")));
            }
            let size = buffer.bytes();
            if offset.checked_add(bytes).is_none_or(|end| end > size as u64) {
                return Err(Error::bad_argument(format!(
                    "access to {bytes} bytes at {offset} of a buffer of {size}"
                )));
            }
            let access = Access {
                read: access & abi::POLYCHIP_ACCESS_READ != 0,
                write: access & abi::POLYCHIP_ACCESS_WRITE != 0,
            };
            out(
                out_data,
                buffer.begin_access(access, offset as usize, bytes as usize)?,
            )
        })
    }
}

pub(crate) unsafe extern "C" fn buffer_end_access<D: Device>(
    buffer: *mut polychip_buffer,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe { entry(error, || of::<_, D::Buffer>(buffer, "buffer")?.end_access()) }
}

pub(crate) unsafe extern "C" fn buffer_destroy<D: Device>(buffer: *mut polychip_buffer) {
    if !buffer.is_null() {
        // SAFETY: made by `Arc::into_raw`, destroyed once.
        quietly(|| drop(unsafe { Arc::from_raw(buffer.cast_const().cast::<D::Buffer>()) }));
    }
}

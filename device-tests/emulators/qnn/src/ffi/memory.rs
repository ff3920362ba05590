//! Registered memory: memory that a context knows by its descriptor.
//!
//! By default, registration fails, as in the vendor's x86 library. With `POLYCHIP_QNN_REGISTERS=1`
//! the emulator registers memory, as a chip's library does. It accepts only the HTP's own form of
//! shared memory; with the other forms, public clients crashed on chips.

#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::BorrowedFd;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use polychip_sys::qnn as sys;

use super::guard::{give, guard, handle, number};
use super::read;
use crate::code::{Code, Result};
use crate::world::{self, Known};

static REGISTERS: LazyLock<bool> =
    LazyLock::new(|| std::env::var("POLYCHIP_QNN_REGISTERS").as_deref() == Ok("1"));
/// Number of bytes passed to `execute` by address, which a chip's library copies.
static ADDRESSED: AtomicU64 = AtomicU64::new(0);

/// Returns that number.
pub(super) fn addressed() -> u64 {
    ADDRESSED.load(Ordering::Relaxed)
}

pub(super) unsafe extern "C" fn register(
    context: sys::Context,
    descriptors: *const sys::MemoryDescriptor,
    count: u32,
    out: *mut sys::Memory,
) -> sys::Code {
    guard(|| {
        if !*REGISTERS {
            return Err(Code::NOT_SUPPORTED);
        }
        let context = number(context);
        world::context(context)?;
        // SAFETY: the client's array holds what its count says.
        for (place, descriptor) in unsafe { read::slice(descriptors, count, 1 << 12) }?
            .iter()
            .enumerate()
        {
            if descriptor.kind != sys::POLYCHIP_QNN_MEMORY_CUSTOM {
                return Err(Code::NOT_SUPPORTED);
            }
            // SAFETY: for this kind the union holds the address of the HTP's own description.
            let known = unsafe { of_htp(context, descriptor.source.custom.cast::<sys::HtpMemory>()) }?;
            // SAFETY: the client gives a place for each handle.
            unsafe { give(out.wrapping_add(place), handle(world::add_memory(known))) }?;
        }
        Ok(())
    })
}

/// # Safety
/// `described` is null or readable, and its descriptor open.
unsafe fn of_htp(context: usize, described: *const sys::HtpMemory) -> Result<Known> {
    // SAFETY: as the caller promises.
    let described = unsafe { described.as_ref() }.ok_or(Code::ARGUMENT)?;
    let shared = described.shared;
    if described.kind != sys::POLYCHIP_QNN_HTP_MEMORY_SHARED
        || shared.fd < 0
        || shared.offset >= described.size
    {
        return Err(Code::ARGUMENT);
    }
    // SAFETY: open during the call, as the caller promises.
    let fd = unsafe { BorrowedFd::borrow_raw(shared.fd) }.try_clone_to_owned();
    let file = File::from(fd.map_err(|_| Code::ARGUMENT)?);
    let whole = file.metadata().map_err(|_| Code::ARGUMENT)?.len();
    if whole < described.size {
        return Err(Code::ARGUMENT);
    }
    let map = memmap2::MmapOptions::new().len(whole as usize).map_raw(&file);
    Ok(Known {
        context,
        map: map.map_err(|_| Code::MEMORY)?,
        offset: shared.offset as usize,
        bytes: (described.size - shared.offset) as usize,
    })
}

pub(super) unsafe extern "C" fn deregister(handles: *const sys::Memory, count: u32) -> sys::Code {
    guard(|| {
        if !*REGISTERS {
            return Err(Code::NOT_SUPPORTED);
        }
        // SAFETY: the client's array holds what its count says.
        for memory in unsafe { read::slice(handles, count, 1 << 12) }? {
            world::end_memory(number(*memory))?;
        }
        Ok(())
    })
}

/// Where a tensor of an execute has its elements: by address, or in memory that this context knows.
pub(super) fn place(context: usize, v1: &sys::TensorV1) -> Result<(*mut u8, usize)> {
    if v1.memory_type != sys::POLYCHIP_QNN_MEMORY_HANDLE {
        let (data, size) = read::buffer(v1)?;
        ADDRESSED.fetch_add(size as u64, Ordering::Relaxed);
        return Ok((data.cast(), size));
    }
    // SAFETY: for this memory type the union holds a handle, which is plain data.
    let known = world::memory(number(unsafe { v1.memory.handle }))?;
    if known.context != context {
        return Err(Code::CONTEXT);
    }
    // a memory that goes while a run has it is the client's fault, here as there
    Ok((known.map.as_mut_ptr().wrapping_add(known.offset), known.bytes))
}

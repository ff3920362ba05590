//! Entries of runs and their fences.
//!
//! # Safety
//! As `calls`.

#![allow(
    unsafe_code,
    reason = "pointers and handles of the contract become references"
)]

use std::ffi::c_void;
use std::sync::Arc;

use polychip_abi as abi;
use polychip_abi::{
    polychip_device, polychip_error, polychip_executable, polychip_fence, polychip_step, polychip_submit,
    polychip_timing,
};

use super::entry::{entry, of, out, quietly, refuse_null, shared};
use super::part::ExecutableHandle;
use crate::raw::{self, Rows};
use crate::{Device, Error, Executable, Fence, SignalCallback, Submit};

pub(crate) unsafe extern "C" fn execute<D: Device>(
    executable: *mut polychip_executable,
    submit: *const polychip_submit,
    out_fence: *mut *mut polychip_fence,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            refuse_null(out_fence)?;
            let handle = of::<_, ExecutableHandle<D::Executable>>(executable, "executable")?;
            let submit = Submit::new(submit, &handle.ports)?;
            out(out_fence, shared(handle.executable.execute(&submit)?))
        })
    }
}

pub(crate) unsafe extern "C" fn cancel<D: Device>(
    fence: *mut polychip_fence,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe { entry(error, || of::<_, D::Fence>(fence, "fence")?.cancel()) }
}

pub(crate) unsafe extern "C" fn fence_wait<D: Device>(
    fence: *mut polychip_fence,
    timeout_ns: u64,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe { entry(error, || of::<_, D::Fence>(fence, "fence")?.wait(timeout_ns)) }
}

pub(crate) unsafe extern "C" fn fence_on_signal<D: Device>(
    fence: *mut polychip_fence,
    signalled: Option<unsafe extern "C" fn(user: *mut c_void, status: u32)>,
    user: *mut c_void,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract; the callback may be made once from any thread.
    unsafe {
        entry(error, || {
            let fence = of::<_, D::Fence>(fence, "fence")?;
            let signalled = signalled.ok_or_else(|| Error::bad_argument("the callback is null"))?;
            fence.on_signal(SignalCallback::new(signalled, user))
        })
    }
}

pub(crate) unsafe extern "C" fn fence_import_fd<D: Device>(
    device: *mut polychip_device,
    fd: i64,
    out_fence: *mut *mut polychip_fence,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            refuse_null(out_fence)?;
            let fence = of::<_, D>(device, "device")?.fence_import(fd)?;
            out(out_fence, shared(fence))
        })
    }
}

pub(crate) unsafe extern "C" fn fence_export_fd<D: Device>(
    fence: *mut polychip_fence,
    out_fd: *mut i64,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            refuse_null(out_fd)?;
            out(out_fd, of::<_, D::Fence>(fence, "fence")?.export_fd()?)
        })
    }
}

pub(crate) unsafe extern "C" fn fence_timing<D: Device>(
    fence: *mut polychip_fence,
    out_timing: *mut polychip_timing,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            let timing = of::<_, D::Fence>(fence, "fence")?.timing()?;
            raw::write(out_timing, &timing.record())
        })
    }
}

pub(crate) unsafe extern "C" fn fence_steps<D: Device>(
    fence: *mut polychip_fence,
    out_steps: *mut polychip_step,
    capacity: u64,
    stride: u64,
    out_count: *mut u64,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            refuse_null(out_count)?;
            let steps = of::<_, D::Fence>(fence, "fence")?.steps()?;
            let rows = Rows::new(out_steps.cast_const(), capacity.min(steps.len() as u64), stride)?;
            for index in 0..rows.len() {
                // the fence keeps what the record points to
                raw::write(rows.at(index).cast_mut(), &steps[index].record())?;
            }
            out(out_count, steps.len() as u64)
        })
    }
}

pub(crate) unsafe extern "C" fn fence_output_shape<D: Device>(
    fence: *mut polychip_fence,
    port: u32,
    out_dims: *mut i64,
    capacity: u64,
    out_rank: *mut u64,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            let fence = of::<_, D::Fence>(fence, "fence")?;
            let mut dims = [0i64; abi::POLYCHIP_MAX_RANK];
            let rank = fence.output_shape(port, &mut dims)?;
            let count = rank
                .min(dims.len())
                .min(usize::try_from(capacity).unwrap_or(usize::MAX));
            if count > 0 {
                refuse_null(out_dims)?;
                std::ptr::copy_nonoverlapping(dims.as_ptr(), out_dims, count);
            }
            out(out_rank, rank as u64)
        })
    }
}

pub(crate) unsafe extern "C" fn fence_destroy<D: Device>(fence: *mut polychip_fence) {
    if !fence.is_null() {
        // SAFETY: made by `Arc::into_raw`, destroyed once.
        quietly(|| drop(unsafe { Arc::from_raw(fence.cast_const().cast::<D::Fence>()) }));
    }
}

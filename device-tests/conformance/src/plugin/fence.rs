//! The end of a run.
//!
//! Invariant: a fence dropped before its end waits; one that never ends keeps its run's memory for ever.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

use polychip_abi as abi;
use polychip_abi::Sized;

use super::call::{Call, checked};
use super::executable::Executable;
use super::memory::Buffer;

/// Longest that any run of the suite may take.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// What the device measured of a run: the record as it was filled.
pub type Timing = abi::polychip_timing;

/// The type of a signal's call.
pub type Signalled = unsafe extern "C" fn(user: *mut c_void, status: u32);

/// The end of one run.
pub struct Fence {
    executable: Arc<Executable>,
    buffers: Vec<Arc<Buffer>>,
    raw: *mut abi::polychip_fence,
}

// SAFETY: the contract states the calls on a fence thread-safe but timing and shape, read after the end.
unsafe impl Send for Fence {}
// SAFETY: as above.
unsafe impl Sync for Fence {}

impl Drop for Fence {
    fn drop(&mut self) {
        let ended = self.wait_ns(u64::try_from(PATIENCE.as_nanos()).unwrap_or(u64::MAX));
        if ended.is_err_and(|failure| failure.status == abi::POLYCHIP_STATUS_TIMEOUT) {
            std::mem::forget((Arc::clone(&self.executable), self.buffers.clone()));
            return;
        }
        if let Some(destroy) = self.executable.device().table().fence_destroy {
            // SAFETY: made by this table, destroyed once.
            unsafe { destroy(self.raw) };
        }
    }
}

impl Fence {
    pub(crate) fn new(
        executable: Arc<Executable>,
        buffers: Vec<Arc<Buffer>>,
        raw: *mut abi::polychip_fence,
    ) -> Fence {
        Fence {
            executable,
            buffers,
            raw,
        }
    }

    /// The handle.
    #[must_use]
    pub fn raw(&self) -> *mut abi::polychip_fence {
        self.raw
    }

    fn table(&self) -> &abi::polychip_plugin_table {
        self.executable.device().table()
    }

    /// Waits for the end, at most so long.
    ///
    /// # Errors
    /// `TIMEOUT` if the run has not ended, else the run's error.
    pub fn wait_ns(&self, timeout_ns: u64) -> Call<()> {
        let call = self
            .table()
            .fence_wait
            .expect("invariant: required calls are checked");
        // SAFETY: the fence is alive.
        checked("fence_wait", |record| unsafe {
            call(self.raw, timeout_ns, record)
        })
    }

    /// Waits for the end as long as any run may take.
    ///
    /// # Errors
    /// As [`Fence::wait_ns`].
    pub fn wait(&self) -> Call<()> {
        self.wait_ns(u64::try_from(PATIENCE.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The raw handle of a run that has ended; the caller must destroy it.
    #[must_use]
    pub fn into_raw(self) -> *mut abi::polychip_fence {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: read once each, because the value is never dropped.
        unsafe {
            drop(std::ptr::read(&raw const this.executable));
            drop(std::ptr::read(&raw const this.buffers));
        }
        this.raw
    }

    /// Destroys the fence, possibly before its run ends; the run's memory is never freed.
    pub fn destroy_at_once(self) {
        std::mem::forget((Arc::clone(&self.executable), self.buffers.clone()));
        if let Some(destroy) = self.table().fence_destroy {
            // SAFETY: made by this table, destroyed once: the value is forgotten.
            unsafe { destroy(self.raw) };
        }
        std::mem::forget(self);
    }

    /// Has `call(user, status)` made at the end; nothing where that is not offered.
    ///
    /// # Errors
    /// The call failed.
    ///
    /// # Safety
    /// `user` is what `signalled` takes, until it was called.
    pub unsafe fn on_signal(&self, signalled: Signalled, user: *mut c_void) -> Call<Option<()>> {
        let Some(call) = self.table().fence_on_signal else {
            return Ok(None);
        };
        // SAFETY: the fence is alive, and `user` by the caller's promise.
        checked("fence_on_signal", |record| unsafe {
            call(self.raw, Some(signalled), user, record)
        })?;
        Ok(Some(()))
    }

    /// Asks the run to end early; nothing where that is not offered.
    ///
    /// # Errors
    /// The call failed.
    pub fn cancel(&self) -> Call<Option<()>> {
        let Some(call) = self.table().cancel else {
            return Ok(None);
        };
        // SAFETY: the fence is alive.
        checked("cancel", |record| unsafe { call(self.raw, record) })?;
        Ok(Some(()))
    }

    /// What the device measured; nothing where that is not offered.
    ///
    /// # Errors
    /// The call failed.
    pub fn timing(&self) -> Call<Option<Timing>> {
        let Some(call) = self.table().fence_timing else {
            return Ok(None);
        };
        let mut found = Timing::sized();
        // SAFETY: the fence is alive and the record is ours.
        checked("fence_timing", |record| unsafe {
            call(self.raw, &raw mut found, record)
        })?;
        Ok(Some(found))
    }

    /// The steps of the run, into room for `capacity`, and how many it states; nothing where that is not offered.
    ///
    /// # Errors
    /// The call failed.
    pub fn steps(&self, capacity: usize) -> Call<Option<(Vec<abi::polychip_step>, u64)>> {
        let Some(call) = self.table().fence_steps else {
            return Ok(None);
        };
        let mut steps = vec![abi::polychip_step::sized(); capacity];
        let mut count = 0;
        // SAFETY: the fence is alive and there is room for the stated capacity.
        checked("fence_steps", |record| unsafe {
            let stride = size_of::<abi::polychip_step>() as u64;
            call(
                self.raw,
                steps.as_mut_ptr(),
                capacity as u64,
                stride,
                &raw mut count,
                record,
            )
        })?;
        steps.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        Ok(Some((steps, count)))
    }

    /// The actual extents of an output port, into room for `capacity`, and the rank that it states;
    /// nothing where that is not offered.
    ///
    /// # Errors
    /// The call failed.
    pub fn output_dims(&self, port: u32, capacity: usize) -> Call<Option<(Vec<i64>, u64)>> {
        let Some(call) = self.table().fence_output_shape else {
            return Ok(None);
        };
        let mut dims = vec![i64::MIN; capacity];
        let mut rank = 0;
        // SAFETY: the fence is alive and there is room for the stated capacity.
        checked("fence_output_shape", |record| unsafe {
            call(
                self.raw,
                port,
                dims.as_mut_ptr(),
                capacity as u64,
                &raw mut rank,
                record,
            )
        })?;
        dims.truncate(usize::try_from(rank).unwrap_or(usize::MAX));
        Ok(Some((dims, rank)))
    }
}

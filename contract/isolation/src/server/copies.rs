//! Copies between memory of the plugin's own and the memory that both processes map, as parts of runs.
//!
//! Invariants:
//! 1. When the last run that uses a buffer has ended, what runs wrote there lies in shared memory. The host then
//!    reads it there, whether this process lives or not.
//! 2. A buffer is opened for the copy only while no run uses it.
//! 3. The plugin's callbacks copy nothing, because they must not block: a thread of its own does.

#![allow(
    unsafe_code,
    reason = "memory that the plugin opened is read and written here"
)]

use std::sync::{Arc, mpsc};

use polychip_abi as abi;

use super::Server;
use super::calls::checked;
use super::failure::failure;
use super::objects::{Buffer, Copies, Ended, Fence, Range, Use};
use super::requests::{CHECKED, Result, no_output};
use crate::message::{ExecuteRecord, FailureRecord};

impl Server {
    /// Copies what the host wrote for a run to the plugin's own memory, and marks its buffers as used.
    ///
    /// # Errors
    /// The plugin does not open a buffer, or there is no thread for the copies after the run.
    pub(super) fn begin_copies(
        &'static self,
        run: &ExecuteRecord,
        buffers: &[Arc<Buffer>],
    ) -> Result<Copies> {
        if buffers.iter().all(|buffer| buffer.copied.is_none()) {
            return Ok(Copies::default());
        }
        if self.table.fence_on_signal.is_some() {
            self.start_copier()?;
        }
        for (binding, buffer) in run.bindings.iter().zip(buffers) {
            if let Some(range) = binding.written.filter(|_| buffer.copied.is_some()) {
                self.copy_in(buffer, range)?;
                self.slots.count_moved(run.slot, range.1);
            }
        }
        let uses = run.bindings.iter().zip(buffers).filter_map(|(binding, buffer)| {
            Use::new(
                buffer,
                binding.is_output.then_some((binding.offset, binding.bytes)),
            )
        });
        Ok(Copies::of(uses.collect()))
    }

    /// Copies what a run that ended with `status` wrote. Returns the status of the whole.
    pub(super) fn end_copies(&self, fence: &Fence, status: u32) -> u32 {
        fence.copies.end(status, |buffer, range| {
            self.copy_out(buffer, range)?;
            self.slots.count_moved(fence.slot, range.1);
            Ok(())
        })
    }

    /// Tells the end of a run from a callback of the plugin: at once if nothing is copied.
    pub(super) fn end_soon(&self, fence: Arc<Fence>, status: u32) {
        match self.copier.get().filter(|_| fence.copies.any()) {
            Some(copier) => {
                // the thread lives as long as this process
                let _ = copier.send((fence, status));
            }
            None => self.end(&fence, status),
        }
    }

    /// Starts the thread that copies after runs, unless it runs.
    fn start_copier(&'static self) -> Result<()> {
        if self.copier.get().is_some() {
            return Ok(());
        }
        let (ends, ended) = mpsc::channel::<Ended>();
        let started = std::thread::Builder::new()
            .name("polychip-copies".to_owned())
            .spawn(move || {
                for (fence, status) in ended {
                    self.end(&fence, status);
                }
            });
        if let Err(error) = started {
            return Err(failure(
                abi::POLYCHIP_STATUS_OUT_OF_MEMORY,
                format!("a thread that copies outputs: {error}"),
            ));
        }
        // of two threads that came here at once, one has the other's work, and its own ends
        let _ = self.copier.set(ends);
        Ok(())
    }

    /// Copies a range from shared memory to the plugin's own.
    fn copy_in(&self, buffer: &Buffer, range: Range) -> Result<()> {
        self.opened(buffer, abi::POLYCHIP_ACCESS_WRITE, range, |data| {
            let shared = buffer.shared.as_ref().expect(SHARED);
            // SAFETY: the plugin opened the range for writing, and its first byte is at `data`.
            unsafe { shared.copy_out(range.0 as usize, data, range.1 as usize) }
        })
    }

    /// Copies a range from the plugin's own memory to shared memory.
    fn copy_out(&self, buffer: &Buffer, range: Range) -> Result<()> {
        self.opened(buffer, abi::POLYCHIP_ACCESS_READ, range, |data| {
            let shared = buffer.shared.as_ref().expect(SHARED);
            // SAFETY: the plugin opened the range for reading, and its first byte is at `data`.
            unsafe { shared.copy_in(range.0 as usize, data.cast_const(), range.1 as usize) }
        })
    }

    /// Opens a range of a buffer for a copy, and closes it again.
    fn opened(
        &self,
        buffer: &Buffer,
        access: u32,
        (offset, bytes): Range,
        copy: impl FnOnce(*mut u8) -> polychip_sdk::Result<()>,
    ) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let mut data = std::ptr::null_mut();
        let begin = self.table.buffer_begin_access.expect(CHECKED);
        // SAFETY: a live buffer.
        checked(|error| unsafe { begin(buffer.raw.0, access, offset, bytes, &raw mut data, error) })?;
        let copied = if data.is_null() {
            Err(no_output("buffer_begin_access"))
        } else {
            copy(data).map_err(FailureRecord::from)
        };
        let end = self.table.buffer_end_access.expect(CHECKED);
        // SAFETY: a live buffer with an open access.
        let closed = checked(|error| unsafe { end(buffer.raw.0, error) });
        copied.and(closed)
    }
}

const SHARED: &str = "invariant: a buffer that is copied has shared memory";

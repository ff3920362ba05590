//! Memory that the runtime knows: its own, or a file's by descriptor.
//!
//! Invariant: it is released once, before its context.

use std::sync::Arc;

use polychip_sdk::{Error, ErrorKind, Result};
use polychip_sys::rknn::bindings as rk;

use super::{Context, Driver, Seen};

/// Memory that the runtime knows.
pub(crate) struct DeviceMemory {
    context: Arc<Context>,
    raw: *mut rk::rknn_tensor_mem,
    bytes: usize,
}

// SAFETY: the runtime's own record, which nobody writes to; its calls name it only.
unsafe impl Send for DeviceMemory {}
// SAFETY: as above; maintenance of caches may come from any thread.
unsafe impl Sync for DeviceMemory {}

impl DeviceMemory {
    /// Memory of the runtime's.
    pub(crate) fn own(context: &Arc<Context>, bytes: usize) -> Result<DeviceMemory> {
        let size = size(bytes)?;
        let symbols = context.driver().library.symbols();
        // SAFETY: the context is open.
        let raw = unsafe { symbols.rknn_create_mem(context.handle(), size) };
        DeviceMemory::made(context, raw, bytes, "rknn_create_mem")
    }

    /// `bytes` bytes of a file's memory, from `offset` on; `start` is where the file's first byte is mapped.
    pub(crate) fn of_file(
        context: &Arc<Context>,
        fd: i32,
        start: *mut u8,
        offset: usize,
        bytes: usize,
    ) -> Result<DeviceMemory> {
        let size = size(bytes)?;
        let offset = i32::try_from(offset)
            .map_err(|_| Error::unsupported(format!("memory {offset} bytes into a file is too far")))?;
        let symbols = context.driver().library.symbols();
        // SAFETY: the descriptor is open and mapped at this address, and both outlive what is made, which the
        // buffer's holder sees to.
        let raw =
            unsafe { symbols.rknn_create_mem_from_fd(context.handle(), fd, start.cast(), size, offset) };
        DeviceMemory::made(context, raw, bytes, "rknn_create_mem_from_fd")
    }

    fn made(
        context: &Arc<Context>,
        raw: *mut rk::rknn_tensor_mem,
        bytes: usize,
        call: &'static str,
    ) -> Result<DeviceMemory> {
        if raw.is_null() {
            return Err(Error::new(
                ErrorKind::OutOfMemory,
                format!("{call} gives no memory of {bytes} bytes"),
            ));
        }
        Ok(DeviceMemory {
            context: Arc::clone(context),
            raw,
            bytes,
        })
    }

    /// Makes its context's model use it at a port.
    pub(crate) fn bind(&self, as_ours: &Seen) -> Result<()> {
        let mut attr = as_ours.0;
        let symbols = self.context.driver().library.symbols();
        // SAFETY: context and memory are alive; the runtime copies the record.
        let code = unsafe { symbols.rknn_set_io_mem(self.context.handle(), self.raw, &raw mut attr) };
        Driver::check("rknn_set_io_mem", code)
    }

    fn sync(&self, direction: u32) -> Result<()> {
        let library = self.context.driver().library;
        if !library.syncs() {
            // the runtime does it at each run, as the context's flags leave it to it
            return Ok(());
        }
        // SAFETY: context and memory are alive.
        let code = unsafe {
            library
                .symbols()
                .rknn_mem_sync(self.context.handle(), self.raw, direction as i32)
        };
        Driver::check("rknn_mem_sync", code)
    }

    /// Flushes writes of the CPU to the chip.
    pub(crate) fn flush(&self) -> Result<()> {
        self.sync(rk::RKNN_SYNC_TO_DEVICE)
    }

    /// Invalidates CPU caches after writes of the chip.
    pub(crate) fn invalidate(&self) -> Result<()> {
        self.sync(rk::RKNN_SYNC_FROM_DEVICE)
    }

    /// Copies into memory of the runtime's own.
    pub(crate) fn copy_in(&self, from: &[u8]) -> Result<()> {
        let to = self.place(from.len())?;
        // SAFETY: in range, mapped by the runtime, and used by the lane's run alone.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        Ok(())
    }

    /// Copies out of memory of the runtime's own.
    pub(crate) fn copy_out(&self, to: &mut [u8]) -> Result<()> {
        let from = self.place(to.len())?;
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    fn place(&self, bytes: usize) -> Result<*mut u8> {
        // SAFETY: the runtime's record lives as long as `self`.
        let address = unsafe { (*self.raw).virt_addr }.cast::<u8>();
        if address.is_null() || bytes > self.bytes {
            let what = format!(
                "{bytes} bytes for memory of {}, or memory that is not mapped",
                self.bytes
            );
            return Err(Error::new(ErrorKind::Persistent, what));
        }
        Ok(address)
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        let symbols = self.context.driver().library.symbols();
        // SAFETY: made by this context, which is alive, and let go of once.
        unsafe { symbols.rknn_destroy_mem(self.context.handle(), self.raw) };
    }
}

fn size(bytes: usize) -> Result<u32> {
    u32::try_from(bytes).map_err(|_| Error::unsupported(format!("memory of {bytes} bytes is too long")))
}

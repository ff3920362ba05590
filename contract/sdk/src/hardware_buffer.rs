//! Android `AHardwareBuffer`s of bytes, accessible to the CPU between lock and unlock.
//!
//! Invariants:
//! 1. The buffer is acquired once and released once.
//! 2. Its address is valid only until the unlock.

#![allow(unsafe_code, reason = "calls of Android's native library")]

use std::ptr::NonNull;

use ndk_sys::{
    AHardwareBuffer, AHardwareBuffer_Desc, AHardwareBuffer_Format, AHardwareBuffer_UsageFlags,
    AHardwareBuffer_acquire, AHardwareBuffer_describe, AHardwareBuffer_lock, AHardwareBuffer_release,
    AHardwareBuffer_unlock,
};

use crate::{Access, Error, ErrorKind, Result};

/// A buffer of the app's or the system's.
pub(crate) struct HardwareBuffer {
    raw: NonNull<AHardwareBuffer>,
    /// Size, in bytes.
    pub(crate) bytes: u64,
}

// SAFETY: Android's calls on such a buffer may come from any thread.
unsafe impl Send for HardwareBuffer {}
// SAFETY: as above.
unsafe impl Sync for HardwareBuffer {}

impl HardwareBuffer {
    /// Acquires the buffer behind a handle.
    ///
    /// # Errors
    /// `Unsupported` if it holds a picture rather than bytes.
    ///
    /// # Safety
    /// The handle is that of a live buffer.
    pub(crate) unsafe fn hold(handle: u64) -> Result<HardwareBuffer> {
        let raw = NonNull::new(handle as usize as *mut AHardwareBuffer)
            .ok_or_else(|| Error::bad_argument("a hardware buffer to import has no handle"))?;
        let mut said = AHardwareBuffer_Desc {
            width: 0,
            height: 0,
            layers: 0,
            format: 0,
            usage: 0,
            stride: 0,
            rfu0: 0,
            rfu1: 0,
        };
        // SAFETY: a live buffer, as the caller promises, and a record of our own.
        unsafe { AHardwareBuffer_describe(raw.as_ptr(), &raw mut said) };
        if said.format != AHardwareBuffer_Format::AHARDWAREBUFFER_FORMAT_BLOB.0 {
            return Err(Error::unsupported(format!(
                "a hardware buffer of format {} is not a buffer of bytes (AHARDWAREBUFFER_FORMAT_BLOB)",
                said.format
            )));
        }
        // SAFETY: as above; released when the value goes.
        unsafe { AHardwareBuffer_acquire(raw.as_ptr()) };
        Ok(HardwareBuffer {
            raw,
            bytes: u64::from(said.width),
        })
    }

    /// The buffer, as Android's and Vulkan's calls take it.
    pub(crate) fn handle(&self) -> u64 {
        self.raw.as_ptr() as usize as u64
    }

    /// Begins CPU access to the whole buffer, and returns the address of its first byte.
    ///
    /// # Errors
    /// The buffer was not made for CPU access.
    pub(crate) fn lock(&self, access: Access) -> Result<*mut u8> {
        let mut usage = 0;
        if access.read {
            usage |= AHardwareBuffer_UsageFlags::AHARDWAREBUFFER_USAGE_CPU_READ_OFTEN.0;
        }
        if access.write {
            usage |= AHardwareBuffer_UsageFlags::AHARDWAREBUFFER_USAGE_CPU_WRITE_OFTEN.0;
        }
        let mut data = std::ptr::null_mut();
        // SAFETY: held; no fence, the whole, and a place of our own for the address.
        let status =
            unsafe { AHardwareBuffer_lock(self.raw.as_ptr(), usage, -1, std::ptr::null(), &raw mut data) };
        if status != 0 || data.is_null() {
            let what = format!("Android refused CPU access to a hardware buffer (status {status})");
            return Err(Error::new(ErrorKind::Unsupported, what).with_vendor_code(i64::from(status)));
        }
        Ok(data.cast())
    }

    /// Ends the access that [`HardwareBuffer::lock`] began.
    ///
    /// # Errors
    /// Android refuses.
    pub(crate) fn unlock(&self) -> Result<()> {
        // SAFETY: held; without a place for a fence the call waits.
        let status = unsafe { AHardwareBuffer_unlock(self.raw.as_ptr(), std::ptr::null_mut()) };
        if status != 0 {
            let what = format!("Android refused to end CPU access to a hardware buffer (status {status})");
            return Err(Error::new(ErrorKind::Persistent, what).with_vendor_code(i64::from(status)));
        }
        Ok(())
    }
}

impl Drop for HardwareBuffer {
    fn drop(&mut self) {
        // SAFETY: acquired once, when the value was made.
        unsafe { AHardwareBuffer_release(self.raw.as_ptr()) }
    }
}

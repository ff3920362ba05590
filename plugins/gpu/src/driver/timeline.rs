//! How far a lane has come, as a semaphore that counts: a wait asks the driver itself, from any thread.
//!
//! Why: wgpu's own wait takes a lock, panics where two threads wait at once, and sees the end some microseconds later.
//!
//! Invariants:
//! 1. Each submission of the lane signals the next number; numbers end in order.
//! 2. The semaphore is destroyed when the last submission that signals it has ended, or never.

#![allow(unsafe_code, reason = "calls of Vulkan, and wgpu's own entries to it")]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ash::vk;
use polychip_sdk::{Error, ErrorKind, Result};
use wgpu::hal::api::Vulkan;

use super::vulkan::{Raw, failed};

/// Longest that the end of a lane waits for its last submission.
const PATIENCE: Duration = Duration::from_secs(5);

/// The semaphore of a lane.
pub(crate) struct Timeline {
    raw: Arc<Raw>,
    semaphore: vk::Semaphore,
    /// Number of the last submission.
    last: Mutex<u64>,
}

impl Timeline {
    /// A semaphore that stands at 0.
    ///
    /// # Errors
    /// Where the driver makes none.
    pub(crate) fn new(raw: &Arc<Raw>) -> Result<Timeline> {
        let mut kind = vk::SemaphoreTypeCreateInfo::default()
            .semaphore_type(vk::SemaphoreType::TIMELINE)
            .initial_value(0);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: the device is live, and has the feature: the caller asked.
        let semaphore = unsafe { raw.device().create_semaphore(&info, None) }
            .map_err(|result| failed("no semaphore", result))?;
        Ok(Timeline {
            raw: Arc::clone(raw),
            semaphore,
            last: Mutex::new(0),
        })
    }

    /// Submits, and gives the number that tells the end.
    pub(crate) fn submit(
        &self,
        queue: &wgpu::Queue,
        commands: Option<wgpu::CommandBuffer>,
    ) -> (wgpu::SubmissionIndex, u64) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last += 1;
        // SAFETY: the guard is dropped at once; nothing is destroyed through it.
        if let Some(queue) = unsafe { queue.as_hal::<Vulkan>() } {
            queue.add_signal_semaphore(self.semaphore, Some(*last));
        }
        (queue.submit(commands), *last)
    }

    /// Waits at most so long; whether the submission of this number has ended.
    ///
    /// # Errors
    /// `DeviceLost` where the driver says so.
    pub(crate) fn wait(&self, number: u64, timeout: Duration) -> Result<bool> {
        let (semaphores, numbers) = ([self.semaphore], [number]);
        let info = vk::SemaphoreWaitInfo::default()
            .semaphores(&semaphores)
            .values(&numbers);
        let timeout = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: a live device and semaphore.
        match unsafe { self.raw.device().wait_semaphores(&info, timeout) } {
            Ok(()) => Ok(true),
            Err(vk::Result::TIMEOUT) => Ok(false),
            Err(vk::Result::ERROR_DEVICE_LOST) => Err(Error::new(
                ErrorKind::DeviceLost,
                "the driver reported the loss of the GPU while a run was waited for",
            )),
            Err(result) => Err(failed("a run cannot be waited for", result)),
        }
    }
}

impl Drop for Timeline {
    fn drop(&mut self) {
        let last = *self.last.get_mut().unwrap_or_else(PoisonError::into_inner);
        if self.wait(last, PATIENCE).unwrap_or(false) {
            // SAFETY: whatever signals it has ended.
            unsafe { self.raw.device().destroy_semaphore(self.semaphore, None) }
        }
    }
}

//! A queue of Vulkan's and how far it has come, as a semaphore that counts: a wait asks the driver itself, from any
//! thread.
//!
//! Why: wgpu's own wait takes a lock, panics where two threads wait at once, and sees the end some microseconds later.
//!
//! Invariants:
//! 1. Each submission signals the next number; numbers end in order.
//! 2. Whatever is put into the queue, by wgpu or past it, is put there under one lock: Vulkan asks for that.
//! 3. What one queue wrote and the host saw end, the next submission of another sees: it waits for that number, which
//!    has been reached, so that it waits for nothing.
//! 4. The semaphore is destroyed when the last submission that signals it has ended, or never.

#![allow(unsafe_code, reason = "calls of Vulkan, and wgpu's own entries to it")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ash::vk;
use polychip_sdk::{Error, ErrorKind, Result};
use wgpu::hal::api::Vulkan;

use super::vulkan::{Raw, failed};

/// Longest that the end of a command queue waits for its last submission.
const PATIENCE: Duration = Duration::from_secs(5);

/// The queue of a command queue.
pub(crate) struct Timeline {
    raw: Arc<Raw>,
    queue: vk::Queue,
    semaphore: vk::Semaphore,
    /// Held while something is put into the queue.
    given: Mutex<Given>,
    /// Highest number that the host knows to be reached.
    reached: AtomicU64,
}

/// What a queue was given.
#[derive(Default)]
struct Given {
    /// Number of the last submission.
    last: u64,
    /// Number of the other queue that was waited for last.
    seen: u64,
}

impl Given {
    /// What the next submission is to wait for of another queue.
    fn behind<'a>(&self, other: Option<&'a Timeline>) -> Option<(&'a Timeline, u64)> {
        let other = other?;
        let reached = other.reached.load(Ordering::Acquire);
        (reached > self.seen).then_some((other, reached))
    }
}

impl Timeline {
    /// A semaphore that stands at 0, for a queue of this device.
    ///
    /// # Errors
    /// Where the driver makes none.
    pub(crate) fn new(raw: &Arc<Raw>, queue: vk::Queue) -> Result<Timeline> {
        let mut kind = vk::SemaphoreTypeCreateInfo::default()
            .semaphore_type(vk::SemaphoreType::TIMELINE)
            .initial_value(0);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: the device is live, and has the feature: the caller asked.
        let semaphore = unsafe { raw.device().create_semaphore(&info, None) }
            .map_err(|result| failed("no semaphore", result))?;
        Ok(Timeline {
            raw: Arc::clone(raw),
            queue,
            semaphore,
            given: Mutex::default(),
            reached: AtomicU64::new(0),
        })
    }

    /// Submits commands of wgpu's beside another queue, and gives the number that tells the end.
    pub(super) fn submit(
        &self,
        queue: &wgpu::Queue,
        commands: impl IntoIterator<Item = wgpu::CommandBuffer>,
        other: Option<&Timeline>,
    ) -> u64 {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let behind = given.behind(other);
        given.last += 1;
        // SAFETY: the guard is dropped at once; nothing is destroyed through it.
        if let Some(queue) = unsafe { queue.as_hal::<Vulkan>() } {
            queue.add_signal_semaphore(self.semaphore, Some(given.last));
            if let Some((other, number)) = behind {
                let stage = vk::PipelineStageFlags::ALL_COMMANDS;
                queue.add_wait_semaphore(other.semaphore, Some(number), stage);
                given.seen = number;
            }
        }
        queue.submit(commands);
        given.last
    }

    /// Submits recorded commands beside another queue, one submission each, and gives the number that tells the end
    /// of the last.
    ///
    /// # Errors
    /// `DeviceLost` and others, with the driver's message.
    ///
    /// # Safety
    /// The commands are of this device and family, none is under way, and they and what they use live until the
    /// number is reached.
    pub(super) unsafe fn submit_recorded(
        &self,
        commands: &[vk::CommandBuffer],
        other: Option<&Timeline>,
    ) -> Result<u64> {
        let (head, tail) = commands.split_at(commands.len().saturating_sub(1));
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let behind = given.behind(other);
        let number = given.last + 1;
        let (signals, numbers) = ([self.semaphore], [number]);
        let (waits, wait_numbers, stages) = match behind {
            Some((other, number)) => (
                [other.semaphore],
                [number],
                [vk::PipelineStageFlags::COMPUTE_SHADER],
            ),
            None => Default::default(),
        };
        let waited = usize::from(behind.is_some());
        for (index, part) in head.chunks(1).chain([tail]).enumerate() {
            let waited = if index == 0 { waited } else { 0 };
            let signalled = usize::from(index == head.len());
            let mut counts = vk::TimelineSemaphoreSubmitInfo::default()
                .wait_semaphore_values(&wait_numbers[..waited])
                .signal_semaphore_values(&numbers[..signalled]);
            let info = [vk::SubmitInfo::default()
                .command_buffers(part)
                .wait_semaphores(&waits[..waited])
                .wait_dst_stage_mask(&stages[..waited])
                .signal_semaphores(&signals[..signalled])
                .push_next(&mut counts)];
            // SAFETY: the queue is this timeline's and under its lock; the rest is the caller's promise.
            unsafe {
                self.raw
                    .device()
                    .queue_submit(self.queue, &info, vk::Fence::null())
            }
            .map_err(|result| match index {
                0 => failed("the driver takes no run", result),
                // its beginning is under way, and nothing will tell its end
                _ => Error::new(
                    ErrorKind::DeviceLost,
                    format!("the driver took a part of a run: {result}"),
                ),
            })?;
        }
        given.last = number;
        given.seen = wait_numbers[0].max(given.seen);
        Ok(number)
    }

    /// Waits at most so long; whether the submission of this number has ended.
    ///
    /// # Errors
    /// `DeviceLost` where the driver says so.
    pub(super) fn wait(&self, number: u64, timeout: Duration) -> Result<bool> {
        let (semaphores, numbers) = ([self.semaphore], [number]);
        let device = self.raw.device();
        let seen = if timeout.is_zero() {
            // a look is cheaper than a wait of no length
            // SAFETY: a live device and semaphore.
            unsafe { device.get_semaphore_counter_value(self.semaphore) }.map(|reached| reached >= number)
        } else {
            let info = vk::SemaphoreWaitInfo::default()
                .semaphores(&semaphores)
                .values(&numbers);
            let timeout = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
            // SAFETY: a live device and semaphore.
            unsafe { device.wait_semaphores(&info, timeout) }.map(|()| true)
        };
        match seen {
            Ok(ended) => {
                if ended {
                    self.reached.fetch_max(number, Ordering::AcqRel);
                }
                Ok(ended)
            }
            Err(vk::Result::TIMEOUT) => Ok(false),
            Err(vk::Result::ERROR_DEVICE_LOST) => Err(Error::new(
                ErrorKind::DeviceLost,
                "the driver reported the loss of the GPU while a run was waited for",
            )),
            Err(result) => Err(failed("a run cannot be waited for", result)),
        }
    }

    /// Waits at most so long until all that was submitted has ended.
    ///
    /// # Errors
    /// `DeviceLost` where the driver says so.
    pub(super) fn drain(&self, timeout: Duration) -> Result<bool> {
        let last = self.given.lock().unwrap_or_else(PoisonError::into_inner).last;
        self.wait(last, timeout)
    }
}

impl Drop for Timeline {
    fn drop(&mut self) {
        if self.drain(PATIENCE).unwrap_or(false) {
            // SAFETY: whatever signals it has ended.
            unsafe { self.raw.device().destroy_semaphore(self.semaphore, None) }
        }
    }
}

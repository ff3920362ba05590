//! A lane: one queue of the GPU, as a device of wgpu, with the waits for what was put into it.
//!
//! Invariant: submissions of one lane end in the order in which they were made.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use polychip_sdk::{Error, ErrorKind, Result};

/// A lane.
pub(crate) struct Lane {
    /// What makes resources.
    pub(crate) device: wgpu::Device,
    /// What takes work.
    pub(crate) queue: wgpu::Queue,
}

impl Lane {
    /// Waits at most so long for a submission; whether it has ended.
    ///
    /// # Errors
    /// Where the driver says that the device is lost.
    pub(crate) fn wait(&self, submission: &wgpu::SubmissionIndex, timeout: Duration) -> Result<bool> {
        let poll = wgpu::PollType::Wait {
            submission_index: Some(submission.clone()),
            timeout: Some(timeout),
        };
        // wgpu panics where the driver reports a loss
        match catch_unwind(AssertUnwindSafe(|| self.device.poll(poll))) {
            Ok(Ok(_)) => Ok(true),
            Ok(Err(wgpu::PollError::Timeout)) => Ok(false),
            Ok(Err(error)) => Err(Error::new(ErrorKind::DeviceLost, error.to_string())),
            Err(_) => Err(Error::new(
                ErrorKind::DeviceLost,
                "the driver reported the loss of the GPU while a run was waited for",
            )),
        }
    }

    /// Waits at most so long until nothing is left to do; whether that is so.
    pub(crate) fn is_idle(&self, timeout: Duration) -> bool {
        let last = catch_unwind(AssertUnwindSafe(|| self.queue.submit([])));
        // a lost device has nothing left to do that could be waited for
        last.is_ok_and(|last| self.wait(&last, timeout).unwrap_or(false))
    }
}

//! A command queue: one queue of the GPU, as a device of wgpu, with waits for its submissions.
//!
//! Invariants:
//! 1. Submissions of one command queue end in the order in which they were made.
//! 2. Where the driver counts (`timeline`), a wait asks it and nothing of wgpu's. Elsewhere a panic of wgpu's that tells of a
//!    race in its own books is no loss: where a wait runs out while another thread sees the end (it polls or
//!    submits), wgpu 30 panics ("If the queue is empty …"). One thread at a time waits, so that this stays rare.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use polychip_sdk::{Error, ErrorKind, Result};

#[cfg(any(target_os = "linux", target_os = "android", windows))]
use super::timeline::Timeline;

/// No driver counts where there is no Vulkan.
#[cfg(not(any(target_os = "linux", target_os = "android", windows)))]
pub(crate) enum Timeline {}

#[cfg(not(any(target_os = "linux", target_os = "android", windows)))]
impl Timeline {
    fn submit(
        &self,
        _queue: &wgpu::Queue,
        _commands: impl IntoIterator<Item = wgpu::CommandBuffer>,
        _other: Option<&Timeline>,
    ) -> u64 {
        match *self {}
    }

    fn wait(&self, _number: u64, _timeout: Duration) -> Result<bool> {
        match *self {}
    }

    fn drain(&self, _timeout: Duration) -> Result<bool> {
        match *self {}
    }
}

/// Longest time that one thread polls: submissions of others may end earlier.
const POLL_SLICE: Duration = Duration::from_millis(2);

/// A command queue.
pub(crate) struct CommandQueue {
    /// What makes resources.
    pub(crate) device: wgpu::Device,
    /// What takes work.
    pub(crate) queue: wgpu::Queue,
    /// Held while a thread polls wgpu.
    poll_lock: Mutex<()>,
    timeline: Option<Arc<Timeline>>,
    /// The other command queue's.
    other: Option<Arc<Timeline>>,
}

/// A submission: what a wait is for.
#[derive(Clone)]
pub(crate) enum Submission {
    /// What wgpu calls it, where the driver does not count.
    Index(wgpu::SubmissionIndex),
    /// Its number in the command queue's timeline.
    Number(u64),
}

impl CommandQueue {
    pub(crate) fn new(device: wgpu::Device, queue: wgpu::Queue, timeline: Option<Timeline>) -> CommandQueue {
        CommandQueue {
            device,
            queue,
            poll_lock: Mutex::new(()),
            timeline: timeline.map(Arc::new),
            other: None,
        }
    }

    /// Hands commands to the queue; without any, what was written to buffers before.
    pub(crate) fn submit(&self, commands: impl IntoIterator<Item = wgpu::CommandBuffer>) -> Submission {
        match &self.timeline {
            Some(timeline) => {
                Submission::Number(timeline.submit(&self.queue, commands, self.other.as_deref()))
            }
            None => Submission::Index(self.queue.submit(commands)),
        }
    }

    /// Whether the driver counts what has ended.
    #[cfg(any(target_os = "linux", target_os = "android", windows))]
    pub(super) fn counts(&self) -> bool {
        self.timeline.is_some()
    }

    /// Names the other command queue: what that one wrote and the host saw end, this one sees.
    #[cfg(any(target_os = "linux", target_os = "android", windows))]
    pub(super) fn set_other(&mut self, other: &CommandQueue) {
        self.other = other.timeline.clone();
    }

    /// What counts here, and in the other command queue.
    #[cfg(any(target_os = "linux", target_os = "android", windows))]
    pub(super) fn timelines(&self) -> Option<(&Arc<Timeline>, Option<&Timeline>)> {
        Some((self.timeline.as_ref()?, self.other.as_deref()))
    }

    /// Lets wgpu see what has ended, so that buffers that were to be mapped are.
    pub(crate) fn settle(&self) {
        let _polling = self.poll_lock.lock().unwrap_or_else(PoisonError::into_inner);
        // a loss is told by the next wait
        let _ = catch_unwind(AssertUnwindSafe(|| self.device.poll(wgpu::PollType::Poll)));
    }

    /// Waits at most so long for a submission; whether it is known to have ended.
    ///
    /// # Errors
    /// Where the driver says that the device is lost.
    pub(crate) fn wait(&self, submission: &Submission, timeout: Duration) -> Result<bool> {
        let submission = match (&self.timeline, submission) {
            (Some(timeline), Submission::Number(number)) => return timeline.wait(*number, timeout),
            (_, Submission::Index(submission)) => submission,
            (None, Submission::Number(_)) => return Err(Error::unsupported("a number of another queue's")),
        };
        let begin = Instant::now();
        loop {
            let left = timeout.saturating_sub(begin.elapsed());
            if self.ask(submission, left.min(POLL_SLICE))? {
                return Ok(true);
            }
            if left.is_zero() {
                return Ok(false);
            }
        }
    }

    /// Polls once.
    fn ask(&self, submission: &wgpu::SubmissionIndex, timeout: Duration) -> Result<bool> {
        let _polling = match self.poll_lock.try_lock() {
            Ok(polling) => polling,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) if timeout.is_zero() => return Ok(false),
            Err(TryLockError::WouldBlock) => self.poll_lock.lock().unwrap_or_else(PoisonError::into_inner),
        };
        let poll = wgpu::PollType::Wait {
            submission_index: Some(submission.clone()),
            timeout: Some(timeout),
        };
        // wgpu panics where the driver reports a loss
        match catch_unwind(AssertUnwindSafe(|| self.device.poll(poll))) {
            Ok(Ok(_)) => Ok(true),
            Ok(Err(wgpu::PollError::Timeout)) => Ok(false),
            Ok(Err(error)) => Err(Error::new(ErrorKind::DeviceLost, error.to_string())),
            Err(message) if is_race(message.as_ref()) => Ok(false),
            Err(_) => Err(Error::new(
                ErrorKind::DeviceLost,
                "the driver reported the loss of the GPU while a run was waited for",
            )),
        }
    }

    /// Runs calls of wgpu that report through error scopes.
    ///
    /// # Errors
    /// What the scopes caught: `OutOfMemory`, or `Persistent` with wgpu's message.
    pub(crate) fn caught<T>(&self, call: impl FnOnce() -> T) -> Result<T> {
        let full = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let wrong = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let inner = self.device.push_error_scope(wgpu::ErrorFilter::Internal);
        let made = call();
        let inner = pollster::block_on(inner.pop());
        let wrong = pollster::block_on(wrong.pop());
        let full = pollster::block_on(full.pop());
        if let Some(error) = full {
            return Err(Error::new(ErrorKind::OutOfMemory, error.to_string()));
        }
        match wrong.or(inner) {
            None => Ok(made),
            Some(error) => Err(Error::new(ErrorKind::Persistent, error.to_string())),
        }
    }

    /// Waits at most so long until nothing is left to do; whether that is so.
    pub(crate) fn is_idle(&self, timeout: Duration) -> bool {
        if let Some(timeline) = &self.timeline {
            return timeline.drain(timeout).unwrap_or(false);
        }
        let last = catch_unwind(AssertUnwindSafe(|| self.submit(None)));
        // a lost device has nothing left to do that could be waited for
        last.is_ok_and(|last| self.wait(&last, timeout).unwrap_or(false))
    }
}

/// Whether a panic says that the end was seen by another thread while the wait ran out: the next look finds it.
fn is_race(message: &(dyn Any + Send)) -> bool {
    const WORDS: &str = "If the queue is empty";
    let text = message.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| message.downcast_ref::<&str>().copied());
    text.is_some_and(|text| text.starts_with(WORDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wgpu_bookkeeping_race_is_not_a_device_loss() {
        let is_text_race = |text: &str| is_race(&text.to_owned());
        assert!(is_text_race(
            "If the queue is empty, the current submission index (3) should be at least"
        ));
        assert!(!is_text_race("Parent device is lost") && !is_race(&7u8));
        assert!(is_race(&"If the queue is empty"));
    }
}

//! An open device: its context, and a queue per lane.
//!
//! Invariants:
//! 1. Each queue is in order. The last lane is the urgent one, with a higher priority where the driver has such.
//! 2. A device that was lost stays lost; opening it anew gives another number.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, Weak};

use opencl3::command_queue::{CL_QUEUE_PROFILING_ENABLE, CommandQueue};
use opencl3::context::Context;
use opencl3::error_codes::ClError;
use opencl3::program::Program;
use polychip_sdk::{Error, ErrorKind, Result};

use super::found::Found;
use super::said;

/// Lanes of a device: batch and normal runs, urgent ones.
pub(crate) const LANES: usize = 2;

/// `CL_QUEUE_PROPERTIES`, `CL_QUEUE_PRIORITY_KHR` and `CL_QUEUE_PRIORITY_HIGH_KHR` of OpenCL's headers.
const PROPERTIES: u64 = 0x1093;
const PRIORITY: u64 = 0x1096;
const HIGH: u64 = 1;

static OPENED: AtomicU64 = AtomicU64::new(1);

/// An open device.
pub struct Gpu {
    /// Which opening it is.
    pub(crate) number: u64,
    pub(crate) found: Found,
    pub(crate) context: Context,
    pub(crate) queues: Vec<CommandQueue>,
    /// Whether the device uses host memory in place.
    pub(crate) shares: bool,
    lost: OnceLock<String>,
    /// Programs that are loaded, by their text.
    pub(super) programs: Mutex<HashMap<String, Weak<Program>>>,
}

impl Gpu {
    /// An open device that is not known to share memory.
    ///
    /// # Errors
    /// The driver's words.
    pub(super) fn new(found: &Found) -> Result<Gpu> {
        let context =
            Context::from_device(&found.device).map_err(|error| said("the device does not open", error))?;
        let queues = (0..LANES)
            .map(|lane| queue(found, &context, lane + 1 == LANES))
            .collect::<Result<Vec<_>>>()?;
        Ok(Gpu {
            number: OPENED.fetch_add(1, Ordering::Relaxed),
            found: found.clone(),
            context,
            queues,
            shares: false,
            lost: OnceLock::new(),
            programs: Mutex::default(),
        })
    }

    /// Whether anything may still be expected of it.
    ///
    /// # Errors
    /// `DeviceLost`, with what happened.
    pub(crate) fn alive(&self) -> Result<()> {
        match self.lost.get() {
            None => Ok(()),
            Some(words) => Err(Error::new(ErrorKind::DeviceLost, words.clone())),
        }
    }

    /// Says that it is lost.
    pub(crate) fn lose(&self, words: String) {
        // the first reason counts
        let _ = self.lost.set(words);
    }

    /// An error of what was enqueued: from then on nothing of the device can be relied on.
    pub(crate) fn broken(&self, error: ClError) -> Error {
        let code = error.0;
        let of = said("a run failed on the device", error);
        if of.kind() == ErrorKind::OutOfMemory {
            return of;
        }
        self.lose(of.to_string());
        Error::new(ErrorKind::DeviceLost, of.to_string()).with_vendor_code(code.into())
    }
}

#[allow(unsafe_code, reason = "a queue is made by a call of the driver")]
fn queue(found: &Found, context: &Context, urgent: bool) -> Result<CommandQueue> {
    let refuse = |error| said("the device gives no queue", error);
    if !found.modern {
        // SAFETY: the device is the context's.
        return unsafe { CommandQueue::create(context, found.device.id(), CL_QUEUE_PROFILING_ENABLE) }
            .map_err(refuse);
    }
    let mut list = [PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0, 0, 0];
    if urgent && found.priorities {
        list[2] = PRIORITY;
        list[3] = HIGH;
    }
    // SAFETY: the device is the context's, the list ends with zero.
    let raw = unsafe {
        opencl3::command_queue::create_command_queue_with_properties(
            context.get(),
            found.device.id(),
            list.as_ptr(),
        )
    }
    .map_err(|code| refuse(ClError(code)))?;
    Ok(CommandQueue::new(raw, 3))
}

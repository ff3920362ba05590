//! An open device: its context, and its command queues.
//!
//! Invariants:
//! 1. Each queue is in order. The last queue is the urgent one, with a higher priority where the driver has such.
//! 2. A device that was lost stays lost; opening it anew gives another number.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, Weak};

use opencl3::command_queue::{CL_QUEUE_PROFILING_ENABLE, CommandQueue};
use opencl3::context::Context;
use opencl3::error_codes::ClError;
use opencl3::program::Program;
use polychip_sdk::{Error, ErrorKind, Result};

use super::discovery::ClDevice;
use super::said;

/// Command queues of a device: batch and normal runs, urgent runs.
pub(crate) const QUEUES: usize = 2;

/// `CL_QUEUE_PROPERTIES`, `CL_QUEUE_PRIORITY_KHR` and `CL_QUEUE_PRIORITY_HIGH_KHR` of OpenCL's headers.
const PROPERTIES: u64 = 0x1093;
const PRIORITY: u64 = 0x1096;
const HIGH: u64 = 1;

static OPENED: AtomicU64 = AtomicU64::new(1);

/// An open device.
pub struct Gpu {
    /// Which opening it is.
    pub(crate) number: u64,
    pub(crate) cl_device: ClDevice,
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
    /// The driver's message.
    pub(super) fn new(cl_device: &ClDevice) -> Result<Gpu> {
        let context = Context::from_device(&cl_device.device)
            .map_err(|error| said("the device does not open", error))?;
        let queues = (0..QUEUES)
            .map(|index| queue(cl_device, &context, index + 1 == QUEUES))
            .collect::<Result<Vec<_>>>()?;
        Ok(Gpu {
            number: OPENED.fetch_add(1, Ordering::Relaxed),
            cl_device: cl_device.clone(),
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
            Some(message) => Err(Error::new(ErrorKind::DeviceLost, message.clone())),
        }
    }

    /// Says that it is lost.
    pub(crate) fn lose(&self, message: String) {
        // the first reason counts
        let _ = self.lost.set(message);
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
fn queue(cl_device: &ClDevice, context: &Context, urgent: bool) -> Result<CommandQueue> {
    let refuse = |error| said("the device gives no queue", error);
    if !cl_device.modern {
        // SAFETY: the device is the context's.
        return unsafe { CommandQueue::create(context, cl_device.device.id(), CL_QUEUE_PROFILING_ENABLE) }
            .map_err(refuse);
    }
    let mut list = [PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0, 0, 0];
    if urgent && cl_device.priorities {
        list[2] = PRIORITY;
        list[3] = HIGH;
    }
    // SAFETY: the device is the context's, the list ends with zero.
    let raw = unsafe {
        opencl3::command_queue::create_command_queue_with_properties(
            context.get(),
            cl_device.device.id(),
            list.as_ptr(),
        )
    }
    .map_err(|code| refuse(ClError(code)))?;
    Ok(CommandQueue::new(raw, 3))
}

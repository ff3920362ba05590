//! A reusable run: bindings are made once, and starting it does not allocate.
//!
//! Invariants:
//! 1. Bindings change only while no run of the submission is in flight.
//! 2. Buffers and executable live until the run's fence has signalled.
//! 3. A run starts only if every port has a buffer of the same device that is large enough.

#![allow(unsafe_code)]

use std::sync::Arc;

use polychip_abi as abi;
use polychip_abi::Sized;

use crate::buffer::Buffer;
use crate::error::{Error, ErrorKind, Result};
use crate::executable::Executable;
use crate::fence::Fence;
use crate::run_resources::RunResources;

/// Urgency of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Priority {
    /// Background work.
    Batch,
    /// Normal work.
    #[default]
    Normal,
    /// Latency-critical work, such as a frame that a user waits for.
    Urgent,
}

/// The bindings and options of a run.
pub struct Submission {
    /// Urgency of the next run.
    pub priority: Priority,
    /// Time after which the result is worthless, on the host's clock, in nanoseconds.
    pub deadline_ns: Option<u64>,
    /// Whether the device measures every step of the next run, if it can.
    pub measures_steps: bool,
    bindings: Vec<abi::polychip_binding>,
    dims: Vec<[i64; abi::POLYCHIP_MAX_RANK]>,
    waits: Vec<*mut abi::polychip_fence>,
    resources: Arc<RunResources>,
}

// SAFETY: the raw pointers are addresses of objects that `resources` holds, or of `dims`, which moves with
// the submission without moving in memory; fences in `waits` are used during `start` only.
unsafe impl Send for Submission {}
// SAFETY: shared references give no access to the pointers.
unsafe impl Sync for Submission {}

impl Submission {
    /// A submission of this executable with nothing bound. Its runs wait for at most `most_waits`
    /// fences without allocating.
    #[must_use]
    pub fn new(executable: &Executable, most_waits: usize) -> Submission {
        let count = executable.ports().len();
        let bindings = (0..count)
            .map(|port| abi::polychip_binding {
                port: u32::try_from(port).expect("invariant: ports are counted in 32 bits"),
                ..Sized::sized()
            })
            .collect();
        Submission {
            priority: Priority::Normal,
            deadline_ns: None,
            measures_steps: false,
            bindings,
            dims: vec![[0; abi::POLYCHIP_MAX_RANK]; count],
            waits: Vec::with_capacity(most_waits),
            resources: Arc::new(RunResources {
                executable: executable.clone(),
                buffers: vec![None; count],
            }),
        }
    }

    /// Binds a buffer of the executable's device to a port, starting at byte `offset`.
    ///
    /// # Errors
    /// A run is in flight, the port does not exist, or the buffer is too small or belongs to
    /// another device.
    pub fn bind(&mut self, port: u32, buffer: &Arc<Buffer>, offset: u64) -> Result<()> {
        self.bind_bytes(port, buffer, offset, 0)
    }

    /// Binds all of a buffer to a port, which may then hold more bytes than it states.
    ///
    /// # Errors
    /// As [`Submission::bind`].
    pub fn bind_whole(&mut self, port: u32, buffer: &Arc<Buffer>) -> Result<()> {
        self.bind_bytes(port, buffer, 0, buffer.bytes())
    }

    /// Binds `bytes` bytes, or as many as the port states if that is more.
    fn bind_bytes(&mut self, port: u32, buffer: &Arc<Buffer>, offset: u64, bytes: u64) -> Result<()> {
        let Some(resources) = Arc::get_mut(&mut self.resources) else {
            let name = &self.resources.executable.0.device.name;
            return Err(Error::new(
                ErrorKind::InUse,
                name,
                "a run of this submission is in flight",
            ));
        };
        let device = &resources.executable.0.device;
        let wrong = |words: String| {
            Error::new(
                ErrorKind::BadArgument,
                &device.name,
                format!("port {port}: {words}"),
            )
        };
        let Some(described) = resources.executable.ports().get(port as usize) else {
            return Err(wrong("the executable has no such port".into()));
        };
        if !Arc::ptr_eq(&buffer.device, device) {
            return Err(wrong(format!("the buffer belongs to {}", buffer.device.name)));
        }
        let bytes = described.bytes.max(bytes);
        let end = offset.checked_add(bytes);
        if end.is_none_or(|end| end > buffer.bytes()) {
            return Err(wrong(format!(
                "it needs {bytes} bytes at offset {offset}, the buffer has {}",
                buffer.bytes()
            )));
        }
        if !offset.is_multiple_of(described.alignment) {
            return Err(wrong(format!(
                "offset {offset} is not a multiple of its alignment {}",
                described.alignment
            )));
        }
        let binding = &mut self.bindings[port as usize];
        binding.buffer = buffer.raw;
        binding.offset = offset;
        binding.bytes = bytes;
        resources.buffers[port as usize] = Some(Arc::clone(buffer));
        Ok(())
    }

    /// Sets the actual extents of an input whose port has upper bounds.
    ///
    /// # Errors
    /// The port does not exist, or the rank is too high.
    pub fn set_dims(&mut self, port: u32, dims: &[i64]) -> Result<()> {
        let (Some(slot), Some(binding)) = (
            self.dims.get_mut(port as usize),
            self.bindings.get_mut(port as usize),
        ) else {
            let words = format!("port {port}: the executable has no such port");
            return Err(Error::new(
                ErrorKind::BadArgument,
                &self.resources.executable.0.device.name,
                words,
            ));
        };
        let Some(slot_dims) = slot.get_mut(..dims.len()) else {
            let words = format!(
                "port {port}: rank {} is above {}",
                dims.len(),
                abi::POLYCHIP_MAX_RANK
            );
            return Err(Error::new(
                ErrorKind::BadArgument,
                &self.resources.executable.0.device.name,
                words,
            ));
        };
        slot_dims.copy_from_slice(dims);
        binding.rank = dims.len() as u64;
        Ok(())
    }

    /// Starts a run of `executable`, for which the submission was made.
    pub(crate) fn start(&mut self, executable: &Executable, waits: &[&Fence]) -> Result<Fence> {
        let device = Arc::clone(&executable.0.device);
        let wrong = |words: String| Error::new(ErrorKind::BadArgument, &device.name, words);
        if !Arc::ptr_eq(&executable.0, &self.resources.executable.0) {
            return Err(wrong("the submission was made for another executable".into()));
        }
        if let Some(port) = self.resources.buffers.iter().position(Option::is_none) {
            return Err(wrong(format!("port {port} has no buffer")));
        }
        self.waits.clear();
        for fence in waits {
            if !Arc::ptr_eq(&fence.device().instance, &device.instance) {
                return Err(wrong(format!(
                    "it cannot wait for a fence of {}",
                    fence.device().name
                )));
            }
            self.waits.push(fence.raw());
        }
        for (binding, dims) in self.bindings.iter_mut().zip(&self.dims) {
            binding.dims = if binding.rank > 0 {
                dims.as_ptr()
            } else {
                std::ptr::null()
            };
        }
        let buffers = &self.resources.buffers;
        for (index, buffer) in buffers.iter().flatten().enumerate() {
            if let Err(words) = buffer.begin_run() {
                buffers[..index]
                    .iter()
                    .flatten()
                    .for_each(|buffer| buffer.end_run());
                return Err(Error::new(ErrorKind::InUse, &device.name, words));
            }
        }
        let mut submit = abi::polychip_submit::sized();
        submit.priority = match self.priority {
            Priority::Batch => abi::POLYCHIP_PRIORITY_BATCH,
            Priority::Normal => abi::POLYCHIP_PRIORITY_NORMAL,
            Priority::Urgent => abi::POLYCHIP_PRIORITY_URGENT,
        };
        submit.bindings = self.bindings.as_ptr();
        submit.binding_count = self.bindings.len() as u64;
        submit.binding_stride = size_of::<abi::polychip_binding>() as u64;
        submit.waits = self.waits.as_ptr();
        submit.wait_count = self.waits.len() as u64;
        submit.deadline_ns = self.deadline_ns.unwrap_or(abi::POLYCHIP_NO_DEADLINE);
        if self.measures_steps {
            submit.flags |= abi::POLYCHIP_SUBMIT_STEPS;
        }
        let call = device
            .table()
            .execute
            .expect("invariant: required calls are checked");
        let mut raw = std::ptr::null_mut();
        let mut record = abi::polychip_error::sized();
        device.executing.begin();
        // SAFETY: the executable is alive; bindings, dims and waits are valid for the call; buffers live
        // until the fence has signalled, because it holds `resources`.
        let status = unsafe { call(executable.0.raw, &raw const submit, &raw mut raw, &raw mut record) };
        device.executing.end();
        if let Err(error) = device.check_since(executable.0.resets, "execute", status, &record) {
            self.resources.end_run();
            return Err(error);
        }
        if raw.is_null() {
            self.resources.end_run();
            return Err(Error::new(
                ErrorKind::BadPlugin,
                &device.name,
                "execute returned no fence",
            ));
        }
        Ok(Fence::new(Arc::clone(&self.resources), raw))
    }
}

impl Executable {
    /// Starts a run and returns its fence without waiting for the run. The run first waits for
    /// `waits`, which come from the same plugin.
    ///
    /// # Errors
    /// A port has no buffer, the host is accessing the memory, or the device is quarantined or
    /// refused.
    pub fn execute(&self, submission: &mut Submission, waits: &[&Fence]) -> Result<Fence> {
        self.0.device.usable()?;
        if self.is_void() {
            return Err(Error::new(
                ErrorKind::DeviceLost,
                &self.0.device.name,
                "the executable was loaded before the device was reset",
            ));
        }
        submission.start(self, waits)
    }
}

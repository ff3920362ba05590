//! Runs: their start, and how the host learns of their end.
//!
//! Invariant: the end of a run is reported once, whether a callback, a waiting thread or the host's own
//! wait sees it first, and after what the run wrote can be read in shared memory.

#![allow(unsafe_code, reason = "the plugin's table is called here")]

use std::ffi::c_void;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use polychip_abi as abi;
use polychip_abi::Sized;

use super::Server;
use super::calls::{checked, text, values};
use super::failure::failure;
use super::objects::{Copies, Fence, Handle};
use super::requests::{Answered, CHECKED, Result, made, no_output, optional, plain};
use crate::fence_slots::SLOTS;
use crate::message::{ExecuteRecord, Reply, StepRecord};

/// Most steps that are read of a run.
const MOST_STEPS: u64 = 1 << 20;

impl Server {
    pub(super) fn execute(&'static self, run: &ExecuteRecord) -> Answered {
        for fence in &run.destroyed {
            drop(self.objects.fences.remove(*fence));
        }
        if run.slot >= SLOTS {
            return Err(failure(
                abi::POLYCHIP_STATUS_BAD_ARGUMENT,
                format!("slot {} of {SLOTS}", run.slot),
            ));
        }
        let executable = self.objects.executables.get(run.executable)?;
        let mut bindings = Vec::with_capacity(run.bindings.len());
        let mut buffers = Vec::with_capacity(run.bindings.len());
        for binding in &run.bindings {
            let buffer = self.objects.buffers.get(binding.buffer)?;
            let (dims, rank) = match &binding.dims {
                Some((rank, dims)) => (dims.as_ptr(), u64::from(*rank).min(dims.len() as u64)),
                None => (std::ptr::null(), 0),
            };
            bindings.push(abi::polychip_binding {
                port: binding.port,
                buffer: buffer.raw.0,
                offset: binding.offset,
                bytes: binding.bytes,
                dims,
                rank,
                ..Sized::sized()
            });
            buffers.push(buffer);
        }
        let copies = self.begin_copies(run, &buffers)?;
        let waited = run
            .waits
            .iter()
            .map(|fence| self.objects.fences.get(*fence))
            .collect::<Result<Vec<_>>>()?;
        let waits: Vec<*mut abi::polychip_fence> = waited.iter().map(|fence| fence.raw.0).collect();
        let submit = abi::polychip_submit {
            priority: run.priority,
            bindings: bindings.as_ptr(),
            binding_count: bindings.len() as u64,
            binding_stride: size_of::<abi::polychip_binding>() as u64,
            waits: waits.as_ptr(),
            wait_count: waits.len() as u64,
            deadline_ns: run.deadline_ns,
            flags: run.flags,
            ..Sized::sized()
        };
        let mut raw = std::ptr::null_mut();
        let call = self.table.execute.expect(CHECKED);
        // SAFETY: a live executable; bindings, extents and waits live during the call, and the host keeps
        // buffers until the run has ended.
        checked(|error| unsafe { call(executable.raw.0, &raw const submit, &raw mut raw, error) })?;
        self.watch(made(raw, "execute")?, run.fence, run.slot, copies);
        plain(Reply::Done)
    }

    /// Registers a fence, and has its end told through its slot.
    fn watch(&'static self, raw: Handle<abi::polychip_fence>, number: u64, slot: u32, copies: Copies) {
        let fence = Arc::new(Fence {
            raw,
            destroy: self.table.fence_destroy,
            slot,
            copies,
        });
        self.objects.fences.insert(number, Arc::clone(&fence));
        if let Some(call) = self.table.fence_on_signal {
            let user = Box::into_raw(Box::new(Signalled {
                server: self,
                fence: Arc::clone(&fence),
            }));
            // SAFETY: a live fence; `user` is held until the one callback.
            let registered = checked(|error| unsafe { call(raw.0, Some(signalled), user.cast(), error) });
            if registered.is_ok() {
                return;
            }
            // SAFETY: a call that failed does not keep it, by the contract.
            drop(unsafe { Box::from_raw(user) });
        }
        if self.is_virtual {
            // waiting would advance the clock; the host waits by requests
            return;
        }
        let waiter = std::thread::Builder::new().name("polychip-fence".to_owned());
        let started = waiter.spawn(move || {
            let _ = self.wait(&fence, u64::MAX);
        });
        if let Err(error) = started {
            // lost, not failed: the run continues, so the host may not use its memory before a reset
            eprintln!("the end of a run cannot be watched: a thread: {error}");
            if self.slots.end(slot, abi::POLYCHIP_STATUS_DEVICE_LOST, None) {
                self.tell(slot);
            }
        }
    }

    /// Waits for a run, and reports its end if it has ended.
    pub(super) fn wait(&self, fence: &Fence, timeout_ns: u64) -> Result<()> {
        let call = self.table.fence_wait.expect(CHECKED);
        // SAFETY: a live fence.
        let ended = checked(|error| unsafe { call(fence.raw.0, timeout_ns, error) });
        match &ended {
            Err(failed) if failed.status == abi::POLYCHIP_STATUS_TIMEOUT => {}
            Err(failed) => self.end(fence, failed.status),
            Ok(()) => {
                self.end(fence, abi::POLYCHIP_STATUS_OK);
                return fence.copies.result();
            }
        }
        ended
    }

    /// Tells the end of a run, once: after what it wrote is in shared memory. Calls the plugin, which may block.
    pub(super) fn end(&self, fence: &Fence, status: u32) {
        let status = self.end_copies(fence, status);
        let mut timing = abi::polychip_timing::sized();
        let measured = self.table.fence_timing.is_some_and(|call| {
            // SAFETY: a live fence.
            checked(|error| unsafe { call(fence.raw.0, &raw mut timing, error) }).is_ok()
        });
        if self.slots.end(fence.slot, status, measured.then_some(&timing)) {
            self.tell(fence.slot);
        }
    }

    pub(super) fn output_shape(&self, fence: u64, port: u32) -> Answered {
        let fence = self.objects.fences.get(fence)?;
        let call = optional(self.table.fence_output_shape, "fence_output_shape")?;
        let mut dims = [0i64; abi::POLYCHIP_MAX_RANK];
        let mut rank = 0u64;
        let capacity = dims.len() as u64;
        // SAFETY: a live fence, and room for the stated capacity.
        checked(|error| unsafe {
            call(
                fence.raw.0,
                port,
                dims.as_mut_ptr(),
                capacity,
                &raw mut rank,
                error,
            )
        })?;
        let shape = usize::try_from(rank).ok().and_then(|rank| dims.get(..rank));
        let shape = shape.ok_or_else(|| {
            failure(
                abi::POLYCHIP_STATUS_PERSISTENT,
                format!("port {port} has rank {rank} after the run"),
            )
        })?;
        plain(Reply::Shape(shape.to_vec()))
    }

    pub(super) fn steps(&self, fence: u64) -> Answered {
        let fence = self.objects.fences.get(fence)?;
        let call = optional(self.table.fence_steps, "fence_steps")?;
        let stride = size_of::<abi::polychip_step>() as u64;
        let mut records: Vec<abi::polychip_step> = Vec::new();
        loop {
            let mut count = 0u64;
            let (first, capacity) = (records.as_mut_ptr(), records.len() as u64);
            // SAFETY: a live fence, and room for the stated capacity.
            checked(|error| unsafe { call(fence.raw.0, first, capacity, stride, &raw mut count, error) })?;
            let count = count.min(MOST_STEPS) as usize;
            if count <= records.len() {
                records.truncate(count);
                break;
            }
            records.resize(count, abi::polychip_step::sized());
        }
        let record = |step: &abi::polychip_step| StepRecord {
            flags: step.flags,
            // SAFETY: valid as long as the fence, which is held.
            name: unsafe { text(step.name) },
            // SAFETY: as above.
            nodes: unsafe { values(step.nodes, step.node_count) },
            time_ns: step.time_ns,
            operations: step.operations,
            moved_bytes: step.moved_bytes,
        };
        plain(Reply::Steps(records.iter().map(record).collect()))
    }

    pub(super) fn fence_export(&self, fence: u64) -> Answered {
        let fence = self.objects.fences.get(fence)?;
        let call = optional(self.table.fence_export_fd, "fence_export_fd")?;
        let mut fd = abi::POLYCHIP_NO_FD;
        // SAFETY: a live fence.
        checked(|error| unsafe { call(fence.raw.0, &raw mut fd, error) })?;
        let fd = i32::try_from(fd)
            .ok()
            .filter(|fd| *fd >= 0)
            .ok_or_else(|| no_output("fence_export_fd"))?;
        use std::os::fd::FromRawFd;
        // SAFETY: a descriptor that the caller closes, by the contract.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok((Reply::Done, Some(file)))
    }

    pub(super) fn fence_import(
        &'static self,
        device: u64,
        fence: u64,
        slot: u32,
        file: &OwnedFd,
    ) -> Answered {
        let device = self.objects.devices.get(device)?;
        let call = optional(self.table.fence_import_fd, "fence_import_fd")?;
        if slot >= SLOTS {
            return Err(failure(
                abi::POLYCHIP_STATUS_BAD_ARGUMENT,
                format!("slot {slot} of {SLOTS}"),
            ));
        }
        let mut raw = std::ptr::null_mut();
        let fd = i64::from(file.as_fd().as_raw_fd());
        // SAFETY: an open device; the plugin duplicates the descriptor.
        checked(|error| unsafe { call(device.raw.0, fd, &raw mut raw, error) })?;
        self.watch(made(raw, "fence_import_fd")?, fence, slot, Copies::default());
        plain(Reply::Done)
    }
}

/// What a callback of the plugin gets.
struct Signalled {
    server: &'static Server,
    fence: Arc<Fence>,
}

unsafe extern "C" fn signalled(user: *mut c_void, status: u32) {
    // SAFETY: `user` is what `watch` passed in, and the callback comes once.
    let signalled = unsafe { Box::from_raw(user.cast::<Signalled>()) };
    signalled.server.end_soon(signalled.fence, status);
}

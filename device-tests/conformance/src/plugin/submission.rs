//! Starting a run: bindings of buffers to ports, and the fence of the run.
//!
//! Invariant: the fence holds the executable and every buffer that is bound.

#![allow(unsafe_code)]

use std::sync::Arc;

use polychip_abi as abi;
use polychip_abi::Sized;

use super::call::{Call, breach, checked};
use super::executable::Executable;
use super::fence::Fence;
use super::memory::Buffer;

/// A part of a buffer for a port.
#[derive(Clone)]
pub struct Binding {
    /// The buffer.
    pub buffer: Arc<Buffer>,
    /// Where the tensor starts, in bytes.
    pub offset: u64,
    /// Bytes that belong to the tensor.
    pub bytes: u64,
}

impl Executable {
    /// A buffer per port, in memory of the device's choice.
    ///
    /// # Errors
    /// The device refuses one.
    pub fn buffers(&self) -> Call<Vec<Arc<Buffer>>> {
        let mut buffers: Vec<Arc<Buffer>> = Vec::with_capacity(self.ports().len());
        for (index, port) in self.ports().iter().enumerate() {
            let other = port.state_port as usize;
            let buffer = if port.state_port != abi::POLYCHIP_NO_INDEX && other < index {
                Arc::clone(&buffers[other])
            } else {
                self.device()
                    .create_buffer(port.bytes.max(1), port.alignment.max(1))?
            };
            buffers.push(buffer);
        }
        Ok(buffers)
    }

    /// Starts a run on whole buffers.
    ///
    /// # Errors
    /// The call failed.
    pub fn execute(self: &Arc<Self>, buffers: &[Arc<Buffer>], waits: &[&Fence]) -> Call<Fence> {
        let bindings: Vec<Binding> = buffers
            .iter()
            .zip(self.ports())
            .map(|(buffer, port)| Binding {
                buffer: Arc::clone(buffer),
                offset: 0,
                bytes: port.bytes,
            })
            .collect();
        self.execute_bound(&bindings, waits)
    }

    /// Starts a run on whole buffers, with a priority and a deadline.
    ///
    /// # Errors
    /// The call failed.
    pub fn execute_with(
        self: &Arc<Self>,
        buffers: &[Arc<Buffer>],
        priority: u32,
        deadline_ns: u64,
    ) -> Call<Fence> {
        let bindings: Vec<Binding> = buffers
            .iter()
            .zip(self.ports())
            .map(|(buffer, port)| Binding {
                buffer: Arc::clone(buffer),
                offset: 0,
                bytes: port.bytes,
            })
            .collect();
        self.submit(&bindings, &[], priority, deadline_ns, 0)
    }

    /// Starts a run on whole buffers whose steps are to be measured.
    ///
    /// # Errors
    /// The call failed.
    pub fn execute_by_steps(self: &Arc<Self>, buffers: &[Arc<Buffer>]) -> Call<Fence> {
        let whole = buffers.iter().zip(self.ports()).map(|(buffer, port)| Binding {
            buffer: Arc::clone(buffer),
            offset: 0,
            bytes: port.bytes,
        });
        let bindings: Vec<Binding> = whole.collect();
        let (priority, deadline) = (abi::POLYCHIP_PRIORITY_NORMAL, abi::POLYCHIP_NO_DEADLINE);
        self.submit(&bindings, &[], priority, deadline, abi::POLYCHIP_SUBMIT_STEPS)
    }

    /// Starts a run on parts of buffers, one binding per port.
    ///
    /// # Errors
    /// The call failed.
    pub fn execute_bound(self: &Arc<Self>, bindings: &[Binding], waits: &[&Fence]) -> Call<Fence> {
        self.submit(
            bindings,
            waits,
            abi::POLYCHIP_PRIORITY_NORMAL,
            abi::POLYCHIP_NO_DEADLINE,
            0,
        )
    }

    fn submit(
        self: &Arc<Self>,
        bindings: &[Binding],
        waits: &[&Fence],
        priority: u32,
        deadline_ns: u64,
        flags: u32,
    ) -> Call<Fence> {
        let rows: Vec<abi::polychip_binding> = bindings
            .iter()
            .enumerate()
            .map(|(port, binding)| abi::polychip_binding {
                port: port as u32,
                buffer: binding.buffer.raw(),
                offset: binding.offset,
                bytes: binding.bytes,
                ..Sized::sized()
            })
            .collect();
        let waits: Vec<_> = waits.iter().map(|fence| fence.raw()).collect();
        let mut submit = abi::polychip_submit::sized();
        submit.priority = priority;
        submit.bindings = rows.as_ptr();
        submit.binding_count = rows.len() as u64;
        submit.binding_stride = size_of::<abi::polychip_binding>() as u64;
        submit.waits = waits.as_ptr();
        submit.wait_count = waits.len() as u64;
        submit.deadline_ns = deadline_ns;
        submit.flags = flags;
        let call = self
            .device()
            .table()
            .execute
            .expect("invariant: required calls are checked");
        let mut raw = std::ptr::null_mut();
        // SAFETY: bindings and waits are valid for the call; the fence holds executable and buffers.
        checked("execute", |record| unsafe {
            call(self.raw(), &raw const submit, &raw mut raw, record)
        })?;
        if raw.is_null() {
            return Err(breach("execute", "it returned no fence"));
        }
        let buffers = bindings
            .iter()
            .map(|binding| Arc::clone(&binding.buffer))
            .collect();
        Ok(Fence::new(Arc::clone(self), buffers, raw))
    }
}

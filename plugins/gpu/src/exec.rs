//! Runs: inputs into the device's memory, steps, outputs back.
//!
//! Invariants:
//! 1. A warm run allocates nothing: its memory is made at load, its fence comes from the pool.
//! 2. Runs of one executable take turns.
//!
//! This device has no queue: it computes inside `execute`, as a CPU may. A chip enqueues here, returns the
//! fence at once, and signals it from the driver's completion; `execute` never waits for the chip.

use std::sync::{Arc, Mutex};

use polychip_sdk::{
    Error, ErrorKind, Executable, ExecutableInfo, HostBuffer, Port, Result, RunFence, Submit,
};

use crate::caps;
use crate::lower::{Kernel, Part};
use crate::plugin::Shared;
use crate::telemetry::Stopwatch;

/// A loaded part.
pub struct GpuExecutable {
    device: Arc<Shared>,
    part: Part,
    ports: Vec<Port>,
    info: ExecutableInfo,
    /// The device's memory: one piece per tensor, constants in place.
    memory: Mutex<Vec<Vec<f32>>>,
}

impl GpuExecutable {
    pub(crate) fn new(device: Arc<Shared>, mut part: Part) -> Result<GpuExecutable> {
        let ports = part.ports()?;
        let full = |_| Error::new(ErrorKind::OutOfMemory, "no memory for the part's tensors");
        let mut memory = Vec::with_capacity(part.tensors.len());
        let mut bytes = 0;
        for shape in &part.tensors {
            let elements = caps::elements(shape).expect("invariant: checked when the blob was read");
            let mut tensor = Vec::new();
            tensor.try_reserve_exact(elements).map_err(full)?;
            tensor.resize(elements, 0.0f32);
            bytes += size_of_val(&tensor[..]) as u64;
            memory.push(tensor);
        }
        let mut constant_bytes = 0;
        for (tensor, values) in part.constants.drain(..) {
            constant_bytes += size_of_val(&values[..]) as u64;
            memory[tensor] = values;
        }
        Ok(GpuExecutable {
            device,
            part,
            ports,
            info: ExecutableInfo {
                constant_bytes,
                arena_bytes: bytes - constant_bytes,
            },
            memory: Mutex::new(memory),
        })
    }

    fn compute(&self, submit: &Submit<'_, HostBuffer, RunFence>) -> Result<()> {
        // a run that waits for a failed one fails with it
        for wait in submit.waits() {
            match wait.result() {
                Some(result) => result?,
                None => return Err(Error::bad_argument("a fence to wait for belongs to no run")),
            }
        }
        let mut memory = self
            .memory
            .lock()
            .map_err(|_| Error::new(ErrorKind::Persistent, "an earlier run of this part failed midway"))?;
        for (port, &tensor) in self.part.inputs.iter().enumerate() {
            let binding = submit.binding(port as u32);
            let bytes = bytemuck::cast_slice_mut(&mut memory[tensor]);
            binding.buffer.copy_out(binding.offset, bytes)?;
        }
        for step in &self.part.steps {
            // moved out and back: no allocation, and the inputs can be borrowed beside it
            let mut output = std::mem::take(&mut memory[step.output]);
            let (left, right) = (&memory[step.left], &memory[step.right]);
            match step.kernel {
                Kernel::Identity => output.copy_from_slice(left),
                Kernel::Relu => {
                    for (to, &from) in output.iter_mut().zip(left) {
                        // NaN stays NaN
                        *to = if from < 0.0 { 0.0 } else { from };
                    }
                }
                Kernel::Add => {
                    for ((to, left), right) in output.iter_mut().zip(left).zip(right) {
                        *to = left + right;
                    }
                }
            }
            memory[step.output] = output;
        }
        for (place, &tensor) in self.part.outputs.iter().enumerate() {
            let binding = submit.binding((self.part.inputs.len() + place) as u32);
            let bytes = bytemuck::cast_slice(&memory[tensor]);
            binding.buffer.copy_in(binding.offset, bytes)?;
        }
        Ok(())
    }
}

impl Executable for GpuExecutable {
    type Buffer = HostBuffer;
    type Fence = RunFence;

    fn info(&self) -> ExecutableInfo {
        self.info
    }

    fn ports(&self) -> &[Port] {
        &self.ports
    }

    fn execute(self: &Arc<Self>, submit: &Submit<'_, HostBuffer, RunFence>) -> Result<Arc<RunFence>> {
        let host = &self.device.host;
        let mut watch = Stopwatch::queued(host);
        let fence = self.device.fences.take();
        watch.start(host);
        let result = self.compute(submit);
        fence.set_timing(watch.stop(host));
        fence.signal(result);
        Ok(fence)
    }
}

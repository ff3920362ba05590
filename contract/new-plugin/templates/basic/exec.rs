//! Loaded parts and their runs. A run copies the inputs into the device's memory, computes the steps,
//! and copies the outputs back.
//!
//! Invariants:
//! 1. A warm run allocates nothing, because `load` has allocated all memory. Only a run whose steps the
//!    host wants to know allocates their list.
//! 2. Runs of the device are serialised.
//!
//! Call your driver in `compute`. With `MAY_HANG`, a call may never return: only the device's thread
//! makes it, and a reset leaves that thread behind.
//!
//! Not here: runs, their queue and their fences (`polychip_sdk::Run`).

use std::sync::{Arc, Mutex};
use std::time::Instant;

use polychip_sdk::{
    Compute, Error, ErrorKind, Executable, ExecutableInfo, HostBuffer, Port, PortBuffer, Result, Run,
    RunContext, RunQueue, Span, Submit,
};

use crate::caps::Kernel;
use crate::lower::Program;
use crate::part;

/// A run, which is also the fence that signals its end.
pub type XyzRun = Run<XyzExecutable>;

/// A loaded part.
pub struct XyzExecutable {
    queue: Arc<RunQueue<XyzRun>>,
    program: Program,
    ports: Vec<Port>,
    info: ExecutableInfo,
    /// The device's memory: the elements of each tensor, constants included.
    memory: Mutex<Vec<Vec<f32>>>,
}

impl XyzExecutable {
    pub(crate) fn new(queue: Arc<RunQueue<XyzRun>>, mut program: Program) -> Result<XyzExecutable> {
        let full = |_| Error::new(ErrorKind::OutOfMemory, "no memory for the part's tensors");
        let mut memory = Vec::with_capacity(program.tensors.len());
        let mut bytes = 0;
        for shape in &program.tensors {
            let elements = part::elements(shape).expect("invariant: checked when the blob was read");
            let mut tensor = Vec::new();
            tensor.try_reserve_exact(elements).map_err(full)?;
            tensor.resize(elements, 0.0f32);
            bytes += size_of_val(&tensor[..]) as u64;
            memory.push(tensor);
        }
        let mut constant_bytes = 0;
        for (&tensor, values) in program.constants.iter().zip(program.values.drain(..)) {
            constant_bytes += size_of_val(&values[..]) as u64;
            memory[tensor] = values;
        }
        Ok(XyzExecutable {
            queue,
            ports: program.ports()?,
            program,
            info: ExecutableInfo {
                constant_bytes,
                arena_bytes: bytes - constant_bytes,
            },
            memory: Mutex::new(memory),
        })
    }
}

impl Compute for XyzExecutable {
    type Buffer = HostBuffer;
    const MAY_HANG: bool = true;

    fn compute(&self, bound: &[PortBuffer<HostBuffer>], run: &RunContext<'_>) -> Result<Span> {
        let mut memory = self
            .memory
            .lock()
            .map_err(|_| Error::new(ErrorKind::Persistent, "an earlier run of this part failed midway"))?;
        let program = &self.program;
        let (inputs, outputs) = bound.split_at(program.inputs.len());
        for (place, &tensor) in inputs.iter().zip(&program.inputs) {
            place.copy_out(0, bytemuck::cast_slice_mut(&mut memory[tensor]))?;
        }
        let mut measured = Vec::new();
        for step in &program.steps {
            run.check_cancelled()?;
            let begun = run.measures_steps().then(Instant::now);
            // taken out and put back without an allocation, so that the inputs can be borrowed meanwhile
            let mut output = std::mem::take(&mut memory[step.output]);
            let input = |place: usize| &memory[step.inputs[place]];
            match step.kernel {
                Kernel::Copy => output.copy_from_slice(input(0)),
                Kernel::Relu => {
                    for (to, &from) in output.iter_mut().zip(input(0)) {
                        // NaN stays NaN
                        *to = if from < 0.0 { 0.0 } else { from };
                    }
                }
                Kernel::Add => {
                    for ((to, left), right) in output.iter_mut().zip(input(0)).zip(input(1)) {
                        *to = left + right;
                    }
                }
            }
            memory[step.output] = output;
            if let Some(begun) = begun {
                measured.push(polychip_sdk::Step {
                    name: step.kernel.name().into(),
                    nodes: Arc::from([step.node]),
                    time_ns: u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX),
                    operations: None,
                    moved_bytes: None,
                    is_reference: false,
                });
            }
        }
        if run.measures_steps() {
            run.set_steps(measured);
        }
        for (place, &tensor) in outputs.iter().zip(&program.outputs) {
            place.copy_in(bytemuck::cast_slice(&memory[tensor]))?;
        }
        Ok(Span::Call)
    }
}

impl Executable for XyzExecutable {
    type Buffer = HostBuffer;
    type Fence = XyzRun;

    fn info(&self) -> ExecutableInfo {
        self.info
    }

    fn ports(&self) -> &[Port] {
        &self.ports
    }

    fn execute(self: &Arc<Self>, submit: &Submit<'_, HostBuffer, XyzRun>) -> Result<Arc<XyzRun>> {
        Run::start(self, &self.queue, submit)
    }
}

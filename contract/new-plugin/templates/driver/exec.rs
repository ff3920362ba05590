//! Loaded parts and their runs. A run binds the memory of its ports and calls the driver once.
//!
//! Invariants:
//! 1. A warm run allocates nothing, because `load` has allocated all memory. Only a run whose steps the
//!    host wants to know allocates their list.
//! 2. The driver's call may never return: only the device's thread makes it (`MAY_HANG`), and a reset
//!    leaves that thread behind.
//! 3. A part that was loaded before a reset runs no more.
//!
//! Not here: runs, their queue and their fences (`polychip_sdk::Run`), copies between host and chip
//! (`buffer`).

use std::sync::{Arc, Mutex, PoisonError};

use polychip_sdk::{
    Compute, Error, ErrorKind, Executable, ExecutableInfo, Port, PortBuffer, Result, Run, RunContext, RunQueue, Span, Submit,
};

use crate::buffer::XyzBuffer;
use crate::driver::{Binding, Program, Session};
use crate::lower::{Layout, Step};
use crate::shared::Shared;

/// A run, which is also the fence that signals its end.
pub type XyzRun = Run<XyzExecutable>;

/// Lists that each run fills.
struct Workspace {
    bindings: Vec<Binding>,
    step_ns: Vec<u64>,
}

/// A loaded part.
pub struct XyzExecutable {
    shared: Arc<Shared>,
    queue: Arc<RunQueue<XyzRun>>,
    session: Arc<Session>,
    program: Program,
    ports: Vec<Port>,
    steps: Vec<Step>,
    workspace: Mutex<Workspace>,
}

impl XyzExecutable {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        queue: &Arc<RunQueue<XyzRun>>,
        layout: Layout,
        program: &[u8],
    ) -> Result<XyzExecutable> {
        let session = shared.session();
        let program = Program::load(&session, program)?;
        let ports = layout.ports(shared)?;
        let info = program.info();
        if info.ports != ports.len() || info.operations != layout.steps.len() {
            return Err(Error::bad_blob("the program has other ports or steps than the blob"));
        }
        Ok(XyzExecutable {
            shared: Arc::clone(shared),
            queue: Arc::clone(queue),
            session,
            workspace: Mutex::new(Workspace {
                bindings: Vec::with_capacity(ports.len()),
                step_ns: vec![0; info.operations],
            }),
            program,
            ports,
            steps: layout.steps,
        })
    }

    /// Runs the program; returns the time on the chip, in nanoseconds.
    fn run(&self, bound: &[PortBuffer<XyzBuffer>], run: &RunContext<'_>, workspace: &mut Workspace) -> Result<u64> {
        let Workspace { bindings, step_ns } = workspace;
        for (bound, port) in bound.iter().zip(&self.ports) {
            let memory = bound.buffer().piece(&self.session)?;
            if port.output {
                bound.buffer().set_stale();
            }
            bindings.push(Binding {
                memory,
                offset: bound.offset() as u64,
            });
        }
        let step_ns = if run.measures_steps() { &mut step_ns[..] } else { &mut [] };
        let ran = self.program.run(bindings, step_ns);
        match ran {
            // the interruption was meant for a run that had ended before it arrived
            Err(error) if error.kind() == ErrorKind::Cancelled && !run.is_cancelled() => {
                self.program.run(bindings, step_ns)
            }
            ran => ran,
        }
    }
}

impl Compute for XyzExecutable {
    type Buffer = XyzBuffer;
    const MAY_HANG: bool = true;
    const INTERRUPTS: bool = true;

    fn compute(&self, bound: &[PortBuffer<XyzBuffer>], run: &RunContext<'_>) -> Result<Span> {
        // first: the lock may be held by a run that hangs
        self.shared.check_open(&self.session)?;
        let mut workspace = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        let ran = self.run(bound, run, &mut workspace);
        workspace.bindings.clear();
        let run_ns = ran?;
        if run.measures_steps() {
            let step = |(step, &time_ns): (&Step, &u64)| polychip_sdk::Step {
                name: step.operation.name().into(),
                nodes: step.node.into_iter().collect(),
                time_ns,
                operations: None,
                moved_bytes: None,
                is_reference: false,
            };
            run.set_steps(self.steps.iter().zip(&workspace.step_ns).map(step).collect());
        }
        Ok(Span::Device(run_ns))
    }

    fn interrupt(&self) -> Result<()> {
        self.session.interrupt()
    }
}

impl Executable for XyzExecutable {
    type Buffer = XyzBuffer;
    type Fence = XyzRun;

    fn info(&self) -> ExecutableInfo {
        let info = self.program.info();
        ExecutableInfo {
            constant_bytes: info.constant_bytes,
            arena_bytes: info.scratch_bytes,
        }
    }

    fn ports(&self) -> &[Port] {
        &self.ports
    }

    fn execute(self: &Arc<Self>, submit: &Submit<'_, XyzBuffer, XyzRun>) -> Result<Arc<XyzRun>> {
        Run::start(self, &self.queue, submit)
    }
}

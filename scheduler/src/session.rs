//! A session: a model compiled for its devices, with memory for several runs in flight.
//!
//! Invariants:
//! 1. A run executes one plan from start to end. Plans are replaced between runs, where a device was lost or the
//!    governor wants another one.
//! 2. `submit` and `wait` allocate nothing once every slot has run; figures are kept in rings.
//! 3. Inputs and outputs that the app holds outlive plans: their memory is the session's, and the buffers
//!    of the devices are made anew for each plan.
//! 4. Every run that was submitted ends with its outputs or with an error that names what failed.
//!
//! Start reading at [`Session::submit`].

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use polychip_partitioner::Plan;

use crate::error::{Error, ErrorKind, Result};
use crate::event::EventLog;
use crate::planned::Planned;
use crate::policy::Policy;
use crate::replan;
use crate::report::Report;
use crate::run::Run;
use crate::shared::Shared;
use crate::tensor::{Hold, Input, Output, Owner, TensorMemory, TensorSpec};
use crate::trace::{TracedRun, Tracer};
use compile::Loaded;
use govern::state::Governing;
use govern::watch::Watch;
use inner::{Current, Inner, LossCount, output_in_flight};
use loaded::LoadedPlan;

pub(crate) mod arena;
pub(crate) mod compile;
mod conductor;
pub(crate) mod copy;
pub(crate) mod govern;
pub(crate) mod history;
pub(crate) mod inner;
pub(crate) mod loaded;
pub(crate) mod memory;
mod portfolio;
mod recover;
pub(crate) mod slot;
pub(crate) mod wiring;

/// A model ready to run. Clones share it.
#[derive(Debug, Clone)]
pub struct Session(
    pub(crate) Arc<Inner>,
    #[expect(dead_code, reason = "its thread ends with the last clone of the session")] Option<Arc<Watch>>,
);

impl Session {
    pub(crate) fn new(shared: Arc<Shared>, planned: Planned, policy: Policy) -> Result<Session> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let (planned, parts) = replan::compile(&shared, planned, &policy, Loaded::default())?;
        let mut events = EventLog::default();
        events.extend(planned.events().iter().cloned());
        let devices = planned.devices().len();
        let plan = Arc::new(LoadedPlan::new(&shared, 0, planned, parts, &policy)?);
        let mut number = 0;
        let governing = match policy.governing() {
            None => None,
            Some(governed) => {
                let mut next = || {
                    number += 1;
                    number
                };
                Some(Governing::new(&shared, &plan, &policy, governed, &mut next)?)
            }
        };
        let wiring = &plan.wiring;
        let inner = Arc::new(Inner {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            inputs: wiring.inputs.iter().map(|input| input.spec.clone()).collect(),
            outputs: wiring.outputs.iter().map(|output| output.spec.clone()).collect(),
            current: Mutex::new(Current {
                planned: Arc::clone(&plan.planned),
                plan: Some(plan),
                policy: Arc::new(policy.clone()),
                number,
                losses: vec![LossCount::default(); devices],
                left_out: vec![false; devices],
            }),
            governing,
            recovery: Mutex::new(()),
            old: Mutex::new(Vec::new()),
            out: Arc::new(AtomicUsize::new(0)),
            runs: AtomicU64::new(0),
            events: Mutex::new(events),
            tracer: Tracer::default(),
            shared,
            policy,
        });
        let mut watch = None;
        if let (Some(governing), Some(governed)) = (&inner.governing, inner.policy.governing()) {
            governing.begin(&inner, governed);
            if !inner.shared.host.clock().is_virtual() {
                let made = Watch::start(Arc::clone(&inner), governed.every);
                let failed = |error| Error::caused(ErrorKind::Io, "starting a thread", error);
                watch = Some(Arc::new(made.map_err(failed)?));
            }
        }
        Ok(Session(inner, watch))
    }

    /// The plan that the next run executes. It changes where a device is lost for good.
    #[must_use]
    pub fn plan(&self) -> Plan {
        self.planned().plan().clone()
    }

    /// The plan with the graph, devices and costs it was made from.
    #[must_use]
    pub fn planned(&self) -> Arc<Planned> {
        Arc::clone(&self.0.current().planned)
    }

    /// Names, types and shapes of the inputs.
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = &TensorSpec> {
        self.0.inputs.iter()
    }

    /// Names, types and shapes of the outputs.
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = &TensorSpec> {
        self.0.outputs.iter()
    }

    /// Memory for an input, which its devices read in place.
    ///
    /// # Errors
    /// The model has no such input, or no memory is left.
    pub fn input(&self, name: &str) -> Result<Input> {
        let index = self
            .inputs()
            .position(|input| input.name == name)
            .ok_or_else(|| {
                let known: Vec<&str> = self.inputs().map(|spec| spec.name.as_str()).collect();
                let words = format!(
                    "the model has no input {name:?}; its inputs are: {}",
                    known.join(", ")
                );
                Error::new(ErrorKind::BadInput, words)
            })?;
        let spec = &self.0.inputs[index];
        let bound = self.0.usable().and_then(|plan| {
            let users = memory::input_users(&plan.wiring, index, plan.planned.devices());
            TensorMemory::new(spec, true, plan.number, &users).ok()
        });
        let memory = match bound {
            Some(memory) => memory,
            // a device is lost: the next run's devices get the memory when there are some
            None => TensorMemory::new(spec, true, u64::MAX, &[])?,
        };
        Ok(Input {
            index,
            session: self.0.id,
            owner: owner(&self.0),
            memory: Arc::new(memory),
        })
    }

    /// Memory for an output that the app binds itself with [`Session::submit_into`].
    ///
    /// # Errors
    /// The model has no such output, no run writes it, or no memory is left.
    pub fn output(&self, name: &str) -> Result<Output> {
        let index = self.output_index(name)?;
        let plan = self.0.ready()?;
        let memory = memory::output(&plan.wiring, index, plan.planned.devices(), plan.number)?;
        Ok(Output {
            index,
            session: self.0.id,
            owner: owner(&self.0),
            memory: Arc::new(memory),
        })
    }

    fn output_index(&self, name: &str) -> Result<usize> {
        self.outputs()
            .position(|output| output.name == name)
            .ok_or_else(|| {
                let known: Vec<&str> = self.outputs().map(|spec| spec.name.as_str()).collect();
                let words = format!(
                    "the model has no output {name:?}; its outputs are: {}",
                    known.join(", ")
                );
                Error::new(ErrorKind::BadInput, words)
            })
    }

    /// Starts a run on these inputs, in any order. It goes on after this returns.
    ///
    /// # Errors
    /// An input is missing, given twice or of another session; every slot is in flight
    /// ([`ErrorKind::InFlight`]); or a device failed, as often as the policy has runs tried again.
    pub fn submit(&self, inputs: &[&Input]) -> Result<Run> {
        self.submit_into(inputs, &[])
    }

    /// As [`Session::submit`], and these outputs are written into the app's own memory.
    ///
    /// # Errors
    /// As [`Session::submit`]; also where an output is in flight or of another session.
    pub fn submit_into(&self, inputs: &[&Input], outputs: &[&Output]) -> Result<Run> {
        let inner = &self.0;
        inner.check_inputs(inputs)?;
        inner.check_outputs(outputs)?;
        let ticket = inner.ticket()?;
        let plan = inner.ready()?;
        let (index, mut slot) = plan.take_slot().ok_or_else(|| inner.all_in_flight())?;
        let given = &mut slot.given;
        given.ticket = Some(ticket);
        let inputs = inputs.iter().map(|input| (input.index, Hold::new(&input.memory)));
        given.inputs.extend(inputs);
        for output in outputs {
            let Some(hold) = Hold::alone(&output.memory) else {
                // another thread was faster
                let error = output_in_flight(output);
                plan.put_back(index, slot);
                return Err(error);
            };
            slot.given.outputs.push((output.index, hold));
        }
        Run::start(
            Arc::clone(inner),
            plan,
            index,
            slot,
            inner.policy.allowed_retries(),
        )
    }

    /// Predicted and measured figures of the plan and its parts.
    #[must_use]
    pub fn report(&self) -> Report {
        Report::new(&self.0)
    }

    /// Writes the measured part times of this session into the profile database, and forgets them here.
    /// The last clone of a session does so when it goes, where the runtime has a profile file.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn record(&self) -> Result<()> {
        let plan = self.0.current().plan.clone();
        plan.map_or(Ok(()), |plan| plan.record())
    }

    /// Keeps the times of the parts of so many runs from now on; those kept before are forgotten. 0 ends it.
    pub fn start_trace(&self, runs: usize) {
        self.0.tracer.start(runs);
    }

    /// The runs that were traced, and how many were not kept.
    #[must_use]
    pub fn trace(&self) -> (Vec<TracedRun>, u64) {
        self.0.tracer.kept()
    }
}

/// Whom the session's memory asks about its runs.
fn owner(inner: &Arc<Inner>) -> Weak<dyn Owner> {
    let owner: Weak<Inner> = Arc::downgrade(inner);
    owner
}

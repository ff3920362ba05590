//! A session: a model compiled for its devices, with memory for several runs in flight.
//!
//! Invariants:
//! 1. All runs of a session execute its one plan.
//! 2. `submit` and `wait` allocate nothing once every slot has run; figures are kept in rings.
//! 3. Runs in flight use different slots, so they never share memory but for inputs, which are read.
//!
//! Start reading at [`Session::submit`].

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use polychip_partitioner::{Nanos, Plan};

use crate::error::{Error, ErrorKind, Result};
use crate::event::EventLog;
use crate::planned::Planned;
use crate::policy::Policy;
use crate::profile::{Measurement, PartKey};
use crate::replan;
use crate::report::Report;
use crate::run::Run;
use crate::runtime::Shared;
use crate::tensor::{Input, Output, TensorMemory, TensorSpec};
use conductor::Conductor;
use history::History;
use memory::Footprint;
use slot::{Progress, Slot};
use wiring::Wiring;

mod arena;
pub(crate) mod compile;
mod conductor;
mod copy;
pub(crate) mod history;
pub(crate) mod memory;
pub(crate) mod slot;
pub(crate) mod wiring;

/// How long a run may take before its devices count as hung.
const PATIENCE: Duration = Duration::from_secs(120);

/// A model ready to run. Clones share it.
#[derive(Debug, Clone)]
pub struct Session(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    /// Tells sessions apart, so that an input of another one is refused.
    id: usize,
    shared: Arc<Shared>,
    /// Threads that the policy asks for, which measured times of a CPU are true for.
    threads: u32,
    pub(crate) planned: Planned,
    pub(crate) wiring: Arc<Wiring>,
    pub(crate) structures: Vec<[u8; 32]>,
    pub(crate) cached: Vec<bool>,
    pub(crate) footprint: Footprint,
    slots: Mutex<Slots>,
    /// One per slot where parts wait for each other across plugins; else none.
    conductors: Vec<Conductor>,
    pub(crate) history: Mutex<History>,
    pub(crate) events: Mutex<EventLog>,
}

#[derive(Default)]
struct Slots {
    free: Vec<(usize, Box<Slot>)>,
    /// Slots of runs that nobody waited for and that were still going on.
    abandoned: Vec<(usize, Option<Box<Slot>>)>,
    most: usize,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.id)
            .field("parts", &self.wiring.parts.len())
            .finish_non_exhaustive()
    }
}

impl Session {
    pub(crate) fn new(shared: Arc<Shared>, planned: Planned, policy: Policy) -> Result<Session> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let (planned, loaded) = replan::compile(&shared, planned, &policy, compile::Loaded::default())?;
        let structures = loaded.iter().map(|part| part.structure).collect();
        let cached = loaded.iter().map(|part| part.cached).collect();
        let wiring = Arc::new(Wiring::new(
            planned.graph(),
            planned.plan(),
            loaded,
            planned.devices(),
        )?);
        let most = policy.runs_in_flight();
        let mut slots = Slots {
            free: Vec::with_capacity(most),
            abandoned: Vec::with_capacity(most),
            most,
        };
        let mut footprint = Footprint::default();
        for index in 0..most {
            let (slot, bytes) = memory::slot(&wiring, planned.devices())?;
            footprint = bytes;
            slots.free.push((index, Box::new(slot)));
        }
        let mut conductors = Vec::new();
        if wiring.needs_conductor() {
            for _ in 0..most {
                let conductor = Conductor::new(Arc::clone(&wiring), PATIENCE)
                    .map_err(|error| Error::caused(ErrorKind::Io, "starting a thread", error))?;
                conductors.push(conductor);
            }
        }
        let history = Mutex::new(History::new(wiring.parts.len()));
        let mut events = EventLog::default();
        events.extend(planned.events().iter().cloned());
        Ok(Session(Arc::new(Inner {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            shared,
            threads: policy.wanted_threads(),
            planned,
            wiring,
            structures,
            cached,
            footprint,
            slots: Mutex::new(slots),
            conductors,
            history,
            events: Mutex::new(events),
        })))
    }

    /// The plan that the session runs.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        self.0.planned.plan()
    }

    /// The plan with the graph, devices and costs it was made from.
    #[must_use]
    pub fn planned(&self) -> &Planned {
        &self.0.planned
    }

    /// Names, types and shapes of the inputs.
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = &TensorSpec> {
        self.0.wiring.inputs.iter().map(|input| &input.spec)
    }

    /// Names, types and shapes of the outputs.
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = &TensorSpec> {
        self.0.wiring.outputs.iter().map(|output| &output.spec)
    }

    /// Memory for an input, which its devices read in place.
    ///
    /// # Errors
    /// The model has no such input, or no memory is left.
    pub fn input(&self, name: &str) -> Result<Input> {
        let wiring = &self.0.wiring;
        let index = wiring
            .inputs
            .iter()
            .position(|input| input.spec.name == name)
            .ok_or_else(|| {
                let known: Vec<&str> = self.inputs().map(|spec| spec.name.as_str()).collect();
                let words = format!(
                    "the model has no input {name:?}; its inputs are: {}",
                    known.join(", ")
                );
                Error::new(ErrorKind::BadInput, words)
            })?;
        let input = &wiring.inputs[index];
        let mut users = wiring.devices_of(
            input.readers.iter().map(|(part, _)| *part),
            self.0.planned.devices(),
        );
        if users.is_empty() {
            // nobody reads it, yet the app may write it
            users = vec![(0, self.0.planned.devices()[0].clone())];
        }
        Ok(Input {
            index,
            session: self.0.id,
            owner: Arc::downgrade(&self.0),
            memory: TensorMemory::new(&input.spec, &users)?,
        })
    }

    /// Memory for an output that the app binds itself with [`Session::submit_into`].
    ///
    /// # Errors
    /// The model has no such output, no run writes it, or no memory is left.
    pub fn output(&self, name: &str) -> Result<Output> {
        let index = self.output_index(name)?;
        let memory = memory::output(&self.0.wiring, index, self.0.planned.devices())?;
        Ok(Output {
            index,
            session: self.0.id,
            owner: Arc::downgrade(&self.0),
            memory,
        })
    }

    fn output_index(&self, name: &str) -> Result<usize> {
        self.0
            .wiring
            .outputs
            .iter()
            .position(|output| output.spec.name == name)
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
    /// ([`ErrorKind::InFlight`]); or a device failed.
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
        let (index, mut slot) = inner.take_slot()?;
        let started = inner.start(&mut slot, inputs, outputs);
        let progress = match started {
            Ok(progress) => progress,
            Err(error) => {
                inner.give_up(index, slot);
                return Err(error);
            }
        };
        if progress == Progress::Waiting {
            inner.conductors[index].start(slot);
            return Ok(Run::conducted(Arc::clone(inner), index));
        }
        Ok(Run::issued(Arc::clone(inner), index, slot))
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
        self.0.record()
    }
}

impl Inner {
    fn check_inputs(&self, inputs: &[&Input]) -> Result<()> {
        for (position, input) in inputs.iter().enumerate() {
            if input.session != self.id {
                let words = format!("input {:?} belongs to another session", input.name());
                return Err(Error::new(ErrorKind::BadInput, words));
            }
            if inputs[..position].iter().any(|other| other.index == input.index) {
                return Err(Error::new(
                    ErrorKind::BadInput,
                    format!("input {:?} is given twice", input.name()),
                ));
            }
        }
        for (index, wanted) in self.wiring.inputs.iter().enumerate() {
            if !inputs.iter().any(|input| input.index == index) {
                return Err(Error::new(
                    ErrorKind::BadInput,
                    format!("input {:?} is missing", wanted.spec.name),
                ));
            }
        }
        Ok(())
    }

    fn check_outputs(&self, outputs: &[&Output]) -> Result<()> {
        for (position, output) in outputs.iter().enumerate() {
            let name = output.name();
            if output.session != self.id {
                let words = format!("output {name:?} belongs to another session");
                return Err(Error::new(ErrorKind::BadInput, words));
            }
            if outputs[..position]
                .iter()
                .any(|other| other.index == output.index)
            {
                let words = format!("output {name:?} is given twice");
                return Err(Error::new(ErrorKind::BadInput, words));
            }
            if output.memory.is_in_flight() {
                self.reap_ended();
                if output.memory.is_in_flight() {
                    let words = format!("output {name:?} is being written by a run in flight");
                    return Err(Error::new(ErrorKind::InFlight, words));
                }
            }
        }
        Ok(())
    }

    fn start(&self, slot: &mut Slot, inputs: &[&Input], outputs: &[&Output]) -> Result<Progress> {
        let devices = self.planned.devices();
        slot.reset();
        for input in inputs {
            memory::input_copies(&input.memory, devices)?;
            for &(part, port) in &self.wiring.inputs[input.index].readers {
                let wired = &self.wiring.parts[part];
                let buffer = input
                    .memory
                    .buffer(wired.device)
                    .expect("invariant: every reader has a buffer");
                slot.submissions[part]
                    .bind(port, buffer, 0)
                    .map_err(|error| wired.failed(error))?;
            }
        }
        for (index, source) in self.wiring.outputs.iter().enumerate() {
            if let wiring::OutputSource::Input(from) = source.source
                && let Some(input) = inputs.iter().find(|input| input.index == from)
                && let Some(output) = &slot.outputs[index]
            {
                memory::hand_through(&input.memory, output)?;
            }
            if !matches!(source.source, wiring::OutputSource::Part(..)) {
                continue;
            }
            let given = outputs
                .iter()
                .find(|output| output.index == index)
                .map(|output| &output.memory);
            if let Some(memory) = given {
                memory::bind_output(&self.wiring, slot, index, memory, devices)?;
                slot.app_bound[index] = true;
            } else if slot.app_bound[index] {
                // the last run wrote into the app's memory
                let own = slot.outputs[index].take();
                if let Some(memory) = &own {
                    memory::bind_output(&self.wiring, slot, index, memory, devices)?;
                }
                slot.outputs[index] = own;
                slot.app_bound[index] = false;
            }
        }
        slot.issue(&self.wiring, None)
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_slot(&self) -> Result<(usize, Box<Slot>)> {
        if let Some(taken) = self.lock().free.pop() {
            return Ok(taken);
        }
        self.reap_ended();
        let mut slots = self.lock();
        slots.free.pop().ok_or_else(|| {
            let words = format!(
                "{} runs are in flight, as many as the policy allows; wait for one, or raise Policy::in_flight",
                slots.most
            );
            Error::new(ErrorKind::InFlight, words)
        })
    }

    /// Gives a slot back after its run.
    pub(crate) fn put_back(&self, index: usize, slot: Box<Slot>) {
        self.lock().free.push((index, slot));
    }

    /// Takes the slot of a run that failed: back where all of its parts have ended, else once they have.
    pub(crate) fn give_up(&self, index: usize, mut slot: Box<Slot>) {
        slot.cancel();
        if slot.give_up(Duration::ZERO) {
            self.put_back(index, slot);
        } else {
            self.abandon(index, Some(slot));
        }
    }

    /// Takes over the slot of a run that goes on and that nobody waits for.
    pub(crate) fn abandon(&self, index: usize, slot: Option<Box<Slot>>) {
        self.lock().abandoned.push((index, slot));
    }

    /// Waits for a run that is driven by its conductor.
    pub(crate) fn wait_conducted(&self, index: usize, timeout: Duration) -> Option<(Box<Slot>, Result<()>)> {
        self.conductors[index].wait(timeout)
    }

    pub(crate) fn cancel_conducted(&self, index: usize) {
        self.conductors[index].cancel();
    }

    /// Takes back slots of runs that were given up and have ended.
    pub(crate) fn reap_ended(&self) {
        self.reap(Duration::ZERO);
    }

    /// Takes back slots of runs that were given up, where they end within `patience`.
    fn reap(&self, patience: Duration) {
        let abandoned = std::mem::take(&mut self.lock().abandoned);
        for (index, slot) in abandoned {
            let ended = match slot {
                Some(mut slot) => match slot.finish_all(&self.wiring, patience) {
                    Ok(Progress::Waiting) => Err(Some(slot)),
                    Ok(Progress::Done) => Ok(slot),
                    // one part failed; the others may still be with their devices
                    Err(_) if slot.give_up(patience) => Ok(slot),
                    Err(_) => Err(Some(slot)),
                },
                None => match self.conductors[index].wait(patience) {
                    Some((slot, Ok(()))) => Ok(slot),
                    Some((mut slot, Err(_))) => {
                        if slot.give_up(patience) {
                            Ok(slot)
                        } else {
                            Err(Some(slot))
                        }
                    }
                    None => Err(None),
                },
            };
            match ended {
                Ok(slot) => self.put_back(index, slot),
                Err(slot) => self.abandon(index, slot),
            }
        }
    }

    /// Keeps the figures of a run that has ended well.
    pub(crate) fn keep_figures(&self, slot: &Slot) {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.add(&slot.timings, slot.latency);
    }

    fn record(&self) -> Result<()> {
        let history = {
            let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *history, History::new(self.wiring.parts.len()))
        };
        for (index, part) in self.wiring.parts.iter().enumerate() {
            let device = &self.planned.devices()[part.device];
            if self.shared.host.clock().is_virtual() && !device.info().emulated {
                // a real chip's time cannot be read off a virtual clock
                continue;
            }
            let identity = device.identity();
            let key = PartKey {
                device: &identity,
                fingerprint: &self.structures[index],
                operating_point: &crate::price::operating_point(device, self.threads),
            };
            let measurements: Vec<Measurement> = history
                .part(index)
                .map(|(ns, energy_uj)| Measurement {
                    time: Nanos::from_nanoseconds(ns),
                    energy_uj,
                })
                .collect();
            if !measurements.is_empty() {
                self.shared
                    .profile
                    .record(key, device.info().emulated, &measurements)?;
            }
        }
        Ok(())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.reap(PATIENCE);
        if self.shared.profile.path().is_some()
            && let Err(error) = self.record()
        {
            tracing::warn!("measured times are lost: {error}");
        }
    }
}

//! A session: a model compiled for its devices, with memory for several runs in flight.
//!
//! Invariants:
//! 1. A run executes one plan from start to end. Plans change only between runs.
//! 2. `submit` and `wait` allocate nothing once every slot has run; figures are kept in rings.
//! 3. Inputs and outputs that the app holds outlive plans: their memory belongs to the session, and each new
//!    plan makes new device buffers over it.
//! 4. Every submitted run ends with its outputs or with an error that names what failed.
//! 5. The inputs of a run give the sizes that the model leaves open; plans are reused ([`specializations`]).
//!
//! Start reading at [`Session::submit_with`].

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use polychip_host::Memory;
use polychip_partitioner::Plan;

use crate::durable::Figures;
use crate::error::{Error, ErrorKind, Result};
use crate::event::EventLog;
use crate::loaded_part::LoadedPart;
use crate::memory_account::Reservation;
use crate::model::Model;
use crate::planned::Planned;
use crate::policy::Policy;
use crate::precompiled::Precompiled;
use crate::replan;
use crate::report::Report;
use crate::run::{Run, RunOptions};
use crate::shared::Shared;
use crate::tensor::{Input, Output, Owner, TensorMemory, TensorSpec};
use crate::trace::Tracer;
use ahead::Waits;
use bindings::Wanted;
use charges::Need;
use compile::Loaded;
use deadline_miss::{Lateness, Submitted, whole_ns};
use govern::state::Governing;
use govern::watch::Watch;
use in_flight_limit::InFlightLimit;
use learn::Learning;
use learn::drive::LearningEnd;
use loaded::LoadedPlan;
use overflow::OverflowState;
use pace::Pace;
use parking::Parking;
use queue_grants::Terms;
use specialization_state::{Current, Inner, LossCount, output_in_flight};
use specializations::{SessionResources, Shapes, Specialization};
use standby_plan::StandbyPlan;
use thermal_readmission::timer::ThermalTimer;

mod admitted;
pub(crate) mod ahead;
pub(crate) mod arena;
mod background;
mod bindings;
mod booking;
pub(crate) mod buckets;
pub(crate) mod charges;
pub(crate) mod compile;
mod completion;
pub(crate) mod copy;
pub(crate) mod deadline_miss;
pub(crate) mod govern;
pub(crate) mod history;
pub(crate) mod in_flight_limit;
mod io_specs;
pub(crate) mod learn;
pub(crate) mod loaded;
mod loaded_memory;
pub(crate) mod memory;
pub(crate) mod notifier;
pub(crate) mod overflow;
pub(crate) mod pace;
pub(crate) mod padding;
mod park;
pub(crate) mod parking;
pub(crate) mod portfolio;
pub(crate) mod queue_grants;
mod recover;
pub(crate) mod replicas;
mod run_driver;
mod run_input;
pub(crate) mod run_state;
mod set;
pub(crate) mod settings_change;
pub(crate) mod specialization_report;
pub(crate) mod specialization_state;
pub(crate) mod specializations;
pub(crate) mod standby_plan;
mod state;
mod thermal_readmission;
mod tracing_runs;
mod try_submit;
pub(crate) mod variants;
pub(crate) mod wiring;

/// A model ready to run. Clones share the same session.
#[derive(Debug, Clone)]
pub struct Session(pub(crate) Arc<Shapes>);

impl Specialization {
    /// A plan compiled and loaded.
    fn new(id: usize, shared: &Arc<Shared>, mut planned: Planned, policy: Policy) -> Result<Specialization> {
        // a device less each time, so that this ends
        loop {
            let reserved = charges::reserve(shared, id, &planned, policy.settings(), None)?;
            let loaded = replan::compile(shared, planned, &policy, Loaded::default())?;
            let tried = loaded.0.clone();
            match Specialization::loaded(id, shared, loaded, policy.clone(), reserved) {
                Ok(made) => return Ok(made),
                Err(error) => planned = replan::without_failed(shared, &tried, &policy, error)?,
            }
        }
    }

    /// A plan with its loaded parts.
    fn loaded(
        id: usize,
        shared: &Arc<Shared>,
        (planned, parts): (Planned, Vec<LoadedPart>),
        policy: Policy,
        reserved: Option<Reservation>,
    ) -> Result<Specialization> {
        let (first, need) = (next_plans(), Need::First(reserved));
        let plan = Arc::new(LoadedPlan::new(shared, first, id, planned, parts, &policy, need)?);
        Specialization::of(id, shared, plan, Vec::new(), policy, first)
    }

    /// A plan that is loaded, whose later plans are numbered from the next number on, and those that admission keeps ready.
    fn of(
        id: usize,
        shared: &Arc<Shared>,
        plan: Arc<LoadedPlan>,
        standby: Vec<StandbyPlan>,
        policy: Policy,
        number: u64,
    ) -> Result<Specialization> {
        let mut events = EventLog::default();
        events.extend(plan.planned.events().iter().cloned());
        let devices = plan.planned.devices().len();
        let mut number = number;
        let governing = match policy.governing() {
            None => None,
            Some(governed) => {
                let mut next = || {
                    number += 1;
                    number
                };
                Some(Governing::new(shared, &plan, &policy, governed, &mut next)?)
            }
        };
        let now_ns = shared.host.clock().now_ns();
        // what is admitted keeps its plan
        let is_watched = policy.governing().is_some() || !standby.is_empty();
        let learning = Learning::new(
            &plan.planned,
            &policy,
            !standby.is_empty(),
            shared.host.clock().now_ns(),
        );
        let thermal_timer = ThermalTimer::new(policy.temperature_limit(), is_watched, now_ns);
        let wiring = &plan.wiring;
        let cadence = plan.planned.cadence();
        let places = policy.runs_of_copies(plan.planned.plan().copies().count());
        let inner = Arc::new(Inner {
            id,
            inputs: wiring.inputs.iter().map(|input| input.spec.clone()).collect(),
            outputs: wiring.outputs.iter().map(|output| output.spec.clone()).collect(),
            current: Mutex::new(Current {
                planned: Arc::clone(&plan.planned),
                plan: Some(Arc::clone(&plan)),
                policy: Arc::new(policy.clone()),
                number,
                losses: vec![LossCount::default(); devices],
                left_out: vec![None; devices],
            }),
            governing,
            learning: learning.clone(),
            overflow: OverflowState::default(),
            recovery: Mutex::new(()),
            old: Mutex::new(Vec::new()),
            runs: AtomicU64::new(0),
            latest: Arc::default(),
            thermal_timer,
            standby: Mutex::new(standby),
            places,
            pace: Pace::new(cadence),
            lateness: Lateness::new(devices, policy.frame_deadline(), policy.temperature_limit()),
            events: Mutex::new(events),
            tracer: Tracer::default(),
            parking: Parking::new(now_ns),
            shared: Arc::clone(shared),
            policy,
        });
        inner.parking.keep(plan.settle());
        let parkable: Weak<Inner> = Arc::downgrade(&inner);
        shared.memory.add_parkable(parkable);
        shared.watch_pressure();
        if shared.profile.path().is_some() && !shared.host.clock().is_virtual() {
            let session: Arc<dyn Figures> = Arc::<Inner>::clone(&inner);
            shared.durable.add(Arc::downgrade(&session));
        }
        let mut watch = None;
        if let (Some(governing), Some(governed)) = (&inner.governing, inner.policy.governing()) {
            governing.begin(&inner, governed);
            if !inner.shared.host.clock().is_virtual() {
                let made = Watch::start(Arc::clone(&inner), Arc::clone(&governing.wake), governed.every);
                let failed = |error| Error::caused(ErrorKind::Io, "starting a thread", error);
                watch = Some(Arc::new(made.map_err(failed)?));
            }
        }
        Ok(Specialization {
            _watch: watch,
            _learning: learning.map(|learning| {
                let inner = Arc::clone(&inner);
                Arc::new(LearningEnd { learning, inner })
            }),
            inner,
        })
    }
}

/// Plan numbers reserved for one specialization; more than it can use. Replicas count in the eight bits above
/// 2^56 (`LoadedPlan::output_number`).
const PLANS: u64 = 1 << 24;

/// The first of the plan numbers of a specialization. No other in the process has them, so memory that several
/// sessions use is bound to one plan.
pub(crate) fn next_plans() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed) * PLANS
}

/// A number that no session of the process has.
pub(crate) fn next_id() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Session {
    pub(crate) fn new(shared: Arc<Shared>, planned: Planned, policy: Policy) -> Result<Session> {
        let run_limit = Arc::new(InFlightLimit::new(policy.runs_in_flight()));
        Session::within(run_limit, shared, planned, policy)
    }

    /// A session whose runs count with those of others.
    fn within(
        run_limit: Arc<InFlightLimit>,
        shared: Arc<Shared>,
        planned: Planned,
        policy: Policy,
    ) -> Result<Session> {
        let id = next_id();
        let special = Specialization::new(id, &shared, planned, policy.clone())?;
        Ok(Session(Arc::new(Shapes::known(
            id, policy, run_limit, special, None,
        ))))
    }

    /// A session of what was compiled ahead; of a model with open sizes, with what was compiled for some of them.
    pub(crate) fn precompiled(
        shared: Arc<Shared>,
        model: &Model,
        policy: Policy,
        made: &[Precompiled],
    ) -> Result<Session> {
        if !model.open_dims().is_empty() {
            let session = Session::open(shared, model, policy)?;
            for one in made {
                session.0.add(one)?;
            }
            return Ok(session);
        }
        let [made] = made else {
            let words = format!(
                "{}: expected 1 precompiled plan, because the model has no open dimension; got {}",
                model.path().display(),
                made.len()
            );
            return Err(Error::new(ErrorKind::BadPlan, words));
        };
        let (id, run_limit) = (next_id(), Arc::new(InFlightLimit::new(policy.runs_in_flight())));
        let loaded = made.loaded(&shared, model, &policy)?;
        let special = Specialization::loaded(id, &shared, loaded, policy.clone(), None)?;
        Ok(Session(Arc::new(Shapes::known(
            id, policy, run_limit, special, None,
        ))))
    }

    /// An admitted session, with its first plan among those that it keeps ready; later plans count from `next_plan`.
    pub(crate) fn admitted(
        shared: &Arc<Shared>,
        id: usize,
        policy: Policy,
        first: Arc<LoadedPlan>,
        standby: Vec<StandbyPlan>,
        next_plan: u64,
        held: SessionResources,
    ) -> Result<Session> {
        let run_limit = Arc::new(InFlightLimit::new(policy.runs_in_flight()));
        let special = Specialization::of(id, shared, first, standby, policy.clone(), next_plan)?;
        Ok(Session(Arc::new(Shapes::known(
            id,
            policy,
            run_limit,
            special,
            Some(held),
        ))))
    }

    /// A session of a model with open sizes.
    pub(crate) fn open(shared: Arc<Shared>, model: &Model, policy: Policy) -> Result<Session> {
        let run_limit = Arc::new(InFlightLimit::new(policy.runs_in_flight()));
        let shapes = Shapes::open(next_id(), run_limit, shared, model, policy)?;
        Ok(Session(Arc::new(shapes)))
    }

    /// The current plan; a trial may run another one ([`Policy::learn`]). It changes when the session adopts
    /// a faster plan, loses a device or excludes a hot one, and when its governor switches. For a model with
    /// open sizes, it is the plan for the last used sizes; `None` before the first run.
    #[must_use]
    pub fn plan(&self) -> Option<Plan> {
        self.planned().map(|planned| planned.plan().clone())
    }

    /// Like [`Session::plan`], with the graph, devices and costs that the plan was made from.
    #[must_use]
    pub fn planned(&self) -> Option<Arc<Planned>> {
        let inner = self.0.latest()?;
        let planned = Arc::clone(&inner.current().planned);
        Some(planned)
    }

    /// Whether the model has open sizes, which the inputs of each run set.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.model().is_some()
    }

    /// Names, types and shapes of the inputs.
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = &TensorSpec> {
        self.0.inputs.iter()
    }

    /// Names, types and shapes of the outputs.
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = &TensorSpec> {
        self.0.outputs.iter()
    }

    fn input_index(&self, name: &str) -> Result<usize> {
        let all = || self.inputs().chain(self.0.defaults());
        all()
            .position(|input| input.name == name)
            .ok_or_else(|| no_such("input", name, all()))
    }

    fn output_index(&self, name: &str) -> Result<usize> {
        self.outputs()
            .position(|output| output.name == name)
            .ok_or_else(|| no_such("output", name, self.outputs()))
    }

    /// Allocates an input, which its devices read in place. If one of its sizes is open, set the shape
    /// ([`Input::resize`]) before you write the input.
    ///
    /// # Errors
    /// The model has no such input, or memory is exhausted.
    pub fn input(&self, name: &str) -> Result<Input> {
        let index = self.input_index(name)?;
        let spec = self.0.input_spec(index);
        let usable = self.0.latest().and_then(|inner| inner.usable());
        let bound = usable
            .filter(|_| spec.open.is_empty() && index < self.0.inputs.len())
            .and_then(|plan| TensorMemory::new(spec, true, plan.number, &plan.input_users(index)).ok());
        let memory = match bound {
            Some(memory) => memory,
            // sizes are open or a device is lost: the next run's devices get the memory
            None => TensorMemory::new(spec, true, u64::MAX, &[])?,
        };
        Ok(self.input_in(index, spec, memory))
    }

    /// Makes an input of this shape over the app's own memory, such as a camera frame. Devices read it in
    /// place. A device that cannot import the memory gets a copy, which the report counts.
    ///
    /// # Errors
    /// The model has no such input, the shape does not fit it, or the memory is too small.
    pub fn input_from(&self, name: &str, shape: &[usize], memory: &Memory) -> Result<Input> {
        let index = self.input_index(name)?;
        let own = self.0.input_spec(index);
        let memory = TensorMemory::of(&own.with_shape(shape)?, true, memory)?;
        let mut input = self.input_in(index, own, memory);
        input.sized = true;
        Ok(input)
    }

    /// Makes an input over the memory of an output, of this or another session of the runtime, so that the
    /// next run reads it in place. It has the output's current shape. A run is refused while another run
    /// writes the memory that it reads, or reads the memory that it writes. For a device that shares no
    /// memory with the host, the tensor is copied, and its session's report counts the copy.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), polychip::Error> {
    /// # use polychip::{Policy, Runtime};
    /// # let patience = std::time::Duration::from_secs(1);
    /// # let runtime = Runtime::builder().build()?;
    /// # let [encoder, decoder] = ["encoder.onnx", "decoder.onnx"]
    /// #     .map(|path| runtime.load(path).and_then(|model| runtime.session(&model, Policy::latency())).unwrap());
    /// let sound = encoder.input("sound")?;
    /// let hidden = encoder.output("hidden")?;
    /// let context = decoder.input_from_output("context", &hidden)?;
    /// encoder.submit_into(&[&sound], &[&hidden])?.wait(patience)?;
    /// let text = decoder.submit(&[&context])?.wait(patience)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The model has no such input, its type or shape differs, a size of the output is still open or known
    /// only after the run, or a run with the output is in flight.
    pub fn input_from_output(&self, name: &str, output: &Output) -> Result<Input> {
        let index = self.input_index(name)?;
        let (takes, gives) = (self.0.input_spec(index), &output.spec);
        let wrong = |why: String| {
            let words = format!(
                "input {name:?} cannot be read from output {:?}: {why}",
                output.name()
            );
            Err(Error::new(ErrorKind::BadInput, words))
        };
        if takes.dtype != gives.dtype {
            return wrong(format!(
                "its type is {}, that of the output is {}",
                takes.dtype.name(),
                gives.dtype.name()
            ));
        }
        if takes.packed || gives.packed || gives.upper_bound {
            return wrong("the size of its elements is known only after the run".to_owned());
        }
        if let Some((_, open)) = gives.open.iter().find(|(axis, _)| output.shape()[*axis] == 0) {
            return wrong(format!(
                "the output's size {open:?} is open; set it first (Output::resize)"
            ));
        }
        let spec = takes.with_shape(output.shape())?;
        if output.memory.is_in_flight() {
            return Err(output_in_flight(output));
        }
        let plan = self.0.latest().and_then(|inner| inner.usable());
        let copied = plan
            .map(|plan| Arc::clone(&plan.wiring.copied))
            .unwrap_or_default();
        let memory = output.memory.share(&spec, &copied)?;
        let mut input = self.input_in(index, takes, memory);
        input.sized = true;
        Ok(input)
    }

    fn input_in(&self, index: usize, spec: &TensorSpec, memory: TensorMemory) -> Input {
        Input {
            index,
            session: self.0.id,
            owner: owner(&self.0),
            memory: Arc::new(memory),
            spec: spec.clone(),
            sized: spec.open.is_empty() && !spec.any_rank,
        }
    }

    /// Allocates an output for [`Session::submit_into`]. If one of its sizes is open, set the shape
    /// ([`Output::resize`]) first.
    ///
    /// # Errors
    /// The model has no such output, no run writes it, or no memory is left.
    pub fn output(&self, name: &str) -> Result<Output> {
        let index = self.output_index(name)?;
        let spec = &self.0.outputs[index];
        let memory = match self.0.latest().filter(|_| self.0.model().is_none()) {
            Some(inner) => inner.with_plan(|plan| {
                let users = plan.output_users(index);
                memory::output(&plan.wiring, index, plan.output_number(index), &users)
            })?,
            None => TensorMemory::new(spec, false, u64::MAX, &[])?,
        };
        Ok(self.output_in(index, spec, memory))
    }

    /// Makes an output of this shape over the app's own memory, which runs write in place. For a device that
    /// cannot import the memory, the output is copied there after the run, and the report counts the copy.
    ///
    /// # Errors
    /// The model has no such output, the shape does not fit it, or the memory is too small.
    pub fn output_in_memory(&self, name: &str, shape: &[usize], memory: &Memory) -> Result<Output> {
        let index = self.output_index(name)?;
        let spec = self.0.outputs[index].with_shape(shape)?;
        let memory = TensorMemory::of(&spec, false, memory)?;
        Ok(self.output_in(index, &self.0.outputs[index], memory))
    }

    fn output_in(&self, index: usize, spec: &TensorSpec, memory: TensorMemory) -> Output {
        Output {
            index,
            session: self.0.id,
            owner: owner(&self.0),
            memory: Arc::new(memory),
            spec: spec.clone(),
        }
    }

    /// Feeds an output back as an input: each run reads in place what the previous run wrote, and
    /// the first run reads zeros. Runs then neither get this input nor return this output, and
    /// execute one after the other.
    ///
    /// # Errors
    /// The model has no such input or output, they differ in type or shape, one of them is already bound, or
    /// one of their sizes has buckets ([`Policy::shapes`](crate::Policy::shapes)).
    pub fn bind_state(&self, input: &str, output: &str) -> Result<()> {
        let (from, to) = (self.output_index(output)?, self.input_index(input)?);
        let (takes, gives) = (self.0.input_spec(to), &self.0.outputs[from]);
        self.0.check_state(takes, gives)?;
        self.0.states.bind((to, takes), (from, gives))
    }

    /// Sets all states to zero.
    ///
    /// # Errors
    /// A run is in flight.
    pub fn reset_state(&self) -> Result<()> {
        self.0.states.reset(&self.0.inputs)
    }

    /// Saves the state of an input as shape and bytes, for [`Session::set_state`] of this session
    /// or another one, even after an app restart. If the model has open sizes, the state has no
    /// elements before the first run.
    ///
    /// # Errors
    /// The input is not a state, or a run is in flight.
    pub fn state(&self, input: &str) -> Result<(Vec<usize>, Vec<u8>)> {
        let index = self.input_index(input)?;
        let spec = self.0.input_spec(index);
        let bytes = self.0.states.save(index, spec)?;
        let shape = self.0.states.shape(index).unwrap_or_else(|| spec.shape.clone());
        Ok((shape, bytes))
    }

    /// Sets the state of an input.
    ///
    /// # Errors
    /// The input is not a state, the shape or the number of bytes does not fit, or a run is in flight.
    pub fn set_state(&self, input: &str, shape: &[usize], bytes: &[u8]) -> Result<()> {
        let index = self.input_index(input)?;
        self.0.states.load(index, self.0.input_spec(index), shape, bytes)
    }

    /// Starts a run on these inputs, in any order, and does not wait for its end. In three cases the
    /// call first plans or compiles, which may take seconds: for new sizes of a model with open
    /// sizes, after a device was lost, became too hot or has cooled, and if the session is parked. [`Session::prepare`] plans
    /// for sizes in advance. If another thread already plans for these sizes, the call waits for
    /// it. The call also copies inputs for devices that cannot import their memory.
    ///
    /// # Errors
    /// An input is missing, given twice or of another session; as many runs are in flight as the policy
    /// allows ([`ErrorKind::InFlight`], which lists them; [`Session::submit_blocking`] waits); the session is
    /// closed; or a device failed in every attempt that the policy allows.
    pub fn submit(&self, inputs: &[&Input]) -> Result<Run> {
        self.submit_into(inputs, &[])
    }

    /// Like [`Session::submit`], but the run writes into these outputs instead of memory of its
    /// own.
    ///
    /// # Errors
    /// As for [`Session::submit`]; also if an output is in flight or of another session.
    pub fn submit_into(&self, inputs: &[&Input], outputs: &[&Output]) -> Result<Run> {
        self.submit_with(inputs, outputs, RunOptions::new())
    }

    /// Like [`Session::submit`], but if as many runs are in flight as the policy allows, waits
    /// until one has returned its outputs. (A run whose [`Run`] was dropped only needs to end.)
    /// Waiting threads proceed in order of arrival.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), polychip::Error> {
    /// # let runtime = polychip::Runtime::builder().build()?;
    /// # let session = runtime.session(&runtime.load("model.onnx")?, polychip::Policy::throughput())?;
    /// # let frames = [vec![0.5f32; 3 * 96 * 96]];
    /// std::thread::scope(|scope| {
    ///     for frame in &frames {
    ///         let session = &session;
    ///         scope.spawn(move || -> Result<(), polychip::Error> {
    ///             let mut image = session.input("image")?;
    ///             image.write(frame)?;
    ///             let outputs = session.submit_blocking(&[&image])?.wait(std::time::Duration::from_secs(1))?;
    ///             println!("{:?}", outputs.at(0)?.values::<f32>()?);
    ///             Ok(())
    ///         });
    ///     }
    /// });
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Session::submit`], except for runs in flight; [`ErrorKind::Closed`] once [`Session::close`]
    /// is called, even while waiting.
    pub fn submit_blocking(&self, inputs: &[&Input]) -> Result<Run> {
        self.submit_within(inputs, &[], Duration::MAX)
    }

    /// Combines [`Session::submit_into`] and [`Session::submit_blocking`], and waits at most
    /// `timeout`.
    ///
    /// # Errors
    /// As for [`Session::submit_into`] and [`Session::submit_blocking`].
    pub fn submit_within(&self, inputs: &[&Input], outputs: &[&Output], timeout: Duration) -> Result<Run> {
        self.submit_with(inputs, outputs, RunOptions::new().queue_timeout(timeout))
    }

    /// Like [`Session::submit_into`], with options for this run alone: its own deadline, or how long it may
    /// wait for other runs in flight.
    ///
    /// # Errors
    /// As for [`Session::submit_into`].
    pub fn submit_with(&self, inputs: &[&Input], outputs: &[&Output], options: RunOptions) -> Result<Run> {
        self.submit_and(inputs, outputs, options, Waits::AsAllowed, &|| {
            self.0.reap_variants()
        })
    }

    /// Like [`Session::submit_with`]; `reap` looks for ended runs of the other sessions that share the permits.
    fn submit_and(
        &self,
        inputs: &[&Input],
        outputs: &[&Output],
        options: RunOptions,
        waits: Waits,
        reap: &dyn Fn(),
    ) -> Result<Run> {
        let never = waits == Waits::Never;
        let (states, run_limit) = (&self.0.states, &self.0.run_limit);
        let mut submitted = Submitted::at(self.0.now_ns());
        let patience = options.queue_timeout.filter(|_| !never);
        if let Some(input) = inputs.iter().find(|input| input.session != self.0.id) {
            let words = format!("input {:?} belongs to another session", input.name());
            return Err(Error::new(ErrorKind::BadInput, words));
        }
        let given = inputs.iter().filter(|input| input.sized);
        let given = given.map(|input| (input.index, input.shape()));
        let variant = if never {
            self.made_variant(given)?
        } else {
            self.variant(given)?.map(Some)
        };
        match variant {
            Some(Some(variant)) => {
                return variant.submit_for(inputs, outputs, options, waits, &|| self.0.reap_ended());
            }
            Some(None) => return Err(self.make_ahead(inputs, "there is no plan for these inputs yet")),
            None => {}
        }
        let found = if never {
            self.0.of_made(inputs)?
        } else {
            Some(self.0.of(inputs)?)
        };
        let Some((inner, padding)) = found else {
            return Err(self.make_ahead(inputs, "there is no plan for these sizes yet"));
        };
        run_limit.raise(inner.places);
        inner.check_inputs(inputs, states, padding.as_deref())?;
        inner.check_outputs(outputs, inputs, states, padding.as_deref())?;
        let stateful = !states.is_empty();
        let most = if stateful { 1 } else { usize::MAX };
        let permit = match (run_limit.take(most), patience) {
            (Some(permit), _) => Some(permit),
            (None, None) => {
                inner.reap_ended();
                reap();
                run_limit.take(most)
            }
            (None, Some(patience)) => {
                let before = inner.now_ns();
                let reap = || {
                    inner.reap_ended();
                    reap();
                };
                let permit = run_limit.wait(most, patience, reap);
                submitted.waited(inner.now_ns().saturating_sub(before));
                permit
            }
        };
        let permit = permit.ok_or_else(|| run_limit.refusal(stateful, never))?;
        let run = permit.run();
        inner.parking.is_used(submitted.at_ns());
        if never && inner.minds_heat(submitted.at_ns()) {
            // the run takes the plan that is there
            self.make_ahead(inputs, "");
        } else {
            inner.mind_heat(submitted.at_ns());
        }
        let is_alone = run_limit.is_only(run);
        submitted.is_alone(is_alone);
        let trial = inner
            .learning
            .as_ref()
            .and_then(|learning| learning.trial(&inner, is_alone && !stateful, submitted.at_ns()));
        let ready = match trial.or_else(|| inner.usable()) {
            Some(ready) => ready,
            None if never => {
                return Err(self.make_ahead(
                    inputs,
                    "a device of the plan was lost, and there is no other plan yet",
                ));
            }
            None => inner.ready()?,
        };
        let wanted = Wanted {
            inputs,
            outputs,
            padding: padding.as_ref(),
            seed: inner.policy.random_seed(),
            run,
            states: stateful.then_some(states),
        };
        let given = match wanted.slot(&ready) {
            Err(error) if !never && ready.is_lost(&error) => inner.with_plan(|plan| wanted.slot(plan)),
            given => given,
        };
        let (plan, index, mut slot) = given?;
        slot.given.permit = Some(permit);
        let own = options.deadline.map(whole_ns);
        submitted.due(own.or_else(|| inner.lateness.deadline_ns()));
        let retries = inner.policy.allowed_retries();
        let terms = Terms {
            class: queue_grants::class(inner.policy.urgency()),
            due_ns: submitted.due_ns(),
            since_ns: submitted.since_ns(),
            late: options.late.unwrap_or(inner.policy.late_rule()),
            number: inner.latest.fetch_add(1, Ordering::AcqRel) + 1,
            latest: Arc::clone(&inner.latest),
        };
        let flight = (Arc::clone(run_limit), run);
        let at_once = if never { 0 } else { retries };
        let run = Run::start(inner, plan, index, slot, at_once, submitted, terms, flight)?;
        Ok(if never { run.with_retries(retries) } else { run })
    }

    /// Stops new runs, in all clones: `submit` fails with [`ErrorKind::Closed`], and so do threads that wait
    /// in [`Session::submit_blocking`]. Runs in flight finish and return their outputs. Call it if an app
    /// ends while its threads still submit.
    pub fn close(&self) {
        self.0.run_limit.close();
    }

    /// Predicted and measured figures of the plan and its parts. For a model with open sizes, those of the
    /// last used sizes; empty before its first run.
    #[must_use]
    pub fn report(&self) -> Report {
        let report = match (self.0.latest(), self.0.model()) {
            (Some(inner), _) => Report::new(&inner),
            (None, model) => Report::unplanned(model),
        };
        Report {
            shapes: self.0.report(),
            resident_bytes: self.resident_bytes(),
            parked: self.is_parked(),
            memory: self.0.shared().memory.report(),
            ..report
        }
    }
}

fn no_such<'a>(what: &str, name: &str, specs: impl Iterator<Item = &'a TensorSpec>) -> Error {
    let known: Vec<&str> = specs.map(|spec| spec.name.as_str()).collect();
    let known = known.join(", ");
    let words = format!("the model has no {what} {name:?}; its {what}s are: {known}");
    Error::new(ErrorKind::BadInput, words)
}

/// Whom the session's memory asks about its runs.
fn owner(shapes: &Arc<Shapes>) -> Weak<dyn Owner> {
    let owner: Weak<Shapes> = Arc::downgrade(shapes);
    owner
}

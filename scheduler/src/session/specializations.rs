//! The specialisations of a session: one if all sizes of the model are known, otherwise one per set
//! of sizes that ran.
//!
//! Invariants:
//! 1. A run finds its specialisation by the shapes of its inputs, without allocation if it exists.
//! 2. One caller plans for a set of sizes; others that need it meanwhile wait.
//! 3. Cached specialisations stay below the policy's bytes: the least recently used are dropped
//!    first, and stay complete until their last run has ended.
//! 4. A stand-in (a plan for the CPU alone) is replaced between runs, once the plan for all devices
//!    is loaded.
//!
//! Not here: one specialisation with its plan and runs (`specialization_state`), the memory of
//! inputs (`tensor`), padded sizes (`buckets`), the planning thread (`background`).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use polychip_host::{Device, DeviceKind};
use smallvec::SmallVec;

use crate::error::{Error, ErrorKind, Result};
use crate::model::Model;
use crate::planned;
use crate::policy::Policy;
use crate::precompiled::Precompiled;
use crate::session::ahead::Ahead;
use crate::session::background::Background;
use crate::session::buckets::{Buckets, Padding, Sizes};
use crate::session::charges::NODE_BYTES;
use crate::session::in_flight_limit::InFlightLimit;
use crate::session::io_specs::{open_spec, sizes_of_strings, sizes_spec};
use crate::session::run_input::run_input;
use crate::session::settings_change::SettingsChange;
use crate::session::specialization_report::{PlanningPhases, ShapesReport, SpecialisationReport};
use crate::session::specialization_state::Inner;
use crate::session::state::States;
use crate::shared::Shared;
use crate::tensor::{Input, Owner, TensorMemory, TensorSpec};

mod answers;
mod eviction;
mod made;
mod making;
mod ready;
mod sizes;
mod specialization;
mod take_over;
#[cfg(test)]
mod tests;
mod variant_table;
mod variants;

use answers::Answers;
use made::Made;
pub(crate) use specialization::Specialization;
use variant_table::Variants;

/// Resources that are freed with the last clone of a session.
pub(crate) type SessionResources = Box<dyn std::fmt::Debug + Send + Sync>;

/// State that the clones of a session share.
#[derive(Debug)]
pub(crate) struct Shapes {
    /// Distinguishes sessions, so that an input of another one is refused.
    pub(crate) id: usize,
    pub(crate) policy: Policy,
    pub(crate) inputs: Vec<TensorSpec>,
    pub(crate) outputs: Vec<TensorSpec>,
    pub(crate) run_limit: Arc<InFlightLimit>,
    pub(crate) states: Arc<States>,
    /// Ends before the specialisations that it plans for.
    background: Option<Background>,
    kind: Kind,
    /// None where the model says all that a run may be given.
    pub(crate) variants: Option<Variants<Shapes>>,
    /// What is made ready for callers that do not wait.
    pub(crate) ahead: Ahead,
    /// The reservation of an admitted session.
    _held: Option<SessionResources>,
}

#[derive(Debug)]
enum Kind {
    Known(Specialization),
    Open(Arc<Open>),
}

/// The specialisations of a model with open sizes.
#[derive(Debug)]
pub(crate) struct Open {
    /// As of [`Shapes`].
    id: usize,
    policy: Policy,
    shared: Arc<Shared>,
    /// Whether weights of 16 bits stay so.
    halves: bool,
    model: Model,
    /// Names of the open dimensions.
    names: Vec<String>,
    /// By input: its axes with an open size, and the place of the name.
    axes: Vec<Vec<(usize, usize)>>,
    /// By input: the sizes of strings, where some are open: those of what a run is given.
    strings: Vec<Option<TensorSpec>>,
    buckets: Option<Buckets>,
    /// Policy of plans for the CPU alone; `None` if runs wait for the plan for all devices.
    stand_in: Option<Policy>,
    /// Sizes that the devices were asked about, for further sizes: for the policy, and for stand-ins.
    answers: Answers,
    stand_in_answers: Answers,
    kept: Mutex<SpecializationTable>,
    /// Notified when a specialisation was made or failed.
    made: Condvar,
    hits: AtomicU64,
    misses: AtomicU64,
    /// Runs that a stand-in answered.
    stood_in: AtomicU64,
    /// Plans that replaced a stand-in.
    took_over: AtomicU64,
    /// Changes of settings since, for later specialisations; locked after `kept` where both are.
    changes: Mutex<Vec<SettingsChange>>,
}

#[derive(Debug, Default)]
struct SpecializationTable {
    all: Vec<Specialised>,
    making: Vec<Sizes>,
    /// Counts uses.
    used: u64,
    dropped: u64,
}

#[derive(Debug)]
struct Specialised {
    sizes: Sizes,
    special: Specialization,
    used: u64,
    bytes: u64,
    planning_ns: u64,
    phases: PlanningPhases,
    /// Sizes from which its costs are scaled.
    costs_of: Option<Sizes>,
    /// Whether it is a stand-in for the plan for all devices.
    stands_in: bool,
    /// Runs of the stand-in before it.
    runs_before: u64,
}

impl Shapes {
    /// A session with a single specialisation.
    pub(crate) fn known(
        id: usize,
        policy: Policy,
        run_limit: Arc<InFlightLimit>,
        special: Specialization,
        held: Option<SessionResources>,
    ) -> Shapes {
        let inner = &special.inner;
        let seen = run_input(inner.inputs.iter()).unwrap_or(inner.inputs.len());
        let planned = Arc::clone(&inner.current().planned);
        let model = planned.model();
        // what is admitted is proved for its own graph
        let variants =
            (model.has_defaults() && held.is_none()).then(|| Variants::new(&inner.shared, model, &policy));
        Shapes {
            variants,
            id,
            inputs: inner.inputs[..seen].to_vec(),
            outputs: inner.outputs.clone(),
            states: Arc::default(),
            kind: Kind::Known(special),
            background: None,
            policy,
            run_limit,
            ahead: Ahead::default(),
            _held: held,
        }
    }

    /// A session of a model with open sizes.
    pub(crate) fn open(
        id: usize,
        run_limit: Arc<InFlightLimit>,
        shared: Arc<Shared>,
        model: &Model,
        policy: Policy,
    ) -> Result<Shapes> {
        let refuse = |kind: ErrorKind, words: &str| {
            let names = model.open_dims().join(", ");
            let words = format!(
                "{}: {words}; give a size to {names} (Model::bind)",
                model.path().display()
            );
            Err(Error::new(kind, words))
        };
        if policy.governing().is_some() {
            return refuse(ErrorKind::BadInput, "a governed session takes one shape");
        }
        let devices = planned::choose_devices(&shared, &policy)?;
        let names = model.open_dims();
        let graph = model.graph();
        let spec = |id: &polychip_graph::TensorId| open_spec(graph.tensor(*id));
        let has_rank = |id: &polychip_graph::TensorId| {
            !graph.tensor(*id).is_tensor() || graph.tensor(*id).ty.shape.is_some()
        };
        if let Some(id) = graph.inputs.iter().find(|id| !has_rank(id))
            && model.source().is_none()
        {
            let words = format!("input {:?} has no known rank", graph.tensor(*id).name);
            return refuse(ErrorKind::BadInput, &words);
        }
        let inputs: Vec<TensorSpec> = graph.inputs.iter().map(spec).collect();
        let strings = |id: &polychip_graph::TensorId| {
            let tensor = graph.tensor(*id);
            let is_strings = tensor.is_packed() && tensor.is_tensor();
            Some(sizes_spec(tensor)).filter(|spec| is_strings && !spec.open.is_empty())
        };
        let strings: Vec<Option<TensorSpec>> = graph.inputs.iter().map(strings).collect();
        let place = |name: &String| names.iter().position(|other| other == name);
        let axes = |spec: &TensorSpec| {
            let open = spec.open.iter();
            open.filter_map(|(axis, name)| Some((*axis, place(name)?)))
                .collect()
        };
        let halves = planned::keeps_halves(&devices, &policy);
        let canonical = || model.open_canonical(halves, || planned::canonical(&shared, model, halves));
        let buckets = Buckets::new(model, &names, policy.buckets(), canonical)?;
        let variants = Variants::new(&shared, model, &policy);
        let stand_in = stand_in(&policy, &devices);
        let on_one_device = |policy: &Policy| planned::may_resize(1, policy);
        let open = Arc::new(Open {
            id,
            policy: policy.clone(),
            halves,
            model: model.clone(),
            axes: inputs
                .iter()
                .zip(&strings)
                .map(|(input, strings)| axes(strings.as_ref().unwrap_or(input)))
                .collect(),
            strings,
            names,
            buckets,
            answers: Answers::new(planned::may_resize(devices.len(), &policy)),
            stand_in_answers: Answers::new(stand_in.as_ref().is_some_and(on_one_device)),
            stand_in,
            shared,
            kept: Mutex::default(),
            made: Condvar::new(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            stood_in: AtomicU64::new(0),
            took_over: AtomicU64::new(0),
            changes: Mutex::default(),
        });
        let cache: Weak<Open> = Arc::downgrade(&open);
        open.shared.memory.add_cache(cache);
        let background = open.stand_in.is_some().then(|| {
            let (planning, failing) = (Arc::clone(&open), Arc::clone(&open));
            Background::start(
                move |sizes| planning.take_over(sizes),
                move |sizes, message| failing.not_planned(sizes, "", format!("planning panicked: {message}")),
            )
        });
        let background = background
            .transpose()
            .map_err(|error| Error::caused(ErrorKind::Io, "starting a thread", error))?;
        Ok(Shapes {
            id,
            outputs: graph.outputs.iter().map(spec).collect(),
            variants: Some(variants),
            states: Arc::default(),
            run_limit,
            kind: Kind::Open(open),
            background,
            inputs,
            policy,
            ahead: Ahead::default(),
            _held: None,
        })
    }

    /// The last used specialisation; `None` before the first run of a model with open sizes.
    pub(crate) fn latest(&self) -> Option<Arc<Inner>> {
        match &self.kind {
            Kind::Known(special) => Some(Arc::clone(&special.inner)),
            Kind::Open(open) => {
                let kept = open.lock();
                let latest = kept.all.iter().max_by_key(|one| one.used);
                latest.map(|one| Arc::clone(&one.special.inner))
            }
        }
    }

    /// Records a change of a setting for later specialisations.
    pub(crate) fn keep(&self, change: SettingsChange) {
        if let Kind::Open(open) = &self.kind {
            let mut all = open.changes.lock().unwrap_or_else(PoisonError::into_inner);
            change.record_in(&mut all);
        }
    }

    /// All specialisations.
    pub(crate) fn all(&self) -> Vec<Arc<Inner>> {
        match &self.kind {
            Kind::Known(special) => vec![Arc::clone(&special.inner)],
            Kind::Open(open) => {
                let kept = open.lock();
                kept.all
                    .iter()
                    .map(|one| Arc::clone(&one.special.inner))
                    .collect()
            }
        }
    }

    /// The specialisation for these inputs, made if missing, and the valid sizes of its runs if it
    /// belongs to a larger bucket.
    pub(crate) fn of(&self, inputs: &[&Input]) -> Result<(Arc<Inner>, Option<Arc<Padding>>)> {
        match &self.kind {
            Kind::Known(special) => Ok((Arc::clone(&special.inner), None)),
            Kind::Open(open) => {
                let shapes = inputs.iter().map(|input| {
                    input.check_sized()?;
                    let Some(strings) = &open.strings[input.index] else {
                        return Ok((input.index, Cow::Borrowed(input.shape())));
                    };
                    let sizes = sizes_of_strings(input)?;
                    strings.check(&sizes)?;
                    Ok((input.index, Cow::Owned(sizes)))
                });
                let sizes = self.sizes(open, shapes)?;
                let (sizes, padding) = open.bucket(sizes)?;
                Ok((open.specialised(&sizes, self.background.as_ref())?, padding))
            }
        }
    }

    /// Plans for inputs of these shapes, unless that was done.
    pub(crate) fn prepare(&self, shapes: &[(usize, &[usize])]) -> Result<Arc<Inner>> {
        self.check(shapes)?;
        match &self.kind {
            Kind::Known(special) => Ok(Arc::clone(&special.inner)),
            Kind::Open(open) => {
                let sizes = self.sizes(
                    open,
                    shapes
                        .iter()
                        .map(|(index, shape)| Ok((*index, Cow::Borrowed(*shape)))),
                )?;
                let (sizes, _) = open.bucket(sizes)?;
                if let Some(background) = &self.background {
                    background.wait_for(&sizes);
                }
                open.specialised(&sizes, None)
            }
        }
    }

    /// Simplifies the model with its sizes open, so that the first run does not wait for that.
    pub(crate) fn simplify(&self) {
        if let Kind::Open(open) = &self.kind
            && let Err(error) = open.canonical()
        {
            // the first run gives this error, with its sizes
            tracing::info!("the model with open sizes is not simplified: {error}");
        }
    }

    /// Adds a specialisation that was compiled ahead for some sizes.
    pub(crate) fn add(&self, made: &Precompiled) -> Result<()> {
        match &self.kind {
            Kind::Known(_) => Ok(()),
            Kind::Open(open) => open.add(made),
        }
    }

    /// The outputs of a run on inputs of these shapes, without outputs that no run writes.
    pub(crate) fn outputs_for(&self, shapes: &[(usize, &[usize])]) -> Result<Vec<Option<TensorSpec>>> {
        self.check(shapes)?;
        let (inner, padding) = match &self.kind {
            Kind::Known(special) => (Arc::clone(&special.inner), None),
            Kind::Open(open) => {
                let sizes = self.sizes(
                    open,
                    shapes
                        .iter()
                        .map(|(index, shape)| Ok((*index, Cow::Borrowed(*shape)))),
                )?;
                let (sizes, padding) = open.bucket(sizes)?;
                (open.specialised(&sizes, self.background.as_ref())?, padding)
            }
        };
        let plan = inner.ready()?;
        let outputs = inner.outputs.iter().enumerate().map(|(index, spec)| {
            if !plan.wiring.is_written(index) {
                return Ok(None);
            }
            let cut = padding
                .as_ref()
                .and_then(|padding| padding.shapes.outputs[index].as_deref());
            let spec = cut.map_or_else(|| Ok(spec.clone()), |shape| spec.sized(shape));
            spec.map(Some)
        });
        outputs.collect()
    }

    /// Checks the shapes of inputs; strings have their own shapes if the model leaves their sizes
    /// open.
    fn check(&self, shapes: &[(usize, &[usize])]) -> Result<()> {
        let strings = |index: usize| match &self.kind {
            Kind::Open(open) => open.strings[index].as_ref(),
            Kind::Known(_) => None,
        };
        shapes
            .iter()
            .try_for_each(|(index, shape)| strings(*index).unwrap_or(&self.inputs[*index]).check(shape))
    }

    /// Refuses padded states, because a state keeps its memory from run to run.
    pub(crate) fn check_state(&self, takes: &TensorSpec, gives: &TensorSpec) -> Result<()> {
        let Kind::Open(open) = &self.kind else {
            return Ok(());
        };
        let Some(buckets) = &open.buckets else {
            return Ok(());
        };
        let mut sizes = takes.open.iter().chain(&gives.open);
        match sizes.find(|(_, name)| buckets.has(&open.names, name)) {
            None => Ok(()),
            Some((_, name)) => {
                let words = format!(
                    "output {:?} cannot be the state of input {:?}: its size {name:?} has buckets (Policy::shapes), and a state \
                     is not padded",
                    gives.name, takes.name
                );
                Err(Error::new(ErrorKind::BadInput, words))
            }
        }
    }

    /// The sizes of the open dimensions by the shapes of inputs.
    fn sizes<'a>(
        &self,
        open: &Open,
        shapes: impl Iterator<Item = Result<(usize, Cow<'a, [usize]>)>>,
    ) -> Result<Sizes> {
        // the input that set the size first
        let mut sizes: SmallVec<[Option<(usize, usize)>; 8]> = smallvec::smallvec![None; open.names.len()];
        for shape in shapes {
            let (index, shape) = shape?;
            for &(axis, name) in &open.axes[index] {
                let (size, by) = *sizes[name].get_or_insert((shape[axis], index));
                if size != shape[axis] {
                    let words = format!(
                        "dimension {:?} is {size} in input {:?} and {} in input {:?}",
                        open.names[name], self.inputs[by].name, shape[axis], self.inputs[index].name
                    );
                    return Err(Error::new(ErrorKind::BadInput, words));
                }
            }
        }
        for (index, axes) in open.axes.iter().enumerate() {
            for &(axis, name) in axes {
                if sizes[name].is_none()
                    && let Some(shape) = self.states.shape(index)
                {
                    sizes[name] = Some((shape[axis], index));
                }
            }
        }
        let size = |(name, size): (usize, &Option<(usize, usize)>)| match size {
            Some((size, _)) => Ok(*size),
            None => {
                let words = self.no_size(open, name);
                Err(Error::new(ErrorKind::BadInput, words))
            }
        };
        sizes.iter().enumerate().map(size).collect()
    }

    /// Report of the cached specialisations; `None` if all sizes are known.
    pub(crate) fn report(&self) -> Option<ShapesReport> {
        let Kind::Open(open) = &self.kind else {
            return None;
        };
        let kept = open.lock();
        let mut all: Vec<&Specialised> = kept.all.iter().collect();
        all.sort_unstable_by_key(|one| std::cmp::Reverse(one.used));
        let one = |one: &&Specialised| SpecialisationReport {
            sizes: open.by_name(&one.sizes),
            runs: one.runs_before + one.special.inner.runs.load(Ordering::Relaxed),
            bytes: one.bytes,
            planning_ns: one.planning_ns,
            phases: one.phases,
            costs_of: one.costs_of.as_ref().map(|sizes| open.by_name(sizes)),
            stand_in: one.stands_in,
        };
        let buckets = open.buckets.as_ref();
        let count = buckets.map(Buckets::count);
        Some(ShapesReport {
            hits: open.hits.load(Ordering::Relaxed),
            misses: open.misses.load(Ordering::Relaxed),
            dropped: kept.dropped,
            bytes: kept.bytes(),
            limit_bytes: self.policy.most_kept_bytes(),
            buckets: buckets
                .map(|buckets| buckets.by_name(&open.names))
                .unwrap_or_default(),
            padded_runs: count.map_or(0, |count| count.runs()),
            padded_bytes: count.map_or(0, |count| count.bytes()),
            stand_in_runs: open.stood_in.load(Ordering::Relaxed),
            took_over: open.took_over.load(Ordering::Relaxed),
            planning: self.background.as_ref().map_or(0, Background::pending),
            kept: all.iter().map(one).collect(),
        })
    }

    /// Time on the runtime's clock, in nanoseconds.
    pub(crate) fn now_ns(&self) -> u64 {
        match &self.kind {
            Kind::Known(special) => special.inner.now_ns(),
            Kind::Open(open) => open.shared.host.clock().now_ns(),
        }
    }

    /// The runtime's state.
    pub(crate) fn shared(&self) -> &Shared {
        match &self.kind {
            Kind::Known(special) => &special.inner.shared,
            Kind::Open(open) => &open.shared,
        }
    }

    /// The model, if it has open sizes.
    pub(crate) fn model(&self) -> Option<&Model> {
        match &self.kind {
            Kind::Known(_) => None,
            Kind::Open(open) => Some(&open.model),
        }
    }
}

impl Owner for Shapes {
    fn reap_ended(&self) {
        self.all().iter().for_each(|inner| inner.reap_ended());
        self.reap_variants();
    }

    fn call_limit(&self) -> Option<std::time::Duration> {
        self.policy.hang_timeout
    }

    fn take_back(&self, memory: &TensorMemory) -> Result<()> {
        let of_variants = || self.made_variants().into_iter().find_map(|made| made.latest());
        let latest = self.latest().or_else(of_variants);
        latest.map_or(Ok(()), |inner| inner.take_back(memory))
    }
}

/// Sizes for which a specialisation is being made. When it ends, also by a panic, those who wait for it look again.
struct Making<'a> {
    open: &'a Open,
    sizes: &'a Sizes,
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.open.lock().making.retain(|other| other != self.sizes);
        self.open.made.notify_all();
    }
}

impl Open {
    fn lock(&self) -> MutexGuard<'_, SpecializationTable> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sizes to plan for, and the valid sizes of a run that is padded to them.
    fn bucket(&self, sizes: Sizes) -> Result<(Sizes, Option<Arc<Padding>>)> {
        let Some(buckets) = &self.buckets else {
            return Ok((sizes, None));
        };
        let planned = buckets.planned(&sizes);
        if planned == sizes {
            return Ok((sizes, None));
        }
        let graph = self.canonical()?;
        match buckets.padding(graph, &self.names, &planned, &sizes) {
            Some(padding) => Ok((planned, Some(padding))),
            // no bound is known for these sizes
            None => Ok((sizes, None)),
        }
    }

    fn by_name(&self, sizes: &Sizes) -> BTreeMap<String, usize> {
        self.names.iter().cloned().zip(sizes.iter().copied()).collect()
    }

    fn canonical(&self) -> Result<&polychip_graph::Graph> {
        self.model.open_canonical(self.halves, || {
            planned::canonical(&self.shared, &self.model, self.halves)
        })
    }

    /// The specialisation for these sizes. If missing, makes a stand-in and requests the plan for
    /// all devices from the background thread; without that thread, makes that plan.
    fn specialised(&self, sizes: &Sizes, background: Option<&Background>) -> Result<Arc<Inner>> {
        let mut kept = self.lock();
        loop {
            if let Some((inner, stands_in)) = kept.find(sizes) {
                self.hits.fetch_add(1, Ordering::Relaxed);
                if stands_in && background.is_some() {
                    self.stood_in.fetch_add(1, Ordering::Relaxed);
                }
                return Ok(inner);
            }
            if !kept.making.contains(sizes) {
                break;
            }
            kept = self.made.wait(kept).unwrap_or_else(PoisonError::into_inner);
        }
        kept.making.push(sizes.clone());
        drop(kept);
        let making = Making { open: self, sizes };
        self.misses.fetch_add(1, Ordering::Relaxed);
        let stand_in = background.and_then(|background| {
            let made = self
                .make(sizes, self.stand_in.as_ref()?, &self.stand_in_answers)
                .inspect_err(|error| {
                    tracing::info!(
                        "no CPU-only plan, so the run waits for the plan over all devices: {error}"
                    );
                });
            Some((made.ok()?, background))
        });
        let (made, background) = match stand_in {
            Some((made, background)) => (Ok(made), Some(background)),
            None => (self.make(sizes, &self.policy, &self.answers), None),
        };
        let mut kept = self.lock();
        let (mut dropped, mut late) = (Vec::new(), None);
        let result = made.map(|made| {
            if let Some((inner, _)) = kept.find(sizes) {
                // the background thread was faster, for a dropped stand-in
                late = Some(made);
                return inner;
            }
            let inner = Arc::clone(&made.special.inner);
            self.enter(&mut kept, sizes, made, background.is_some());
            dropped = self.shrink(&mut kept, self.policy.most_kept_bytes());
            inner
        });
        drop(kept);
        drop(making);
        let background = background.filter(|_| late.is_none());
        // without the lock: a dropped specialisation waits for its last runs
        drop((dropped, late));
        if let Some(background) = background {
            self.stood_in.fetch_add(1, Ordering::Relaxed);
            background.ask(sizes);
        }
        result
    }

    /// Adds a new specialisation with the settings as they are now: a later change finds it among all.
    fn enter(&self, kept: &mut SpecializationTable, sizes: &Sizes, made: Made, stands_in: bool) {
        for change in self.changes.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            // settings were checked when they were made
            let _ = made.special.inner.take(*change);
        }
        kept.add(sizes, made, stands_in);
    }

    /// Removes the least recently used specialisations above the limit, and what was kept of their planning.
    fn shrink(&self, kept: &mut SpecializationTable, limit: u64) -> Vec<Specialised> {
        let dropped = kept.shrink(limit);
        if !dropped.is_empty() {
            let is_cached = |sizes: &Sizes| kept.all.iter().any(|one| one.sizes == *sizes);
            self.answers.keep_cached(is_cached);
            self.stand_in_answers.keep_cached(is_cached);
        }
        dropped
    }

    /// Caches a specialisation that was compiled ahead, as if a run had requested it.
    fn add(&self, made: &Precompiled) -> Result<()> {
        let sizes = Sizes::from_vec(made.sizes_of(&self.names, &self.model)?);
        let start = Instant::now();
        let loaded = made.loaded(&self.shared, &self.model, &self.policy)?;
        let policy = self.policy.clone();
        let special = Specialization::loaded(self.id, &self.shared, loaded, policy, None)?;
        let made = self.made(special, start, PlanningPhases::default(), None);
        let mut kept = self.lock();
        self.enter(&mut kept, &sizes, made, false);
        let dropped = self.shrink(&mut kept, self.policy.most_kept_bytes());
        drop(kept);
        // without the lock: what is let go of waits for its last runs
        drop(dropped);
        Ok(())
    }
}

/// The policy of stand-ins, if they are wanted and differ from plans for all devices.
fn stand_in(policy: &Policy, devices: &[Device]) -> Option<Policy> {
    let is_cpu = |device: &&Device| device.info().kind == DeviceKind::Cpu;
    let of_machine = |device: &&Device| is_cpu(device) && !device.info().emulated;
    if !policy.plans_in_background() || devices.iter().all(|device| is_cpu(&device)) {
        return None;
    }
    let cpu = devices.iter().find(of_machine)?;
    let policy = policy.for_devices(vec![cpu.name().to_owned()], policy.settings().precision);
    Some(policy.without_pins())
}

impl SpecializationTable {
    /// The specialisation for these sizes, marked as used, and whether it is a stand-in.
    fn find(&mut self, sizes: &Sizes) -> Option<(Arc<Inner>, bool)> {
        self.used += 1;
        let used = self.used;
        let found = self.all.iter_mut().find(|one| one.sizes == *sizes)?;
        found.used = used;
        Some((Arc::clone(&found.special.inner), found.stands_in))
    }

    /// Adds a new specialisation, marked as used.
    fn add(&mut self, sizes: &Sizes, made: Made, stands_in: bool) {
        self.used += 1;
        self.all.push(Specialised {
            sizes: sizes.clone(),
            special: made.special,
            used: self.used,
            bytes: made.bytes,
            planning_ns: made.planning_ns,
            phases: made.phases,
            costs_of: made.costs_of,
            stands_in,
            runs_before: 0,
        });
    }

    fn bytes(&self) -> u64 {
        self.all.iter().map(|one| one.bytes).sum()
    }

    /// Removes the least recently used specialisations until the rest is small enough; the current
    /// one stays.
    fn shrink(&mut self, limit: u64) -> Vec<Specialised> {
        let mut dropped = Vec::new();
        while self.all.len() > 1 && self.bytes() > limit {
            let oldest = (0..self.all.len()).min_by_key(|index| self.all[*index].used);
            dropped.extend(oldest.map(|index| self.all.swap_remove(index)));
        }
        self.dropped += dropped.len() as u64;
        dropped
    }
}

impl Inner {
    /// Its bytes, without those shared with others.
    fn bytes(&self) -> u64 {
        let current = self.current();
        let nodes = current.planned.graph().node_count() as u64 * NODE_BYTES;
        let plan = current.plan.as_ref().map_or(0, |plan| plan.bytes());
        nodes + plan
    }
}

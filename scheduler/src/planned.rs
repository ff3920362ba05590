//! A plan with everything it was made from: the canonical graph, the devices and their answers.
//!
//! Invariants:
//! 1. The plan has passed the independent checker against exactly this graph and these answers.
//! 2. A plan read from a file is checked in the same way as a new one.

mod cadence;
mod devices;
mod incumbent;
mod resized;
mod settled;
mod thermal_readmission;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use polychip_graph::{Graph, NodeId, passes, random};
use polychip_host::{Device, FlatGraph};
use polychip_partitioner::{self as partitioner, DeviceIndex, Objective, Options, Plan, Request, Time};
use polychip_profile::{Cadence, Conditions, Profile};
use wildmatch::WildMatch;

use crate::cost_model::{Evidence, MeasuredFigure, Prices, Rows};
use crate::error::{Error, ErrorKind, Result};
use crate::evaluate::DeviceEvaluator;
use crate::event::Event;
use crate::model::Model;
use crate::policy::{Policy, Settings};
use crate::refusal;
use crate::shared::Shared;
use crate::thermal_exclusion;
use crate::warning::{self, Warning};

pub(crate) use devices::choose_devices;
use devices::no_such_device;
pub(crate) use resized::may_resize;

/// Planning rounds in which measured parts may change the plan.
const ROUNDS: usize = 8;

/// A planning step that is about to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanningStep<'a> {
    /// Number of the step, from 0.
    pub number: usize,
    /// Number of steps.
    pub steps: usize,
    /// Description of the step.
    pub words: &'a str,
}

/// Steps of planning beside one per device: the model's canonical form, the solution, the check.
const OTHER_STEPS: usize = 3;

/// A model with its plan, ready to be compiled.
#[derive(Debug, Clone)]
pub struct Planned {
    pub(crate) model: Model,
    pub(crate) graph: Arc<Graph>,
    pub(crate) devices: Vec<Device>,
    evidence: Evidence,
    /// What the evidence gives.
    pub(crate) prices: Prices,
    /// What held on each device when they were priced.
    now: Vec<Conditions>,
    options: Options,
    plan: Plan,
    events: Vec<Event>,
    /// Devices that are left out for their temperature, by their place.
    pub(crate) hot: Vec<usize>,
    warnings: Vec<Warning>,
    /// It was made from a plan file, and is not to be changed.
    locked: bool,
    /// It is the one that earlier sessions settled on.
    settled: bool,
}

impl Planned {
    pub(crate) fn new(
        shared: &Shared,
        model: &Model,
        policy: &Policy,
        watch: &dyn Fn(PlanningStep<'_>),
    ) -> Result<Planned> {
        Planned::like(shared, model, policy, None, watch)
    }

    /// A new plan that rests on the devices' answers about `known`, the same model in other sizes, where that cannot
    /// change the placement; otherwise on their answers about these sizes.
    pub(crate) fn like(
        shared: &Shared,
        model: &Model,
        policy: &Policy,
        known: Option<&Planned>,
        watch: &dyn Fn(PlanningStep<'_>),
    ) -> Result<Planned> {
        let mut made = Prepared::watched(shared, model, policy, known, watch)?;
        made.options = made.pinned(policy)?;
        made.events = refusal::apply(
            &made.graph,
            &made.devices,
            &mut made.evidence.targets,
            &made.options.pins,
            &shared.profile,
        );
        let (hot, events) = thermal_exclusion::leave_out(
            &made.devices,
            &mut made.evidence.targets,
            policy.temperature_limit(),
        )?;
        made.hot = hot;
        made.events.extend(events);
        made.events.extend(devices::quarantined(shared, policy));
        made.planned(shared, policy.objective(), policy.settings(), watch)
    }

    /// A new plan for the same model, devices and objective, after `change` of what the devices offer.
    pub(crate) fn again(
        &self,
        shared: &Shared,
        settings: Settings,
        change: impl FnOnce(&mut [partitioner::Target]),
    ) -> Result<Planned> {
        self.toward(shared, settings, self.plan.objective, change)
    }

    /// As [`Planned::again`], for another objective.
    pub(crate) fn toward(
        &self,
        shared: &Shared,
        settings: Settings,
        objective: Objective,
        change: impl FnOnce(&mut [partitioner::Target]),
    ) -> Result<Planned> {
        let mut made = Prepared {
            model: self.model.clone(),
            graph: Arc::clone(&self.graph),
            devices: self.devices.clone(),
            evidence: self.evidence.clone(),
            now: self.now.clone(),
            options: self.options.clone(),
            events: self.events.clone(),
            hot: self.hot.clone(),
        };
        change(&mut made.evidence.targets);
        made.planned(shared, objective, settings, &|_| {})
    }

    /// The solver's own plan for the same objective after `change`, with what the profile knows of this plan's parts by now
    /// and whatever is measured or not: a plan to try.
    pub(crate) fn solved_again(
        &self,
        shared: &Shared,
        settings: Settings,
        change: impl FnOnce(&mut [partitioner::Target]),
    ) -> Result<Planned> {
        let mut made = Prepared {
            model: self.model.clone(),
            graph: Arc::clone(&self.graph),
            devices: self.devices.clone(),
            evidence: self.evidence.clone(),
            now: self.now.clone(),
            options: self.options.clone(),
            events: Vec::new(),
            hot: self.hot.clone(),
        };
        let rows = self.rows(shared, settings);
        made.evidence
            .learn(&made.graph, &made.devices, &self.plan.parts, rows);
        change(&mut made.evidence.targets);
        made.planned_by(shared, self.plan.objective, settings, &|_| {}, Choice::Solver)
    }

    /// The same placement in parts none of which is predicted to take longer with its launch, but for those of a single
    /// node.
    pub(crate) fn cut(&self, shared: &Shared, settings: Settings, longest: Time) -> Result<Planned> {
        let before = self.options.longest_part;
        let mut made = Prepared {
            model: self.model.clone(),
            graph: Arc::clone(&self.graph),
            devices: self.devices.clone(),
            evidence: self.evidence.clone(),
            now: self.now.clone(),
            options: Options {
                longest_part: Some(before.map_or(longest, |before| before.min(longest))),
                ..self.options.clone()
            },
            events: self.events.clone(),
            hot: self.hot.clone(),
        };
        let rows = Rows {
            profile: &shared.profile,
            settings,
            now: &self.now,
        };
        let mut round = 0;
        loop {
            let prices = made.evidence.resolve();
            let asked = prices.request(&made.graph).with(&made.options);
            let plan =
                partitioner::restate(asked, &self.plan).map_err(|error| no_plan(&self.model, &error))?;
            round += 1;
            if round > ROUNDS || !made.evidence.learn(&made.graph, &made.devices, &plan.parts, rows) {
                return made.checked(shared, prices, plan, settings);
            }
        }
    }

    /// The same model with the placement of a plan that was made before, priced with today's costs.
    pub(crate) fn with_plan(shared: &Shared, model: &Model, policy: &Policy, plan: Plan) -> Result<Planned> {
        let mut plan = plan;
        if !policy.may_replicate() {
            plan.replicas.clear();
        }
        // the plan's devices in the plan's order override the policy's
        let policy = policy.clone().devices(plan.devices.iter().cloned());
        let mut made = Prepared::new(shared, model, &policy)?;
        let bad = |error: Box<dyn std::error::Error + Send + Sync>| {
            Error::caused(ErrorKind::BadPlan, model.path().display(), error)
        };
        let prices = made.evidence.resolve();
        partitioner::check_placement(prices.request(&made.graph), &plan)
            .map_err(|error| bad(error.into()))?;
        let rows = Rows {
            profile: &shared.profile,
            settings: policy.settings(),
            now: &made.now,
        };
        for copy in plan.copies() {
            made.evidence.learn(&made.graph, &made.devices, &copy.parts, rows);
        }
        let prices = made.evidence.resolve();
        let plan =
            partitioner::restate(prices.request(&made.graph), &plan).map_err(|error| bad(error.into()))?;
        let planned = made.checked(shared, prices, plan, policy.settings())?;
        Ok(Planned {
            locked: true,
            ..planned
        })
    }

    /// The cadence that the plan is made for.
    #[must_use]
    pub fn cadence(&self) -> Cadence {
        self.now.first().and_then(|now| now.cadence).unwrap_or_default()
    }

    /// Keeps the period of a session's runs for the next start.
    pub(crate) fn keep_period(&self, profile: &Profile, period: Duration) {
        cadence::keep_period(profile, &self.graph, period);
    }

    /// The same plan with what the profile knows at another cadence, for plans that are made from it.
    pub(crate) fn at_cadence(&self, shared: &Shared, settings: Settings, cadence: Cadence) -> Planned {
        let mut made = self.clone();
        for now in &mut made.now {
            now.cadence = Some(cadence);
        }
        made.evidence = self
            .evidence
            .under(&self.graph, &self.devices, made.rows(shared, settings));
        made.prices = made.evidence.resolve();
        made
    }

    /// Whether it was made from a plan file, which a session does not change by itself.
    pub(crate) fn is_locked(&self) -> bool {
        self.locked
    }

    /// One of the further copies of the model, as a plan by itself.
    pub(crate) fn copy(&self, index: usize) -> Planned {
        Planned {
            plan: self.plan.replicas[index].clone(),
            ..self.clone()
        }
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The canonical graph that the plan is for.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The devices that were asked, in the plan's order.
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Support and launch costs, by device.
    #[must_use]
    pub fn targets(&self) -> &[partitioner::Target] {
        &self.prices.targets
    }

    /// The request to the partitioner, with the plan's costs.
    #[must_use]
    pub fn request(&self) -> Request<'_> {
        let request = self.prices.request(&self.graph);
        request.toward(self.plan.objective).with(&self.options)
    }

    /// The plan in the form that files hold: with a record of each node (its cost on each device)
    /// and the device names.
    #[must_use]
    pub fn plan_file(&self) -> Plan {
        Plan {
            device_names: self.device_names(),
            nodes: partitioner::record(self.request()),
            ..self.plan.clone()
        }
    }

    /// The devices' product names, in the plan's order.
    #[must_use]
    pub fn device_names(&self) -> Vec<String> {
        let names = self.devices.iter().map(|device| device.info().name.clone());
        names.collect()
    }

    /// The plan for a lock file: [`Planned::plan_file`] with the costs of launches, links and whole
    /// parts at the time of planning.
    #[must_use]
    pub fn lock_file(&self) -> Plan {
        Plan {
            terms: Some(partitioner::Pricing::of(self.request())),
            ..self.plan_file()
        }
    }

    /// Plans again with the costs that a lock file records. The result equals the plan of the lock
    /// file, unless the model, the support of the devices or the request has changed.
    ///
    /// # Errors
    /// No device runs some node at a known cost.
    pub fn replanned_as(&self, lock: &Plan) -> Result<Plan> {
        partitioner::replan_locked(self.request(), lock, &self.plan_file())
            .map_err(|error| no_plan(&self.model, &error))
    }

    /// At most `most` plans of the same model on the same devices, from the fastest to the one with
    /// the least energy. No plan is better than another in both time and energy. The energy of
    /// every node must be known, directly or from the power of its device.
    ///
    /// # Errors
    /// A device has no energy or power figure.
    pub fn front(&self, most: usize) -> Result<Vec<Planned>> {
        let found = partitioner::front(self.request(), most);
        let judged = |plan: Plan| {
            partitioner::check(self.request(), &plan).map_err(|violation| {
                Error::caused(ErrorKind::BadPlan, self.model.path().display(), violation)
            })?;
            // what is to be doubted of this plan is not what is to be doubted of another
            let warnings = Vec::new();
            Ok(Planned {
                plan,
                warnings,
                ..self.clone()
            })
        };
        let found = found.map_err(|error| no_plan(&self.model, &error))?;
        found.plans.into_iter().map(judged).collect()
    }

    /// Deviations from the first plan: nodes that a device refused, earlier or when compiled, and
    /// devices excluded as too hot.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The plan with what it was priced on.
    pub(crate) fn priced<'a>(&'a self, profile: &'a Profile, settings: Settings) -> warning::Priced<'a> {
        warning::Priced {
            graph: &self.graph,
            plan: &self.plan,
            devices: &self.devices,
            stated: &self.prices.stated,
            costs: &self.prices.costs,
            measured: &self.prices.measured,
            profile,
            settings,
        }
    }

    /// Doubtful costs in the plan: estimates that measurements contradict, and parts measured at
    /// other settings only.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// What of the profile the plan's prices are.
    pub(crate) fn rows<'a>(&'a self, shared: &'a Shared, settings: Settings) -> Rows<'a> {
        Rows {
            profile: &shared.profile,
            settings,
            now: &self.now,
        }
    }

    /// The measured figures on which the plan is based, by device. They are times of parts, or the
    /// time of the whole model on a device, which its nodes share. The current conditions of each
    /// device select them; some may be from another cadence.
    #[must_use]
    pub fn measured(&self) -> Vec<MeasuredFigure> {
        let whole = |nodes: &[u32]| nodes.len() == self.graph.node_count();
        let all = self.prices.measured.iter().chain(&self.prices.inherited);
        let figures = all.filter_map(|((index, nodes), summary)| {
            let parts = &self.plan.parts;
            let part = parts
                .iter()
                .position(|part| part.device == *index && part.nodes == *nodes);
            let device = self.devices.get(index.index())?.name();
            let used = part.is_some() || (whole(nodes) && self.nodes_on(*index) > 0);
            used.then(|| MeasuredFigure::new(device, part, summary))
        });
        figures.collect()
    }

    /// The devices that have a part.
    pub(crate) fn used_devices(&self) -> BTreeSet<DeviceIndex> {
        let parts = self.plan.copies().flat_map(|copy| &copy.parts);
        parts.map(|part| part.device).collect()
    }

    /// Number of nodes on a device.
    pub(crate) fn nodes_on(&self, device: DeviceIndex) -> usize {
        let parts = self.plan.copies().flat_map(|copy| &copy.parts);
        let here = parts.filter(|part| part.device == device);
        here.map(|part| part.nodes.len()).sum()
    }

    /// Whether every node of a device could go to another that is in use, and none is pinned there.
    pub(crate) fn can_do_without(&self, device: DeviceIndex) -> bool {
        let others = self.prices.targets.iter().enumerate();
        let others: Vec<_> = others
            .filter(|(index, target)| {
                *index != device.index()
                    && target.quarantined.is_none()
                    && !self.devices[*index].is_quarantined()
            })
            .map(|(_, target)| target)
            .collect();
        let pinned = self.options.pins.values().any(|pin| *pin == device.index());
        let parts = self.plan.copies().flat_map(|copy| &copy.parts);
        let parts = parts.filter(|part| part.device == device);
        let mut nodes = parts.flat_map(|part| &part.nodes);
        !pinned && nodes.all(|node| others.iter().any(|target| target.supports(*node as usize)))
    }

    pub(crate) fn tell(&mut self, event: Event) {
        self.events.push(event);
    }
}

/// How the final plan is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// What is measured, before what is only predicted ([`incumbent`]).
    Measured,
    /// The solver, at the costs as they are.
    Solver,
}

/// What planning starts from.
pub(crate) struct Prepared {
    model: Model,
    pub(crate) graph: Arc<Graph>,
    pub(crate) devices: Vec<Device>,
    pub(crate) evidence: Evidence,
    now: Vec<Conditions>,
    options: Options,
    events: Vec<Event>,
    hot: Vec<usize>,
}

impl Prepared {
    pub(crate) fn new(shared: &Shared, model: &Model, policy: &Policy) -> Result<Prepared> {
        Prepared::watched(shared, model, policy, None, &|_| {})
    }

    fn watched(
        shared: &Shared,
        model: &Model,
        policy: &Policy,
        known: Option<&Planned>,
        watch: &dyn Fn(PlanningStep<'_>),
    ) -> Result<Prepared> {
        refuse_open(model)?;
        let devices = choose_devices(shared, policy)?;
        let steps = devices.len() + OTHER_STEPS;
        let begin = |number: usize, words: &str| watch(PlanningStep { number, steps, words });
        begin(0, "simplifying the model");
        let graph = canonical(shared, model, keeps_halves(&devices, policy))?;
        let mut now = match policy.priced_under() {
            Some(conditions) => vec![conditions.clone(); devices.len()],
            None => shared.expected(&devices),
        };
        let cadence = cadence::asked(&shared.profile, &graph, policy);
        for conditions in &mut now {
            conditions.cadence.get_or_insert(cadence);
        }
        let rows = Rows {
            profile: &shared.profile,
            settings: policy.settings(),
            now: &now,
        };
        let asked = |index: usize, device: &str| begin(1 + index, &format!("asking {device}"));
        let resized = known.and_then(|known| known.resized(&graph, &devices, rows, &asked));
        let mut evidence = match resized {
            Some(evidence) => evidence,
            None => {
                let descriptors = model.descriptors(&graph);
                let flat = FlatGraph::new(&graph, &descriptors)
                    .map_err(|error| Error::caused(ErrorKind::BadModel, model.path().display(), error))?;
                Evidence::collect(&graph, &flat, &devices, rows, &asked)?
            }
        };
        refuse_unknown_heats(shared, policy)?;
        for (name, heat) in policy.heats() {
            if let Some(index) = devices.iter().position(|device| device.name() == name) {
                evidence.targets[index].heat = Some(*heat);
            }
        }
        Ok(Prepared {
            model: model.clone(),
            graph: Arc::new(graph),
            devices,
            evidence,
            now,
            options: Options::default(),
            events: Vec::new(),
            hot: Vec::new(),
        })
    }

    fn planned(
        self,
        shared: &Shared,
        objective: Objective,
        settings: Settings,
        watch: &dyn Fn(PlanningStep<'_>),
    ) -> Result<Planned> {
        self.planned_by(shared, objective, settings, watch, Choice::Measured)
    }

    /// Plans, and plans again as long as measured parts change the costs.
    fn planned_by(
        mut self,
        shared: &Shared,
        objective: Objective,
        settings: Settings,
        watch: &dyn Fn(PlanningStep<'_>),
        choice: Choice,
    ) -> Result<Planned> {
        let steps = self.devices.len() + OTHER_STEPS;
        let begin = |number: usize, words: &str| watch(PlanningStep { number, steps, words });
        begin(steps - 2, "placing the nodes");
        let rows = Rows {
            profile: &shared.profile,
            settings,
            now: &self.now,
        };
        let mut round = 0;
        let mut known: Option<Plan> = None;
        if choice == Choice::Measured && !rows.are_none() {
            let identities: Vec<String> = self.devices.iter().map(Device::identity).collect();
            let prices = self.evidence.resolve();
            let asked = prices.request(&self.graph).toward(objective).with(&self.options);
            let cadence = self.now.first().and_then(|now| now.cadence).unwrap_or_default();
            known = settled::stored::read(&shared.profile, asked, (settings, cadence), &identities);
            if let Some(plan) = &known {
                self.evidence.learn(&self.graph, &self.devices, &plan.parts, rows);
            }
        }
        loop {
            let prices = self.evidence.resolve();
            let asked = prices.request(&self.graph).toward(objective).with(&self.options);
            let restated = known
                .as_ref()
                .and_then(|plan| partitioner::restate(asked, plan).ok());
            let found = partitioner::partition(asked).map_err(|error| no_plan(&self.model, &error))?;
            let found = match choice {
                Choice::Measured => incumbent::choose(asked, &prices, found, restated.as_ref())
                    .map_err(|error| no_plan(&self.model, &error))?,
                Choice::Solver => found,
            };
            round += 1;
            // what is learnt after the last round would be true of a plan that is not this one
            let mut is_new = false;
            if round <= ROUNDS {
                for copy in found.copies() {
                    is_new |= self.evidence.learn(&self.graph, &self.devices, &copy.parts, rows);
                }
            }
            if !is_new {
                begin(steps - 1, "checking the plan");
                let nodes = self.graph.node_count();
                let is_known = |plan: &Plan| plan.devices_of_nodes(nodes) == found.devices_of_nodes(nodes);
                let settled = known.as_ref().is_some_and(is_known);
                let planned = self.checked(shared, prices, found, settings)?;
                return Ok(Planned { settled, ..planned });
            }
        }
    }

    fn pinned(&self, policy: &Policy) -> Result<Options> {
        let mut pins: BTreeMap<usize, usize> = BTreeMap::new();
        for (pattern, device) in policy.pins() {
            let index = self.devices.iter().position(|found| found.name() == device);
            let Some(index) = index else {
                let words = format!(
                    "{pattern:?} is pinned to {device}, which the policy does not allow (Policy::devices)"
                );
                return Err(Error::new(ErrorKind::BadPlugin, words));
            };
            let rows = self.named(pattern);
            if rows.is_empty() {
                let words =
                    format!("no node matches the pin {pattern:?}; `polychip explain` lists the nodes");
                return Err(Error::new(ErrorKind::BadInput, words));
            }
            for row in rows {
                let before = pins.insert(row, index);
                if let Some(before) = before.filter(|before| *before != index) {
                    let words = format!(
                        "node {:?} is pinned to {} and to {device}",
                        self.graph.node(NodeId::new(row)).name,
                        self.devices[before].name()
                    );
                    return Err(Error::new(ErrorKind::BadInput, words));
                }
            }
        }
        let longest = policy.longest_device_time();
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Ok(Options {
            pins,
            longest_part: longest.map(|longest| Time::from_nanoseconds(nanoseconds(longest))),
            replicas: policy.may_replicate(),
            ..Options::default()
        })
    }

    /// The nodes of this name; without any, those that match it as a pattern.
    fn named(&self, pattern: &str) -> Vec<usize> {
        let rows = |is_meant: &dyn Fn(&str) -> bool| -> Vec<usize> {
            let nodes = self.graph.nodes().enumerate();
            let meant = nodes.filter(|(_, (_, node))| is_meant(&node.name));
            meant.map(|(row, _)| row).collect()
        };
        let exact = rows(&|name| name == pattern);
        if !exact.is_empty() {
            return exact;
        }
        let pattern = WildMatch::new(pattern);
        rows(&|name| pattern.matches(name))
    }

    /// The plan that these prices gave, judged by the independent checker.
    fn checked(self, shared: &Shared, prices: Prices, plan: Plan, settings: Settings) -> Result<Planned> {
        let Prepared {
            model,
            graph,
            devices,
            evidence,
            now,
            options,
            events,
            hot,
        } = self;
        partitioner::check(prices.request(&graph).with(&options), &plan)
            .map_err(|violation| Error::caused(ErrorKind::BadPlan, model.path().display(), violation))?;
        let mut planned = Planned {
            model,
            graph,
            devices,
            evidence,
            prices,
            now,
            options,
            plan,
            events,
            hot,
            warnings: Vec::new(),
            locked: false,
            settled: false,
        };
        planned.warnings = warning::of_plan(planned.priced(&shared.profile, settings));
        let path = planned.model.path();
        let energy = warning::of_energy(path, &planned.plan.objective, &planned.prices.targets);
        planned.warnings.extend(energy);
        planned
            .warnings
            .extend(warning::of_heat(&planned.plan.objective, &planned.prices.targets));
        Ok(planned)
    }
}

/// Refuses heat that is stated for a device that does not exist.
pub(crate) fn refuse_unknown_heats(shared: &Shared, policy: &Policy) -> Result<()> {
    let devices = shared.host.devices();
    let unknown = |name: &str| devices.iter().all(|device| device.name() != name);
    match policy.heats().iter().find(|(name, _)| unknown(name)) {
        Some((name, _)) => Err(no_such_device(shared, name)),
        None => Ok(()),
    }
}

/// Refuses a model with open sizes.
pub(crate) fn refuse_open(model: &Model) -> Result<()> {
    let open = model.open_dims();
    if open.is_empty() {
        return Ok(());
    }
    let words = format!(
        "{}: dimensions {} have no size; set each one (--dim NAME=N or --shape INPUT=1x2x3, Model::bind or \
         Model::bind_shapes)",
        model.path().display(),
        open.join(", ")
    );
    Err(Error::new(ErrorKind::BadInput, words))
}

fn no_plan(model: &Model, error: &partitioner::Error) -> Error {
    let kind = match error.kind() {
        partitioner::ErrorKind::NoDevice
        | partitioner::ErrorKind::Infeasible
        | partitioner::ErrorKind::OverLimit
        | partitioner::ErrorKind::MissingCost => ErrorKind::NoDevice,
        _ => ErrorKind::BadPlan,
    };
    Error::new(kind, format!("{}: {error}", model.path().display()))
}

/// At which period sessions of a model ran before, by the runtime's profile; zero: back to back, or nothing is known.
pub(crate) fn known_period(shared: &Shared, model: &Model, policy: &Policy) -> Result<Duration> {
    let devices = choose_devices(shared, policy)?;
    let graph = canonical(shared, model, keeps_halves(&devices, policy))?;
    Ok(cadence::known_period(&shared.profile, &graph))
}

/// Whether weights of 16 bits stay so, behind a Cast, for sessions of this policy on these devices: where all nodes go to the CPU
/// plugin's one device, in parts that nothing cuts.
///
/// What other devices make of a Cast in front of each product is unknown, and most would run it each time; and where a Cast is in another
/// part than its product, the widened weights go over the cut in each run.
pub(crate) fn keeps_halves(devices: &[Device], policy: &Policy) -> bool {
    let [device] = devices else {
        return false;
    };
    is_cpu(device) && device.plugin().name == "cpu" && policy.longest_device_time().is_none()
}

fn is_cpu(device: &Device) -> bool {
    device.info().kind == polychip_host::DeviceKind::Cpu && !device.info().emulated
}

/// The canonical form of a model, in which weights of 16 bits stay so or are widened. Constants are folded by the first CPU there is.
pub(crate) fn canonical(shared: &Shared, model: &Model, keep_halves: bool) -> Result<Graph> {
    let mut graph = model.graph().clone();
    let mut options = passes::Options::default();
    options.keep_halves = keep_halves;
    let devices = shared.host.devices();
    let folder = devices.iter().find(|device| is_cpu(device));
    let folder = folder.or(devices.first());
    let device = folder.ok_or_else(|| Error::new(ErrorKind::NoDevice, "no plugin is loaded"))?;
    let evaluator = DeviceEvaluator::new(device.clone());
    passes::canonicalise(&mut graph, &evaluator, &options).map_err(|error| model.bad(error))?;
    random::number(&mut graph).map_err(|error| model.bad(error))?;
    Ok(graph)
}

#[cfg(test)]
mod tests;

//! Chooses each session's plan and its cuts.
//!
//! Each session first has its policy's own plan. If these are not admitted together they may be
//! cut, into halves, quarters and so on; then any plan of the sessions' fronts may replace them
//! ([`joint`](polychip_device_queue::joint)). Cuts are finally relaxed to the longest part that the whole
//! set allows.
//!
//! Invariants:
//! 1. The chosen plans were admitted exactly as they are, including launches and transfers of cut
//!    plans.
//! 2. A session that was admitted before keeps its placement: it is only cut, or uses a ready plan.
//! 3. Deterministic.
//!
//! Not here: compiling the chosen plans and switching to them (`registry`).

use std::sync::Arc;

use polychip_device_queue::{self as device_queue, Arrivals, Choice, Class, Device, Part, Task, TaskSet};
use polychip_partitioner::{Goal, Time};

use crate::admission::report::{
    CertificateReport, DeviceProof, InstantReport, PartProof, RefusalReport, SessionProof,
};
use crate::admission::timed::TimedPart;
use crate::error::{Error, ErrorKind, Result};
use crate::planned::Planned;
use crate::policy::{Aim, Policy};
use crate::session::standby_plan::UnloadedStandbyPlan;
use crate::session::{portfolio, queue_grants};
use crate::shared::Shared;

/// Times that a plan is cut: into halves, quarters, eighths, sixteenths.
const HALVINGS: u32 = 4;
/// Combinations of plans that are looked at.
const STEPS: u64 = 10_000;
/// By how much parts are tried to be shorter than the set allows, in thousandths: launches add to what is to be done.
const SHORTER_PERMILLE: [u64; 3] = [1000, 900, 750];

/// A plan with the times that admission counts on.
#[derive(Debug)]
pub(crate) struct Counted {
    /// Which plan it is.
    pub(crate) name: String,
    pub(crate) planned: Planned,
    pub(crate) parts: Vec<TimedPart>,
    /// Their times, in nanoseconds.
    times_ns: Vec<u64>,
    /// What it was cut by, and the plan before.
    pub(crate) cut: Option<(Time, Arc<Counted>)>,
}

/// A session as admission sees it.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) class: Class,
    arrivals: Arrivals,
    margin_percent: f64,
    policy: Policy,
    /// The uncut plan stays ready beside a cut one.
    keeps_uncut: bool,
    /// Its plan, uncut: the policy's own, or of a session that was admitted before the one that it has.
    base: Arc<Counted>,
    /// What it has, where it was admitted before.
    pub(crate) has: Option<Chosen>,
}

/// A plan that was chosen.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    pub(crate) plan: Arc<Counted>,
    /// All that is ready, whose memory counts; the plan among it.
    pub(crate) ready: Vec<Arc<Counted>>,
}

/// What was found for all members.
pub(crate) struct Found {
    pub(crate) chosen: Vec<Chosen>,
    set: TaskSet,
    certificate: device_queue::Certificate,
}

impl Counted {
    pub(crate) fn uncut(name: String, planned: Planned, margin_percent: f64) -> Self {
        let parts = planned.timed_parts(margin_percent);
        Self {
            name,
            planned,
            times_ns: parts.iter().map(|part| part.time_ns).collect(),
            parts,
            cut: None,
        }
    }

    /// As it is to be kept ready.
    pub(crate) fn unloaded_standby(&self) -> UnloadedStandbyPlan<'_> {
        UnloadedStandbyPlan {
            planned: &self.planned,
            times_ns: &self.times_ns,
        }
    }

    /// The longest part with its launch, as it is predicted.
    fn longest(&self) -> Time {
        let times = self.planned.plan().parts.iter().map(|part| {
            let launch = part.launch.picoseconds();
            part.cost.time.picoseconds().saturating_add(launch)
        });
        Time::from_picoseconds(times.max().unwrap_or(0))
    }

    /// Bytes that it holds, by device.
    fn memory<'a>(&'a self, devices: &'a [Device]) -> impl Iterator<Item = (usize, u64)> + 'a {
        let plan = self.planned.plan();
        let held = plan.devices.iter().zip(&plan.memory_bytes);
        held.filter(|(_, bytes)| **bytes > 0)
            .map(|(name, bytes)| (place(devices, name), *bytes))
    }
}

/// The place of a device.
fn place(devices: &[Device], name: &str) -> usize {
    let found = devices.iter().position(|device| device.name == name);
    found.expect("invariant: every device of a plan is one of the runtime's")
}

impl Member {
    pub(crate) fn wanted(
        name: &str,
        margin_percent: f64,
        policy: Policy,
        arrivals: Arrivals,
        base: Arc<Counted>,
    ) -> Self {
        let class = queue_grants::class(policy.urgency());
        Self {
            name: name.to_owned(),
            class,
            arrivals,
            margin_percent,
            policy,
            keeps_uncut: class == Class::Background || arrivals == Arrivals::Endless,
            base,
            has: None,
        }
    }

    /// The same once it is admitted.
    pub(crate) fn admitted(&self, chosen: &Chosen) -> Self {
        let base = match &chosen.plan.cut {
            Some((_, base)) => base,
            None => &chosen.plan,
        };
        Self {
            base: Arc::clone(base),
            has: Some(chosen.clone()),
            ..self.clone()
        }
    }

    /// What it has.
    pub(crate) fn chosen(&self) -> Chosen {
        self.has
            .clone()
            .expect("invariant: an admitted session has a plan")
    }

    /// Its plan before it was cut, where that is ready.
    pub(crate) fn ready_uncut(&self) -> Option<Arc<Counted>> {
        let has = self.has.as_ref()?;
        let (_, base) = has.plan.cut.as_ref()?;
        is_among(base, &has.ready).then(|| Arc::clone(base))
    }

    /// What it may be given.
    fn options(&self, plans: &mut Plans<'_>, all: bool, cut: bool) -> Result<Vec<Chosen>> {
        let mut options = Vec::new();
        if let Some(has) = &self.has {
            // as if it had been chosen for each of them
            let ready = has.ready.iter();
            options.extend(ready.map(|plan| Chosen {
                plan: Arc::clone(plan),
                ready: has.ready.clone(),
            }));
        }
        let bases = if all && self.has.is_none() {
            plans.front(self)
        } else {
            vec![Arc::clone(&self.base)]
        };
        for base in &bases {
            if self.has.is_none() {
                options.push(self.uncut(base));
            }
            if cut {
                let finer = plans.of(self, base)?;
                options.extend(finer.iter().map(|plan| self.cut(plan, base)));
            }
        }
        Ok(options)
    }

    fn uncut(&self, base: &Arc<Counted>) -> Chosen {
        let has = self.has.as_ref().filter(|has| is_among(base, &has.ready));
        Chosen {
            plan: Arc::clone(base),
            ready: has.map_or_else(|| vec![Arc::clone(base)], |has| has.ready.clone()),
        }
    }

    fn cut(&self, plan: &Arc<Counted>, base: &Arc<Counted>) -> Chosen {
        let uncut = self.keeps_uncut.then_some(base);
        Chosen {
            plan: Arc::clone(plan),
            ready: uncut.into_iter().chain([plan]).cloned().collect(),
        }
    }

    fn task(&self, chosen: &Chosen, devices: &[Device]) -> Task {
        Task {
            name: self.name.clone(),
            class: self.class,
            arrivals: self.arrivals,
            parts: parts(&chosen.plan, devices),
            memory_bytes: memory(chosen, devices),
        }
    }
}

fn is_among(one: &Arc<Counted>, all: &[Arc<Counted>]) -> bool {
    all.iter().any(|other| Arc::ptr_eq(other, one))
}

fn parts(plan: &Counted, devices: &[Device]) -> Vec<Part> {
    let part = |part: &TimedPart| Part {
        device: place(devices, &part.device),
        time_ns: part.time_ns,
    };
    plan.parts.iter().map(part).collect()
}

fn memory(chosen: &Chosen, devices: &[Device]) -> Vec<(usize, u64)> {
    chosen
        .ready
        .iter()
        .flat_map(|plan| plan.memory(devices))
        .collect()
}

/// Plans that may be chosen in the place of others.
struct Plans<'a> {
    shared: &'a Shared,
    /// Uncut plans, and what they are when they are cut ever finer.
    cut: Vec<(Arc<Counted>, Vec<Arc<Counted>>)>,
}

impl Plans<'_> {
    /// The plans of a session that is not admitted yet: its policy's own, and those that it would have if it were governed.
    fn front(&self, member: &Member) -> Vec<Arc<Counted>> {
        let policy = &member.policy;
        let variants = portfolio::variants(self.shared, &member.base.planned, policy);
        // variants of another precision do not match the policy; plans for concurrent devices cannot be cut
        let fit = variants.into_iter().skip(1).filter(|variant| {
            variant.policy.settings() == policy.settings() && variant.planned.plan().schedule.is_none()
        });
        let others = fit.map(|variant| {
            let counted = Counted::uncut(variant.name, variant.planned, member.margin_percent);
            Arc::new(counted)
        });
        std::iter::once(Arc::clone(&member.base)).chain(others).collect()
    }

    /// A plan cut ever finer.
    fn of(&mut self, member: &Member, base: &Arc<Counted>) -> Result<&[Arc<Counted>]> {
        let known = self.cut.iter().position(|(other, _)| Arc::ptr_eq(other, base));
        let place = match known {
            Some(place) => place,
            None => {
                let finer = self.ever_finer(member, base)?;
                self.cut.push((Arc::clone(base), finer));
                self.cut.len() - 1
            }
        };
        Ok(&self.cut[place].1)
    }

    fn ever_finer(&self, member: &Member, base: &Arc<Counted>) -> Result<Vec<Arc<Counted>>> {
        let mut finer = Vec::new();
        let mut count = base.parts.len();
        for halving in 1..=HALVINGS {
            let longest = base.longest().picoseconds() >> halving;
            let Some(cut) = self.one(member, base, Time::from_picoseconds(longest))? else {
                break;
            };
            if cut.parts.len() > count {
                count = cut.parts.len();
                finer.push(cut);
            }
        }
        Ok(finer)
    }

    /// A plan cut so that no part is predicted to take longer; none where it cannot be cut.
    fn one(&self, member: &Member, base: &Arc<Counted>, longest: Time) -> Result<Option<Arc<Counted>>> {
        if base.planned.plan().objective.goal != Goal::Serial || longest == Time::ZERO {
            return Ok(None);
        }
        let planned = base.planned.cut(self.shared, member.policy.settings(), longest)?;
        let cut = Counted {
            cut: Some((longest, Arc::clone(base))),
            ..Counted::uncut(base.name.clone(), planned, member.margin_percent)
        };
        Ok(Some(Arc::new(cut)))
    }
}

/// The devices of a runtime, each with its memory and a queue that is given one part at a time: parts of admitted sessions
/// take all places of a device. Where parts give way to more urgent ones, admission does not count on it.
pub(crate) fn devices(shared: &Shared) -> Vec<Device> {
    let all = shared.host.devices().iter();
    let device = |device: &polychip_host::Device| Device {
        memory_bytes: device.info().memory_bytes,
        switch_ns: device.info().switch_ns.unwrap_or(0),
        ..Device::new(device.name())
    };
    all.map(device).collect()
}

fn set_of(devices: &[Device], members: &[Member], chosen: &[Chosen]) -> TaskSet {
    let tasks = members.iter().zip(chosen);
    let tasks = tasks.map(|(member, chosen)| member.task(chosen, devices));
    TaskSet::new(devices.to_vec(), tasks.collect())
}

fn bad_set(error: device_queue::Error) -> Error {
    Error::caused(ErrorKind::BadInput, "admission", error)
}

/// What these members have, where they are admitted so.
pub(crate) fn judged(devices: &[Device], members: &[Member], chosen: Vec<Chosen>) -> Result<Option<Found>> {
    let set = set_of(devices, members, &chosen);
    Ok(match device_queue::admit(&set).map_err(bad_set)? {
        device_queue::Admission::Admitted(certificate) => Some(Found {
            chosen,
            set,
            certificate,
        }),
        device_queue::Admission::Refused(_) => None,
    })
}

/// Chooses a plan for each member.
pub(crate) fn choose(
    shared: &Shared,
    members: &[Member],
) -> Result<std::result::Result<Found, RefusalReport>> {
    let devices = devices(shared);
    let mut plans = Plans {
        shared,
        cut: Vec::new(),
    };
    for (all, cut) in [(false, false), (false, true), (true, true)] {
        let options = members.iter().map(|member| member.options(&mut plans, all, cut));
        let options: Vec<Vec<Chosen>> = options.collect::<Result<_>>()?;
        if let Some(chosen) = jointly(&devices, members, &options)? {
            let found = judged(&devices, members, chosen)?;
            let found = found.expect("invariant: what was chosen jointly was admitted as a whole");
            return Ok(Ok(coarser(&devices, members, &plans, found)?));
        }
    }
    refused(&devices, members, &mut plans)
}

/// One of its options for each member, so that all are admitted.
fn jointly(devices: &[Device], members: &[Member], options: &[Vec<Chosen>]) -> Result<Option<Vec<Chosen>>> {
    let energy = |chosen: &Chosen| chosen.plan.planned.plan().totals.energy;
    let sessions = members
        .iter()
        .zip(options)
        .map(|(member, options)| device_queue::Session {
            name: member.name.clone(),
            class: member.class,
            arrivals: member.arrivals,
            choices: options
                .iter()
                .map(|chosen| Choice {
                    parts: parts(&chosen.plan, devices),
                    energy_uj: energy(chosen).map_or(0, |energy| energy.microjoules()),
                    memory_bytes: memory(chosen, devices),
                })
                .collect(),
        });
    let sessions: Vec<device_queue::Session> = sessions.collect();
    let frugal = members.iter().all(|member| member.policy.aim() == Aim::Energy);
    let is_known = options.iter().flatten().all(|chosen| energy(chosen).is_some());
    let aim = if frugal && is_known {
        device_queue::Aim::Energy
    } else {
        device_queue::Aim::Load
    };
    let found = device_queue::joint(devices, &sessions, aim, STEPS).map_err(bad_set)?;
    Ok(found.map(|joint| {
        let chosen = joint.chosen.iter().zip(options);
        chosen.map(|(index, options)| options[*index].clone()).collect()
    }))
}

/// The same with plans that are cut no more than they must be, those of the least urgent first.
fn coarser(devices: &[Device], members: &[Member], plans: &Plans<'_>, found: Found) -> Result<Found> {
    let mut found = found;
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(members[*index].class));
    for index in order {
        let member = &members[index];
        let Some((_, base)) = found.chosen[index].plan.cut.clone() else {
            continue;
        };
        let with = |chosen: Chosen, found: &Found| {
            let mut all = found.chosen.clone();
            all[index] = chosen;
            judged(devices, members, all)
        };
        if let Some(better) = with(member.uncut(&base), &found)? {
            found = better;
            continue;
        }
        // what is ready need not be compiled
        if member
            .has
            .as_ref()
            .is_some_and(|has| is_among(&found.chosen[index].plan, &has.ready))
        {
            continue;
        }
        let limits = device_queue::cuts(&found.set).map_err(bad_set)?;
        let limits = limits.iter().flat_map(|device| &device.tasks);
        let own = limits.filter(|(task, _)| *task == index);
        let Some(longest_ns) = own.filter_map(|(_, longest)| *longest).min() else {
            continue;
        };
        // predicted times have their margin added
        let predicted = longest_ns as f64 / (1.0 + member.margin_percent / 100.0);
        for permille in SHORTER_PERMILLE {
            let longest = Time::from_nanoseconds((predicted * permille as f64 / 1000.0) as u64);
            let Some(cut) = plans.one(member, &base, longest)? else {
                break;
            };
            if cut.parts.len() >= found.chosen[index].plan.parts.len() {
                break;
            }
            if let Some(better) = with(member.cut(&cut, &base), &found)? {
                found = better;
                break;
            }
        }
    }
    Ok(found)
}

/// Why no choice is admitted: of the policies' own plans, as fine as they were cut where only long parts stand against them.
fn refused(
    devices: &[Device],
    members: &[Member],
    plans: &mut Plans<'_>,
) -> Result<std::result::Result<Found, RefusalReport>> {
    let own = |member: &Member| match &member.has {
        Some(has) => has.clone(),
        None => member.uncut(&member.base),
    };
    let mut chosen: Vec<Chosen> = members.iter().map(own).collect();
    loop {
        let set = set_of(devices, members, &chosen);
        let reason = match device_queue::admit(&set).map_err(bad_set)? {
            // the search had ended before it came to these
            device_queue::Admission::Admitted(certificate) => {
                return Ok(Ok(Found {
                    chosen,
                    set,
                    certificate,
                }));
            }
            device_queue::Admission::Refused(reason) => reason,
        };
        let mut is_cut = false;
        if matches!(
            reason,
            device_queue::Reason::Demand {
                overloaded: false,
                ..
            }
        ) {
            for (member, chosen) in members.iter().zip(&mut chosen) {
                let base = &member.base;
                let finest = plans.of(member, base)?.last().cloned();
                if let Some(finest) = finest.filter(|finest| finest.parts.len() > chosen.plan.parts.len()) {
                    *chosen = member.cut(&finest, base);
                    is_cut = true;
                }
            }
        }
        if !is_cut {
            return Ok(Err(RefusalReport::of(&set, &reason).map_err(bad_set)?));
        }
    }
}

impl Found {
    /// By member: when each part of its plan is due after its run is submitted, in nanoseconds; `u64::MAX` without
    /// deadline.
    pub(crate) fn due(&self) -> Vec<Vec<u64>> {
        let tasks = self.set.tasks.iter().zip(&self.certificate.deadlines_ns);
        tasks
            .map(|(task, subtasks)| {
                let chunks = task.parts.chunk_by(|a, b| a.device == b.device);
                let each = chunks.zip(subtasks);
                each.flat_map(|(chunk, due)| std::iter::repeat_n(*due, chunk.len()))
                    .collect()
            })
            .collect()
    }

    /// The proof as text and figures.
    pub(crate) fn report(&self, members: &[Member]) -> Result<CertificateReport> {
        let limits = device_queue::cuts(&self.set).map_err(bad_set)?;
        let devices = self.set.devices.iter().enumerate();
        let used = devices.filter(|(index, _)| self.set.tasks.iter().any(|task| task.longest_on(*index) > 0));
        let devices = used.map(|(index, device)| {
            let proof = &self.certificate.devices[index];
            let tightest = proof.tightest.iter();
            DeviceProof {
                device: device.name.clone(),
                utilisation: proof.utilisation_ppm as f64 / 1e6,
                memory_bytes: proof.memory_bytes,
                memory_limit_bytes: device.memory_bytes,
                longest_part_ns: limits[index].longest_ns,
                tightest: tightest
                    .map(|instant| InstantReport::of(&self.set, instant))
                    .collect(),
            }
        });
        let due = self.due();
        let sessions = members.iter().zip(&self.chosen).enumerate();
        let sessions = sessions.map(|(index, (member, chosen))| {
            let (plan, task) = (&chosen.plan, &self.set.tasks[index]);
            let (period_ns, deadline_ns) = task.sporadic().unzip();
            let parts = plan.parts.iter().zip(&task.parts).zip(&due[index]);
            let parts = parts.map(|((timed, part), due_ns)| {
                let mut limits = limits[part.device].tasks.iter();
                PartProof {
                    timed: timed.clone(),
                    due_ns: deadline_ns.map(|_| *due_ns),
                    longest_ns: limits
                        .find(|(task, _)| *task == index)
                        .and_then(|(_, longest)| *longest),
                }
            });
            SessionProof {
                session: member.name.clone(),
                priority: member.class.into(),
                period_ns,
                deadline_ns,
                plan: plan.name.clone(),
                cut_ns: plan.cut.as_ref().map(|(longest, _)| longest.nanoseconds()),
                uncut_ready: plan
                    .cut
                    .as_ref()
                    .is_some_and(|(_, base)| is_among(base, &chosen.ready)),
                parts: parts.collect(),
            }
        });
        Ok(CertificateReport {
            devices: devices.collect(),
            sessions: sessions.collect(),
        })
    }
}

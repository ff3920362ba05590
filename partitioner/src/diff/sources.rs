//! Provenance of two plans' costs, and the comparable figures of the plans.
//!
//! A measured time and an estimated one are not comparable: a plan must not look slower only
//! because it was measured. If the costs of two plans have different provenance, both are priced
//! again, each part with the better-sourced figure of the two plans.
//!
//! Invariants: figures are compared only if both plans have the same provenance; the new prices
//! follow from the two plans alone. Deliberately not here: pricing with today's costs (`restate`).

use super::pairs::pairs;
use crate::cost::{Cost, Provenance};
use crate::crossing::Crossing;
use crate::index::DeviceIndex;
use crate::objective::Goal;
use crate::plan::{Plan, together};
use crate::record::Offer;
use crate::schedule::Schedule;
use crate::unit::{Energy, Time};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Sources of costs that may be held against each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Clocks of the device.
    Measured,
    /// Clocks, but of other parts, at another cadence or of another device.
    Inferred,
    /// No clock.
    Guessed,
}

fn kind(provenance: Provenance) -> Kind {
    match provenance {
        Provenance::Measured | Provenance::Composed => Kind::Measured,
        Provenance::Predicted
        | Provenance::OtherCadence
        | Provenance::OtherDevice
        | Provenance::Calibrated => Kind::Inferred,
        Provenance::Estimated | Provenance::Roofline => Kind::Guessed,
    }
}

/// Provenance of the costs of a plan's parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Source {
    /// The plan's own figures, with the weakest provenance among its parts.
    #[serde(flatten)]
    pub own: Figures,
    /// Number of nodes in parts of that provenance.
    pub nodes: u32,
    /// Number of nodes in the plan.
    pub of: u32,
}

/// Compared figures of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Figures {
    /// Time of a run, or between runs in a plan for throughput; JSON holds picoseconds.
    #[serde(rename = "time_ps")]
    pub time: Time,
    /// Energy of a run, if known; JSON holds nanojoules.
    #[serde(rename = "energy_nj")]
    pub energy: Option<Energy>,
    /// Weakest provenance among the parts.
    pub provenance: Provenance,
}

/// Figures of both plans with the same provenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Compared {
    /// Whether the plans were priced again, each part with the better-sourced figure of the two. If
    /// not, these are the plans' own figures.
    pub anew: bool,
    /// Of the old plan.
    pub before: Figures,
    /// Of the new plan.
    pub after: Figures,
}

/// Provenance of both plans' costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Sources {
    /// Of the old plan.
    pub before: Source,
    /// Of the new plan.
    pub after: Source,
    /// Whether they differ, so that the plans' own totals are not comparable.
    pub differ: bool,
    /// Comparable figures; none if a plan has a part without a figure as good as the other plan's.
    pub compared: Option<Compared>,
}

impl Sources {
    /// Of an old and a new plan.
    pub(super) fn of(old: &Plan, new: &Plan) -> Self {
        let own = |plan: &Plan| -> Vec<Cost> { plan.parts.iter().map(|part| part.cost).collect() };
        let (own_old, own_new) = (own(old), own(new));
        let known = Known::of(old, new);
        let better_old = known.costs(Side::Old);
        let better_new = known.costs(Side::New);
        let improves = |own: &[Cost], better: &[Cost]| {
            let mut both = own.iter().zip(better);
            both.any(|(own, better)| kind(better.provenance) < kind(own.provenance))
        };
        let weakest = |costs: &[Cost]| {
            let all = costs.iter().map(|cost| cost.provenance);
            all.max().unwrap_or(Provenance::Measured)
        };
        let same_kind = |old: &[Cost], new: &[Cost]| kind(weakest(old)) == kind(weakest(new));
        let differ = !same_kind(&own_old, &own_new)
            || improves(&own_old, &better_old)
            || improves(&own_new, &better_new);
        let compared = match differ {
            false => Some(Compared {
                anew: false,
                before: own_figures(old, weakest(&own_old)),
                after: own_figures(new, weakest(&own_new)),
            }),
            true if same_kind(&better_old, &better_new) => {
                let before = priced(&known.repriced(Side::Old, &better_old), weakest(&better_old));
                let after = priced(&known.repriced(Side::New, &better_new), weakest(&better_new));
                before.zip(after).map(|(before, after)| Compared {
                    anew: true,
                    before,
                    after,
                })
            }
            true => None,
        };
        Self {
            before: source(old, weakest(&own_old)),
            after: source(new, weakest(&own_new)),
            differ,
            compared,
        }
    }
}

fn source(plan: &Plan, provenance: Provenance) -> Source {
    let nodes = |weak: bool| {
        let parts = plan.parts.iter();
        let those = parts.filter(|part| !weak || part.cost.provenance == provenance);
        those.map(|part| part.nodes.len() as u32).sum()
    };
    Source {
        own: own_figures(plan, provenance),
        nodes: nodes(true),
        of: nodes(false),
    }
}

fn own_figures(plan: &Plan, provenance: Provenance) -> Figures {
    Figures {
        time: plan.interval(),
        energy: plan.totals.energy,
        provenance,
    }
}

/// The figures of a plan by its parts and crossings; none where they do not fit.
fn priced(plan: &Plan, provenance: Provenance) -> Option<Figures> {
    let time = match plan.schedule {
        Some(_) => {
            let own = |plan: &Plan| {
                let shared = plan.schedule.as_ref().map(|schedule| &schedule.resources);
                let first = |device: usize| shared?.get(device).map(|first| first.index());
                let resources: Vec<usize> = (0..plan.devices.len())
                    .map(|device| first(device).unwrap_or(device))
                    .collect();
                Schedule::of(&plan.parts, &plan.crossings, &resources).ok()
            };
            let schedule = own(plan)?;
            match plan.objective.goal {
                Goal::Throughput if !plan.replicas.is_empty() => {
                    let periods = plan.copies().map(|copy| Some(own(copy)?.period));
                    together(periods.collect::<Option<Vec<_>>>()?.into_iter())
                }
                Goal::Throughput => schedule.period,
                _ => schedule.makespan,
            }
        }
        None => {
            let parts = plan.parts.iter().flat_map(|part| [part.cost.time, part.launch]);
            let all = parts.chain(plan.crossings.iter().map(|crossing| crossing.time));
            all.into_iter().try_fold(Time::ZERO, Time::checked_add)?
        }
    };
    let mut energy = Some(Energy::ZERO);
    let mut add = |more: Option<Energy>| energy = energy.zip(more).and_then(|(a, b)| a.checked_add(b));
    for part in &plan.parts {
        add(part.cost.energy);
        add(Some(part.launch_energy));
    }
    plan.crossings
        .iter()
        .for_each(|crossing| add(Some(crossing.energy)));
    Some(Figures {
        time,
        energy,
        provenance,
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Old,
    New,
}

/// The costs that both plans record for nodes, parts, launches and crossings.
struct Known<'a> {
    old: &'a Plan,
    new: &'a Plan,
    /// Unchanged nodes: index in the old plan to index in the new plan.
    now: BTreeMap<usize, usize>,
    /// The inverse of `now`.
    was: BTreeMap<usize, usize>,
}

impl<'a> Known<'a> {
    fn of(old: &'a Plan, new: &'a Plan) -> Self {
        // a node whose shapes or attributes changed costs something else
        let same = |&(was, now): &(usize, usize)| {
            let records = old.nodes.get(was).zip(new.nodes.get(now));
            records.is_some_and(|(was, now)| was.key == now.key)
        };
        let now: BTreeMap<usize, usize> = pairs(old, new).into_iter().filter(same).collect();
        Self {
            old,
            new,
            was: now.iter().map(|(&was, &now)| (now, was)).collect(),
            now,
        }
    }

    fn plan(&self, side: Side) -> &'a Plan {
        match side {
            Side::Old => self.old,
            Side::New => self.new,
        }
    }

    /// A device's index in a plan; `None` if the two plans report different device names for it, so that it is another
    /// device.
    fn place(&self, side: Side, device: &str) -> Option<usize> {
        let find = |plan: &Plan| plan.devices.iter().position(|name| name == device);
        let called = |plan: &'a Plan| plan.device_names.get(find(plan)?);
        let is_other = called(self.old)
            .zip(called(self.new))
            .is_some_and(|(was, is)| was != is);
        if is_other { None } else { find(self.plan(side)) }
    }

    /// The best-sourced cost of each part of a plan; among equal sources, the new plan's.
    fn costs(&self, side: Side) -> Vec<Cost> {
        let (plan, other) = match side {
            Side::Old => (self.old, self.new),
            Side::New => (self.new, self.old),
        };
        let parts = plan.parts.iter().map(|part| {
            let device = plan.devices.get(part.device.index()).map_or("", String::as_str);
            let known_there = self.place(side.other(), device).is_some();
            let whole = other
                .parts
                .iter()
                .find(|found| known_there && found.id == part.id);
            let known = [
                Some((side, part.cost)),
                whole.map(|found| (side.other(), found.cost)),
                self.sum(side, device, &part.nodes).map(|cost| (side, cost)),
            ];
            let best = known
                .into_iter()
                .flatten()
                .min_by_key(|(from, cost)| (cost.provenance, *from == Side::Old));
            best.map_or(part.cost, |(_, cost)| cost)
        });
        parts.collect()
    }

    /// The cost of nodes one by one, each the best-sourced that a plan records; none where one has none.
    fn sum(&self, side: Side, device: &str, nodes: &[u32]) -> Option<Cost> {
        let offer = |side: Side, node: usize| {
            let place = self.place(side, device)?;
            match self.plan(side).nodes.get(node)?.offers.get(place)? {
                Offer::Cost(cost) => Some(*cost),
                _ => None,
            }
        };
        let mut total: Option<Cost> = None;
        for &node in nodes {
            let node = node as usize;
            let there = match side {
                Side::Old => self.now.get(&node),
                Side::New => self.was.get(&node),
            };
            let both = [
                offer(side, node).map(|cost| (side, cost)),
                there.and_then(|&there| Some((side.other(), offer(side.other(), there)?))),
            ];
            let (_, cost) = both
                .into_iter()
                .flatten()
                .min_by_key(|(from, cost)| (cost.provenance, *from == Side::Old))?;
            total = Some(match total {
                None => cost,
                Some(sum) => sum.sum(cost)?,
            });
        }
        total
    }

    /// A plan with these costs of its parts. Launches and transfers that both plans have are those of the new plan.
    fn repriced(&self, side: Side, costs: &[Cost]) -> Plan {
        let mut plan = Plan {
            nodes: Vec::new(),
            ..self.plan(side).clone()
        };
        let name = |devices: &[String], device: DeviceIndex| {
            let found = devices.get(device.index());
            found.cloned().unwrap_or_default()
        };
        let link = |devices: &[String], crossing: &Crossing| {
            let ends = [crossing.from_device, crossing.to_device];
            (ends.map(|device| name(devices, device)), crossing.bytes)
        };
        let (new, devices) = (self.new, plan.devices.clone());
        let launches: BTreeMap<String, (Time, Energy)> = new
            .parts
            .iter()
            .map(|part| (name(&new.devices, part.device), (part.launch, part.launch_energy)))
            .collect();
        let transfers: BTreeMap<_, (Time, Energy)> = new
            .crossings
            .iter()
            .map(|crossing| (link(&new.devices, crossing), (crossing.time, crossing.energy)))
            .collect();
        for (part, cost) in plan.parts.iter_mut().zip(costs) {
            part.cost = *cost;
            if let Some(&(launch, energy)) = launches.get(&name(&devices, part.device)) {
                (part.launch, part.launch_energy) = (launch, energy);
            }
        }
        for crossing in &mut plan.crossings {
            if let Some(&(time, energy)) = transfers.get(&link(&devices, crossing)) {
                (crossing.time, crossing.energy) = (time, energy);
            }
        }
        plan
    }
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Old => Self::New,
            Self::New => Self::Old,
        }
    }
}

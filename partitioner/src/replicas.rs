//! Plans for throughput: replicas of the model on disjoint devices, each on one device or split over several.
//!
//! Each run uses one replica, so rates add up. The replicas form a set partition of the devices. With few
//! devices all partitions are compared, by dynamic programming over sets of devices. With more, replicas on
//! single devices are joined in pairs where that gains most, and compared with one plan over all.
//!
//! Invariants: with up to [`MOST_SETS`] devices no subset of devices has a better plan than the whole,
//! because the value of a set does not depend on other devices; with more, an additional device never slows
//! replicas on single devices; a stateful model, and a plan with a power limit, has one replica; every
//! replica holds all limits. Deliberately not here: the plan of one replica (`makespan`), and dispatch of
//! runs (the scheduler).

use crate::error::Error;
use crate::instance::Inputs;
use crate::limit;
use crate::makespan::{self, Floor};
use crate::plan::{Certificate, Plan, together};
use crate::subset::{Subset, usable};
use crate::target::resources;
use std::cmp::Reverse;

/// Most devices of which every set is planned.
const MOST_SETS: usize = 4;

/// Most pairs that are planned where there are more devices.
const MOST_PAIRS: usize = 6;

/// With more nodes no pair is planned where there are more devices than that.
const MOST_NODES: usize = 20_000;

/// Where copies are this close to the bound of a set of devices (in thousandths), no single copy over the set is looked
/// for.
const CLOSE: u128 = 1020;

/// Whether a time between runs is that close to a bound.
fn close(period: u64, floor: u64) -> bool {
    u128::from(period) * 1000 <= u128::from(floor) * CLOSE
}

/// A plan for many runs.
pub(crate) fn plan(inputs: &Inputs<'_>, edges: &[(usize, usize)]) -> Result<Plan, Error> {
    let devices = usable(inputs);
    if devices.len() < 2 || inputs.graph.node_count() == 0 {
        return makespan::plan(inputs, edges);
    }
    let search = Search {
        inputs,
        edges,
        floor: Floor::new(inputs)?,
        resources: resources(inputs.targets),
        copies: inputs.options.replicas
            && inputs.graph.states.is_empty()
            && inputs.objective.max_predicted_power.is_none(),
        devices,
    };
    if search.devices.len() <= MOST_SETS {
        search.every_set()
    } else {
        search.many()
    }
}

/// Copies with the time between their runs.
#[derive(Clone)]
struct Found {
    period: u64,
    copies: Vec<Plan>,
}

impl Found {
    fn of(copies: Vec<Plan>) -> Self {
        let period = match copies.as_slice() {
            [one] => one.own_interval(),
            all => together(all.iter().map(Plan::own_interval)),
        };
        Self {
            period: period.picoseconds(),
            copies,
        }
    }

    fn and(&self, other: &Self) -> Self {
        Self::of([self.copies.as_slice(), &other.copies].concat())
    }

    /// The plan of these copies, the fastest first.
    fn plan(mut self, bound: u64) -> Plan {
        self.copies
            .sort_by_key(|copy| (copy.own_interval(), copy.used_devices()));
        let certified = |mut plan: Plan, objective: u64| {
            plan.certificate = Certificate {
                objective,
                bound: bound.min(objective),
            };
            plan
        };
        let mut copies = self.copies.into_iter().map(|copy| {
            let own = copy.own_interval().picoseconds();
            certified(copy, own)
        });
        let first = copies.next().expect("invariant: something was found");
        let mut first = certified(first, self.period);
        first.replicas = copies.collect();
        first
    }
}

/// The faster of two, the first among equals.
fn better(a: Option<Found>, b: Option<Found>) -> Option<Found> {
    [a, b].into_iter().flatten().min_by_key(|found| found.period)
}

struct Search<'a> {
    inputs: &'a Inputs<'a>,
    edges: &'a [(usize, usize)],
    floor: Floor,
    resources: Vec<usize>,
    /// Whether there may be several copies.
    copies: bool,
    devices: Vec<usize>,
}

impl Search<'_> {
    /// The best of all set partitions.
    fn every_set(&self) -> Result<Plan, Error> {
        let all = (1usize << self.devices.len()) - 1;
        let mut best: Vec<Option<Found>> = vec![None; all + 1];
        // one copy on the whole set; holds the error if there is no plan
        let mut whole = None;
        let mut order: Vec<usize> = (1..=all).collect();
        order.sort_by_key(|set| (set.count_ones(), *set));
        for set in order {
            let members = self.members(set);
            let mut found: Option<Found> = None;
            for at in (0..self.devices.len()).filter(|at| set >> at & 1 == 1) {
                found = better(found, best[set & !(1 << at)].clone());
            }
            // each partition into two once: the first part has the lowest device
            let mut part = (set - 1) & set;
            while part > 0 {
                let rest = set & !part;
                if part.trailing_zeros() == set.trailing_zeros() && self.apart(part, rest) {
                    let both = best[part].as_ref().zip(best[rest].as_ref());
                    found = better(found, both.map(|(a, b)| a.and(b)));
                }
                part = (part - 1) & set;
            }
            let floor = self.floor.of(&members);
            let hopeless = found
                .as_ref()
                .is_some_and(|best| floor.is_none_or(|floor| close(best.period, floor)));
            if !hopeless && floor.is_some() && self.may_span(&members, found.is_some()) {
                let one = self.one(&members);
                found = better(found, one.as_ref().ok().and_then(|plan| self.kept(plan)));
                if set == all {
                    whole = Some(one);
                }
            }
            best[set] = found;
        }
        let floor = self.floor.of(&self.devices).unwrap_or(0);
        match (best[all].take(), whole) {
            (Some(found), Some(Ok(whole))) => Ok(found.plan(whole.certificate.bound.max(floor))),
            (Some(found), _) => Ok(found.plan(floor)),
            (None, Some(Ok(whole))) => Ok(whole),
            (None, _) => makespan::plan(self.inputs, self.edges),
        }
    }

    /// Copies of single devices, joined where that gains, or one over all.
    fn many(&self) -> Result<Plan, Error> {
        let single = |&device: &usize| Some((device, self.kept(&self.one(&[device]).ok()?)?));
        let mut singles: Vec<(usize, Found)> = self.devices.iter().filter_map(single).collect();
        singles.sort_by_key(|(device, found)| (found.period, *device));
        // the fastest device of each hardware
        let mut seen = Vec::new();
        singles.retain(|(device, _)| {
            let on = self.resources[*device];
            let new = !seen.contains(&on);
            seen.push(on);
            new
        });
        let mut groups: Vec<(Vec<usize>, Option<Found>)> = Vec::new();
        for &device in &self.devices {
            let found = singles.iter().find(|(single, _)| *single == device);
            if found.is_some() || !seen.contains(&self.resources[device]) {
                groups.push((vec![device], found.map(|(_, found)| found.clone())));
            }
        }
        if self.inputs.graph.node_count() <= MOST_NODES && self.copies && self.inputs.options.split_copies {
            self.join(&mut groups);
        }
        let mut alone: Vec<Found> = groups.into_iter().filter_map(|(_, found)| found).collect();
        if !self.copies {
            alone.sort_by_key(|found| found.period);
            alone.truncate(1);
        }
        let alone = alone.into_iter().reduce(|a, b| a.and(&b));
        let floor = self.floor.of(&self.devices).unwrap_or(0);
        if let Some(alone) = &alone
            && (close(alone.period, floor) || !self.may_span(&self.devices, true))
        {
            return Ok(alone.clone().plan(floor));
        }
        let whole = makespan::plan(self.inputs, self.edges);
        let bound = whole
            .as_ref()
            .map_or(floor, |whole| whole.certificate.bound.max(floor));
        let kept = whole.as_ref().ok().and_then(|whole| self.kept(whole));
        match (alone, kept) {
            (Some(alone), Some(kept)) if kept.period < alone.period => Ok(kept.plan(bound)),
            (Some(alone), _) => Ok(alone.plan(bound)),
            (None, Some(kept)) => Ok(kept.plan(bound)),
            (None, None) => whole,
        }
    }

    /// Joins groups in pairs where one copy over both is faster than a copy on each, the largest gain first.
    fn join(&self, groups: &mut [(Vec<usize>, Option<Found>)]) {
        // rates in units of 2⁻¹⁰⁰ per picosecond
        let rate = |period: u64| (1u128 << 100) / u128::from(period.max(1));
        let own = |group: &Option<Found>| group.as_ref().map_or(0, |found| rate(found.period));
        let mut pairs: Vec<(Reverse<u128>, usize, usize)> = Vec::new();
        for a in 0..groups.len() {
            for b in a + 1..groups.len() {
                let both = [groups[a].0[0], groups[b].0[0]];
                let Some(floor) = self.floor.of(&both) else {
                    continue;
                };
                let apart = own(&groups[a].1) + own(&groups[b].1);
                let gain = rate(floor).saturating_sub(apart);
                // a gain of less than a hundredth is not looked for
                if gain > apart / 100 {
                    pairs.push((Reverse(gain), a, b));
                }
            }
        }
        pairs.sort_unstable();
        let mut planned: Vec<(Reverse<u128>, usize, usize, Found)> = Vec::new();
        for &(_, a, b) in pairs.iter().take(MOST_PAIRS) {
            let both = [groups[a].0[0], groups[b].0[0]];
            let found = self.one(&both).ok().and_then(|plan| self.kept(&plan));
            if let Some(found) = found {
                let apart = own(&groups[a].1) + own(&groups[b].1);
                let gain = rate(found.period).saturating_sub(apart);
                if gain > 0 {
                    planned.push((Reverse(gain), a, b, found));
                }
            }
        }
        planned.sort_by_key(|&(gain, a, b, _)| (gain, a, b));
        let mut joined = vec![false; groups.len()];
        for (_, a, b, found) in planned {
            if !joined[a] && !joined[b] {
                (joined[a], joined[b]) = (true, true);
                let more = groups[b].0.clone();
                groups[a].0.extend(more);
                groups[a].1 = Some(found);
                groups[b].1 = None;
            }
        }
    }

    /// Whether one copy over these devices is looked for, where there is another plan for them or none.
    fn may_span(&self, members: &[usize], has_other: bool) -> bool {
        members.len() == 1 || !has_other || self.inputs.options.split_copies
    }

    fn members(&self, set: usize) -> Vec<usize> {
        let members = self.devices.iter().enumerate();
        let members = members.filter(|(at, _)| set >> at & 1 == 1);
        members.map(|(_, &device)| device).collect()
    }

    /// Whether two sets of devices may hold a copy each.
    fn apart(&self, a: usize, b: usize) -> bool {
        let hardware = |set| self.members(set).into_iter().map(|device| self.resources[device]);
        self.copies && !hardware(a).any(|on| hardware(b).any(|other| other == on))
    }

    /// The best plan found of one copy on some devices.
    fn one(&self, devices: &[usize]) -> Result<Plan, Error> {
        if let &[device] = devices
            && self.floor.of(devices).is_some()
        {
            let nodes = self.inputs.graph.node_count();
            return makespan::written(self.inputs, vec![(0..nodes).collect()], &vec![device; nodes], 0);
        }
        let Some(subset) = Subset::new(self.inputs, devices) else {
            return Err(Error::bad_input("a node is pinned to another device"));
        };
        let found = makespan::plan(&subset.inputs(self.inputs), self.edges)?;
        subset.scheduled(self.inputs, &found)
    }

    fn kept(&self, plan: &Plan) -> Option<Found> {
        let kept = limit::exceeded(self.inputs, plan).is_empty();
        kept.then(|| Found::of(vec![plan.clone()]))
    }
}

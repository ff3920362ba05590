//! A plan's statements about its limits, recomputed from parts, targets and the objective.
//!
//! Invariants: every exceeded limit is reported; each reported value is recomputed from the plan's
//! own parts, in 128 bits. Deliberately not here: the values without limits, which are claims about
//! other plans.

use super::evidence::Evidence;
use super::violation::{Violation, ViolationKind};
use crate::index::DeviceIndex;
use crate::limit_report::Limit;
use crate::objective::Goal;
use crate::unit::Time;
use std::collections::{BTreeMap, BTreeSet};

fn wrong(words: String) -> Violation {
    Violation::new(ViolationKind::Limit, words)
}

/// The least number of whole milliwatts that is no less than an energy (nJ) over a time (ps).
fn milliwatts(energy: u128, time: u128) -> i128 {
    if energy == 0 {
        return 0;
    }
    if time == 0 {
        return i128::from(u64::MAX);
    }
    let scaled = energy * 1_000_000;
    let whole = scaled / time + u128::from(!scaled.is_multiple_of(time));
    whole.min(u128::from(u64::MAX)) as i128
}

/// Each limit of the objective has its line, each line its figure.
pub(super) fn stated(e: &Evidence<'_>, run: Time) -> Result<(), Violation> {
    let (plan, objective) = (e.plan, &e.plan.objective);
    let interval = match (objective.goal, &plan.schedule) {
        (Goal::Throughput, Some(schedule)) => schedule.period,
        _ => run,
    };
    let interval = u128::from(interval.picoseconds());
    let within = |value: i128| i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX });
    // per limit and device: most, seen
    let mut needed: BTreeMap<(Limit, Option<DeviceIndex>), (i64, Option<i64>)> = BTreeMap::new();
    if let Some(deadline) = objective.deadline {
        let figures = [deadline, run].map(|time| within(i128::from(time.picoseconds())));
        needed.insert((Limit::Deadline, None), (figures[0], Some(figures[1])));
    }
    if let Some(budget) = objective.energy_budget {
        let seen = plan
            .totals
            .energy
            .map(|energy| within(i128::from(energy.nanojoules())));
        needed.insert(
            (Limit::EnergyBudget, None),
            (within(i128::from(budget.nanojoules())), seen),
        );
    }
    if let Some(limit) = objective.max_predicted_power {
        let idle: i128 = e
            .targets
            .iter()
            .filter_map(|target| target.idle)
            .map(|idle| i128::from(idle.milliwatts()))
            .sum();
        let seen = plan.totals.energy.map(|energy| {
            let busy = milliwatts(u128::from(energy.nanojoules()), interval);
            within((busy + idle.min(i128::from(u64::MAX))).min(i128::from(u64::MAX)))
        });
        needed.insert(
            (Limit::Power, None),
            (within(i128::from(limit.milliwatts())), seen),
        );
    }
    // said where it changed the plan, or is exceeded
    let share = objective.slowest_permille.map(i128::from);
    let slowest = plan.fastest.zip(share);
    let slowest = slowest.map(|(fastest, share)| i128::from(fastest.picoseconds()) * share / 1000);
    let is_said = plan.limits.iter().any(|held| held.limit == Limit::Slowest);
    if let Some(slowest) = slowest.filter(|&slowest| !is_said && i128::from(run.picoseconds()) > slowest) {
        return Err(wrong(format!(
            "a run takes {run}, more than the {slowest} ps allowed relative to the fastest plan, and the plan does not report it"
        )));
    }
    if plan.fastest.is_some() && share.is_none() {
        return Err(wrong(
            "the plan states the fastest one's time, which bounds nothing".to_owned(),
        ));
    }
    let mut resting: BTreeMap<DeviceIndex, i64> = BTreeMap::new();
    if let Some(limit) = objective.max_predicted_temperature {
        for (device, target) in e.targets.iter().enumerate() {
            let parts: Vec<_> = plan
                .parts
                .iter()
                .filter(|part| part.device.index() == device)
                .collect();
            if let Some(heat) = target.heat.filter(|_| parts.is_empty()) {
                resting.insert(DeviceIndex::new(device), heat.rest.millidegrees());
            }
            if parts.is_empty() {
                continue;
            }
            let energies = parts.iter().map(|part| {
                let own = part.cost.energy?;
                Some(u128::from(own.nanojoules()) + u128::from(part.launch_energy.nanojoules()))
            });
            let energy: Option<u128> = energies.sum();
            let seen = target.heat.zip(energy).map(|(heat, energy)| {
                let rise = i128::from(heat.resistance_mk_per_w) * milliwatts(energy, interval);
                let rise = rise / 1000 + i128::from(rise % 1000 != 0);
                within(i128::from(heat.rest.millidegrees()) + rise.min(i128::from(i64::MAX)))
            });
            needed.insert(
                (Limit::Temperature, Some(DeviceIndex::new(device))),
                (limit.millidegrees(), seen),
            );
        }
    }
    let mut stated = BTreeSet::new();
    for held in &plan.limits {
        let key = (held.limit, held.device);
        let device = held.device.and_then(|device| e.targets.get(device.index()));
        let place = match device {
            Some(target) => format!("limit {:?} of {}", held.limit, target.name),
            None => format!("limit {:?}", held.limit),
        };
        if held.device.is_some() != device.is_some() || !stated.insert(key) {
            return Err(wrong(format!("{place}: about no device, or stated twice")));
        }
        let real = needed.remove(&key).or_else(|| match held.limit {
            Limit::Memory => {
                let index = held.device?.index();
                let seen = plan.memory_bytes[index];
                Some((
                    within(i128::from(device?.memory_limit?)),
                    Some(within(i128::from(seen))),
                ))
            }
            Limit::Slowest => Some((within(slowest?), Some(within(i128::from(run.picoseconds()))))),
            // a device that a temperature keeps out
            Limit::Temperature => {
                let most = objective.max_predicted_temperature?.millidegrees();
                let rest = resting.remove(&held.device?)?;
                Some((most, Some(rest).filter(|&rest| rest <= most)))
            }
            _ => None,
        });
        let Some(real) = real else {
            return Err(wrong(format!("{place}: there is no such limit")));
        };
        if (held.most, held.seen) != real {
            return Err(wrong(format!(
                "{place}: the plan states {:?} of {}, it is {:?} of {}",
                held.seen, held.most, real.1, real.0
            )));
        }
    }
    match needed.into_iter().next() {
        None => Ok(()),
        Some(((limit, device), (most, seen))) => Err(wrong(format!(
            "limit {limit:?} of device {device:?}: the plan does not report that it is at {seen:?} of {most}"
        ))),
    }
}

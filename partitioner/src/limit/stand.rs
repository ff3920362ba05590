//! The value of a plan at each limit, and its distance from those that it exceeds.
//!
//! Invariants: times, power and temperature may be missed, and are then reported; memory and an
//! energy budget may not.

use super::draw::{self, draw};
use crate::error::{Error, Repr};
use crate::index::DeviceIndex;
use crate::instance::Inputs;
use crate::limit_report::{Limit, LimitReport};
use crate::plan::Plan;

/// A plan's value at each limit.
pub(crate) fn lines(inputs: &Inputs<'_>, plan: &Plan) -> Vec<LimitReport> {
    let objective = inputs.objective;
    let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let line = |limit, device: Option<usize>, most, seen| LimitReport {
        limit,
        device: device.map(DeviceIndex::new),
        most,
        seen,
        free: None,
    };
    let mut lines = Vec::new();
    if let Some(deadline) = objective.deadline {
        let seen = signed(plan.time().picoseconds());
        lines.push(line(
            Limit::Deadline,
            None,
            signed(deadline.picoseconds()),
            Some(seen),
        ));
    }
    if let Some(slowest) = inputs.slowest() {
        let figures = [slowest, plan.time()].map(|time| signed(time.picoseconds()));
        lines.push(line(Limit::Slowest, None, figures[0], Some(figures[1])));
    }
    if let Some(budget) = objective.energy_budget {
        let seen = plan.totals.energy.map(|energy| signed(energy.nanojoules()));
        lines.push(line(Limit::EnergyBudget, None, signed(budget.nanojoules()), seen));
    }
    for (device, target) in inputs.targets.iter().enumerate() {
        if let Some(limit) = target.memory_limit {
            let seen = signed(plan.memory_bytes[device]);
            lines.push(line(Limit::Memory, Some(device), signed(limit), Some(seen)));
        }
    }
    if objective.max_predicted_power.is_none() && objective.max_predicted_temperature.is_none() {
        return lines;
    }
    let drawn = draw(inputs, plan);
    if let Some(limit) = objective.max_predicted_power {
        let idle = draw::idle(inputs);
        let seen = drawn.all.map(|power| signed(power.saturating_add(idle)));
        lines.push(line(Limit::Power, None, signed(limit.milliwatts()), seen));
    }
    if let Some(limit) = objective.max_predicted_temperature {
        for (device, target) in inputs.targets.iter().enumerate() {
            if plan.parts.iter().any(|part| part.device.index() == device) {
                let heat = target.heat.zip(drawn.devices[device]);
                let seen = heat.map(|(heat, power)| draw::settles(heat, power));
                lines.push(line(Limit::Temperature, Some(device), limit.millidegrees(), seen));
            }
        }
    }
    lines
}

/// The limits that a plan is over.
pub(crate) fn exceeded(inputs: &Inputs<'_>, plan: &Plan) -> Vec<LimitReport> {
    let mut lines = lines(inputs, plan);
    lines.retain(LimitReport::is_exceeded);
    lines
}

/// By how many bytes a plan exceeds what devices may hold.
pub(super) fn excess(inputs: &Inputs<'_>, plan: &Plan) -> u64 {
    let held = inputs.targets.iter().zip(&plan.memory_bytes);
    let over =
        held.map(|(target, &bytes)| target.memory_limit.map_or(0, |limit| bytes.saturating_sub(limit)));
    over.fold(0u64, u64::saturating_add)
}

/// The error of a limit that is exceeded.
pub(super) fn error(inputs: &Inputs<'_>, over: &LimitReport) -> Error {
    let names: Vec<String> = inputs.targets.iter().map(|target| target.name.clone()).collect();
    Repr::OverLimit {
        what: over.what(&names),
        limit: over.most_words(),
        seen: over.seen_words(),
    }
    .into()
}

/// By how many times a plan exceeds what may be missed, in millionths, the worst first; none where it exceeds what may
/// not be.
pub(crate) fn miss(inputs: &Inputs<'_>, plan: &Plan) -> Option<u128> {
    let caps = draw::caps(inputs);
    let drawn = draw(inputs, plan);
    let times = |seen: u64, most: u64| u128::from(seen) * 1_000_000 / u128::from(most.max(1));
    let mut worst = 0;
    for over in exceeded(inputs, plan) {
        let device = over.device.map(DeviceIndex::index);
        let cap = caps.iter().find(|cap| cap.device == device);
        let found = match (over.limit, device) {
            (Limit::Memory | Limit::EnergyBudget, _) => return None,
            (Limit::Deadline | Limit::Slowest, _) => {
                let most = u64::try_from(over.most).unwrap_or(0);
                times(plan.time().picoseconds(), most)
            }
            (Limit::Power, _) => times(drawn.all.unwrap_or(0), cap.map_or(0, |cap| cap.milliwatts)),
            (Limit::Temperature, None) => 0,
            (Limit::Temperature, Some(device)) => times(
                drawn.devices[device].unwrap_or(0),
                cap.map_or(0, |cap| cap.milliwatts),
            ),
        };
        worst = worst.max(found.max(1_000_000));
    }
    Some(worst)
}

//! What each device of a plan is used for: nodes, time, energy; and the sentence at the head of the page.
//!
//! Invariant: the times of all devices add up to the plan's totals.

use polychip_partitioner::report::count;
use polychip_partitioner::{DeviceIndex, Energy, Plan, Provenance, Report, Time};
use serde::Serialize;

/// What one device of a plan is used for. JSON holds picoseconds and nanojoules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Usage {
    pub(super) name: String,
    /// What people call it.
    pub(super) label: String,
    pub(super) nodes: usize,
    compute_ps: u64,
    launch_ps: u64,
    /// Of tensors that are brought to it.
    transfer_ps: u64,
    /// None where an energy of it is not known.
    energy_nj: Option<u64>,
}

#[cfg(test)]
impl Usage {
    /// A device of which nothing is used.
    pub(super) fn unused(name: &str, label: &str) -> Self {
        Self {
            name: name.to_owned(),
            label: label.to_owned(),
            nodes: 0,
            compute_ps: 0,
            launch_ps: 0,
            transfer_ps: 0,
            energy_nj: None,
        }
    }
}

/// The devices of a plan, in its order.
pub(super) fn of(plan: &Plan) -> Vec<Usage> {
    let devices = (0..plan.devices.len()).map(DeviceIndex::new);
    devices.map(|device| usage(plan, device)).collect()
}

fn usage(plan: &Plan, device: DeviceIndex) -> Usage {
    let parts = || plan.parts.iter().filter(move |part| part.device == device);
    let crossings = || {
        plan.crossings
            .iter()
            .filter(move |crossing| crossing.to_device == device)
    };
    let time = |times: &mut dyn Iterator<Item = Time>| times.map(Time::picoseconds).sum();
    let energies = parts()
        .map(|part| Some(part.cost.energy?.nanojoules() + part.launch_energy.nanojoules()))
        .chain(crossings().map(|crossing| Some(crossing.energy.nanojoules())));
    Usage {
        name: plan.devices[device.index()].clone(),
        label: plan.device_label(device),
        nodes: parts().map(|part| part.nodes.len()).sum(),
        compute_ps: time(&mut parts().map(|part| part.cost.time)),
        launch_ps: time(&mut parts().map(|part| part.launch)),
        transfer_ps: time(&mut crossings().map(|crossing| crossing.time)),
        energy_nj: energies.sum(),
    }
}

/// What a run takes and where it happens, how good that is, and what the best simple rule would take, in one sentence.
pub(super) fn verdict(plan: &Plan, report: &Report, usage: &[Usage]) -> String {
    let mut used: Vec<&Usage> = usage.iter().filter(|device| device.nodes > 0).collect();
    used.sort_by_key(|device| std::cmp::Reverse(device.nodes));
    let all: usize = used.iter().map(|device| device.nodes).sum();
    let places = match used.as_slice() {
        [one] => format!("all {} on {}", count(all, "node"), one.label),
        several => {
            let each = several.iter().enumerate().map(|(index, device)| match index {
                0 => format!("{} of {all} nodes on {}", device.nodes, device.label),
                _ => format!("{} on {}", device.nodes, device.label),
            });
            each.collect::<Vec<_>>().join(", ")
        }
    };
    let energy = plan
        .totals
        .energy
        .map_or_else(String::new, |energy| format!(" and {energy}"));
    let at_once = if plan.schedule.is_some() {
        " with concurrent devices"
    } else {
        ""
    };
    let rules = report.comparisons.iter();
    let best = rules
        .filter(|line| line.comparison.objective.is_some())
        .min_by_key(|line| line.comparison.objective);
    let rule = best.map_or_else(String::new, |line| {
        format!("; the best simple rule takes {}", line.words)
    });
    format!(
        "A run takes {}{energy}{at_once} ({}), {places}; {}{rule}.",
        plan.time(),
        provenance(plan.totals.provenance, plan.totals.emulated),
        plan.certificate.words(plan.schedule.is_some()),
    )
}

fn provenance(provenance: Provenance, emulated: bool) -> String {
    let emulated = if emulated { ", emulated" } else { "" };
    format!("{}{emulated}", provenance.word())
}

/// The energy of a run in JSON's unit.
pub(super) fn nanojoules(energy: Option<Energy>) -> Option<u64> {
    energy.map(Energy::nanojoules)
}

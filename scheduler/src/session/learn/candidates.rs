//! The plans worth a trial.
//!
//! Invariants: every plan is for the same model, devices, precision and objective; no two have the
//! same placement; plans with hopeless predictions are excluded.

use polychip_partitioner::{DeviceIndex, Plan};

use crate::planned::Planned;
use crate::policy::Policy;
use crate::shared::Shared;

/// Plans that are tried beside the incumbent; each keeps memory of its own.
const MOST: usize = 5;
/// One that is predicted to take so many times the incumbent's measured time is not tried: predictions of whole models are
/// within a factor of three.
const HOPELESS: f64 = 4.0;
/// A model whose constants take more than this keeps one plan: a second one would hold them a second time.
const MOST_BYTES: u64 = 1 << 30;

/// The plans to try, the most promising first, each with the time expected of it.
pub(super) fn of(
    shared: &Shared,
    incumbent: &Planned,
    policy: &Policy,
    incumbent_ns: f64,
) -> Vec<(Planned, f64)> {
    if incumbent.graph().constant_bytes() > MOST_BYTES {
        return Vec::new();
    }
    let settings = policy.settings();
    let devices = incumbent.devices().len();
    let only = |keep: &dyn Fn(usize) -> bool| {
        let plan = incumbent.solved_again(shared, settings, |targets| {
            for (index, target) in targets.iter_mut().enumerate() {
                if !keep(index) {
                    target
                        .quarantined
                        .get_or_insert_with(|| "left out of this plan".to_owned());
                }
            }
        });
        plan.ok()
    };
    let mut found: Vec<Planned> = Vec::new();
    found.extend(only(&|_| true));
    for device in 0..devices {
        found.extend(only(&|other| other == device));
    }
    if devices > 2 {
        for device in incumbent.used_devices().into_iter().map(DeviceIndex::index) {
            found.extend(only(&|other| other != device));
        }
    }
    let nodes = incumbent.graph().node_count();
    let mut placements = vec![incumbent.plan().devices_of_nodes(nodes)];
    found.retain(|planned| {
        let placement = planned.plan().devices_of_nodes(nodes);
        let is_new = !placements.contains(&placement);
        placements.push(placement);
        is_new
    });
    let expected = |planned: &Planned| planned.plan().time().nanoseconds() as f64;
    let mut found: Vec<(Planned, f64)> = found
        .into_iter()
        .map(|planned| {
            let ns = expected(&planned);
            (planned, ns)
        })
        .filter(|(_, ns)| *ns <= HOPELESS * incumbent_ns)
        .collect();
    found.sort_by(|(a, a_ns), (b, b_ns)| {
        let value = |planned: &Planned, ns: f64| ns * value_per_ns(planned);
        value(a, *a_ns).total_cmp(&value(b, *b_ns))
    });
    found.truncate(MOST);
    found
}

/// What a nanosecond of a run of the plan is worth: its objective's weight of time, and that of the energy that it is
/// predicted to draw meanwhile.
pub(super) fn value_per_ns(planned: &Planned) -> f64 {
    let Plan {
        objective, totals, ..
    } = planned.plan();
    let time = totals.time.picoseconds().max(1) as f64;
    let energy = match (objective.energy_weight, totals.energy) {
        (0, _) | (_, None) => 0.0,
        (weight, Some(energy)) => f64::from(weight) * energy.nanojoules() as f64 / time,
    };
    let value = f64::from(objective.time_weight) + energy;
    if value > 0.0 { value } else { 1.0 }
}

/// A plan's name: its devices, and its parts where there are several.
pub(super) fn name(planned: &Planned) -> String {
    let devices: Vec<&str> = planned
        .used_devices()
        .into_iter()
        .map(|device| planned.devices()[device.index()].name())
        .collect();
    match planned.plan().parts.len() {
        0 | 1 => devices.join(" + "),
        parts => format!("{} in {parts} parts", devices.join(" + ")),
    }
}

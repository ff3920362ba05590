//! The differences between two plans: moved nodes with reasons, added and removed parts, and the
//! cost.
//!
//! Invariants: nodes are matched by index if both plans are of one model, else by name and op, then
//! by their content; every moved node has at least one reason, which is `Unrecorded` or
//! `Neighbours` if no other is known. Deliberately not here: reading files and deciding what fails
//! a build (the CLI does).

mod pairs;
mod sources;
mod text;

use pairs::count;
pub(crate) use pairs::pairs;
pub use sources::{Compared, Figures, Source, Sources};

use crate::cost::Cost;
use crate::index::DeviceIndex;
use crate::objective::Objective;
use crate::plan::{Plan, Totals};
use crate::record::Offer;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The differences between an old and a new plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlanDiff {
    /// Whether both plans are of one model: same structure, same nodes.
    pub same_model: bool,
    /// Objective before and after as text, if it changed.
    pub objective: Option<(String, String)>,
    /// The compared quantity, such as "time": what the new plan minimizes.
    pub quantity: String,
    /// Devices available only to the new plan.
    pub devices_added: Vec<String>,
    /// Devices available only to the old plan.
    pub devices_removed: Vec<String>,
    /// Devices of both plans with another product name: name, before, now.
    pub devices_renamed: Vec<(String, String, String)>,
    /// Product names of devices of either plan, by device, if a plan records them.
    pub device_names: BTreeMap<String, String>,
    /// Number of nodes in both plans.
    pub nodes: u32,
    /// Nodes on another device than before.
    pub moved: Vec<MovedNode>,
    /// Nodes only in the new plan.
    pub added: Vec<NodeName>,
    /// Nodes only in the old plan.
    pub removed: Vec<NodeName>,
    /// Number of parts in both plans, by id.
    pub parts_kept: u32,
    /// Parts only in the new plan.
    pub parts_added: Vec<PartName>,
    /// Parts only in the old plan.
    pub parts_removed: Vec<PartName>,
    /// Predicted totals of the old plan.
    pub before: Totals,
    /// Predicted totals of the new plan.
    pub after: Totals,
    /// Provenance of both plans' costs, and what can be compared.
    pub sources: Sources,
    /// Change of the objective in millionths of the old value, from comparable figures; none
    /// without such figures, if a value is unknown, or if the old one is zero.
    pub dearer_ppm: Option<i64>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NodeName {
    /// Index in its plan's canonical order.
    pub node: u32,
    /// Name in the model; empty if the plan has no record.
    pub name: String,
    /// The op; empty if the plan has no record.
    pub op: String,
    /// Its device.
    pub device: String,
}

/// A part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PartName {
    /// Stable id.
    pub id: String,
    /// Its device.
    pub device: String,
    /// Number of nodes.
    pub nodes: u32,
}

/// A node on another device than before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MovedNode {
    /// Index in the new plan's canonical order.
    pub node: u32,
    /// Name in the model; empty if neither plan has a record.
    pub name: String,
    /// The op; empty if neither plan has a record.
    pub op: String,
    /// Device before.
    pub from: String,
    /// Device now.
    pub to: String,
    /// The reasons.
    pub because: Vec<Because>,
}

/// The reason for a node's move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Because {
    /// Policy: the node is pinned to its new device, or no longer pinned to its old one.
    Pins {
        /// Pinned to this device before.
        before: Option<String>,
        /// Pinned to this device now.
        after: Option<String>,
    },
    /// Policy: the objective or its limits changed.
    Objective,
    /// Policy: the node's old device is not available to the new plan.
    DeviceRemoved {
        /// The device.
        device: String,
    },
    /// Policy: the node's new device was not available to the old plan.
    DeviceAdded {
        /// The device.
        device: String,
    },
    /// Support: the node's old device now refuses it.
    SupportLost {
        /// The device.
        device: String,
        /// Its message.
        words: String,
    },
    /// Support: the node's new device refused it before.
    SupportGained {
        /// The device.
        device: String,
        /// Its message then.
        words: String,
    },
    /// Cost: the node's own cost on a device changed.
    Cost {
        /// The device.
        device: String,
        /// Cost before.
        before: Cost,
        /// Cost now.
        after: Cost,
    },
    /// The node's own support and costs are unchanged: transfers, launches or surrounding nodes
    /// changed.
    Neighbours,
    /// A plan has no record of the devices' offers.
    Unrecorded,
}

/// Compares an old plan with a new one.
#[must_use]
pub fn diff(old: &Plan, new: &Plan) -> PlanDiff {
    let (old_nodes, new_nodes) = (count(old), count(new));
    let before = old.devices_of_nodes(old_nodes);
    let after = new.devices_of_nodes(new_nodes);
    let same_model = old.model == new.model;
    let pairs = pairs(old, new);
    let device = |plan: &Plan, index: Option<DeviceIndex>| {
        let found = index.and_then(|index| plan.devices.get(index.index()));
        found.cloned().unwrap_or_default()
    };
    let mut moved = Vec::new();
    for &(was, now) in &pairs {
        let (from, to) = (device(old, before[was]), device(new, after[now]));
        if from == to {
            continue;
        }
        let record = new.nodes.get(now).or(old.nodes.get(was));
        moved.push(MovedNode {
            node: now as u32,
            name: record.map_or_else(String::new, |record| record.name.clone()),
            op: record.map_or_else(String::new, |record| record.op.clone()),
            because: because(old, new, was, now, &from, &to),
            from,
            to,
        });
    }
    let old_kept: BTreeSet<usize> = pairs.iter().map(|pair| pair.0).collect();
    let new_kept: BTreeSet<usize> = pairs.iter().map(|pair| pair.1).collect();
    let alone = |plan: &Plan, devices: &[Option<DeviceIndex>], kept: &BTreeSet<usize>| {
        let rest = (0..devices.len()).filter(|node| !kept.contains(node));
        rest.map(|node| {
            let record = plan.nodes.get(node);
            NodeName {
                node: node as u32,
                name: record.map_or_else(String::new, |record| record.name.clone()),
                op: record.map_or_else(String::new, |record| record.op.clone()),
                device: device(plan, devices[node]),
            }
        })
        .collect::<Vec<_>>()
    };
    let beyond = |these: &[String], those: &[String]| {
        let rest = these.iter().filter(|name| !those.contains(name));
        rest.cloned().collect::<Vec<String>>()
    };
    let (parts_kept, parts_removed, parts_added) = parts(old, new);
    let sources = Sources::of(old, new);
    let named = |plan: &Plan| {
        let names = plan
            .devices
            .iter()
            .cloned()
            .zip(plan.device_names.iter().cloned());
        names.collect::<Vec<_>>()
    };
    PlanDiff {
        same_model,
        objective: (old.objective != new.objective)
            .then(|| (old.objective.description(), new.objective.description())),
        quantity: new.objective.quantity().to_owned(),
        devices_added: beyond(&new.devices, &old.devices),
        devices_removed: beyond(&old.devices, &new.devices),
        devices_renamed: named(old)
            .into_iter()
            .filter_map(|(device, was)| {
                let (_, now) = named(new).into_iter().find(|(name, _)| *name == device)?;
                (was != now).then_some((device, was, now))
            })
            .collect(),
        device_names: named(old).into_iter().chain(named(new)).collect(),
        nodes: pairs.len() as u32,
        moved,
        added: alone(new, &after, &new_kept),
        removed: alone(old, &before, &old_kept),
        parts_kept,
        parts_added,
        parts_removed,
        before: old.totals,
        after: new.totals,
        dearer_ppm: dearer(&new.objective, &sources),
        sources,
    }
}

/// Why a node left one device for another.
fn because(old: &Plan, new: &Plan, was: usize, now: usize, from: &str, to: &str) -> Vec<Because> {
    let mut because = Vec::new();
    let (before, after) = (old.nodes.get(was), new.nodes.get(now));
    let pin = |plan: &Plan, pinned: Option<DeviceIndex>| plan.devices.get(pinned?.index()).cloned();
    let pins = (
        pin(old, before.and_then(|node| node.pinned)),
        pin(new, after.and_then(|node| node.pinned)),
    );
    if pins.0 != pins.1 {
        because.push(Because::Pins {
            before: pins.0,
            after: pins.1,
        });
    }
    if old.objective != new.objective {
        because.push(Because::Objective);
    }
    let place = |plan: &Plan, device: &str| plan.devices.iter().position(|name| name == device);
    if place(new, from).is_none() {
        because.push(Because::DeviceRemoved {
            device: from.to_owned(),
        });
    }
    if place(old, to).is_none() {
        because.push(Because::DeviceAdded {
            device: to.to_owned(),
        });
    }
    let (Some(before), Some(after)) = (before, after) else {
        because.push(Because::Unrecorded);
        return because;
    };
    for device in [from, to] {
        let (Some(was), Some(now)) = (place(old, device), place(new, device)) else {
            continue;
        };
        if let (Some(before), Some(after)) = (before.offers.get(was), after.offers.get(now)) {
            because.extend(change(device, before, after));
        }
    }
    if because.is_empty() {
        because.push(Because::Neighbours);
    }
    because
}

/// What changed in a device's offer for a node.
fn change(device: &str, before: &Offer, after: &Offer) -> Option<Because> {
    let device = device.to_owned();
    match (before, after) {
        (Offer::Cost(before), Offer::Cost(after)) => {
            let same = (before.time, before.energy) == (after.time, after.energy);
            (!same).then_some(Because::Cost {
                device,
                before: *before,
                after: *after,
            })
        }
        (Offer::Cost(_), other) => Some(Because::SupportLost {
            device,
            words: other.words(),
        }),
        (other, Offer::Cost(_)) => Some(Because::SupportGained {
            device,
            words: other.words(),
        }),
        _ => None,
    }
}

impl Offer {
    /// The reason why the device does not run the node, as text; empty for a cost.
    fn words(&self) -> String {
        match self {
            Self::Cost(_) => String::new(),
            Self::Refused { code, words } => format!("{words} (code {code})"),
            Self::Quarantined(words) => format!("not used: {words}"),
            Self::Unpriced => "cost unknown".to_owned(),
        }
    }
}

/// Parts of both plans, of the old one alone, of the new one alone.
fn parts(old: &Plan, new: &Plan) -> (u32, Vec<PartName>, Vec<PartName>) {
    let mut ids: BTreeMap<&str, i64> = BTreeMap::new();
    for part in &old.parts {
        *ids.entry(&part.id).or_default() += 1;
    }
    let (mut kept, mut added) = (0, Vec::new());
    let name = |plan: &Plan, part: &crate::Part| PartName {
        id: part.id.clone(),
        device: plan.devices.get(part.device.index()).cloned().unwrap_or_default(),
        nodes: part.nodes.len() as u32,
    };
    for part in &new.parts {
        match ids.get_mut(part.id.as_str()) {
            Some(left) if *left > 0 => {
                *left -= 1;
                kept += 1;
            }
            _ => added.push(name(new, part)),
        }
    }
    let mut removed = Vec::new();
    for part in &old.parts {
        if let Some(left) = ids.get_mut(part.id.as_str())
            && *left > 0
        {
            *left -= 1;
            removed.push(name(old, part));
        }
    }
    (kept, removed, added)
}

/// Change of the new plan's objective in millionths of the old plan's value.
fn dearer(objective: &Objective, sources: &Sources) -> Option<i64> {
    let value = |figures: &Figures| {
        let needs_energy = objective.needs_energy();
        let energy = figures.energy.or((!needs_energy).then(Default::default))?;
        objective.value(figures.time, energy)
    };
    let compared = sources.compared.as_ref()?;
    let before = i128::from(value(&compared.before)?);
    let after = i128::from(value(&compared.after)?);
    if before == 0 {
        return (after == 0).then_some(0);
    }
    i64::try_from((after - before) * 1_000_000 / before).ok()
}

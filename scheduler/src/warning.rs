//! Doubtful costs in a plan: predictions that measurements contradict, measurements at other
//! settings only, and modelled energies.
//!
//! Invariants:
//! 1. A prediction more than 2× above or below its measurement gives a warning that names suspect
//!    nodes.
//! 2. A measurement at other settings is reported and changes no cost.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use polychip_graph::{Graph, NodeId, fingerprint};
use polychip_host::Device;
use polychip_partitioner::{
    CostTable, DeviceIndex, EnergyProvenance, Milliwatts, Objective, Part, Plan, Provenance, Target, Time,
};
use polychip_profile::extract::{part_graph, structure_of};
use polychip_profile::predict::fusion_groups;
use polychip_profile::{PartKey, Profile, Summary};
use schemars::JsonSchema;
use serde::Serialize;

use crate::policy::Settings;

/// A plan with the evidence behind its costs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Priced<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) plan: &'a Plan,
    pub(crate) devices: &'a [Device],
    /// Node costs as the plugins estimate them, and as the plan uses them.
    pub(crate) stated: &'a CostTable,
    pub(crate) costs: &'a CostTable,
    /// Measurements from the profile, by device and nodes.
    pub(crate) measured: &'a BTreeMap<(DeviceIndex, Vec<u32>), Summary>,
    pub(crate) profile: &'a Profile,
    pub(crate) settings: Settings,
}

/// Largest ratio between prediction and measurement, either way, without a warning.
const FAR: u64 = 2;
/// Largest number of nodes to list.
const NAMED: usize = 3;

/// A doubtful cost in a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Warning {
    /// A part takes more than twice as long as predicted, or less than half.
    Mispredicted {
        /// Number of the plan's part.
        part: usize,
        /// Device, `plugin:index`.
        device: String,
        /// Predicted time in nanoseconds.
        predicted_ns: u64,
        /// Where the prediction comes from.
        provenance: &'static str,
        /// Measured time in nanoseconds.
        measured_ns: u64,
        /// Suspect nodes, the worst first.
        nodes: Vec<BlamedNode>,
    },
    /// The plan depends on energy, but the energy of a device is neither measured nor stated by its
    /// plugin. A power model estimates it.
    EnergyModelled {
        /// Device, `plugin:index`.
        device: String,
        /// Where the power comes from: `family` (the nearest known chip) or `default` (a device of its class).
        provenance: &'static str,
        /// Why no better figure is known.
        reason: String,
        /// Modelled power while it computes, in milliwatts.
        power_mw: u64,
        /// Lower bound of the power, in milliwatts.
        low_mw: u64,
        /// Upper bound of the power, in milliwatts.
        high_mw: u64,
        /// The command that measures it.
        command: String,
    },
    /// Thermal models are given ([`Policy::heat`](crate::Policy::heat)), but the predicted temperature
    /// has no limit, so they change nothing.
    HeatWithoutLimit {
        /// Devices, `plugin:index`.
        devices: Vec<String>,
    },
    /// A part was measured at other settings only, so its cost here is not a measurement.
    MeasuredElsewhere {
        /// Number of the plan's part.
        part: usize,
        /// Device, `plugin:index`.
        device: String,
        /// The differing settings, and the measurement.
        words: String,
    },
}

/// A node suspected of a wrong prediction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BlamedNode {
    /// Name in the model.
    pub name: String,
    /// The op.
    pub op: String,
    /// Predicted time of the node and the nodes fused with it, in nanoseconds.
    pub predicted_ns: u64,
    /// Measured time of these nodes, in nanoseconds. None if they were not measured.
    pub measured_ns: Option<u64>,
    /// Why the node is suspected: `step` (the device timed these nodes in runs of the session, see
    /// [`Session::start_op_trace`](crate::Session::start_op_trace)), `alone` (the profile holds their
    /// time without the rest of the part, see `polychip profile --ops`), or `prediction` (not
    /// measured; its prediction is the least trusted, or the largest of these).
    pub evidence: &'static str,
}

/// Median time of a step of a part, as the device timed it in runs of the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StepTime {
    /// The nodes that it computes, by their index in the graph; empty if it serves the whole part.
    pub(crate) nodes: Vec<u32>,
    /// The plugin's name of the kernel.
    pub(crate) kernel: String,
    pub(crate) time_ns: u64,
}

const BY_STEP: &str = "step";
const ALONE: &str = "alone";
const BY_PREDICTION: &str = "prediction";

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |ns: u64| Time::from_nanoseconds(ns).to_string();
        match self {
            Warning::Mispredicted {
                part,
                device,
                predicted_ns,
                provenance,
                measured_ns,
                nodes,
            } => {
                write!(
                    f,
                    "warning: part {part} on {device}: {} {provenance}, {} measured",
                    time(*predicted_ns),
                    time(*measured_ns)
                )?;
                for (at, node) in nodes.iter().enumerate() {
                    f.write_str(if at == 0 { "; suspects: " } else { ", " })?;
                    write!(
                        f,
                        "{} ({}, {} predicted",
                        node.name,
                        node.op,
                        time(node.predicted_ns)
                    )?;
                    match node.measured_ns {
                        Some(ns) if node.evidence == BY_STEP => {
                            write!(f, ", {} measured as a step of the runs)", time(ns))?;
                        }
                        Some(ns) => write!(f, ", {} measured alone)", time(ns))?,
                        None => f.write_str(", not measured by itself)")?,
                    }
                }
                Ok(())
            }
            Warning::EnergyModelled {
                device,
                provenance,
                reason,
                power_mw,
                low_mw,
                high_mw,
                command,
            } => {
                let [power, low, high] = [power_mw, low_mw, high_mw].map(|mw| Milliwatts::new(*mw));
                write!(
                    f,
                    "warning: energy of {device}: {reason}: {power} ({provenance}, {low} to {high}); \
                     to measure it (needs a power sensor): {command}"
                )
            }
            Warning::HeatWithoutLimit { devices } => write!(
                f,
                "warning: the thermal model of {} changes nothing without max_predicted_temperature; \
                 max_temperature limits sensor readings",
                devices.join(", ")
            ),
            Warning::MeasuredElsewhere { part, device, words } => {
                write!(f, "warning: part {part} on {device}: {words}")
            }
        }
    }
}

fn is_far(predicted_ns: u64, measured_ns: u64) -> bool {
    let (least, most) = (predicted_ns.min(measured_ns), predicted_ns.max(measured_ns));
    most > least.saturating_mul(FAR)
}

/// Devices whose energy counts for a plan, used or not, and is modelled.
pub(crate) fn of_energy(model: &Path, objective: &Objective, targets: &[Target]) -> Vec<Warning> {
    if !objective.needs_energy() && objective.max_predicted_temperature.is_none() {
        return Vec::new();
    }
    let could_run = |target: &&Target| {
        let counts = objective.needs_energy() || target.heat.is_some();
        counts && target.quarantined.is_none() && target.refusals.iter().any(Option::is_none)
    };
    let modelled = targets.iter().filter(could_run).filter_map(|target| {
        let power = target.power?;
        let what = match power.provenance {
            EnergyProvenance::Measured | EnergyProvenance::Fitted | EnergyProvenance::Vendor => return None,
            EnergyProvenance::Family => "modelled on the nearest known chip",
            EnergyProvenance::Default => "modelled on its device class",
        };
        Some(Warning::EnergyModelled {
            device: target.name.clone(),
            provenance: power.provenance.word(),
            reason: format!("not measured and not stated by its plugin, {what}"),
            power_mw: power.active.milliwatts(),
            low_mw: power.low.milliwatts(),
            high_mw: power.high.milliwatts(),
            command: format!(
                "polychip energy {} --devices {} --profile FILE",
                model.display(),
                target.name
            ),
        })
    });
    modelled.collect()
}

/// A warning if devices have thermal models that no limit uses.
pub(crate) fn of_heat(objective: &Objective, targets: &[Target]) -> Option<Warning> {
    if objective.max_predicted_temperature.is_some() {
        return None;
    }
    let warm = targets.iter().filter(|target| target.heat.is_some());
    let devices: Vec<String> = warm.map(|target| target.name.clone()).collect();
    (!devices.is_empty()).then_some(Warning::HeatWithoutLimit { devices })
}

/// Warnings for a new plan: estimates of its parts that the profile contradicts, and measurements
/// at other settings.
pub(crate) fn of_plan(priced: Priced<'_>) -> Vec<Warning> {
    let Priced {
        profile, settings, ..
    } = priced;
    if profile.or_nothing(profile.has_no_parts().map(Some)) != Some(false) {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    let groups = Groups::default();
    for (at, part) in priced.plan.parts.iter().enumerate() {
        let device = &priced.devices[part.device.index()];
        match priced.measured.get(&(part.device, part.nodes.clone())) {
            Some(known) => {
                let stated = priced.stated;
                let Some((predicted, provenance)) = sum(stated, part.device, &part.nodes) else {
                    continue;
                };
                warnings.extend(mispredicted(
                    priced,
                    (at, part),
                    (predicted, provenance.word(), stated),
                    known.p50.nanoseconds(),
                    (&groups, &[][..]),
                ));
            }
            None => {
                let structure = fingerprint::structure(&part_graph(priced.graph, part));
                let key = PartKey {
                    device: &device.identity(),
                    fingerprint: &structure,
                    operating_point: &settings.operating_point(device.info().kind),
                };
                let found = profile.or_nothing(profile.elsewhere(key));
                warnings.extend(found.first().map(|nearest| Warning::MeasuredElsewhere {
                    part: at,
                    device: device.name().to_owned(),
                    words: nearest.to_string(),
                }));
            }
        }
    }
    warnings
}

/// Parts of a plan whose runs contradict its predictions. `steps` holds the measured steps of each part,
/// if any were measured.
pub(crate) fn of_runs(
    priced: Priced<'_>,
    measured_ns: impl Fn(usize) -> Option<u64>,
    steps: &[Vec<StepTime>],
) -> Vec<Warning> {
    let parts = priced.plan.parts.iter().enumerate();
    let groups = Groups::default();
    parts
        .filter_map(|(at, part)| {
            let cost = &part.cost;
            mispredicted(
                priced,
                (at, part),
                (cost.time.nanoseconds(), cost.provenance.word(), priced.costs),
                measured_ns(at)?,
                (&groups, steps.get(at).map_or(&[][..], Vec::as_slice)),
            )
        })
        .collect()
}

/// The warning for a part if its prediction is far from its measurement.
fn mispredicted(
    priced: Priced<'_>,
    (at, part): (usize, &Part),
    (predicted_ns, provenance, costs): (u64, &'static str, &CostTable),
    measured_ns: u64,
    (groups, steps): (&Groups, &[StepTime]),
) -> Option<Warning> {
    let device = priced.devices.get(part.device.index())?;
    let nodes = || {
        if steps.is_empty() {
            return blamed(priced, part, device, costs, groups);
        }
        let predicted = |nodes: &[u32]| sum(costs, part.device, nodes).map(|(ns, _)| ns);
        let name = |node: u32| {
            let node = priced.graph.node(NodeId::new(node as usize));
            (node.name.clone(), node.label())
        };
        blamed_by_steps(steps, predicted, name)
    };
    is_far(predicted_ns, measured_ns).then(|| Warning::Mispredicted {
        part: at,
        device: device.name().to_owned(),
        predicted_ns,
        provenance,
        measured_ns,
        nodes: nodes(),
    })
}

/// The suspect nodes by the measured steps of their part: those whose steps are far from the prediction, or all if
/// none is, by their share of the error. Steps that share a node count as one.
fn blamed_by_steps(
    steps: &[StepTime],
    predicted_ns: impl Fn(&[u32]) -> Option<u64>,
    name: impl Fn(u32) -> (String, String),
) -> Vec<BlamedNode> {
    let mut groups: Vec<StepTime> = Vec::new();
    for step in steps {
        let mut whole = step.clone();
        let shares = |group: &StepTime| group.nodes.iter().any(|node| step.nodes.contains(node));
        groups.retain(|group| {
            let is_same = shares(group);
            if is_same {
                whole.time_ns = whole.time_ns.saturating_add(group.time_ns);
                whole.nodes.extend(&group.nodes);
            }
            !is_same
        });
        whole.nodes.sort_unstable();
        whole.nodes.dedup();
        groups.push(whole);
    }
    let suspect = |group: &StepTime| {
        let (name, op) = match group.nodes.first() {
            Some(first) => name(*first),
            None => (group.kernel.clone(), "for the whole part".to_owned()),
        };
        Some(BlamedNode {
            name,
            op,
            predicted_ns: predicted_ns(&group.nodes)?,
            measured_ns: Some(group.time_ns),
            evidence: BY_STEP,
        })
    };
    let mut suspects: Vec<BlamedNode> = groups.iter().filter_map(suspect).collect();
    if suspects.iter().any(is_wrong) {
        suspects.retain(is_wrong);
    }
    let error_ns = |node: &BlamedNode| node.measured_ns.unwrap_or(0).abs_diff(node.predicted_ns);
    suspects.sort_by_key(|node| std::cmp::Reverse(error_ns(node)));
    suspects.truncate(NAMED);
    suspects
}

/// Whether a measurement of the node is far from its prediction.
fn is_wrong(node: &BlamedNode) -> bool {
    node.measured_ns
        .is_some_and(|measured| is_far(node.predicted_ns, measured))
}

/// The fusion groups of a graph by their first nodes, computed for the first suspect part.
#[derive(Default)]
struct Groups(OnceCell<BTreeMap<u32, Vec<u32>>>);

impl Groups {
    /// The groups that lie entirely in a part.
    fn within<'a>(&'a self, graph: &Graph, part: &'a Part) -> impl Iterator<Item = &'a [u32]> {
        let first = |nodes: Vec<u32>| Some((*nodes.first()?, nodes));
        let all = || fusion_groups(graph).into_iter().filter_map(first).collect();
        let groups = self.0.get_or_init(all);
        let begun = part.nodes.iter().filter_map(|node| groups.get(node));
        begun
            .map(Vec::as_slice)
            .filter(|nodes| nodes.iter().all(|node| part.nodes.binary_search(node).is_ok()))
    }
}

/// Time and weakest provenance of some nodes.
fn sum(costs: &CostTable, device: DeviceIndex, nodes: &[u32]) -> Option<(u64, Provenance)> {
    let mut all = nodes
        .iter()
        .map(|node| costs.node(*node as usize, device.index()));
    let (picoseconds, provenance) = all.try_fold((0u64, Provenance::Measured), |(sum, weakest), cost| {
        let cost = cost?;
        Some((
            sum.saturating_add(cost.time.picoseconds()),
            weakest.max(cost.provenance),
        ))
    })?;
    Some((picoseconds / 1_000, provenance))
}

/// The suspect nodes: the groups whose own measurement is far from the prediction; if there are
/// none, the groups with the weakest figures, largest first.
fn blamed(
    priced: Priced<'_>,
    part: &Part,
    device: &Device,
    costs: &CostTable,
    all: &Groups,
) -> Vec<BlamedNode> {
    let Priced {
        graph,
        profile,
        settings,
        ..
    } = priced;
    let identity = device.identity();
    let point = settings.operating_point(device.info().kind);
    let mut known: BTreeMap<[u8; 32], Option<u64>> = BTreeMap::new();
    let mut groups: Vec<(u64, Provenance, BlamedNode)> = Vec::new();
    for nodes in all.within(graph, part) {
        let Some((predicted_ns, provenance)) = sum(costs, part.device, nodes) else {
            continue;
        };
        let structure = structure_of(graph, nodes);
        let measured_ns = *known.entry(structure).or_insert_with(|| {
            let key = PartKey {
                device: &identity,
                fingerprint: &structure,
                operating_point: &point,
            };
            profile
                .or_nothing(profile.part(key))
                .map(|summary| summary.p50.nanoseconds())
        });
        let node = graph.node(NodeId::new(nodes[0] as usize));
        let error_ns = measured_ns.map_or(0, |measured| measured.abs_diff(predicted_ns));
        let blamed = BlamedNode {
            name: node.name.clone(),
            op: node.label(),
            predicted_ns,
            measured_ns,
            evidence: if measured_ns.is_some() {
                ALONE
            } else {
                BY_PREDICTION
            },
        };
        groups.push((error_ns, provenance, blamed));
    }
    if groups.iter().any(|(_, _, node)| is_wrong(node)) {
        groups.retain(|(_, _, node)| is_wrong(node));
        groups.sort_by_key(|(error_ns, _, _)| std::cmp::Reverse(*error_ns));
    } else {
        groups.sort_by_key(|(_, provenance, node)| std::cmp::Reverse((*provenance, node.predicted_ns)));
    }
    groups.into_iter().take(NAMED).map(|(_, _, node)| node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factor_of_two_gives_no_warning() {
        assert!(!is_far(100, 200) && !is_far(200, 100) && !is_far(0, 0));
        assert!(is_far(100, 201) && is_far(201, 100) && is_far(0, 1));
    }

    #[test]
    fn measured_steps_name_the_suspects_and_not_the_largest_prediction() {
        let step = |nodes: &[u32], time_ns| StepTime {
            nodes: nodes.to_vec(),
            kernel: "kernel".to_owned(),
            time_ns,
        };
        // node 0 has the largest prediction, and is right
        let predictions: [u64; 5] = [1000, 10, 20, 30, 40];
        let predicted = |nodes: &[u32]| Some(nodes.iter().map(|node| predictions[*node as usize]).sum());
        let name = |node: u32| (format!("node{node}"), "Op".to_owned());
        let blamed = |steps: &[StepTime]| {
            let found = blamed_by_steps(steps, predicted, name);
            assert!(found.iter().all(|node| node.evidence == BY_STEP));
            let figures = found
                .into_iter()
                .map(|node| (node.name, node.predicted_ns, node.measured_ns));
            figures.collect::<Vec<_>>()
        };
        let steps = [
            step(&[0], 1100),
            step(&[1], 500),
            step(&[2, 3], 55),
            step(&[], 300),
        ];
        assert_eq!(
            blamed(&steps),
            [
                ("node1".to_owned(), 10, Some(500)),
                ("kernel".to_owned(), 0, Some(300))
            ]
        );
        // two steps of the same nodes are one suspect, and none is far from its prediction
        let steps = [step(&[3], 30), step(&[0], 1100), step(&[3, 4], 60)];
        assert_eq!(
            blamed(&steps),
            [
                ("node0".to_owned(), 1000, Some(1100)),
                ("node3".to_owned(), 70, Some(90))
            ]
        );
    }
}

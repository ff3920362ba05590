//! Formats a plan for display: a table with units, and the same as JSON values.
//!
//! Invariants: every figure has a unit and its provenance; figures of emulated devices are
//! labelled. Deliberately not here: colours and terminals (the CLI has them).

use crate::compare::Comparison;
use crate::cost::{Cost, Provenance};
use crate::index::{DeviceIndex, PartIndex};
use crate::limit_report::{Limit, LimitReport};
use crate::link::LinkMode;
use crate::plan::{Certificate, Plan, Totals};
use crate::request::Request;
use crate::schedule::Schedule;
use crate::unit::Time;
use polychip_graph::{Graph, NodeId, TensorId};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

/// A plan with names, for display.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Report {
    /// Name of the model.
    pub model: String,
    /// The objective as text.
    pub objective: String,
    /// Product names of devices, if known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceLine>,
    /// Parts in order.
    pub parts: Vec<PartLine>,
    /// Tensors between parts.
    pub crossings: Vec<CrossingLine>,
    /// Memory by device.
    pub memory: Vec<MemoryLine>,
    /// Predicted totals.
    pub totals: Totals,
    /// By how much a run exceeds its deadline; JSON holds picoseconds.
    #[serde(rename = "missed_ps", skip_serializing_if = "Option::is_none")]
    pub missed: Option<Time>,
    /// The plan's value at each limit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitLine>,
    /// The extra cost of keeping within the limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// Devices excluded from a plan with limits on energies, because their energy is unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown_energy: Vec<String>,
    /// Start times of parts, with concurrent devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// All replicas of the model, if there are several; parts, crossings and totals above are those
    /// of the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<ReplicaLine>,
    /// Optimality of the placement.
    pub certificate: Certificate,
    /// The cost of simple placement rules.
    pub comparisons: Vec<ComparisonLine>,
}

/// The product name of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DeviceLine {
    /// Device.
    pub device: String,
    /// Its product name.
    pub name: String,
}

/// A replica of the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReplicaLine {
    /// Its devices.
    pub devices: Vec<String>,
    /// Number of its parts.
    pub parts: u32,
    /// Predicted time of one of its runs; JSON holds picoseconds.
    #[serde(rename = "time_ps")]
    pub time: Time,
    /// Predicted time between its runs; JSON holds picoseconds.
    #[serde(rename = "interval_ps")]
    pub interval: Time,
    /// Bytes of constants and boundary tensors that it holds.
    pub bytes: u64,
    /// Weakest provenance of its figures.
    pub provenance: Provenance,
    /// Whether at least one figure comes from an emulated device.
    pub emulated: bool,
}

impl ReplicaLine {
    /// The replicas of a plan; empty if there is only one.
    #[must_use]
    pub fn of(plan: &Plan) -> Vec<Self> {
        if plan.replicas.is_empty() {
            return Vec::new();
        }
        let line = |copy: &Plan| Self {
            devices: copy
                .used_devices()
                .into_iter()
                .map(|device| copy.device_label(device))
                .collect(),
            parts: copy.parts.len() as u32,
            time: copy.time(),
            interval: copy.own_interval(),
            bytes: copy
                .memory_bytes
                .iter()
                .fold(0u64, |sum, &bytes| sum.saturating_add(bytes)),
            provenance: copy.totals.provenance,
            emulated: copy.totals.emulated,
        };
        plan.copies().map(line).collect()
    }
}

/// The cost of a simple placement rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ComparisonLine {
    /// The rule and its value.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// The value relative to the plan's, as text.
    pub words: String,
}

/// One limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LimitLine {
    /// The limit and the plan's value.
    #[serde(flatten)]
    pub held: LimitReport,
    /// Whether the best plan without limits exceeds it.
    pub binds: bool,
    /// The same as text.
    pub words: String,
}

/// The cost of holding the limits, relative to the best plan found without them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Price {
    /// Difference of the objective, in its own units.
    pub by: i64,
    /// The same as text, with sign, unit and share.
    pub words: String,
}

/// One part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PartLine {
    /// Index in the plan.
    pub part: PartIndex,
    /// Stable id.
    pub id: String,
    /// Device.
    pub device: String,
    /// Number of nodes.
    pub nodes: u32,
    /// Ops with their counts, most frequent first.
    pub ops: Vec<(String, u32)>,
    /// Predicted cost of its nodes.
    pub cost: Cost,
    /// Launch time; JSON holds picoseconds.
    #[serde(rename = "launch_ps")]
    pub launch: Time,
}

/// A tensor that crosses between parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CrossingLine {
    /// Name of the tensor.
    pub tensor: String,
    /// The device that writes it.
    pub from: String,
    /// The device that reads it.
    pub to: String,
    /// Size in bytes, if known.
    pub bytes: Option<u64>,
    /// How it travels.
    pub mode: LinkMode,
    /// Time of the transfer; JSON holds picoseconds.
    #[serde(rename = "time_ps")]
    pub time: Time,
}

/// The memory that a plan uses on one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MemoryLine {
    /// Device.
    pub device: String,
    /// Bytes of constants and boundary tensors.
    pub bytes: u64,
}

impl Report {
    /// The report of a plan that [`check`](crate::check()) accepts for this graph.
    #[must_use]
    pub fn new(graph: &Graph, plan: &Plan, comparisons: Vec<Comparison>) -> Self {
        let device = |index: DeviceIndex| plan.devices.get(index.index()).cloned().unwrap_or_default();
        let parts = plan.parts.iter().enumerate().map(|(index, part)| {
            let mut counts: BTreeMap<String, u32> = BTreeMap::new();
            let known = part
                .nodes
                .iter()
                .filter_map(|&node| graph.find_node(NodeId::new(node as usize)));
            for node in known {
                *counts.entry(node.label()).or_default() += 1;
            }
            let mut ops: Vec<(String, u32)> = counts.into_iter().collect();
            ops.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            PartLine {
                part: PartIndex::new(index),
                id: part.id.clone(),
                device: device(part.device),
                nodes: part.nodes.len() as u32,
                ops,
                cost: part.cost,
                launch: part.launch,
            }
        });
        let crossings = plan.crossings.iter().map(|crossing| CrossingLine {
            tensor: if (crossing.tensor as usize) < graph.tensor_count() {
                graph.tensor(TensorId::new(crossing.tensor as usize)).name.clone()
            } else {
                format!("number {}", crossing.tensor)
            },
            from: device(crossing.from_device),
            to: device(crossing.to_device),
            bytes: crossing.bytes,
            mode: crossing.mode,
            time: crossing.time,
        });
        let memory = plan.devices.iter().zip(&plan.memory_bytes);
        Self {
            model: graph.name.clone(),
            objective: plan.objective.description(),
            devices: Vec::new(),
            parts: parts.collect(),
            crossings: crossings.collect(),
            memory: memory
                .map(|(device, &bytes)| MemoryLine {
                    device: device.clone(),
                    bytes,
                })
                .collect(),
            totals: plan.totals,
            missed: plan.missed,
            limits: plan
                .limits
                .iter()
                .map(|&held| LimitLine {
                    words: held.words(&plan.devices),
                    binds: held.binds(),
                    held,
                })
                .collect(),
            price: price(plan),
            unknown_energy: Vec::new(),
            schedule: plan.schedule.clone(),
            replicas: ReplicaLine::of(plan),
            certificate: plan.certificate,
            comparisons: comparisons
                .into_iter()
                .map(|comparison| ComparisonLine {
                    words: comparison.words(plan.certificate.objective, &plan.objective),
                    comparison,
                })
                .collect(),
        }
    }

    /// Adds product names of devices, given in the plan's order.
    #[must_use]
    pub fn with_devices(mut self, plan: &Plan, names: &[String]) -> Self {
        let named = plan.devices.iter().zip(names);
        self.devices = named
            .filter(|(device, name)| !name.is_empty() && device != name)
            .map(|(device, name)| DeviceLine {
                device: device.clone(),
                name: name.clone(),
            })
            .collect();
        self
    }

    /// Adds the devices that the plan excludes because their energy is unknown.
    #[must_use]
    pub fn with_unknown(mut self, request: Request<'_>, plan: &Plan) -> Self {
        self.unknown_energy = without_energy(request, plan);
        self
    }
}

/// What it costs to hold a plan's limits; none where they change nothing, or are not all held.
fn price(plan: &Plan) -> Option<Price> {
    let free = plan.unlimited?;
    let by = i64::try_from(i128::from(plan.certificate.objective) - i128::from(free)).ok()?;
    // a limit that is exceeded or does not bind has no price
    if plan.limits.iter().any(LimitReport::is_exceeded) || !plan.limits.iter().any(LimitReport::binds) {
        return None;
    }
    let sign = if by < 0 { '-' } else { '+' };
    let mut words = format!("{sign}{}", plan.objective.words(by.unsigned_abs()));
    if let Some(permille) = (u128::from(by.unsigned_abs()) * 1000).checked_div(u128::from(free)) {
        words += &format!(" ({sign}{}.{} %)", permille / 10, permille % 10);
    }
    Some(Price { by, words })
}

/// Devices that the plan leaves out because they have no energy figures; empty if the objective needs no energy.
fn without_energy(request: Request<'_>, plan: &Plan) -> Vec<String> {
    let Request { targets, costs, .. } = request;
    let objective = &plan.objective;
    let devices = targets.iter().enumerate();
    let unknown = devices.filter(|(device, target)| {
        let stated = |node| {
            costs
                .node(node, *device)
                .is_some_and(|cost| cost.energy.is_some())
        };
        let has_cost = (0..costs.nodes()).any(|node| costs.node(node, *device).is_some());
        objective.needs_energy_of(target)
            && target.power.is_none()
            && has_cost
            && !(0..costs.nodes()).any(stated)
    });
    unknown.map(|(_, target)| target.name.clone()).collect()
}

/// Provenance as text, with the label of emulated devices.
fn label(provenance: Provenance, emulated: bool) -> String {
    let emulated = if emulated { ", emulated" } else { "" };
    format!("{}{emulated}", provenance.word())
}

/// Formats bytes in the largest unit with a value of at least one: `512 B`, `1.5 KiB`, `20.0 MiB`.
#[must_use]
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{}.{} KiB", bytes / 1024, bytes % 1024 * 10 / 1024),
        _ => format!("{}.{} MiB", bytes / 1_048_576, bytes % 1_048_576 * 10 / 1_048_576),
    }
}

/// Formats a count with its noun: `1 part`, `2 parts`.
#[must_use]
pub fn count(number: usize, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        _ => format!("{number} {thing}s"),
    }
}

/// Rows with their columns aligned; the columns named in `right` to the right.
fn table(out: &mut String, rows: &[Vec<String>], right: &[usize]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let gap = if column == 0 { "  " } else { "   " };
            let fill = " ".repeat(widths[column] - cell.chars().count());
            if right.contains(&column) {
                line.extend([gap, &fill, cell])
            } else {
                line.extend([gap, cell, &fill])
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        let name = if self.model.is_empty() {
            "model"
        } else {
            &self.model
        };
        let parts = count(self.parts.len(), "part");
        writeln!(out, "{name}: {parts}, {}", self.objective)?;
        let mut rows = vec![
            [
                "part",
                "device",
                "nodes",
                "time",
                "launch",
                "energy",
                "provenance",
                "ops",
            ]
            .map(String::from)
            .to_vec(),
        ];
        for part in &self.parts {
            let ops: Vec<String> = part
                .ops
                .iter()
                .take(4)
                .map(|(op, count)| format!("{count} {op}"))
                .collect();
            let more = if part.ops.len() > 4 { ", …" } else { "" };
            rows.push(vec![
                part.part.to_string(),
                part.device.clone(),
                part.nodes.to_string(),
                part.cost.time.to_string(),
                part.launch.to_string(),
                part.cost
                    .energy
                    .map_or_else(|| "unknown".to_owned(), |energy| energy.to_string()),
                label(part.cost.provenance, part.cost.emulated),
                ops.join(", ") + more,
            ]);
        }
        table(&mut out, &rows, &[0, 2, 3, 4, 5]);
        if !self.crossings.is_empty() {
            writeln!(out, "crossings")?;
            let mut rows = vec![
                ["tensor", "from", "to", "size", "mode", "time"]
                    .map(String::from)
                    .to_vec(),
            ];
            for crossing in &self.crossings {
                rows.push(vec![
                    crossing.tensor.clone(),
                    crossing.from.clone(),
                    crossing.to.clone(),
                    crossing.bytes.map_or_else(|| "unknown".to_owned(), size),
                    crossing.mode.word().to_owned(),
                    crossing.time.to_string(),
                ]);
            }
            table(&mut out, &rows, &[3, 5]);
        }
        let totals = &self.totals;
        if let Some(schedule) = &self.schedule {
            writeln!(
                out,
                "predicted with concurrent devices: {} per run, a run every {}",
                schedule.makespan, schedule.period
            )?;
        }
        if !self.replicas.is_empty() {
            writeln!(
                out,
                "replicas of the model, each run uses one; the first is the plan above"
            )?;
            let mut rows = vec![
                [
                    "copy",
                    "devices",
                    "parts",
                    "time",
                    "next after",
                    "memory",
                    "provenance",
                ]
                .map(String::from)
                .to_vec(),
            ];
            for (index, copy) in self.replicas.iter().enumerate() {
                rows.push(vec![
                    index.to_string(),
                    copy.devices.join(", "),
                    copy.parts.to_string(),
                    copy.time.to_string(),
                    copy.interval.to_string(),
                    size(copy.bytes),
                    label(copy.provenance, copy.emulated),
                ]);
            }
            table(&mut out, &rows, &[0, 2, 3, 4, 5]);
            let together = Time::from_picoseconds(self.certificate.objective);
            writeln!(out, "all replicas together: a run every {together}")?;
        }
        // what the parts add up to is the time of a run only where one follows the other
        let of_what = match self.schedule {
            Some(_) => "parts run serially",
            None => "predicted",
        };
        writeln!(
            out,
            "{of_what}: {} ({} compute, {} launches, {} transfers), {}, {}",
            totals.time,
            totals.compute,
            totals.launch,
            totals.transfer,
            totals.energy.map_or_else(
                || "energy unknown".to_owned(),
                |energy| match totals.energy_range {
                    Some(range) => format!("{energy} ({})", range.words()),
                    None => energy.to_string(),
                }
            ),
            label(totals.provenance, totals.emulated),
        )?;
        let memory: Vec<String> = self
            .memory
            .iter()
            .map(|line| format!("{} {}", line.device, size(line.bytes)))
            .collect();
        writeln!(out, "memory: {}", memory.join(", "))?;
        if !self.devices.is_empty() {
            let called = |line: &DeviceLine| format!("{} is {}", line.device, line.name);
            let devices: Vec<String> = self.devices.iter().map(called).collect();
            writeln!(out, "devices: {}", devices.join("; "))?;
        }
        if let Some(missed) = self.missed {
            writeln!(out, "deadline: missed by {missed}, no plan found meets it")?;
        }
        for line in &self.limits {
            // a missed deadline is said above
            if line.held.limit != Limit::Deadline || self.missed.is_none() {
                writeln!(out, "{}", line.words)?;
            }
        }
        if let Some(price) = &self.price {
            writeln!(
                out,
                "holding the limits: {} against the best plan without them",
                price.words
            )?;
        }
        if !self.unknown_energy.is_empty() {
            let devices = self.unknown_energy.join(", ");
            writeln!(out, "not used: {devices} (energy unknown)")?;
        }
        writeln!(
            out,
            "certificate: {}",
            self.certificate.words(self.schedule.is_some())
        )?;
        for line in &self.comparisons {
            writeln!(out, "{}: {}", line.comparison.rule, line.words)?;
        }
        f.write_str(&out)
    }
}

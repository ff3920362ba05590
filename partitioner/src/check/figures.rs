//! Crossings, costs, memory, totals and the certificate, each recomputed from the tables.
//!
//! Invariants: sums are taken in 128 bits, so that no wrong figure passes by overflow.

use super::evidence::Evidence;
use super::violation::{Violation, ViolationKind};
use crate::cost::{Cost, Provenance};
use crate::index::{DeviceIndex, PartIndex};
use crate::link::LinkMode;
use crate::power::{EnergyProvenance, EnergyRange};
use crate::unit::{Energy, Time};
use polychip_graph::{Container, NodeId, TensorId};
use std::collections::{BTreeMap, BTreeSet};

fn wrong(kind: ViolationKind, words: String) -> Violation {
    Violation::new(kind, words)
}

fn device_of(e: &Evidence<'_>, part_of: &[usize], node: NodeId) -> usize {
    e.plan.parts[part_of[node.index()]].device.index()
}

/// Checks that the writer of a state's new value is on the device that reads the old one.
pub(super) fn states(e: &Evidence<'_>, part_of: &[usize]) -> Result<(), Violation> {
    for state in &e.graph.states {
        let Some(writer) = e.graph.producer(state.output) else {
            continue;
        };
        let device = device_of(e, part_of, writer);
        for &reader in e.graph.consumers(state.input) {
            if device_of(e, part_of, reader) != device {
                let words = format!(
                    "state {}: node {} reads it on {}, node {} writes it on {}",
                    e.graph.tensor(state.input).name,
                    reader.index(),
                    e.targets[device_of(e, part_of, reader)].name,
                    writer.index(),
                    e.targets[device].name
                );
                return Err(wrong(ViolationKind::State, words));
            }
        }
    }
    Ok(())
}

/// Bytes of a tensor, none where they depend on the run.
fn size(e: &Evidence<'_>, tensor: TensorId) -> Option<u64> {
    let tensor = e.graph.tensor(tensor);
    if tensor.is_packed() {
        return Some(tensor.memory_bytes()? as u64);
    }
    if tensor.container != Container::Tensor || !tensor.typed {
        return None;
    }
    if let Some(layout) = tensor
        .encoding
        .as_ref()
        .and_then(|encoding| encoding.block_layout())
    {
        return Some(layout.byte_len(&tensor.ty.sizes()?)? as u64);
    }
    let mut elements = 1usize;
    for size in tensor.ty.sizes()? {
        elements = elements.checked_mul(size)?;
    }
    Some(tensor.ty.dtype.byte_len(elements)? as u64)
}

/// Every tensor read outside its part has one crossing per reading device, and there are no others.
pub(super) fn crossings(e: &Evidence<'_>, part_of: &[usize]) -> Result<(), Violation> {
    let state = |id: TensorId| {
        e.graph
            .states
            .iter()
            .any(|state| state.input == id || state.output == id)
    };
    // crossings that readers need: tensor and device → reading parts
    let mut needed: BTreeMap<(u32, DeviceIndex), BTreeSet<PartIndex>> = BTreeMap::new();
    for (id, node) in e.graph.nodes() {
        let part = part_of[id.index()];
        for tensor in node.reads() {
            let foreign = match e.graph.producer(tensor) {
                Some(writer) => part_of[writer.index()] != part,
                None => {
                    let fed = e.graph.is_input(tensor) && !e.graph.tensor(tensor).is_constant();
                    fed && e.plan.input_home.is_some() && !state(tensor)
                }
            };
            if foreign {
                let key = (tensor.index() as u32, e.plan.parts[part].device);
                needed.entry(key).or_default().insert(PartIndex::new(part));
            }
        }
    }
    for &output in &e.graph.outputs {
        if let (Some(home), Some(writer), false) =
            (e.plan.output_home, e.graph.producer(output), state(output))
            && device_of(e, part_of, writer) != home.index()
        {
            needed.entry((output.index() as u32, home)).or_default();
        }
    }
    // a graph input that is also an output goes from home to home
    if let (Some(from), Some(home)) = (e.plan.input_home, e.plan.output_home)
        && from != home
    {
        for &output in e.graph.outputs.iter().filter(|&&output| e.graph.is_input(output)) {
            if !e.graph.tensor(output).is_constant() && !state(output) {
                needed.entry((output.index() as u32, home)).or_default();
            }
        }
    }
    let mut last = None;
    for crossing in &e.plan.crossings {
        let key = (crossing.tensor, crossing.to_device);
        let name = |tensor: u32| {
            if (tensor as usize) < e.graph.tensor_count() {
                e.graph.tensor(TensorId::new(tensor as usize)).name.clone()
            } else {
                format!("number {tensor}")
            }
        };
        let place = format!(
            "crossing of tensor {} to device {}",
            name(crossing.tensor),
            crossing.to_device
        );
        let bad = |words: String| Err(wrong(ViolationKind::Crossing, format!("{place}: {words}")));
        if last.is_some_and(|last| last >= key) {
            return bad("is out of order or listed twice".to_owned());
        }
        last = Some(key);
        let Some(parts) = needed.remove(&key) else {
            return bad("no part or output needs it".to_owned());
        };
        if !crossing.to_parts.iter().eq(parts.iter()) {
            return bad(format!(
                "goes to parts {:?}, is read by {parts:?}",
                crossing.to_parts
            ));
        }
        let id = TensorId::new(crossing.tensor as usize);
        let writer = e
            .graph
            .producer(id)
            .map(|node| PartIndex::new(part_of[node.index()]));
        let from = writer.map_or(e.plan.input_home, |part| Some(e.plan.parts[part.index()].device));
        if crossing.from_part != writer || Some(crossing.from_device) != from {
            return bad(format!(
                "comes from part {:?} on device {}, is written by part {writer:?} on device {from:?}",
                crossing.from_part, crossing.from_device
            ));
        }
        let bytes = size(e, id);
        if crossing.bytes != bytes {
            return bad(format!("states {:?} bytes, has {bytes:?}", crossing.bytes));
        }
        let stated = (
            crossing.mode,
            crossing.time,
            crossing.energy,
            crossing.provenance,
            crossing.energy_provenance,
        );
        let real = if crossing.from_device == crossing.to_device {
            (
                LinkMode::Native,
                Time::ZERO,
                Energy::ZERO,
                Provenance::Measured,
                Provenance::Measured,
            )
        } else {
            let Some(link) = e
                .links
                .get(crossing.from_device.index(), crossing.to_device.index())
            else {
                return bad(format!("no link from device {}", crossing.from_device));
            };
            let Some(bytes) = bytes else {
                return bad("its size is not known before the run, so it must stay on its device".to_owned());
            };
            let (Some(time), Some(energy)) = (link.time(bytes), link.energy(bytes)) else {
                return bad(format!("{bytes} bytes cannot be moved over this link"));
            };
            (link.mode, time, energy, link.provenance, link.energy_provenance)
        };
        if stated != real {
            return bad(format!(
                "states {} in {} ({}) with {} ({}), the link says {} in {} ({}) with {} ({})",
                stated.0.word(),
                stated.1,
                stated.3.word(),
                stated.2,
                stated.4.word(),
                real.0.word(),
                real.1,
                real.3.word(),
                real.2,
                real.4.word()
            ));
        }
    }
    match needed.first_key_value() {
        None => Ok(()),
        Some(((tensor, device), parts)) => {
            let name = &e.graph.tensor(TensorId::new(*tensor as usize)).name;
            let device = &e.targets[device.index()].name;
            Err(wrong(
                ViolationKind::Crossing,
                format!("tensor {name} has no crossing to {device}, where parts {parts:?} read it"),
            ))
        }
    }
}

/// The stated cost with what the target adds to it.
fn with_target(e: &Evidence<'_>, device: usize, mut cost: Cost) -> Option<Cost> {
    let target = &e.targets[device];
    cost.emulated |= target.emulated;
    let objective = &e.plan.objective;
    let wanted = objective.energy_weight != 0
        || objective.energy_budget.is_some()
        || objective.max_predicted_power.is_some()
        || (objective.max_predicted_temperature.is_some() && target.heat.is_some());
    if cost.energy.is_none() && wanted {
        let power = target.power?;
        cost.energy = Some(power.active.over(cost.time)?);
        cost.energy_range = Some(EnergyRange {
            low: power.low.over(cost.time)?,
            expected: power.active.over(cost.time)?,
            high: power.high.over(cost.time)?,
            provenance: power.provenance,
        });
        cost.provenance = cost.provenance.max(Provenance::Estimated);
    }
    let bounded = objective.energy_budget.is_some()
        || objective.max_predicted_power.is_some()
        || objective.max_predicted_temperature.is_some();
    // what is bounded is the most that it may be
    if let (true, true, Some(range)) = (wanted, bounded, cost.energy_range) {
        cost.energy = Some(range.high);
    }
    Some(cost)
}

/// The cost of a set of nodes on a device by the tables.
fn tabled(e: &Evidence<'_>, nodes: &[usize], device: usize) -> Option<Cost> {
    if let Some(stated) = e
        .costs
        .part(nodes, device)
        .and_then(|cost| with_target(e, device, *cost))
    {
        return Some(stated);
    }
    let (mut time, mut energy) = (0u128, Some(0u128));
    let (mut provenance, mut emulated) = (Provenance::Measured, false);
    let mut interval = Interval::default();
    for &node in nodes {
        let cost = with_target(e, device, *e.costs.node(node, device)?)?;
        time += u128::from(cost.time.picoseconds());
        energy = energy
            .zip(cost.energy)
            .map(|(sum, more)| sum + u128::from(more.nanojoules()));
        interval.add(cost.energy, cost.energy_range);
        provenance = provenance.max(cost.provenance);
        emulated |= cost.emulated;
    }
    if nodes.len() > 1 {
        provenance = provenance.max(Provenance::Composed);
    }
    let energy = match energy {
        None => None,
        Some(energy) => Some(Energy::from_nanojoules(u64::try_from(energy).ok()?)),
    };
    Some(Cost {
        time: Time::from_picoseconds(u64::try_from(time).ok()?),
        energy,
        energy_range: interval.given(energy),
        provenance,
        emulated,
    })
}

/// Least and most of energies that add up, where at least one of them has an interval.
#[derive(Default)]
struct Interval {
    low: u128,
    expected: u128,
    high: u128,
    weakest: Option<EnergyProvenance>,
    has_any: bool,
}

impl Interval {
    fn add(&mut self, energy: Option<Energy>, range: Option<EnergyRange>) {
        let exact = energy.unwrap_or_default();
        let (low, expected, high, from) = match range {
            Some(range) => (range.low, range.expected, range.high, range.provenance),
            None => (exact, exact, exact, EnergyProvenance::Vendor),
        };
        self.has_any |= range.is_some();
        self.low += u128::from(low.nanojoules());
        self.expected += u128::from(expected.nanojoules());
        self.high += u128::from(high.nanojoules());
        self.weakest = self.weakest.max(Some(from));
    }

    /// Adds what is taken as it is.
    fn more(&mut self, energy: Energy) {
        let more = u128::from(energy.nanojoules());
        self.low += more;
        self.expected += more;
        self.high += more;
    }

    /// The interval of a sum that is known.
    fn given(&self, sum: Option<Energy>) -> Option<EnergyRange> {
        sum.filter(|_| self.has_any)?;
        Some(EnergyRange {
            low: Energy::from_nanojoules(u64::try_from(self.low).ok()?),
            expected: Energy::from_nanojoules(u64::try_from(self.expected).ok()?),
            high: Energy::from_nanojoules(u64::try_from(self.high).ok()?),
            provenance: self.weakest?,
        })
    }
}

/// Each part costs what the tables say.
pub(super) fn parts(e: &Evidence<'_>) -> Result<(), Violation> {
    for (index, part) in e.plan.parts.iter().enumerate() {
        let target = &e.targets[part.device.index()];
        let nodes: Vec<usize> = part.nodes.iter().map(|&node| node as usize).collect();
        let real = tabled(e, &nodes, part.device.index()).ok_or_else(|| {
            let words = format!(
                "part {index}: the tables give no cost for its nodes on {}",
                target.name
            );
            wrong(ViolationKind::Figure, words)
        })?;
        if part.cost != real {
            return Err(wrong(
                ViolationKind::Figure,
                format!(
                    "part {index} states cost {:?}, the tables say {real:?}",
                    part.cost
                ),
            ));
        }
        if (part.launch, part.launch_energy) != (target.launch, target.launch_energy) {
            return Err(wrong(
                ViolationKind::Figure,
                format!(
                    "part {index} states launch {}, {} says {}",
                    part.launch, target.name, target.launch
                ),
            ));
        }
    }
    Ok(())
}

/// Constants and boundary tensors of each device add up and keep to its limit.
pub(super) fn memory(e: &Evidence<'_>) -> Result<(), Violation> {
    let mut held: Vec<BTreeSet<TensorId>> = vec![BTreeSet::new(); e.targets.len()];
    let mut bytes = vec![0u128; e.targets.len()];
    for part in &e.plan.parts {
        let device = part.device.index();
        held[device].extend(
            part.inputs
                .iter()
                .chain(&part.outputs)
                .map(|&id| TensorId::new(id as usize)),
        );
        for &node in &part.nodes {
            let node = e.graph.node(NodeId::new(node as usize));
            held[device].extend(node.reads().filter(|&id| e.graph.tensor(id).is_constant()));
            bytes[device] += node
                .bodies
                .iter()
                .map(|body| u128::from(body.graph.constant_bytes()))
                .sum::<u128>();
        }
    }
    if e.plan.memory_bytes.len() != e.targets.len() {
        let words = format!(
            "memory of {} devices stated, there are {}",
            e.plan.memory_bytes.len(),
            e.targets.len()
        );
        return Err(wrong(ViolationKind::Figure, words));
    }
    for (device, target) in e.targets.iter().enumerate() {
        for &id in &held[device] {
            bytes[device] += match &e.graph.tensor(id).data {
                Some(data) => data.bytes.len() as u128,
                None => u128::from(size(e, id).unwrap_or(0)),
            };
        }
        let (stated, real) = (e.plan.memory_bytes[device], bytes[device]);
        if u128::from(stated) != real {
            let words = format!(
                "memory of {} is stated as {stated} bytes, its parts hold {real}",
                target.name
            );
            return Err(wrong(ViolationKind::Figure, words));
        }
        if let Some(limit) = target.memory_limit
            && real > u128::from(limit)
        {
            let words = format!("parts of {} hold {real} bytes, the limit is {limit}", target.name);
            return Err(wrong(ViolationKind::Limit, words));
        }
    }
    Ok(())
}

/// The plan's totals are the sums of its parts and crossings.
pub(super) fn totals(e: &Evidence<'_>) -> Result<(), Violation> {
    let (totals, plan) = (&e.plan.totals, e.plan);
    let total =
        |times: &mut dyn Iterator<Item = Time>| -> u128 { times.map(|t| u128::from(t.picoseconds())).sum() };
    let compute = total(&mut plan.parts.iter().map(|part| part.cost.time));
    let launch = total(&mut plan.parts.iter().map(|part| part.launch));
    let transfer = total(&mut plan.crossings.iter().map(|crossing| crossing.time));
    for (what, stated, real) in [
        ("compute time", totals.compute, compute),
        ("launch time", totals.launch, launch),
        ("transfer time", totals.transfer, transfer),
        ("time", totals.time, compute + launch + transfer),
    ] {
        if u128::from(stated.picoseconds()) != real {
            let words = format!(
                "total {what} is stated as {} ps, adds up to {real} ps",
                stated.picoseconds()
            );
            return Err(wrong(ViolationKind::Figure, words));
        }
    }
    let mut energy = Some(0u128);
    for part in &plan.parts {
        let more = part
            .cost
            .energy
            .map(|own| u128::from(own.nanojoules()) + u128::from(part.launch_energy.nanojoules()));
        energy = energy.zip(more).map(|(sum, more)| sum + more);
    }
    for crossing in &plan.crossings {
        energy = energy.map(|sum| sum + u128::from(crossing.energy.nanojoules()));
    }
    if totals.energy.map(|stated| u128::from(stated.nanojoules())) != energy {
        let words = format!(
            "total energy is stated as {:?}, adds up to {energy:?} nJ",
            totals.energy
        );
        return Err(wrong(ViolationKind::Figure, words));
    }
    let mut interval = Interval::default();
    for part in &plan.parts {
        interval.add(part.cost.energy, part.cost.energy_range);
        interval.more(part.launch_energy);
    }
    for crossing in &plan.crossings {
        interval.more(crossing.energy);
    }
    let range = interval.given(totals.energy);
    if totals.energy_range != range {
        let words = format!(
            "total energy is stated within {:?}, adds up to {range:?}",
            totals.energy_range
        );
        return Err(wrong(ViolationKind::Figure, words));
    }
    let weakest = plan
        .parts
        .iter()
        .map(|part| part.cost.provenance)
        .chain(plan.crossings.iter().map(|crossing| crossing.provenance))
        .fold(Provenance::Measured, Provenance::max);
    let used = |part: &crate::part::Part| part.cost.emulated || e.targets[part.device.index()].emulated;
    if totals.provenance != weakest || totals.emulated != plan.parts.iter().any(used) {
        let words = format!(
            "totals are labelled {}{}, the weakest figure is {}",
            totals.provenance.word(),
            if totals.emulated { ", emulated" } else { "" },
            weakest.word()
        );
        return Err(wrong(ViolationKind::Figure, words));
    }
    Ok(())
}

/// A run keeps to the deadline, or the plan says by how much it does not; its energy keeps to the budget.
pub(super) fn limits(e: &Evidence<'_>, time: Time) -> Result<(), Violation> {
    let (objective, energy) = (&e.plan.objective, e.plan.totals.energy);
    let late = objective.deadline.map_or(0, |deadline| {
        u128::from(time.picoseconds()).saturating_sub(u128::from(deadline.picoseconds()))
    });
    let stated = e.plan.missed.map(|missed| u128::from(missed.picoseconds()));
    if stated.unwrap_or(0) != late || stated == Some(0) {
        let words = match stated {
            None => format!("time {time} exceeds the deadline, and the plan does not report it"),
            Some(stated) => format!("the deadline is missed by {late} ps, the plan reports {stated} ps"),
        };
        return Err(wrong(ViolationKind::Limit, words));
    }
    if let (Some(budget), Some(energy)) = (objective.energy_budget, energy)
        && energy > budget
    {
        return Err(wrong(
            ViolationKind::Limit,
            format!("energy {energy} exceeds the budget {budget}"),
        ));
    }
    Ok(())
}

/// No part takes longer than was asked for, but for single nodes.
pub(super) fn longest_part(e: &Evidence<'_>) -> Result<(), Violation> {
    let Some(longest) = e.options.longest_part else {
        return Ok(());
    };
    for (index, part) in e.plan.parts.iter().enumerate() {
        let time = u128::from(part.cost.time.picoseconds()) + u128::from(part.launch.picoseconds());
        if part.nodes.len() > 1 && time > u128::from(longest.picoseconds()) {
            let words = format!("part {index} takes {time} ps, more than the requested {longest}");
            return Err(wrong(ViolationKind::Limit, words));
        }
    }
    Ok(())
}

/// The certificate is about this placement: its objective is the value of the nodes' devices before
/// parts were merged, the bound is not above it, and the plan itself is not dearer.
pub(super) fn certificate(e: &Evidence<'_>, part_of: &[usize]) -> Result<(), Violation> {
    let weigh = |time: u128, energy: u128| {
        time * u128::from(e.plan.objective.time_weight) + energy * u128::from(e.plan.objective.energy_weight)
    };
    let (mut time, mut energy) = (0u128, 0u128);
    let mut spend = |more: Time, used: Option<Energy>| {
        time += u128::from(more.picoseconds());
        energy += used.map_or(0, |used| u128::from(used.nanojoules()));
    };
    let mut first = 0;
    let devices: Vec<usize> = part_of
        .iter()
        .map(|&part| e.plan.parts[part].device.index())
        .collect();
    for end in 1..=devices.len() {
        if end < devices.len() && devices[end] == devices[first] {
            continue;
        }
        let run: Vec<usize> = (first..end).collect();
        let cost = tabled(e, &run, devices[first]).ok_or_else(|| {
            let words = format!(
                "nodes {first} to {} have no cost on device {}",
                end - 1,
                devices[first]
            );
            wrong(ViolationKind::Figure, words)
        })?;
        spend(cost.time, cost.energy);
        let target = &e.targets[devices[first]];
        spend(target.launch, Some(target.launch_energy));
        first = end;
    }
    // crossings do not depend on how nodes of one device are grouped
    for crossing in e
        .plan
        .crossings
        .iter()
        .filter(|crossing| crossing.from_device != crossing.to_device)
    {
        spend(crossing.time, Some(crossing.energy));
    }
    let value = weigh(time, energy);
    let stated = e.plan.certificate;
    if u128::from(stated.objective) != value {
        let words = format!(
            "certificate is about objective {}, the placement has {value}",
            stated.objective
        );
        return Err(wrong(ViolationKind::Certificate, words));
    }
    if stated.bound > stated.objective {
        let words = format!(
            "certificate has bound {} above its objective {}",
            stated.bound, stated.objective
        );
        return Err(wrong(ViolationKind::Certificate, words));
    }
    let totals = &e.plan.totals;
    let merged = weigh(
        u128::from(totals.time.picoseconds()),
        totals.energy.map_or(0, |energy| u128::from(energy.nanojoules())),
    );
    // parts that are cut have more launches
    if merged > value && e.options.longest_part.is_none() {
        let words = format!("the plan costs {merged}, more than before its parts were merged: {value}");
        return Err(wrong(ViolationKind::Certificate, words));
    }
    Ok(())
}

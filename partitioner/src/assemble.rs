//! Assembles a plan: parts with boundaries and costs, crossings, memory, totals.
//!
//! Invariants: lists ascend as the plan's types state; sums are checked. Deliberately not here:
//! choosing devices and parts; checking (`check` recomputes all of this in its own way).

use crate::cost::{Cost, Provenance};
use crate::crossing::Crossing;
use crate::error::{Error, Repr};
use crate::index::{DeviceIndex, PartIndex};
use crate::instance::Inputs;
use crate::link::LinkMode;
use crate::part::{Part, part_id};
use crate::plan::{Certificate, PLAN_VERSION, Plan, Totals};
use crate::power::{EnergyProvenance, EnergyRange};
use crate::unit::{Energy, Time};
use polychip_graph::{NodeId, TensorId};
use std::collections::{BTreeMap, BTreeSet};

fn overflow(what: &str) -> Error {
    Repr::Overflow(what.to_owned()).into()
}

/// The cost of a set of nodes (ascending) compiled together: as stated, else summed.
pub(crate) fn part_cost(inputs: &Inputs<'_>, nodes: &[usize], device: usize) -> Result<Cost, Error> {
    if let Some(stated) = inputs.part_cost(nodes, device) {
        return Ok(stated);
    }
    let mut sum: Option<Cost> = None;
    for &node in nodes {
        let cost = inputs.node_cost(node, device).ok_or_else(|| {
            Error::bad_input(format!(
                "node {node} has no cost on {}",
                inputs.targets[device].name
            ))
        })?;
        sum = Some(match sum {
            None => cost,
            Some(sum) => sum
                .sum(cost)
                .ok_or_else(|| overflow("time or energy of a part"))?,
        });
    }
    sum.ok_or_else(|| Error::bad_input("a part without nodes"))
}

/// Writes down the plan of given parts (in an order of execution) on the devices of a placement.
pub(crate) fn assemble(
    inputs: &Inputs<'_>,
    groups: &[Vec<usize>],
    placement: &[usize],
    certificate: Certificate,
) -> Result<Plan, Error> {
    let graph = inputs.graph;
    let mut part_of = vec![PartIndex::new(0); placement.len()];
    for (part, nodes) in groups.iter().enumerate() {
        for &node in nodes {
            part_of[node] = PartIndex::new(part);
        }
    }
    let given_back: BTreeSet<TensorId> = graph.outputs.iter().copied().collect();
    let mut parts = Vec::with_capacity(groups.len());
    let mut memory = vec![BTreeMap::<TensorId, u64>::new(); inputs.targets.len()];
    let mut bodies = vec![0u64; inputs.targets.len()];
    for (index, nodes) in groups.iter().enumerate() {
        let device = placement[nodes[0]];
        let target = &inputs.targets[device];
        let (mut reads, mut writes, mut after) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for &node in nodes {
            let node = graph.node(NodeId::new(node));
            for tensor in node.reads() {
                if let Some(data) = &graph.tensor(tensor).data {
                    memory[device].insert(tensor, data.bytes.len() as u64);
                    continue;
                }
                match graph.producer(tensor).map(|writer| part_of[writer.index()]) {
                    Some(part) if part.index() == index => {}
                    Some(part) => {
                        after.insert(part);
                        reads.insert(tensor);
                    }
                    None => {
                        reads.insert(tensor);
                    }
                }
            }
            for tensor in node.writes() {
                let leaves = graph
                    .consumers(tensor)
                    .iter()
                    .any(|reader| part_of[reader.index()].index() != index);
                if leaves || given_back.contains(&tensor) {
                    writes.insert(tensor);
                }
            }
            for body in &node.bodies {
                bodies[device] = bodies[device].saturating_add(body.graph.constant_bytes());
            }
        }
        for &tensor in reads.iter().chain(&writes) {
            memory[device].insert(tensor, inputs.bytes(tensor).unwrap_or(0));
        }
        let ids: Vec<u32> = nodes.iter().map(|&node| node as u32).collect();
        parts.push(Part {
            id: part_id(graph, &target.name, &ids),
            device: DeviceIndex::new(device),
            nodes: ids,
            inputs: reads.iter().map(|tensor| tensor.index() as u32).collect(),
            outputs: writes.iter().map(|tensor| tensor.index() as u32).collect(),
            after: after.into_iter().collect(),
            cost: part_cost(inputs, nodes, device)?,
            launch: target.launch,
            launch_energy: target.launch_energy,
        });
    }
    let crossings = crossings(inputs, placement, &part_of)?;
    let memory_bytes = memory
        .iter()
        .zip(bodies)
        .map(|(tensors, bodies)| {
            tensors
                .values()
                .fold(bodies, |sum, &bytes| sum.saturating_add(bytes))
        })
        .collect();
    let totals = totals(inputs, &parts, &crossings)?;
    let mut plan = Plan {
        version: PLAN_VERSION,
        model: inputs.model.clone(),
        devices: inputs.targets.iter().map(|target| target.name.clone()).collect(),
        objective: inputs.objective,
        input_home: inputs.options.input_home.map(DeviceIndex::new),
        output_home: inputs.options.output_home.map(DeviceIndex::new),
        parts,
        crossings,
        memory_bytes,
        certificate,
        totals,
        device_names: Vec::new(),
        fastest: inputs.fastest,
        missed: None,
        limits: Vec::new(),
        unlimited: None,
        schedule: None,
        replicas: Vec::new(),
        terms: None,
        nodes: Vec::new(),
    };
    plan.missed = plan.lateness();
    Ok(plan)
}

/// All tensors that leave their part, by tensor and destination device.
fn crossings(
    inputs: &Inputs<'_>,
    placement: &[usize],
    part_of: &[PartIndex],
) -> Result<Vec<Crossing>, Error> {
    let graph = inputs.graph;
    let states: BTreeSet<TensorId> = graph
        .states
        .iter()
        .flat_map(|state| [state.input, state.output])
        .collect();
    let mut crossings = Vec::new();
    for (id, tensor) in graph.tensors() {
        let writer = graph.producer(id);
        let (from_part, from_device) = match (writer, inputs.options.input_home) {
            (Some(writer), _) => (Some(part_of[writer.index()]), placement[writer.index()]),
            (None, Some(home)) if graph.is_input(id) && !tensor.is_constant() && !states.contains(&id) => {
                (None, home)
            }
            (None, _) => continue,
        };
        let mut readers: BTreeMap<usize, BTreeSet<PartIndex>> = BTreeMap::new();
        for reader in graph.consumers(id) {
            let part = part_of[reader.index()];
            if from_part != Some(part) {
                readers.entry(placement[reader.index()]).or_default().insert(part);
            }
        }
        if let Some(home) = inputs.options.output_home
            && graph.is_output(id)
            && !states.contains(&id)
            && home != from_device
        {
            readers.entry(home).or_default();
        }
        let bytes = inputs.bytes(id);
        for (to, parts) in readers {
            let (mode, time, energy, provenance, energy_provenance) = if to == from_device {
                // nothing is done, which needs no measurement
                (
                    LinkMode::Native,
                    Time::ZERO,
                    Energy::ZERO,
                    Provenance::Measured,
                    Provenance::Measured,
                )
            } else {
                let link = inputs.links.get(from_device, to);
                let moved = link.and_then(|link| {
                    Some((
                        link.mode,
                        link.time(bytes?)?,
                        link.energy(bytes?)?,
                        link.provenance,
                        link.energy_provenance,
                    ))
                });
                moved.ok_or_else(|| {
                    Repr::Infeasible(format!(
                        "tensor {} cannot go from {} to {}",
                        tensor.name, inputs.targets[from_device].name, inputs.targets[to].name
                    ))
                })?
            };
            crossings.push(Crossing {
                tensor: id.index() as u32,
                from_part,
                from_device: DeviceIndex::new(from_device),
                to_device: DeviceIndex::new(to),
                to_parts: parts.into_iter().collect(),
                bytes,
                mode,
                time,
                provenance,
                energy,
                energy_provenance,
            });
        }
    }
    Ok(crossings)
}

fn totals(inputs: &Inputs<'_>, parts: &[Part], crossings: &[Crossing]) -> Result<Totals, Error> {
    let sum = |times: &[Time]| {
        let mut times = times.iter().copied();
        let sum = times.try_fold(Time::ZERO, Time::checked_add);
        sum.ok_or_else(|| overflow("time of the plan"))
    };
    let compute = sum(&parts.iter().map(|part| part.cost.time).collect::<Vec<_>>())?;
    let launch = sum(&parts.iter().map(|part| part.launch).collect::<Vec<_>>())?;
    let transfer = sum(&crossings.iter().map(|crossing| crossing.time).collect::<Vec<_>>())?;
    let time = sum(&[compute, launch, transfer])?;
    let known: Option<Vec<Energy>> = parts.iter().map(|part| part.cost.energy).collect();
    let energy = match known {
        None => None,
        Some(known) => {
            let launches = parts.iter().map(|part| part.launch_energy);
            let moved = crossings.iter().map(|crossing| crossing.energy);
            let all = known.into_iter().chain(launches).chain(moved);
            Some(
                all.into_iter()
                    .try_fold(Energy::ZERO, Energy::checked_add)
                    .ok_or_else(|| overflow("energy of the plan"))?,
            )
        }
    };
    let ranges: Option<Vec<EnergyRange>> = parts.iter().map(|part| part.cost.range()).collect();
    // launches and transfers are taken as they are
    let beside = parts.iter().map(|part| part.launch_energy);
    let beside = beside.chain(crossings.iter().map(|crossing| crossing.energy));
    let energy_range = ranges.filter(|_| parts.iter().any(|part| part.cost.energy_range.is_some()));
    let energy_range = energy_range.and_then(|ranges| {
        let best = EnergyRange::exact(Energy::ZERO, EnergyProvenance::Measured);
        let beside = beside.map(|energy| EnergyRange::exact(energy, EnergyProvenance::Measured));
        ranges.into_iter().chain(beside).try_fold(best, EnergyRange::sum)
    });
    let weakest = parts
        .iter()
        .map(|part| part.cost.provenance)
        .chain(crossings.iter().map(|crossing| crossing.provenance))
        .max()
        .unwrap_or(Provenance::Measured);
    Ok(Totals {
        compute,
        launch,
        transfer,
        time,
        energy,
        energy_range,
        provenance: weakest,
        emulated: parts
            .iter()
            .any(|part| part.cost.emulated || inputs.targets[part.device.index()].emulated),
    })
}

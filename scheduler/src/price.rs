//! What each node costs on each device, with where the figure comes from.
//!
//! Order of trust: measured parts of the profile, a whole composed of measured stretches, the law of a piece's family
//! fitted on the profile, the plugin's estimate, the roofline of the device's stated peaks. A device that states neither has the roofline of a slow core: it is then never
//! preferred to one that is known.
//!
//! Not here: what to do with the costs (`partitioner`), measuring (`session`).

mod figure;

use std::collections::BTreeMap;

use polychip_graph::{Graph, fingerprint};
use polychip_host::{Device, FlatGraph};
use polychip_partitioner::{
    Cost, CostTable, Link, LinkTable, Microjoules, Milliwatts, Nanos, Part, Provenance, Refusal, Target,
};
use polychip_profile::Conditions;
pub(crate) use polychip_profile::extract::part_graph;
use polychip_profile::work;
use polychip_profile::{PartKey, Profile, Summary};

pub use figure::MeasuredFigure;

use crate::error::{Error, ErrorKind, Result};
use crate::policy::Settings;

/// A core that nobody would choose: the roofline of a device that states no peaks. Chosen an order of
/// magnitude below one core of any machine that runs this.
const UNKNOWN_MACS_PER_S: u64 = 1_000_000_000;
const UNKNOWN_BYTES_PER_S: u64 = 1_000_000_000;
/// Handing a buffer that both devices address from one to the other: a fence and a wake-up. Measured as
/// 6 to 9 µs for a fork and join of sleeping threads on a two-core x86 machine.
const HANDOVER: Nanos = Nanos::from_nanoseconds(8_000);
/// Copying through host memory; one core of the same machine copies 8 to 17 GB/s beside busy neighbours.
const COPY_BYTES_PER_S: u64 = 8_000_000_000;

/// Everything the partitioner needs of the devices.
#[derive(Debug, Clone)]
pub(crate) struct Prices {
    pub(crate) targets: Vec<Target>,
    pub(crate) costs: CostTable,
    /// Costs of nodes as the plugins state them, before anything that was measured.
    pub(crate) stated: CostTable,
    pub(crate) links: LinkTable,
    /// What costs rest on, by device and nodes: what the profile said of each.
    pub(crate) measured: BTreeMap<(usize, Vec<u32>), Summary>,
}

/// Where measured prices come from: the profile, and what of it is meant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) settings: Settings,
    /// What holds on each device.
    pub(crate) now: &'a [Conditions],
}

impl Rows<'_> {
    /// What the profile knows of a part.
    pub(crate) fn of(self, graph: &Graph, devices: &[Device], part: &Part) -> Option<Summary> {
        let column = part.device as usize;
        let device = devices.get(column)?;
        let structure = fingerprint::structure(&part_graph(graph, part));
        let key = PartKey {
            device: &device.identity(),
            fingerprint: &structure,
            operating_point: &self.settings.operating_point(device.info().kind),
        };
        let found = self.profile.part_under(key, &self.now(column));
        self.profile.or_nothing(found)
    }

    fn now(self, column: usize) -> Conditions {
        self.now.get(column).cloned().unwrap_or_default()
    }
}

/// Asks every device what it supports and what that costs.
pub(crate) fn ask(graph: &Graph, flat: &FlatGraph, devices: &[Device], rows: Rows<'_>) -> Result<Prices> {
    let nodes = graph.node_count();
    let Rows {
        profile, settings, ..
    } = rows;
    let mut prices = Prices {
        targets: Vec::with_capacity(devices.len()),
        costs: CostTable::new(nodes, devices.len()),
        stated: CostTable::default(),
        links: links(devices, profile),
        measured: BTreeMap::new(),
    };
    for (column, device) in devices.iter().enumerate() {
        let mut target = ask_one(graph, flat, device, column, &mut prices.costs)?;
        if let Some(launch) = crate::link::known::launch(device, profile) {
            target.launch = launch;
        }
        prices.targets.push(target);
    }
    prices.stated = prices.costs.clone();
    for (column, (device, target)) in devices.iter().zip(&prices.targets).enumerate() {
        let laws = profile.or_nothing(profile.laws(&device.identity(), &rows.now(column)));
        let point = settings.operating_point(device.info().kind);
        laws.price(
            graph,
            &device.identity(),
            &point,
            column,
            target,
            &mut prices.costs,
        );
    }
    Ok(prices)
}

fn ask_one(
    graph: &Graph,
    flat: &FlatGraph,
    device: &Device,
    column: usize,
    costs: &mut CostTable,
) -> Result<Target> {
    let info = device.info();
    let mut target = Target::new(device.name(), graph.node_count());
    target.memory_limit = info.memory_bytes;
    target.emulated = info.emulated;
    if device.is_quarantined() {
        target.quarantined = Some("lost or hung, and not reset since".into());
        return Ok(target);
    }
    let failed =
        |error: polychip_host::Error| Error::caused(ErrorKind::DeviceFailed, "asking for support", error);
    let support = device.query_support(flat).map_err(failed)?;
    for (row, (support, (_, node))) in support.iter().zip(graph.nodes()).enumerate() {
        if support.reason != 0 {
            let words = reason_words(support.reason, &support.detail);
            target = target.refuse(
                row,
                Refusal {
                    code: support.reason,
                    words,
                },
            );
            continue;
        }
        let index = u32::try_from(row).expect("invariant: a flat graph counts nodes in 32 bits");
        let estimate = device
            .estimate(flat, &[index])
            .map_err(failed)?
            .unwrap_or_default();
        let mut cost = match estimate.time_ns {
            Some(ns) => Cost::time(Nanos::from_nanoseconds(ns), Provenance::Estimated),
            None => Cost::time(roofline(graph, node, device), Provenance::Roofline),
        };
        let energy = estimate.energy_uj.map(Microjoules::from_microjoules).or_else(|| {
            estimate
                .power_mw
                .and_then(|power| Milliwatts::new(power).over(cost.time))
        });
        if let Some(energy) = energy {
            cost = cost.with_energy(energy);
        }
        if info.emulated || estimate.emulated {
            cost = cost.emulated();
        }
        costs.set_node(row, column, cost);
        if let Some(launch) = estimate.launch_ns {
            target.launch = target.launch.max(Nanos::from_nanoseconds(launch));
        }
        if let Some(power) = estimate.power_mw {
            target.power = target.power.max(Some(Milliwatts::new(power)));
        }
    }
    Ok(target)
}

fn roofline(graph: &Graph, node: &polychip_graph::Node, device: &Device) -> Nanos {
    let (info, work) = (device.info(), work::of_node(graph, node));
    let ns = |amount: u64, per_second: u64| {
        u64::try_from(u128::from(amount) * 1_000_000_000 / u128::from(per_second.max(1))).unwrap_or(u64::MAX)
    };
    let arithmetic = ns(work.macs, info.peak_macs_per_s.unwrap_or(UNKNOWN_MACS_PER_S));
    let traffic = ns(work.bytes, info.peak_bytes_per_s.unwrap_or(UNKNOWN_BYTES_PER_S));
    // the partitioner counts picoseconds in 64 bits
    Nanos::from_nanoseconds(arithmetic.max(traffic).clamp(1, u64::MAX / 1_000_000))
}

fn links(devices: &[Device], profile: &Profile) -> LinkTable {
    let mut links = LinkTable::new(devices.len());
    for (from, a) in devices.iter().enumerate() {
        for (to, b) in devices.iter().enumerate().filter(|(to, _)| *to != from) {
            let (a, b) = (a.info(), b.info());
            let link = if a.shares_host_memory && b.shares_host_memory {
                Link::native(HANDOVER)
            } else if a.imports_memory() && b.imports_memory() {
                Link::imported(HANDOVER)
            } else {
                Link::copy(HANDOVER, COPY_BYTES_PER_S)
            };
            let link = crate::link::known::link(&devices[from], &devices[to], link, profile);
            links.set(from, to, link);
        }
    }
    links
}

/// Words for a reason code, with the device's own detail.
fn reason_words(code: u32, detail: &str) -> String {
    let words = match code {
        1 => "op not offered",
        2 => "data type not offered",
        3 => "shape out of bounds",
        4 => "rank not offered",
        5 => "attribute not offered",
        6 => "layout not offered",
        7 => "input must be a constant",
        8 => "shape known only at run time",
        9 => "body graph not offered",
        10 => "encoding not offered",
        11 => "memory too small",
        12 => "quarantined",
        13 => "refused by the vendor's library",
        _ => "refused",
    };
    if detail.is_empty() {
        words.to_owned()
    } else {
        format!("{words}: {detail}")
    }
}

/// The whole model as one part of a device, as the planner would make it; none where the device cannot run it alone.
pub(crate) fn alone(graph: &Graph, prices: &Prices, column: usize) -> Option<Part> {
    let nodes = 0..graph.node_count();
    if nodes.is_empty() || !nodes.clone().all(|node| prices.targets[column].supports(node)) {
        return None;
    }
    let options = polychip_partitioner::Options {
        pins: nodes.map(|node| (node, column)).collect(),
        ..Default::default()
    };
    let plan = polychip_partitioner::partition(
        graph,
        &prices.targets,
        &prices.costs,
        &prices.links,
        &polychip_partitioner::Objective::latency(),
        &options,
    );
    let parts = plan.ok()?.parts;
    match &parts[..] {
        [part] => Some(part.clone()),
        _ => None,
    }
}

/// Takes what the profile knows of the whole model on one device: the device's nodes share that time in the
/// proportions of their estimates. So a plan that moves a few nodes is compared with what was measured, not with
/// hopes. Nothing changes for a device that the model was not measured on alone.
pub(crate) fn use_whole(graph: &Graph, devices: &[Device], prices: &mut Prices, rows: Rows<'_>) {
    for column in 0..devices.len() {
        let nodes: Vec<usize> = (0..graph.node_count()).collect();
        let Some(part) = alone(graph, prices, column) else {
            continue;
        };
        let Some(known) = rows.of(graph, devices, &part) else {
            continue;
        };
        let cost = |node: usize| prices.costs.node(node, column).copied();
        let summed: u128 = nodes
            .iter()
            .filter_map(|&node| cost(node))
            .map(|cost| u128::from(cost.time.picoseconds()))
            .sum();
        let measured = u128::from(known.p50.picoseconds());
        let shared: Vec<(usize, Cost)> = nodes
            .iter()
            .filter_map(|&node| Some((node, cost(node)?)))
            .map(|(node, cost)| {
                let share = u128::from(cost.time.picoseconds()) * measured / summed.max(1);
                let time = Nanos::from_picoseconds(u64::try_from(share).unwrap_or(u64::MAX));
                let provenance = Provenance::Composed;
                (
                    node,
                    Cost {
                        time,
                        provenance,
                        ..cost
                    },
                )
            })
            .collect();
        for (node, cost) in shared {
            prices.costs.set_node(node, column, cost);
        }
        prices.measured.insert((column, part.nodes), known);
    }
}

/// Replaces composed costs by measured ones for the parts of a plan that the profile knows. Gives the
/// number of parts whose cost changed.
pub(crate) fn use_measured(
    graph: &Graph,
    devices: &[Device],
    parts: &[Part],
    rows: Rows<'_>,
    prices: &mut Prices,
) -> usize {
    let mut changed = 0;
    for part in parts {
        let column = part.device as usize;
        let Some(known) = rows.of(graph, devices, part) else {
            continue;
        };
        let mut cost = Cost::time(known.p50, Provenance::Measured);
        if let Some(energy) = known.energy_uj {
            cost = cost.with_energy(Microjoules::from_microjoules(energy));
        }
        if known.emulated {
            cost = cost.emulated();
        }
        let nodes: Vec<usize> = part.nodes.iter().map(|node| *node as usize).collect();
        if prices.costs.part(&nodes, column) != Some(&cost) {
            prices.costs.set_part(&nodes, column, cost);
            changed += 1;
        }
        prices.measured.insert((column, part.nodes.clone()), known);
    }
    changed
}

/// What parts lose at their borders: a part that was measured takes longer than its nodes' shares of what was
/// measured before, because it reads another layout and fuses less. The mean of that is charged to every part of
/// the device as part of its launch, so that a plan of parts that nobody measured is not taken for free.
#[derive(Debug)]
pub(crate) struct Borders {
    /// Launches without what is charged here.
    launches: Vec<Nanos>,
    /// Parts of each device that were measured: by their nodes, what they took beyond the sum of their nodes, in
    /// picoseconds.
    lost: Vec<BTreeMap<Vec<u32>, i128>>,
}

impl Borders {
    pub(crate) fn new(targets: &[Target]) -> Borders {
        Borders {
            launches: targets.iter().map(|target| target.launch).collect(),
            lost: vec![BTreeMap::new(); targets.len()],
        }
    }

    /// Takes what is known of the measured ones among these parts. The whole model on one device tells nothing of
    /// borders.
    pub(crate) fn learn(&mut self, costs: &CostTable, parts: &[Part]) {
        if parts.len() < 2 {
            return;
        }
        for part in parts {
            let column = part.device as usize;
            let nodes: Vec<usize> = part.nodes.iter().map(|node| *node as usize).collect();
            let Some(measured) = costs.part(&nodes, column) else {
                continue;
            };
            let summed: Option<i128> = nodes
                .iter()
                .map(|&node| Some(i128::from(costs.node(node, column).copied()?.time.picoseconds())))
                .sum();
            if let Some(summed) = summed {
                let lost = i128::from(measured.time.picoseconds()) - summed;
                self.lost[column].insert(part.nodes.clone(), lost);
            }
        }
    }

    /// Charges the mean loss of each device to its launch.
    pub(crate) fn charge(&self, targets: &mut [Target]) {
        for ((target, launch), lost) in targets.iter_mut().zip(&self.launches).zip(&self.lost) {
            let mean = lost.values().sum::<i128>() / i128::try_from(lost.len().max(1)).unwrap_or(1);
            let mean = u64::try_from(mean.max(0)).unwrap_or(u64::MAX / 1_000_000);
            let more = Nanos::from_picoseconds(mean.min(u64::MAX / 1_000_000));
            target.launch = launch.checked_add(more).unwrap_or(*launch);
        }
    }
}

#[cfg(test)]
mod tests {
    use polychip_graph::{Node, NodeId, Tensor, extract};
    use polychip_ops::{DType, Op, TensorType};

    use super::*;

    /// `c = -x - |x|` in one part, with `first` computed first; what is computed first is read by
    /// another part too.
    fn part_ops(first: Op) -> (Vec<Op>, [u8; 32]) {
        let mut graph = Graph::new("whole");
        let mut add = |name: &str| graph.add_tensor(Tensor::new(name, TensorType::known(DType::F32, &[4])));
        let [x, a, b, c, d] = ["x", "a", "b", "c", "d"].map(&mut add);
        let unary = |op, from, to| Node::new(op, vec![Some(from)], vec![Some(to)]);
        let (neg, abs) = (unary(Op::Neg, x, a), unary(Op::Abs, x, b));
        let nodes = if first == Op::Neg { [neg, abs] } else { [abs, neg] };
        for node in nodes {
            graph.add_node(node);
        }
        graph.add_node(Node::new(Op::Sub, vec![Some(a), Some(b)], vec![Some(c)]));
        graph.add_node(unary(Op::Sin, b, d));
        graph.inputs = vec![x];
        graph.outputs = vec![c, d];
        let nodes: Vec<NodeId> = (0..3).map(NodeId::new).collect();
        let mut part = extract(&graph, &nodes, &[x], &[b, c]);
        part.sort().unwrap();
        let ops = part.nodes().map(|(_, node)| node.op).collect();
        (ops, fingerprint::content(&part))
    }

    #[test]
    fn parts_of_the_same_content_have_their_nodes_in_the_same_order() {
        let (one, other) = (part_ops(Op::Neg), part_ops(Op::Abs));
        assert_eq!(one.1, other.1, "a cached blob of one is found for the other");
        assert_eq!(one.0, other.0);
    }

    #[test]
    fn parts_of_a_device_are_charged_what_its_measured_parts_lose() {
        let ns = |ns| Cost::time(Nanos::from_nanoseconds(ns), Provenance::Composed);
        let mut targets = vec![
            Target::new("a:0", 4).launch(Nanos::from_nanoseconds(5)),
            Target::new("b:0", 4),
        ];
        let mut costs = CostTable::new(4, 2);
        for node in 0..4 {
            costs.set_node(node, 0, ns(10));
            costs.set_node(node, 1, ns(20));
        }
        let part = |device, nodes: &[u32]| Part {
            id: String::new(),
            device,
            nodes: nodes.to_vec(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            after: Vec::new(),
            cost: ns(0),
            launch: Nanos::ZERO,
            launch_energy: Microjoules::ZERO,
        };
        let parts = [part(0, &[0]), part(1, &[1, 2]), part(0, &[3])];
        let mut borders = Borders::new(&targets);
        // 20 and 4 beyond their nodes on the one device; faster than its nodes on the other
        for (part, time) in parts.iter().zip([30, 35, 14]) {
            let nodes: Vec<usize> = part.nodes.iter().map(|&node| node as usize).collect();
            let measured = Cost::time(Nanos::from_nanoseconds(time), Provenance::Measured);
            costs.set_part(&nodes, part.device as usize, measured);
        }
        borders.learn(&costs, &parts[..1]);
        borders.charge(&mut targets);
        assert_eq!(
            targets[0].launch.nanoseconds(),
            5,
            "the whole model has no borders"
        );
        for _ in 0..2 {
            borders.learn(&costs, &parts);
            borders.charge(&mut targets);
        }
        assert_eq!(targets[0].launch.nanoseconds(), 5 + 12);
        assert_eq!(targets[1].launch.nanoseconds(), 0);
    }
}

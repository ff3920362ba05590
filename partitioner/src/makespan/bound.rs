//! Lower bounds on any schedule of one block of a run: its longest paths, and its work.
//!
//! A node that is a predecessor or successor of every other node ends before all later ones start:
//! it cuts the run in two. For each block between two cuts, and each pair of devices of the cuts,
//! two bounds hold. The longest path through each node, with every node on its best device, is a
//! lower bound. And the devices in use, each without the time before its first and after its last
//! node, must do all the work.
//!
//! Invariants: bounds assume idle links and a part per node, so none exceeds the time of a
//! schedule; for any weights of devices, the least weighted work is at most the time in which the
//! devices do it.
//! Deliberately not here: the sum over all blocks, and better bounds of one (`blocks`).

use super::game::way;
use super::machine::Machine;
use crate::problem::{FORBIDDEN, add};

/// The sum of device weights.
const WHOLE: u64 = 1 << 12;

/// Maximum sum of weights of hardware that shares runs.
const SHARES: u64 = 1 << 20;

/// Maximum costs computed in the search for these weights.
const SHARED_VISITS: usize = 4_000_000;

/// Maximum number of devices for which sets of devices are distinguished.
const MOST_SETS: usize = 4;

/// Per node and device, the time from the node's end to the end of the run, at least.
pub(super) fn tails(machine: &Machine) -> Vec<u64> {
    let mut tails = vec![0; machine.nodes * machine.devices];
    for (index, tensor) in machine.tensors.iter().enumerate() {
        if let (Some(writer), Some(home)) = (tensor.writer, tensor.home) {
            for device in (0..machine.devices).filter(|&device| device != home) {
                let slot = &mut tails[writer * machine.devices + device];
                *slot = (*slot).max(machine.transfer(index, device, home));
            }
        }
    }
    relax_behind(machine, 0, machine.nodes, &mut tails);
    tails
}

/// Raises the time after each node of a range to the longest path to the range's end.
fn relax_behind(machine: &Machine, from: usize, to: usize, behind: &mut [u64]) {
    let devices = machine.devices;
    for node in (from..to).rev() {
        for (reader, tensor) in machine.readers(node).filter(|&(reader, _)| reader < to) {
            for device in 0..devices {
                let next = (0..devices).map(|on| {
                    let rest = add(machine.cost(reader, on), behind[(reader - from) * devices + on]);
                    add(way(machine, tensor, device, on), rest)
                });
                let next = next.min().unwrap_or(0);
                let slot = &mut behind[(node - from) * devices + device];
                *slot = (*slot).max(next);
            }
        }
    }
}

/// Nodes that are predecessors or successors of every other node, ascending: two passes in topological order, where
/// petgraph's dominators would need a graph of the machine and its reverse.
pub(super) fn cuts(machine: &Machine) -> Vec<usize> {
    let nodes = machine.nodes;
    let first_reader = |node: usize| {
        machine
            .readers(node)
            .map(|(reader, _)| reader)
            .min()
            .unwrap_or(nodes)
    };
    let mut cut = vec![true; nodes];
    let mut latest = 0;
    for (node, cut) in cut.iter_mut().enumerate() {
        *cut &= latest <= node;
        latest = latest.max(first_reader(node));
    }
    let mut earliest = nodes;
    for node in (0..nodes).rev() {
        cut[node] &= earliest >= node;
        match machine.reads[node].iter().map(|read| read.writer).max() {
            Some(last) => earliest = earliest.min(last),
            // a node without predecessors could start before any other has ended
            None => {
                cut[..node].fill(false);
                break;
            }
        }
    }
    (0..nodes).filter(|&node| cut[node]).collect()
}

/// Charges each device's launch to the first node: its part has at least one launch.
pub(super) fn launch_first(machine: &mut Machine) {
    for (cost, &launch) in machine.cost.iter_mut().zip(&machine.launch) {
        *cost = add(*cost, launch);
    }
}

/// A lower bound of every period: the least time in which all devices together do the work.
pub(super) fn period(machine: &Machine) -> u64 {
    let all: Vec<usize> = (0..machine.devices).collect();
    fractional(machine, &all).unwrap_or(0)
}

/// A lower bound of the time between runs on some devices: the least time in which they do the work
/// of a run, where each node may be split among devices as runs are among replicas. It is the dual
/// of that linear program: under any weights of the hardware that add up to one, no split is
/// cheaper than each node on its cheapest device. `None` if the devices cannot run the model.
pub(super) fn fractional(machine: &Machine, devices: &[usize]) -> Option<u64> {
    let mut hardware: Vec<usize> = devices.iter().map(|&device| machine.resource[device]).collect();
    hardware.sort_unstable();
    hardware.dedup();
    let columns = hardware.len();
    let mut rows = vec![FORBIDDEN; machine.nodes * columns];
    for (node, row) in rows.chunks_mut(columns.max(1)).enumerate() {
        for &device in devices {
            let column = hardware.binary_search(&machine.resource[device]).ok()?;
            row[column] = row[column].min(machine.cost(node, device));
        }
        row.iter().any(|&cost| cost != FORBIDDEN).then_some(())?;
    }
    // initial weights: equal ones, and each device's speed relative to the best for its nodes
    let fast = (0..columns).map(|column| {
        let (mut least, mut own) = (0u128, 0u128);
        for row in rows.chunks(columns).filter(|row| row[column] != FORBIDDEN) {
            least += u128::from(row.iter().copied().min().unwrap_or(0));
            own += u128::from(row[column]);
        }
        match own {
            0 => 1,
            own => (least << 20).div_ceil(own).max(1),
        }
    });
    let fast: Vec<u128> = fast.collect();
    let whole: u128 = fast.iter().sum();
    let share = |own: &u128| (own * u128::from(SHARES) / whole.max(1)) as u64;
    let starts = [
        fast.iter().map(share).collect(),
        vec![SHARES / columns.max(1) as u64; columns],
    ];
    starts.into_iter().map(|start| weighed_best(&rows, start)).max()
}

/// The best bound found by moving weight between pairs of devices.
fn weighed_best(rows: &[u64], mut weights: Vec<u64>) -> u64 {
    let columns = weights.len();
    let weighed = |weights: &[u64]| {
        rows.chunks(columns).fold(0u128, |sum, row| {
            let allowed = row.iter().zip(weights).filter(|(cost, _)| **cost != FORBIDDEN);
            let least = allowed.map(|(&cost, &weight)| u128::from(cost) * u128::from(weight));
            sum.saturating_add(least.min().unwrap_or(0))
        })
    };
    let mut visits = SHARED_VISITS / rows.len().max(1);
    let mut best = weighed(&weights);
    let mut step = SHARES / 8;
    while step >= SHARES / 8192 && columns > 1 && visits > 0 {
        let mut better = false;
        for pair in 0..columns * columns {
            let (from, to) = (pair / columns, pair % columns);
            while from != to && weights[from] >= step && visits > 0 {
                visits -= 1;
                weights[from] -= step;
                weights[to] += step;
                let sum = weighed(&weights);
                if sum <= best {
                    weights[from] += step;
                    weights[to] -= step;
                    break;
                }
                best = sum;
                better = true;
            }
        }
        if !better {
            step /= 4;
        }
    }
    u64::try_from(best / u128::from(SHARES)).unwrap_or(FORBIDDEN)
}

/// A set of devices that do the work of a block.
pub(super) struct Case {
    pub(super) set: u32,
    pub(super) value: u64,
    /// Per device of the set, the least time before its first launch and after its last node.
    pub(super) aside: Vec<u64>,
    pub(super) played: bool,
}

impl Case {
    fn new(set: u32, value: u64, aside: Vec<u64>) -> Self {
        Self {
            set,
            value,
            aside,
            played: false,
        }
    }
}

/// A block between cuts on given devices.
pub(super) struct Between {
    pub(super) longest: u64,
    pub(super) cases: Vec<Case>,
}

impl Between {
    /// The case that bounds the time, and the time.
    pub(super) fn least(&self) -> (Option<usize>, u64) {
        let cases = self.cases.iter().enumerate();
        match cases.min_by_key(|(_, case)| case.value) {
            Some((index, case)) => (Some(index), case.value.max(self.longest)),
            None => (None, self.longest),
        }
    }
}

/// The nodes after one cut, up to and including the next.
pub(super) struct Block<'m> {
    pub(super) machine: &'m Machine,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) source: Option<usize>,
    pub(super) sink: Option<usize>,
    /// Per device of the sink, the longest path after each node.
    behind: Vec<Vec<u64>>,
}

impl<'m> Block<'m> {
    pub(super) fn new(
        machine: &'m Machine,
        from: usize,
        to: usize,
        source: Option<usize>,
        sink: Option<usize>,
    ) -> Self {
        let devices = machine.devices;
        let behind = match sink {
            None => Vec::new(),
            Some(sink) => (0..devices)
                .map(|device| {
                    let mut behind = vec![0; (to - from) * devices];
                    for other in (0..devices).filter(|&other| other != device) {
                        behind[(sink - from) * devices + other] = FORBIDDEN;
                    }
                    relax_behind(machine, from, to, &mut behind);
                    behind
                })
                .collect(),
        };
        Self {
            machine,
            from,
            to,
            source,
            sink,
            behind,
        }
    }

    /// The earliest end of each node on each device, counted from the end of the source on its device.
    pub(super) fn before(&self, source: Option<usize>) -> Vec<u64> {
        let machine = self.machine;
        let devices = machine.devices;
        let mut ends = vec![0; (self.to - self.from) * devices];
        for node in self.from..self.to {
            for device in 0..devices {
                let mut start = match source {
                    None => add(machine.launch[device], machine.arrival(node, device)),
                    Some(_) => 0,
                };
                for read in &machine.reads[node] {
                    let ready = if Some(read.writer) == self.source {
                        source.map_or(0, |on| way(machine, read.tensor, on, device))
                    } else if read.writer >= self.from {
                        let ends = &ends[(read.writer - self.from) * devices..][..devices];
                        let ways = ends.iter().enumerate();
                        let ways = ways.map(|(on, &end)| add(end, way(machine, read.tensor, on, device)));
                        ways.min().unwrap_or(0)
                    } else {
                        0
                    };
                    start = start.max(ready);
                }
                ends[(node - self.from) * devices + device] = add(start, machine.cost(node, device));
            }
        }
        ends
    }

    pub(super) fn nodes(&self) -> usize {
        self.to - self.from
    }

    /// A lower bound of the time to the end of the sink on a device, or to the end of the run.
    pub(super) fn between(&self, ends: &[u64], sink: Option<usize>, tails: &[u64]) -> Between {
        let devices = self.machine.devices;
        let behind = match sink {
            Some(device) => self.behind[device].as_slice(),
            None => &tails[self.from * devices..],
        };
        let mut longest = 0;
        for (ends, behind) in ends.chunks(devices).zip(behind.chunks(devices)) {
            let whole = ends.iter().zip(behind).map(|(&end, &rest)| add(end, rest));
            longest = longest.max(whole.min().unwrap_or(0));
        }
        let cases = if longest == FORBIDDEN || self.nodes() < 2 {
            Vec::new()
        } else {
            self.cases(ends, behind, sink)
        };
        Between { longest, cases }
    }

    /// The least time in which each set of devices does the work.
    fn cases(&self, ends: &[u64], behind: &[u64], sink: Option<usize>) -> Vec<Case> {
        let (machine, devices) = (self.machine, self.machine.devices);
        let mut costs = vec![FORBIDDEN; ends.len()];
        // per device, the least time before its first node and after its last
        let mut edges = vec![[FORBIDDEN; 2]; devices];
        for (at, cost) in costs.iter_mut().enumerate() {
            let (node, device) = (self.from + at / devices, at % devices);
            let own = machine.cost(node, device);
            if own == FORBIDDEN || ends[at] == FORBIDDEN || behind[at] == FORBIDDEN {
                continue;
            }
            if Some(node) == self.sink && sink.is_some_and(|sink| sink != device) {
                continue;
            }
            *cost = own;
            edges[device][0] = edges[device][0].min(ends[at] - own);
            edges[device][1] = edges[device][1].min(behind[at]);
        }
        if devices > MOST_SETS {
            let all = (1 << devices) - 1;
            let aside = vec![0; devices];
            let held = held(&costs, &aside, all);
            return held
                .map(|value| Case::new(all, value, aside))
                .into_iter()
                .collect();
        }
        let aside: Vec<u64> = edges.iter().map(|[before, after]| add(*before, *after)).collect();
        let sets = (1u32..1 << devices).filter_map(|set| {
            let value = held(&costs, &aside, set)?;
            // the game counts the first launch
            let without = edges.iter().zip(&machine.launch);
            let without =
                without.map(|([before, after], &launch)| add(before.saturating_sub(launch), *after));
            Some(Case::new(set, value, without.collect()))
        });
        sets.collect()
    }
}

/// A bound of the time in which a set of devices does some work, each without its unused time;
/// `None` if it cannot.
fn held(costs: &[u64], aside: &[u64], set: u32) -> Option<u64> {
    let devices = aside.len();
    let used: Vec<usize> = (0..devices).filter(|&device| set >> device & 1 == 1).collect();
    if used.iter().any(|&device| aside[device] == FORBIDDEN) {
        return None;
    }
    let weighed = |weights: &[u64]| {
        let mut sum: u128 = used
            .iter()
            .map(|&device| u128::from(weights[device]) * u128::from(aside[device]))
            .sum();
        for row in costs.chunks(devices) {
            let least = used
                .iter()
                .filter(|&&device| row[device] != FORBIDDEN)
                .map(|&device| u128::from(weights[device]) * u128::from(row[device]))
                .min()?;
            sum += least;
        }
        Some(sum)
    };
    let mut weights = vec![0; devices];
    for &device in &used {
        weights[device] = WHOLE / used.len() as u64;
    }
    weights[used[0]] += WHOLE % used.len() as u64;
    let mut best = weighed(&weights)?;
    let mut step = WHOLE / 4;
    while step >= WHOLE / 256 && used.len() > 1 {
        let mut better = false;
        for &from in &used {
            for &to in used.iter().filter(|&&to| to != from) {
                while weights[from] >= step {
                    weights[from] -= step;
                    weights[to] += step;
                    let sum = weighed(&weights)?;
                    if sum <= best {
                        weights[from] += step;
                        weights[to] -= step;
                        break;
                    }
                    best = sum;
                    better = true;
                }
            }
        }
        if !better {
            step /= 4;
        }
    }
    u64::try_from(best / u128::from(WHOLE)).ok()
}

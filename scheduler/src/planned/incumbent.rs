//! Chooses between the solver's plan and better-known plans.
//!
//! The solver's plan is the cheapest at its given costs, which are uncertain: a plan of many parts
//! selects the estimates that are too low. Therefore it competes with the best single device, and
//! with the plan on which earlier sessions settled, each at its *risk-adjusted* time: measured
//! figures count unchanged, others count more.
//!
//! Invariants:
//! 1. An unmeasured plan replaces a measured one only if it is predicted to be clearly faster.
//! 2. Without any measurement, several parts must be predicted to be faster than one device by a
//!    margin.
//! 3. A plan with concurrent devices in one run must be predicted to be faster by [`CONCURRENT`]
//!    than one in which each run stays on one device, or by [`MIXED`] if measurements make it more
//!    certain.
//! 4. Pure: the same costs give the same choice.
//!
//! Limits and pins are left to the solver.

use polychip_partitioner::{self as partitioner, DeviceIndex, Goal, Limit, Options, Plan, Request, Time};

use crate::cost_model::Prices;

/// An unmeasured time beside a measured one counts so many times: 2 of 12 plans for CPU and OpenVINO that looked faster
/// than the measured CPU were 1.4 to 1.6 times slower.
const UNMEASURED: f64 = 1.5;
/// An unmeasured time on another device than the CPU beside one on the CPU, which starts at once. Calibrated predictions of
/// whole models are within 1.3 at the median (docs/decisions/2026-11-28-calibration.md).
const ELSEWHERE: f64 = 1.2;
/// Several unmeasured parts beside a single device.
const MIXED: f64 = 1.1;

/// Several devices that work on one run at the same time, beside runs that each stay on one device. The prediction of
/// the former does not know what the host's threads that feed a device take from the device beside it, nor how long each
/// waits for the other: on an H100 beside 16 cores such plans were predicted to be the fastest, and gave 0.14 to 0.43 of
/// the runs per second of the GPU alone. Plans for one run of which all parts were measured keep what they predict within a
/// few percent, plans for many runs take up to 1.5 times as long even then (docs/benchmarks/devices-at-once.md).
const CONCURRENT: f64 = 1.5;

/// A plan that competes with the solver's.
enum Rival<'a> {
    /// All nodes on one device.
    Single(DeviceIndex),
    /// What earlier sessions settled on.
    Settled(&'a Plan),
}

/// The plan to take: the solver's, that of a single device, or the settled one.
///
/// # Errors
/// As the partitioner's, of a plan that is not the solver's.
pub(super) fn choose(
    asked: Request<'_>,
    prices: &Prices,
    found: Plan,
    settled: Option<&Plan>,
) -> Result<Plan, partitioner::Error> {
    let objective = asked.objective;
    let is_limited = objective.deadline.is_some()
        || objective.energy_budget.is_some()
        || objective.max_predicted_power.is_some()
        || objective.max_predicted_temperature.is_some();
    let only_slowest = found.limits.iter().all(|held| held.limit == Limit::Slowest);
    if is_limited || !asked.options.pins.is_empty() || asked.options.longest_part.is_some() || !only_slowest {
        return Ok(found);
    }
    if objective.goal != Goal::Serial {
        return concurrent(asked, prices, found);
    }
    // what `Policy::balanced` is bounded by
    let slowest = found.fastest.and_then(|fastest| objective.slowest(fastest));
    let judge = Judge::new(asked, prices, &found, settled);
    let mut best = (judge.of_plan(&found), None);
    let rivals = settled.into_iter().map(Rival::Settled);
    let singles = (0..asked.targets.len()).map(|device| Rival::Single(DeviceIndex::new(device)));
    for rival in rivals.chain(singles) {
        let judged = match &rival {
            Rival::Single(device) => judge.of_single(*device),
            Rival::Settled(plan) => judge.of_plan(plan).map(|value| (value, plan.time())),
        };
        if let (Some((value, time)), Some(least)) = (judged, best.0)
            && value < least
            && slowest.is_none_or(|slowest| time <= slowest)
        {
            best = (Some(value), Some(rival));
        }
    }
    let placement = match best.1 {
        None => return Ok(found),
        Some(Rival::Settled(plan)) => plan.clone(),
        Some(Rival::Single(device)) => alone(asked, device)?,
    };
    partitioner::restate(asked, &placement)
}

/// The plan on one device.
fn alone(asked: Request<'_>, device: DeviceIndex) -> Result<Plan, partitioner::Error> {
    let mut targets = asked.targets.to_vec();
    for (index, target) in targets.iter_mut().enumerate() {
        if index != device.index() {
            target.quarantined.get_or_insert_with(String::new);
        }
    }
    partitioner::partition(Request {
        targets: &targets,
        ..asked
    })
}

/// The plan to take where devices work at once: the solver's, or the best of those in which each run stays on a device.
fn concurrent(asked: Request<'_>, prices: &Prices, found: Plan) -> Result<Plan, partitioner::Error> {
    if !found.copies().any(|copy| spans_real_devices(asked, copy)) {
        return Ok(found);
    }
    let judge = Judge::new(asked, prices, &found, None);
    let rivals: Vec<Plan> = match asked.objective.goal {
        Goal::Throughput => {
            let options = Options {
                split_copies: false,
                ..asked.options.clone()
            };
            vec![partitioner::partition(asked.with(&options))?]
        }
        Goal::Serial | Goal::Makespan => {
            let devices = (0..asked.targets.len()).map(DeviceIndex::new);
            let devices = devices.filter(|&device| judge.runs_all(device));
            // a device whose memory is too small has no plan
            devices.filter_map(|device| alone(asked, device).ok()).collect()
        }
    };
    let mut best = (judge.of_concurrent(&found), None);
    for rival in rivals {
        let value = judge.of_concurrent(&rival);
        if value < best.0 {
            best = (value, Some(rival));
        }
    }
    match best.1 {
        None => Ok(found),
        Some(rival) => partitioner::restate(asked, &rival),
    }
}

/// Whether several devices of which one is real work on each run.
fn spans_real_devices(asked: Request<'_>, copy: &Plan) -> bool {
    let devices = copy.used_devices();
    devices.len() > 1
        && devices
            .iter()
            .any(|device| !asked.targets[device.index()].emulated)
}

/// Risk-adjusted values of plans, in the units of the objective.
struct Judge<'a> {
    asked: Request<'a>,
    prices: &'a Prices,
    /// Nodes of the graph.
    all: Vec<u32>,
    /// Some rival is measured as a whole.
    any_measured: bool,
}

impl<'a> Judge<'a> {
    fn new(asked: Request<'a>, prices: &'a Prices, found: &Plan, settled: Option<&Plan>) -> Judge<'a> {
        let mut judge = Judge {
            asked,
            prices,
            all: (0..asked.graph.node_count() as u32).collect(),
            any_measured: false,
        };
        let mut devices = (0..asked.targets.len()).map(DeviceIndex::new);
        judge.any_measured = judge.is_all_measured(found)
            || settled.is_some_and(|plan| judge.is_all_measured(plan))
            || devices.any(|device| judge.runs_all(device) && judge.is_measured(device, &judge.all));
        judge
    }

    fn is_measured(&self, device: DeviceIndex, nodes: &[u32]) -> bool {
        // a map of pairs is asked by a pair; plans have few parts
        self.prices.measured.contains_key(&(device, nodes.to_vec()))
    }

    fn is_all_measured(&self, plan: &Plan) -> bool {
        let mut parts = plan.parts.iter();
        parts.all(|part| self.is_measured(part.device, &part.nodes))
    }

    fn runs_all(&self, device: DeviceIndex) -> bool {
        let target = &self.asked.targets[device.index()];
        target.quarantined.is_none() && (0..self.all.len()).all(|node| target.supports(node))
    }

    /// How many times an unmeasured time on a device counts. A script means what it says.
    fn risk(&self, device: DeviceIndex, is_measured: bool, parts: usize) -> f64 {
        let target = &self.asked.targets[device.index()];
        if is_measured || target.emulated {
            return 1.0;
        }
        let unmeasured = match self.any_measured {
            true => UNMEASURED,
            false if target.name.starts_with("cpu:") => 1.0,
            false => ELSEWHERE,
        };
        if parts > 1 { unmeasured * MIXED } else { unmeasured }
    }

    /// How many times the time of a plan's parts counts.
    fn risk_of_parts(&self, plan: &Plan) -> f64 {
        let (mut plain, mut risky) = (0.0, 0.0);
        for part in &plan.parts {
            let time = part.cost.time.picoseconds() as f64 + part.launch.picoseconds() as f64;
            let is_measured = self.is_measured(part.device, &part.nodes);
            plain += time;
            risky += time * self.risk(part.device, is_measured, plan.parts.len());
        }
        if plain > 0.0 { risky / plain } else { 1.0 }
    }

    /// The risk-adjusted time of a run, or between the ends of two, of a plan in which devices work at once.
    fn of_concurrent(&self, plan: &Plan) -> f64 {
        let mut rate = 0.0;
        for copy in plan.copies() {
            let time = match self.asked.objective.goal {
                Goal::Throughput => copy.own_interval(),
                Goal::Serial | Goal::Makespan => copy.time(),
            };
            let keeps = self.asked.objective.goal == Goal::Makespan && self.is_all_measured(copy);
            let shared = match spans_real_devices(self.asked, copy) {
                true if keeps => MIXED,
                true => CONCURRENT,
                false => 1.0,
            };
            rate += 1.0 / (time.picoseconds().max(1) as f64 * self.risk_of_parts(copy) * shared);
        }
        1.0 / rate
    }

    fn of_plan(&self, plan: &Plan) -> Option<f64> {
        let ratio = self.risk_of_parts(plan);
        let value = self.value(
            plan.totals.time.picoseconds(),
            plan.totals.energy.map(|e| e.nanojoules()),
        )?;
        Some(value * ratio)
    }

    /// The value of all nodes on one device, and the time that they take; none where it does not run them, or a figure is not known.
    fn of_single(&self, device: DeviceIndex) -> Option<(f64, Time)> {
        if !self.runs_all(device) {
            return None;
        }
        let index = device.index();
        let target = &self.asked.targets[index];
        let (mut time, mut energy) = (0u64, Some(0u64));
        for node in 0..self.all.len() {
            let cost = self.asked.costs.node(node, index)?;
            time = time.checked_add(cost.time.picoseconds())?;
            let own = cost.energy.or_else(|| Some(target.power?.over(cost.time)?.0));
            energy = energy
                .zip(own)
                .and_then(|(sum, own)| sum.checked_add(own.nanojoules()));
        }
        let time = time.checked_add(target.launch.picoseconds())?;
        let energy = energy.and_then(|energy| energy.checked_add(target.launch_energy.nanojoules()));
        let risk = self.risk(device, self.is_measured(device, &self.all), 1);
        Some((self.value(time, energy)? * risk, Time::from_picoseconds(time)))
    }

    fn value(&self, time_ps: u64, energy_nj: Option<u64>) -> Option<f64> {
        let objective = self.asked.objective;
        let time = f64::from(objective.time_weight) * time_ps as f64;
        let energy = match objective.energy_weight {
            0 => 0.0,
            weight => f64::from(weight) * energy_nj? as f64,
        };
        Some(time + energy)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use polychip_graph::{Graph, Node, Tensor};
    use polychip_ops::{DType, Op, TensorType};
    use polychip_partitioner::{
        self as partitioner, Cost, CostTable, Link, LinkTable, Objective, Options, Provenance, Target, Time,
    };

    use super::choose;
    use crate::cost_model::Prices;

    /// Devices of the plan's copies for two nodes with these costs on each device, in nanoseconds.
    fn copies(costs: [[u64; 2]; 2], objective: Objective, emulated: bool) -> Vec<Vec<usize>> {
        let mut graph = Graph::new("chain");
        let mut add = |name: &str| graph.add_tensor(Tensor::new(name, TensorType::known(DType::F32, &[4])));
        let [x, y, z] = ["x", "y", "z"].map(&mut add);
        for (from, to) in [(x, y), (y, z)] {
            graph.add_node(Node::new(Op::Relu, vec![Some(from)], vec![Some(to)]));
        }
        (graph.inputs, graph.outputs) = (vec![x], vec![z]);
        let mut table = CostTable::new(2, 2);
        for (node, row) in costs.iter().enumerate() {
            for (device, &time) in row.iter().enumerate() {
                let time = Time::from_nanoseconds(time);
                table.set_node(node, device, Cost::time(time, Provenance::Estimated));
            }
        }
        let mut links = LinkTable::new(2);
        for (from, to) in [(0, 1), (1, 0)] {
            links.set(from, to, Link::native(Time::from_nanoseconds(1)));
        }
        let targets = ["a:0", "b:0"].map(|name| Target {
            emulated,
            ..Target::new(name, 2)
        });
        let prices = Prices {
            model: partitioner::model_fingerprint(&graph).into(),
            targets: targets.to_vec(),
            stated: table.clone(),
            costs: table,
            links,
            measured: BTreeMap::new(),
            inherited: BTreeMap::new(),
        };
        let options = Options::default();
        let asked = prices.request(&graph).toward(objective).with(&options);
        let found = partitioner::partition(asked).unwrap();
        let plan = choose(asked, &prices, found, None).unwrap();
        partitioner::check(asked, &plan).unwrap();
        let devices = |copy: &partitioner::Plan| copy.used_devices().iter().map(|d| d.index()).collect();
        plan.copies().map(devices).collect()
    }

    #[test]
    fn real_devices_share_a_run_only_for_a_large_gain() {
        // a run every 1000 ns over both, 1250 with a copy on each: not by enough
        let near = [[1000, 1500], [1500, 1000]];
        assert_eq!(copies(near, Objective::throughput(), false), [vec![0], vec![1]]);
        assert_eq!(copies(near, Objective::throughput(), true), [vec![0, 1]]);
        // 1000 and 2500
        let far = [[1000, 4000], [4000, 1000]];
        assert_eq!(copies(far, Objective::throughput(), false), [vec![0, 1]]);
        // one run takes 2001 ns over both, and 2500 or 5000 on one
        assert_eq!(copies(near, Objective::makespan(), false), [vec![0]]);
        assert_eq!(copies(near, Objective::makespan(), true), [vec![0, 1]]);
        assert_eq!(copies(far, Objective::makespan(), false), [vec![0, 1]]);
    }
}

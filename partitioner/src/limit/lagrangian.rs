//! Limits by Lagrangian relaxation: costs include the objective and a multiplier for each limit.
//!
//! (H. Everett, Generalized Lagrange Multiplier Method, Operations Research 11, 1963.) A cap on
//! mean power weighs `energy − power × time`, so that time may gain value. Costs of nodes that fall
//! below zero are lifted equally on all devices of a node, which changes no choice; launches and
//! transfers below zero count as free, and the bound subtracts what they could have earned.
//!
//! Invariants: the bound holds for every placement within the limits; shares of multipliers are
//! rounded down.

use super::draw::Cap;
use crate::cost::Cost;
use crate::error::{Error, Repr};
use crate::instance::{Inputs, Pricing, Weights, indices};
use crate::measured::{Valued, solve_with_parts};
use crate::problem::{FORBIDDEN, Problem};
use crate::solve::{Budget, MinMarginals, Solution};
use crate::target::Target;
use crate::unit::{Energy, Time};
use polychip_graph::NodeId;
use std::cell::Cell;
use std::collections::BTreeSet;

/// Own weights are scaled by this, so that a limit's multiplier can be smaller than one.
pub(super) const SCALE: u64 = 1 << 12;

/// What is minimised and what the limits cost.
#[derive(Clone, Debug)]
pub(super) struct Multipliers {
    /// How often the objective itself counts.
    pub(super) own: u64,
    /// Of a picosecond.
    pub(super) time: u64,
    /// Of a nanojoule.
    pub(super) energy: u64,
    /// Per device, of a byte.
    pub(super) bytes: Vec<u64>,
    /// Per cap, of a nanojoule above it.
    pub(super) caps: Vec<u64>,
}

impl Multipliers {
    /// No limit costs anything.
    pub(super) fn none(devices: usize, caps: usize) -> Self {
        Self {
            own: 1,
            time: 0,
            energy: 0,
            bytes: vec![0; devices],
            caps: vec![0; caps],
        }
    }

    pub(super) fn are_none(&self) -> bool {
        let all = [self.time, self.energy];
        all.iter()
            .chain(&self.bytes)
            .chain(&self.caps)
            .all(|&multiplier| multiplier == 0)
    }

    /// Halfway between two.
    pub(super) fn between(&self, other: &Self) -> Self {
        let middle = |a: u64, b: u64| a.min(b) + a.abs_diff(b) / 2;
        let each = |a: &[u64], b: &[u64]| a.iter().zip(b).map(|(&a, &b)| middle(a, b)).collect();
        Self {
            own: other.own,
            time: middle(self.time, other.time),
            energy: middle(self.energy, other.energy),
            bytes: each(&self.bytes, &other.bytes),
            caps: each(&self.caps, &other.caps),
        }
    }
}

/// An objective with its caps under multipliers.
struct Signed<'a> {
    weights: Weights,
    multipliers: &'a Multipliers,
    caps: &'a [Cap],
    /// What each node was lifted by.
    lifted: Vec<i128>,
    /// A value did not fit.
    lost: Cell<bool>,
}

impl<'a> Signed<'a> {
    fn new(inputs: &Inputs<'_>, caps: &'a [Cap], multipliers: &'a Multipliers) -> Self {
        Self {
            weights: Weights::of(inputs.objective),
            multipliers,
            caps,
            lifted: Vec::new(),
            lost: Cell::new(false),
        }
    }

    /// The cost of something that happens on a device, or between devices.
    fn value(&self, device: Option<usize>, time: Time, energy: Energy) -> i128 {
        let (ps, nj) = (i128::from(time.picoseconds()), i128::from(energy.nanojoules()));
        let weigh = |own: u64, multiplier: u64| {
            i128::from(own) * i128::from(self.multipliers.own) + i128::from(multiplier)
        };
        let mut sum = weigh(self.weights.time, self.multipliers.time) * ps
            + weigh(self.weights.energy, self.multipliers.energy) * nj;
        for (cap, &multiplier) in self.caps.iter().zip(&self.multipliers.caps) {
            if multiplier == 0 {
                continue;
            }
            let counts = cap.device.is_none() || cap.device == device;
            // a milliwatt for a picosecond is a millionth of a nanojoule
            let above = if counts { nj * 1_000_000 } else { 0 } - i128::from(cap.milliwatts) * ps;
            sum += (i128::from(multiplier).saturating_mul(above)).div_euclid(1_000_000);
        }
        sum
    }

    /// A value that is not below zero, as a cost.
    fn cost(&self, value: i128) -> u64 {
        match u64::try_from(value) {
            Ok(value) if value < u64::MAX / 4 => value,
            _ => {
                self.lost.set(true);
                FORBIDDEN
            }
        }
    }

    fn node_value(&self, device: usize, cost: &Cost) -> i128 {
        self.value(Some(device), cost.time, cost.energy.unwrap_or_default())
    }
}

impl Pricing for Signed<'_> {
    fn node(&self, node: usize, device: usize, cost: &Cost) -> u64 {
        self.cost(self.node_value(device, cost) + self.lifted[node])
    }

    fn launch(&self, device: usize, target: &Target) -> u64 {
        self.cost(
            self.value(Some(device), target.launch, target.launch_energy)
                .max(0),
        )
    }

    fn transfer(&self, time: Time, energy: Energy) -> u64 {
        self.cost(self.value(None, time, energy).max(0))
    }
}

impl Valued for Signed<'_> {
    fn part(&self, nodes: &[usize], device: usize, cost: &Cost) -> u64 {
        let lifted: i128 = nodes.iter().map(|&node| self.lifted[node]).sum();
        let value = self.node_value(device, cost) + lifted;
        if value < 0 {
            // dearer than it is: no bound
            self.lost.set(true);
        }
        self.cost(value.max(0))
    }
}

/// The best placement under multipliers, and a bound of the objective for all placements within the limits.
pub(super) fn solve(
    inputs: &Inputs<'_>,
    caps: &[Cap],
    multipliers: &Multipliers,
    budget: &Budget,
) -> Result<(Solution, u64), Error> {
    let weights = Weights::of(inputs.objective);
    if multipliers.are_none() && multipliers.own == 1 {
        let solution = solve_with_parts(inputs, &weights, &inputs.problem(weights)?, budget)?;
        let bound = solution.bound;
        return Ok((solution, bound));
    }
    let mut signed = Signed::new(inputs, caps, multipliers);
    signed.lifted = lifts(inputs, &signed);
    let mut problem = inputs.problem_of(&signed)?;
    for (device, &multiplier) in multipliers
        .bytes
        .iter()
        .enumerate()
        .filter(|&(_, &multiplier)| multiplier > 0)
    {
        charge_bytes(inputs, &mut problem, device, multiplier);
    }
    let overflow = || Error::from(Repr::Overflow("a limit's price".to_owned()));
    if signed.lost.get() {
        return Err(overflow());
    }
    let earned = earned(inputs, &signed, &problem);
    let solution = solve_with_parts(inputs, &signed, &problem, budget)?;
    // multipliers of bytes do not add up as the limit counts them, so they give no bound
    if signed.lost.get() || multipliers.own == 0 || multipliers.bytes.iter().any(|&multiplier| multiplier > 0)
    {
        return Ok((solution, 0));
    }
    let lifted: i128 = signed.lifted.iter().sum();
    let least = i128::from(solution.bound) - lifted - earned - allowed(inputs, multipliers);
    let bound = (least.max(0) as u128).div_ceil(u128::from(multipliers.own));
    Ok((solution, u64::try_from(bound).unwrap_or(0)))
}

/// Bounds of all placements with one node on one device, by multipliers.
pub(super) struct Dual<'a> {
    signed: Signed<'a>,
    problem: Problem,
    marginals: MinMarginals,
    /// What the bound has beyond the objective.
    beyond: i128,
}

impl<'a> Dual<'a> {
    /// None where multipliers give no bound, or the graph is too wide.
    pub(super) fn new(inputs: &Inputs<'_>, caps: &'a [Cap], multipliers: &'a Multipliers) -> Option<Self> {
        if multipliers.own == 0 || multipliers.bytes.iter().any(|&multiplier| multiplier > 0) {
            return None;
        }
        let mut signed = Signed::new(inputs, caps, multipliers);
        signed.lifted = lifts(inputs, &signed);
        let problem = inputs.problem_of(&signed).ok().filter(|_| !signed.lost.get())?;
        problem.bounded().ok()?;
        let earned = earned(inputs, &signed, &problem);
        Some(Self {
            marginals: MinMarginals::of(&problem, inputs.options.table_limit)?,
            beyond: signed.lifted.iter().sum::<i128>() + earned + allowed(inputs, multipliers),
            signed,
            problem,
        })
    }

    /// The best placement under the multipliers with the node on the device at this cost.
    pub(super) fn placement(
        &self,
        node: usize,
        device: usize,
        cost: &Cost,
        budget: &Budget,
    ) -> Option<Vec<usize>> {
        let own = self.signed.node_value(device, cost) + self.signed.lifted[node];
        let mut forced = self.problem.clone();
        for other in 0..forced.devices() {
            forced.set_cost(node, other, FORBIDDEN);
        }
        // what a node costs where it must be changes no choice
        forced.set_cost(
            node,
            device,
            u64::try_from(own.max(0)).ok().filter(|&own| own < u64::MAX / 4)?,
        );
        let solution = crate::solve::solve(&forced, budget).ok()?;
        Some(solution.placement)
    }

    /// The objective of no placement within the limits with the node on the device at this cost is below this; none
    /// where links forbid all.
    pub(super) fn bound(&self, node: usize, device: usize, cost: &Cost) -> Option<u64> {
        // the node's own cost is left out, and so is its lift
        let around = i128::from(self.marginals.forced(node, device, 0)?);
        let own = self.signed.node_value(device, cost) + self.signed.lifted[node];
        let least = (around + own - self.beyond).max(0) as u128;
        u64::try_from(least.div_ceil(u128::from(self.signed.multipliers.own))).ok()
    }
}

/// What limits of time and energy allow, at their multipliers.
fn allowed(inputs: &Inputs<'_>, multipliers: &Multipliers) -> i128 {
    let longest = inputs.longest().map_or(0, |limit| limit.picoseconds());
    let budget = inputs
        .objective
        .energy_budget
        .map_or(0, |limit| limit.nanojoules());
    i128::from(multipliers.time) * i128::from(longest) + i128::from(multipliers.energy) * i128::from(budget)
}

/// What lifts the cheapest device of each node to zero.
fn lifts(inputs: &Inputs<'_>, signed: &Signed<'_>) -> Vec<i128> {
    let nodes = 0..inputs.graph.node_count();
    if signed.multipliers.caps.iter().all(|&multiplier| multiplier == 0) {
        return vec![0; nodes.len()];
    }
    let least = |node: usize| {
        let costs = (0..inputs.targets.len()).filter_map(|device| {
            let cost = inputs.node_cost(node, device)?;
            Some(signed.node_value(device, &cost))
        });
        costs.min().unwrap_or(0).min(0)
    };
    nodes.map(|node| -least(node)).collect()
}

/// The most that launches and transfers could earn which are taken as free.
fn earned(inputs: &Inputs<'_>, signed: &Signed<'_>, problem: &Problem) -> i128 {
    let devices = inputs.targets.iter().enumerate();
    let launches =
        devices.map(|(device, target)| signed.value(Some(device), target.launch, target.launch_energy));
    let launch = -launches.min().unwrap_or(0).min(0);
    let mut sum = launch * problem.nodes() as i128;
    let (count, most) = (inputs.targets.len(), inputs.targets.len() as i128 - 1);
    for (id, _) in inputs.graph.tensors() {
        let Some(bytes) = inputs.bytes(id) else {
            continue;
        };
        let pairs = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
        let value = |(from, to): (usize, usize)| {
            let link = inputs.links.get(from, to).filter(|_| from != to)?;
            Some(signed.value(None, link.time(bytes)?, link.energy(bytes)?))
        };
        let least = pairs.filter_map(value).min().unwrap_or(0).min(0);
        sum -= least * most;
    }
    sum
}

/// Charges each node of a device for the constants it reads and the tensors it writes.
fn charge_bytes(inputs: &Inputs<'_>, problem: &mut Problem, device: usize, multiplier: u64) {
    for index in 0..problem.nodes() {
        let cost = problem.cost(index, device);
        if cost == FORBIDDEN {
            continue;
        }
        let node = inputs.graph.node(NodeId::new(index));
        let constants: BTreeSet<_> = node.reads().collect();
        let constants = constants.into_iter().filter_map(|id| {
            // a constant of several readers is shared among them
            let bytes = inputs.graph.tensor(id).data.as_ref()?.bytes.len() as u64;
            Some(bytes / indices(inputs.graph.consumers(id)).len().max(1) as u64)
        });
        let written = node.writes().filter_map(|id| inputs.bytes(id));
        let bodies = node.bodies.iter().map(|body| body.graph.constant_bytes());
        let bytes = constants
            .chain(written)
            .chain(bodies)
            .fold(0u64, u64::saturating_add);
        // dear enough to move any node, small enough to add up
        let limit = (u64::MAX / 8) / (problem.nodes() as u64 + 1);
        problem.set_cost(
            index,
            device,
            cost.saturating_add(bytes.saturating_mul(multiplier).min(limit)),
        );
    }
}

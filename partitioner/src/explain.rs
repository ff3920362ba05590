//! Explains the placement of each node, and what support for one more op would save.
//!
//! Invariants: every node has one reason per other device. A counterfactual is the lowest objective
//! with the node forced onto that device and all other nodes replanned. Under limits it is that of
//! the best plan found within them, with a bound, or states that no such plan was found. Where
//! replanning is not possible, it states that the other nodes stay. Figures carry unit and
//! provenance. Deliberately not here: layout on a page (`report`).

use crate::cost::{Cost, Provenance};
use crate::error::Error;
use crate::index::{DeviceIndex, PartIndex};
use crate::instance::{Inputs, Weights};
use crate::limit::{self, Forced, ForcedOutcome, Rules, broken_limit};
use crate::measured;
use crate::objective::Goal;
use crate::placed::edges;
use crate::plan::Plan;
use crate::problem::{FORBIDDEN, Problem};
use crate::request::Request;
use crate::solve::{self, Budget, Conditioned, MinMarginals, solve};
use crate::unit::{Energy, Time};
use polychip_graph::NodeId;
use schemars::JsonSchema;
use serde::Serialize;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

/// How many kinds of unsupported ops are tried for the unlock list.
const UNLOCKS: usize = 48;

/// The same under limits, where each takes many solutions.
const LIMITED_UNLOCKS: usize = 8;

/// Explains the placement of every node of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Explanation {
    /// Every node, in canonical order.
    pub nodes: Vec<NodeExplanation>,
    /// Unsupported ops and what their support would save, largest saving first.
    pub unlocks: Vec<Unlock>,
}

/// Explains the placement of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NodeExplanation {
    /// Index in canonical order.
    pub node: u32,
    /// Name in the model.
    pub name: String,
    /// The op.
    pub op: String,
    /// Index of its part.
    pub part: PartIndex,
    /// Its device.
    pub device: String,
    /// Its cost there, alone.
    pub cost: Option<Cost>,
    /// The other devices.
    pub alternatives: Vec<Alternative>,
}

/// A device that the node is not on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Alternative {
    /// The device.
    pub device: String,
    /// The node's cost there alone, if known.
    pub cost: Option<Cost>,
    /// Why the node is not there.
    pub reason: Reason,
    /// The cost of the plan with the node there; none if no link leads there, or the node's cost
    /// there is unknown.
    pub counterfactual: Option<Counterfactual>,
}

/// The cost of a plan with one node forced onto another device, whether or not that is allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Counterfactual {
    /// Change of the objective, in its own units; negative if the plan would be cheaper.
    pub by: i64,
    /// The same as text, with sign and unit.
    pub words: String,
    /// Whether all other nodes were replanned around it. If so, the change is the lowest possible,
    /// or under limits the lowest found. If not, the other nodes stay, and the change is an upper
    /// bound of the lowest.
    pub replanned: bool,
    /// Under limits: lower bound of the change for any plan with the node there that holds them;
    /// equal to `by` if `by` is optimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least: Option<i64>,
    /// Whether no plan with the node there was found within the limits; `by` then refers to a plan
    /// that exceeds them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub broken: bool,
    /// Whether the node's cost there is derived from the device's other nodes.
    pub derived: bool,
}

/// Why a node is not on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// The device cannot run it.
    Unsupported {
        /// Reason code of the plugin ABI.
        code: u32,
        /// The device's words.
        words: String,
    },
    /// The device is out of use.
    Quarantined {
        /// Why.
        words: String,
    },
    /// The caller pinned the node elsewhere.
    Pinned {
        /// The device it is pinned to.
        to: String,
    },
    /// The node's cost there is unknown.
    NoCost,
    /// A tensor would have to move between devices without a link, or its size is unknown.
    NoLink,
    /// The move would break a limit.
    OverLimit {
        /// The limit, and the value that the plan would have.
        words: String,
    },
    /// The plan would cost as much or more.
    Dearer {
        /// Change of the objective, in its own units.
        by: u64,
        /// Change of the predicted time in picoseconds.
        time_ps: i64,
        /// Change of the predicted energy in nanojoules, if energies are known.
        energy_nj: Option<i64>,
    },
    /// The plan would cost less. The search left a gap, which the certificate states.
    Cheaper {
        /// Change of the objective, in its own units.
        by: u64,
    },
}

/// An op that a device does not support, and the saving from supporting it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Unlock {
    /// The op.
    pub op: String,
    /// The device.
    pub device: String,
    /// Number of nodes that it refuses.
    pub nodes: u32,
    /// Decrease of the objective, in its own units.
    pub saving: u64,
    /// The same as text, with a unit.
    pub words: String,
    /// Whether costs of the refused nodes are derived from the device's other nodes.
    pub derived: bool,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported { code, words } => write!(f, "unsupported: {words} (code {code})"),
            Self::Quarantined { words } => write!(f, "not used: {words}"),
            Self::Pinned { to } => write!(f, "pinned to {to}"),
            Self::NoCost => f.write_str("cost unknown"),
            Self::NoLink => f.write_str("no link for a tensor"),
            Self::OverLimit { words } => write!(f, "over limit: {words}"),
            Self::Dearer {
                time_ps, energy_nj, ..
            } => {
                let sign = |negative: bool| if negative { '-' } else { '+' };
                let time = Time::from_picoseconds(time_ps.unsigned_abs());
                write!(f, "dearer: {}{time}", sign(*time_ps < 0))?;
                if let Some(energy) = energy_nj {
                    let used = Energy::from_nanojoules(energy.unsigned_abs());
                    write!(f, ", {}{used}", sign(*energy < 0))?;
                }
                Ok(())
            }
            Self::Cheaper { by } => write!(f, "cheaper by {by}: the plan has a gap"),
        }
    }
}

/// Explains a plan that [`check`](crate::check()) accepts.
///
/// # Errors
/// - The request is inconsistent: for example, the graph is not sorted, the cost table is for another
///   number of nodes, or a device is listed twice.
/// - The plan is for another model, or does not place every node on a device of the request.
/// - A sum of costs overflows.
pub fn explain(request: Request<'_>, plan: &Plan) -> Result<Explanation, Error> {
    let inputs = Inputs::new(request.toward(plan.objective))?;
    let Request {
        graph,
        targets,
        costs,
        ..
    } = request;
    if plan.model != inputs.model {
        return Err(Error::bad_input("the plan is for another model"));
    }
    let devices = plan.devices_of_nodes(graph.node_count());
    let placement: Option<Vec<usize>> = devices
        .into_iter()
        .map(|device| device.map(DeviceIndex::index))
        .collect();
    let placement = placement
        .filter(|placement| placement.iter().all(|&device| device < targets.len()))
        .ok_or_else(|| Error::bad_input("the plan does not place every node on a device"))?;
    let mut part_of = vec![PartIndex::new(0); placement.len()];
    for (index, part) in plan.parts.iter().enumerate() {
        for &node in &part.nodes {
            if let Some(slot) = part_of.get_mut(node as usize) {
                *slot = PartIndex::new(index);
            }
        }
    }
    let edges = edges(graph);
    // whole parts' costs do not add up node by node, and schedules are not sums
    let limited =
        plan.objective.goal == Goal::Serial && costs.parts().next().is_none() && limit::limited(&inputs);
    let rules = limited.then(|| Rules::new(&inputs, &edges));
    let forced = match &rules {
        Some(rules) => Forced::new(&inputs, &edges, rules)?,
        None => None,
    };
    let view = View::new(&inputs, placement, &edges, forced)?;
    let mut moved = view.placement.clone();
    let mut nodes = Vec::with_capacity(moved.len());
    for (id, node) in graph.nodes() {
        let (index, device) = (id.index(), view.placement[id.index()]);
        let others = (0..targets.len()).filter(|&other| other != device);
        let alternatives = others.map(|other| Alternative {
            device: targets[other].name.clone(),
            cost: inputs.node_cost(index, other),
            reason: view.reason(&mut moved, index, other),
            counterfactual: view.counterfactual(&mut moved, index, other),
        });
        nodes.push(NodeExplanation {
            node: index as u32,
            name: node.name.clone(),
            op: node.label(),
            part: part_of[index],
            device: targets[device].name.clone(),
            cost: inputs.node_cost(index, device),
            alternatives: alternatives.collect(),
        });
    }
    let unlocks = view.unlocks();
    Ok(Explanation { nodes, unlocks })
}

/// The plan's placement with the problems that price a change of it.
struct View<'a> {
    inputs: &'a Inputs<'a>,
    placement: Vec<usize>,
    problem: Problem,
    time: Problem,
    energy: Option<Problem>,
    edges: &'a [(usize, usize)],
    /// The objective of the placement.
    now: Option<u64>,
    /// Every node on every device with the rest planned anew, where costs add up and nothing is limited.
    marginals: Option<MinMarginals>,
    /// The same one at a time, where that is too wide.
    conditioned: Option<RefCell<Conditioned>>,
    /// The same by search, where something is limited.
    forced: Option<RefCell<Forced<'a>>>,
    /// Per device: how its nodes compare with where they are.
    comparisons: Vec<(u128, u128)>,
}

impl<'a> View<'a> {
    fn new(
        inputs: &'a Inputs<'a>,
        placement: Vec<usize>,
        edges: &'a [(usize, usize)],
        forced: Option<Forced<'a>>,
    ) -> Result<Self, Error> {
        let problem = inputs.problem(Weights::of(inputs.objective))?;
        let time = inputs.problem(Weights { time: 1, energy: 0 })?;
        let known = |node: usize| {
            inputs
                .node_cost(node, placement[node])
                .is_some_and(|cost| cost.energy.is_some())
        };
        let energy = if (0..placement.len()).all(known) {
            Some(inputs.problem(Weights { time: 0, energy: 1 })?)
        } else {
            None
        };
        let additive = inputs.objective.goal == Goal::Serial
            && inputs.costs.parts().next().is_none()
            && !limit::limited(inputs);
        let table_limit = inputs.options.table_limit;
        let marginals = additive
            .then(|| MinMarginals::of(&problem, table_limit))
            .flatten();
        let asked = additive && marginals.is_none();
        let conditioned = asked.then(|| Conditioned::of(&problem, table_limit)).flatten();
        let comparisons = (0..inputs.targets.len()).map(|device| compared(&problem, &placement, device));
        Ok(Self {
            now: problem.objective(&placement),
            comparisons: comparisons.collect(),
            forced: forced.map(RefCell::new),
            edges,
            inputs,
            placement,
            problem,
            time,
            energy,
            marginals,
            conditioned: conditioned.map(RefCell::new),
        })
    }

    /// The cost of the plan with a node on another device. `moved` is the placement, and is left unchanged.
    fn counterfactual(&self, moved: &mut [usize], node: usize, device: usize) -> Option<Counterfactual> {
        let inputs = self.inputs;
        let stated = inputs.node_cost(node, device);
        let derived = stated.is_none();
        // without a stated cost, memory and energy are unknown, so no limit is checked
        if let (Some(forced), Some(cost)) = (&self.forced, stated) {
            let answer = forced.borrow_mut().ask(&self.placement, node, device, &cost)?;
            return self.limited(&answer);
        }
        let cost = match stated {
            Some(cost) => Weights::of(inputs.objective).of_cost(&cost),
            None => self.derived(node, self.comparisons[device])?,
        };
        let forced = match (&self.marginals, &self.conditioned) {
            (Some(marginals), _) => Some(marginals.forced(node, device, cost)?),
            (None, Some(conditioned)) => match conditioned.borrow_mut().ask(node, device, cost) {
                solve::ForcedValue::Value(value) => Some(value),
                solve::ForcedValue::Impossible => return None,
                solve::ForcedValue::Unknown => None,
            },
            (None, None) => None,
        };
        let replanned = forced.is_some();
        let by = match forced {
            Some(forced) => i64::try_from(i128::from(forced) - i128::from(self.now?)).ok()?,
            None => self.problem.difference_at(moved, node, device, cost)?,
        };
        let sign = if by < 0 { '-' } else { '+' };
        Some(Counterfactual {
            by,
            words: format!("{sign}{}", inputs.objective.words(by.unsigned_abs())),
            replanned,
            derived,
            least: None,
            broken: false,
        })
    }

    /// An answer under limits.
    fn limited(&self, answer: &ForcedOutcome) -> Option<Counterfactual> {
        let now = i128::from(self.now?);
        let change = |value: u64| i64::try_from(i128::from(value) - now).ok();
        let signed = |by: i64| {
            let sign = if by < 0 { '-' } else { '+' };
            format!("{sign}{}", self.inputs.objective.words(by.unsigned_abs()))
        };
        let by = change(answer.value)?;
        let least = answer.bound.and_then(change);
        let words = match least {
            _ if !answer.holds => "outside the limits".to_owned(),
            Some(least) if least < by => format!("{}, at least {},", signed(by), signed(least)),
            _ => signed(by),
        };
        Some(Counterfactual {
            by,
            words,
            replanned: answer.replanned,
            derived: false,
            least,
            broken: !answer.holds,
        })
    }

    /// Why a node is not on another device. `moved` is the placement, and is left as it was.
    fn reason(&self, moved: &mut [usize], node: usize, device: usize) -> Reason {
        let inputs = self.inputs;
        let target = &inputs.targets[device];
        if let Some(words) = &target.quarantined {
            return Reason::Quarantined { words: words.clone() };
        }
        if let Some(refusal) = &target.refusals[node] {
            return Reason::Unsupported {
                code: refusal.code,
                words: refusal.words.clone(),
            };
        }
        if let Some(&pin) = inputs.options.pins.get(&node)
            && pin != device
        {
            return Reason::Pinned {
                to: inputs.targets[pin].name.clone(),
            };
        }
        if inputs.node_cost(node, device).is_none() {
            return Reason::NoCost;
        }
        let Some(mut change) = self.problem.difference(moved, node, device) else {
            return Reason::NoLink;
        };
        let time_ps = self.time.difference(moved, node, device).unwrap_or(0);
        let energy_nj = self.energy.as_ref().and_then(|energy| {
            inputs.node_cost(node, device)?.energy?;
            energy.difference(moved, node, device)
        });
        if change < 0 {
            // rare: a limit, a measured segment or a gap keeps the node where it is
            let old = std::mem::replace(&mut moved[node], device);
            let broken = broken_limit(inputs, self.edges, moved);
            let after = measured::value_of(inputs, &self.problem, moved);
            moved[node] = old;
            if let Some(words) = broken {
                return Reason::OverLimit { words };
            }
            let before = measured::value_of(inputs, &self.problem, moved);
            change = i64::try_from(i128::from(after) - i128::from(before)).unwrap_or(i64::MAX);
        }
        match u64::try_from(change) {
            Ok(by) => Reason::Dearer {
                by,
                time_ps,
                energy_nj,
            },
            Err(_) => Reason::Cheaper {
                by: change.unsigned_abs(),
            },
        }
    }

    /// Kinds of refused nodes, ranked by what the plan would gain if a device ran them.
    fn unlocks(&self) -> Vec<Unlock> {
        let inputs = self.inputs;
        let Some(now) = self.now else {
            return Vec::new();
        };
        let mut kinds: BTreeMap<(String, usize), Vec<usize>> = BTreeMap::new();
        for (device, target) in inputs.targets.iter().enumerate() {
            if target.quarantined.is_some() {
                continue;
            }
            for (node, _) in target
                .refusals
                .iter()
                .enumerate()
                .filter(|(_, refusal)| refusal.is_some())
            {
                if !inputs.options.pins.contains_key(&node) {
                    kinds
                        .entry((inputs.graph.node(NodeId::new(node)).label(), device))
                        .or_default()
                        .push(node);
                }
            }
        }
        // what can be saved at most is what the nodes cost now
        let worth = |nodes: &[usize]| {
            nodes.iter().fold(0u64, |sum, &node| {
                sum.saturating_add(self.problem.cost(node, self.placement[node]))
            })
        };
        let mut ranked: Vec<_> = kinds.into_iter().collect();
        ranked.sort_by_key(|((op, device), nodes)| (std::cmp::Reverse(worth(nodes)), op.clone(), *device));
        let limits = Budget {
            table: inputs.options.table_limit,
            moves: 30,
            seed: inputs.options.seed,
        };
        let mut unlocks = Vec::new();
        if self.forced.is_some() {
            for ((op, device), nodes) in ranked.into_iter().take(LIMITED_UNLOCKS) {
                unlocks.extend(self.limited_unlock(op, device, &nodes));
            }
            return by_saving(unlocks);
        }
        for ((op, device), nodes) in ranked.into_iter().take(UNLOCKS) {
            let mut unlocked = self.problem.clone();
            let mut derived = false;
            let comparison = self.comparisons[device];
            for &node in &nodes {
                let stated = inputs.node_cost(node, device);
                let stated = stated.map(|cost| Weights::of(inputs.objective).of_cost(&cost));
                derived |= stated.is_none();
                if let Some(cost) = stated.or_else(|| self.derived(node, comparison)) {
                    unlocked.set_cost(node, device, cost);
                }
            }
            let Ok(solution) = solve(&unlocked, &limits) else {
                continue;
            };
            let saving = now.saturating_sub(solution.objective);
            if saving > 0 {
                unlocks.push(Unlock {
                    op,
                    device: inputs.targets[device].name.clone(),
                    nodes: nodes.len() as u32,
                    saving,
                    words: inputs.objective.words(saving),
                    derived,
                });
            }
        }
        by_saving(unlocks)
    }

    /// What the plan would gain within its limits if a device ran nodes that it refuses.
    fn limited_unlock(&self, op: String, device: usize, nodes: &[usize]) -> Option<Unlock> {
        let inputs = self.inputs;
        let (mut targets, mut costs, mut derived) = (inputs.targets.to_vec(), inputs.costs.clone(), false);
        for &node in nodes {
            if inputs.node_cost(node, device).is_none() {
                costs.set_node(node, device, self.derived_cost(node, device)?);
                derived = true;
            }
            targets[device].refusals[node] = None;
        }
        let unlocked = inputs.changed(Request {
            targets: &targets,
            costs: &costs,
            ..**inputs
        });
        let placed = limit::placed(&unlocked, self.edges).ok()?;
        let held = broken_limit(&unlocked, self.edges, &placed.solution.placement).is_none();
        let saving = self.now?.saturating_sub(placed.solution.objective);
        (held && saving > 0).then(|| Unlock {
            op,
            device: inputs.targets[device].name.clone(),
            nodes: nodes.len() as u32,
            saving,
            words: inputs.objective.words(saving),
            derived,
        })
    }

    /// Time and energy of a node where nothing states them, each as the device's other nodes compare.
    fn derived_cost(&self, node: usize, device: usize) -> Option<Cost> {
        let here = self.placement[node];
        let scaled = |problem: &Problem| {
            let (there, other) = compared(problem, &self.placement, device);
            let now = u128::from(problem.cost(node, here));
            let scaled = u64::try_from(now.checked_mul(there)?.checked_div(other)?).ok();
            scaled.filter(|&cost| cost < u64::MAX / 8)
        };
        let time = Time::from_picoseconds(scaled(&self.time)?);
        let cost = Cost::time(time, Provenance::Estimated);
        match &self.energy {
            Some(energy) => Some(cost.with_energy(Energy::from_nanojoules(scaled(energy)?))),
            None => Some(cost),
        }
    }

    /// A cost for a node that a device refuses: the node's present cost, scaled as the device's other
    /// nodes compare with where they are.
    fn derived(&self, node: usize, (there, here): (u128, u128)) -> Option<u64> {
        let now = u128::from(self.problem.cost(node, self.placement[node]));
        let scaled = now.checked_mul(there)?.checked_div(here)?;
        u64::try_from(scaled).ok().filter(|&cost| cost < u64::MAX / 8)
    }
}

/// The largest saving first.
fn by_saving(mut unlocks: Vec<Unlock>) -> Vec<Unlock> {
    unlocks.sort_by(|a, b| {
        b.saving
            .cmp(&a.saving)
            .then_with(|| (&a.op, &a.device).cmp(&(&b.op, &b.device)))
    });
    unlocks
}

/// How a device's nodes compare with where they are: their sum there, and their sum here.
fn compared(problem: &Problem, placement: &[usize], device: usize) -> (u128, u128) {
    let (mut there, mut here) = (0u128, 0u128);
    for (node, &now) in placement.iter().enumerate() {
        let cost = problem.cost(node, device);
        if cost != FORBIDDEN {
            there += u128::from(cost);
            here += u128::from(problem.cost(node, now));
        }
    }
    (there, here)
}

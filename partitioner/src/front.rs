//! The Pareto front: plans between fastest and most frugal, none beaten by another in both time and
//! energy.
//!
//! Every plan is an optimum (or has a stated gap) under its own weights. The search finds the
//! weights: between two plans it looks for the next one at right angles to the line through them
//! (noninferior set estimation, Cohon, Church and Sheer, 1979), starting with the pair that spans
//! the largest rectangle. Plans above such lines are not found: a front is the lower convex hull of
//! all plans, or a part of it.
//!
//! Invariants: plans ascend in time and descend in energy; each passes `check`; the number of
//! solver calls follows from the number of requested plans, and the same inputs give the same
//! plans. Deliberately not here: choosing one of them (the scheduler's governor, or a person).

use crate::error::Error;
use crate::instance::{Inputs, Weights};
use crate::limit;
use crate::objective::Objective;
use crate::placed::{edges, plan_of};
use crate::plan::Plan;
use crate::problem::Problem;
use crate::request::Request;
use crate::solve::{Budget, Solution, Sweep};

/// Weight ratio at the ends of the front: the fastest plan, and the most frugal among equals.
const END: u32 = 1 << 20;

/// Solver calls for each plan asked for: some find nothing new.
const CALLS: usize = 4;

/// Plans of one model, fastest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Front {
    /// Plans that ascend in `totals.time` and descend in `totals.energy`.
    pub plans: Vec<Plan>,
    /// Whether no other weights give another plan.
    pub complete: bool,
}

/// One plan's place before its parts are merged.
struct Point {
    weights: [u32; 2],
    solution: Solution,
    time: u64,
    energy: u64,
}

impl Point {
    /// Whether this one is faster, and the other one more frugal.
    fn is_beside(&self, other: &Self) -> bool {
        self.time < other.time && self.energy > other.energy
    }

    fn is_optimal(&self) -> bool {
        self.solution.objective == self.solution.bound
    }
}

/// Plans a request with many weights of time and energy in place of its own objective. Returns at
/// most `most` plans, of which none is beaten by another in both time and energy. The energy of
/// every node must be known, directly or from its device's power; memory limits hold.
///
/// # Errors
/// As for [`partition`](crate::partition()) under a weighted objective.
///
/// ```
/// use polychip_graph::{Graph, Node, Tensor};
/// use polychip_ops::{DType, Op, TensorType};
/// use polychip_partitioner::{
///     Cost, CostTable, LinkTable, Energy, Time, Provenance, Request, Target, front,
/// };
///
/// let mut graph = Graph::new("negate");
/// let x = graph.add_tensor(Tensor::new("x", TensorType::known(DType::F32, &[2])));
/// let y = graph.add_tensor(Tensor::new("y", TensorType::known(DType::F32, &[2])));
/// graph.add_node(Node::new(Op::Neg, vec![Some(x)], vec![Some(y)]));
/// graph.inputs.push(x);
/// graph.outputs.push(y);
///
/// let targets = [Target::new("fast:0", 1), Target::new("frugal:0", 1)];
/// let mut costs = CostTable::new(1, 2);
/// for (device, ns, uj) in [(0, 10, 90), (1, 40, 20)] {
///     let cost = Cost::time(Time::from_nanoseconds(ns), Provenance::Estimated);
///     costs.set_node(0, device, cost.with_energy(Energy::from_microjoules(uj)));
/// }
/// let links = LinkTable::new(2);
/// let front = front(Request::new(&graph, &targets, &costs, &links), 8).unwrap();
/// let times: Vec<u64> = front.plans.iter().map(|plan| plan.totals.time.nanoseconds()).collect();
/// assert_eq!((times, front.complete), (vec![10, 40], true));
/// ```
pub fn front(request: Request<'_>, most: usize) -> Result<Front, Error> {
    let inputs = Inputs::new(request.toward(Objective::weighted(1, 1)))?;
    let edges = edges(request.graph);
    let time = inputs.problem(Weights { time: 1, energy: 0 })?;
    let energy = inputs.problem(Weights { time: 0, energy: 1 })?;
    time.bounded()?;
    energy.bounded()?;
    let limits = Budget {
        table: inputs.options.table_limit,
        moves: inputs.options.moves,
        seed: inputs.options.seed,
    };
    let additive = inputs.costs.parts().next().is_none()
        && inputs.targets.iter().all(|target| target.memory_limit.is_none());
    let sweep = if additive {
        Sweep::new(&time, &energy, &limits)
    } else {
        None
    };
    let largest = (u128::from(u64::MAX / 2) / (time.dearest() + energy.dearest()).max(1)).max(1);
    let mut search = Search {
        inputs: &inputs,
        edges: &edges,
        time: &time,
        energy: &energy,
        sweep,
        largest: u32::try_from(largest).unwrap_or(u32::MAX),
        calls: most.saturating_mul(CALLS),
    };
    let (points, complete) = search.points(most)?;
    let mut plans: Vec<Plan> = Vec::with_capacity(points.len());
    for Point {
        weights, solution, ..
    } in points
    {
        let inputs = inputs.under(Objective::weighted(weights[0], weights[1]));
        plans.push(plan_of(
            &inputs,
            &edges,
            &solution.placement,
            solution.objective,
            solution.bound,
        )?);
    }
    // merging parts saves more for some plans than for others
    plans.sort_by_key(|plan| (plan.totals.time, plan.totals.energy));
    let mut least = None;
    plans.retain(|plan| {
        let better = least.is_none_or(|least| plan.totals.energy < least);
        if better {
            least = Some(plan.totals.energy);
        }
        better
    });
    Ok(Front { plans, complete })
}

struct Search<'a> {
    inputs: &'a Inputs<'a>,
    edges: &'a [(usize, usize)],
    time: &'a Problem,
    energy: &'a Problem,
    sweep: Option<Sweep>,
    /// The largest weight whose sums surely fit.
    largest: u32,
    calls: usize,
}

impl Search<'_> {
    /// At most `most` points in ascending order of time, and whether the front is complete.
    fn points(&mut self, most: usize) -> Result<(Vec<Point>, bool), Error> {
        if most == 0 {
            return Ok((Vec::new(), false));
        }
        let end = self.largest.min(END);
        let fastest = self.solve([end, 1])?;
        let frugal = self.solve([1, end])?;
        let mut complete = fastest.is_optimal() && frugal.is_optimal();
        if !fastest.is_beside(&frugal) {
            // equal points, or at least one is not optimal
            let best = [fastest, frugal]
                .into_iter()
                .min_by_key(|point| (point.energy, point.time));
            return Ok((best.into_iter().collect(), complete));
        }
        // points by time; `open` is true if there may be another between a point and the next
        let mut points = vec![fastest, frugal];
        let mut open = vec![true];
        points.truncate(most);
        while points.len() < most {
            let widest = (0..open.len()).filter(|&at| open[at]).max_by_key(|&at| {
                let (a, b) = (&points[at], &points[at + 1]);
                (rectangle(a, b), std::cmp::Reverse(at))
            });
            let Some(at) = widest else {
                return Ok((points, complete));
            };
            if self.calls == 0 {
                break;
            }
            let (a, b) = (&points[at], &points[at + 1]);
            let (weights, exact) = self.across(a, b);
            complete &= exact;
            let between = match self.solve(weights) {
                Ok(point) => {
                    complete &= point.is_optimal();
                    (a.is_beside(&point) && point.is_beside(b)).then_some(point)
                }
                // limits may rule out every placement that these weights lead to
                Err(_) => {
                    complete = false;
                    None
                }
            };
            match between {
                Some(point) => {
                    points.insert(at + 1, point);
                    open[at] = true;
                    open.insert(at, true);
                }
                None => open[at] = false,
            }
        }
        Ok((points, false))
    }

    /// Weights under which two points are alike, and whether they are exactly so.
    fn across(&self, a: &Point, b: &Point) -> ([u32; 2], bool) {
        let [time, energy] = [a.energy - b.energy, b.time - a.time];
        let divisor = gcd(time, energy);
        let (mut time, mut energy) = (time / divisor, energy / divisor);
        let mut exact = true;
        while time.max(energy) > u64::from(self.largest) {
            exact &= time % 2 == 0 && energy % 2 == 0;
            (time, energy) = (time / 2, energy / 2);
        }
        ([time.max(1) as u32, energy.max(1) as u32], exact)
    }

    /// The best point under given weights.
    fn solve(&mut self, weights: [u32; 2]) -> Result<Point, Error> {
        self.calls = self.calls.saturating_sub(1);
        let swept = self.sweep.as_mut().and_then(|sweep| sweep.solve(weights));
        let solution = match swept {
            Some(solution) => solution,
            None => {
                let objective = Objective::weighted(weights[0], weights[1]);
                limit::place(&self.inputs.under(objective), self.edges)?
            }
        };
        let price = |problem: &Problem| problem.objective(&solution.placement).unwrap_or(u64::MAX);
        let (time, energy) = (price(self.time), price(self.energy));
        Ok(Point {
            weights,
            solution,
            time,
            energy,
        })
    }
}

/// What two points may still have between them.
fn rectangle(a: &Point, b: &Point) -> u128 {
    u128::from(b.time - a.time) * u128::from(a.energy - b.energy)
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

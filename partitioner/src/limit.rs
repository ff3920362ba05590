//! Holds a placement within memory limits, a deadline, an energy budget, and limits of mean power and
//! temperature.
//!
//! Each limit gets a Lagrange multiplier. Multipliers of exceeded limits are doubled until a placement holds
//! everything, then halved as far as it still does. A power limit is linear: `energy − power × time ≤ 0`.
//!
//! Invariants: a placement over a memory limit or an energy budget is never returned; one that
//! misses a deadline, a power or a temperature limit is returned only if no placement within all
//! limits was found, and is then the nearest one; the bound holds for all placements within the
//! limits; the number of solver calls is bounded, never the time. Deliberately not here: optimality
//! under limits. If one binds, a gap may remain, and is stated.

mod draw;
mod forced;
mod improve;
mod lagrangian;
mod stand;

use crate::assemble::assemble;
use crate::error::Error;
use crate::index::DeviceIndex;
use crate::instance::{Inputs, Weights};
use crate::limit_report::{Limit, LimitReport};
use crate::measured::solve_with_parts;
use crate::merge;
use crate::objective::Objective;
use crate::options::Options;
use crate::placed::plan_of;
use crate::plan::{Certificate, Plan};
use crate::solve::{Budget, Solution};
use crate::unit::{MilliCelsius, Milliwatts};
use draw::{Cap, caps, draw};
pub(crate) use forced::{Forced, ForcedOutcome, Rules};
use improve::{Changes, VISITS};
use lagrangian::{Multipliers, SCALE};
pub(crate) use stand::{exceeded, miss};

/// Most doublings of a multiplier.
const DOUBLINGS: u32 = 32;

/// Steps of bisection once a multiplier is known to be enough.
const BISECTIONS: u32 = 8;

/// Most steps towards the least mean power when no placement keeps a cap.
const DESCENTS: u32 = 12;

/// Number of tightened limits to try, since concurrent devices draw more power than a serial run, and the temperature
/// step between them, in thousandths of a degree.
const TIGHTER: u64 = 6;
const COOLER: i64 = 8_000;

/// A placement within the limits, and the best one without them.
pub(crate) struct LimitedSolution {
    pub(crate) solution: Solution,
    /// With limits: the best placement found without them, and its value.
    pub(crate) free: Option<(Vec<usize>, u64)>,
    /// Multipliers of the limits that gave the best bound.
    dual: Option<Multipliers>,
}

/// The best placement found that keeps to every limit.
pub(crate) fn place(inputs: &Inputs<'_>, edges: &[(usize, usize)]) -> Result<Solution, Error> {
    placed(inputs, edges).map(|placed| placed.solution)
}

/// Whether anything limits a placement.
pub(crate) fn limited(inputs: &Inputs<'_>) -> bool {
    inputs.objective != inputs.objective.unlimited()
        || inputs.targets.iter().any(|target| target.memory_limit.is_some())
}

/// The same, with what there would be without limits.
pub(crate) fn placed(inputs: &Inputs<'_>, edges: &[(usize, usize)]) -> Result<LimitedSolution, Error> {
    let caps = caps(inputs);
    if !limited(inputs) && inputs.costs.parts().next().is_none() {
        // costs add up and nothing can be exceeded
        let weights = Weights::of(inputs.objective);
        let solution = solve_with_parts(inputs, &weights, &inputs.problem(weights)?, &settings(inputs))?;
        return Ok(LimitedSolution {
            solution,
            free: None,
            dual: None,
        });
    }
    let mut search = Search {
        inputs,
        edges,
        bound: 0,
        best: None,
        nearest: None,
        last: None,
        dual: None,
    };
    let mut multipliers = Multipliers::none(inputs.targets.len(), caps.len());
    let mut over = search.attempt(&caps, &multipliers)?;
    let free = search.last.clone();
    if let (true, Some((value, placement))) = (over.is_empty(), search.best.take()) {
        let solution = search.certified(value, placement);
        return Ok(LimitedSolution {
            solution,
            free,
            dual: None,
        });
    }
    let without_limits = search.bound;
    let mut reason = over.first().copied();
    for _ in 0..DOUBLINGS {
        // whatever is exceeded gets dearer
        let before = multipliers.clone();
        raise(inputs, &caps, &mut multipliers, &over);
        let Ok(next) = search.attempt(&caps, &multipliers) else {
            break;
        };
        over = next;
        reason = over.first().copied().or(reason);
        if over.is_empty() {
            search.bisect(&caps, before, multipliers)?;
            break;
        }
    }
    if search.best.is_none() && !caps.is_empty() {
        search.draw_least(&caps)?;
    }
    search.change(&caps, free.as_ref().map(|(placement, _)| placement))?;
    if search.best.is_none() && inputs.longest().is_some() {
        match fastest(inputs, edges, without_limits) {
            Ok(fastest) if caps.is_empty() => {
                return Ok(LimitedSolution {
                    solution: fastest,
                    free,
                    dual: search.dual,
                });
            }
            Ok(fastest) => drop(search.consider(&fastest.placement)?),
            // the fastest placement uses a device of unknown energy: return the nearest miss instead
            Err(_) if search.nearest.is_some() => {}
            Err(error) => return Err(error),
        }
    }
    let solution = match (search.best.take(), search.nearest.take()) {
        (Some((value, placement)), _) => search.certified(value, placement),
        // no placement is known to keep the limits, so the bound covers all placements
        (None, Some((_, value, placement))) => {
            search.bound = without_limits;
            search.certified(value, placement)
        }
        (None, None) => {
            let over = reason.expect("invariant: no attempt kept to the limits");
            return Err(stand::error(inputs, &over));
        }
    };
    Ok(LimitedSolution {
        solution,
        free,
        dual: search.dual,
    })
}

/// The fastest placement within memory and energy, for a deadline that no other placement was found to meet. Its bound
/// covers all placements, because none is known to meet the deadline.
fn fastest(inputs: &Inputs<'_>, edges: &[(usize, usize)], bound: u64) -> Result<Solution, Error> {
    let objective = Objective {
        energy_budget: inputs.objective.energy_budget,
        ..Objective::latency()
    };
    let found = place(&inputs.under(objective), edges)?;
    let plan = assemble_runs(inputs, edges, &found.placement)?;
    let value = value_of(inputs, &plan);
    Ok(Solution {
        placement: found.placement,
        objective: value,
        bound: bound.min(value),
    })
}

/// The value of a plan under the objective's own weights.
fn value_of(inputs: &Inputs<'_>, plan: &Plan) -> u64 {
    Weights::of(inputs.objective).value(plan.totals.time, plan.totals.energy.unwrap_or_default())
}

/// Doubles the multipliers of what is exceeded.
fn raise(inputs: &Inputs<'_>, caps: &[Cap], multipliers: &mut Multipliers, over: &[LimitReport]) {
    multipliers.own = SCALE;
    let own = Weights::of(inputs.objective);
    let double = |multiplier: &mut u64, least: u64| *multiplier = multiplier.saturating_mul(2).max(least);
    for over in over {
        let device = over.device.map(DeviceIndex::index);
        match (over.limit, device) {
            (Limit::Deadline | Limit::Slowest, _) => double(&mut multipliers.time, SCALE / 64),
            (Limit::EnergyBudget, _) => double(&mut multipliers.energy, SCALE / 64),
            (Limit::Memory, Some(device)) => double(&mut multipliers.bytes[device], 1),
            (Limit::Memory, None) => {}
            (Limit::Power | Limit::Temperature, _) => {
                for (cap, multiplier) in caps.iter().zip(&mut multipliers.caps) {
                    if cap.device == device {
                        // a fraction of what time is worth at this power
                        let time =
                            u128::from(own.time * SCALE) * 1_000_000 / u128::from(cap.milliwatts.max(1));
                        let worth = u64::try_from(time / 64).unwrap_or(u64::MAX / 64);
                        double(multiplier, worth.max(own.energy * SCALE / 64).max(SCALE / 64));
                    }
                }
            }
        }
    }
}

/// The solver's settings.
fn settings(inputs: &Inputs<'_>) -> Budget {
    Budget {
        table: inputs.options.table_limit,
        moves: inputs.options.moves,
        seed: inputs.options.seed,
    }
}

/// What was found so far.
struct Search<'a> {
    inputs: &'a Inputs<'a>,
    edges: &'a [(usize, usize)],
    bound: u64,
    /// Of the placements that keep to every limit.
    best: Option<(u64, Vec<usize>)>,
    /// Of those that only miss what may be missed: by how much, value, placement.
    nearest: Option<(u128, u64, Vec<usize>)>,
    /// The placement considered last, with its value.
    last: Option<(Vec<usize>, u64)>,
    /// Multipliers of the best bound, where limits cost something.
    dual: Option<Multipliers>,
}

impl Search<'_> {
    /// Solves under multipliers, and gives the limits that the result exceeds.
    fn attempt(&mut self, caps: &[Cap], multipliers: &Multipliers) -> Result<Vec<LimitReport>, Error> {
        let (solution, bound) = lagrangian::solve(self.inputs, caps, multipliers, &settings(self.inputs))?;
        if bound > self.bound {
            self.bound = bound;
            self.dual = (!multipliers.are_none()).then(|| multipliers.clone());
        }
        self.consider(&solution.placement)
    }

    /// Keeps a placement if it is the best so far; gives the limits that it exceeds.
    fn consider(&mut self, placement: &[usize]) -> Result<Vec<LimitReport>, Error> {
        let plan = assemble_runs(self.inputs, self.edges, placement)?;
        let (value, over) = (value_of(self.inputs, &plan), exceeded(self.inputs, &plan));
        self.last = Some((placement.to_vec(), value));
        if over.is_empty() {
            if self.best.as_ref().is_none_or(|(best, _)| value < *best) {
                self.best = Some((value, placement.to_vec()));
            }
        } else if let Some(miss) = miss(self.inputs, &plan) {
            let nearer = |(least, best, _): &(u128, u64, _)| (miss, value) < (*least, *best);
            if self.nearest.as_ref().is_none_or(nearer) {
                self.nearest = Some((miss, value, placement.to_vec()));
            }
        }
        Ok(over)
    }

    /// Looks for the least multipliers that keep to the limits, between some that do not and some that do.
    fn bisect(&mut self, caps: &[Cap], mut low: Multipliers, mut high: Multipliers) -> Result<(), Error> {
        for _ in 0..BISECTIONS {
            let multipliers = low.between(&high);
            if self.attempt(caps, &multipliers)?.is_empty() {
                high = multipliers
            } else {
                low = multipliers
            }
        }
        Ok(())
    }

    /// Goes down to the least mean power of what is furthest above its cap: the least of `energy − power × time`, at the
    /// power of the placement before, until that gives no less (Dinkelbach, 1967).
    fn draw_least(&mut self, caps: &[Cap]) -> Result<(), Error> {
        let mut last = None;
        for _ in 0..DESCENTS {
            let Some((miss, _, placement)) = &self.nearest else {
                break;
            };
            if self.best.is_some() || last == Some(*miss) {
                break;
            }
            last = Some(*miss);
            let plan = assemble_runs(self.inputs, self.edges, placement)?;
            let drawn = draw(self.inputs, &plan);
            let power = |cap: &Cap| cap.device.map_or(drawn.all, |device| drawn.devices[device]);
            let above = caps.iter().enumerate().filter_map(|(index, cap)| {
                let power = power(cap).filter(|&power| power > cap.milliwatts)?;
                Some((
                    u128::from(power) * 1_000_000 / u128::from(cap.milliwatts.max(1)),
                    index,
                    power,
                ))
            });
            let Some((_, index, power)) = above.max() else {
                break;
            };
            let mut lower = caps.to_vec();
            lower[index].milliwatts = power;
            let mut multipliers = Multipliers::none(self.inputs.targets.len(), caps.len());
            multipliers.own = 0;
            multipliers.caps[index] = SCALE;
            if self.attempt(&lower, &multipliers).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Changes the best placements found so far.
    fn change(&mut self, caps: &[Cap], free: Option<&Vec<usize>>) -> Result<(), Error> {
        let Some(mut changes) = Changes::new(self.inputs, caps)? else {
            return Ok(());
        };
        let excess = |placement: &[usize]| excess(self.inputs, self.edges, placement);
        let best = self.best.as_ref().map(|(_, placement)| placement);
        let nearest = self.nearest.as_ref().map(|(_, _, placement)| placement);
        let mut starts: Vec<Vec<usize>> = [best, nearest, free].into_iter().flatten().cloned().collect();
        starts.dedup();
        let found: Vec<_> = starts
            .iter()
            .filter_map(|start| changes.improved(start, None, VISITS, &excess))
            .collect();
        for better in found {
            self.consider(&better.placement)?;
        }
        Ok(())
    }

    /// A placement with what is known of all.
    fn certified(&self, value: u64, placement: Vec<usize>) -> Solution {
        Solution {
            placement,
            objective: value,
            bound: self.bound.min(value),
        }
    }
}

/// By how many bytes memory does not hold a placement; none where nothing says, all where no plan has that placement.
fn excess(inputs: &Inputs<'_>, edges: &[(usize, usize)], placement: &[usize]) -> u64 {
    if inputs.targets.iter().all(|target| target.memory_limit.is_none()) {
        return 0;
    }
    let plan = assemble_runs(inputs, edges, placement);
    plan.map_or(u64::MAX, |plan| stand::excess(inputs, &plan))
}

/// The plan of a placement before merging.
fn assemble_runs(inputs: &Inputs<'_>, edges: &[(usize, usize)], placement: &[usize]) -> Result<Plan, Error> {
    let runs = merge::parts(placement, edges, false, |_, _, _| false);
    assemble(
        inputs,
        &runs,
        placement,
        Certificate {
            objective: 0,
            bound: 0,
        },
    )
}

/// Successively tighter power and temperature limits; empty if the objective has neither.
pub(crate) fn tighter(objective: Objective) -> Vec<Objective> {
    let limited = objective.max_predicted_power.is_some() || objective.max_predicted_temperature.is_some();
    let steps = 1..=if limited { TIGHTER } else { 0 };
    let step = |step: u64| Objective {
        max_predicted_power: objective.max_predicted_power.map(|limit| {
            // a share that comes down to nothing
            Milliwatts::new(limit.milliwatts() / TIGHTER * (TIGHTER - step))
        }),
        max_predicted_temperature: objective
            .max_predicted_temperature
            .map(|limit| MilliCelsius::new(limit.millidegrees().saturating_sub(COOLER * step as i64))),
        ..objective
    };
    steps.map(step).collect()
}

/// The first limit that a placement exceeds, as text.
pub(crate) fn broken_limit(
    inputs: &Inputs<'_>,
    edges: &[(usize, usize)],
    placement: &[usize],
) -> Option<String> {
    let plan = assemble_runs(inputs, edges, placement).ok()?;
    let over = exceeded(inputs, &plan).into_iter().next()?;
    Some(format!(
        "{}: limit {}, would need {}",
        over.what(&plan.devices),
        over.most_words(),
        over.seen_words()
    ))
}

/// The error of a plan that exceeds a limit.
pub(crate) fn over(inputs: &Inputs<'_>, plan: &Plan) -> Error {
    let over = exceeded(inputs, plan).into_iter().next();
    stand::error(inputs, &over.expect("invariant: the plan exceeds a limit"))
}

/// The plan of a placement, with its value at each limit. Parts stay unmerged if merging would break a limit: saving a
/// launch shortens the run, which raises its mean power.
pub(crate) fn stated(
    inputs: &Inputs<'_>,
    edges: &[(usize, usize)],
    solution: &Solution,
    free: Option<(Vec<usize>, u64)>,
) -> Result<Plan, Error> {
    let planned = |inputs: &Inputs<'_>, placement: &[usize]| {
        plan_of(inputs, edges, placement, solution.objective, solution.bound)
    };
    let mut plan = planned(inputs, &solution.placement)?;
    if !exceeded(inputs, &plan).is_empty() {
        let options = Options {
            merge: false,
            ..inputs.options.clone()
        };
        let apart = inputs.changed(inputs.with(&options));
        let runs = planned(&apart, &solution.placement)?;
        let (apart, merged) = (miss(inputs, &runs), miss(inputs, &plan));
        if apart.is_some_and(|apart| merged.is_none_or(|merged| apart < merged)) {
            plan = runs;
        }
    }
    let Some((placement, value)) = free else {
        state(inputs, &mut plan, &[]);
        return Ok(plan);
    };
    let without = planned(inputs, &placement)?;
    state(inputs, &mut plan, &stand::lines(inputs, &without));
    plan.unlimited = (!plan.limits.is_empty()).then_some(value);
    Ok(plan)
}

/// Records a plan's value at each limit, with the value of the best plan without limits.
pub(crate) fn state(inputs: &Inputs<'_>, plan: &mut Plan, free: &[LimitReport]) {
    let mut lines = stand::lines(inputs, plan);
    for line in &mut lines {
        let same = |other: &&LimitReport| (other.limit, other.device) == (line.limit, line.device);
        line.free = free.iter().find(same).and_then(|other| other.seen);
    }
    // devices that a temperature limit excludes altogether
    for other in free
        .iter()
        .filter(|other| other.limit == Limit::Temperature && other.is_exceeded())
    {
        let known = lines
            .iter()
            .any(|line| (line.limit, line.device) == (other.limit, other.device));
        let heat = other
            .device
            .and_then(|device| inputs.targets[device.index()].heat);
        if let (false, Some(heat)) = (known, heat) {
            lines.push(LimitReport {
                seen: Some(heat.rest.millidegrees()).filter(|&rest| rest <= other.most),
                free: other.seen,
                ..*other
            });
        }
    }
    let always = |limit| !matches!(limit, Limit::Memory | Limit::Slowest);
    lines.retain(|line| always(line.limit) || line.binds() || line.is_exceeded());
    plan.limits = lines;
}

//! Improves a placement under limits by moving one node, a sequence of neighbours, or two nodes at
//! once.
//!
//! Multipliers reach only placements on the lower convex hull; changes also reach those above it.
//!
//! Invariants: figures are those of maximal runs, in whole numbers; a change is kept only if it
//! comes nearer to the limits, or within them lowers the objective, so the search ends; its effort
//! is counted. Deliberately not here: stated costs of whole parts, which a change of one node
//! replaces (`measured`).

use super::draw::{Cap, mean};
use crate::error::Error;
use crate::instance::{Inputs, Weights};
use crate::problem::{FORBIDDEN, Problem};
use crate::unit::Time;

/// Changes of one node that are priced: tens of milliseconds.
pub(super) const VISITS: u64 = 600_000;

/// Longest row of neighbours that moves at once.
const ROW: usize = 32;

/// What is known of a placement.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Figures {
    time: i64,
    energy: i64,
    /// Energy per cap of one device.
    capped: Vec<i64>,
}

/// Bytes beyond memory limits, how far a placement is from the other limits in millionths, then its value.
type Score = (u64, u128, u128);

/// Prices changes of placements.
pub(super) struct Changes<'a> {
    inputs: &'a Inputs<'a>,
    caps: &'a [Cap],
    time: Problem,
    energy: Problem,
    /// Energy of one device alone, per cap that is about one.
    capped: Vec<(u64, Problem)>,
    visits: u64,
}

impl<'a> Changes<'a> {
    /// None where whole parts have stated costs, or sums could overflow.
    pub(super) fn new(inputs: &'a Inputs<'a>, caps: &'a [Cap]) -> Result<Option<Self>, Error> {
        let time = inputs.problem(Weights { time: 1, energy: 0 })?;
        let energy = inputs.problem(Weights { time: 0, energy: 1 })?;
        let fit = time.bounded().is_ok() && energy.bounded().is_ok();
        if !fit || inputs.costs.parts().next().is_some() {
            return Ok(None);
        }
        let devices = inputs.targets.len();
        let mut capped = Vec::new();
        for cap in caps {
            let Some(device) = cap.device else {
                continue;
            };
            let own = |at: usize, cost: u64| {
                if at == device || cost == FORBIDDEN {
                    cost
                } else {
                    0
                }
            };
            let nodes = (0..energy.nodes()).flat_map(|node| (0..devices).map(move |at| (node, at)));
            let costs = nodes.map(|(node, at)| own(at, energy.cost(node, at)));
            let launches = (0..devices).map(|at| own(at, energy.launch(at)));
            capped.push((cap.milliwatts, Problem::new(costs.collect(), launches.collect())?));
        }
        Ok(Some(Self {
            inputs,
            caps,
            time,
            energy,
            capped,
            visits: 0,
        }))
    }

    /// The figures of a placement; none where it is not possible.
    fn figures(&self, placement: &[usize]) -> Option<Figures> {
        let of = |problem: &Problem| i64::try_from(problem.objective(placement)?).ok();
        let capped = self.capped.iter().map(|(_, problem)| of(problem));
        Some(Figures {
            time: of(&self.time)?,
            energy: of(&self.energy)?,
            capped: capped.collect::<Option<_>>()?,
        })
    }

    /// How far figures are from the limits, and their value; none where an energy budget is exceeded.
    fn score(&self, figures: &Figures) -> Option<(u128, u128)> {
        let objective = self.inputs.objective;
        let (time, energy) = (figures.time.max(0) as u64, figures.energy.max(0) as u64);
        if objective
            .energy_budget
            .is_some_and(|budget| energy > budget.nanojoules())
        {
            return None;
        }
        let times = |seen: u64, most: u64| {
            if seen > most {
                u128::from(seen) * 1_000_000 / u128::from(most.max(1)) + 1
            } else {
                0
            }
        };
        let longest = self.inputs.longest();
        let mut miss = longest.map_or(0, |longest| times(time, longest.picoseconds()));
        let power = |energy: i64| mean(energy.max(0) as u128, Time::from_picoseconds(time));
        if let Some(cap) = self.caps.iter().find(|cap| cap.device.is_none()) {
            miss = miss.max(times(power(figures.energy), cap.milliwatts));
        }
        for ((most, _), &energy) in self.capped.iter().zip(&figures.capped) {
            miss = miss.max(times(power(energy), *most));
        }
        let weights = Weights::of(objective);
        let value =
            u128::from(weights.time) * u128::from(time) + u128::from(weights.energy) * u128::from(energy);
        Some((miss, value))
    }

    /// Moves one node, and changes the figures with it; false, with nothing changed, where that is not possible.
    fn shift(&mut self, placement: &mut [usize], figures: &mut Figures, node: usize, device: usize) -> bool {
        self.visits = self.visits.saturating_sub(1);
        if self.time.cost(node, device) == FORBIDDEN {
            return false;
        }
        let (Some(time), Some(energy)) = (
            self.time.difference(placement, node, device),
            self.energy.difference(placement, node, device),
        ) else {
            return false;
        };
        for ((_, problem), sum) in self.capped.iter().zip(&mut figures.capped) {
            *sum += problem.difference(placement, node, device).unwrap_or(0);
        }
        figures.time += time;
        figures.energy += energy;
        placement[node] = device;
        true
    }

    /// The best placement that changes of a given one lead to, without moving `fixed`, and whether it holds every limit;
    /// `excess` says by how many bytes memory does not hold a placement.
    pub(super) fn improved(
        &mut self,
        start: &[usize],
        fixed: Option<usize>,
        visits: u64,
        excess: &dyn Fn(&[usize]) -> u64,
    ) -> Option<Improved> {
        let (nodes, devices) = (start.len(), self.inputs.targets.len());
        let figures = self.figures(start)?;
        let (miss, value) = self.score(&figures)?;
        let mut state = State {
            placement: start.to_vec(),
            tried: start.to_vec(),
            score: (excess(start), miss, value),
            figures,
            fixed,
            excess,
        };
        self.visits = visits;
        loop {
            let mut changed = false;
            let mut row = 1;
            while row <= ROW.min(nodes) {
                for first in 0..=nodes - row {
                    for device in 0..devices {
                        let moves: Vec<(usize, usize)> =
                            (first..first + row).map(|node| (node, device)).collect();
                        changed |= self.change(&mut state, &moves);
                    }
                }
                row *= 2;
            }
            changed = changed || self.pairs(&mut state);
            if !changed || self.visits == 0 {
                let (bytes, miss, value) = state.score;
                return Some(Improved {
                    placement: state.placement,
                    holds: bytes == 0 && miss == 0,
                    value: u64::try_from(value).ok()?,
                });
            }
        }
    }

    /// Tries pairs of nodes; whether one was moved.
    fn pairs(&mut self, state: &mut State<'_>) -> bool {
        let (nodes, devices) = (state.placement.len(), self.inputs.targets.len());
        let mut changed = false;
        for a in 0..nodes {
            for b in a + 1..nodes {
                for pair in 0..devices * devices {
                    if self.visits == 0 {
                        return changed;
                    }
                    let moves = [(a, pair / devices), (b, pair % devices)];
                    if moves
                        .iter()
                        .all(|&(node, device)| state.placement[node] != device)
                    {
                        changed |= self.change(state, &moves);
                    }
                }
            }
        }
        changed
    }

    /// Makes some moves if all together are better.
    fn change(&mut self, state: &mut State<'_>, moves: &[(usize, usize)]) -> bool {
        let stays = moves
            .iter()
            .all(|&(node, device)| state.placement[node] == device);
        let fixed = moves.iter().any(|&(node, _)| Some(node) == state.fixed);
        if self.visits == 0 || stays || fixed {
            return false;
        }
        let mut after = state.figures.clone();
        let mut possible = true;
        for &(node, device) in moves {
            let tried = &mut state.tried;
            possible = possible && (tried[node] == device || self.shift(tried, &mut after, node, device));
        }
        let found = if possible { self.score(&after) } else { None };
        let (bytes, miss, value) = state.score;
        // bytes are dear to count
        let found = found.filter(|&found| bytes > 0 || found < (miss, value));
        let found = found.map(|(miss, value)| ((state.excess)(&state.tried), miss, value));
        if let Some(better) = found.filter(|found| *found < state.score) {
            for &(node, _) in moves {
                state.placement[node] = state.tried[node];
            }
            (state.figures, state.score) = (after, better);
            return true;
        }
        for &(node, _) in moves {
            state.tried[node] = state.placement[node];
        }
        false
    }

    /// What is left of the effort allowed.
    pub(super) fn left(&self) -> u64 {
        self.visits
    }

    /// Lets a node run on a device at this cost, whatever the device says; gives what was there before.
    pub(super) fn allow(&mut self, node: usize, device: usize, cost: (u64, u64)) -> (u64, u64) {
        let before = (self.time.cost(node, device), self.energy.cost(node, device));
        self.time.set_cost(node, device, cost.0);
        self.energy.set_cost(node, device, cost.1);
        let mut capped = self.capped.iter_mut();
        for cap in self.caps.iter().filter(|cap| cap.device.is_some()) {
            if let Some((_, problem)) = capped.next().filter(|_| cap.device == Some(device)) {
                problem.set_cost(node, device, cost.1);
            }
        }
        before
    }
}

/// Where changes led.
pub(super) struct Improved {
    pub(super) placement: Vec<usize>,
    pub(super) holds: bool,
    pub(super) value: u64,
}

/// A placement that is being changed.
struct State<'a> {
    placement: Vec<usize>,
    /// Equals `placement` between changes.
    tried: Vec<usize>,
    figures: Figures,
    score: Score,
    /// A node that stays.
    fixed: Option<usize>,
    excess: &'a dyn Fn(&[usize]) -> u64,
}

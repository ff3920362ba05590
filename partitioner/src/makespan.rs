//! Plans for concurrent devices: the least time of one run, or between runs, with a lower bound.
//!
//! Invariants: never worse than the serial optimum in the same model; the certificate's objective
//! refers to the final plan, after merging; effort is counted, so the same inputs give the same
//! plan on every host. Deliberately not here: optimality (the problem is NP-hard): the gap to the
//! bound is stated.
//!
//! Start reading at `machine` (the model), then `timeline`.

mod blocks;
mod bound;
mod game;
mod machine;
mod pipeline;
mod search;
mod seeds;
mod timeline;

use crate::assemble::assemble;
use crate::error::{Error, Repr};
use crate::instance::{Inputs, Weights};
use crate::limit;
use crate::objective::{Goal, Objective};
use crate::placed::plan_of;
use crate::plan::{Certificate, Plan};
use crate::problem::FORBIDDEN;
use crate::schedule::Schedule;
use crate::solve::Budget;
use crate::target::resources;
use machine::Machine;
use search::Effort;

/// Nodes whose times the search may compute: about a fifth of a second.
const VISITS: u64 = 14_000_000;

/// The best plan of one copy found for devices that work at once.
pub(crate) fn plan(inputs: &Inputs<'_>, edges: &[(usize, usize)]) -> Result<Plan, Error> {
    // the serial optimum is where the search starts, and what it must beat; a deadline is about the schedule
    let serial = Objective {
        deadline: None,
        goal: Goal::Serial,
        ..inputs.objective
    };
    let serial = inputs.under(serial);
    let solution = limit::place(&serial, edges)?;
    let machine = machine(inputs)?;
    let tails = bound::tails(&machine);
    let game::Outcome { bound, placements } = lowest(inputs, &machine, &tails)?;
    let effort = Effort {
        moves: inputs.options.schedule_moves,
        visits: VISITS,
        seed: inputs.options.seed,
    };
    // parts of one device that are best merged
    let gathered = |placement: &[usize]| {
        let plan = plan_of(&serial, edges, placement, 0, 0)?;
        let parts = plan.parts.iter();
        let parts = parts.map(|part| part.nodes.iter().map(|&node| node as usize).collect());
        written(inputs, parts.collect(), placement, bound)
    };
    let mut found = vec![gathered(&solution.placement)?];
    match inputs.objective.goal {
        Goal::Throughput => {
            let starts = [vec![solution.placement], placements].concat();
            // a change costs more there, as it moves more nodes and nothing ends it early
            let moves = effort.moves / 3;
            let fewer = Effort { moves, ..effort };
            if let Some((placement, _)) = pipeline::best(&machine, starts, fewer) {
                found.push(gathered(&placement)?);
            }
        }
        Goal::Serial | Goal::Makespan => {
            let seeds = seeds::seeds(&machine, &solution.placement, &tails, &placements);
            if let Some((draft, _)) = search::best(&machine, &tails, seeds, effort, bound) {
                found.push(written(inputs, draft.parts(), &draft.placement(), bound)?);
            }
        }
    }
    let kept = |plan: &&Plan| limit::exceeded(inputs, plan).is_empty();
    // the same work in less time draws more: serial plans that draw less, until one does at once
    for tighter in limit::tighter(serial.objective) {
        if found.iter().any(|plan| kept(&plan)) {
            break;
        }
        let solution = limit::place(&inputs.under(tighter), edges)?;
        found.push(gathered(&solution.placement)?);
    }
    let time = |plan: &&Plan| plan.certificate.objective;
    match found.iter().filter(kept).min_by_key(time) {
        Some(plan) => Ok(plan.clone()),
        None => {
            // plans that are late, draw too much or get too hot say so; anything else that is exceeded is an error
            let late = found.iter().filter(|plan| limit::miss(inputs, plan).is_some());
            match late.min_by_key(|plan| (limit::miss(inputs, plan), plan.time())) {
                Some(plan) => Ok(plan.clone()),
                None => Err(limit::over(inputs, &found[0])),
            }
        }
    }
}

/// A plan's parts with today's costs.
pub(crate) fn restated(
    inputs: &Inputs<'_>,
    parts: Vec<Vec<usize>>,
    placement: &[usize],
) -> Result<Plan, Error> {
    let machine = machine(inputs)?;
    let bound = lowest(inputs, &machine, &bound::tails(&machine))?.bound;
    written(inputs, parts, placement, bound)
}

/// Prices in picoseconds, with the tensors of states first.
fn machine(inputs: &Inputs<'_>) -> Result<Machine, Error> {
    let problem = inputs.problem(Weights { time: 1, energy: 0 })?;
    problem.bounded()?;
    let states = inputs.graph.states.iter();
    let states = states
        .filter(|state| inputs.graph.producer(state.output).is_some())
        .count();
    Ok(Machine::new(&problem, states).sharing(resources(inputs.targets)))
}

/// A lower bound of all schedules, whatever parts have stated costs, and placements that led to it.
fn lowest(inputs: &Inputs<'_>, machine: &Machine, tails: &[u64]) -> Result<game::Outcome, Error> {
    // only the bound is of use: no search where the graph is too wide
    let budget = Budget {
        table: inputs.options.table_limit.min(1 << 20),
        moves: 0,
        seed: inputs.options.seed,
    };
    let bound = |machine: &Machine, tails: &[u64]| match inputs.objective.goal {
        Goal::Throughput => {
            let mut launched = machine.clone();
            bound::launch_first(&mut launched);
            game::play(&launched, None, bound::period(&launched), &budget)
        }
        Goal::Serial | Goal::Makespan => {
            // no run takes less time than the work of the busiest hardware
            let mut launched = machine.clone();
            bound::launch_first(&mut launched);
            let work = bound::period(&launched);
            let blocks = blocks::bound(machine, tails, &budget);
            game::play(machine, Some(&bound::cuts(machine)), blocks.max(work), &budget)
        }
    };
    if inputs.costs.parts().next().is_none() {
        return Ok(bound(machine, tails));
    }
    let least = least(inputs, machine)?;
    let tails = bound::tails(&least);
    Ok(bound(&least, &tails))
}

/// A lower bound of the time between runs on some devices, whatever copies there are and whatever parts have stated
/// costs: that of their work and first launches alone.
pub(crate) struct Floor(Machine);

impl Floor {
    pub(crate) fn new(inputs: &Inputs<'_>) -> Result<Self, Error> {
        let machine = machine(inputs)?;
        let mut least = match inputs.costs.parts().next() {
            None => machine,
            Some(_) => least(inputs, &machine)?,
        };
        bound::launch_first(&mut least);
        Ok(Self(least))
    }

    /// The bound with these devices alone; none where they cannot run the model.
    pub(crate) fn of(&self, devices: &[usize]) -> Option<u64> {
        bound::fractional(&self.0, devices)
    }
}

/// A machine whose nodes cost no more than in any part with a stated cost.
fn least(inputs: &Inputs<'_>, machine: &Machine) -> Result<Machine, Error> {
    // each node at the least share that any part gives it: what parts of a plan cost is never below their nodes' sum
    let mut least = machine.clone();
    for (device, nodes, cost) in inputs.costs.parts() {
        let summed = nodes
            .iter()
            .fold(0u64, |sum, &node| sum.saturating_add(machine.cost(node, device)));
        let stated = cost.time.picoseconds();
        if summed == FORBIDDEN || stated >= summed {
            continue;
        }
        for &node in nodes {
            let own = machine.cost(node, device);
            let share = (u128::from(own) * u128::from(stated) / u128::from(summed)) as u64;
            let slot = &mut least.cost[node * machine.devices + device];
            *slot = share.min(*slot);
        }
    }
    Ok(least)
}

/// The plan of one copy of the model, from parts in an executable order. Sorts the parts by start time, the order in
/// which a session issues them.
pub(crate) fn written(
    inputs: &Inputs<'_>,
    mut parts: Vec<Vec<usize>>,
    placement: &[usize],
    bound: u64,
) -> Result<Plan, Error> {
    let none = Certificate {
        objective: 0,
        bound: 0,
    };
    let draft = assemble(inputs, &parts, placement, none)?;
    let resources = resources(inputs.targets);
    let starts = Schedule::of(&draft.parts, &draft.crossings, &resources)?.starts;
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|&part| (starts[part], part));
    let ordered = order
        .into_iter()
        .map(|part| std::mem::take(&mut parts[part]))
        .collect::<Vec<_>>();
    let mut plan = assemble(inputs, &ordered, placement, none)?;
    let schedule = Schedule::of(&plan.parts, &plan.crossings, &resources)?;
    let objective = match inputs.objective.goal {
        Goal::Throughput => schedule.period.picoseconds(),
        Goal::Serial | Goal::Makespan => schedule.makespan.picoseconds(),
    };
    if objective == FORBIDDEN {
        return Err(Repr::Overflow("time of the schedule".to_owned()).into());
    }
    plan.certificate = Certificate {
        objective,
        bound: bound.min(objective),
    };
    plan.schedule = Some(schedule);
    plan.missed = plan.lateness();
    limit::state(inputs, &mut plan, &[]);
    Ok(plan)
}

//! The portfolio: plans that the planner makes of a network on a table, and what each asks of the units.
//!
//! Invariants: every plan comes from the planner and passes its checker; no two candidates place nodes alike.

use anyhow::{Context, Result};
use polychip::governor::{Candidate, Load, Portfolio};
use polychip_partitioner::{Objective, Options, Plan, Target, check, front, partition};

use crate::demand::{Demand, Frame, Pace};
use crate::network::{World, name};
use crate::table::Table;

/// Most plans of the front.
const MOST_OF_FRONT: usize = 6;

/// The plans of a table.
#[derive(Debug, Clone)]
pub struct Plans {
    /// What a governor is told.
    pub portfolio: Portfolio,
    /// What each candidate asks of the units.
    pub demands: Vec<Demand>,
    /// The planner's plans.
    pub plans: Vec<Plan>,
    /// Frames at first levels with nobody else.
    pub frames: Vec<Frame>,
}

impl Plans {
    /// Plans for frames of so many inferences.
    ///
    /// # Errors
    /// Where the planner finds no plan at all, or one that its checker refuses.
    pub fn new(world: &World, table: &Table, inferences: usize) -> Result<Self> {
        let mut found: Vec<(String, Plan)> = Vec::new();
        let mut add = |name: String, plan: Plan| -> Result<()> {
            check(&world.graph, &world.targets, &world.costs, &world.links, &plan)
                .map_err(|violation| anyhow::anyhow!("plan {name}: {violation}"))?;
            let alike =
                |other: &Plan| other.parts == plan.parts && other.objective.goal == plan.objective.goal;
            if !found.iter().any(|(_, other)| alike(other)) {
                found.push((name, plan));
            }
            Ok(())
        };
        let options = Options {
            // plenty for a few hundred nodes
            schedule_moves: 20_000,
            ..Options::default()
        };
        let with = |targets: &[Target], objective: &Objective| {
            partition(
                &world.graph,
                targets,
                &world.costs,
                &world.links,
                objective,
                &options,
            )
        };
        let frugal_to_fast = front(
            &world.graph,
            &world.targets,
            &world.costs,
            &world.links,
            &options,
            MOST_OF_FRONT,
        );
        for (index, plan) in frugal_to_fast
            .context("front of plans")?
            .plans
            .into_iter()
            .enumerate()
        {
            add(format!("front {index}"), plan)?;
        }
        for (objective, name) in [
            (Objective::makespan(), "makespan"),
            (Objective::throughput(), "throughput"),
        ] {
            add(name.to_owned(), with(&world.targets, &objective)?)?;
        }
        for unit in 0..table.units.len() {
            // a unit alone where it runs everything, else with the CPU, which every phone has
            let alone = closed(world, |other| other == unit);
            let beside = closed(world, |other| other == unit || other == 0);
            let single = with(&alone, &Objective::latency()).or_else(|_| {
                let rare: Vec<Target> = beside.clone();
                with(&rare, &Objective::latency())
            });
            if let Ok(plan) = single {
                add(format!("only {}", table.units[unit].name), plan)?;
            }
            for objective in [Objective::latency(), Objective::energy(), Objective::throughput()] {
                if let Ok(plan) = with(&closed(world, |other| other != unit), &objective) {
                    let word = match objective.needs_energy() {
                        true => "frugal",
                        false if objective == Objective::latency() => "fast",
                        false => "throughput",
                    };
                    add(format!("{word} without {}", table.units[unit].name), plan)?;
                }
            }
        }
        Self::of(world, table, inferences, found)
    }

    /// The portfolio of given plans.
    ///
    /// # Errors
    /// A portfolio that no governor can work with.
    pub fn of(world: &World, table: &Table, inferences: usize, found: Vec<(String, Plan)>) -> Result<Self> {
        let mut made = Self {
            portfolio: Portfolio {
                devices: (0..table.units.len()).map(name).collect(),
                candidates: Vec::new(),
            },
            demands: Vec::new(),
            plans: Vec::new(),
            frames: Vec::new(),
        };
        for (name, plan) in found {
            let demand = Demand::new(world, &plan, inferences);
            let frame = demand.frame(&Pace::full());
            let energies: Vec<f64> = table
                .units
                .iter()
                .zip(frame.work_ns)
                .map(|(unit, ns)| unit.reference_mw() * ns / 1e6)
                .collect();
            // what memory and links take heats the package, and is nobody's alone
            let shared = (frame.link_nj + frame.bytes * table.memory.pj_per_byte / 1e3) / 1e3;
            let loads = energies
                .iter()
                .enumerate()
                .filter(|(unit, _)| frame.busy_ns[*unit] > 0.0);
            let loads = loads.map(|(unit, uj)| Load {
                device: unit,
                busy_ns: frame.busy_ns[unit].round() as u64,
                energy_uj: Some(uj.round() as u64),
            });
            let energy = energies.iter().sum::<f64>() + shared;
            let candidate = Candidate::new(&name, frame.latency_ns.round() as u64, loads.collect());
            made.portfolio
                .candidates
                .push(candidate.energy(energy.round() as u64));
            made.demands.push(demand);
            made.plans.push(plan);
            made.frames.push(frame);
        }
        made.portfolio.check()?;
        Ok(made)
    }
}

/// The targets, of which only some are in use.
fn closed(world: &World, open: impl Fn(usize) -> bool) -> Vec<Target> {
    let mut targets = world.targets.clone();
    for (index, target) in targets.iter_mut().enumerate() {
        if !open(index) {
            target.quarantined = Some("left out on purpose".to_owned());
        }
    }
    targets
}

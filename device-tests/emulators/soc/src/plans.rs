//! The portfolio: plans that the planner makes of a network on a table, each at the operating points that are worth it,
//! and what each asks of the units.
//!
//! Invariants:
//! 1. Every plan comes from the planner and passes its checker; no two plans place nodes alike.
//! 2. A lower operating point is kept where its frame is in time with nobody else, and where no other candidate takes
//!    less time and less energy on the same units or fewer.

use anyhow::{Context, Result};
use polychip::governor::{Candidate, Load, Point, Portfolio};
use polychip_partitioner::{Objective, Options, Plan, Request, Target, check, front, partition};

use crate::demand::{Demand, Frame, Pace};
use crate::network::{World, name};
use crate::table::{MOST_UNITS, Table};

/// Most plans of the front.
const MOST_OF_FRONT: usize = 6;

/// The level that a candidate asks of each unit.
pub type Levels = [u8; MOST_UNITS];

/// The plans of a table.
#[derive(Debug, Clone)]
pub struct Plans {
    /// What a governor is told.
    pub portfolio: Portfolio,
    /// What each candidate asks of the units.
    pub demands: Vec<Demand>,
    /// The planner's plans, of which [`Plans::base`] counts.
    pub plans: Vec<Plan>,
    /// Frames at the levels that are asked for, with nobody else.
    pub frames: Vec<Frame>,
    /// The plan of each candidate.
    pub base: Vec<usize>,
    /// The levels that each candidate asks for.
    pub levels: Vec<Levels>,
}

impl Plans {
    /// Plans for frames of so many inferences, in time where they take a period at most.
    ///
    /// # Errors
    /// Where the planner finds no plan at all, or one that its checker refuses.
    pub fn new(world: &World, table: &Table, inferences: usize, period_ns: u64) -> Result<Self> {
        let mut found: Vec<(String, Plan)> = Vec::new();
        let mut add = |name: String, plan: Plan| -> Result<()> {
            check(world.request(), &plan).map_err(|violation| anyhow::anyhow!("plan {name}: {violation}"))?;
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
        let request = world.request().with(&options);
        let with = |targets: &[Target], objective: Objective| {
            partition(Request {
                targets,
                objective,
                ..request
            })
        };
        let frugal_to_fast = front(request, MOST_OF_FRONT);
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
            add(name.to_owned(), with(&world.targets, objective)?)?;
        }
        for unit in 0..table.units.len() {
            // a unit alone where it runs everything, else with the CPU, which every phone has
            let alone = closed(world, |other| other == unit);
            let beside = closed(world, |other| other == unit || other == 0);
            let single = with(&alone, Objective::latency()).or_else(|_| {
                let rare: Vec<Target> = beside.clone();
                with(&rare, Objective::latency())
            });
            if let Ok(plan) = single {
                add(format!("only {}", table.units[unit].name), plan)?;
            }
            for objective in [Objective::latency(), Objective::energy(), Objective::throughput()] {
                if let Ok(plan) = with(&closed(world, |other| other != unit), objective) {
                    let word = match objective.needs_energy() {
                        true => "frugal",
                        false if objective == Objective::latency() => "fast",
                        false => "throughput",
                    };
                    add(format!("{word} without {}", table.units[unit].name), plan)?;
                }
            }
        }
        let mut made = Self::of(world, table, inferences, found)?;
        made.add_points(table, period_ns);
        made.portfolio.check()?;
        Ok(made)
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
            base: Vec::new(),
            levels: Vec::new(),
        };
        for (name, plan) in found {
            let demand = Demand::new(world, &plan, inferences);
            made.plans.push(plan);
            made.add(table, &name, made.plans.len() - 1, demand, [0; MOST_UNITS]);
        }
        made.portfolio.check()?;
        Ok(made)
    }

    /// Adds a plan at levels.
    fn add(&mut self, table: &Table, name: &str, base: usize, demand: Demand, levels: Levels) {
        let (frame, energies) = at_levels(table, &demand, &levels);
        // what memory and links take heats the package, and is nobody's alone
        let shared = (frame.link_nj + frame.bytes * table.memory.pj_per_byte / 1e3) / 1e3;
        let used = |unit: &usize| frame.busy_ns[*unit] > 0.0;
        let loads = (0..table.units.len()).filter(used).map(|unit| Load {
            device: unit,
            busy_ns: frame.busy_ns[unit].round() as u64,
            energy_uj: Some(energies[unit].round() as u64),
        });
        let points = (0..table.units.len())
            .filter(used)
            .filter(|&unit| levels[unit] > 0);
        let points = points.map(|unit| Point {
            device: unit,
            khz: table.units[unit].levels[levels[unit] as usize][0] * 1000,
        });
        let energy = energies.iter().sum::<f64>() + shared;
        let candidate = Candidate::new(name, frame.latency_ns.round() as u64, loads.collect());
        let candidate = candidate.at(points.collect()).energy(energy.round() as u64);
        self.portfolio.candidates.push(candidate);
        self.demands.push(demand);
        self.frames.push(frame);
        self.base.push(base);
        self.levels.push(levels);
    }

    /// Adds lower levels of the plans, all units of a plan by as many levels.
    fn add_points(&mut self, table: &Table, period_ns: u64) {
        let deepest = table
            .units
            .iter()
            .map(|unit| unit.levels.len())
            .max()
            .unwrap_or(1);
        for base in 0..self.portfolio.candidates.len() {
            for step in 1..deepest {
                let demand = self.demands[base].clone();
                let mut levels = [0; MOST_UNITS];
                for (unit, level) in levels.iter_mut().enumerate().take(table.units.len()) {
                    if self.frames[base].busy_ns[unit] > 0.0 {
                        *level = step.min(table.units[unit].levels.len() - 1) as u8;
                    }
                }
                let (frame, energies) = at_levels(table, &demand, &levels);
                let shared = (frame.link_nj + frame.bytes * table.memory.pj_per_byte / 1e3) / 1e3;
                let energy = energies.iter().sum::<f64>() + shared;
                let uses =
                    |found: &Candidate, unit: usize| found.loads.iter().any(|load| load.device == unit);
                let is_worse = self.portfolio.candidates.iter().any(|other| {
                    let subset = (0..table.units.len())
                        .all(|unit| !uses(other, unit) || uses(&self.portfolio.candidates[base], unit));
                    subset
                        && other.latency_ns as f64 <= frame.latency_ns
                        && other.energy_uj.is_some_and(|uj| uj as f64 <= energy)
                });
                if frame.latency_ns <= period_ns as f64 && !is_worse {
                    let name = format!("{} at level {step}", self.portfolio.candidates[base].name);
                    self.add(table, &name, base, demand, levels);
                }
            }
        }
    }
}

/// A frame at levels with nobody else, and what it takes of each unit in microjoules.
fn at_levels(table: &Table, demand: &Demand, levels: &Levels) -> (Frame, Vec<f64>) {
    let mut pace = Pace::full();
    for (unit, about) in table.units.iter().enumerate() {
        pace.speed[unit] = about.at_level(levels[unit] as usize).0;
    }
    let frame = demand.frame(&pace);
    let energy = |(unit, about): (usize, &crate::table::Unit)| {
        about.at_level(levels[unit] as usize).1 * frame.work_ns[unit] / 1e6
    };
    let energies = table.units.iter().enumerate().map(energy).collect();
    (frame, energies)
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

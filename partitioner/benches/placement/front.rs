//! Fronts of plans between fastest and most frugal, for graphs of about 1,000 nodes.
//!
//! Invariants: one core; every plan that is counted has passed the checker, and none beats another in both time
//! and energy; the time is that of the whole call, from tables to plans.

use std::time::Duration;

use polychip_partitioner::{check, front};
use serde::Serialize;

use crate::corpus::Corpus;
use crate::measure::{calibrate, time};
use crate::structure::Structure;
use crate::world::{DeviceTable, World};

/// Plans asked for.
const PLANS: usize = 10;

/// The goal: so many plans, where there are as many.
const GOAL: usize = 8;

/// One graph on one device table.
#[derive(Serialize)]
pub(crate) struct Row {
    graph: String,
    nodes: usize,
    devices: String,
    plans: usize,
    /// No other weights give another plan.
    complete: bool,
    /// Plans whose certificate says optimal under their weights.
    optimal: usize,
    /// Of the most frugal plan over the fastest.
    time_ratio: f64,
    /// Of the fastest plan over the most frugal.
    energy_ratio: f64,
    front_ns: u64,
    calibration_ns: u64,
}

impl Row {
    /// Whether there are fewer plans than the goal although there may be more.
    pub(crate) fn is_short(&self) -> Option<String> {
        (self.plans < GOAL && !self.complete).then(|| {
            format!(
                "{} on {}: {} plans, the goal is {GOAL}",
                self.graph, self.devices, self.plans
            )
        })
    }
}

/// Every family at its smallest size, on every device table.
pub(crate) fn rows(corpus: &Corpus, filter: &str) -> Vec<Row> {
    println!(
        "| graph | devices | nodes | plans | optimal | complete | time, most frugal over fastest | energy, fastest over \
         most frugal | front, ms | loop, ms |\n|---|---|---|---|---|---|---|---|---|---|"
    );
    let mut rows = Vec::new();
    for (family, _, sizes) in corpus.families_of(1) {
        for table in corpus.tables().iter().filter(|_| family.contains(filter)) {
            rows.push(row(&sizes[0], table));
        }
    }
    rows
}

fn row(structure: &Structure, table: &DeviceTable) -> Row {
    let world = World::new(structure, table, 1000, 0);
    let made = || front(world.request(), PLANS).expect("the first device runs everything");
    let calibration = calibrate();
    let found = made();
    let front_time = time(5, Duration::from_millis(400), made);
    let places: Vec<(u64, u64)> = found
        .plans
        .iter()
        .map(|plan| {
            check(world.request(), plan).expect("plans pass the check");
            let energy = plan.totals.energy.expect("every device has a power");
            (plan.totals.time.picoseconds(), energy.nanojoules())
        })
        .collect();
    for pair in places.windows(2) {
        assert!(
            pair[0].0 < pair[1].0 && pair[0].1 > pair[1].1,
            "{}: a plan beats another",
            structure.name
        );
    }
    let (fastest, frugal) = (places[0], places[places.len() - 1]);
    let row = Row {
        graph: structure.name.clone(),
        nodes: world.problem.nodes(),
        devices: table.name.clone(),
        plans: places.len(),
        complete: found.complete,
        optimal: found
            .plans
            .iter()
            .filter(|plan| plan.certificate.is_optimal())
            .count(),
        time_ratio: frugal.0 as f64 / fastest.0 as f64,
        energy_ratio: fastest.1 as f64 / frugal.1 as f64,
        front_ns: front_time.as_nanos() as u64,
        calibration_ns: calibration.as_nanos() as u64,
    };
    println!(
        "| {} | {} | {} | {} | {} | {} | {:.2} | {:.2} | {:.1} | {:.2} |",
        row.graph,
        row.devices,
        row.nodes,
        row.plans,
        row.optimal,
        if row.complete { "yes" } else { "no" },
        row.time_ratio,
        row.energy_ratio,
        row.front_ns as f64 / 1e6,
        row.calibration_ns as f64 / 1e6
    );
    row
}

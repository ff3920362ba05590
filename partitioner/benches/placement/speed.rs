//! How long planning takes and what it holds, from 1,000 to 100,000 nodes.
//!
//! Invariants: one core; the plan that is timed has passed the checker. `solve` is the priced problem to a placement
//! with its certificate, `plan` the whole call: checks, prices, solution, parts, crossings, totals.

use std::time::Duration;

use polychip_partitioner::check;
use polychip_partitioner::solve::{Budget, solve};
use serde::Serialize;

use crate::corpus::Corpus;
use crate::measure::{calibrate, peak_bytes, time};
use crate::structure::Structure;
use crate::world::{DeviceTable, World};

/// One size of one family.
#[derive(Serialize)]
pub(crate) struct Row {
    family: String,
    hubs: bool,
    nodes: usize,
    devices: String,
    objective: u64,
    bound: u64,
    solve_ns: u64,
    plan_ns: u64,
    calibration_ns: u64,
    peak_bytes: usize,
    plan_hash: String,
}

/// Times every family on the first device table, transfers as it says.
pub(crate) fn rows(corpus: &Corpus, filter: &str) -> Vec<Row> {
    let table = &corpus.tables()[0];
    let mut rows = Vec::new();
    println!(
        "| family | nodes | certificate | solve, ms | plan, ms | loop, ms | peak of solve, MB | plan hash |\n|---|---|---|---|---|---|---|---|"
    );
    for (family, hubs, sizes) in corpus.families() {
        if !family.contains(filter) {
            continue;
        }
        let of_family: Vec<Row> = sizes
            .iter()
            .map(|structure| row(&family, hubs, structure, table))
            .collect();
        if let Some(slope) = slope(&of_family) {
            println!("| {family} | log-log slope | | {slope:.2} | | | | |");
        }
        rows.extend(of_family);
    }
    for structure in corpus
        .wide()
        .iter()
        .filter(|structure| structure.name.contains(filter))
    {
        rows.push(row("wide", false, structure, table));
    }
    rows
}

fn row(family: &str, hubs: bool, structure: &Structure, table: &DeviceTable) -> Row {
    let world = World::new(structure, table, 1000, 0);
    let budget = Budget {
        table: 10_000_000,
        moves: 400,
        seed: 0,
    };
    let calibration = calibrate();
    let solved = || solve(&world.problem, &budget).expect("the first device runs everything");
    let peak_bytes = peak_bytes(solved);
    let solution = solved();
    let (least, budget) = if family == "wide" {
        (1, Duration::ZERO)
    } else {
        (10, Duration::from_millis(200))
    };
    let solve_time = time(least, budget, solved);
    let plan = world.plan();
    let plan_time = time(least.min(3), budget, || world.plan());
    check(world.request(), &plan).expect("plans pass the check");
    let row = Row {
        family: family.to_owned(),
        hubs,
        nodes: world.problem.nodes(),
        devices: table.name.clone(),
        objective: solution.objective,
        bound: solution.bound,
        solve_ns: solve_time.as_nanos() as u64,
        plan_ns: plan_time.as_nanos() as u64,
        calibration_ns: calibration.as_nanos() as u64,
        peak_bytes,
        plan_hash: blake3::hash(plan.to_json().as_bytes()).to_hex()[..16].to_owned(),
    };
    let certificate = match row.objective - row.bound {
        0 => "optimal".to_owned(),
        gap => format!("gap <= {:.2} %", 100.0 * gap as f64 / row.bound as f64),
    };
    println!(
        "| {} | {} | {certificate} | {:.2} | {:.2} | {:.2} | {:.1} | {} |",
        structure.name,
        row.nodes,
        row.solve_ns as f64 / 1e6,
        row.plan_ns as f64 / 1e6,
        row.calibration_ns as f64 / 1e6,
        row.peak_bytes as f64 / 1e6,
        row.plan_hash
    );
    row
}

/// The slope of time over nodes, both as logarithms, by least squares.
fn slope(rows: &[Row]) -> Option<f64> {
    let points: Vec<(f64, f64)> = rows
        .iter()
        .map(|r| ((r.nodes as f64).ln(), (r.solve_ns as f64).ln()))
        .collect();
    let count = points.len() as f64;
    let mean = |f: fn(&(f64, f64)) -> f64| points.iter().map(f).sum::<f64>() / count;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let across: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let along: f64 = points.iter().map(|p| (p.0 - x) * (p.0 - x)).sum();
    (points.len() > 1).then(|| across / along)
}

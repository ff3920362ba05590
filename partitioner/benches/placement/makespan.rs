//! Plans for devices that work at once, beside HEFT and PEFT, over the bound that no schedule beats.
//!
//! Invariants: every schedule is that of one machine (`polychip_partitioner::schedule` words it): launches are paid,
//! links carry one tensor at a time; HEFT and PEFT choose as published and are given the better of two orders, that
//! of their starts and the canonical one; every plan has passed the checker.

use std::time::Duration;

use polychip_partitioner::{DeviceIndex, Objective, Part, Plan, check, restate};
use serde::Serialize;

use crate::corpus::Corpus;
use crate::measure::{calibrate, time};
use crate::rules::list;
use crate::world::World;

/// Larger graphs are left out: the goal is about these.
const MOST_NODES: usize = 1000;

/// One instance; times in picoseconds.
#[derive(Serialize)]
pub(crate) struct Row {
    instance: String,
    graph: String,
    nodes: usize,
    devices: String,
    transfer_permille: u64,
    bound: u64,
    makespan: u64,
    serial: u64,
    heft: u64,
    peft: u64,
    parts: usize,
    plan_ns: u64,
}

impl Row {
    fn over(&self, value: u64) -> f64 {
        value as f64 / self.bound as f64
    }
}

/// Every graph of the corpus that is small enough, on every table and scale, with the first seed.
pub(crate) fn rows(corpus: &Corpus, filter: &str) -> Vec<Row> {
    let tables = corpus.tables();
    let small = |nodes: usize| nodes <= MOST_NODES;
    let mut rows = Vec::new();
    for structure in corpus
        .graphs()
        .iter()
        .filter(|s| s.name.contains(filter) && small(s.nodes.len()))
    {
        for table in &tables {
            for &permille in &corpus.transfer_scales_permille {
                let world = World::new(structure, table, permille, corpus.seeds[0]);
                let instance = format!("{}-{}-{permille}", structure.name, table.name);
                rows.push(row(instance, &structure.name, &table.name, permille, &world));
            }
        }
    }
    rows
}

fn row(instance: String, graph: &str, devices: &str, transfer_permille: u64, world: &World) -> Row {
    let request = world.request().toward(Objective::makespan());
    let made = || polychip_partitioner::partition(request).expect("the first device runs everything");
    let mut plan = None;
    let plan_time = time(1, Duration::ZERO, || plan = Some(made()));
    let plan = plan.expect("it was made at least once");
    check(request, &plan).expect("plans pass the check");
    let priced = |(order, placement): (Vec<usize>, Vec<usize>)| {
        let canonical = (0..placement.len()).collect::<Vec<_>>();
        let value = |order: &[usize]| {
            let plan = with_parts(&plan, order, &placement);
            let plan = restate(request, &plan).expect("every pair is linked");
            check(request, &plan).expect("plans pass the check");
            assert!(
                plan.certificate.objective >= plan.certificate.bound,
                "{instance}: below the bound"
            );
            plan.certificate.objective
        };
        value(&order).min(value(&canonical))
    };
    Row {
        graph: graph.to_owned(),
        nodes: world.problem.nodes(),
        devices: devices.to_owned(),
        transfer_permille,
        bound: plan.certificate.bound,
        makespan: plan.certificate.objective,
        serial: world.plan().totals.time.picoseconds(),
        heft: priced(list::heft_schedule(world)),
        peft: priced(list::peft_schedule(world)),
        parts: plan.parts.len(),
        plan_ns: plan_time.as_nanos() as u64,
        instance,
    }
}

/// A plan whose parts are the maximal runs of one device in an order; its figures are still the old plan's.
fn with_parts(plan: &Plan, order: &[usize], placement: &[usize]) -> Plan {
    let mut plan = plan.clone();
    let any = plan.parts[0].clone();
    plan.parts = order
        .chunk_by(|&a, &b| placement[a] == placement[b])
        .map(|run| {
            let mut nodes: Vec<u32> = run.iter().map(|&node| node as u32).collect();
            nodes.sort_unstable();
            Part {
                device: DeviceIndex::new(placement[run[0]]),
                nodes,
                ..any.clone()
            }
        })
        .collect();
    plan
}

fn geomean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value.ln(), count + 1.0));
    f64::exp(sum / f64::max(count, 1.0))
}

/// A column's name and time.
type Column = (&'static str, fn(&Row) -> u64);

/// Prints the tables and gives the geometric mean over the bound.
pub(crate) fn print(rows: &[Row]) -> f64 {
    let columns: [Column; 4] = [
        ("plan", |r| r.makespan),
        ("serial plan", |r| r.serial),
        ("HEFT", |r| r.heft),
        ("PEFT", |r| r.peft),
    ];
    println!(
        "Time over the lower bound, geometric mean (largest), {} instances\n",
        rows.len()
    );
    print!("| graph | devices | nodes |");
    columns.iter().for_each(|(name, _)| print!(" {name} |"));
    println!(" parts | planning, ms |\n|---|---|---|---|---|---|---|---|---|");
    let line = |graph: &str, devices: &str, nodes: String, rows: &[&Row]| {
        print!("| {graph} | {devices} | {nodes} |");
        for (_, value) in columns {
            let most = rows.iter().map(|row| row.over(value(row))).fold(0.0, f64::max);
            print!(
                " {:.3} ({most:.2}) |",
                geomean(rows.iter().map(|row| row.over(value(row))))
            );
        }
        let most = rows.iter().map(|row| row.parts).max().unwrap_or(0);
        let slowest = rows.iter().map(|row| row.plan_ns).max().unwrap_or(0);
        println!(" {most} | {:.0} |", slowest as f64 / 1e6);
    };
    let all: Vec<&Row> = rows.iter().collect();
    line("all", "all", String::new(), &all);
    for group in rows.chunk_by(|a, b| (&a.graph, &a.devices) == (&b.graph, &b.devices)) {
        let rows: Vec<&Row> = group.iter().collect();
        line(
            &group[0].graph,
            &group[0].devices,
            group[0].nodes.to_string(),
            &rows,
        );
    }
    println!("\nCalibration loop: {:.2} ms", calibrate().as_secs_f64() * 1e3);
    geomean(rows.iter().map(|row| row.over(row.makespan)))
}

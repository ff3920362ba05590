//! Runs that follow each other over many like devices: periods beside the bound, HiGHS, and published splits.
//!
//! Invariants: `throughput.json` states machines and published loads; every plan has passed the checker; a plan is
//! never below what HiGHS proved (`throughput_optima.json`), and an optimum is only compared under the hash of its
//! instance.
//! In the authors' model a transfer keeps both fpgas busy; in ours it keeps their link busy, and a plan is made for
//! that: where transfers are long, its split is a poor one by their model.
//! Deliberately not here: memory limits and colour classes of the inputs, which their short form leaves out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use polychip_partitioner::{
    Cost, CostTable, Link, LinkTable, Objective, Options, Provenance, Refusal, Target, Time, check, partition,
};
use serde::{Deserialize, Serialize};

use crate::corpus::{folder, json};
use crate::inputs::Input;
use crate::measure::time;
use crate::witness;
use crate::world::{self, Kind, World};

/// `throughput.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Setting {
    #[serde(rename = "about")]
    _about: String,
    instances: Vec<Instance>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Instance {
    graph: String,
    fpgas: usize,
    transfer_permille: u64,
    published_ms: Option<f64>,
}

/// What HiGHS found within its time: its best period, and what it proved that none is below.
#[derive(Deserialize)]
struct Found {
    hash: String,
    value: u64,
    bound: u64,
}

/// One instance; times in picoseconds.
#[derive(Serialize)]
pub(crate) struct Row {
    graph: String,
    nodes: usize,
    fpgas: usize,
    period: u64,
    bound: u64,
    /// HiGHS's best period and bound, where they are of this very instance.
    highs: Option<(u64, u64)>,
    /// The load of the plan's split by the authors' model, and the published one.
    authors: u64,
    published: Option<u64>,
    plan_ns: u64,
}

/// Every instance, with its problem dumped where a folder is given.
pub(crate) fn rows(inputs: Option<&Path>, dump: Option<&Path>) -> Result<Vec<Row>, String> {
    let setting: Setting = json(&folder().join("throughput.json"));
    let found: BTreeMap<String, Found> = json(&folder().join("throughput_optima.json"));
    let shipped = folder().join("corpus").join("public");
    let inputs = inputs.unwrap_or(&shipped);
    let mut rows = Vec::new();
    for instance in &setting.instances {
        let Some(input) = Input::read(inputs, &instance.graph)? else {
            println!("{}: not in {}", instance.graph, inputs.display());
            continue;
        };
        let (world, origin) = instance.world(&input);
        let name = format!("throughput-{}", instance.graph.replace('/', "-"));
        if let Some(folder) = dump {
            witness::dump(folder, &name, &world.problem);
        }
        let hash = witness::hash(&world.problem);
        let highs = found.get(&name).filter(|found| found.hash == hash);
        // what the witness bounds is one copy
        let options = Options {
            replicas: false,
            ..Options::default()
        };
        let request = world.request().toward(Objective::throughput()).with(&options);
        let mut plan = None;
        let plan_time = time(1, Duration::ZERO, || {
            plan = Some(partition(request));
        });
        let plan = plan.expect("it was made").expect("every node has a device");
        check(request, &plan).expect("plans pass the check");
        let period = plan.certificate.objective;
        if let Some(found) = highs
            && period < found.bound.saturating_sub(found.bound / 1_000_000)
        {
            return Err(format!(
                "{name}: period {period} is below {}, which HiGHS proved",
                found.bound
            ));
        }
        let devices = plan.devices_of_nodes(origin.len());
        let mut split = vec![0; origin.len()];
        for (node, device) in devices.into_iter().enumerate() {
            split[origin[node]] = device.expect("every node has a device").index();
        }
        rows.push(Row {
            graph: instance.graph.clone(),
            nodes: origin.len(),
            fpgas: instance.fpgas,
            period,
            bound: plan.certificate.bound,
            highs: highs.map(|found| (found.value, found.bound)),
            authors: instance.load(&input, &split),
            published: instance.published_ms.map(|ms| (ms * 1e9).round() as u64),
            plan_ns: plan_time.as_nanos() as u64,
        });
    }
    print(&rows);
    Ok(rows)
}

fn picoseconds(milliseconds: f64) -> u64 {
    (milliseconds * 1e9).round() as u64
}

impl Instance {
    /// The CPU, then the fpgas; a link takes what the inputs say of a tensor.
    fn world(&self, input: &Input) -> (World, Vec<usize>) {
        let (graph, origin) = world::graph(&input.structure);
        let (nodes, devices) = (origin.len(), self.fpgas + 1);
        let mut targets = vec![Target::new("cpu:0", nodes)];
        targets.extend((0..self.fpgas).map(|index| Target::new(&format!("fpga:{index}"), nodes)));
        let mut costs = CostTable::new(nodes, devices);
        for (node, &old) in origin.iter().enumerate() {
            let latency = &input.latencies[old];
            for (device, target) in targets.iter_mut().enumerate() {
                let ms = if device == 0 {
                    latency.cpu_ms
                } else {
                    latency.fpga_ms
                };
                let spent = Time::from_picoseconds(picoseconds(ms));
                costs.set_node(node, device, Cost::time(spent, Provenance::Estimated));
                if device > 0 && !latency.supported {
                    target.refusals[node] = Some(Refusal {
                        code: 1,
                        words: "supportedOnFpga".to_owned(),
                    });
                }
            }
        }
        let mut links = LinkTable::new(devices);
        for from in 0..devices {
            for to in (0..devices).filter(|&to| to != from) {
                // the inputs move 2^31 bytes in a second, or in a millisecond
                let rate = (1u64 << 31) * 1000 / self.transfer_permille;
                links.set(from, to, Link::copy(Time::ZERO, rate));
            }
        }
        let problem = world::problem(&graph, &targets, &costs, &links);
        let world = World {
            graph,
            targets,
            costs,
            links,
            problem,
            kinds: (0..devices)
                .map(|device| if device == 0 { Kind::Cpu } else { Kind::Npu })
                .collect(),
        };
        (world, origin)
    }

    /// The load of a split as the authors count it: an fpga is busy with its nodes, with each tensor that it
    /// reads from elsewhere, and with each that others read; a CPU core with its nodes alone.
    fn load(&self, input: &Input, split: &[usize]) -> u64 {
        let mut loads = vec![0u64; self.fpgas + 1];
        let moved = |node: usize| {
            let bytes = u128::from(input.structure.tensors[node].bytes);
            // 2^31 bytes in a second
            ((bytes * 1_000_000_000_000 * u128::from(self.transfer_permille) / 1000) >> 31) as u64
        };
        let mut read: BTreeSet<(usize, usize)> = BTreeSet::new();
        let mut sent: BTreeSet<usize> = BTreeSet::new();
        for (node, &device) in split.iter().enumerate() {
            let latency = &input.latencies[node];
            loads[device] += picoseconds(if device == 0 {
                latency.cpu_ms
            } else {
                latency.fpga_ms
            });
            for &from in input.structure.nodes[node]
                .reads
                .iter()
                .filter(|&&from| split[from] != device)
            {
                read.insert((from, device));
                sent.insert(from);
            }
        }
        for (from, device) in read.into_iter().filter(|&(_, device)| device > 0) {
            loads[device] += moved(from);
        }
        for from in sent.into_iter().filter(|&from| split[from] > 0) {
            loads[split[from]] += moved(from);
        }
        loads.into_iter().max().unwrap_or(0)
    }
}

fn print(rows: &[Row]) {
    println!(
        "| graph | nodes | fpgas | period, ms | over the bound | over HiGHS's best | over HiGHS's bound | load by the authors' model, ms | over the published split | planning, ms |"
    );
    println!("|{}", "---|".repeat(10));
    let ms = |ps: u64| ps as f64 / 1e9;
    let over = |a: u64, b: u64| a as f64 / b as f64;
    let ratio = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.4}"));
    for row in rows {
        println!(
            "| {} | {} | {} | {:.3} | {:.4} | {} | {} | {:.3} | {} | {:.0} |",
            row.graph,
            row.nodes,
            row.fpgas,
            ms(row.period),
            over(row.period, row.bound),
            ratio(row.highs.map(|(value, _)| over(row.period, value))),
            ratio(row.highs.map(|(_, bound)| over(row.period, bound))),
            ms(row.authors),
            ratio(row.published.map(|published| over(row.authors, published))),
            row.plan_ns as f64 / 1e6
        );
    }
    let mean = |values: Vec<f64>| {
        let count = values.len().max(1) as f64;
        (values.iter().map(|value| value.ln()).sum::<f64>() / count).exp()
    };
    println!(
        "\nGeometric means: {:.4} over the bound, {:.4} over HiGHS's best, {:.4} over its bound; with transfers that keep fpgas busy {:.4} over the published splits",
        mean(rows.iter().map(|row| over(row.period, row.bound)).collect()),
        mean(
            rows.iter()
                .filter_map(|row| Some(over(row.period, row.highs?.0)))
                .collect()
        ),
        mean(
            rows.iter()
                .filter_map(|row| Some(over(row.period, row.highs?.1)))
                .collect()
        ),
        mean(
            rows.iter()
                .filter_map(|row| Some(over(row.authors, row.published?)))
                .collect()
        )
    );
}

//! The public device-placement inputs on three devices, beside simple rules; launches free, then paid.
//!
//! Invariants: `public.json` states devices, scales and seeds, the inputs state the rest; every placement is priced
//! by the same objective; a tensor is moved once to each device that reads it.
//! Deliberately not here: how a file is read (`inputs`), how rules place (`rules`).

use std::path::Path;

use polychip_partitioner::{Cost, CostTable, Link, LinkTable, Provenance, Refusal, Target, Time};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::corpus::{folder, json};
use crate::inputs::{Input, Latency};
use crate::quality::{self, cell, summary};
use crate::rules::{ONNX_RUNTIME, SIMPLE};
use crate::world::{self, Kind, World};

/// `public.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Setting {
    #[serde(rename = "about")]
    _about: String,
    graphs: Vec<String>,
    seeds: Vec<u64>,
    transfer_scales_permille: Vec<u64>,
    devices: Vec<DeviceRow>,
    links: Vec<LinkRow>,
    launches: Launches,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceRow {
    name: String,
    kind: Kind,
    times: Times,
    permille: u64,
    dispatch_ns: u64,
    refused_permille: [u64; 2],
}

/// Which of an input's latencies prices a device.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
enum Times {
    #[serde(rename = "cpuLatency")]
    Cpu,
    #[serde(rename = "fpgaLatency")]
    Fpga,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkRow {
    between: [String; 2],
    permille: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Launches {
    #[serde(rename = "about")]
    _about: String,
    seeds: Vec<u64>,
    transfer_and_launch_permille: Vec<(u64, u64)>,
}

/// One instance and what every rule made of it.
#[derive(Serialize)]
pub(crate) struct Row {
    /// Of a launch on the GPU or NPU over the sum of each node's least cost.
    launch_permille: u64,
    #[serde(flatten)]
    quality: quality::Row,
}

impl Row {
    pub(crate) fn objective(&self) -> (&str, u64) {
        (&self.quality.instance, self.quality.objective)
    }
}

/// Every input that the folder has, on every scale and seed, with `visit` called on each world; prints the tables.
pub(crate) fn rows(
    inputs: Option<&Path>,
    seeds: usize,
    mut visit: impl FnMut(&str, &World),
) -> Result<Vec<Row>, String> {
    let setting: Setting = json(&folder().join("public.json"));
    let shipped = folder().join("corpus").join("public");
    let inputs = inputs.unwrap_or(&shipped);
    let mut rows = Vec::new();
    for name in &setting.graphs {
        let Some(input) = Input::read(inputs, name)? else {
            println!("{name}: not in {}", inputs.display());
            continue;
        };
        let free = setting
            .transfer_scales_permille
            .iter()
            .map(|&scale| (scale, 0, &setting.seeds));
        let launches = &setting.launches;
        let paid = launches.transfer_and_launch_permille.iter();
        for (transfers, launch, list) in
            free.chain(paid.map(|&(scale, launch)| (scale, launch, &launches.seeds)))
        {
            for &seed in list.iter().take(seeds) {
                let world = setting.world(&input, transfers, launch, seed);
                let instance = format!("{name}-{transfers}-{launch}-{seed}").replace('/', "-");
                visit(&instance, &world);
                rows.push(Row {
                    launch_permille: launch,
                    quality: quality::row(instance, name, "public", transfers, seed, &world),
                });
            }
        }
    }
    if rows.is_empty() {
        return Err(format!("{} has no input of public.json", inputs.display()));
    }
    println!();
    print(&setting, &rows);
    Ok(rows)
}

impl Setting {
    fn world(&self, input: &Input, transfer_permille: u64, launch_permille: u64, seed: u64) -> World {
        let (graph, origin) = world::graph(&input.structure);
        let links = self.links(transfer_permille);
        let (mut targets, costs) = self.prices(input, &origin, seed);
        let least = (0..origin.len()).map(|node| {
            let runs = (0..targets.len()).filter(|&device| targets[device].supports(node));
            let times = runs
                .filter_map(|device| costs.node(node, device))
                .map(|cost| cost.time.picoseconds());
            times.min().unwrap_or(0)
        });
        let launch = least.sum::<u64>() * launch_permille / 1000;
        for (target, device) in targets.iter_mut().zip(&self.devices) {
            let halves = if device.kind == Kind::Cpu { 1 } else { 2 };
            target.launch = Time::from_picoseconds(launch * halves / 2);
        }
        let problem = world::problem(&graph, &targets, &costs, &links);
        World {
            graph,
            targets,
            costs,
            links,
            problem,
            kinds: self.devices.iter().map(|device| device.kind).collect(),
        }
    }

    fn links(&self, transfer_permille: u64) -> LinkTable {
        let device = |name: &str| {
            let found = self.devices.iter().position(|device| device.name == name);
            found.expect("links are between devices of the setting")
        };
        let mut links = LinkTable::new(self.devices.len());
        for row in &self.links {
            let [a, b] = [device(&row.between[0]), device(&row.between[1])];
            let slower = row.permille * transfer_permille;
            let link = match slower {
                0 => Link::native(Time::ZERO),
                // the inputs move 2^31 bytes in a second
                _ => Link::copy(Time::ZERO, (1 << 31) * 1_000_000 / slower),
            };
            links.set(a, b, link);
            links.set(b, a, link);
        }
        links
    }

    fn prices(&self, input: &Input, origin: &[usize], seed: u64) -> (Vec<Target>, CostTable) {
        let nodes = origin.len();
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut below = |limit: u64| random.next_u64() % limit;
        let mut targets = Vec::with_capacity(self.devices.len());
        let mut costs = CostTable::new(nodes, self.devices.len());
        for (index, device) in self.devices.iter().enumerate() {
            let [low, high] = device.refused_permille;
            let share = low + below(high - low + 1);
            // drawn in the input's order, so that the canonical order may change without changing a price
            let refused: Vec<bool> = (0..nodes).map(|_| below(1000) < share).collect();
            let mut target = Target::new(&device.name, nodes);
            target.emulated = true;
            for (node, &old) in origin.iter().enumerate() {
                let latency = &input.latencies[old];
                if refused[old] || (device.times == Times::Fpga && !latency.supported) {
                    let words = if refused[old] { "drawn" } else { "supportedOnFpga" };
                    target.refusals[node] = Some(Refusal {
                        code: 1,
                        words: words.to_owned(),
                    });
                }
                costs.set_node(
                    node,
                    index,
                    Cost::time(device.time(latency), Provenance::Estimated),
                );
            }
            targets.push(target);
        }
        (targets, costs)
    }
}

impl DeviceRow {
    fn time(&self, latency: &Latency) -> Time {
        let milliseconds = match self.times {
            Times::Cpu => latency.cpu_ms,
            Times::Fpga => latency.fpga_ms,
        };
        // thousandths of a millisecond in picoseconds
        let picoseconds = (milliseconds * self.permille as f64 * 1e6).round() as u64;
        Time::from_picoseconds(picoseconds + self.dispatch_ns * 1000)
    }
}

/// Prints the tables; the goal of 1.3 is printed beside what was reached, since it hangs on the devices as much as on
/// the planner.
fn print(setting: &Setting, rows: &[Row]) {
    println!(
        "Cost over the plan's, geometric mean (largest); best of the five that count no transfers, and of all six\n"
    );
    print!("| transfers | launch | plans optimal |");
    SIMPLE.iter().for_each(|rule| print!(" {} |", rule.name));
    println!(" best of five | best of six |");
    println!("|{}", "---|".repeat(5 + SIMPLE.len()));
    let mut reached = Vec::new();
    let free = setting.transfer_scales_permille.iter().map(|&scale| (scale, 0));
    for (transfers, launch) in free.chain(setting.launches.transfer_and_launch_permille.iter().copied()) {
        let chosen = || {
            let all = rows.iter().filter(|row| row.launch_permille == launch);
            all.map(|row| &row.quality)
                .filter(|row| row.transfer_permille == transfers)
        };
        print!(
            "| x{} | {} % | {} of {} |",
            transfers as f64 / 1000.0,
            launch as f64 / 10.0,
            chosen().filter(|row| row.is_optimal()).count(),
            chosen().count()
        );
        for rule in SIMPLE {
            print!(
                " {} |",
                cell(summary(chosen().filter_map(|row| row.ratio(rule.name))))
            );
        }
        for count in [SIMPLE.len() - 1, SIMPLE.len()] {
            print!(
                " {} |",
                cell(summary(chosen().filter_map(|row| row.best_of(&SIMPLE[..count]))))
            );
        }
        println!();
        if launch == 0 {
            let mean = |rule: &str| {
                summary(chosen().filter_map(|row| row.ratio(rule))).map_or(0.0, |(mean, _)| mean)
            };
            reached.push(format!(
                "x{} {:.2} and {:.2}",
                transfers as f64 / 1000.0,
                mean("NPU>CPU"),
                mean(ONNX_RUNTIME)
            ));
        }
    }
    println!(
        "\n{ONNX_RUNTIME}'s rule with providers NPU, CPU and with NPU, GPU, CPU, goal 1.3: {}",
        reached.join("; ")
    );
    println!(
        "\nTransfers x1, launches free\n\n| graph | nodes | plan of the first seed, ms | {ONNX_RUNTIME} | best of six |"
    );
    println!("|---|---|---|---|---|");
    let plain = |row: &&Row| row.launch_permille == 0 && row.quality.transfer_permille == 1000;
    let plain: Vec<&quality::Row> = rows.iter().filter(plain).map(|row| &row.quality).collect();
    for group in plain.chunk_by(|a, b| a.graph == b.graph) {
        println!(
            "| {} | {} | {:.2} | {} | {} |",
            group[0].graph,
            group[0].nodes,
            group[0].objective as f64 / 1e9,
            cell(summary(group.iter().filter_map(|row| row.ratio(ONNX_RUNTIME)))),
            cell(summary(group.iter().filter_map(|row| row.best_of(SIMPLE))))
        );
    }
}

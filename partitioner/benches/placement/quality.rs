//! Plans against other rules, over graphs, device tables, transfer scales and seeds.
//!
//! Invariants: every placement, ours too, is priced by the same objective before parts are merged; a ratio is to
//! the certificate's bound's own placement, so where the certificate says `optimal` it is to the optimum.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::corpus::Corpus;
use crate::rules::{ONNX_RUNTIME, RUNTIMES, Rule, SIMPLE};
use crate::world::World;

/// One instance and what every rule made of it.
#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) instance: String,
    pub(crate) graph: String,
    pub(crate) nodes: usize,
    devices: String,
    pub(crate) transfer_permille: u64,
    seed: u64,
    pub(crate) objective: u64,
    bound: u64,
    /// Tensors that cross between devices, and parts, of the plan as it stands.
    cuts: usize,
    parts: usize,
    plan_hash: String,
    rules: Map<String, Value>,
}

impl Row {
    /// Of what a rule costs over the plan.
    pub(crate) fn ratio(&self, rule: &str) -> Option<f64> {
        Some(self.rules.get(rule)?.as_u64()? as f64 / self.objective as f64)
    }

    /// The least ratio of some rules.
    pub(crate) fn best_of(&self, rules: &[Rule]) -> Option<f64> {
        rules
            .iter()
            .filter_map(|rule| self.ratio(rule.name))
            .min_by(f64::total_cmp)
    }

    /// The least ratio of the simple rules.
    fn best_simple(&self) -> Option<f64> {
        self.best_of(SIMPLE)
    }

    pub(crate) fn is_optimal(&self) -> bool {
        self.objective == self.bound
    }
}

/// Every instance of the corpus, with `visit` called on each world.
pub(crate) fn rows(corpus: &Corpus, seeds: usize, mut visit: impl FnMut(&str, &World)) -> Vec<Row> {
    let tables = corpus.tables();
    let mut rows = Vec::new();
    for structure in corpus.graphs() {
        for table in &tables {
            for &permille in &corpus.transfer_scales_permille {
                for &seed in corpus.seeds.iter().take(seeds) {
                    let world = World::new(&structure, table, permille, seed);
                    let instance = format!("{}-{}-{permille}-{seed}", structure.name, table.name);
                    visit(&instance, &world);
                    rows.push(row(
                        instance,
                        &structure.name,
                        &table.name,
                        permille,
                        seed,
                        &world,
                    ));
                }
            }
        }
    }
    rows
}

/// What the planner and every rule make of one instance.
pub(crate) fn row(
    instance: String,
    graph: &str,
    devices: &str,
    transfer_permille: u64,
    seed: u64,
    world: &World,
) -> Row {
    let plan = world.plan();
    let placement: Vec<usize> = plan
        .devices_of_nodes(world.problem.nodes())
        .into_iter()
        .map(|device| device.expect("plans place every node").index())
        .collect();
    assert_eq!(
        world.problem.objective(&placement),
        Some(plan.certificate.objective),
        "{instance}: the plan's objective is not that of its placement"
    );
    let price = |rule: &Rule| {
        let priced = (world.problem.nodes() <= rule.most_nodes).then(|| {
            world
                .problem
                .objective(&(rule.place)(world))
                .expect("every pair of devices is linked")
        });
        (rule.name.to_owned(), priced.map_or(Value::Null, Value::from))
    };
    let rules: Map<String, Value> = RUNTIMES.iter().chain(SIMPLE).map(price).collect();
    for (rule, value) in &rules {
        assert!(
            value.as_u64().is_none_or(|value| value >= plan.certificate.bound),
            "{instance}: {rule} is below the bound"
        );
    }
    Row {
        graph: graph.to_owned(),
        nodes: world.problem.nodes(),
        devices: devices.to_owned(),
        transfer_permille,
        seed,
        objective: plan.certificate.objective,
        bound: plan.certificate.bound,
        cuts: plan
            .crossings
            .iter()
            .filter(|crossing| crossing.from_device != crossing.to_device)
            .count(),
        parts: plan.parts.len(),
        plan_hash: blake3::hash(plan.to_json().as_bytes()).to_hex()[..16].to_owned(),
        rules,
        instance,
    }
}

/// Geometric mean and largest of ratios; none where there is no ratio.
pub(crate) fn summary(ratios: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let (mut logs, mut most, mut count) = (0.0, 0f64, 0.0);
    for ratio in ratios {
        logs += ratio.ln();
        most = most.max(ratio);
        count += 1.0;
    }
    (count > 0.0).then(|| ((logs / count).exp(), most))
}

pub(crate) fn cell(summary: Option<(f64, f64)>) -> String {
    summary.map_or_else(|| "-".to_owned(), |(mean, most)| format!("{mean:.3} ({most:.1})"))
}

/// Prints the tables and gives, per transfer scale, the geometric mean over ONNX Runtime's rule.
pub(crate) fn print(corpus: &Corpus, rows: &[Row]) -> Vec<(u64, f64)> {
    let names = || RUNTIMES.iter().chain(SIMPLE).map(|rule| rule.name);
    println!(
        "Cost over the plan's, geometric mean (largest), {} instances\n",
        rows.len()
    );
    print!("| transfers | devices | plans optimal | largest gap |");
    names().for_each(|name| print!(" {name} |"));
    println!(" best of simple |");
    println!("|{}", "---|".repeat(5 + names().count()));
    let mut over = Vec::new();
    for &permille in &corpus.transfer_scales_permille {
        let mut tables: Vec<Option<&str>> = vec![None];
        for row in rows {
            if !tables.contains(&Some(row.devices.as_str())) {
                tables.push(Some(&row.devices));
            }
        }
        for table in tables {
            let chosen = || {
                rows.iter().filter(|row| {
                    row.transfer_permille == permille && table.is_none_or(|table| row.devices == table)
                })
            };
            let optimal = chosen().filter(|row| row.is_optimal()).count();
            let gap = chosen()
                .map(|row| row.objective as f64 / row.bound as f64 - 1.0)
                .fold(0.0, f64::max);
            print!(
                "| x{} | {} | {optimal} of {} | {:.2} % |",
                permille as f64 / 1000.0,
                table.unwrap_or("all"),
                chosen().count(),
                100.0 * gap
            );
            for name in names() {
                print!(" {} |", cell(summary(chosen().filter_map(|row| row.ratio(name)))));
            }
            println!(" {} |", cell(summary(chosen().filter_map(Row::best_simple))));
            if table.is_none() {
                let mean = summary(chosen().filter_map(|row| row.ratio(ONNX_RUNTIME)));
                over.extend(mean.map(|(mean, _)| (permille, mean)));
            }
        }
    }
    println!(
        "\n| graph | nodes | plans optimal | {ONNX_RUNTIME} | best of simple | cuts | parts |\n|---|---|---|---|---|---|---|"
    );
    for group in rows.chunk_by(|a, b| a.graph == b.graph) {
        let middle = |value: &dyn Fn(&Row) -> usize| {
            let mut values: Vec<usize> = group.iter().map(value).collect();
            values.sort_unstable();
            values[values.len() / 2]
        };
        println!(
            "| {} | {} | {} of {} | {} | {} | {} | {} |",
            group[0].graph,
            group[0].nodes,
            group.iter().filter(|row| row.is_optimal()).count(),
            group.len(),
            cell(summary(group.iter().filter_map(|row| row.ratio(ONNX_RUNTIME)))),
            cell(summary(group.iter().filter_map(Row::best_simple))),
            middle(&|row| row.cuts),
            middle(&|row| row.parts)
        );
    }
    println!("\nRules:");
    for rule in RUNTIMES.iter().chain(SIMPLE) {
        println!("- {}: {}", rule.name, rule.about);
    }
    over
}

//! Instances as JSON for an independent solver, and the optima that it proved (`optima.json`).
//!
//! Invariants: an optimum belongs to the hash of its instance: after any change of a graph, table or generator it
//! is not compared but reported as stale. `device-tests/witness/placement.py` makes the optima by HiGHS.

use std::collections::BTreeMap;
use std::path::Path;

use polychip_partitioner::problem::{FORBIDDEN, Problem, Source};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::corpus::folder;

/// What HiGHS found for an instance within its time limit.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Optimum {
    hash: String,
    /// The exact objective of HiGHS's placement, which it proved best within its tolerance of 1e-9.
    value: u64,
}

/// The committed optima by name of instance.
fn optima() -> BTreeMap<String, Optimum> {
    let path = folder().join("optima.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The instances of one section, as they are made, and the optima that HiGHS found.
pub(crate) struct Witness<'a> {
    optima: BTreeMap<String, Optimum>,
    /// Where instances go, if anywhere.
    folder: Option<&'a Path>,
    /// Hashes of the instances that have an optimum.
    hashes: BTreeMap<String, String>,
}

impl<'a> Witness<'a> {
    pub(crate) fn new(folder: Option<&'a Path>) -> Self {
        Self {
            optima: optima(),
            folder,
            hashes: BTreeMap::new(),
        }
    }

    /// An instance.
    pub(crate) fn see(&mut self, name: &str, problem: &Problem) {
        if let Some(folder) = self.folder {
            dump(folder, name, problem);
        }
        if self.optima.contains_key(name) {
            self.hashes.insert(name.to_owned(), hash(problem));
        }
    }

    /// Counts the verdicts on instances with their objectives, prints them and words every contradiction.
    pub(crate) fn judge<'b>(&self, objectives: impl Iterator<Item = (&'b str, u64)>) -> Vec<String> {
        let (mut counts, mut failed) = ([0; 4], Vec::new());
        for (instance, objective) in objectives {
            let Some((optimum, hash)) = self.optima.get(instance).zip(self.hashes.get(instance)) else {
                continue;
            };
            let verdict = optimum.judge(hash, objective);
            counts[verdict as usize] += 1;
            if verdict == Verdict::Above {
                failed.push(format!("{instance}: HiGHS proved another optimum"));
            }
        }
        println!(
            "\nHiGHS: {} instances equal to its optimum, {} below it within its tolerance, {} above, {} stale",
            counts[Verdict::Equal as usize],
            counts[Verdict::Below as usize],
            counts[Verdict::Above as usize],
            counts[Verdict::Stale as usize]
        );
        failed
    }
}

/// How our objective compares with a proved optimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The same, to the last picosecond.
    Equal,
    /// Ours is lower by less than the witness's tolerance.
    Below,
    /// The witness knows better.
    Above,
    /// The instance has changed since.
    Stale,
}

impl Optimum {
    fn judge(&self, hash: &str, objective: u64) -> Verdict {
        if hash != self.hash {
            return Verdict::Stale;
        }
        match objective.cmp(&self.value) {
            std::cmp::Ordering::Equal => Verdict::Equal,
            std::cmp::Ordering::Less if self.value - objective <= self.value / 1_000_000_000 + 1 => {
                Verdict::Below
            }
            _ => Verdict::Above,
        }
    }
}

/// An instance in the form of `device-tests/witness/highs.py`, with whole transfer tables.
fn instance(problem: &Problem) -> Value {
    let number = |cost: u64| (cost != FORBIDDEN).then_some(cost);
    let devices = problem.devices();
    let cost: Vec<Vec<Option<u64>>> = (0..problem.nodes())
        .map(|node| {
            (0..devices)
                .map(|device| number(problem.cost(node, device)))
                .collect()
        })
        .collect();
    let launch: Vec<u64> = (0..devices).map(|device| problem.launch(device)).collect();
    let tensors: Vec<Value> = problem
        .tensors()
        .iter()
        .map(|tensor| {
            let Source::Node(source) = tensor.source else {
                unreachable!("inputs of these graphs have no home")
            };
            json!({"source": source, "readers": tensor.readers, "transfer": &tensor.transfer[..]})
        })
        .collect();
    json!({"devices": devices, "cost": cost, "launch": launch, "tensors": tensors})
}

/// The hash of an instance.
pub(crate) fn hash(problem: &Problem) -> String {
    blake3::hash(instance(problem).to_string().as_bytes()).to_hex()[..16].to_owned()
}

/// Writes an instance for the witness.
pub(crate) fn dump(folder: &Path, name: &str, problem: &Problem) {
    let mut value = instance(problem);
    value["hash"] = Value::from(hash(problem));
    let path = folder.join(format!("{name}.json"));
    std::fs::write(&path, value.to_string()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

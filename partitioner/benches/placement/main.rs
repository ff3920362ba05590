//! PlacementBench: how good, how fast and how certain plans are, beside other rules. `cargo xtask placement-bench`.
//!
//! Invariants: graphs, device tables and seeds are in `corpus.json` and beside it; the same commit
//! prints the same figures on every host, apart from times; a broken promise (a rule below the
//! bound, a proved optimum below our "optimal") ends the program with an error.
//! Start reading at `world.rs`, which prices a graph on a device table.

#![forbid(unsafe_code)]
// a benchmark prints its tables
#![allow(clippy::print_stdout)]

mod corpus;
mod explain;
mod front;
mod generators;
mod inputs;
mod makespan;
mod measure;
mod public;
mod quality;
mod rules;
mod speed;
mod structure;
mod throughput;
mod witness;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;

use witness::Witness;

/// What the command line asks for.
struct Arguments {
    /// Sections: `speed`, `front`, `makespan`, `explain`, `quality`, `public`,
    /// `throughput`; none: all.
    sections: Vec<String>,
    /// Only families whose name holds this.
    only: String,
    /// So many seeds of the corpus.
    seeds: usize,
    /// Where the figures go as JSON.
    json: Option<PathBuf>,
    /// Where instances go for the witness.
    dump: Option<PathBuf>,
    /// Where the public inputs are, if not in `corpus/public`.
    inputs: Option<PathBuf>,
}

fn arguments() -> Result<Arguments, String> {
    let mut arguments = Arguments {
        sections: Vec::new(),
        only: String::new(),
        seeds: usize::MAX,
        json: None,
        dump: None,
        inputs: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            // what cargo bench adds
            "--bench" => {}
            "quality" | "speed" | "front" | "makespan" | "explain" | "public" | "throughput" => {
                arguments.sections.push(word)
            }
            "--only" => arguments.only = value()?,
            "--seeds" => arguments.seeds = value()?.parse().map_err(|error| format!("--seeds: {error}"))?,
            "--json" => arguments.json = Some(value()?.into()),
            "--dump" => arguments.dump = Some(value()?.into()),
            "--inputs" => arguments.inputs = Some(value()?.into()),
            _ => return Err(format!("unknown argument {word}")),
        }
    }
    Ok(arguments)
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!(
                "error: {error}; sections are speed, front, makespan, explain, quality, public and throughput, options --only, --seeds, --json, --dump and --inputs"
            );
            return ExitCode::from(2);
        }
    };
    let corpus = corpus::Corpus::read();
    let wanted =
        |section: &str| arguments.sections.is_empty() || arguments.sections.iter().any(|s| s == section);
    let mut failed = Vec::new();
    let (mut quality, mut speed) = (Vec::new(), Vec::new());
    if wanted("speed") {
        println!("## Time and memory of planning\n");
        speed = speed::rows(&corpus, &arguments.only);
        println!();
    }
    let mut fronts = Vec::new();
    if wanted("front") {
        println!("## Fronts of time and energy\n");
        fronts = front::rows(&corpus, &arguments.only);
        failed.extend(fronts.iter().filter_map(front::Row::is_short));
        println!();
    }
    let mut makespans = Vec::new();
    if wanted("makespan") {
        println!("## Devices at work at once\n");
        makespans = makespan::rows(&corpus, &arguments.only);
        let mean = makespan::print(&makespans);
        if mean > 1.08 {
            failed.push(format!(
                "makespan: {mean:.3} over the lower bound, the goal is 1.08"
            ));
        }
        println!();
    }
    let mut explained = None;
    if wanted("explain") {
        println!("## Reasons and counterfactuals\n");
        let found = explain::found(&corpus);
        failed.extend(found.failure());
        explained = Some(found);
        println!();
    }
    let mut public = Vec::new();
    if wanted("public") {
        println!("## Public device-placement inputs\n");
        let mut witness = Witness::new(arguments.dump.as_deref());
        let inputs = arguments.inputs.as_deref();
        match public::rows(inputs, arguments.seeds, |name, world| {
            witness.see(name, &world.problem)
        }) {
            Ok(rows) => public = rows,
            Err(error) => failed.push(error),
        }
        failed.extend(witness.judge(public.iter().map(public::Row::objective)));
        println!();
    }
    let mut throughput = Vec::new();
    if wanted("throughput") {
        println!("## Runs that follow each other\n");
        match throughput::rows(arguments.inputs.as_deref(), arguments.dump.as_deref()) {
            Ok(rows) => throughput = rows,
            Err(error) => failed.push(error),
        }
        println!();
    }
    if wanted("quality") {
        println!("## Plans beside other rules\n");
        let mut witness = Witness::new(arguments.dump.as_deref());
        quality = quality::rows(&corpus, arguments.seeds, |name, world| {
            witness.see(name, &world.problem);
        });
        for (permille, mean) in quality::print(&corpus, &quality) {
            if mean < 1.3 {
                failed.push(format!(
                    "transfers x{}: {mean:.3} over ONNX Runtime's rule, the goal is 1.3",
                    permille as f64 / 1000.0
                ));
            }
        }
        let objectives = quality.iter().map(|row| (row.instance.as_str(), row.objective));
        failed.extend(witness.judge(objectives));
    }
    if let Some(path) = &arguments.json {
        let value = serde_json::json!({
            "quality": quality, "speed": speed, "front": fronts, "makespan": makespans, "explain": explained,
            "public": public, "throughput": throughput
        });
        if let Err(error) = std::fs::write(path, format!("{value:#}\n")) {
            failed.push(format!("{}: {error}", path.display()));
        }
    }
    for failure in &failed {
        eprintln!("error: {failure}");
    }
    if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

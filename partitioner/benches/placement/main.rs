//! PlacementBench: how good, how fast and how certain plans are, beside other rules. `cargo xtask placement-bench`.
//!
//! Invariants: graphs, device tables and seeds stand in `corpus.json` and beside it; the same commit prints the
//! same figures on every host, apart from times; a broken promise (a rule below the bound, a proved optimum below
//! our "optimal") ends the program with an error.
//! Start reading at `world.rs`, which prices a graph on a device table.

#![forbid(unsafe_code)]
// a benchmark prints its tables
#![allow(clippy::print_stdout)]

mod corpus;
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
mod witness;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;

use witness::Verdict;

/// What the command line asks for.
struct Arguments {
    /// Sections: `speed`, `front`, `makespan`, `quality`, `public`; none: all.
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
            "quality" | "speed" | "front" | "makespan" | "public" => arguments.sections.push(word),
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
                "error: {error}; sections are speed, front, makespan, quality and public, options --only, --seeds, --json, --dump and --inputs"
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
    let mut public = Vec::new();
    if wanted("public") {
        println!("## Public device-placement inputs\n");
        match public::rows(arguments.inputs.as_deref(), arguments.seeds) {
            Ok(rows) => public = rows,
            Err(error) => failed.push(error),
        }
        println!();
    }
    if wanted("quality") {
        println!("## Plans beside other rules\n");
        let optima = witness::optima();
        let mut hashes = Vec::new();
        quality = quality::rows(&corpus, arguments.seeds, |name, world| {
            if let Some(folder) = &arguments.dump {
                witness::dump(folder, name, &world.problem);
            }
            hashes.push(optima.get(name).map(|_| witness::hash(&world.problem)));
        });
        for (permille, mean) in quality::print(&corpus, &quality) {
            if mean < 1.3 {
                failed.push(format!(
                    "transfers x{}: {mean:.3} over ONNX Runtime's rule, the goal is 1.3",
                    permille as f64 / 1000.0
                ));
            }
        }
        let mut counts = [0; 4];
        for (row, hash) in quality.iter().zip(&hashes) {
            let Some((optimum, hash)) = optima.get(&row.instance).zip(hash.as_ref()) else {
                continue;
            };
            let verdict = optimum.judge(hash, row.objective);
            counts[verdict as usize] += 1;
            if verdict == Verdict::Above {
                failed.push(format!("{}: HiGHS proved another optimum", row.instance));
            }
        }
        println!(
            "\nHiGHS: {} instances equal to its optimum, {} below it within its tolerance, {} above, {} stale",
            counts[Verdict::Equal as usize],
            counts[Verdict::Below as usize],
            counts[Verdict::Above as usize],
            counts[Verdict::Stale as usize]
        );
    }
    if let Some(path) = &arguments.json {
        let value = serde_json::json!({
            "quality": quality, "speed": speed, "front": fronts, "makespan": makespans, "public": public
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

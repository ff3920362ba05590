//! `polychip bench-llm`: tokens per second of prefill and decode.
//!
//! Invariants:
//! 1. A test starts with an empty KV cache, runs once as warm-up, and reports the median of its rounds.
//! 2. Tokens are random; sampling and text processing are not measured.

use std::time::Instant;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use schemars::JsonSchema;
use serde::Serialize;

use polychip_llm::{LanguageModel, Sequence};

use super::{LanguageArguments, PrecisionOutput, prepare};
use crate::exit::usage;
use crate::output::Output;
use crate::peak::peak_bytes;
use crate::progress::Progress;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Prompt lengths in tokens, separated by commas; 0 for none
    #[arg(short = 'p', long, value_name = "N", value_delimiter = ',', default_values_t = [512])]
    prompt: Vec<u32>,
    /// Tokens already in the context when a test begins
    #[arg(short = 'd', long, value_name = "N", default_value_t = 0)]
    depth: u32,
    /// Repetitions of each test
    #[arg(long, value_name = "R", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    model: LanguageArguments,
    /// Answer lengths in tokens, separated by commas; 0 for none
    #[arg(short = 'n', long, value_name = "N", value_delimiter = ',', default_values_t = [128])]
    answer: Vec<u32>,
}

/// Output of `bench-llm --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BenchLlmOutput {
    /// Model file.
    model: String,
    /// Bytes of the file.
    file_bytes: u64,
    /// Requested threads; null if the plugin chose.
    threads: Option<u32>,
    /// The precision that was computed in.
    precision: PrecisionOutput,
    /// The tests.
    tests: Vec<Test>,
    /// Peak memory of this process in bytes; null if the system does not report it.
    peak_bytes: Option<u64>,
}

/// A test.
#[derive(Debug, Serialize, JsonSchema)]
struct Test {
    /// `pp512`: a prompt of 512 tokens; `tg128`: an answer of 128; `tg128 @ d1000`: after 1000 tokens.
    name: String,
    /// Tokens per second, median of the rounds.
    tokens_per_s: f64,
    /// Tokens per second of each round.
    rounds: Vec<f64>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    let model = arguments.model.open_timed()?;
    let depth = u64::from(arguments.depth);
    let prompts = arguments.prompt.iter().map(|count| u64::from(*count));
    let answers = arguments.answer.iter().map(|count| depth + u64::from(*count));
    if let Some(longest) = prompts
        .chain(answers)
        .max()
        .filter(|longest| *longest > model.capacity() as u64)
    {
        return Err(usage(format!(
            "{longest} tokens exceed the context length of {} (--context)",
            model.capacity()
        )));
    }
    let mut sequence = model.sequence()?;
    let mut tests = Vec::new();
    for &count in arguments.prompt.iter().filter(|count| **count > 0) {
        prepare(&model, count as usize)?;
        let tokens = random(&model, count as usize);
        tests.push(test(arguments, format!("pp{count}"), count, || {
            sequence.truncate(0);
            let start = Instant::now();
            sequence.append(&tokens)?;
            Ok(start.elapsed().as_secs_f64())
        })?);
    }
    for &count in arguments.answer.iter().filter(|count| **count > 0) {
        let depth = arguments.depth as usize;
        prepare(&model, depth)?;
        let tokens = random(&model, depth + count as usize);
        let name = match depth {
            0 => format!("tg{count}"),
            depth => format!("tg{count} @ d{depth}"),
        };
        tests.push(test(arguments, name, count, || {
            answer(&mut sequence, &tokens, depth)
        })?);
    }
    let answer = BenchLlmOutput {
        model: arguments.model.model.display().to_string(),
        file_bytes: model.file_bytes(),
        threads: arguments.model.plan.threads,
        precision: PrecisionOutput::of(&model),
        tests,
        peak_bytes: peak_bytes(),
    };
    if arguments.json {
        out.json(&answer)
    } else {
        out.text(&table(&answer))
    }
}

/// Seconds of the tokens behind the first `depth`, one by one.
fn answer(sequence: &mut Sequence, tokens: &[u32], depth: usize) -> anyhow::Result<f64> {
    if sequence.len() < depth {
        sequence.truncate(0);
        sequence.append(&tokens[..depth])?;
    }
    sequence.truncate(depth);
    let start = Instant::now();
    for token in &tokens[depth..] {
        sequence.append(&[*token])?;
    }
    Ok(start.elapsed().as_secs_f64())
}

pub(super) fn random(model: &LanguageModel, count: usize) -> Vec<u32> {
    let mut random = ChaCha8Rng::seed_from_u64(count as u64);
    (0..count)
        .map(|_| random.next_u32() % model.sizes().vocabulary)
        .collect()
}

fn test(
    arguments: &Arguments,
    name: String,
    count: u32,
    mut run: impl FnMut() -> anyhow::Result<f64>,
) -> anyhow::Result<Test> {
    let progress = Progress::steps(&name, u64::from(arguments.rounds) + 1);
    run()?;
    let mut rounds = Vec::new();
    for _ in 0..arguments.rounds {
        progress.step();
        rounds.push(f64::from(count) / run()?.max(1e-9));
    }
    let mut sorted = rounds.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    Ok(Test {
        name,
        tokens_per_s: (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0,
        rounds,
    })
}

fn table(answer: &BenchLlmOutput) -> String {
    use std::fmt::Write as _;
    let mut text = format!(
        "{:<24} {:>12} {:>12} {:>12}\n",
        "test", "tokens/s", "least", "most"
    );
    for test in &answer.tests {
        let least = test.rounds.iter().copied().fold(f64::INFINITY, f64::min);
        let most = test.rounds.iter().copied().fold(0.0, f64::max);
        // a string takes whatever is written
        let _ = writeln!(
            text,
            "{:<24} {:>12.1} {least:>12.1} {most:>12.1}",
            test.name, test.tokens_per_s
        );
    }
    let _ = writeln!(
        text,
        "precision: {} ({})",
        answer.precision.chosen, answer.precision.reason
    );
    if let Some(bytes) = answer.peak_bytes {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let _ = writeln!(
            text,
            "peak process memory: {:.1} MiB, the file has {:.1}",
            mib(bytes),
            mib(answer.file_bytes)
        );
    }
    text
}

//! `polychip phases`: chunk costs on each device, and prefill and decode placement.
//!
//! Invariants:
//! 1. Costs are measured with a sequence's own operations, or read from a file that names model, devices and
//!    settings.
//! 2. With `--check`, every fixed choice of prefill device, chunk size and decode device runs in alternation with the
//!    plan, or is listed with the predicted time that excluded it.
//! 3. A requested prompt that is not planned is reported.

use std::path::PathBuf;

use polychip_llm::LanguageModel;
use polychip_llm::prefill_decode::{FixedPhases, MeasurePhases, PhaseCosts, PhaseLimits, PhasePlan};
use schemars::JsonSchema;
use serde::Serialize;

use super::LanguageArguments;
use crate::exit::usage;
use crate::file;
use crate::output::Output;
use crate::progress::Progress;

mod check;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Prompt lengths to plan for, in tokens, separated by commas
    #[arg(short = 'p', long, value_name = "N", value_delimiter = ',', default_values_t = [32, 128, 512, 2048],
          value_parser = clap::value_parser!(u32).range(1..))]
    prompt: Vec<u32>,
    /// Answer length in tokens
    #[arg(short = 'n', long, value_name = "N", default_value_t = 128)]
    answer: u32,
    /// Timed runs of each chunk size on each device
    #[arg(long, value_name = "R", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Write the costs to this file, for `--phases` of other commands
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Run the plan of each prompt and every fixed placement, and report the plan's distance from the best one
    #[arg(long)]
    check: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    // last: a heading is that of all options behind it
    #[command(flatten)]
    model: LanguageArguments,
}

/// Output of `phases --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PhasesOutput {
    /// Model file.
    model: String,
    /// At least one figure is an emulated device's.
    emulated: bool,
    /// What was measured.
    devices: Vec<Device>,
    /// Plans by length of the prompt.
    plans: Vec<Plan>,
    /// Main prefill device by prompt length, shortest first.
    readers: Vec<Reader>,
    /// Decode device by number of positions.
    answerers: Vec<DecodeRange>,
}

/// Costs of a device.
#[derive(Debug, Serialize, JsonSchema)]
struct Device {
    /// Device, `plugin:index`.
    device: String,
    /// Whether the device is emulated.
    emulated: bool,
    /// Bytes of weights and of its sessions' other memory.
    memory_bytes: u64,
    /// Mean power in milliwatts, if plans know it.
    power_mw: Option<f64>,
    /// Extra nanoseconds of its first chunk after another device ran.
    entry_ns: f64,
    /// Chunks, the largest first.
    chunks: Vec<Chunk>,
    /// Unused parts of it, with the reason.
    refused: Vec<String>,
}

/// Cost of a chunk.
#[derive(Debug, Serialize, JsonSchema)]
struct Chunk {
    /// Tokens.
    rows: usize,
    /// Nanoseconds after no earlier position.
    base_ns: f64,
    /// Nanoseconds for each position read before, of the first ones.
    per_position_ns: f64,
    /// Cost of later positions.
    #[serde(skip_serializing_if = "Option::is_none")]
    beyond: Option<Beyond>,
}

/// Cost of a position after many others.
#[derive(Debug, Serialize, JsonSchema)]
struct Beyond {
    /// Number of positions with the cost of the first.
    past: usize,
    /// Nanoseconds per position after these.
    per_position_ns: f64,
}

/// A plan.
#[derive(Debug, Serialize, JsonSchema)]
struct Plan {
    /// Tokens of the prompt.
    prompt: usize,
    /// Answer length in tokens.
    answer: usize,
    /// The chunks of the prompt in order, `device x tokens`, equal neighbours as one with a count.
    reads: Vec<String>,
    /// The parts of the answer in order, `device x tokens`.
    answers: Vec<String>,
    /// Predicted nanoseconds of the prompt.
    prompt_ns: f64,
    /// Predicted nanoseconds of the answer.
    answer_ns: f64,
    /// Bytes that the devices of the plan keep.
    memory_bytes: u64,
    /// Objective in nanoseconds: time, and energy at its price.
    objective_ns: f64,
    /// No plan has less.
    bound_ns: f64,
    /// Result of running it; null without `--check`.
    check: Option<check::Checked>,
}

/// Range of prompt lengths with the same main prefill device.
#[derive(Debug, Serialize, JsonSchema)]
struct Reader {
    /// Shortest prompt, in tokens.
    from: usize,
    /// Longest examined prompt in tokens.
    to: usize,
    /// The device that reads most of it: a short rest may be another one's.
    device: String,
}

/// Range of positions with the same decode device.
#[derive(Debug, Serialize, JsonSchema)]
struct DecodeRange {
    /// Positions before the first token.
    from: usize,
    /// The device.
    device: String,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    if let Some(file) = &arguments.output {
        file::check_place(file)?;
    }
    let model = arguments.model.unplaced()?;
    let room = model.capacity().saturating_sub(arguments.answer as usize);
    if arguments.prompt.iter().all(|prompt| *prompt as usize > room) {
        return Err(usage(format!(
            "none of these prompts fits the context length of {} tokens (--context) together with an answer of {}",
            model.capacity(),
            arguments.answer
        )));
    }
    let limits = arguments.model.phase_limits();
    let costs = match &arguments.model.phases {
        Some(file) => super::costs(file)?,
        None => measured(&model, arguments)?,
    };
    if let Some(file) = &arguments.output {
        super::keep_costs(file, &costs)?;
    }
    model.place_phases(costs.clone(), limits.clone())?;
    let answer = arguments.answer as usize;
    let mut plans = Vec::new();
    for &prompt in &arguments.prompt {
        let prompt = prompt as usize;
        if prompt > room {
            eprintln!(
                "warning: not planned: a prompt of {prompt} and an answer of {answer} tokens exceed the context length of {} (--context)",
                model.capacity()
            );
            continue;
        }
        let planned = planned(&model, prompt, answer)?;
        let check = if arguments.check {
            Some(check::check(&model, &costs, &limits, &planned, arguments.rounds)?)
        } else {
            None
        };
        plans.push(plan(&costs, &planned, check));
    }
    let answer = PhasesOutput {
        model: arguments.model.model.display().to_string(),
        emulated: costs.devices.iter().any(|cost| cost.emulated),
        readers: readers(&model, &costs, answer, room)?,
        answerers: answerers(&model, &costs)?,
        devices: costs.devices.iter().map(device).collect(),
        plans,
    };
    if arguments.json {
        return out.json(&answer);
    }
    out.text(&text(&answer))
}

fn measured(model: &LanguageModel, arguments: &Arguments) -> anyhow::Result<PhaseCosts> {
    let progress = Progress::told("measuring phases");
    let how = MeasurePhases {
        rounds: arguments.rounds as usize,
        ..MeasurePhases::default()
    };
    Ok(model.measure_phases(&how, &mut |done, total, what| {
        progress.at(done as u64, total as u64, what.to_owned());
    })?)
}

fn planned(model: &LanguageModel, prompt: usize, answer: usize) -> anyhow::Result<PhasePlan> {
    match model.phase_plan(prompt, answer) {
        Some(plan) => Ok(plan?),
        None => anyhow::bail!("prefill and decode are not placed"),
    }
}

fn device(cost: &polychip_llm::prefill_decode::DeviceCost) -> Device {
    Device {
        device: cost.device.clone(),
        emulated: cost.emulated,
        memory_bytes: cost.memory_bytes,
        power_mw: cost.power_mw,
        entry_ns: cost.entry_ns,
        chunks: cost
            .chunks
            .iter()
            .map(|chunk| Chunk {
                rows: chunk.rows,
                base_ns: chunk.base_ns,
                per_position_ns: chunk.per_position_ns,
                beyond: chunk.beyond.map(|beyond| Beyond {
                    past: beyond.past,
                    per_position_ns: beyond.per_position_ns,
                }),
            })
            .collect(),
        refused: cost.refused.clone(),
    }
}

fn plan(costs: &PhaseCosts, plan: &PhasePlan, check: Option<check::Checked>) -> Plan {
    let name = |device: usize| costs.devices[device].device.clone();
    let mut reads: Vec<(String, usize)> = Vec::new();
    for chunk in &plan.prompt {
        let words = format!("{} x {}", name(chunk.device), chunk.tokens);
        match reads.last_mut() {
            Some((last, count)) if *last == words => *count += 1,
            _ => reads.push((words, 1)),
        }
    }
    let counted = |(words, count): (String, usize)| match count {
        1 => words,
        count => format!("{words} ({count} times)"),
    };
    let answers = plan.answer.iter();
    Plan {
        prompt: plan.workload.prompt,
        answer: plan.workload.answer,
        reads: reads.into_iter().map(counted).collect(),
        answers: answers
            .map(|run| format!("{} x {}", name(run.device), run.tokens))
            .collect(),
        prompt_ns: plan.prompt_ns,
        answer_ns: plan.answer_ns,
        memory_bytes: plan.memory_bytes,
        objective_ns: plan.objective_ns,
        bound_ns: plan.bound_ns,
        check,
    }
}

/// The lengths at which the reading devices change: every length up to 512 is planned, and each 32nd above.
fn readers(
    model: &LanguageModel,
    costs: &PhaseCosts,
    answer: usize,
    room: usize,
) -> anyhow::Result<Vec<Reader>> {
    let _progress = Progress::of("searching for the lengths at which the device changes");
    let mut found: Vec<Reader> = Vec::new();
    let lengths = (1..=room.min(512)).chain((544..=room.min(4096)).step_by(32));
    for length in lengths {
        let mut tokens = vec![0; costs.devices.len()];
        for chunk in &planned(model, length, answer)?.prompt {
            tokens[chunk.device] += chunk.tokens;
        }
        let most = (0..tokens.len())
            .max_by_key(|&device| tokens[device])
            .unwrap_or(0);
        let device = costs.devices[most].device.clone();
        match found.last_mut() {
            Some(last) if last.device == device => last.to = length,
            _ => found.push(Reader {
                from: length,
                to: length,
                device,
            }),
        }
    }
    Ok(found)
}

/// The positions at which the answering device changes.
fn answerers(model: &LanguageModel, costs: &PhaseCosts) -> anyhow::Result<Vec<DecodeRange>> {
    let plan = planned(model, 1, model.capacity() - 1)?;
    Ok(plan
        .answer
        .iter()
        .map(|run| DecodeRange {
            from: run.past,
            device: costs.devices[run.device].device.clone(),
        })
        .collect())
}

fn text(answer: &PhasesOutput) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    let ms = |ns: f64| format!("{:.2}", ns / 1e6);
    // a string takes whatever is written
    for device in &answer.devices {
        let emulated = if device.emulated { " (emulated)" } else { "" };
        let _ = writeln!(
            text,
            "{}{emulated}: {:.0} MiB{}",
            device.device,
            device.memory_bytes as f64 / f64::from(1 << 20),
            device.power_mw.map_or(String::new(), |mw| format!(
                ", {:.1} W by the plans' estimates",
                mw / 1e3
            )),
        );
        for chunk in device.chunks.iter().rev() {
            let _ = writeln!(
                text,
                "  {:>4} tokens: {:>9} ms, plus {:.3} ms per 1000 earlier positions{}",
                chunk.rows,
                ms(chunk.base_ns),
                chunk.per_position_ns * 1e3 / 1e6,
                chunk.beyond.as_ref().map_or(String::new(), |beyond| format!(
                    ", {:.3} beyond {}",
                    beyond.per_position_ns * 1e3 / 1e6,
                    beyond.past
                ))
            );
        }
        for refused in &device.refused {
            let _ = writeln!(text, "  not used: {refused}");
        }
    }
    for plan in &answer.plans {
        let _ = writeln!(
            text,
            "a prompt of {} and an answer of {} tokens: prefill on {}; decode on {}; predicted {} ms and {} ms, {}",
            plan.prompt,
            plan.answer,
            plan.reads.join(", "),
            plan.answers.join(", "),
            ms(plan.prompt_ns),
            ms(plan.answer_ns),
            if plan.objective_ns <= plan.bound_ns * (1.0 + 1e-9) + 1e-3 {
                "optimal".to_owned()
            } else {
                format!(
                    "within {:.2} % of the optimum",
                    (plan.objective_ns / plan.bound_ns.max(1.0) - 1.0) * 100.0
                )
            },
        );
        if let Some(check) = &plan.check {
            let _ = writeln!(text, "{}", check.text());
        }
    }
    for reader in &answer.readers {
        let _ = writeln!(
            text,
            "prompts of {} to {} tokens: prefill on {}",
            reader.from, reader.to, reader.device
        );
    }
    for answerer in &answer.answerers {
        let _ = writeln!(
            text,
            "from {} positions: decode on {}",
            answerer.from, answerer.device
        );
    }
    text
}

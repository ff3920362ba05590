//! Runs a plan and every fixed placement in alternation.
//!
//! Invariants:
//! 1. All devices run a load before each run, so that no placement finds a device idle at low clocks: costs apply to
//!    busy devices.
//! 2. A plan equal to a fixed placement shares its times: it is the same run, and differences are chance.

use std::time::{Duration, Instant};

use polychip_llm::{LanguageModel, Sequence, TokenId};
use schemars::JsonSchema;
use serde::Serialize;

use polychip_llm::prefill_decode::{PhaseShare, Workload};
use polychip_profile::median;

use super::{FixedPhases, PhaseCosts, PhaseLimits, PhasePlan};
use crate::progress::Progress;

/// Fewest tokens of a chunk that a fixed placement reads a prompt in.
const LEAST_ROWS: usize = 8;

/// Fixed placements of which so many times the plan's time is predicted are counted by that, and not run.
const HOPELESS: f64 = 3.0;

/// Before a placement is run, each device is at work for so long.
const WARM: Duration = Duration::from_millis(100);

/// Most tokens of a chunk by which that is done.
const WARM_ROWS: usize = 128;

/// Result of running a plan.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Checked {
    /// Measured nanoseconds of the prompt, median.
    prompt_ns: u64,
    /// Measured nanoseconds of the answer, median.
    answer_ns: u64,
    /// Error of the total prediction, relative to the measurement.
    prediction_error: f64,
    /// The whole, over the whole of the best fixed placement.
    of_best_fixed: f64,
    /// Whether the plan equals a fixed placement; the times then belong to both.
    is_fixed: bool,
    /// The fixed placements, the best first.
    fixed: Vec<Fixed>,
    /// Fixed placements that did not run, predicted to take at least three times the plan's time.
    not_run: Vec<Hopeless>,
}

/// A fixed placement.
#[derive(Debug, Serialize, JsonSchema)]
struct Fixed {
    /// The device that read.
    prompt: String,
    /// Tokens of its chunks.
    rows: usize,
    /// The device that answered.
    answer: String,
    /// Measured nanoseconds of the prompt, median.
    prompt_ns: u64,
    /// Measured nanoseconds of the answer, median.
    answer_ns: u64,
}

/// A fixed placement that did not run.
#[derive(Debug, Serialize, JsonSchema)]
struct Hopeless {
    /// The device that would read.
    prompt: String,
    /// Tokens of its chunks.
    rows: usize,
    /// The device that would answer.
    answer: String,
    /// Predicted nanoseconds of all.
    predicted_ns: f64,
}

impl Checked {
    pub(super) fn text(&self) -> String {
        let ms = |ns: u64| ns as f64 / 1e6;
        let mut text = format!(
            "  measured {:.2} ms and {:.2} ms: {:.1} % off the prediction, {:.3}× the best fixed placement",
            ms(self.prompt_ns),
            ms(self.answer_ns),
            self.prediction_error * 100.0,
            self.of_best_fixed
        );
        for fixed in &self.fixed {
            text.push_str(&format!(
                "\n    {} in chunks of {}, then {}: {:.2} ms and {:.2} ms",
                fixed.prompt,
                fixed.rows,
                fixed.answer,
                ms(fixed.prompt_ns),
                ms(fixed.answer_ns)
            ));
        }
        if !self.not_run.is_empty() {
            text.push_str(&format!(
                "\n    not run: {} others, predicted to take at least three times the plan's time",
                self.not_run.len()
            ));
        }
        text
    }
}

/// Keeps every device at work for a while.
fn warm(
    model: &LanguageModel,
    costs: &PhaseCosts,
    sequence: &mut Sequence,
    text: &[TokenId],
) -> anyhow::Result<()> {
    for (device, cost) in costs.devices.iter().enumerate() {
        let chunk = cost.chunks.iter().find(|chunk| chunk.rows <= WARM_ROWS);
        let Some(rows) = chunk.map(|chunk| chunk.rows).filter(|_| !cost.emulated) else {
            continue;
        };
        let fixed = FixedPhases {
            prompt: device,
            rows,
            answer: device,
        };
        model.fix_phases(costs.clone(), fixed)?;
        let start = Instant::now();
        while start.elapsed() < WARM {
            sequence.truncate(0);
            sequence.append(&text[..rows.min(text.len())])?;
        }
    }
    Ok(())
}

/// The fixed placement that a plan is.
fn as_fixed(plan: &PhasePlan) -> Option<FixedPhases> {
    let (first, rest) = plan.prompt.split_first()?;
    let [answer] = &plan.answer[..] else {
        return None;
    };
    let alike = rest
        .iter()
        .all(|chunk| (chunk.device, chunk.rows) == (first.device, first.rows));
    alike.then_some(FixedPhases {
        prompt: first.device,
        rows: first.rows,
        answer: answer.device,
    })
}

/// Nanoseconds of the prompts and answers of one placement.
type Times = (Vec<u64>, Vec<u64>);

/// Runs the plan and the fixed placements in turns.
pub(super) fn check(
    model: &LanguageModel,
    costs: &PhaseCosts,
    limits: &PhaseLimits,
    plan: &PhasePlan,
    rounds: u32,
) -> anyhow::Result<Checked> {
    let mut ways: Vec<Option<FixedPhases>> = vec![None];
    let mut not_run = Vec::new();
    for (prompt, cost) in costs.devices.iter().enumerate() {
        for chunk in cost.chunks.iter().filter(|chunk| chunk.rows >= LEAST_ROWS) {
            for (answer, other) in costs.devices.iter().enumerate() {
                let Some(token) = other.chunk(1) else {
                    continue;
                };
                let Workload {
                    prompt: tokens,
                    answer: answered,
                    ..
                } = plan.workload;
                let read = (0..tokens).step_by(chunk.rows).map(|past| chunk.at(past));
                let predicted_ns = read.sum::<f64>()
                    + (tokens..tokens + answered)
                        .map(|past| token.at(past))
                        .sum::<f64>();
                if predicted_ns > plan.total_ns() * HOPELESS {
                    not_run.push(Hopeless {
                        prompt: cost.device.clone(),
                        rows: chunk.rows,
                        answer: other.device.clone(),
                        predicted_ns,
                    });
                    continue;
                }
                ways.push(Some(FixedPhases {
                    prompt,
                    rows: chunk.rows,
                    answer,
                }));
            }
        }
    }
    let (prompt, answer) = (plan.workload.prompt, plan.workload.answer);
    let tokens = super::super::bench::random(model, prompt + answer);
    let mut times: Vec<Times> = vec![(Vec::new(), Vec::new()); ways.len()];
    let progress = Progress::steps("running every placement", u64::from(rounds) + 1);
    // one sequence for each: a sequence keeps where its devices see the memory
    let mut sequences = Vec::new();
    for _ in &ways {
        sequences.push(model.sequence()?);
    }
    let mut warmer = model.sequence()?;
    let mut moved = false;
    for round in 0..=rounds {
        for ((way, times), sequence) in ways.iter().zip(&mut times).zip(&mut sequences) {
            warm(model, costs, &mut warmer, &tokens)?;
            match way {
                Some(fixed) => model.fix_phases(costs.clone(), *fixed)?,
                None => model.place_phases(costs.clone(), limits.clone())?,
            }
            sequence.truncate(0);
            sequence.reset_phases();
            let start = Instant::now();
            sequence.append(&tokens[..prompt])?;
            let mut read = start.elapsed();
            for token in &tokens[prompt..] {
                sequence.append(&[*token])?;
            }
            let mut answered = start.elapsed() - read;
            if costs.devices.iter().any(|cost| cost.emulated) {
                // emulated devices take what their own clock says
                let sum = |shares: &[PhaseShare]| shares.iter().map(|share| share.ns).sum();
                read = Duration::from_nanos(sum(&sequence.phases().prompt));
                answered = Duration::from_nanos(sum(&sequence.phases().answer));
            }
            moved |= way.is_none() && !sequence.phases().moves.is_empty();
            // the first round plans, compiles and warms up
            if round > 0 {
                times.0.push(u64::try_from(read.as_nanos())?);
                times.1.push(u64::try_from(answered.as_nanos())?);
            }
        }
        progress.step();
    }
    model.place_phases(costs.clone(), limits.clone())?;
    // an answer that moved to another device is no longer what was planned
    let same = as_fixed(plan).filter(|_| !moved);
    let same = same.and_then(|fixed| ways.iter().position(|way| *way == Some(fixed)));
    if let Some(same) = same {
        let (prompts, answers) = times[same].clone();
        times[0].0.extend(prompts);
        times[0].1.extend(answers);
        times[same] = times[0].clone();
    }
    let median = |times: &[u64]| median(&mut times.to_vec(), u64::cmp).unwrap_or(0);
    let mut medians = times
        .iter()
        .map(|(prompt, answer)| (median(prompt), median(answer)));
    let (prompt_ns, answer_ns) = medians
        .next()
        .ok_or_else(|| anyhow::anyhow!("no placement ran"))?;
    let name = |device: usize| costs.devices[device].device.clone();
    let mut fixed: Vec<Fixed> = medians
        .zip(ways.iter().flatten())
        .map(|((prompt_ns, answer_ns), way)| Fixed {
            prompt: name(way.prompt),
            rows: way.rows,
            answer: name(way.answer),
            prompt_ns,
            answer_ns,
        })
        .collect();
    fixed.sort_by_key(|fixed| fixed.prompt_ns + fixed.answer_ns);
    let whole = (prompt_ns + answer_ns) as f64;
    let best = fixed
        .first()
        .map_or(whole, |best| (best.prompt_ns + best.answer_ns) as f64);
    Ok(Checked {
        prompt_ns,
        answer_ns,
        prediction_error: (plan.total_ns() - whole).abs() / whole,
        of_best_fixed: whole / best,
        is_fixed: same.is_some(),
        fixed,
        not_run,
    })
}

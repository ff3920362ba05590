//! Plans a prompt and its answer: which device reads which chunk of the prompt, and which gives
//! which tokens of the answer.
//!
//! A shortest path over the positions of the text, for each set of devices whose memory fits. An
//! edge is a chunk on a device; its weight is the chunk's time after the positions before it, plus
//! the cost of changing the device.
//!
//! Invariants:
//! 1. The same costs give the same plan; no clock is read.
//! 2. No other division of the prompt, on no other devices within the limits, is cheaper:
//!    [`check`](super::check) proves a bound by other means.

use serde::Serialize;

use super::cost::PhaseCosts;
use super::workload::{PhaseLimits, Weighed, Workload};
use crate::{Error, Result};

/// Most tokens of a plan.
const MOST_TOKENS: usize = 1 << 22;

/// A chunk of the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Chunk {
    /// Index of the device.
    pub device: usize,
    /// Number of tokens of the chunk's graph.
    pub rows: usize,
    /// Number of tokens that it reads, at most `rows`.
    pub tokens: usize,
    /// Number of positions before it.
    pub past: usize,
}

/// Consecutive tokens of the answer on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DecodeSegment {
    /// Index of the device.
    pub device: usize,
    /// Number of positions before the first token.
    pub past: usize,
    /// Number of tokens.
    pub tokens: usize,
}

/// A prefill and decode plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhasePlan {
    /// The planned workload.
    pub workload: Workload,
    /// The prompt, chunk by chunk.
    pub prompt: Vec<Chunk>,
    /// The answer.
    pub answer: Vec<DecodeSegment>,
    /// Indices of the devices that may be used at once: those of the plan, and others whose memory
    /// fits beside them.
    pub allowed: Vec<usize>,
    /// Predicted nanoseconds of the prompt.
    pub prompt_ns: f64,
    /// Predicted nanoseconds of the answer.
    pub answer_ns: f64,
    /// Bytes that the plan's devices keep.
    pub memory_bytes: u64,
    /// Minimized value in nanoseconds: time, and energy at its price.
    pub objective_ns: f64,
    /// Lower bound on the objective of every plan, in nanoseconds.
    pub bound_ns: f64,
}

impl PhasePlan {
    /// Predicted nanoseconds of prompt and answer.
    #[must_use]
    pub fn total_ns(&self) -> f64 {
        self.prompt_ns + self.answer_ns
    }

    /// Indices of the devices that the plan uses.
    #[must_use]
    pub fn devices(&self) -> Vec<usize> {
        let prompt = self.prompt.iter().map(|chunk| chunk.device);
        let mut all: Vec<usize> = prompt.chain(self.answer.iter().map(|run| run.device)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether no plan is better, up to float rounding.
    #[must_use]
    pub fn is_optimal(&self) -> bool {
        self.objective_ns <= self.bound_ns * (1.0 + 1e-9) + 1e-3
    }
}

/// Factor on a nanosecond of each device.
pub(super) fn prices(costs: &PhaseCosts, limits: &PhaseLimits) -> Vec<f64> {
    let powers = || costs.devices.iter().map(|cost| cost.power_mw);
    let most = powers().flatten().fold(0.0, f64::max);
    // milliwatts are joules per 1000 seconds
    let price = |power: Option<f64>| 1.0 + limits.seconds_per_joule * power.unwrap_or(most) / 1e3;
    powers().map(price).collect()
}

/// The devices at their current speed; `slowdown` is the factor by which each is slower than
/// measured.
pub(super) fn weigh<'a>(costs: &'a PhaseCosts, slowdown: &[f64], limits: &PhaseLimits) -> Vec<Weighed<'a>> {
    let devices = costs.devices.iter().zip(prices(costs, limits)).enumerate();
    devices
        .map(|(index, (cost, price))| Weighed {
            cost,
            price,
            slowdown: slowdown.get(index).copied().unwrap_or(1.0),
        })
        .collect()
}

/// The maximal sets of devices that fit.
pub(super) fn sets(costs: &PhaseCosts, limits: &PhaseLimits) -> Vec<Vec<usize>> {
    let usable: Vec<usize> = (0..costs.devices.len())
        .filter(|&device| !costs.devices[device].chunks.is_empty())
        .collect();
    let fits = |set: &[usize]| {
        let memory = set.iter().map(|&device| costs.devices[device].memory_bytes);
        let bytes = memory.fold(0, u64::saturating_add);
        limits.memory_bytes.is_none_or(|most| bytes <= most)
    };
    if fits(&usable) && !usable.is_empty() {
        return vec![usable];
    }
    // phones have a handful of devices
    let usable = &usable[..usable.len().min(12)];
    let mut found: Vec<Vec<usize>> = (1u32..1 << usable.len())
        .map(|bits| {
            let chosen = usable
                .iter()
                .enumerate()
                .filter(|(place, _)| bits >> place & 1 == 1);
            chosen.map(|(_, &device)| device).collect()
        })
        .filter(|set: &Vec<usize>| fits(set))
        .collect();
    let all = found.clone();
    found.retain(|set| {
        let within =
            |other: &Vec<usize>| other.len() > set.len() && set.iter().all(|device| other.contains(device));
        !all.iter().any(within)
    });
    found
}

/// Predecessor on a shortest path.
#[derive(Clone, Copy)]
struct From {
    objective: f64,
    ns: f64,
    device: usize,
    rows: usize,
    position: usize,
}

/// Finds the best plan.
///
/// # Errors
/// There is nothing to do, or no set of devices within the limits can do it.
pub fn plan(
    costs: &PhaseCosts,
    slowdown: &[f64],
    limits: &PhaseLimits,
    workload: Workload,
) -> Result<PhasePlan> {
    let tokens = workload.prompt.saturating_add(workload.answer);
    if tokens == 0 || tokens > MOST_TOKENS {
        return Err(Error::config(format!(
            "a plan of {tokens} tokens is not possible: the range is 1 to {MOST_TOKENS}"
        )));
    }
    let weighed = weigh(costs, slowdown, limits);
    let sets = sets(costs, limits);
    let mut best: Option<PhasePlan> = None;
    for set in &sets {
        let Some(plan) = shortest(&weighed, limits, set, workload) else {
            continue;
        };
        if best
            .as_ref()
            .is_none_or(|best| plan.objective_ns < best.objective_ns)
        {
            best = Some(plan);
        }
    }
    let Some(mut plan) = best else {
        let devices: Vec<String> = costs
            .devices
            .iter()
            .map(|cost| {
                let mib = cost.memory_bytes.div_ceil(1 << 20);
                format!("{} keeps {mib} MiB {}", cost.device, cost.refused.join(", "))
            })
            .collect();
        return Err(Error::config(format!(
            "no device within the limits ({}) can run prefill and decode: {}",
            limits.memory_bytes.map_or("no memory limit".to_owned(), |most| {
                format!("{} MiB of memory", most >> 20)
            }),
            devices.join("; ")
        )));
    };
    plan.memory_bytes = plan
        .devices()
        .iter()
        .map(|&device| costs.devices[device].memory_bytes)
        .fold(0, u64::saturating_add);
    plan.bound_ns = super::check::bound(&weighed, &sets, limits, workload);
    Ok(plan)
}

/// The shortest path over the devices of a set.
fn shortest(
    weighed: &[Weighed<'_>],
    limits: &PhaseLimits,
    set: &[usize],
    workload: Workload,
) -> Option<PhasePlan> {
    let Workload {
        past,
        prompt,
        answer,
        last: before_all,
    } = workload;
    let end = prompt + answer;
    let rows: Vec<Vec<usize>> = weighed.iter().map(|device| device.rows(limits)).collect();
    // by position and device that ran last: the best way there
    let mut ways: Vec<Vec<Option<From>>> = vec![vec![None; weighed.len()]; end + 1];
    for position in 0..end {
        // entering a device costs the same from any other one
        let nearest = cheapest(&ways[position]);
        for &device in set {
            let weighed = &weighed[device];
            let stay = ways[position][device].map(|way| (way.objective, 0.0, device));
            let entry = weighed.cost.entry_ns;
            let enter = nearest
                .filter(|(last, _)| *last != device)
                .map(|(last, spent)| (spent + entry * weighed.price, entry, last));
            let idle = if before_all == Some(device) { 0.0 } else { entry };
            let start = (position == 0).then_some((idle * weighed.price, idle, device));
            let ways_here = [stay, enter, start].into_iter().flatten();
            let Some((before, entry, last)) = ways_here.min_by(|a, b| a.0.total_cmp(&b.0)) else {
                continue;
            };
            let in_prompt = position < prompt;
            let sizes: &[usize] = if in_prompt { &rows[device] } else { &[1] };
            for &size in sizes {
                let tokens = if in_prompt { size.min(prompt - position) } else { 1 };
                let Some(ns) = weighed.ns(size, past + position) else {
                    continue;
                };
                let objective = before + ns * weighed.price;
                let place = &mut ways[position + tokens][device];
                if place.is_none_or(|known| objective < known.objective) {
                    *place = Some(From {
                        objective,
                        ns: ns + entry,
                        device: last,
                        rows: size,
                        position,
                    });
                }
            }
        }
    }
    let (mut device, objective) = cheapest(&ways[end])?;
    let mut plan = PhasePlan {
        workload,
        prompt: Vec::new(),
        answer: Vec::new(),
        allowed: set.to_vec(),
        prompt_ns: 0.0,
        answer_ns: 0.0,
        memory_bytes: 0,
        objective_ns: objective,
        bound_ns: 0.0,
    };
    let mut position = end;
    while position > 0 {
        let from = ways[position][device]?;
        let at = past + from.position;
        if from.position < prompt {
            plan.prompt_ns += from.ns;
            plan.prompt.push(Chunk {
                device,
                rows: from.rows,
                tokens: position - from.position,
                past: at,
            });
        } else {
            plan.answer_ns += from.ns;
            match plan.answer.last_mut() {
                Some(run) if run.device == device => {
                    run.past = at;
                    run.tokens += 1;
                }
                _ => plan.answer.push(DecodeSegment {
                    device,
                    past: at,
                    tokens: 1,
                }),
            }
        }
        (position, device) = (from.position, from.device);
    }
    plan.prompt.reverse();
    plan.answer.reverse();
    Some(plan)
}

/// The device with the least cost so far, and that cost.
fn cheapest(ways: &[Option<From>]) -> Option<(usize, f64)> {
    let known = ways.iter().enumerate();
    known
        .filter_map(|(device, way)| way.map(|way| (device, way.objective)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
}

//! Times chunks of every size on every device, and compares each device's results with the
//! reference device's.
//!
//! Invariants:
//! 1. Timing covers what a sequence does: it fills the chunk's inputs, runs it, and appends its K
//!    and V. A token of an answer is timed within an answer, each token after one
//!    position more than the previous.
//! 2. All chunks of all devices are timed once per round, and the median of the rounds counts:
//!    disturbances last for seconds, and would otherwise be in all times of one chunk.
//! 3. Chunks timed after positions read memory that was written: unwritten pages are all one page
//!    of zeros, which always hits the cache.
//! 4. A chunk's time is that of a device that has been at work for a while. The additional time
//!    after idling, due to low clocks or cold caches, is measured separately.
//! 5. A device whose logits differ from the reference's is not used for that size, and the reason
//!    is recorded.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::chunk::LADDER;
use crate::model::LanguageModel;
use crate::prefill_decode::judge::{distance, reference, tolerance};
use crate::prefill_decode::{Beyond, ChunkCost, DeviceCost, MeasurePhases, PhaseCosts};
use crate::sequence::Sequence;
use crate::{Error, Result, TokenId};

/// Nanoseconds for which a device works before it is timed: an NVIDIA H100 takes tenths of a second
/// to raise its clocks.
const WARM_NS: u64 = 500_000_000;

/// Nanoseconds for which other devices work before a device counts as idle.
const IDLE_NS: u64 = 300_000_000;

/// Most warm-up runs; an emulated device takes its stated time at once.
const WARM_RUNS: usize = 200;
const EMULATED_WARM_RUNS: usize = 1;

/// Tokens of the timed answers: as many as take [`ANSWER_NS`], within this range. A disturbance
/// that occurs a few times a second is in every answer of this length, and was in few of a dozen
/// tokens.
const ANSWER: [usize; 2] = [16, 64];
const ANSWER_NS: u64 = 150_000_000;

/// Positions after which the first of them begins: after none, or a few, attention has nothing to
/// divide among threads.
const ANSWER_PAST: usize = 32;

/// Chunks are also timed after this multiple of the depth, where the KV cache no longer fits a
/// cache.
const DEEP: usize = 4;

/// Tokens of the chunk that measures the additional time of an idle device.
const ENTRY_ROWS: usize = 128;

/// A fixed pseudo-text of `count` tokens.
fn tokens(model: &LanguageModel, count: usize) -> Vec<TokenId> {
    let vocabulary = model.sizes().vocabulary;
    let mut numbers = ChaCha8Rng::seed_from_u64(0);
    (0..count).map(|_| numbers.random_range(0..vocabulary)).collect()
}

/// Measures the devices that the model's policy allows.
fn measure(
    model: &LanguageModel,
    how: &MeasurePhases,
    say: &mut dyn FnMut(usize, usize, &str),
) -> Result<PhaseCosts> {
    let devices = model.devices()?;
    let names: Vec<String> = devices.iter().map(|device| device.name().to_owned()).collect();
    let Some(reference) = reference(&names) else {
        return Err(Error::config("no device to measure"));
    };
    let rungs: Vec<usize> = LADDER
        .into_iter()
        .filter(|&rows| rows <= how.largest_chunk.max(1) && rows <= model.capacity())
        .collect();
    let rounds = how.rounds.max(1);
    let total = rungs.len() * (devices.len() + 1) + rounds * devices.len();
    let mut done = 0;
    let mut say = |what: String| {
        say(done, total, &what);
        done += 1;
    };
    let mut sequence = model.sequence()?;
    let text = tokens(model, rungs[0]);
    let mut right = Vec::new();
    for &rows in &rungs {
        say(format!("{reference}: {rows} tokens, as the reference"));
        right.push(sequence.logits_on(reference, &text[..rows], rows)?);
    }
    sequence.touch()?;
    let mut costs = Vec::new();
    for (device, name) in devices.iter().zip(&names) {
        let mut cost = DeviceCost {
            device: name.clone(),
            identity: device.identity(),
            emulated: device.info().emulated,
            memory_bytes: 0,
            power_mw: None,
            entry_ns: 0.0,
            chunks: Vec::new(),
            refused: Vec::new(),
        };
        for (&rows, right) in rungs.iter().zip(&right) {
            say(format!("{name}: {rows} tokens"));
            match verify(model, &mut sequence, (name, rows), (&text[..rows], right)) {
                Ok(()) => cost.chunks.push(ChunkCost {
                    rows,
                    base_ns: 0.0,
                    per_position_ns: 0.0,
                    beyond: None,
                }),
                Err(error) => cost.refused.push(format!("{rows} tokens: {error}")),
            }
        }
        if let Some(held) = model.held_by(name) {
            (cost.memory_bytes, cost.power_mw) = held;
        }
        costs.push(cost);
    }
    let mut places: Vec<Vec<ChunkTimes>> = costs
        .iter()
        .map(|cost| {
            let chunks = cost.chunks.iter();
            chunks
                .map(|chunk| ChunkTimes::of(chunk.rows, how.depth, model.capacity()))
                .collect()
        })
        .collect();
    for round in 1..=rounds {
        for (cost, places) in costs.iter_mut().zip(&mut places) {
            say(format!("{}: round {round} of {rounds}", cost.device));
            if let Err(error) = warm(&mut sequence, cost, &text) {
                cost.refused.push(format!("all chunks: {error}"));
                places.clear();
            }
            places.retain_mut(|place| {
                let timed = place.time(&mut sequence, &cost.device, &text);
                let words = timed.map_err(|error| format!("{} tokens: {error}", place.rows));
                words.map_err(|words| cost.refused.push(words)).is_ok()
            });
        }
    }
    for (cost, places) in costs.iter_mut().zip(places) {
        cost.chunks = places.into_iter().map(ChunkTimes::line).collect();
    }
    if costs.iter().all(|cost| cost.chunk(1).is_none()) {
        let why: Vec<String> = costs.iter().flat_map(|cost| cost.refused.clone()).collect();
        return Err(Error::config(format!("no device can decode: {}", why.join("; "))));
    }
    entries(&mut sequence, &mut costs, how)?;
    Ok(PhaseCosts {
        fingerprint: model.phase_fingerprint(),
        devices: costs,
    })
}

fn warm_runs(emulated: bool) -> usize {
    if emulated { EMULATED_WARM_RUNS } else { WARM_RUNS }
}

/// Whether a chunk's logits match the reference's.
fn verify(
    model: &LanguageModel,
    sequence: &mut Sequence,
    (device, rows): (&str, usize),
    (text, right): (&[TokenId], &[f32]),
) -> Result<()> {
    let logits = sequence.logits_on(device, text, rows)?;
    let (off, most) = (distance(&logits, right), tolerance(model.policy()));
    if off > most {
        return Err(Error::config(format!(
            "not used: its logits differ from the reference by {off:.3}, above the tolerance of {most}"
        )));
    }
    Ok(())
}

/// Keeps a device at work for a while.
fn warm(sequence: &mut Sequence, cost: &DeviceCost, text: &[TokenId]) -> Result<()> {
    let chunk = cost.chunks.iter().find(|chunk| chunk.rows <= ENTRY_ROWS);
    let Some(rows) = chunk.map(|chunk| chunk.rows) else {
        return Ok(());
    };
    let mut spent = 0;
    for _ in 0..warm_runs(cost.emulated) {
        spent += sequence.time_on(&cost.device, &text[..rows], rows, 0)?;
        if spent >= WARM_NS {
            break;
        }
    }
    Ok(())
}

/// Times of a chunk after several numbers of positions, one per round.
struct ChunkTimes {
    rows: usize,
    /// Whether tokens are read one after another, as in an answer, and how many the last time.
    answers: bool,
    tokens: usize,
    past: [usize; 3],
    times: [Vec<u64>; 3],
}

impl ChunkTimes {
    fn of(rows: usize, depth: usize, capacity: usize) -> ChunkTimes {
        let longest = ANSWER[1];
        let answers = rows == 1 && capacity > longest;
        let room = capacity - if answers { longest } else { rows };
        let near = if answers { ANSWER_PAST.min(room) } else { 0 };
        let middle = depth.clamp(near, room);
        ChunkTimes {
            rows,
            answers,
            tokens: 0,
            past: [near, middle, depth.saturating_mul(DEEP).clamp(middle, room)],
            times: Default::default(),
        }
    }

    /// Times the chunk once; the run before warms up the chunk's own memory.
    fn time(&mut self, sequence: &mut Sequence, device: &str, text: &[TokenId]) -> Result<()> {
        for (past, times) in self.past.into_iter().zip(&mut self.times) {
            if !self.answers {
                sequence.time_on(device, &text[..self.rows], self.rows, past)?;
                times.push(sequence.time_on(device, &text[..self.rows], self.rows, past)?);
                continue;
            }
            let [fewest, most] = ANSWER.map(|tokens| tokens.min(text.len()));
            let token = sequence.time_answer_on(device, &text[..fewest], past)?;
            let tokens = (ANSWER_NS / token.max(1)).clamp(fewest as u64, most as u64);
            self.tokens = tokens as usize;
            times.push(sequence.time_answer_on(device, &text[..self.tokens], past)?);
        }
        Ok(())
    }

    /// The cost whose lines go through the medians; constant where two have the same number of
    /// positions.
    fn line(self) -> ChunkCost {
        // the middle token of an answer takes the mean of all
        let [near, middle, far] = self.past.map(|past| past + self.tokens / 2);
        let [least, some, most] = self.times.map(|mut times| median_ns(&mut times));
        let slope = |from: (usize, f64), to: (usize, f64)| match to.0 - from.0 {
            0 => 0.0,
            positions => ((to.1 - from.1) / positions as f64).max(0.0),
        };
        let per_position_ns = slope((near, least), (middle, some));
        ChunkCost {
            rows: self.rows,
            base_ns: (least - per_position_ns * near as f64).max(0.0),
            per_position_ns,
            beyond: (far > middle).then(|| Beyond {
                past: middle,
                per_position_ns: slope((middle, some), (far, most)),
            }),
        }
    }
}

/// The median of at least one time in nanoseconds.
fn median_ns(times: &mut [u64]) -> f64 {
    polychip_profile::median(times, u64::cmp).expect("invariant: there are times") as f64
}

/// Additional time of a device's first chunk after another device was at work.
fn entries(sequence: &mut Sequence, costs: &mut [DeviceCost], how: &MeasurePhases) -> Result<()> {
    let text = tokens(sequence.model(), ENTRY_ROWS);
    for device in 0..costs.len() {
        let others = costs.iter().enumerate();
        let other = others
            .filter(|(other, cost)| *other != device && cost.chunk(1).is_some())
            .map(|(_, cost)| cost.device.clone())
            .next();
        let largest = costs[device].chunks.iter().find(|chunk| chunk.rows <= ENTRY_ROWS);
        let (Some(other), Some(chunk)) = (other, largest) else {
            continue;
        };
        let (rows, usual) = (chunk.rows, chunk.base_ns);
        let mut times = Vec::new();
        for _ in 0..how.rounds.max(1) {
            let mut spent = 0;
            for _ in 0..warm_runs(costs[device].emulated) {
                spent += sequence.time_on(&other, &text, 1, 0)?;
                if spent >= IDLE_NS {
                    break;
                }
            }
            times.push(sequence.time_on(&costs[device].device, &text[..rows], rows, 0)?);
        }
        costs[device].entry_ns = (median_ns(&mut times) - usual).max(0.0);
    }
    Ok(())
}

impl LanguageModel {
    /// Times chunks of every size on every device that the model's policy allows, and compares each
    /// device's results with the CPU's. Before each step, calls `say` with the number of steps
    /// done, the total, and the name of the step.
    ///
    /// # Errors
    /// No device runs the model, or none gives answers.
    pub fn measure_phases(
        &self,
        how: &MeasurePhases,
        say: &mut dyn FnMut(usize, usize, &str),
    ) -> Result<PhaseCosts> {
        let costs = measure(self, how, say)?;
        for cost in &costs.devices {
            cost.chunks
                .iter()
                .for_each(|chunk| self.keep_right(&cost.device, chunk.rows));
        }
        Ok(costs)
    }
}

//! Chunks of every size timed on every device, and each device's answers compared with those of the reference device.
//!
//! Invariants:
//! 1. What is timed is what a sequence does: the chunk's inputs are filled, it is run, its keys and values are appended.
//! 2. A chunk's time is that of a device that has been at work for a while; what it takes longer where it was idle, because its
//!    clocks are low or its caches cold, is measured apart.
//! 3. A device whose logits are not those of the reference is not used for that size, and it is said why.

use crate::chunk::LADDER;
use crate::model::LanguageModel;
use crate::phases::judge::{distance, reference, tolerance};
use crate::phases::{ChunkCost, DeviceCost, MeasurePhases, PhaseCosts};
use crate::sequence::Sequence;
use crate::{Error, Result, TokenId};

/// A device is at work for so long before it is timed: an NVIDIA H100 takes tenths of a second to raise its clocks.
const WARM_NS: u64 = 500_000_000;

/// Other devices are at work for so long before a device counts as idle.
const IDLE_NS: u64 = 300_000_000;

/// Runs that are made to warm a device at most; an emulated one takes what its table says at once.
const WARM_RUNS: usize = 200;
const EMULATED_WARM_RUNS: usize = 1;

/// Tokens of the chunk by which it is measured what an idle device takes longer.
const ENTRY_ROWS: usize = 128;

/// Tokens that look like a text to no one, the same each time.
fn tokens(model: &LanguageModel, count: usize) -> Vec<TokenId> {
    let vocabulary = u64::from(model.sizes().vocabulary);
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 33) % vocabulary) as TokenId
        })
        .collect()
}

/// Measures the devices that the model's policy lets it use.
fn measure(
    model: &LanguageModel,
    how: &MeasurePhases,
    say: &mut dyn FnMut(usize, usize, &str),
) -> Result<PhaseCosts> {
    let devices = model.devices()?;
    let names: Vec<String> = devices.iter().map(|device| device.name().to_owned()).collect();
    let Some(reference) = reference(&names) else {
        return Err(Error::config("no device is there to be measured"));
    };
    let rungs: Vec<usize> = LADDER
        .into_iter()
        .filter(|&rows| rows <= how.largest_chunk.max(1) && rows <= model.capacity())
        .collect();
    let total = rungs.len() * (devices.len() + 1);
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
            let emulated = cost.emulated;
            let asked = (name.as_str(), rows, emulated);
            match chunk(model, &mut sequence, how, asked, (&text[..rows], right)) {
                Ok(chunk) => cost.chunks.push(chunk),
                Err(error) => cost.refused.push(format!("{rows} tokens: {error}")),
            }
        }
        if let Some(held) = model.held_by(name) {
            (cost.memory_bytes, cost.power_mw) = held;
        }
        costs.push(cost);
    }
    if costs.iter().all(|cost| cost.chunk(1).is_none()) {
        let why: Vec<String> = costs.iter().flat_map(|cost| cost.refused.clone()).collect();
        return Err(Error::config(format!("no device answers: {}", why.join("; "))));
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

/// The cost of a chunk, once its logits are those of the reference.
fn chunk(
    model: &LanguageModel,
    sequence: &mut Sequence,
    how: &MeasurePhases,
    (device, rows, emulated): (&str, usize, bool),
    (text, right): (&[TokenId], &[f32]),
) -> Result<ChunkCost> {
    let logits = sequence.logits_on(device, text, rows)?;
    let (off, most) = (distance(&logits, right), tolerance(model.policy()));
    if off > most {
        return Err(Error::config(format!(
            "its logits are {off:.3} from the reference's, {most} is let pass: it is not used"
        )));
    }
    let rounds = how.rounds.max(1) * if rows == 1 { 8 } else { 1 };
    let mut spent = 0;
    for _ in 0..warm_runs(emulated) {
        spent += sequence.time_on(device, text, rows, 0)?;
        if spent >= WARM_NS {
            break;
        }
    }
    let depth = how.depth.min(model.capacity() - rows);
    let mut medians = [0.0; 2];
    for (median, past) in medians.iter_mut().zip([0, depth]) {
        let mut times = Vec::with_capacity(rounds);
        for round in 0..=rounds {
            let ns = sequence.time_on(device, text, rows, past)?;
            // the first one warms up
            if round > 0 {
                times.push(ns);
            }
        }
        times.sort_unstable();
        *median = times[times.len() / 2] as f64;
    }
    let [base_ns, deep] = medians;
    Ok(ChunkCost {
        rows,
        base_ns,
        per_position_ns: if depth == 0 {
            0.0
        } else {
            ((deep - base_ns) / depth as f64).max(0.0)
        },
    })
}

/// What the first chunk of a device takes longer where another one was at work before.
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
        times.sort_unstable();
        costs[device].entry_ns = (times[times.len() / 2] as f64 - usual).max(0.0);
    }
    Ok(())
}

impl LanguageModel {
    /// Times chunks of every size on every device that the model's policy allows, and compares each device's answers with the
    /// CPU's. `say` is told before each step how many are done, of how many, and what it is.
    ///
    /// # Errors
    /// No device runs the model, or none of them answers.
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

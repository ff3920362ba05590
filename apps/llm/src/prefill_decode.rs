//! Prefill and decode placement: plans, from measured costs and for given lengths, which devices
//! read the prompt and which give the answer, over one KV cache.
//!
//! Prefill multiplies many rows with each weight, decode one row. The best device for one may be a
//! poor one for the other, and which it is depends on the prompt's length, the device's load, and
//! its temperature. Other runtimes fix the placement in code. Here it is planned, with a bound that
//! shows how good the plan is.
//!
//! Invariants:
//! 1. Costs were measured on this machine, through what a sequence does, or come from a file that
//!    names model, devices and settings and is refused where any differs.
//! 2. A device's first chunk of each size is compared with the reference device's. Where they
//!    differ, the reference's result is used, the device is no longer used for that size, and the
//!    report names it.
//! 3. There is one KV cache, which all devices map: changing the device means running the next
//!    chunk elsewhere.
//!
//! Not here: measuring costs (`measure`), using a plan (`placement`), the graphs of chunks
//! (`build`), how a graph itself is split (`polychip`). Start reading at [`PhaseCosts`], then
//! [`plan`].

mod check;
mod cost;
mod drift;
pub(crate) mod judge;
mod plan;
mod report;
#[cfg(test)]
mod tests;
mod workload;

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

pub use cost::{Beyond, ChunkCost, DeviceCost, MeasurePhases, PhaseCosts};
pub use plan::{Chunk, DecodeSegment, PhasePlan, plan};
pub use report::{Move, PhaseReport, PhaseShare};
pub use workload::{PhaseLimits, Workload};

use crate::{Error, Result};
use drift::Drift;

/// An answer moves to another device only if the cost there is at most this fraction.
const BETTER: f64 = 0.9;

/// Tokens for which an answer stays where it moved: an idle device needs some before it is as fast
/// as measured.
pub(crate) const STAYS: usize = 16;

/// A model's prefill and decode plan, shared by its sequences.
#[derive(Debug)]
pub(crate) struct Phases {
    pub(crate) costs: PhaseCosts,
    pub(crate) limits: PhaseLimits,
    /// A fixed placement, used instead of a plan.
    pub(crate) fixed: Option<FixedPhases>,
    reference: usize,
    drift: Mutex<Drift>,
    /// Devices and chunk sizes that were compared with the reference, and those whose results
    /// differed, with a message.
    compared: Mutex<Compared>,
}

/// A chunk that has run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ran {
    pub(crate) device: usize,
    pub(crate) rows: usize,
    /// Positions before it.
    pub(crate) past: usize,
    /// Whether another device, or none, was at work before.
    pub(crate) entered: bool,
}

/// A fixed placement, for comparison with a plan: prompts in chunks of one size on one device,
/// answers on one device. Devices are indices into [`PhaseCosts::devices`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedPhases {
    /// The device that reads prompts.
    pub prompt: usize,
    /// Number of tokens in a chunk.
    pub rows: usize,
    /// The device that answers.
    pub answer: usize,
}

#[derive(Debug, Default)]
struct Compared {
    right: BTreeSet<(usize, usize)>,
    wrong: Vec<(usize, usize, String)>,
}

impl Phases {
    /// Creates the shared plan; `compared` lists the devices and sizes already found right.
    pub(crate) fn new(
        costs: PhaseCosts,
        limits: PhaseLimits,
        compared: impl Fn(&str, usize) -> bool,
    ) -> Result<Phases> {
        let names: Vec<String> = costs.devices.iter().map(|cost| cost.device.clone()).collect();
        let reference = judge::reference(&names).and_then(|name| costs.position(name));
        let reference = reference.ok_or_else(|| Error::config("costs of no device"))?;
        let mut right = BTreeSet::new();
        for (device, cost) in costs.devices.iter().enumerate() {
            let rows = cost.chunks.iter().map(|chunk| chunk.rows);
            let known = rows.filter(|&rows| device == reference || compared(&cost.device, rows));
            right.extend(known.map(|rows| (device, rows)));
        }
        Ok(Phases {
            reference,
            drift: Mutex::new(Drift::new(costs.devices.len())),
            compared: Mutex::new(Compared {
                right,
                wrong: Vec::new(),
            }),
            limits,
            fixed: None,
            costs,
        })
    }

    pub(crate) fn name(&self, device: usize) -> &str {
        &self.costs.devices[device].device
    }

    /// Whether a device gives tokens of an answer.
    pub(crate) fn answers(&self, device: usize) -> bool {
        let compared = self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        let wrong = |(other, rows, _): &(usize, usize, String)| (*other, *rows) == (device, 1);
        self.costs.devices[device].chunk(1).is_some() && !compared.wrong.iter().any(wrong)
    }

    /// The plan of a workload at the devices' current speed.
    pub(crate) fn plan(
        &self,
        workload: Workload,
        largest_chunk: Option<usize>,
        now_ns: u64,
    ) -> Result<PhasePlan> {
        let slowdowns = self.slowdowns(now_ns);
        let mut limits = self.limits.clone();
        limits.largest_chunk = match (limits.largest_chunk, largest_chunk) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let compared = self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        if compared.wrong.is_empty() {
            drop(compared);
            return plan(&self.costs, &slowdowns, &limits, workload);
        }
        let mut costs = self.costs.clone();
        for (device, rows, words) in &compared.wrong {
            let cost = &mut costs.devices[*device];
            cost.chunks.retain(|chunk| chunk.rows != *rows);
            cost.refused.push(words.clone());
        }
        drop(compared);
        plan(&costs, &slowdowns, &limits, workload)
    }

    fn slowdowns(&self, now_ns: u64) -> Vec<f64> {
        let drift = self.drift.lock().unwrap_or_else(PoisonError::into_inner);
        drift.slowdowns(now_ns)
    }

    /// The device for the next token of an answer, among those allowed: the planned one, unless
    /// another is clearly better now.
    pub(crate) fn next(
        &self,
        allowed: &[usize],
        last: Option<usize>,
        past: usize,
        now_ns: u64,
    ) -> Option<usize> {
        let slowdowns = self.slowdowns(now_ns);
        let prices = plan::prices(&self.costs, &self.limits);
        let objective = |device: usize| {
            if !self.answers(device) {
                return None;
            }
            let cost = &self.costs.devices[device];
            Some(cost.chunk(1)?.at(past) * slowdowns[device] * prices[device])
        };
        let known = allowed
            .iter()
            .filter_map(|&device| Some((device, objective(device)?)));
        let (best, least) = known.min_by(|a, b| a.1.total_cmp(&b.1))?;
        match last.and_then(|last| Some((last, objective(last)?))) {
            Some((last, own)) if allowed.contains(&last) && least > own * BETTER => Some(last),
            _ => Some(best),
        }
    }

    /// Records a chunk's time; returns the expected time.
    pub(crate) fn observe(&self, chunk: Ran, took_ns: u64, now_ns: u64) -> f64 {
        let Ran {
            device,
            rows,
            past,
            entered,
        } = chunk;
        let cost = &self.costs.devices[device];
        let entry = if entered { cost.entry_ns } else { 0.0 };
        let expected = cost
            .chunk(rows)
            .map_or(took_ns as f64, |chunk| chunk.at(past) + entry);
        let mut drift = self.drift.lock().unwrap_or_else(PoisonError::into_inner);
        drift.observe(device, took_ns as f64, expected, now_ns);
        expected
    }

    /// Factor by which a device is now slower than measured.
    pub(crate) fn slowdown(&self, device: usize, now_ns: u64) -> f64 {
        self.slowdowns(now_ns)[device]
    }

    /// The reference device, if a chunk of this size was not yet compared with it.
    pub(crate) fn uncompared(&self, device: usize, rows: usize) -> Option<usize> {
        let compared = self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        (!compared.right.contains(&(device, rows))).then_some(self.reference)
    }

    /// Compares logits with the reference's; returns a message where they differ.
    pub(crate) fn compare(
        &self,
        policy: &polychip::Policy,
        (device, rows): (usize, usize),
        logits: &[f32],
        right: &[f32],
    ) -> Option<String> {
        let (off, most) = (judge::distance(logits, right), judge::tolerance(policy));
        let mut compared = self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        if off <= most {
            compared.right.insert((device, rows));
            return None;
        }
        let words = format!(
            "{} is not used for chunks of {rows}: its first logits differ by {off:.3} from those of {}, above the tolerance of {most}",
            self.name(device),
            self.name(self.reference)
        );
        compared.wrong.push((device, rows, words.clone()));
        Some(words)
    }
}

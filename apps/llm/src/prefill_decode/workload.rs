//! What a plan is made for: the text, the limits, and the devices with their weights.

use serde::Serialize;

use super::cost::DeviceCost;

/// The text to read and the answer to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Workload {
    /// Number of tokens that are in the KV cache already.
    pub past: usize,
    /// Number of prompt tokens to read.
    pub prompt: usize,
    /// Number of answer tokens.
    pub answer: usize,
    /// Index of the device that computed last, which costs nothing to enter; `None` if all are idle.
    pub last: Option<usize>,
}

/// Limits and the objective of a plan.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct PhaseLimits {
    /// Maximum sum of the bytes that a plan's devices keep.
    pub memory_bytes: Option<u64>,
    /// Seconds that the objective trades for one joule; 0 minimizes time alone. A device of unknown
    /// power is charged the highest known power.
    pub seconds_per_joule: f64,
    /// Most tokens of a chunk, for callers that wait between chunks.
    pub largest_chunk: Option<usize>,
}

/// A device with its weight in a plan.
pub(super) struct Weighed<'a> {
    pub(super) cost: &'a DeviceCost,
    /// Factor on a nanosecond of the device.
    pub(super) price: f64,
    /// Factor by which it is now slower than measured.
    pub(super) slowdown: f64,
}

impl Weighed<'_> {
    /// Chunks that may be used, with their tokens.
    pub(super) fn rows(&self, limits: &PhaseLimits) -> Vec<usize> {
        let most = limits.largest_chunk.unwrap_or(usize::MAX);
        let rows = self.cost.chunks.iter().map(|chunk| chunk.rows);
        rows.filter(|&rows| rows <= most.max(1)).collect()
    }

    pub(super) fn ns(&self, rows: usize, past: usize) -> Option<f64> {
        Some(self.cost.chunk(rows)?.at(past).max(0.0) * self.slowdown)
    }
}

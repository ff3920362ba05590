//! Costs of a model's chunks on each device.
//!
//! Invariant: a device that runs no chunk of one token gives no answers, and a device with a
//! refused chunk does not run that chunk.

use serde::{Deserialize, Serialize};

use crate::chunk::LADDER;

/// Time of a chunk: a base time, and an addition for each earlier position, because attention reads
/// them all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChunkCost {
    /// Number of tokens in the chunk; a chunk with fewer takes as long.
    pub rows: usize,
    /// Nanoseconds with an empty KV cache.
    pub base_ns: f64,
    /// Additional nanoseconds for each earlier position, up to those of `beyond`.
    pub per_position_ns: f64,
    /// Cost of further positions, which no longer fit a cache of the processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beyond: Option<Beyond>,
}

/// Cost of positions beyond a number of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beyond {
    /// Number of positions at the first rate.
    pub past: usize,
    /// Additional nanoseconds for each further position.
    pub per_position_ns: f64,
}

impl ChunkCost {
    /// Nanoseconds of the chunk after `past` positions.
    #[must_use]
    pub fn at(&self, past: usize) -> f64 {
        let first = self.beyond.map_or(past, |beyond| beyond.past.min(past));
        let later = self.beyond.map_or(0.0, |beyond| beyond.per_position_ns);
        self.base_ns + self.per_position_ns * first as f64 + later * (past - first) as f64
    }
}

/// Costs of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceCost {
    /// Device, `plugin:index`.
    pub device: String,
    /// Driver, chip and firmware, as the device names them; costs of another identity do not apply.
    pub identity: String,
    /// Whether the device is emulated.
    pub emulated: bool,
    /// Bytes of weights and other memory that its sessions keep.
    pub memory_bytes: u64,
    /// Mean power while it runs, in milliwatts, if known.
    pub power_mw: Option<f64>,
    /// Additional nanoseconds of the first chunk after another device, or none, was at work.
    pub entry_ns: f64,
    /// The chunks, largest first.
    pub chunks: Vec<ChunkCost>,
    /// Chunk sizes for which the device is not used, with the reasons.
    pub refused: Vec<String>,
}

impl DeviceCost {
    /// The cost of a chunk of `rows` tokens.
    #[must_use]
    pub fn chunk(&self, rows: usize) -> Option<&ChunkCost> {
        self.chunks.iter().find(|chunk| chunk.rows == rows)
    }
}

/// A model's costs on each device, as
/// [`LanguageModel::measure_phases`](crate::LanguageModel::measure_phases) measures them and files
/// store them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseCosts {
    /// Fingerprint of the model's file and of what changes its times: capacity, precision, threads.
    pub fingerprint: String,
    /// The devices.
    pub devices: Vec<DeviceCost>,
}

impl PhaseCosts {
    /// Refuses impossible costs: chunk sizes that do not exist, negative times, the same device or
    /// size twice.
    pub(crate) fn check(&self, capacity: usize) -> Result<(), String> {
        for (index, device) in self.devices.iter().enumerate() {
            let name = &device.device;
            if self.devices[..index].iter().any(|other| other.device == *name) {
                return Err(format!("the phase costs list {name} twice"));
            }
            let numbers = [device.entry_ns, device.power_mw.unwrap_or(0.0)];
            let times = device.chunks.iter().flat_map(|chunk| {
                let later = chunk.beyond.map_or(0.0, |beyond| beyond.per_position_ns);
                [chunk.base_ns, chunk.per_position_ns, later]
            });
            if numbers
                .into_iter()
                .chain(times)
                .any(|number| !(number.is_finite() && number >= 0.0))
            {
                return Err(format!(
                    "the phase costs of {name} are not valid times and powers"
                ));
            }
            for (place, chunk) in device.chunks.iter().enumerate() {
                let known = LADDER.contains(&chunk.rows) && chunk.rows <= capacity;
                if !known
                    || device.chunks[..place]
                        .iter()
                        .any(|other| other.rows <= chunk.rows)
                {
                    return Err(format!(
                        "the phase costs of {name} contain chunks of {} tokens, which do not exist or are out of order",
                        chunk.rows
                    ));
                }
            }
        }
        Ok(())
    }

    /// Index of a device.
    #[must_use]
    pub fn position(&self, device: &str) -> Option<usize> {
        self.devices.iter().position(|known| known.device == device)
    }
}

/// Settings for measuring prefill and decode costs.
#[derive(Clone, Debug)]
pub struct MeasurePhases {
    /// Largest chunk; larger ones are left out.
    pub largest_chunk: usize,
    /// Rounds per chunk; the median counts.
    pub rounds: usize,
    /// Chunks are timed three times: with an empty KV cache, after this number of positions, and
    /// after four times this number (or less, if the capacity is smaller).
    pub depth: usize,
}

impl Default for MeasurePhases {
    fn default() -> MeasurePhases {
        MeasurePhases {
            largest_chunk: LADDER[0],
            rounds: 3,
            depth: 1024,
        }
    }
}

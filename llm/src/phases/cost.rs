//! What chunks of a model cost on each device.
//!
//! Invariant: a device that runs no chunk of one token answers nothing, and one that was refused anything runs none of it.

use serde::{Deserialize, Serialize};

use crate::chunk::LADDER;

/// The time of a chunk: what it takes behind no position, and what each position read before adds, since attention reads it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChunkCost {
    /// Tokens of the chunk; one of fewer takes as long.
    pub rows: usize,
    /// Nanoseconds behind no position.
    pub base_ns: f64,
    /// Nanoseconds for each position read before, of the first ones.
    pub per_position_ns: f64,
    /// What later ones cost, which no longer lie in a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beyond: Option<Beyond>,
}

/// What a position costs that lies behind many others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beyond {
    /// How many positions cost what the first do.
    pub past: usize,
    /// Nanoseconds for each that is read behind these.
    pub per_position_ns: f64,
}

impl ChunkCost {
    /// Nanoseconds behind so many positions.
    #[must_use]
    pub fn at(&self, past: usize) -> f64 {
        let first = self.beyond.map_or(past, |beyond| beyond.past.min(past));
        let later = self.beyond.map_or(0.0, |beyond| beyond.per_position_ns);
        self.base_ns + self.per_position_ns * first as f64 + later * (past - first) as f64
    }
}

/// What a device costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceCost {
    /// Device, `plugin:index`.
    pub device: String,
    /// Driver, chip and firmware, as the device names them: costs of another one say nothing of this one.
    pub identity: String,
    /// Whether the device is emulated.
    pub emulated: bool,
    /// Bytes of weights and of what else its sessions keep.
    pub memory_bytes: u64,
    /// Mean power while it runs, in milliwatts, where it is known.
    pub power_mw: Option<f64>,
    /// Nanoseconds that the first chunk takes longer where another device, or none, was at work before.
    pub entry_ns: f64,
    /// Chunks, the largest first.
    pub chunks: Vec<ChunkCost>,
    /// What of it is not used, and why.
    pub refused: Vec<String>,
}

impl DeviceCost {
    /// The cost of a chunk of so many tokens.
    #[must_use]
    pub fn chunk(&self, rows: usize) -> Option<&ChunkCost> {
        self.chunks.iter().find(|chunk| chunk.rows == rows)
    }
}

/// What a model costs on each device, as [`LanguageModel::measure_phases`](crate::LanguageModel::measure_phases) finds it and
/// files keep it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseCosts {
    /// Fingerprint of the model's file and of what changes its times: room, precision, threads.
    pub fingerprint: String,
    /// The devices.
    pub devices: Vec<DeviceCost>,
}

impl PhaseCosts {
    /// Refuses costs that nobody measured: sizes that no chunk has, times below nothing, the same device or size twice.
    pub(crate) fn check(&self, capacity: usize) -> Result<(), String> {
        for (index, device) in self.devices.iter().enumerate() {
            let name = &device.device;
            if self.devices[..index].iter().any(|other| other.device == *name) {
                return Err(format!("the costs of phases name {name} twice"));
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
                return Err(format!("the costs of phases of {name} are no times and powers"));
            }
            for (place, chunk) in device.chunks.iter().enumerate() {
                let known = LADDER.contains(&chunk.rows) && chunk.rows <= capacity;
                if !known
                    || device.chunks[..place]
                        .iter()
                        .any(|other| other.rows <= chunk.rows)
                {
                    return Err(format!(
                        "the costs of phases of {name} are of chunks of {} tokens, of which there are none, or not in order",
                        chunk.rows
                    ));
                }
            }
        }
        Ok(())
    }

    /// The number of a device.
    #[must_use]
    pub fn position(&self, device: &str) -> Option<usize> {
        self.devices.iter().position(|known| known.device == device)
    }
}

/// How phases are measured.
#[derive(Clone, Debug)]
pub struct MeasurePhases {
    /// Largest chunk; larger ones are left out.
    pub largest_chunk: usize,
    /// Rounds of each chunk, of which the median counts.
    pub rounds: usize,
    /// Positions behind which chunks are timed a second time, and behind four times as many a third time; fewer where there is no
    /// room for so many.
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

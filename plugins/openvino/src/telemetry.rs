//! What the device measures: its rates, once, and the span of each run, on the host's clock. It has no sensors of
//! its own: those of the chip are the cpu plugin's.
//!
//! Invariants:
//! 1. Times of runs come from the host's clock, which is virtual in tests; rates come from the process's own.
//! 2. Rates are measured when a device is first opened, and kept in the host's store.

use std::time::{Duration, Instant};

use polychip_sdk::{HostServices, Precision};

use crate::plugin::Shared;
use crate::{lower, probe};

/// Rates of the device with the threads that it takes by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peaks {
    /// Multiply-adds of f32 per second, 0 where not known.
    pub(crate) macs_per_s: u64,
    /// Bytes moved per second, 0 where not known.
    pub(crate) bytes_per_s: u64,
}

impl Peaks {
    const UNKNOWN: Peaks = Peaks {
        macs_per_s: 0,
        bytes_per_s: 0,
    };

    /// The rates in the host's store, or measured now and stored.
    pub(crate) fn known_or_measured(host: &HostServices, shared: &Shared) -> Peaks {
        let key = format!("peaks {}", shared.made_by);
        if let Ok(Some(bytes)) = host.store_read(&key)
            && let Ok(words) = <[u8; 16]>::try_from(&bytes[..])
        {
            let [macs, memory] = [0, 8].map(|at| u64::from_le_bytes(std::array::from_fn(|i| words[at + i])));
            return Peaks {
                macs_per_s: macs,
                bytes_per_s: memory,
            };
        }
        // a failure is not kept: it may pass
        let Ok(peaks) = Peaks::measure(shared) else {
            return Peaks::UNKNOWN;
        };
        let mut bytes = peaks.macs_per_s.to_le_bytes().to_vec();
        bytes.extend(peaks.bytes_per_s.to_le_bytes());
        // a host without a store measures again next time
        let _ = host.store_write(&key, &bytes);
        peaks
    }

    /// Some milliseconds of a product and of a copy, both as models of one node.
    fn measure(shared: &Shared) -> polychip_sdk::Result<Peaks> {
        const SIDE: u64 = 384;
        const WORDS: u64 = 1 << 20;
        let product = best(shared, &probe::product(SIDE))?;
        let copy = best(shared, &probe::negation(WORDS))?;
        let rate = |work: u64, time: Duration| (work as f64 / time.as_secs_f64().max(1e-9)) as u64;
        Ok(Peaks {
            macs_per_s: rate(SIDE * SIDE * SIDE, product),
            bytes_per_s: rate(8 * WORDS, copy),
        })
    }
}

/// The shortest of some runs of a model whose tensors are the library's own.
fn best(shared: &Shared, model: &[u8]) -> polychip_sdk::Result<Duration> {
    let core = &shared.vendor.core;
    let model = core.read(model)?;
    let properties = lower::properties(shared, Precision::Exact, shared.threads);
    let request = core.compile(&model, &shared.name, &properties)?.request()?;
    let mut best = Duration::MAX;
    for _ in 0..8 {
        let start = Instant::now();
        request.infer()?;
        best = best.min(start.elapsed());
    }
    Ok(best)
}

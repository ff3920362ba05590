//! Measurements of the device: its rates, once, and the span of each run, on the host's clock. The
//! device has no sensors of its own; the cpu plugin reads those of the chip.
//!
//! Invariants:
//! 1. Times of runs come from the host's clock, which is virtual in tests; rates come from the
//!    process's own clock.
//! 2. Rates are measured on the host's request and kept in its store; otherwise a device has stated
//!    rates.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use polychip_sdk::{HostServices, Precision, RatesWanted};

use crate::shared::Shared;
use crate::{model, probe};

/// Rates of the device with the threads that it takes by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peaks {
    /// Multiply-adds of f32 per second.
    pub(crate) macs_per_s: u64,
    /// Bytes moved per second.
    pub(crate) bytes_per_s: u64,
    /// When they were measured, in seconds since 1970; none where they are stated.
    pub(crate) measured_s: Option<u64>,
}

/// What a core of the chips that the library runs on reaches with its two units of 256 bits at 2.5 GHz, of which whole
/// models reach three quarters.
const CORE_MACS_PER_S: u64 = 30_000_000_000;

/// That of this machine's cores: twice as much with units of 512 bits.
fn core_macs_per_s() -> u64 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512f") {
        return 2 * CORE_MACS_PER_S;
    }
    CORE_MACS_PER_S
}

/// Orders of magnitude of Intel's GPUs and NPUs beside them, and of the memory that they share.
const BESIDE_MACS_PER_S: u64 = 500_000_000_000;
const BYTES_PER_S: u64 = 10_000_000_000;

/// Cores that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl Peaks {
    /// The stated peaks of a device without measurements: the same in every process.
    fn stated(shared: &Shared) -> Peaks {
        let cores = match shared.threads {
            0 => cores() as u64,
            threads => u64::from(threads),
        };
        Peaks {
            macs_per_s: if shared.is_cpu {
                core_macs_per_s().saturating_mul(cores)
            } else {
                BESIDE_MACS_PER_S
            },
            bytes_per_s: BYTES_PER_S,
            measured_s: None,
        }
    }

    /// The rates in the host's store, stated ones, or measured now and stored, as the host wants.
    pub(crate) fn of(host: &HostServices, wanted: RatesWanted, shared: &Shared) -> Peaks {
        let key = format!("rates {} {} threads", shared.made_by, shared.threads);
        let kept = || {
            let bytes = host.store_read(&key).ok().flatten()?;
            let words = <[u8; 24]>::try_from(&bytes[..]).ok()?;
            let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| words[8 * at + i]));
            Some(Peaks {
                macs_per_s: word(0),
                bytes_per_s: word(1),
                measured_s: Some(word(2)),
            })
        };
        let stated = Peaks::stated(shared);
        let known = match wanted {
            RatesWanted::Stated => Some(stated),
            RatesWanted::Kept => Some(kept().unwrap_or(stated)),
            RatesWanted::Measured => kept(),
            RatesWanted::MeasuredAnew => None,
        };
        if let Some(known) = known {
            return known;
        }
        // a failure is not kept: it may pass
        let Ok(peaks) = Peaks::measure(shared) else {
            return stated;
        };
        let words = [peaks.macs_per_s, peaks.bytes_per_s, peaks.measured_s.unwrap_or(0)];
        // a host without a store reckons with the stated ones next time
        let _ = host.store_write(&key, words.map(u64::to_le_bytes).as_flattened());
        peaks
    }

    /// Some milliseconds of a product and of a copy, both as models of one node.
    fn measure(shared: &Shared) -> polychip_sdk::Result<Peaks> {
        const SIDE: u64 = 384;
        const WORDS: u64 = 1 << 20;
        let product = best(shared, &probe::product(SIDE))?;
        let copy = best(shared, &probe::negation(WORDS))?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let rate = |work: u64, time: Duration| (work as f64 / time.as_secs_f64().max(1e-9)) as u64;
        Ok(Peaks {
            macs_per_s: rate(SIDE * SIDE * SIDE, product),
            bytes_per_s: rate(8 * WORDS, copy),
            measured_s: Some(since.as_secs()),
        })
    }
}

/// The shortest of some runs of a model whose tensors are the library's own.
fn best(shared: &Shared, text: &[u8]) -> polychip_sdk::Result<Duration> {
    let core = &shared.vendor.core;
    let read = core.read(text)?;
    let properties = model::properties(shared, Precision::Exact, shared.threads);
    let request = core.compile(&read, &shared.name, &properties)?.request()?;
    // where its runs compute
    let kept = shared.cores.keep();
    let mut best = Duration::MAX;
    for _ in 0..8 {
        let start = Instant::now();
        request.infer()?;
        best = best.min(start.elapsed());
    }
    drop(kept);
    Ok(best)
}

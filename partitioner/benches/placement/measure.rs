//! Times and memory of planning.
//!
//! Invariants: a time is the tenth percentile of its repetitions, beside that of a fixed loop in
//! the same run, which shows how fast and how busy the machine was; memory is the peak of what was
//! requested of the allocator. Own code, not criterion: it reports times together with objectives,
//! bounds and peak memory of the same call.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Every allocation of this program is counted.
#[global_allocator]
static MEMORY: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;

/// Steps of the calibration loop.
const STEPS: u64 = 1 << 20;

/// The tenth percentile of the time of a call, over at least `least` calls and up to `budget`.
pub(crate) fn time<T>(least: usize, budget: Duration, mut call: impl FnMut() -> T) -> Duration {
    let start = Instant::now();
    let mut times = Vec::new();
    while times.len() < least || (start.elapsed() < budget && times.len() < 200) {
        let begin = Instant::now();
        black_box(call());
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    times[(times.len() - 1) / 10]
}

/// The fixed loop: a million dependent multiplications.
pub(crate) fn calibrate() -> Duration {
    time(20, Duration::ZERO, || {
        (0..STEPS).fold(1u64, |state, step| {
            black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step))
        })
    })
}

/// The most bytes that a call held beyond those held before it.
pub(crate) fn peak_bytes<T>(call: impl FnOnce() -> T) -> usize {
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    let result = call();
    let peak = MEMORY.peak_usage();
    drop(result);
    peak.saturating_sub(before)
}

//! The price of each class of work: nanoseconds per iteration of its loops at a reference pace, or a share of the measured
//! rate of multiply-adds.
//!
//! Invariants:
//! 1. Prices were read off the op benchmark, one per class, on cases of the usual size by one thread (`cargo xtask ops
//!    --alone -- --threads 1 --busy`). No case has a price of its own. Held against two threads and 440 cases ten times smaller
//!    and larger, on which nothing but the price of quantising was tuned (docs/figures.md).
//! 2. More work costs more; more threads never cost more than [`DISPATCH_NS`].
//!
//! Not here: what a step's work is (`work`).

use crate::rates::Peaks;
use crate::work::{Class, Loop, Work};

/// The rates of the machine that the prices were taken on, a virtual machine of an AMD EPYC (Zen 4) of 2.6 GHz, as they are
/// stated; but for the pace of prices per iteration, which is between the 650 million additions that are stated and the 1,230
/// million that its clock reaches.
pub(super) const REFERENCE: Peaks = Peaks {
    macs_per_s: 41_600_000_000,
    byte_macs_per_s: 166_400_000_000,
    bytes_per_s: 10_000_000_000,
    additions_per_s: 900_000_000,
};
/// Time that a kernel call costs beside its work, in nanoseconds.
const STEP_NS: f64 = 300.0;
/// Time that a call of the reference evaluator costs beside its work: tensors are made, and their memory.
const EVALUATE_NS: f64 = 1_500.0;
/// Time that it takes to hand work to another thread and to hear of its end, in nanoseconds.
const DISPATCH_NS: f64 = 3_000.0;
/// Nanoseconds per byte that a pass reads or writes within the caches.
const CACHED_NS: f64 = 0.012;
/// Bytes that the caches hold; what is beyond comes at the rate of memory.
const CACHE_BYTES: f64 = 32e6;
/// Nanoseconds per byte of elements that change their order, beyond those of the second-level cache: a line holds few
/// elements that lie together.
const PERMUTED_NS: f64 = 0.04;
/// Elements that change their order within these bytes find their lines in the second-level cache.
const PERMUTED_IN_CACHE: f64 = 1e6;
/// Nanoseconds per byte of memory that a call of the reference evaluator must ask the system for, as it does where its
/// widened operands are larger than [`KEPT_BYTES`].
const FRESH_NS: f64 = 0.5;
/// Memory that the allocator keeps between runs.
const KEPT_BYTES: f64 = 16e6;

/// The price of an iteration of the loops of a class.
enum Price {
    /// This share of the rate of multiply-adds of f32.
    F32RateShare(f64),
    /// This share of the rate of multiply-adds of bytes.
    ByteRateShare(f64),
    /// Nanoseconds per iteration at the reference pace.
    PerIteration(f64),
}

/// The price of a class, and the iterations below which its loops are left to one thread; none where threads do not share it.
fn price(class: Class) -> (Price, Option<f64>) {
    use Price::{ByteRateShare, F32RateShare, PerIteration};
    const PRODUCT: Option<f64> = Some(250e3);
    const PASS: Option<f64> = Some(16e3);
    match class {
        Class::Product => (F32RateShare(0.85), PRODUCT),
        Class::ProductBf16 => (F32RateShare(1.6), PRODUCT),
        Class::ProductCodes => (ByteRateShare(0.9), PRODUCT),
        Class::ProductNibbles => (F32RateShare(0.6), PRODUCT),
        Class::ProductBlocks => (ByteRateShare(0.7), PRODUCT),
        Class::Winograd => (F32RateShare(0.62), PRODUCT),
        Class::Depthwise => (F32RateShare(0.7), PRODUCT),
        Class::DepthwiseCodes => (ByteRateShare(1.3), PRODUCT),
        Class::Attention => (F32RateShare(0.65), PRODUCT),
        Class::Copy => (PerIteration(0.09), PASS),
        Class::Permute => (PerIteration(0.7), PASS),
        Class::Arithmetic => (PerIteration(0.17), PASS),
        Class::Transcendental => (PerIteration(0.42), PASS),
        Class::Power => (PerIteration(6.0), PASS),
        Class::ProductPlain => (PerIteration(0.1), PRODUCT),
        Class::Sample => (PerIteration(0.35), PASS),
        Class::Running => (PerIteration(1.6), PASS),
        Class::Reduce => (PerIteration(0.12), PASS),
        Class::Normalise => (PerIteration(0.55), PASS),
        Class::NormaliseAcross => (PerIteration(3.7), None),
        Class::Softmax => (PerIteration(0.48), PASS),
        Class::Pool => (PerIteration(0.1), PASS),
        Class::PoolCodes => (PerIteration(0.1), PASS),
        Class::Select => (PerIteration(3.0), None),
        Class::Resize => (PerIteration(0.9), None),
        Class::Typed => (PerIteration(0.06), PASS),
        Class::Order => (PerIteration(0.7), None),
        #[cfg(feature = "fourier")]
        Class::Fourier => (PerIteration(0.27), None),
        Class::TypedDivide => (PerIteration(2.5), None),
        Class::Convert => (PerIteration(0.09), PASS),
        Class::Truncate => (PerIteration(0.35), PASS),
        Class::Codes => (PerIteration(0.2), PASS),
        Class::Dequantise => (PerIteration(0.12), PASS),
        Class::Quantise => (PerIteration(0.3), PASS),
        Class::Reference(iteration) => (PerIteration(reference(iteration)), None),
    }
}

/// Nanoseconds per iteration of a loop of the reference evaluator.
fn reference(iteration: Loop) -> f64 {
    match iteration {
        Loop::Pass => 0.4,
        Loop::Reduce => 1.6,
        Loop::Element => 5.0,
        Loop::IntegerPass => 3.3,
        Loop::Integer => 8.5,
        Loop::Divide => 20.0,
        Loop::Function => 8.0,
        Loop::Series => 60.0,
        Loop::Index => 5.5,
        Loop::Coordinates => 20.0,
        Loop::Row => 0.22,
        Loop::IntegerRow => 1.35,
        Loop::Dot => 0.95,
        Loop::Gathered => 2.4,
        Loop::Tap => 0.9,
        Loop::Place => 2.8,
        Loop::Window => 7.0,
        Loop::Sample => 4.0,
        Loop::Compare => 8.5,
        Loop::Angle => 21.0,
        Loop::Pair => 1.7,
        Loop::Quantise => 25.0,
        Loop::Body => 8.0,
    }
}

/// Nanoseconds to box an element for the reference evaluator, or to unbox it.
const BOX_NS: f64 = 0.1;
/// The same of a float of 16 bits that is taken, which is widened.
const HALF_TAKEN_NS: f64 = 1.7;
/// The same of a float of 16 bits that is given, which is rounded.
const HALF_GIVEN_NS: f64 = 31.0;

/// What a thread beyond the second adds, as a share of the first.
const FURTHER: f64 = 0.55;

/// How many times as fast as one thread so many are.
///
/// Virtual machines do not tell which of their processors are threads of one core (a Xeon of 16 such says one thread per
/// core, and ResNet-50 is 5.5 times as fast on 8 and 10.2 times on 16), and memory is everybody's.
fn speedup(threads: usize) -> f64 {
    let threads = threads.max(1) as f64;
    threads.min(2.0) + FURTHER * (threads - 2.0).max(0.0)
}

impl Peaks {
    /// The expected time of a step.
    pub(super) fn step_ns(&self, work: &Work, threads: usize) -> f64 {
        let pace = REFERENCE.additions_per_s as f64 / self.additions_per_s as f64;
        let (price, alone) = price(work.class);
        let iterations = work.units as f64;
        let busy = match price {
            Price::F32RateShare(share) => 1e9 * iterations / (self.macs_per_s as f64 * share),
            Price::ByteRateShare(share) => 1e9 * iterations / (self.byte_macs_per_s as f64 * share),
            Price::PerIteration(ns) => pace * ns * iterations,
        };
        let bytes = work.bytes as f64;
        if work.class.is_reference() {
            let boxes = BOX_NS * work.boxed.plain as f64
                + HALF_TAKEN_NS * work.boxed.halves_taken as f64
                + HALF_GIVEN_NS * work.boxed.halves_given as f64;
            let fresh = FRESH_NS * (work.boxed.wide_bytes as f64 - KEPT_BYTES).max(0.0);
            return busy + pace * (EVALUATE_NS + boxes + fresh);
        }
        let time = if work.class == Class::Permute {
            busy + pace * PERMUTED_NS * (bytes - PERMUTED_IN_CACHE).max(0.0)
        } else {
            busy.max(pace * CACHED_NS * bytes.min(CACHE_BYTES))
        };
        let time = time + 1e9 * (bytes - CACHE_BYTES).max(0.0) / self.bytes_per_s as f64;
        let shared = alone.map_or(1.0, |alone| (iterations / alone).clamp(1.0, speedup(threads)));
        // kernels leave to one thread what others would not make faster
        let apart = pace * DISPATCH_NS + time / shared;
        pace * STEP_NS + if shared > 1.0 { apart.min(time) } else { time }
    }
}

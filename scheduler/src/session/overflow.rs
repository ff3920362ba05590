//! Overflow of reduced precision: a device that computes in 16-bit floats turns values above 65,504 into
//! infinities, and these into NaN.
//!
//! Invariants:
//! 1. The first runs of a plan with reduced precision are looked at: if inputs are finite and outputs are
//!    not, the report and the log name output, part and device.
//! 2. The nodes whose values overflow then move to a device that computes in full precision. If none is
//!    found or no device takes them, or if outputs are still not finite, the plan computes in full precision.
//! 3. Outputs that are not finite in full precision either are the model's own, and change nothing.
//! 4. Neither plans nor compiles on the thread of a run, except on virtual time.
//!
//! Here: what a plan and a session keep of it. Not here: looking at a run (`watch`), what is then done (`act`), the
//! precision of a policy (`policy`).

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use polychip_host::DeviceKind;
use polychip_ops::DType;
use polychip_partitioner::DeviceIndex;

use crate::planned::Planned;
use crate::policy::Precision;

mod act;
pub(crate) mod watch;

/// Runs of a plan that are looked at.
const FIRST_RUNS: u32 = 4;

/// Runs of a plan that are still looked at.
#[derive(Debug)]
pub(crate) struct RunsToWatch(AtomicU32);

impl RunsToWatch {
    /// Of a plan; none if it computes in full precision.
    pub(crate) fn of(planned: &Planned, precision: Precision) -> RunsToWatch {
        let may_overflow = precision == Precision::Reduced && suspects(planned).next().is_some();
        RunsToWatch(AtomicU32::new(if may_overflow { FIRST_RUNS } else { 0 }))
    }

    /// Whether the run that has ended is one of them.
    pub(crate) fn take(&self) -> bool {
        let less = |left: u32| left.checked_sub(1);
        let left = self.0.load(Ordering::Relaxed);
        left != 0
            && self
                .0
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
                .is_ok()
    }
}

/// What a session has done about overflow.
#[derive(Debug, Default)]
pub(crate) struct OverflowState(pub(super) AtomicU8);

impl OverflowState {
    pub(super) const IDLE: u8 = 0;
    pub(super) const BUSY: u8 = 1;
    /// Nodes were moved; what overflows now leads to full precision.
    pub(super) const MOVED: u8 = 2;
    /// Nothing more is done.
    pub(super) const OVER: u8 = 3;
}

/// The largest magnitude; infinite if an element is not finite, 0 for other types than floats.
pub(crate) fn largest(dtype: DType, bytes: &[u8]) -> f64 {
    fn of<const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> f64) -> f64 {
        let words = bytes.as_chunks::<N>().0.iter();
        words.fold(0.0, |largest: f64, word| {
            let value = value(*word).abs();
            if value.is_nan() {
                f64::INFINITY
            } else {
                largest.max(value)
            }
        })
    }
    match dtype {
        DType::F32 => of(bytes, |word| f64::from(f32::from_le_bytes(word))),
        DType::F64 => of(bytes, f64::from_le_bytes),
        DType::F16 => of(bytes, |word| f64::from(half::f16::from_le_bytes(word))),
        DType::BF16 => of(bytes, |word| f64::from(half::bf16::from_le_bytes(word))),
        _ => 0.0,
    }
}

/// Nodes that reduced precision may make overflow, with their devices. (The CPU's reduced type, bf16, has the range of
/// f32.)
fn suspects(planned: &Planned) -> impl Iterator<Item = (DeviceIndex, u32)> {
    let of_part = |part: &polychip_partitioner::Part| {
        let device = part.device;
        let is_cpu = planned.devices()[device.index()].info().kind == DeviceKind::Cpu;
        let nodes = if is_cpu { Vec::new() } else { part.nodes.clone() };
        nodes.into_iter().map(move |node| (device, node))
    };
    planned.plan().parts.iter().flat_map(of_part)
}

//! Fences as words in shared memory: the child writes how a run ended, the host reads it without a
//! call.
//!
//! Invariants:
//! 1. A slot's figures are written before its state, and read after it.
//! 2. The host keeps its own record of an end that it has seen, so a later change by the child has
//!    no effect.

#![allow(unsafe_code, reason = "a struct of atomics is declared shareable")]

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use polychip_abi as abi;
use polychip_sdk::{Result, Timing};
use rustix::thread::futex;

use crate::shared_file::{SharedFile, SharedValue};

/// Runs that may be open at once in a process.
pub(crate) const SLOTS: u32 = 4096;

/// The run has not ended.
const RUNNING: u32 = 0;
/// Set by the host: it wants an event when the run ends.
const TELL: u32 = 1;
/// Set by the child: the run has ended, with the status in the bits above.
const ENDED: u32 = 2;
const STATUS_SHIFT: u32 = 8;

/// `timing` of a slot: the device measured nothing.
const NOT_MEASURED: u32 = 1 << 31;

/// Longest sleep between two looks at whether the process lives.
const LOOK_UP: Duration = Duration::from_secs(1);

/// One run.
#[repr(C, align(64))]
struct Slot {
    state: AtomicU32,
    /// Bits `POLYCHIP_TIMING_*`, or [`NOT_MEASURED`].
    timing: AtomicU32,
    queued_ns: AtomicU64,
    start_ns: AtomicU64,
    end_ns: AtomicU64,
    energy_uj: AtomicU64,
    copied_bytes: AtomicU64,
    /// Bytes that were copied for the run between the plugin's own memory and shared memory.
    moved_bytes: AtomicU64,
}

// SAFETY: every field is an atomic integer.
unsafe impl SharedValue for Slot {}

/// The slots of one process.
pub(crate) struct FenceSlots(SharedFile);

impl FenceSlots {
    const BYTES: u64 = SLOTS as u64 * size_of::<Slot>() as u64;

    /// New slots, all unused.
    pub(crate) fn new() -> Result<FenceSlots> {
        Ok(FenceSlots(SharedFile::new(Self::BYTES)?))
    }

    /// The slots that the other process made.
    pub(crate) fn of_file(file: OwnedFd) -> Result<FenceSlots> {
        Ok(FenceSlots(SharedFile::map(file, 0, Self::BYTES)?))
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.0.file()
    }

    fn slot(&self, slot: u32) -> &Slot {
        &self.0.atomics::<Slot>(SLOTS as usize)[slot as usize]
    }

    /// Prepares a slot for a run.
    pub(crate) fn start(&self, slot: u32) {
        let at = self.slot(slot);
        at.timing.store(NOT_MEASURED, Ordering::Relaxed);
        at.moved_bytes.store(0, Ordering::Relaxed);
        at.state.store(RUNNING, Ordering::Release);
    }

    /// Marks the run as ended. Returns whether the host asked for an event. A run ends once.
    pub(crate) fn end(&self, slot: u32, status: u32, timing: Option<&abi::polychip_timing>) -> bool {
        let at = self.slot(slot);
        if let Some(timing) = timing {
            at.queued_ns.store(timing.queued_ns, Ordering::Relaxed);
            at.start_ns.store(timing.start_ns, Ordering::Relaxed);
            at.end_ns.store(timing.end_ns, Ordering::Relaxed);
            at.energy_uj.store(timing.energy_uj, Ordering::Relaxed);
            at.copied_bytes.store(timing.copied_bytes, Ordering::Relaxed);
            at.timing.store(timing.valid & !NOT_MEASURED, Ordering::Relaxed);
        }
        let ended = ENDED | (status << STATUS_SHIFT);
        let before = at
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
                (state & ENDED == 0).then_some(state | ended)
            });
        let Ok(before) = before else { return false };
        let _ = futex::wake(&at.state, futex::Flags::empty(), u32::MAX >> 1);
        before & TELL != 0
    }

    /// Counts bytes that were copied for a run that has not ended.
    pub(crate) fn count_moved(&self, slot: u32, bytes: u64) {
        self.slot(slot).moved_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that were copied for an ended run between the plugin's own memory and shared memory.
    pub(crate) fn moved(&self, slot: u32) -> u64 {
        self.slot(slot).moved_bytes.load(Ordering::Relaxed)
    }

    /// Status of a run that has ended.
    pub(crate) fn ended(&self, slot: u32) -> Option<u32> {
        let state = self.slot(slot).state.load(Ordering::Acquire);
        (state & ENDED != 0).then_some(state >> STATUS_SHIFT)
    }

    /// Asks for an event at the end. Returns the status if the run has ended already.
    pub(crate) fn tell(&self, slot: u32) -> Option<u32> {
        let state = self.slot(slot).state.fetch_or(TELL, Ordering::AcqRel);
        (state & ENDED != 0).then_some(state >> STATUS_SHIFT)
    }

    /// What the device measured of an ended run; `None` if it measured nothing.
    pub(crate) fn timing(&self, slot: u32) -> Option<Timing> {
        let at = self.slot(slot);
        let valid = at.timing.load(Ordering::Relaxed);
        if valid & NOT_MEASURED != 0 {
            return None;
        }
        let has = |bit: u32, value: &AtomicU64| (valid & bit != 0).then(|| value.load(Ordering::Relaxed));
        let span =
            has(abi::POLYCHIP_TIMING_SPAN, &at.start_ns).zip(has(abi::POLYCHIP_TIMING_SPAN, &at.end_ns));
        Some(Timing {
            queued_ns: has(abi::POLYCHIP_TIMING_QUEUED, &at.queued_ns),
            // a run that ends before it starts is a lie
            span_ns: span.filter(|(start_ns, end_ns)| start_ns <= end_ns),
            energy_uj: has(abi::POLYCHIP_TIMING_ENERGY, &at.energy_uj),
            copied_bytes: has(abi::POLYCHIP_TIMING_COPIED, &at.copied_bytes),
        })
    }

    /// Waits for the end of a run, at most `timeout`; `None` waits without limit.
    pub(crate) fn wait(&self, slot: u32, timeout: Option<Duration>) -> Option<u32> {
        let at = self.slot(slot);
        let begun = Instant::now();
        loop {
            let state = at.state.load(Ordering::Acquire);
            if state & ENDED != 0 {
                return Some(state >> STATUS_SHIFT);
            }
            let left = timeout.map(|timeout| timeout.saturating_sub(begun.elapsed()));
            if left == Some(Duration::ZERO) {
                return None;
            }
            let sleep = left.unwrap_or(LOOK_UP).min(LOOK_UP);
            let sleep = futex::Timespec {
                tv_sec: sleep.as_secs() as i64,
                tv_nsec: i64::from(sleep.subsec_nanos()),
            };
            let _ = futex::wait(&at.state, futex::Flags::empty(), state, Some(&sleep));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_ends_once_and_wakes_its_waiter() {
        let slots = FenceSlots::new().unwrap();
        let other = FenceSlots::of_file(rustix::io::dup(slots.file()).unwrap()).unwrap();
        slots.start(7);
        assert_eq!(slots.wait(7, Some(Duration::from_millis(1))), None);
        assert_eq!(slots.tell(7), None);
        let timing = abi::polychip_timing {
            valid: abi::POLYCHIP_TIMING_SPAN | abi::POLYCHIP_TIMING_COPIED,
            start_ns: 5,
            end_ns: 9,
            copied_bytes: 3,
            ..Default::default()
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                other.count_moved(7, 40);
                other.count_moved(7, 2);
                assert!(other.end(7, abi::POLYCHIP_STATUS_OK, Some(&timing)));
                assert!(!other.end(7, abi::POLYCHIP_STATUS_DEVICE_LOST, None));
            });
            assert_eq!(slots.wait(7, None), Some(0));
        });
        let seen = slots.timing(7).unwrap();
        assert_eq!(
            (seen.span_ns, seen.copied_bytes, seen.energy_uj),
            (Some((5, 9)), Some(3), None)
        );
        assert_eq!(slots.moved(7), 42);
        slots.start(7);
        assert_eq!((slots.ended(7), slots.timing(7), slots.moved(7)), (None, None, 0));
    }
}

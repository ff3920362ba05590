//! Profiles and their events.
//!
//! Invariants:
//! 1. Arrays that clients received live as long as their profile.
//! 2. Estimates are functions of the graph alone; cycles of an execute are host time, and so noise.
//!
//! Not here: real costs. The estimates have the shape of the vendor's (they grow with the root of the
//! multiplications); nothing calibrates them.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use polychip_sys::qnn as sys;

use crate::soc::Soc;

/// One event.
#[derive(Clone, Copy)]
pub(crate) struct Event {
    pub(crate) id: u64,
    pub(crate) kind: u32,
    pub(crate) unit: u32,
    pub(crate) value: u64,
    pub(crate) name: &'static CStr,
}

/// Codes of units and of an execute's event: our own, not measured.
const UNIT_CYCLES: u32 = 3;
const UNIT_BYTES: u32 = 2;
const UNIT_MICROSECONDS: u32 = 1;
const EXECUTE_CYCLES: u32 = 3002;
const FINALIZE_TIME: u32 = 300;

static NEXT: AtomicU64 = AtomicU64::new(1);

#[derive(Default)]
struct State {
    events: Vec<Event>,
    handed_out: Vec<Box<[u64]>>,
}

/// A profile.
pub(crate) struct Profile {
    level: u32,
    state: Mutex<State>,
}

impl Profile {
    /// An empty profile.
    pub(crate) fn new(level: u32) -> Profile {
        Profile {
            level,
            state: Mutex::default(),
        }
    }

    fn replace(&self, events: impl IntoIterator<Item = (u32, u32, u64, &'static CStr)>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.events = events
            .into_iter()
            .filter(|_| self.level > 0)
            .map(|(kind, unit, value, name)| Event {
                id: NEXT.fetch_add(1, Ordering::Relaxed),
                kind,
                unit,
                value,
                name,
            })
            .collect();
    }

    /// Adds the time of an execute on this host, in cycles of a 1 GHz clock.
    pub(crate) fn executed(&self, took: Duration) {
        let cycles = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.replace([(
            EXECUTE_CYCLES,
            UNIT_CYCLES,
            cycles,
            c"Accelerator (execute) time (cycles)",
        )]);
    }

    /// Adds the events of a finalize: estimates, on some SoCs.
    pub(crate) fn finalized(&self, took: Duration, soc: Soc, (macs, bytes): (u64, u64)) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let mut events = vec![(FINALIZE_TIME, UNIT_MICROSECONDS, micros, c"QNN (finalize) time")];
        if soc.estimates() {
            let cycles = (1910.0 * (macs as f64 / 1e6).sqrt()) as u64 + 200;
            events.extend([
                (
                    sys::POLYCHIP_QNN_EVENT_ESTIMATED_CYCLES,
                    UNIT_CYCLES,
                    cycles,
                    c"estimated cycles",
                ),
                (
                    sys::POLYCHIP_QNN_EVENT_ESTIMATED_CYCLES_LOWER,
                    UNIT_CYCLES,
                    cycles * 863 / 1000,
                    c"estimated cycles, lower bound",
                ),
                (
                    sys::POLYCHIP_QNN_EVENT_ESTIMATED_CYCLES_UPPER,
                    UNIT_CYCLES,
                    cycles * 1173 / 1000,
                    c"estimated cycles, upper bound",
                ),
            ]);
            let ddr = sys::POLYCHIP_QNN_EVENT_DDR_BYTES_FIRST..=sys::POLYCHIP_QNN_EVENT_DDR_BYTES_LAST;
            events.extend(ddr.enumerate().map(|(i, kind)| {
                let share = if i == 0 { bytes } else { bytes / (2 * i as u64) };
                (kind, UNIT_BYTES, share, c"estimated DDR bytes")
            }));
        }
        self.replace(events);
    }

    /// The events' numbers, in memory that lives as long as the profile.
    pub(crate) fn hand_out(&self) -> (*const u64, usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let ids: Box<[u64]> = state.events.iter().map(|event| event.id).collect();
        let out = (ids.as_ptr(), ids.len());
        state.handed_out.push(ids);
        out
    }

    /// The event of this number.
    pub(crate) fn event(&self, id: u64) -> Option<Event> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.events.iter().find(|event| event.id == id).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_functions_of_the_graph() {
        let profile = Profile::new(1);
        let values = |soc| {
            let took = Duration::from_micros(NEXT.load(Ordering::Relaxed));
            profile.finalized(took, Soc::from_id(soc).unwrap(), (116_000_000, 300_000));
            let state = profile.state.lock().unwrap();
            state.events[1..]
                .iter()
                .map(|event| (event.kind, event.value))
                .collect::<Vec<_>>()
        };
        assert!(values(57).is_empty());
        let estimates = values(72);
        assert_eq!(estimates, values(72));
        let kinds: Vec<u32> = estimates.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [2006, 2007, 2008, 2011, 2012, 2013, 2014, 2015, 2016]);
        // the vendor's estimate of this product was 20542
        assert!((20_000..21_500).contains(&estimates[0].1), "{estimates:?}");
    }
}

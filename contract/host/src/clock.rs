//! The clock that plugins receive: real, or virtual for tests and emulated devices.
//!
//! Invariant: time never goes back. On virtual time a sleep advances the clock and returns at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A monotonic clock in nanoseconds.
#[derive(Debug, Clone)]
pub struct Clock(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Real(Instant),
    Virtual(Arc<AtomicU64>),
}

impl Clock {
    /// The machine's clock, starting at 0.
    #[must_use]
    pub fn real() -> Clock {
        Clock(Kind::Real(Instant::now()))
    }

    /// A clock that advances only when a caller sleeps. Clones share it.
    #[must_use]
    pub fn virtual_time() -> Clock {
        Clock(Kind::Virtual(Arc::default()))
    }

    /// Whether this is virtual time.
    #[must_use]
    pub fn is_virtual(&self) -> bool {
        matches!(self.0, Kind::Virtual(_))
    }

    /// Nanoseconds since the clock was made.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        match &self.0 {
            Kind::Real(start) => u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX),
            Kind::Virtual(now) => now.load(Ordering::Acquire),
        }
    }

    /// Waits until the clock shows `until_ns`; advances virtual time to it.
    pub fn sleep_until_ns(&self, until_ns: u64) {
        match &self.0 {
            Kind::Real(_) => {
                let left = until_ns.saturating_sub(self.now_ns());
                if left > 0 {
                    std::thread::sleep(Duration::from_nanos(left));
                }
            }
            Kind::Virtual(now) => {
                now.fetch_max(until_ns, Ordering::AcqRel);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_time_only_advances_and_is_shared() {
        let clock = Clock::virtual_time();
        let same = clock.clone();
        clock.sleep_until_ns(50);
        same.sleep_until_ns(20);
        assert_eq!(same.now_ns(), 50);
        assert!(same.is_virtual() && !Clock::real().is_virtual());
    }
}

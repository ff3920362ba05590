//! When a run began and ended on the GPU, told on the host's clock.
//!
//! Invariant: a time on the host's clock is within some microseconds where the driver offers both clocks at once
//! (`VK_EXT_calibrated_timestamps`); elsewhere the length is the GPU's and the end is when the host saw it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long a comparison of the two clocks holds, in nanoseconds.
const HOLDS_NS: u64 = 200_000_000;

/// Both clocks at one moment.
#[derive(Clone, Copy)]
struct Moment {
    ticks: u64,
    host_ns: u64,
}

/// The GPU's clock as the host's tells it.
pub(crate) struct Clock {
    /// Nanoseconds of a tick.
    period: f64,
    /// Bits of a time that count.
    mask: u64,
    compared: Mutex<Option<Moment>>,
}

impl Clock {
    /// A clock whose ticks last so many nanoseconds, of so many bits.
    pub(crate) fn new(period: f32, bits: u32) -> Clock {
        Clock {
            period: f64::from(period),
            mask: u64::MAX.checked_shr(64u32.saturating_sub(bits)).unwrap_or(0),
            compared: Mutex::new(None),
        }
    }

    /// Ticks from one time to a later one.
    fn between(&self, from: u64, to: u64) -> u64 {
        to.wrapping_sub(from) & self.mask
    }

    /// How long a run took.
    pub(crate) fn length(&self, (begin, end): (u64, u64)) -> Duration {
        Duration::from_nanos((self.between(begin, end) as f64 * self.period) as u64)
    }

    /// Begin and end of a run on the host's clock, in nanoseconds, clamped to when the host knows it was under way.
    ///
    /// `now` reads the host's clock, `sample` the GPU's.
    pub(crate) fn span(
        &self,
        (begin, end): (u64, u64),
        queued_ns: u64,
        now: impl Fn() -> u64,
        sample: impl Fn() -> Option<u64>,
    ) -> (u64, u64) {
        let now_ns = now();
        let length = self.length((begin, end)).as_nanos() as u64;
        let mut compared = self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = compared.is_some_and(|moment| now_ns.saturating_sub(moment.host_ns) < HOLDS_NS);
        if !fresh {
            *compared = sample().map(|ticks| Moment {
                ticks,
                host_ns: now_ns + (now().saturating_sub(now_ns)) / 2,
            });
        }
        let end_ns = match *compared {
            Some(moment) => {
                // the run may have ended before the comparison or after it
                let after = self.between(moment.ticks, end);
                if after <= self.mask / 2 {
                    moment.host_ns.saturating_add((after as f64 * self.period) as u64)
                } else {
                    let before = self.between(end, moment.ticks);
                    moment
                        .host_ns
                        .saturating_sub((before as f64 * self.period) as u64)
                }
            }
            None => now_ns,
        };
        let end_ns = end_ns.clamp(queued_ns, now_ns.max(queued_ns));
        (end_ns.saturating_sub(length).max(queued_ns), end_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_convert_to_the_host_clock() {
        let clock = Clock::new(2.0, 36);
        let now = std::cell::Cell::new(10_000);
        let span = |ticks, queued| clock.span(ticks, queued, || now.get(), || Some(5_000));
        // compared now: 5 000 ticks are 10 000 ns
        assert_eq!(span((4_000, 4_500), 0), (8_000, 9_000));
        now.set(30_000);
        assert_eq!(span((6_000, 7_000), 0), (12_000, 14_000));
        // not before it was queued, not after now
        assert_eq!(span((6_000, 7_000), 13_000), (13_000, 14_000));
        assert_eq!(span((6_000, 60_000), 0), (0, 30_000));
        // a clock of 36 bits goes round
        let clock = Clock::new(1.0, 36);
        let top = (1 << 36) - 10;
        assert_eq!(clock.span((top, 20), 0, || 1_000, || Some(30)), (960, 990));
        // a GPU whose clock cannot be read
        assert_eq!(
            clock.span((top, 20), 0, || 1_000_000_000, || None),
            (999_999_970, 1_000_000_000)
        );
    }
}

//! Runs at a period: each begins that long after the last one began.
//!
//! Invariant: a run that is late lets the next one begin at once, and none of those after it any sooner than their period.

use std::time::{Duration, Instant};

/// Lets runs begin at a period.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pacer {
    period: Duration,
    next: Option<Instant>,
}

impl Pacer {
    /// Runs at this period; zero: back to back.
    pub(crate) fn new(period: Duration) -> Pacer {
        Pacer { period, next: None }
    }

    /// Waits until the next run is due.
    pub(crate) fn wait(&mut self) {
        if self.period.is_zero() {
            return;
        }
        let now = Instant::now();
        let due = self.next.unwrap_or(now).max(now);
        std::thread::sleep(due - now);
        self.next = Some(due + self.period);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_begin_no_sooner_than_their_period() {
        let start = Instant::now();
        let mut pacer = Pacer::new(Duration::from_millis(2));
        for _ in 0..4 {
            pacer.wait();
        }
        assert!(start.elapsed() >= Duration::from_millis(6));
        let mut pacer = Pacer::new(Duration::ZERO);
        pacer.wait();
        assert!(pacer.next.is_none());
    }
}

//! An energy counter that wraps.
//!
//! Invariant: the total never decreases. A counter that falls without a known range was restarted,
//! and its count meanwhile is lost, not guessed.

/// The sum of what a counter has counted since it was first read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counter {
    last: Option<u64>,
    total: u64,
}

impl Counter {
    /// Takes a reading of a counter that goes from 0 to `range` and starts again, where a range is known; the total.
    /// A counter that turns more than once between two readings cannot be told from one that did not.
    pub(crate) fn advance(&mut self, now: u64, range: Option<u64>) -> u64 {
        let more = match self.last {
            None => 0,
            Some(last) if now >= last => now - last,
            Some(last) => match range.filter(|&range| range >= last) {
                Some(range) => (range - last).saturating_add(now).saturating_add(1),
                None => 0,
            },
        };
        self.last = Some(now);
        self.total = self.total.saturating_add(more);
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_wraps_at_its_range_or_restarts() {
        let mut counter = Counter::default();
        let range = Some(999);
        assert_eq!(counter.advance(900, range), 0);
        assert_eq!(counter.advance(990, range), 90);
        assert_eq!(counter.advance(10, range), 90 + 20);
        let mut counter = Counter::default();
        counter.advance(500, None);
        assert_eq!(counter.advance(700, None), 200);
        assert_eq!(counter.advance(5, None), 200);
        assert_eq!(counter.advance(6, None), 201);
        // a range below what was read is no range
        let mut counter = Counter::default();
        counter.advance(500, Some(400));
        assert_eq!(counter.advance(1, Some(400)), 0);
    }
}

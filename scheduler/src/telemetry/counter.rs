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
    /// Adds a reading of a counter, which wraps after `range` if that is known, and returns the total. Several wraps between
    /// two readings look like one.
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
        // a range below the last reading is ignored
        let mut counter = Counter::default();
        counter.advance(500, Some(400));
        assert_eq!(counter.advance(1, Some(400)), 0);
    }
}

//! When to begin to count: a chip that did nothing is slow at first, and is at its clock some time later.
//!
//! Rounds of runs fall into windows. Times are steady where the medians of two windows that follow each other agree, and
//! the clock that the device shows at the end of both, where it shows any.
//!
//! Invariant: a window is long enough for a chip to change its clock in it, so that two slow ones are not taken for
//! steady ones; the warm-up ends in any case.

/// Length of a window. Governors of clocks decide every 10 to 20 ms (devfreq's `polling_ms`, the GPU's firmware).
const WINDOW_NS: u64 = 25_000_000;
/// Fewest rounds in a window: the median of three leaves out one that something else disturbed.
const ROUNDS: usize = 3;
/// Times and clocks agree that differ by less than this share: runs of one clock repeat within it.
const SHARE: u64 = 20;
/// The warm-up ends after this time, steady or not.
const LONGEST_NS: u64 = 2_000_000_000;
/// Windows that are compared at least, however long they take.
const FEWEST: u32 = 2;

/// How far a warm-up is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warmth {
    /// It goes on.
    Rising,
    /// The last two windows agree.
    Steady,
    /// Its time is over, and they do not.
    Unsteady,
}

/// Tells from the times of rounds of runs whether they have become steady.
///
/// ```
/// use polychip::{WarmUp, Warmth};
/// let mut warm_up = WarmUp::default();
/// let mut now_ns = 0;
/// let last = loop {
///     now_ns += 10_000_000;
///     match warm_up.round(now_ns, 10_000_000, || Some(1_980_000)) {
///         Warmth::Rising => {}
///         warmth => break warmth,
///     }
/// };
/// assert_eq!((last, now_ns), (Warmth::Steady, 60_000_000));
/// ```
#[derive(Debug, Clone, Default)]
pub struct WarmUp {
    /// When the first round and the window began.
    start_ns: Option<(u64, u64)>,
    rounds: Vec<u64>,
    /// Median and clock of the last window.
    last: Option<(u64, Option<u64>)>,
    windows: u32,
}

impl WarmUp {
    /// Takes a round that ended at a moment and took some time, both in nanoseconds. At the end of a window the clock of
    /// the device is asked for, in kilohertz.
    pub fn round(&mut self, now_ns: u64, took_ns: u64, khz: impl FnOnce() -> Option<u64>) -> Warmth {
        let (start, window) = *self
            .start_ns
            .get_or_insert((now_ns.saturating_sub(took_ns), now_ns.saturating_sub(took_ns)));
        self.rounds.push(took_ns);
        if self.rounds.len() < ROUNDS || now_ns.saturating_sub(window) < WINDOW_NS {
            return Warmth::Rising;
        }
        self.rounds.sort_unstable();
        let ended = (self.rounds[self.rounds.len() / 2], khz());
        self.rounds.clear();
        self.start_ns = Some((start, now_ns));
        self.windows += 1;
        let before = self.last.replace(ended);
        if before.is_some_and(|before| agree(before, ended)) {
            Warmth::Steady
        } else if self.windows >= FEWEST && now_ns.saturating_sub(start) >= LONGEST_NS {
            Warmth::Unsteady
        } else {
            Warmth::Rising
        }
    }
}

fn agree((time, clock): (u64, Option<u64>), (later, later_clock): (u64, Option<u64>)) -> bool {
    let near = |a: u64, b: u64| a.abs_diff(b) <= a.max(b) / SHARE;
    let clocks = clock.zip(later_clock);
    near(time, later) && clocks.is_none_or(|(clock, later)| near(clock, later))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of these times at these clocks, one after the other, until the warm-up ends; the last is repeated.
    fn ended(rounds: &[(u64, Option<u64>)]) -> (Warmth, u64) {
        let mut warm_up = WarmUp::default();
        let mut now_ns = 1_000;
        for index in 0..100_000 {
            let (took, khz) = rounds[index.min(rounds.len() - 1)];
            now_ns += took;
            match warm_up.round(now_ns, took, || khz) {
                Warmth::Rising => {}
                warmth => return (warmth, now_ns - 1_000),
            }
        }
        panic!("it goes on for ever");
    }

    #[test]
    fn equal_windows_end_it_soon() {
        let (warmth, took) = ended(&[(1_000_000, None)]);
        assert_eq!((warmth, took), (Warmth::Steady, 2 * WINDOW_NS));
        // longer than a window: three of each
        let (warmth, took) = ended(&[(400_000_000, Some(1))]);
        assert_eq!((warmth, took), (Warmth::Steady, 2_400_000_000));
    }

    #[test]
    fn a_clock_that_rises_is_waited_for() {
        // an idle GPU: 3 ms at first, then 1 ms
        let mut rounds = vec![(3_000_000, None); 30];
        rounds.push((1_000_000, None));
        let (warmth, took) = ended(&rounds[..]);
        assert_eq!(warmth, Warmth::Steady);
        assert!(took < 90_000_000, "two slow windows agree: {took}");
        // its clock tells that they are slow ones
        let rising: Vec<(u64, Option<u64>)> = (0..40)
            .map(|round| (3_000_000, Some(345_000 * (1 + round / 9))))
            .chain([(1_000_000, Some(1_980_000))])
            .collect();
        let (warmth, took) = ended(&rising);
        assert_eq!(warmth, Warmth::Steady);
        assert!(took > 120_000_000 + WINDOW_NS, "{took}");
    }

    #[test]
    fn what_never_agrees_ends_unsteady() {
        let mut falling: Vec<(u64, Option<u64>)> = Vec::new();
        for window in 0..200_u64 {
            falling.extend([(25_000_000 * (1 + window % 2), None); ROUNDS]);
        }
        let (warmth, took) = ended(&falling);
        assert_eq!(warmth, Warmth::Unsteady);
        assert!((LONGEST_NS..LONGEST_NS + 300_000_000).contains(&took), "{took}");
    }
}

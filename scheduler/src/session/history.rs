//! The newest figures of a session's runs, in rings of fixed size.

use std::time::Duration;

use polychip_host::Timing;

use polychip_profile::{Cadence, KEPT, median};

/// Measured part times and run latencies.
#[derive(Debug)]
pub(crate) struct History {
    parts: Vec<Ring<PartRun>>,
    latencies: Ring<u64>,
    runs: u64,
    /// When the newest run ended, on the runtime's clock.
    ended_ns: u64,
    /// Of runs in time, and of those that were late.
    tallies: [Tally; 2],
    /// Times of runs are those of the devices, which alone move a virtual clock.
    is_virtual: bool,
    /// Several runs may be in flight.
    overlaps: bool,
    /// Times of runs are kept, not only counted.
    keeps: bool,
    /// By part: the newest times, which the profile has not got yet.
    fresh: Vec<usize>,
}

/// Sums over the runs since they were taken last, by part.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    pub(crate) runs: u64,
    pub(crate) latency_ns: u64,
    /// Time on the device, and energy where every run of the part stated it.
    pub(crate) parts: Vec<(u64, Option<u64>)>,
}

impl Tally {
    fn new(parts: usize) -> Tally {
        Tally {
            parts: vec![(0, Some(0)); parts],
            ..Tally::default()
        }
    }
}

/// A run of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartRun {
    pub(crate) ns: u64,
    pub(crate) energy_uj: Option<u64>,
    /// The cadence that it is booked under; none of a run that is booked nowhere.
    pub(crate) cadence: Option<Cadence>,
}

#[derive(Debug)]
struct Ring<T> {
    values: Vec<T>,
    next: usize,
}

impl<T: Copy> Ring<T> {
    fn new() -> Ring<T> {
        Ring {
            values: Vec::with_capacity(KEPT as usize),
            next: 0,
        }
    }

    /// The newest `count` values, or all if there are fewer, oldest first.
    fn newest(&self, count: usize) -> impl Iterator<Item = T> + '_ {
        let len = self.values.len();
        let count = count.min(len);
        (0..count).map(move |at| self.values[(self.next + KEPT as usize - count + at) % KEPT as usize])
    }

    fn push(&mut self, value: T) {
        if self.values.len() < KEPT as usize {
            self.values.push(value);
        } else {
            self.values[self.next] = value;
        }
        self.next = (self.next + 1) % KEPT as usize;
    }
}

impl History {
    pub(crate) fn new(parts: usize, is_virtual: bool, overlaps: bool) -> History {
        History {
            parts: (0..parts).map(|_| Ring::new()).collect(),
            latencies: Ring::new(),
            runs: 0,
            ended_ns: 0,
            tallies: [Tally::new(parts), Tally::new(parts)],
            is_virtual,
            overlaps,
            keeps: true,
            fresh: vec![0; parts],
        }
    }

    /// Whether times of runs from now on are kept, or only counted.
    pub(crate) fn keep(&mut self, keeps: bool) {
        self.keeps = keeps;
    }

    /// One of the same plan that holds nothing.
    pub(crate) fn emptied(&self) -> History {
        History {
            keeps: self.keeps,
            ..History::new(self.parts.len(), self.is_virtual, self.overlaps)
        }
    }

    /// Forgets what runs took, and that none was the first.
    pub(crate) fn clear(&mut self) {
        *self = History {
            runs: self.runs,
            ..self.emptied()
        };
    }

    /// Gives the sums, of runs in time and of those that were late, and begins anew.
    pub(crate) fn take_tallies(&mut self) -> [Tally; 2] {
        let parts = self.parts.len();
        std::mem::replace(&mut self.tallies, [Tally::new(parts), Tally::new(parts)])
    }

    fn count(&mut self, timings: &[Timing], latency: Duration, is_late: bool) {
        let span = |timing: &Timing| timing.span_ns.map(|(start, end)| end.saturating_sub(start));
        let ns = if self.is_virtual {
            let spans = || timings.iter().filter_map(|timing| timing.span_ns);
            let end = spans().map(|(_, end)| end).max().unwrap_or(0);
            end.saturating_sub(spans().map(|(start, _)| start).min().unwrap_or(0))
        } else {
            let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
            match timings.iter().map(span).sum::<Option<u64>>() {
                // what it waited for other runs says nothing of the plan
                Some(busy) if self.overlaps && busy > 0 => ns.min(busy),
                _ => ns,
            }
        };
        let tally = &mut self.tallies[usize::from(is_late)];
        tally.runs += 1;
        tally.latency_ns = tally.latency_ns.saturating_add(ns);
        for ((busy, energy), timing) in tally.parts.iter_mut().zip(timings) {
            *busy = busy.saturating_add(span(timing).unwrap_or(0));
            *energy = energy
                .zip(timing.energy_uj)
                .map(|(sum, more)| sum.saturating_add(more));
        }
    }

    /// When the newest run ended; none where there was none.
    pub(crate) fn ended_ns(&self) -> Option<u64> {
        (self.runs > 0).then_some(self.ended_ns)
    }

    /// Adds a run that ends now, of a cadence. The first one of a session warms caches and is not kept.
    pub(crate) fn add(
        &mut self,
        timings: &[Timing],
        latency: Duration,
        is_late: bool,
        now_ns: u64,
        cadence: Option<Cadence>,
    ) {
        self.runs += 1;
        self.ended_ns = now_ns;
        self.count(timings, latency, is_late);
        if self.runs == 1 || !self.keeps {
            return;
        }
        for ((ring, fresh), timing) in self.parts.iter_mut().zip(&mut self.fresh).zip(timings) {
            if let Some((start, end)) = timing.span_ns {
                ring.push(PartRun {
                    ns: end.saturating_sub(start),
                    energy_uj: timing.energy_uj,
                    cadence,
                });
                *fresh = (*fresh + 1).min(KEPT as usize);
            }
        }
        self.latencies
            .push(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Times in nanoseconds and energies in microjoules of a part.
    pub(crate) fn part(&self, index: usize) -> impl Iterator<Item = (u64, Option<u64>)> + '_ {
        let runs = self.parts[index].values.iter();
        runs.map(|run| (run.ns, run.energy_uj))
    }

    /// What was not given before, as a history of its own, which tells when its newest run ended.
    pub(crate) fn split_fresh(&mut self) -> History {
        let mut fresh = History {
            runs: self.runs,
            ended_ns: self.ended_ns,
            ..self.emptied()
        };
        for index in 0..self.parts.len() {
            for value in self.take_fresh(index) {
                fresh.parts[index].push(value);
                fresh.fresh[index] += 1;
            }
        }
        fresh
    }

    /// Runs of a part that were not given before.
    pub(crate) fn take_fresh(&mut self, index: usize) -> Vec<PartRun> {
        let count = std::mem::take(&mut self.fresh[index]);
        self.parts[index].newest(count).collect()
    }

    /// Median time of a part in nanoseconds.
    pub(crate) fn part_median(&self, index: usize) -> Option<u64> {
        median(
            &mut self.part(index).map(|(ns, _)| ns).collect::<Vec<u64>>(),
            u64::cmp,
        )
    }

    /// Median latency of a run in nanoseconds, from submit to the end of the last part.
    pub(crate) fn latency_median(&self) -> Option<u64> {
        median(&mut self.latencies.values.to_vec(), u64::cmp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_run_is_skipped_and_the_ring_is_bounded() {
        let mut history = History::new(1, false, false);
        let timing = |ns| {
            [Timing {
                span_ns: Some((0, ns)),
                ..Timing::default()
            }]
        };
        assert_eq!(history.ended_ns(), None);
        history.add(&timing(1_000_000), Duration::from_millis(9), false, 5, None);
        assert_eq!((history.runs, history.part_median(0)), (1, None));
        for ns in 1..=500 {
            history.add(&timing(ns), Duration::from_nanos(ns), false, ns, None);
        }
        let [tally, late] = history.take_tallies();
        assert_eq!((late.runs, late.parts), (0, vec![(0, Some(0))]));
        assert_eq!((tally.runs, tally.latency_ns), (501, 9_000_000 + 500 * 501 / 2));
        assert_eq!(tally.parts, [(1_000_000 + 500 * 501 / 2, None)]);
        assert_eq!(history.take_tallies()[0].runs, 0);
        assert_eq!(history.part(0).count(), KEPT as usize);
        assert_eq!(history.part_median(0), Some(450));
        let fresh: Vec<u64> = history.take_fresh(0).into_iter().map(|run| run.ns).collect();
        assert_eq!(fresh, (501 - u64::from(KEPT)..=500).collect::<Vec<_>>());
        history.add(&timing(7), Duration::from_nanos(7), false, 500, None);
        history.add(&timing(450), Duration::from_nanos(450), false, 500, None);
        let fresh: Vec<u64> = history.take_fresh(0).into_iter().map(|run| run.ns).collect();
        assert_eq!(fresh, [7, 450]);
        assert_eq!(history.take_fresh(0), []);
        assert_eq!(history.latency_median(), Some(450));
        assert_eq!(
            (history.ended_ns(), history.emptied().ended_ns()),
            (Some(500), None)
        );
    }

    #[test]
    fn queue_wait_is_not_run_time() {
        let timing = |ns| {
            [Timing {
                span_ns: Some((0, ns)),
                ..Timing::default()
            }]
        };
        for (overlaps, latency_ns) in [(true, 300), (false, 1_200)] {
            let mut history = History::new(1, false, overlaps);
            history.add(&timing(300), Duration::from_nanos(1_200), true, 0, None);
            let [in_time, late] = history.take_tallies();
            assert_eq!((in_time.runs, late.runs, late.latency_ns), (0, 1, latency_ns));
        }
        // a device that states no times
        let mut history = History::new(1, false, true);
        history.add(&[Timing::default()], Duration::from_nanos(1_200), false, 0, None);
        assert_eq!(history.take_tallies()[0].latency_ns, 1_200);
    }
}

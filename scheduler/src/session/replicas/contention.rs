//! Decides whether a replica increases throughput: compares run rates with and without it, in
//! turns.
//!
//! A replica on the CPU may slow down the host threads that feed other devices, so that fewer runs
//! end with it than without. Rates are measured in windows, alternately with and without the
//! slowest replica, while the app keeps all replicas busy. A replica that does not raise the rate
//! gets no runs, and is retried at growing intervals. Windows are short and a clear difference ends
//! the comparison, because a useful replica loses half of that time.
//!
//! A replica that is predicted to be much slower than the fastest begins idle: its possible gain is
//! smaller than its possible cost until that is measured. An H100 gave 1,007 runs/s of ResNet-50
//! alone, and 338 with a replica on the 16 cores that feed it.
//!
//! Invariants: pure, on given times; the fastest replica always takes part; windows in which
//! replicas waited for the app decide nothing. Not here: which replica a run uses, and events
//! (`replicas`).

/// Least length of a window, and least number of runs that end in it.
const WINDOW_NS: u64 = 50_000_000;
const WINDOW_RUNS: u64 = 16;

/// Time and runs with the copy, and without it, after which a comparison ends. Its windows are with, without, without,
/// with, and so on, so that a drift counts for both.
const SIDE_NS: u64 = 600_000_000;
const SIDE_RUNS: u64 = 48;

/// A rate with the copy outside these shares, in thousandths, of that without it ends the comparison.
const CLEARLY_LESS: u128 = 900;
const CLEARLY_MORE: u128 = 1250;

/// Runs per thousand by which the rate must rise.
const GAIN: u128 = 1005;

/// Time between a change and the next window, in times between runs of the copy, and at least and at most: runs that
/// were begun before it end.
const SETTLE_RUNS: u64 = 4;
const LEAST_SETTLE_NS: u64 = 5_000_000;
const MOST_SETTLE_NS: u64 = 50_000_000;

/// Before the first comparison, and before the next copy is looked at.
const REST_NS: u64 = 500_000_000;

/// After a comparison that changed nothing, the first time; it doubles up to the longest.
const KEPT_NS: u64 = 30_000_000_000;
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Before a copy that rests is tried again, the first time.
const RETRY_NS: u64 = 60_000_000_000;

/// A copy is to rest, or to take part again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) copy: usize,
    pub(crate) takes_part: bool,
    /// Runs per 1000 seconds.
    pub(crate) with_mhz: u64,
    pub(crate) without_mhz: u64,
}

#[derive(Debug)]
enum Phase {
    /// Nothing was seen yet.
    New,
    Rest {
        until_ns: u64,
    },
    Compare(Comparison),
}

#[derive(Debug)]
struct Comparison {
    suspect: usize,
    /// The window that is open, from 0.
    window: usize,
    /// How long a change takes to show.
    settle_ns: u64,
    settled_ns: u64,
    start_ns: Option<u64>,
    runs: u64,
    /// Runs of the suspect in windows with it.
    taken: u64,
    submitted: u64,
    /// Submissions that found a copy without a run.
    unfed: u64,
    /// Runs and time, without it and with it.
    sums: [(u64, u64); 2],
    /// It rests, so that the first window is without it.
    rests: bool,
}

impl Comparison {
    fn is_with(&self) -> bool {
        matches!(self.window % 4, 0 | 3) != self.rests
    }

    /// Whether far fewer or far more runs end with it than without.
    fn is_clear(&self) -> bool {
        let [(without, without_ns), (with, with_ns)] =
            self.sums.map(|(runs, ns)| (u128::from(runs), u128::from(ns)));
        let (with, without) = (with * without_ns * 1000, without * with_ns);
        without_ns > 0 && with_ns > 0 && (with < without * CLEARLY_LESS || with > without * CLEARLY_MORE)
    }

    /// Whether both sides were seen for long enough, and equally often.
    fn is_full(&self) -> bool {
        let long = |&(runs, ns): &(u64, u64)| runs >= SIDE_RUNS && ns >= SIDE_NS;
        self.window.is_multiple_of(2) && self.sums.iter().all(long)
    }
}

/// When a copy that rests is tried again.
#[derive(Debug, Clone, Copy, Default)]
struct Retry {
    at_ns: u64,
    wait_ns: u64,
}

#[derive(Debug)]
pub(crate) struct Contention {
    takes_part: Vec<bool>,
    retries: Vec<Retry>,
    /// By copy: it is not looked at before, and how long that was.
    kept: Vec<Retry>,
    phase: Phase,
}

impl Contention {
    /// Copies of which some begin at rest.
    pub(crate) fn new(takes_part: Vec<bool>) -> Self {
        Self {
            retries: vec![Retry::default(); takes_part.len()],
            kept: vec![Retry::default(); takes_part.len()],
            takes_part,
            phase: Phase::New,
        }
    }

    /// Whether a copy takes part, apart from windows without it.
    pub(crate) fn takes_part(&self, copy: usize) -> bool {
        self.takes_part[copy]
    }

    /// Whether the next run may take a copy.
    pub(crate) fn allows(&self, copy: usize) -> bool {
        match &self.phase {
            Phase::Compare(comparison) if comparison.suspect == copy => comparison.is_with(),
            _ => self.takes_part[copy],
        }
    }

    /// A run was submitted, and whether every copy has one then.
    pub(crate) fn submitted(&mut self, fed: bool) {
        if let Phase::Compare(comparison) = &mut self.phase
            && comparison.start_ns.is_some()
        {
            comparison.submitted += 1;
            comparison.unfed += u64::from(!fed);
        }
    }

    /// A run of a copy ended; `slowest` gives the slowest of those that take part, with the time between its runs, where
    /// that is not the fastest as well.
    pub(crate) fn ended(
        &mut self,
        now_ns: u64,
        copy: usize,
        slowest: impl FnOnce(&[bool]) -> Option<(u64, usize)>,
    ) -> Option<Verdict> {
        match &mut self.phase {
            Phase::New => {
                self.rest(now_ns, REST_NS);
                None
            }
            Phase::Rest { until_ns } => {
                if now_ns >= *until_ns {
                    self.begin(now_ns, slowest);
                }
                None
            }
            Phase::Compare(open) => {
                if now_ns < open.settled_ns {
                    return None;
                }
                let Some(start_ns) = open.start_ns else {
                    open.start_ns = Some(now_ns);
                    return None;
                };
                let with = open.is_with();
                open.runs += 1;
                open.taken += u64::from(with && copy == open.suspect);
                let time_ns = now_ns.saturating_sub(start_ns);
                if time_ns < WINDOW_NS || open.runs < WINDOW_RUNS {
                    return None;
                }
                let sum = &mut open.sums[usize::from(with)];
                *sum = (sum.0 + open.runs, sum.1 + time_ns);
                let idle = open.unfed * 10 > open.submitted;
                // what gets no runs slows nothing down
                let unused = with && open.sums[1].1 == time_ns && open.taken == 0;
                open.window += 1;
                let is_over = open.is_clear() || open.is_full();
                (open.start_ns, open.runs) = (None, 0);
                (open.submitted, open.unfed) = (0, 0);
                open.settled_ns = now_ns.saturating_add(open.settle_ns);
                if idle || unused {
                    let suspect = open.suspect;
                    self.put_off(now_ns, suspect);
                    return None;
                }
                if is_over { self.judge(now_ns) } else { None }
            }
        }
    }

    fn rest(&mut self, now_ns: u64, time_ns: u64) {
        self.phase = Phase::Rest {
            until_ns: now_ns.saturating_add(time_ns),
        };
    }

    fn begin(&mut self, now_ns: u64, slowest: impl FnOnce(&[bool]) -> Option<(u64, usize)>) {
        let resting = (0..self.takes_part.len())
            .find(|&copy| !self.takes_part[copy] && self.retries[copy].at_ns <= now_ns);
        // those that were found worth having lately are not looked at
        let due = |copy: usize| self.takes_part[copy] && self.kept[copy].at_ns <= now_ns;
        let suspect = resting.map(|copy| (MOST_SETTLE_NS, copy)).or_else(|| {
            let (period_ns, copy) = slowest(&self.takes_part)?;
            let settle_ns = period_ns.saturating_mul(SETTLE_RUNS);
            due(copy).then_some((settle_ns.clamp(LEAST_SETTLE_NS, MOST_SETTLE_NS), copy))
        });
        let Some((settle_ns, suspect)) = suspect else {
            self.rest(now_ns, REST_NS);
            return;
        };
        self.phase = Phase::Compare(Comparison {
            suspect,
            window: 0,
            settle_ns,
            settled_ns: now_ns.saturating_add(settle_ns),
            start_ns: None,
            runs: 0,
            taken: 0,
            submitted: 0,
            unfed: 0,
            sums: [(0, 0); 2],
            rests: !self.takes_part[suspect],
        });
    }

    /// Nothing follows for a copy; it is looked at later.
    fn put_off(&mut self, now_ns: u64, copy: usize) {
        let (all, first) = if self.takes_part[copy] {
            (&mut self.kept, KEPT_NS)
        } else {
            (&mut self.retries, RETRY_NS)
        };
        let later = &mut all[copy];
        later.wait_ns = (later.wait_ns.saturating_mul(2)).clamp(first, LONGEST_NS);
        later.at_ns = now_ns.saturating_add(later.wait_ns);
        self.rest(now_ns, REST_NS);
    }

    fn judge(&mut self, now_ns: u64) -> Option<Verdict> {
        let Phase::Compare(Comparison { suspect, sums, .. }) = self.phase else {
            return None;
        };
        let [(without, without_ns), (with, with_ns)] = sums;
        let raises = u128::from(with) * u128::from(without_ns) * 1000
            > u128::from(without) * u128::from(with_ns) * GAIN;
        if raises == self.takes_part[suspect] {
            self.put_off(now_ns, suspect);
            return None;
        }
        self.takes_part[suspect] = raises;
        let again = if raises {
            &mut self.kept[suspect]
        } else {
            &mut self.retries[suspect]
        };
        let first = if raises { KEPT_NS } else { RETRY_NS };
        again.wait_ns = again.wait_ns.saturating_mul(2).clamp(first, LONGEST_NS);
        again.at_ns = now_ns.saturating_add(again.wait_ns);
        self.rest(now_ns, REST_NS);
        let mhz = |runs: u64, ns: u64| {
            let mhz = u128::from(runs) * 1_000_000_000_000 / u128::from(ns.max(1));
            u64::try_from(mhz).unwrap_or(u64::MAX)
        };
        Some(Verdict {
            copy: suspect,
            takes_part: raises,
            with_mhz: mhz(with, with_ns),
            without_mhz: mhz(without, without_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Two copies that end a run every so many nanoseconds: the first as long as the second takes part, the first alone,
    /// and the second. Gives the verdicts with their times until an end.
    struct World {
        contention: Contention,
        now: u64,
        next: [u64; 2],
    }

    impl World {
        fn new() -> Self {
            Self {
                contention: Contention::new(vec![true; 2]),
                now: 0,
                next: [0; 2],
            }
        }

        fn run(&mut self, until: u64, beside: u64, alone: u64, second: u64, fed: bool) -> Vec<Verdict> {
            let mut verdicts = Vec::new();
            while self.now < until {
                let both = self.contention.allows(1);
                let copy = usize::from(both && self.next[1] <= self.next[0]);
                self.now = self.now.max(self.next[copy]);
                let period = match copy {
                    0 if both => beside,
                    0 => alone,
                    _ => second,
                };
                self.next[copy] = self.now + period;
                if !both {
                    self.next[1] = self.now;
                }
                self.contention.submitted(fed);
                let slowest = |takes_part: &[bool]| takes_part[1].then_some((second, 1));
                verdicts.extend(self.contention.ended(self.now, copy, slowest));
            }
            verdicts
        }
    }

    #[test]
    fn replica_that_slows_the_others_rests() {
        let mut world = World::new();
        // 1000 runs/s alone; beside the second one 600, and 20 of its own
        let verdicts = world.run(10_000 * MS, 1_666_667, MS, 50 * MS, true);
        assert_eq!(verdicts.len(), 1);
        assert!(!verdicts[0].takes_part && verdicts[0].copy == 1);
        assert!(
            (990_000..1_010_000).contains(&verdicts[0].without_mhz),
            "{verdicts:?}"
        );
        assert!((590_000..650_000).contains(&verdicts[0].with_mhz), "{verdicts:?}");
        assert!(!world.contention.allows(1));
    }

    #[test]
    fn resting_replica_is_retried_rarely() {
        let mut world = World::new();
        assert_eq!(world.run(10_000 * MS, 1_666_667, MS, 50 * MS, true).len(), 1);
        // still no use a minute later
        assert!(world.run(120_000 * MS, 1_666_667, MS, 50 * MS, true).is_empty());
        assert!(!world.contention.takes_part(1));
        // the host has cores to spare now
        let verdicts = world.run(600_000 * MS, MS, MS, 10 * MS, true);
        assert_eq!(
            verdicts
                .iter()
                .map(|verdict| verdict.takes_part)
                .collect::<Vec<_>>(),
            [true]
        );
    }

    #[test]
    fn replica_that_adds_throughput_stays() {
        let mut world = World::new();
        assert!(world.run(120_000 * MS, MS, MS, 10 * MS, true).is_empty());
        assert!(world.contention.takes_part(1));
    }

    #[test]
    fn clear_contention_is_detected_cheaply() {
        // an equal copy rests for one window and the times around it, of three seconds
        let mut world = World::new();
        let mut rested = 0;
        while world.now < 3_000 * MS {
            let before = world.now;
            assert!(world.run(before + 1, MS, MS, MS, true).is_empty());
            if !world.contention.allows(1) {
                rested += world.now - before;
            }
        }
        assert!((1..70 * MS).contains(&rested), "{rested}");
        assert!(world.contention.takes_part(1));
    }

    #[test]
    fn no_decision_while_replicas_are_idle() {
        let mut world = World::new();
        assert!(
            world
                .run(60_000 * MS, 33 * MS, 33 * MS, 66 * MS, false)
                .is_empty()
        );
        assert!(world.contention.takes_part(1));
    }
}

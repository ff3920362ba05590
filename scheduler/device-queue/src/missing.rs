//! What a refusal proves: either arrivals that miss a deadline, or only that the sufficient test
//! did not pass.
//!
//! The test is exact for one device if tasks are one part each, or parts as fine as the clock
//! (George, Rivierre and Spuri, Preemptive and non-preemptive real-time uniprocessor scheduling,
//! INRIA RR-2966, 1996): then the worst case is that all interference arrives at once, a nanosecond
//! after the longest non-preemptible part has begun. Those arrivals are tried first, on each device
//! and with each such part. In other cases they need not be the worst, and random ones are tried
//! too.
//!
//! Invariant: reported arrivals were [simulated](crate::simulate), with each part taking its stated
//! time, and miss.

use crate::admit::Reason;
use crate::intermediate::due;
use crate::simulate::{Arrival, Miss, Outcome, Pattern, Scenario, simulate, sporadic};
use crate::task::TaskSet;

/// Arrivals that are tried at most.
const MOST_ARRIVALS: u64 = 20_000;
/// Random arrivals that are tried.
const SEEDS: u64 = 24;
/// Duration of random arrivals, as a multiple of the longest period.
const PERIODS: u64 = 12;

/// What a refusal proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// Under these arrivals a run ends late.
    Shown {
        /// Arrivals by time; the first at 0.
        arrivals: Vec<Arrival>,
        /// When endless tasks stop, in nanoseconds.
        until_ns: u64,
        /// The late run.
        miss: Miss,
    },
    /// No arrivals with a late run were found. The test is only sufficient, so the set may be
    /// schedulable.
    SufficientOnly,
    /// The set is refused for its memory, regardless of arrivals.
    NotOfTime,
}

/// Searches for arrivals under which a refused set misses a deadline.
#[must_use]
pub fn missing(set: &TaskSet, reason: &Reason) -> Missing {
    if matches!(reason, Reason::Memory { .. }) {
        return Missing::NotOfTime;
    }
    let trial = Trial {
        set,
        deadlines: due(set),
    };
    let supply = match reason {
        Reason::Demand { instant, .. } => instant.supply_ns,
        _ => 0,
    };
    let mut devices: Vec<usize> = (0..set.devices.len()).collect();
    if let Reason::Demand { instant, .. } = reason {
        devices.sort_by_key(|device| *device != instant.device);
    }
    for device in devices {
        let mut blockers: Vec<usize> = (0..set.tasks.len())
            .filter(|task| set.tasks[*task].longest_on(device) > 0)
            .collect();
        blockers.sort_by_key(|task| std::cmp::Reverse(set.tasks[*task].longest_on(device)));
        for blocker in blockers.into_iter().map(Some).chain([None]) {
            for with_lower in [false, true] {
                let arrivals = trial.at_once(device, blocker, supply, with_lower);
                if let Some(shown) = trial.shown(arrivals) {
                    return shown;
                }
            }
        }
    }
    for seed in 0..SEEDS {
        if let Some(shown) = trial.shown(trial.random(seed)) {
            return shown;
        }
    }
    Missing::SufficientOnly
}

/// A set on trial.
struct Trial<'a> {
    set: &'a TaskSet,
    deadlines: Vec<Vec<u64>>,
}

impl Trial<'_> {
    /// All that can interfere on a device reaches it at once and comes again as soon as it may, a nanosecond after a part of
    /// `blocker` has begun there.
    fn at_once(&self, device: usize, blocker: Option<usize>, supply: u64, with_lower: bool) -> Vec<Arrival> {
        let tasks = &self.set.tasks;
        let start = tasks.iter().map(|task| task.time_ns()).max().unwrap_or(0) + 1;
        let longest = tasks.iter().filter_map(|task| task.sporadic());
        let longest = longest
            .map(|(period, deadline)| period.max(deadline))
            .max()
            .unwrap_or(0);
        let until = start + supply.max(longest.saturating_mul(2));
        let blocked = blocker.map(|blocker| &tasks[blocker]);
        let mut arrivals = Vec::new();
        for (index, task) in tasks.iter().enumerate() {
            let Some(first) = task.parts.iter().position(|part| part.device == device) else {
                continue;
            };
            let is_blocker = blocker == Some(index);
            let is_lower =
                blocked.is_some_and(|blocked| task.class > blocked.class) || task.sporadic().is_none();
            if is_lower && !is_blocker && !with_lower {
                continue;
            }
            let before = |part: usize| task.parts[..part].iter().map(|part| part.time_ns).sum::<u64>();
            let from = if is_blocker {
                let longest = task.longest_on(device);
                let is_longest = |part: &crate::task::Part| part.device == device && part.time_ns == longest;
                let part = task.parts.iter().position(is_longest).unwrap_or(first);
                start - before(part) - 1
            } else {
                start - before(first)
            };
            let every = task.sporadic().map_or(u64::MAX, |(period, _)| period);
            let mut next = Some(from);
            while let Some(time_ns) = next.filter(|time| *time <= until) {
                arrivals.push(Arrival { time_ns, task: index });
                if arrivals.len() as u64 > MOST_ARRIVALS {
                    break;
                }
                next = time_ns.checked_add(every);
            }
        }
        arrivals.sort_unstable();
        arrivals
    }

    /// Random arrivals.
    fn random(&self, seed: u64) -> Vec<Arrival> {
        let periods = self.set.tasks.iter().filter_map(|task| task.sporadic());
        let longest = periods
            .map(|(period, deadline)| period.max(deadline))
            .max()
            .unwrap_or(0);
        sporadic(self.set, seed, longest.saturating_mul(PERIODS))
            .take(MOST_ARRIVALS as usize)
            .collect()
    }

    /// What happens with these arrivals, up to the first late run.
    fn outcome(&self, arrivals: &[Arrival], until_ns: u64) -> Outcome {
        let scenario = Scenario {
            until_ns,
            stop_at_miss: true,
            ..Scenario::of(Pattern::Given(arrivals.to_vec()))
        };
        simulate(self.set, &self.deadlines, &scenario)
    }

    /// These arrivals, less those that the miss does not need, where there is one.
    fn shown(&self, mut arrivals: Vec<Arrival>) -> Option<Missing> {
        let dues = self.set.tasks.iter().filter_map(|task| task.sporadic());
        let until_ns = arrivals.last()?.time_ns + 1 + dues.map(|(_, due)| due).max().unwrap_or(0);
        let first_miss = |arrivals: &[Arrival]| self.outcome(arrivals, until_ns).first_miss;
        let mut miss = first_miss(&arrivals)?;
        arrivals.retain(|arrival| arrival.time_ns <= miss.ended_ns);
        for task in 0..self.set.tasks.len() {
            let mut fewer = arrivals.clone();
            fewer.retain(|arrival| arrival.task != task);
            if fewer.len() < arrivals.len() && first_miss(&fewer).is_some() {
                arrivals = fewer;
            }
        }
        let zero = arrivals.first()?.time_ns;
        for arrival in &mut arrivals {
            arrival.time_ns -= zero;
        }
        let until_ns = until_ns - zero;
        miss = self.outcome(&arrivals, until_ns).first_miss?;
        arrivals.retain(|arrival| arrival.time_ns <= miss.ended_ns);
        Some(Missing::Shown {
            arrivals,
            until_ns,
            miss,
        })
    }
}

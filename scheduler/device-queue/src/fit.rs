//! Single changes to one task that would make a refused set admissible.
//!
//! Invariant: the set was tested and admitted with each change by itself; changes may not work
//! together.

use crate::admit::{Reason, judged};
use crate::cuts::cuts;
use crate::error::Error;
use crate::task::{Arrivals, LONGEST_NS, Task, TaskSet};

/// What times are rounded to, so that a bound can be read, in nanoseconds.
const STEP_NS: u64 = 1_000;

/// A change that makes a set admissible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// A task has a longer period.
    Period {
        /// Index of the task.
        task: usize,
        /// Shortest period, in nanoseconds.
        period_ns: u64,
    },
    /// A task has a later deadline, at most its period.
    Deadline {
        /// Index of the task.
        task: usize,
        /// Shortest deadline, in nanoseconds.
        deadline_ns: u64,
    },
    /// All parts of a task take only a share of their time.
    Time {
        /// Index of the task.
        task: usize,
        /// The share, in thousandths.
        permille: u64,
    },
    /// The parts on a device are cut to a limit; the added launches and switches are not counted.
    Cuts {
        /// Index of the device.
        device: usize,
        /// Index of the task whose part is too long.
        task: usize,
        /// Longest part of it, in nanoseconds.
        longest_ns: u64,
    },
    /// A task is removed.
    Without {
        /// Index of the task.
        task: usize,
    },
}

/// Changes that make a refused set admissible, at most one of each kind per task.
///
/// # Errors
/// The set is invalid ([`TaskSet::check`]).
pub fn what_would_fit(set: &TaskSet, reason: &Reason) -> Result<Vec<Fit>, Error> {
    set.check()?;
    let admits = |task: usize, changed: Task| {
        let mut other = set.clone();
        other.tasks[task] = changed;
        other.check().is_ok() && judged(&other).certificate().is_some()
    };
    let mut fits = too_long(set, reason)?;
    for (index, task) in set.tasks.iter().enumerate() {
        if let Some((period, deadline)) = task.sporadic() {
            let with = |period_ns: u64, deadline_ns: u64| Task {
                arrivals: Arrivals::Sporadic {
                    period_ns,
                    deadline_ns,
                },
                ..task.clone()
            };
            let most = period.saturating_mul(1_000).min(LONGEST_NS);
            let least = least(period, most, |time| admits(index, with(time, deadline)));
            fits.extend(least.map(|period_ns| Fit::Period {
                task: index,
                period_ns,
            }));
            let least = self::least(deadline, period, |time| admits(index, with(period, time)));
            fits.extend(least.map(|deadline_ns| Fit::Deadline {
                task: index,
                deadline_ns,
            }));
        }
        let faster = |permille: u64| {
            let mut task = task.clone();
            for part in &mut task.parts {
                part.time_ns = (u128::from(part.time_ns) * u128::from(permille) / 1_000).max(1) as u64;
            }
            admits(index, task)
        };
        // the other way round: the more it gives up, the sooner it fits
        let given_up = bisected(0, 999, |given_up| faster(1_000 - given_up));
        fits.extend(given_up.map(|given_up| Fit::Time {
            task: index,
            permille: 1_000 - given_up,
        }));
        let mut other = set.clone();
        other.tasks.remove(index);
        if judged(&other).certificate().is_some() {
            fits.push(Fit::Without { task: index });
        }
    }
    Ok(fits)
}

/// Cuts that admit a set which is not overloaded.
fn too_long(set: &TaskSet, reason: &Reason) -> Result<Vec<Fit>, Error> {
    if !matches!(
        reason,
        Reason::Demand {
            overloaded: false,
            ..
        }
    ) {
        return Ok(Vec::new());
    }
    let mut cut = set.clone();
    let mut fits = Vec::new();
    for (device, limits) in cuts(set)?.iter().enumerate() {
        for (task, longest_ns) in &limits.tasks {
            let Some(longest_ns) =
                longest_ns.filter(|longest| *longest < set.tasks[*task].longest_on(device))
            else {
                continue;
            };
            if longest_ns == 0 {
                return Ok(Vec::new());
            }
            let parts = &mut cut.tasks[*task].parts;
            *parts = parts
                .iter()
                .flat_map(|part| {
                    let is_long = part.device == device && part.time_ns > longest_ns;
                    let pieces = if is_long {
                        part.time_ns.div_ceil(longest_ns)
                    } else {
                        1
                    };
                    // a cut as fine as this is no offer
                    let pieces = pieces.min(1_000);
                    let even = part.time_ns / pieces;
                    let rest = part.time_ns % pieces;
                    (0..pieces).map(move |piece| crate::task::Part {
                        time_ns: even + u64::from(piece < rest),
                        ..*part
                    })
                })
                .collect();
            fits.push(Fit::Cuts {
                device,
                task: *task,
                longest_ns,
            });
        }
    }
    let fit = judged(&cut).certificate().is_some();
    Ok(if fit { fits } else { Vec::new() })
}

/// The least time above `from` and up to `most`, a whole number of microseconds, with which it is so.
fn least(from: u64, most: u64, is_so: impl Fn(u64) -> bool) -> Option<u64> {
    let (from, most) = (from / STEP_NS, most / STEP_NS);
    bisected(from, most, |micros| is_so(micros * STEP_NS)).map(|micros| micros * STEP_NS)
}

/// A number above `from` and up to `most` with which it is so, and is not with the one below; none where it is not with `most`.
fn bisected(from: u64, most: u64, is_so: impl Fn(u64) -> bool) -> Option<u64> {
    if most <= from || !is_so(most) {
        return None;
    }
    let (mut bad, mut good) = (from, most);
    while good - bad > 1 {
        let middle = bad + (good - bad) / 2;
        if is_so(middle) {
            good = middle
        } else {
            bad = middle
        }
    }
    Some(good)
}

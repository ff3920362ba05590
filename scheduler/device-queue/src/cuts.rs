//! Limits on part length: how long a non-preemptible part may be without causing a missed deadline.
//!
//! With one part at a time and one class this is the bound of Baruah (2005): a part of task `k` may
//! be no longer than the minimum of `t - sum of dbf(t)` over the deadlines `t` before its own, or
//! over all of them if it has none.
//!
//! Invariant: a set whose parts hold these limits, without other parts, passes the test that they
//! come from.

use crate::admit::{deadlines, judged};
use crate::demand::{Hypothetical, Load};
use crate::error::Error;
use crate::intermediate::Division;
use crate::settings::Class;
use crate::task::{LONGEST_NS, TaskSet};

/// Limits on part length for one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cuts {
    /// Limit on parts without a deadline in the least urgent class, in nanoseconds. 0 if deadlines
    /// are missed even without such parts; none if unlimited.
    pub longest_ns: Option<u64>,
    /// The same limit for the parts of each task on this device, by index.
    pub tasks: Vec<(usize, Option<u64>)>,
}

/// Limits on part length, by device. They are 0 if the parts of a task alone take longer than its
/// deadline.
///
/// # Errors
/// The set is invalid ([`TaskSet::check`]).
pub fn cuts(set: &TaskSet) -> Result<Vec<Cuts>, Error> {
    set.check()?;
    let admission = judged(set);
    let division = admission
        .certificate()
        .map_or(Division::ALL[0], |found| found.division);
    let Ok(deadlines) = deadlines(set, division) else {
        let none = |device: usize| Cuts {
            longest_ns: Some(0),
            tasks: on(set, device).map(|task| (task, Some(0))).collect(),
        };
        return Ok((0..set.devices.len()).map(none).collect());
    };
    let of = |device: usize| {
        let load = Load::new(set, device, &deadlines);
        let tasks = on(set, device).map(|task| {
            let here = load.subtasks.iter().filter(|one| one.task == task);
            // the latest of its deadlines here: its parts wait for the most
            let due = here.map(|one| one.window_ns.saturating_add(one.early_ns)).max();
            let endless = set.tasks[task].sporadic().is_none();
            let due_ns = due.filter(|_| !endless);
            (task, longest(&load, set.tasks[task].class, due_ns))
        });
        Cuts {
            tasks: tasks.collect(),
            longest_ns: longest(&load, Class::Background, None),
        }
    };
    Ok((0..set.devices.len()).map(of).collect())
}

/// Tasks that have a part on a device.
fn on(set: &TaskSet, device: usize) -> impl Iterator<Item = usize> + '_ {
    let tasks = set.tasks.iter().enumerate();
    tasks
        .filter(move |(_, task)| task.longest_on(device) > 0)
        .map(|(index, _)| index)
}

/// The longest part of this class and deadline with which all classes pass.
fn longest(load: &Load, class: Class, due_ns: Option<u64>) -> Option<u64> {
    let classes = load.classes();
    let passes = |longest_ns: u64| {
        let one = Hypothetical {
            subtasks: &load.subtasks,
            class,
            due_ns,
            longest_ns,
            switch_ns: load.switch_ns,
        };
        classes.iter().all(|class| load.test(*class, &one).is_ok())
    };
    if passes(LONGEST_NS) {
        return None;
    }
    let (mut good, mut bad) = (0, LONGEST_NS);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if passes(middle) {
            good = middle
        } else {
            bad = middle
        }
    }
    Some(good)
}

//! Admission: whether a set of tasks meets all its deadlines, with the proof, or the reasons
//! against it.
//!
//! Each device is tested for [demand over supply](crate::demand), and its memory by adding up. The
//! deadline of a task on several devices is divided among its subtasks ([`Division`]).
//!
//! Invariants:
//! 1. Sufficient: no admitted set misses a deadline, provided that tasks arrive no more often and
//!    parts take no longer than stated, that a run's next part is queued before its device is given
//!    another one, and that the device does nothing else.
//! 2. Not always necessary: a refusal states what it proves ([`Missing`](crate::Missing)).
//! 3. Monotone: a refused set stays refused with any additional task.

use std::fmt;

use crate::demand::{Failed, Hypothetical, Instant, Load, Subtask};
use crate::error::Error;
use crate::intermediate::{Division, due};
use crate::settings::Class;
use crate::task::TaskSet;

/// The result of admission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// Proved: no deadline is missed.
    Admitted(Certificate),
    /// Not proved.
    Refused(Reason),
}

/// The proof that no deadline is missed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// How deadlines are divided among the subtasks of tasks on several devices.
    pub division: Division,
    /// By task: deadline of each subtask after arrival, in nanoseconds; `u64::MAX` without a
    /// deadline.
    pub deadlines_ns: Vec<Vec<u64>>,
    /// The proof by device.
    pub devices: Vec<DeviceProof>,
}

/// The proof for one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceProof {
    /// Share of the device used by tasks with deadlines, in millionths, rounded up.
    pub utilisation_ppm: u64,
    /// Bytes that all tasks hold there.
    pub memory_bytes: u64,
    /// By class with deadlines, most urgent first: the deadline with the least slack.
    pub tightest: Vec<Instant>,
}

/// The reason for a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The parts of a task alone take longer than its deadline.
    TooSlow {
        /// Index of the task.
        task: usize,
        /// Time of its parts in nanoseconds.
        time_ns: u64,
        /// Its deadline in nanoseconds.
        deadline_ns: u64,
    },
    /// A device has too little memory.
    Memory {
        /// Index of the device.
        device: usize,
        /// Bytes that the tasks hold.
        bytes: u64,
        /// The limit in bytes.
        limit_bytes: u64,
    },
    /// An endless task has priority over a deadline on the same device.
    Starved {
        /// Index of the device.
        device: usize,
        /// Index of the endless task.
        by: usize,
        /// Index of the task with a deadline.
        task: usize,
    },
    /// Demand may exceed supply.
    Demand {
        /// The deadline.
        instant: Instant,
        /// Index of the task whose non-preemptible part may delay the deadline.
        blocked_by: Option<usize>,
        /// Whether demand would exceed supply even without that part.
        overloaded: bool,
    },
    /// The long-run demand exceeds the device's time.
    Overloaded {
        /// Index of the device.
        device: usize,
        /// The least urgent class that contributes to the demand.
        class: Class,
        /// Share of the device that this class and more urgent ones demand, in millionths.
        utilisation_ppm: u64,
    },
    /// Utilisation is so close to 1 that the test would have to examine too many deadlines.
    Undecided {
        /// Index of the device.
        device: usize,
        /// The class.
        class: Class,
    },
}

impl Admission {
    /// The proof, if the set is admitted.
    #[must_use]
    pub fn certificate(&self) -> Option<&Certificate> {
        match self {
            Admission::Admitted(certificate) => Some(certificate),
            Admission::Refused(_) => None,
        }
    }
}

/// Tests whether a set of tasks can be admitted.
///
/// # Errors
/// The set is invalid ([`TaskSet::check`]).
pub fn admit(set: &TaskSet) -> Result<Admission, Error> {
    set.check()?;
    Ok(judged(set))
}

/// Judges a set that means something.
pub(crate) fn judged(set: &TaskSet) -> Admission {
    let mut refused = None;
    for division in Division::of(set) {
        match proof(set, *division) {
            Ok(certificate) => return Admission::Admitted(certificate),
            // what the first division is refused for is said; another one may be refused elsewhere
            Err(reason) => drop(refused.get_or_insert(reason)),
        }
    }
    Admission::Refused(refused.expect("invariant: there is at least one division"))
}

/// Deadlines of subtasks, by task and subtask: from the certificate, or in proportion to their
/// times if the set is refused.
#[must_use]
pub fn deadlines_of(set: &TaskSet, admission: &Admission) -> Vec<Vec<u64>> {
    match admission {
        Admission::Admitted(certificate) => certificate.deadlines_ns.clone(),
        Admission::Refused(_) => due(set),
    }
}

/// When subtasks of all tasks are due, where each alone meets its deadline.
pub(crate) fn deadlines(set: &TaskSet, division: Division) -> Result<Vec<Vec<u64>>, Reason> {
    let each = set.tasks.iter().enumerate().map(|(index, task)| {
        division.deadlines(task).ok_or_else(|| Reason::TooSlow {
            task: index,
            time_ns: task.time_ns(),
            deadline_ns: task.sporadic().map_or(u64::MAX, |(_, deadline)| deadline),
        })
    });
    each.collect()
}

/// The proof with deadlines divided so, or what stands against it.
fn proof(set: &TaskSet, division: Division) -> Result<Certificate, Reason> {
    let deadlines = deadlines(set, division)?;
    let mut devices = Vec::with_capacity(set.devices.len());
    for (index, device) in set.devices.iter().enumerate() {
        let memory_bytes = set.memory_on(index);
        if let Some(limit_bytes) = device.memory_bytes.filter(|limit| *limit < memory_bytes) {
            return Err(Reason::Memory {
                device: index,
                bytes: memory_bytes,
                limit_bytes,
            });
        }
        let load = Load::new(set, index, &deadlines);
        let classes = load.classes();
        if let Some(reason) = starved(&load) {
            return Err(reason);
        }
        let mut tightest = Vec::with_capacity(classes.len());
        for class in &classes {
            let found = load.test(*class, &load.subtasks.as_slice());
            tightest.extend(found.map_err(|failed| reason(&load, failed))?);
        }
        devices.push(DeviceProof {
            utilisation_ppm: classes.last().map_or(0, |class| load.utilisation_ppm(*class)),
            memory_bytes,
            tightest,
        });
    }
    Ok(Certificate {
        division,
        deadlines_ns: deadlines,
        devices,
    })
}

/// Endless work that is more urgent than a deadline.
fn starved(load: &Load) -> Option<Reason> {
    let (endless, timed): (Vec<&Subtask>, Vec<&Subtask>) =
        load.subtasks.iter().partition(|one| one.period_ns.is_none());
    let by = endless.iter().min_by_key(|one| one.class)?;
    let task = timed.iter().find(|one| one.class > by.class)?;
    Some(Reason::Starved {
        device: load.device,
        by: by.task,
        task: task.task,
    })
}

/// Describes a failure in terms of tasks.
fn reason(load: &Load, failed: Failed) -> Reason {
    let instant = match failed {
        Failed::TooMany(class) => {
            return Reason::Undecided {
                device: load.device,
                class,
            };
        }
        Failed::Overloaded(class) => {
            return Reason::Overloaded {
                device: load.device,
                class,
                utilisation_ppm: load.utilisation_ppm(class),
            };
        }
        Failed::Exceeded(instant) => instant,
    };
    let blockers = load
        .subtasks
        .iter()
        .filter(|one| one.blocks(instant.class, instant.supply_ns));
    let blocked_by = blockers.max_by_key(|one| one.longest_ns).map(|one| one.task);
    let nothing = Hypothetical {
        subtasks: &load.subtasks,
        class: Class::Background,
        due_ns: None,
        longest_ns: 0,
        switch_ns: 0,
    };
    Reason::Demand {
        instant,
        blocked_by,
        overloaded: load.test(instant.class, &nothing).is_err(),
    }
}

/// A reason for display, with the names of the set's tasks and devices.
#[derive(Debug, Clone, Copy)]
pub struct Said<'a> {
    set: &'a TaskSet,
    reason: &'a Reason,
}

impl Reason {
    /// The reason for display, with the names of the set's tasks and devices.
    #[must_use]
    pub fn said<'a>(&'a self, set: &'a TaskSet) -> Said<'a> {
        Said { set, reason: self }
    }
}

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = |index: usize| &self.set.devices[index].name;
        let task = |index: usize| &self.set.tasks[index].name;
        match self.reason {
            Reason::TooSlow {
                task: index,
                time_ns,
                deadline_ns,
            } => write!(
                f,
                "{} takes {} alone, deadline {}",
                task(*index),
                Milliseconds(*time_ns),
                Milliseconds(*deadline_ns)
            ),
            Reason::Memory {
                device: index,
                bytes,
                limit_bytes,
            } => write!(f, "{}: {bytes} bytes needed, limit {limit_bytes}", device(*index)),
            Reason::Starved {
                device: index,
                by,
                task: of,
            } => write!(
                f,
                "{}: {} is endless and has priority over {}, which gets only its guaranteed share",
                device(*index),
                task(*by),
                task(*of)
            ),
            Reason::Demand {
                instant, blocked_by, ..
            } => {
                write!(
                    f,
                    "{}, {}: demand within {} may reach {} ({} due in the class",
                    device(instant.device),
                    instant.class.word(),
                    Milliseconds(instant.supply_ns),
                    Milliseconds(instant.demand_ns()),
                    Milliseconds(instant.own_ns),
                )?;
                if instant.higher_ns > 0 {
                    write!(f, ", {} more urgent", Milliseconds(instant.higher_ns))?;
                }
                if let Some(by) = blocked_by.filter(|_| instant.blocking_ns > 0) {
                    let time = Milliseconds(instant.blocking_ns);
                    write!(f, ", {time} of {} already begun", task(by))?;
                }
                if instant.lower_ns > 0 {
                    write!(
                        f,
                        ", {} guaranteed to less urgent work",
                        Milliseconds(instant.lower_ns)
                    )?;
                }
                f.write_str(")")
            }
            Reason::Overloaded {
                device: index,
                class,
                utilisation_ppm,
            } => write!(
                f,
                "{}, {}: demand is {:.1} % of its time",
                device(*index),
                class.word(),
                *utilisation_ppm as f64 / 1e4
            ),
            Reason::Undecided { device: index, class } => write!(
                f,
                "{}, {}: too close to full utilisation to decide",
                device(*index),
                class.word()
            ),
        }
    }
}

/// A time in milliseconds, to the microsecond.
#[derive(Debug, Clone, Copy)]
pub struct Milliseconds(
    /// The time in nanoseconds.
    pub u64,
);

impl fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // blocking times are a nanosecond shorter than a part; rounding hides that
        let micros = self.0.saturating_add(500) / 1_000;
        let (whole, rest) = (micros / 1_000, micros % 1_000);
        match rest {
            0 => write!(f, "{whole} ms"),
            _ => write!(f, "{} ms", format!("{whole}.{rest:03}").trim_end_matches('0')),
        }
    }
}

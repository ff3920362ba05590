//! Devices, and tasks whose parts execute on them in sequence (the sporadic task model).
//!
//! Invariant: a [`TaskSet`] that passes [`TaskSet::check`] has no time of zero, no index past its
//! list, and no value so large that sums of the analysis overflow `u64`.
//!
//! Deliberately not here: the source of times. They must be upper quantiles of measurements, never
//! medians, because a certificate holds only *as long as no part takes longer than stated*. This
//! project uses the 0.99 quantile of a part's runs; for fewer than a hundred runs that is the
//! maximum.

use crate::error::Error;
use crate::settings::{Class, Settings};

/// Maximum time, in nanoseconds: eleven days.
pub const LONGEST_NS: u64 = 1_000_000_000_000_000;

/// One device, with its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its name, for messages.
    pub name: String,
    /// Memory limit for all tasks together, in bytes; none: unlimited.
    pub memory_bytes: Option<u64>,
    /// Settings of its queue; parts with the device are not taken back.
    pub queue: Settings,
    /// Time lost between parts of different tasks, in nanoseconds. It is added to each part.
    pub switch_ns: u64,
}

/// The arrivals of a task's runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// At least `period_ns` apart, each due `deadline_ns` after its arrival. If the deadline is
    /// longer than the period, runs of the task overlap.
    Sporadic {
        /// Shortest time between runs.
        period_ns: u64,
        /// Deadline after arrival.
        deadline_ns: u64,
    },
    /// The next run arrives when the last one ends; no deadline.
    Endless,
}

/// One part of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Index of its device.
    pub device: usize,
    /// Longest time on the device including launch, in nanoseconds: an upper quantile (see above).
    pub time_ns: u64,
}

/// A task: a session with its plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its name, for messages.
    pub name: String,
    /// Its class.
    pub class: Class,
    /// The arrivals of its runs.
    pub arrivals: Arrivals,
    /// Its parts, in sequence.
    pub parts: Vec<Part>,
    /// Bytes that it holds, by index of the device.
    pub memory_bytes: Vec<(usize, u64)>,
}

/// Devices and the tasks that share them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskSet {
    /// The devices.
    pub devices: Vec<Device>,
    /// The tasks.
    pub tasks: Vec<Task>,
}

impl Device {
    /// A device with unlimited memory and a queue with default settings.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            memory_bytes: None,
            queue: Settings::default(),
            switch_ns: 0,
        }
    }
}

impl Task {
    /// A task of the normal class whose runs arrive at least `period_ns` apart and are due after
    /// the same time.
    #[must_use]
    pub fn periodic(name: impl Into<String>, period_ns: u64, parts: Vec<Part>) -> Self {
        let deadline_ns = period_ns;
        Self {
            name: name.into(),
            class: Class::Normal,
            arrivals: Arrivals::Sporadic {
                period_ns,
                deadline_ns,
            },
            parts,
            memory_bytes: Vec::new(),
        }
    }

    /// A task without a deadline whose next run arrives when the last one ends.
    #[must_use]
    pub fn endless(name: impl Into<String>, class: Class, parts: Vec<Part>) -> Self {
        Self {
            name: name.into(),
            class,
            arrivals: Arrivals::Endless,
            parts,
            memory_bytes: Vec::new(),
        }
    }

    /// Sets the deadline; an endless task stays unchanged.
    #[must_use]
    pub fn due(mut self, within_ns: u64) -> Self {
        if let Arrivals::Sporadic { deadline_ns, .. } = &mut self.arrivals {
            *deadline_ns = within_ns;
        }
        self
    }

    /// Sets the class.
    #[must_use]
    pub fn in_class(mut self, class: Class) -> Self {
        self.class = class;
        self
    }

    /// Period and deadline in nanoseconds, if it has them.
    #[must_use]
    pub fn sporadic(&self) -> Option<(u64, u64)> {
        match self.arrivals {
            Arrivals::Sporadic {
                period_ns,
                deadline_ns,
            } => Some((period_ns, deadline_ns)),
            Arrivals::Endless => None,
        }
    }

    /// Time of all its parts, in nanoseconds.
    #[must_use]
    pub fn time_ns(&self) -> u64 {
        self.parts.iter().map(|part| part.time_ns).sum()
    }

    /// Time of its parts on one device, in nanoseconds.
    #[must_use]
    pub fn time_on(&self, device: usize) -> u64 {
        let here = self.parts.iter().filter(|part| part.device == device);
        here.map(|part| part.time_ns).sum()
    }

    /// The longest of its parts on one device, in nanoseconds; 0 if it has none there.
    #[must_use]
    pub fn longest_on(&self, device: usize) -> u64 {
        let here = self.parts.iter().filter(|part| part.device == device);
        here.map(|part| part.time_ns).max().unwrap_or(0)
    }

    /// Runs of parts that follow each other on one device: index of the first and of the one after the last.
    pub(crate) fn subtasks(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let mut next = 0;
        self.parts
            .chunk_by(|a, b| a.device == b.device)
            .map(move |chunk| {
                let first = next;
                next += chunk.len();
                (first, next)
            })
    }
}

impl TaskSet {
    /// A set of these.
    #[must_use]
    pub fn new(devices: Vec<Device>, tasks: Vec<Task>) -> Self {
        Self { devices, tasks }
    }

    /// Validates the set.
    ///
    /// # Errors
    /// A time of zero or past [`LONGEST_NS`], an index past the list of devices, a task without
    /// parts, or a device without a place.
    pub fn check(&self) -> Result<(), Error> {
        for device in &self.devices {
            if device.queue.in_flight == 0 {
                return Err(Error::set(
                    &device.name,
                    "is given no part at once; the least is 1",
                ));
            }
            if device.switch_ns > LONGEST_NS {
                let words = format!(
                    "has a switch time of {} ns; the limit is {LONGEST_NS} ns",
                    device.switch_ns
                );
                return Err(Error::set(&device.name, words));
            }
        }
        for task in &self.tasks {
            let bad = |words: String| Err(Error::set(&task.name, words));
            if let Some((period, deadline)) = task.sporadic() {
                for (what, time) in [("period", period), ("deadline", deadline)] {
                    if let Some(words) = wrong(time) {
                        return bad(format!("has a {what} of {words}"));
                    }
                }
            }
            if task.parts.is_empty() {
                return bad("has no part".to_owned());
            }
            for (index, part) in task.parts.iter().enumerate() {
                if let Some(words) = wrong(part.time_ns) {
                    return bad(format!("has a part {index} of {words}"));
                }
            }
            let devices = task.parts.iter().map(|part| part.device);
            let mut devices = devices.chain(task.memory_bytes.iter().map(|(device, _)| *device));
            if let Some(device) = devices.find(|device| *device >= self.devices.len()) {
                return bad(format!("names device {device}; there are {}", self.devices.len()));
            }
        }
        Ok(())
    }

    /// Bytes that all tasks hold on a device.
    #[must_use]
    pub fn memory_on(&self, device: usize) -> u64 {
        let held = self.tasks.iter().flat_map(|task| &task.memory_bytes);
        let here = held.filter(|(held_on, _)| *held_on == device);
        here.fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }
}

/// What is wrong with a time, if so.
fn wrong(time_ns: u64) -> Option<String> {
    match time_ns {
        0 => Some("zero".to_owned()),
        1..=LONGEST_NS => None,
        _ => Some(format!("{time_ns} ns; the limit is {LONGEST_NS} ns")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(device: usize, time_ns: u64) -> Part {
        Part { device, time_ns }
    }

    #[test]
    fn subtasks_are_runs_on_one_device() {
        let task = Task::periodic("t", 10, [0, 0, 1, 0].map(|device| on(device, 1)).to_vec());
        assert_eq!(task.subtasks().collect::<Vec<_>>(), [(0, 2), (2, 3), (3, 4)]);
        assert_eq!(
            (task.time_on(0), task.longest_on(0), task.longest_on(2)),
            (3, 1, 0)
        );
    }

    #[test]
    fn invalid_set_error_names_the_fault() {
        let good = TaskSet::new(
            vec![Device::new("npu:0")],
            vec![Task::periodic("camera", 33, vec![on(0, 8)])],
        );
        good.check().unwrap();
        let says = |change: &dyn Fn(&mut TaskSet), words: &str| {
            let mut set = good.clone();
            change(&mut set);
            let error = set.check().unwrap_err().to_string();
            assert!(error.contains(words), "{words:?} is not in: {error}");
        };
        says(
            &|set| set.tasks[0] = set.tasks[0].clone().due(0),
            "camera: has a deadline of zero",
        );
        says(
            &|set| set.tasks[0].parts[0].time_ns = 0,
            "camera: has a part 0 of zero",
        );
        says(&|set| set.tasks[0].parts[0].time_ns = u64::MAX, "the limit is");
        says(&|set| set.tasks[0].parts.clear(), "camera: has no part");
        says(
            &|set| set.tasks[0].parts[0].device = 1,
            "names device 1; there are 1",
        );
        says(&|set| set.tasks[0].memory_bytes.push((7, 1)), "names device 7");
        says(
            &|set| set.devices[0].queue.in_flight = 0,
            "npu:0: is given no part",
        );
        says(
            &|set| set.devices[0].switch_ns = u64::MAX,
            "npu:0: has a switch time of",
        );
    }
}

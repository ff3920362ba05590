//! Simulation on virtual time: tasks arrive, each device's queue orders their parts, and late runs
//! are counted.
//!
//! Invariants:
//! 1. The order comes from the same [queue](crate::queue) in which live sessions wait.
//! 2. The same set, arrivals and seed give the same outcome on every host.
//! 3. At any instant, parts that end release the next part of their run, and arrivals are queued,
//!    before a device is given a part.
//! 4. Once all slots are allocated (at most the number of pending runs), a run allocates nothing,
//!    except to keep its time.
//!
//! A late run continues to its end. A preemptive device takes the longest preemption time that its
//! settings allow, and resumes preempted parts whenever nothing more urgent is with it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

use crate::queue::{Entry, Queue, Ticket};
use crate::settings::Class;
use crate::task::{Arrivals, Device, TaskSet};

/// Parts that the log of a first miss holds at most.
const LOGGED: usize = 64;

/// The arrival of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival {
    /// Time in nanoseconds.
    pub time_ns: u64,
    /// Index of the task.
    pub task: usize,
}

/// The arrival pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// Every task arrives at 0 and then once per period.
    Periodic,
    /// Every task arrives first at a random time within its period, and then after one period in
    /// half of the cases, else after up to two.
    Sporadic,
    /// These arrivals, in order of time. An endless task continues from its first one.
    Given(Vec<Arrival>),
}

/// The parameters of a simulation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    /// Random seed.
    pub seed: u64,
    /// The arrival pattern.
    pub pattern: Pattern,
    /// End of arrivals, in nanoseconds; runs that arrived before are completed.
    pub until_ns: u64,
    /// Minimum time of a part, in thousandths of its stated time; each part takes a random time
    /// from the minimum to the stated time.
    pub least_permille: u32,
    /// Keep the time of every run.
    pub keep_times: bool,
    /// End at the first late run.
    pub stop_at_miss: bool,
}

/// The outcome for a task.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskOutcome {
    /// Runs that arrived.
    pub arrived: u64,
    /// Runs that ended; for an endless task, those that ended before arrivals end.
    pub ended: u64,
    /// Runs that ended after their deadline.
    pub late: u64,
    /// The longest time from arrival to end, in nanoseconds.
    pub worst_ns: u64,
    /// The time of each ended run, if kept.
    pub times_ns: Vec<u64>,
}

/// A completed part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ran {
    /// Index of the device.
    pub device: usize,
    /// Index of the task.
    pub task: usize,
    /// Index of the part.
    pub part: usize,
    /// Start in nanoseconds.
    pub start_ns: u64,
    /// End in nanoseconds.
    pub end_ns: u64,
}

/// A late run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Miss {
    /// Index of the task.
    pub task: usize,
    /// Arrival in nanoseconds.
    pub arrived_ns: u64,
    /// Deadline in nanoseconds.
    pub due_ns: u64,
    /// End in nanoseconds.
    pub ended_ns: u64,
    /// The last completed parts from its arrival to its end.
    pub log: Vec<Ran>,
}

/// The outcome of a simulation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The outcome by task.
    pub tasks: Vec<TaskOutcome>,
    /// Busy time by device until arrivals end, in nanoseconds.
    pub busy_ns: Vec<u64>,
    /// The first late run.
    pub first_miss: Option<Miss>,
}

impl Outcome {
    /// Number of late runs of all tasks.
    #[must_use]
    pub fn late(&self) -> u64 {
        self.tasks.iter().map(|task| task.late).sum()
    }
}

impl Scenario {
    /// A scenario of ten seconds with this pattern, in which each part takes its stated time.
    #[must_use]
    pub fn of(pattern: Pattern) -> Self {
        Self {
            seed: 0,
            pattern,
            until_ns: 10_000_000_000,
            least_permille: 1_000,
            keep_times: false,
            stop_at_miss: false,
        }
    }
}

/// Sporadic arrivals in order of time, up to an instant: an endless task arrives once, at the
/// start.
pub fn sporadic(set: &TaskSet, seed: u64, until_ns: u64) -> impl Iterator<Item = Arrival> + use<> {
    Source::new(set, Pattern::Sporadic, seed, until_ns)
}

/// Runs that come, in order of time.
struct Source {
    random: ChaCha8Rng,
    /// Whether tasks come as soon as they may.
    is_prompt: bool,
    /// By task: shortest time from a run to the next.
    periods: Vec<Option<u64>>,
    next: BinaryHeap<Reverse<Arrival>>,
    until_ns: u64,
}

impl Source {
    fn new(set: &TaskSet, pattern: Pattern, seed: u64, until_ns: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut periods: Vec<Option<u64>> = set
            .tasks
            .iter()
            .map(|task| task.sporadic().map(|(period, _)| period))
            .collect();
        let is_prompt = pattern == Pattern::Periodic;
        let next = match pattern {
            Pattern::Given(arrivals) => {
                // each comes as often as it is given
                periods.fill(None);
                arrivals.into_iter().map(Reverse).collect()
            }
            _ => {
                let first = periods.iter().enumerate().map(|(task, period)| {
                    let within = period.filter(|_| !is_prompt).unwrap_or(1);
                    let time_ns = random.next_u64() % within;
                    Reverse(Arrival { time_ns, task })
                });
                first.collect()
            }
        };
        Self {
            random,
            is_prompt,
            periods,
            next,
            until_ns,
        }
    }

    /// When the next one comes.
    fn time_ns(&self) -> Option<u64> {
        let next = self.next.peek()?.0.time_ns;
        (next < self.until_ns).then_some(next)
    }
}

impl Iterator for Source {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        self.time_ns()?;
        let Reverse(arrival) = self.next.pop()?;
        if let Some(period) = self.periods[arrival.task] {
            let word = self.random.next_u64();
            // half of the time exactly after its period
            let more = if self.is_prompt || word & 1 == 0 {
                0
            } else {
                (word >> 1) % (period + 1)
            };
            let time_ns = arrival.time_ns + period + more;
            self.next.push(Reverse(Arrival { time_ns, ..arrival }));
        }
        Some(arrival)
    }
}

/// A run that is pending.
#[derive(Debug, Clone, Copy)]
struct Run {
    task: usize,
    arrived_ns: u64,
    /// Its next part, or the one that is queued or given.
    part: usize,
    /// The subtask of that part.
    subtask: usize,
}

/// A device with its queue.
struct DeviceQueue {
    /// The owning runs, by place.
    queue: Queue<usize>,
    preemption_ns: Option<u64>,
    switch_ns: u64,
    /// Its parts in execution order; the first has started.
    given: VecDeque<ExecutingPart>,
    /// The task of the last started part.
    last_task: Option<usize>,
}

/// A part that a device executes, or the rest of an interrupted one.
#[derive(Debug, Clone, Copy)]
struct ExecutingPart {
    ticket: Ticket,
    run: usize,
    task: usize,
    class: Class,
    start_ns: u64,
    end_ns: u64,
    /// Whether it is interrupted at `end_ns`.
    is_interrupted: bool,
}

/// Simulates a set: each run's parts are queued with the deadlines of their subtasks (`deadlines`:
/// by task and subtask, time from arrival in nanoseconds), and each device gets as many as it
/// accepts.
///
/// # Panics
/// The set is invalid ([`TaskSet::check`]), or has other subtasks than `deadlines`.
#[must_use]
pub fn simulate(set: &TaskSet, deadlines: &[Vec<u64>], scenario: &Scenario) -> Outcome {
    let mut simulation = Simulation {
        set,
        deadlines,
        scenario,
        device_queues: set.devices.iter().map(DeviceQueue::new).collect(),
        runs: Vec::with_capacity(set.tasks.len()),
        free: Vec::with_capacity(set.tasks.len()),
        source: Source::new(set, scenario.pattern.clone(), scenario.seed, scenario.until_ns),
        // another stream than that of arrivals
        random: ChaCha8Rng::seed_from_u64(!scenario.seed),
        ends: BinaryHeap::with_capacity(set.devices.len()),
        log: VecDeque::with_capacity(LOGGED),
        outcome: Outcome {
            tasks: vec![TaskOutcome::default(); set.tasks.len()],
            busy_ns: vec![0; set.devices.len()],
            first_miss: None,
        },
    };
    simulation.go();
    simulation.outcome
}

struct Simulation<'a> {
    set: &'a TaskSet,
    deadlines: &'a [Vec<u64>],
    scenario: &'a Scenario,
    device_queues: Vec<DeviceQueue>,
    /// Pending runs, and places of ended ones.
    runs: Vec<Run>,
    free: Vec<usize>,
    source: Source,
    random: ChaCha8Rng,
    /// When the first part that a device was given ends.
    ends: BinaryHeap<Reverse<(u64, usize)>>,
    log: VecDeque<Ran>,
    outcome: Outcome,
}

impl Simulation<'_> {
    fn go(&mut self) {
        loop {
            let end = self.ends.peek().map(|Reverse((time, _))| *time);
            let Some(now) = end.into_iter().chain(self.source.time_ns()).min() else {
                return;
            };
            while let Some(&Reverse((time, device))) = self.ends.peek()
                && time == now
            {
                self.ends.pop();
                self.end(now, device);
            }
            while self.source.time_ns() == Some(now) {
                if let Some(arrival) = self.source.next() {
                    self.arrive(now, arrival.task);
                }
            }
            if self.scenario.stop_at_miss && self.outcome.first_miss.is_some() {
                return;
            }
            for device in 0..self.device_queues.len() {
                self.give(now, device);
            }
        }
    }

    /// A run comes.
    fn arrive(&mut self, now: u64, task: usize) {
        self.outcome.tasks[task].arrived += 1;
        let run = Run {
            task,
            arrived_ns: now,
            part: 0,
            subtask: 0,
        };
        let place = match self.free.pop() {
            Some(place) => {
                self.runs[place] = run;
                place
            }
            None => {
                self.runs.push(run);
                self.runs.len() - 1
            }
        };
        self.enqueue(now, place);
    }

    /// The next part of a run is ready.
    fn enqueue(&mut self, now: u64, place: usize) {
        let run = self.runs[place];
        let task = &self.set.tasks[run.task];
        let part = task.parts[run.part];
        let due = self.deadlines[run.task][run.subtask];
        let entry = Entry {
            class: task.class,
            deadline_ns: (due < u64::MAX).then(|| run.arrived_ns.saturating_add(due)),
            since_ns: run.arrived_ns,
            expected_ns: part.time_ns + self.set.devices[part.device].switch_ns,
            owner: place,
        };
        self.device_queues[part.device].queue.push(entry, now);
    }

    /// A device is given what it takes.
    fn give(&mut self, now: u64, device: usize) {
        let idle = self.device_queues[device].given.is_empty();
        let mut head_ns = self.device_queues[device].given.front().map(|first| first.end_ns);
        while let Some((ticket, place)) = self.device_queues[device].queue.next(now) {
            let run = self.runs[place];
            let class = self.set.tasks[run.task].class;
            let stated = self.set.tasks[run.task].parts[run.part].time_ns;
            let least = u64::from(self.scenario.least_permille.min(1_000));
            let time = match least {
                1_000 => stated,
                least => {
                    let permille = least + self.random.next_u64() % (1_001 - least);
                    (u128::from(stated) * u128::from(permille) / 1_000).max(1) as u64
                }
            };
            let new = ExecutingPart {
                ticket,
                run: place,
                task: run.task,
                class,
                start_ns: 0,
                end_ns: time,
                is_interrupted: false,
            };
            self.device_queues[device].put(new, now);
        }
        let first = self.device_queues[device].given.front().map(|first| first.end_ns);
        if idle {
            head_ns = None;
        }
        // the first one is new, or ends sooner than it would have
        if let Some(end_ns) = first.filter(|_| first != head_ns) {
            self.ends.push(Reverse((end_ns, device)));
        }
    }

    /// A device ends the first part that it was given.
    fn end(&mut self, now: u64, device: usize) {
        let device_queue = &mut self.device_queues[device];
        let ends_now = |first: &mut ExecutingPart| first.end_ns == now;
        let Some(ExecutingPart {
            ticket,
            run: place,
            start_ns,
            is_interrupted,
            ..
        }) = device_queue.given.pop_front_if(ends_now)
        else {
            // it was interrupted meanwhile
            return;
        };
        if let Some(next) = device_queue.given.front() {
            self.ends.push(Reverse((next.end_ns, device)));
        }
        if !is_interrupted {
            device_queue.queue.ended(ticket, now);
        }
        let run = self.runs[place];
        let until = self.scenario.until_ns;
        self.outcome.busy_ns[device] += now.min(until).saturating_sub(start_ns);
        if self.log.len() == LOGGED {
            self.log.pop_front();
        }
        self.log.push_back(Ran {
            device,
            task: run.task,
            part: run.part,
            start_ns,
            end_ns: now,
        });
        if is_interrupted {
            return;
        }
        let parts = &self.set.tasks[run.task].parts;
        let Some(next) = parts.get(run.part + 1) else {
            self.finish(now, place);
            return;
        };
        self.runs[place].part += 1;
        self.runs[place].subtask += usize::from(next.device != device);
        self.enqueue(now, place);
    }

    /// A run has ended.
    fn finish(&mut self, now: u64, place: usize) {
        let run = self.runs[place];
        self.free.push(place);
        let took = now - run.arrived_ns;
        let outcome = &mut self.outcome.tasks[run.task];
        let arrivals = self.set.tasks[run.task].arrivals;
        // what an endless task ends later than others arrive says nothing of its rate
        if arrivals != Arrivals::Endless || now <= self.scenario.until_ns {
            outcome.ended += 1;
            outcome.worst_ns = outcome.worst_ns.max(took);
            if self.scenario.keep_times {
                outcome.times_ns.push(took);
            }
        }
        match arrivals {
            Arrivals::Endless if now < self.scenario.until_ns => self.arrive(now, run.task),
            Arrivals::Endless => (),
            Arrivals::Sporadic { deadline_ns, .. } if took > deadline_ns => {
                outcome.late += 1;
                if self.outcome.first_miss.is_none() {
                    let since = self.log.iter().filter(|ran| ran.end_ns > run.arrived_ns);
                    self.outcome.first_miss = Some(Miss {
                        task: run.task,
                        arrived_ns: run.arrived_ns,
                        due_ns: run.arrived_ns + deadline_ns,
                        ended_ns: now,
                        log: since.copied().collect(),
                    });
                }
            }
            Arrivals::Sporadic { .. } => (),
        }
    }
}

impl DeviceQueue {
    fn new(device: &Device) -> Self {
        Self {
            queue: Queue::new(device.queue),
            preemption_ns: device.queue.preemption_ns,
            switch_ns: device.switch_ns,
            // each class may interrupt one part
            given: VecDeque::with_capacity((device.queue.in_flight + 1) * Class::COUNT),
            last_task: None,
        }
    }

    /// A part comes, whose `end_ns` is its time: behind what is as urgent, and where the device interrupts, before the rest.
    fn put(&mut self, mut new: ExecutingPart, now: u64) {
        let is_less = |other: &ExecutingPart| other.class > new.class;
        let at = match self.preemption_ns {
            Some(_) => self.given.iter().position(is_less).unwrap_or(self.given.len()),
            None => self.given.len(),
        };
        let mut at = at;
        if at == 0
            && let Some(bound_ns) = self.preemption_ns
            && let Some(first) = self.given.front_mut()
        {
            // it has begun: it runs until the bound, and its rest follows later
            let until_ns = now.saturating_add(bound_ns);
            if until_ns < first.end_ns {
                let mut rest = *first;
                first.end_ns = until_ns;
                first.is_interrupted = true;
                rest.start_ns = until_ns;
                self.given.insert(1, rest);
                // and the switch back
                self.given[1].end_ns += self.switch_ns;
                for later in self.given.range_mut(2..) {
                    later.start_ns += self.switch_ns;
                    later.end_ns += self.switch_ns;
                }
            }
            at = 1;
        }
        let before = match at.checked_sub(1) {
            Some(before) => Some(self.given[before].task),
            None => self.last_task,
        };
        let is_other = before.is_some_and(|before| before != new.task);
        let time_ns = new.end_ns + if is_other { self.switch_ns } else { 0 };
        new.start_ns = match at {
            0 => now,
            _ => self.given[at - 1].end_ns,
        };
        new.end_ns = new.start_ns + time_ns;
        self.given.insert(at, new);
        for later in self.given.range_mut(at + 1..) {
            later.start_ns += time_ns;
            later.end_ns += time_ns;
        }
        self.last_task = self.given.back().map(|last| last.task);
    }
}

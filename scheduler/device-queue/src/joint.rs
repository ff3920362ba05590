//! The joint plan: one Pareto plan for each session, so that all are admitted with the least energy
//! or load.
//!
//! Branch and bound over sessions: a choice is followed only while the sessions chosen so far are
//! admitted without the rest (admission is monotone), and while a lower bound of the rest keeps it
//! better than the best found.
//!
//! Invariants:
//! 1. The result was admitted as a whole, and includes its certificate.
//! 2. Without a step limit it is optimal: equal to trying all combinations.
//! 3. Deterministic.

use crate::admit::{Admission, Certificate, judged};
use crate::error::Error;
use crate::settings::Class;
use crate::task::{Arrivals, Device, Part, Task, TaskSet};

/// A plan of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Its parts.
    pub parts: Vec<Part>,
    /// Energy of a run in microjoules.
    pub energy_uj: u64,
    /// Bytes that it holds, by index of the device.
    pub memory_bytes: Vec<(usize, u64)>,
}

/// A session with its plans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its name, for messages.
    pub name: String,
    /// Its class.
    pub class: Class,
    /// When its runs arrive.
    pub arrivals: Arrivals,
    /// Its plans, of which one is chosen.
    pub choices: Vec<Choice>,
}

/// The quantity to minimize.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aim {
    /// Mean power of all sessions, in nanowatts; an endless session counts as running without a
    /// pause.
    Energy,
    /// Highest share of a device used by sessions with deadlines, in millionths.
    Load,
}

/// A plan for each session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joint {
    /// Index of the plan, by session.
    pub chosen: Vec<usize>,
    /// The minimized value, in the aim's unit.
    pub value: u64,
    /// The proof that all deadlines are met.
    pub certificate: Certificate,
    /// Whether the search was complete.
    pub is_optimal: bool,
    /// Number of examined choices.
    pub steps: u64,
}

/// Sets that were looked at, and the best so far.
struct Search<'a> {
    sessions: &'a [Session],
    aim: Aim,
    /// By depth, the session, and its plans from the cheapest.
    order: Vec<(usize, Vec<usize>)>,
    /// By session and plan, what it adds.
    cost: Vec<Vec<Cost>>,
    /// By depth, the least that the sessions from there on add.
    rest: Vec<Cost>,
    set: TaskSet,
    chosen: Vec<usize>,
    best: Option<(u64, Vec<usize>)>,
    steps: u64,
    most_steps: u64,
    /// There were steps left to take.
    is_stopped: bool,
}

/// What a plan adds to power and to the load of each device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Cost {
    power_nw: u64,
    load_ppm: Vec<u64>,
}

/// The best plan of each session, within a step limit; `None` if no examined combination is
/// admitted.
///
/// # Errors
/// A plan is invalid ([`TaskSet::check`]).
pub fn joint(
    devices: &[Device],
    sessions: &[Session],
    aim: Aim,
    most_steps: u64,
) -> Result<Option<Joint>, Error> {
    for session in sessions {
        let tasks = session.choices.iter().map(|choice| session.with(choice));
        TaskSet::new(devices.to_vec(), tasks.collect()).check()?;
    }
    let cost: Vec<Vec<Cost>> = sessions
        .iter()
        .map(|session| {
            let choices = session.choices.iter();
            choices
                .map(|choice| Cost::of(session, choice, devices.len()))
                .collect()
        })
        .collect();
    let mut order: Vec<(usize, Vec<usize>)> = cost
        .iter()
        .enumerate()
        .map(|(session, costs)| {
            let mut plans: Vec<usize> = (0..costs.len()).collect();
            plans.sort_by_key(|plan| costs[*plan].value(aim));
            (session, plans)
        })
        .collect();
    // what weighs most first: a bad choice of it shows soonest
    order.sort_by_key(|(session, _)| {
        std::cmp::Reverse(cost[*session].iter().map(|cost| cost.value(aim)).min())
    });
    let mut rest = vec![Cost::none(devices.len())];
    for (session, _) in order.iter().rev() {
        let mut sum = Cost::least(&cost[*session], devices.len());
        sum.add(rest.last().expect("invariant: it begins with one"));
        rest.push(sum);
    }
    rest.reverse();
    let mut search = Search {
        sessions,
        aim,
        order,
        rest,
        set: TaskSet::new(devices.to_vec(), Vec::with_capacity(sessions.len())),
        chosen: vec![0; sessions.len()],
        best: None,
        steps: 0,
        most_steps,
        is_stopped: false,
        cost,
    };
    search.descend(0, &Cost::none(devices.len()));
    let Some((value, chosen)) = search.best else {
        return Ok(None);
    };
    let tasks = sessions.iter().zip(&chosen);
    let tasks = tasks.map(|(session, plan)| session.with(&session.choices[*plan]));
    let set = TaskSet::new(devices.to_vec(), tasks.collect());
    let Admission::Admitted(certificate) = judged(&set) else {
        unreachable!("invariant: the order of tasks changes no answer");
    };
    Ok(Some(Joint {
        chosen,
        value,
        certificate,
        is_optimal: !search.is_stopped,
        steps: search.steps,
    }))
}

impl Session {
    /// The session with one of its plans.
    #[must_use]
    pub fn with(&self, choice: &Choice) -> Task {
        Task {
            name: self.name.clone(),
            class: self.class,
            arrivals: self.arrivals,
            parts: choice.parts.clone(),
            memory_bytes: choice.memory_bytes.clone(),
        }
    }
}

/// The cost of a combination of plans, given by the index of each session's plan, in the aim's
/// unit.
#[must_use]
pub fn value(devices: usize, sessions: &[Session], chosen: &[usize], aim: Aim) -> u64 {
    let mut sum = Cost::none(devices);
    for (session, plan) in sessions.iter().zip(chosen) {
        sum.add(&Cost::of(session, &session.choices[*plan], devices));
    }
    sum.value(aim)
}

impl Cost {
    fn none(devices: usize) -> Self {
        Self {
            power_nw: 0,
            load_ppm: vec![0; devices],
        }
    }

    fn of(session: &Session, choice: &Choice, devices: usize) -> Self {
        let task = session.with(choice);
        let period = task.sporadic().map(|(period, _)| period);
        let every = period.unwrap_or(task.time_ns()).max(1);
        let share = |time: u64| (u128::from(time) * 1_000_000).div_ceil(u128::from(every));
        let load = |device: usize| match period {
            Some(_) => clamped(share(task.time_on(device))),
            None => 0,
        };
        Self {
            // a microjoule each nanosecond is a kilowatt
            power_nw: clamped((u128::from(choice.energy_uj) * 1_000_000_000_000).div_ceil(u128::from(every))),
            load_ppm: (0..devices).map(load).collect(),
        }
    }

    /// The least of each figure among these.
    fn least(all: &[Cost], devices: usize) -> Self {
        let least = |figure: &dyn Fn(&Cost) -> u64| all.iter().map(figure).min().unwrap_or(0);
        Self {
            power_nw: least(&|cost| cost.power_nw),
            load_ppm: (0..devices)
                .map(|device| least(&|cost| cost.load_ppm[device]))
                .collect(),
        }
    }

    fn add(&mut self, other: &Cost) {
        self.power_nw = self.power_nw.saturating_add(other.power_nw);
        for (sum, other) in self.load_ppm.iter_mut().zip(&other.load_ppm) {
            *sum = sum.saturating_add(*other);
        }
    }

    fn value(&self, aim: Aim) -> u64 {
        match aim {
            Aim::Energy => self.power_nw,
            Aim::Load => self.load_ppm.iter().copied().max().unwrap_or(0),
        }
    }
}

fn clamped(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

impl Search<'_> {
    /// Tries the plans of the session at this depth, where those above cost so much.
    fn descend(&mut self, depth: usize, above: &Cost) {
        let Some((session, plans)) = self.order.get(depth).cloned() else {
            let value = above.value(self.aim);
            self.best = Some((value, self.chosen.clone()));
            return;
        };
        for plan in plans {
            if self.steps >= self.most_steps {
                self.is_stopped = true;
                return;
            }
            self.steps += 1;
            let mut cost = above.clone();
            cost.add(&self.cost[session][plan]);
            let mut bound = cost.clone();
            bound.add(&self.rest[depth + 1]);
            if self
                .best
                .as_ref()
                .is_some_and(|(best, _)| bound.value(self.aim) >= *best)
            {
                continue;
            }
            let one = &self.sessions[session];
            self.set.tasks.push(one.with(&one.choices[plan]));
            if judged(&self.set).certificate().is_some() {
                self.chosen[session] = plan;
                self.descend(depth + 1, &cost);
            }
            self.set.tasks.pop();
        }
    }
}

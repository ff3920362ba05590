//! `polychip serve-sim --real`: the models of a set as sessions of one runtime, at their periods, on the machine's clock.
//!
//! Invariants:
//! 1. Runs come when the simulation lets them come (same pattern, same seed), whatever became of the runs before; a run's time
//!    is from then to its outputs.
//! 2. A model runs one run at a time, in order of arrival; a run that arrives during another waits
//!    for it.
//! 3. Sessions are made, and have run, before the first run comes.
//!
//! Deliberately not here: what is admitted (`answer`). Inputs hold zeros: what is computed takes the same time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use polychip::{Input, Session};
use polychip_device_queue::{Arrivals, Outcome, Pattern, Scenario, TaskOutcome, TaskSet, sporadic};

use super::set::Read;
use crate::exit::bad_input;
use crate::setup::PATIENCE;

/// Runs of each session before the first that counts.
const WARM_UP: usize = 3;

/// A late run: when it came, and when it ended, in nanoseconds from the start.
type Late = (u64, u64);

/// Runs the models of a set.
///
/// # Errors
/// A model has no path, by name; a session is not made, or a run fails.
pub(super) fn run(read: &mut Read, scenario: &Scenario) -> anyhow::Result<Outcome> {
    let without = names_without_path(read);
    if !without.is_empty() {
        return Err(bad_input(format!(
            "--real needs models: without a path {} {}",
            if without.len() == 1 { "is" } else { "are" },
            without.join(", ")
        )));
    }
    let mut sessions = Vec::with_capacity(read.models.len());
    for (task, told) in read.set.tasks.iter().zip(&mut read.models) {
        let made = read.runtime.as_ref().zip(told.planned.take());
        let (runtime, (planned, policy)) = made.context("invariant: a model with a path was planned")?;
        // as an app would ask for it, with the plan that was judged
        let mut policy = policy.priority(told.priority.into());
        if let Some((_, deadline_ns)) = task.sporadic() {
            policy = policy.deadline(Duration::from_nanos(deadline_ns));
        }
        let session = runtime.session_of(planned, policy);
        sessions.push(session.with_context(|| format!("model {}", task.name))?);
    }
    let inputs: Vec<Vec<Input>> = sessions.iter().map(inputs).collect::<anyhow::Result<_>>()?;
    for (session, given) in sessions.iter().zip(&inputs) {
        for _ in 0..WARM_UP {
            once(session, given)?;
        }
    }
    let come = arrivals(&read.set, scenario);
    let until = Duration::from_nanos(scenario.until_ns);
    let failed = AtomicBool::new(false);
    let start = Instant::now();
    let ran: Vec<anyhow::Result<(TaskOutcome, Option<Late>)>> = std::thread::scope(|scope| {
        let failed = &failed;
        let threads: Vec<_> = read
            .set
            .tasks
            .iter()
            .enumerate()
            .map(|(index, task)| {
                let (session, given, come) = (&sessions[index], &inputs[index], &come[index]);
                scope.spawn(move || {
                    let one = One {
                        session,
                        given,
                        start,
                        failed,
                    };
                    let ran = match task.arrivals {
                        Arrivals::Endless => one.endless(until),
                        Arrivals::Sporadic { deadline_ns, .. } => one.at(come, deadline_ns),
                    };
                    failed.fetch_or(ran.is_err(), Ordering::AcqRel);
                    ran.with_context(|| format!("model {}", task.name))
                })
            })
            .collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended
            .map(|ended| ended.unwrap_or_else(|_| Err(anyhow::anyhow!("a model's thread panicked"))))
            .collect()
    });
    let mut outcome = Outcome {
        tasks: Vec::with_capacity(ran.len()),
        busy_ns: Vec::new(),
        first_miss: None,
    };
    for (index, ran) in ran.into_iter().enumerate() {
        let (task, late) = ran?;
        outcome.tasks.push(task);
        let Some((arrived_ns, ended_ns)) = late else {
            continue;
        };
        let due = read.set.tasks[index]
            .sporadic()
            .map_or(0, |(_, deadline)| deadline);
        if outcome
            .first_miss
            .as_ref()
            .is_none_or(|first| first.ended_ns > ended_ns)
        {
            outcome.first_miss = Some(polychip_device_queue::Miss {
                task: index,
                arrived_ns,
                due_ns: arrived_ns + due,
                ended_ns,
                log: Vec::new(),
            });
        }
    }
    Ok(outcome)
}

fn names_without_path(read: &Read) -> Vec<&str> {
    let models = read.set.tasks.iter().zip(&read.models);
    models
        .filter(|(_, told)| told.planned.is_none())
        .map(|(task, _)| task.name.as_str())
        .collect()
}

/// By task, when its runs come, in nanoseconds from the start.
fn arrivals(set: &TaskSet, scenario: &Scenario) -> Vec<Vec<u64>> {
    let mut come = vec![Vec::new(); set.tasks.len()];
    if scenario.pattern == Pattern::Sporadic {
        for arrival in sporadic(set, scenario.seed, scenario.until_ns) {
            come[arrival.task].push(arrival.time_ns);
        }
        return come;
    }
    for (task, come) in set.tasks.iter().zip(&mut come) {
        if let Some((period, _)) = task.sporadic() {
            let times = (0..).map(|run: u64| run.saturating_mul(period));
            come.extend(times.take_while(|time| *time < scenario.until_ns));
        }
    }
    come
}

/// An input of zeros for each that the session has.
fn inputs(session: &Session) -> anyhow::Result<Vec<Input>> {
    let mut inputs = Vec::with_capacity(session.inputs().len());
    for spec in session.inputs() {
        let mut input = session.input(&spec.name)?;
        input.bytes_mut()?.fill(0);
        inputs.push(input);
    }
    Ok(inputs)
}

fn once(session: &Session, given: &[Input]) -> anyhow::Result<()> {
    let given: Vec<&Input> = given.iter().collect();
    drop(session.submit(&given)?.wait(PATIENCE)?);
    Ok(())
}

/// The runs of one model.
struct One<'a> {
    session: &'a Session,
    given: &'a [Input],
    start: Instant,
    /// Another model's run failed.
    failed: &'a AtomicBool,
}

impl One<'_> {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Runs one after the other.
    fn endless(&self, until: Duration) -> anyhow::Result<(TaskOutcome, Option<Late>)> {
        let mut outcome = TaskOutcome::default();
        while self.start.elapsed() < until && !self.failed.load(Ordering::Acquire) {
            let since = self.now_ns();
            outcome.arrived += 1;
            once(self.session, self.given)?;
            // what ends later says nothing of the rate
            if self.start.elapsed() <= until {
                outcome.add(self.now_ns() - since);
            }
        }
        Ok((outcome, None))
    }

    /// Runs that come at these times, and are due so long after.
    fn at(&self, come: &[u64], deadline_ns: u64) -> anyhow::Result<(TaskOutcome, Option<Late>)> {
        let mut outcome = TaskOutcome::default();
        let mut first_late = None;
        for &arrived_ns in come {
            if self.failed.load(Ordering::Acquire) {
                break;
            }
            let left_ns = arrived_ns.saturating_sub(self.now_ns());
            std::thread::sleep(Duration::from_nanos(left_ns));
            outcome.arrived += 1;
            once(self.session, self.given)?;
            let ended_ns = self.now_ns();
            let took_ns = ended_ns.saturating_sub(arrived_ns);
            outcome.add(took_ns);
            if took_ns > deadline_ns {
                outcome.late += 1;
                first_late.get_or_insert((arrived_ns, ended_ns));
            }
        }
        Ok((outcome, first_late))
    }
}

/// Counts a run that ended.
trait Add {
    fn add(&mut self, took_ns: u64);
}

impl Add for TaskOutcome {
    fn add(&mut self, took_ns: u64) {
        self.ended += 1;
        self.worst_ns = self.worst_ns.max(took_ns);
        self.times_ns.push(took_ns);
    }
}

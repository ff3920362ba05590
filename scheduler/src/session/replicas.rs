//! Replicas of the model, each on its own devices: which one the next run uses, and their measured
//! times.
//!
//! A run uses the replica on which it is predicted to end first, from the measured time between its
//! runs and its runs in flight. A slow replica therefore gets a run only while the others are busy
//! beyond its end.
//!
//! Invariants:
//! 1. A run uses exactly one replica, and frees its slot when it ends, fails or is dropped.
//! 2. Nothing is allocated here except for events, and no device is called.
//! 3. A replica that does not increase throughput gets no runs ([`contention`]), except the fastest
//!    one.
//!
//! Not here: finding replicas (the partitioner), replicas after a device loss (`recover`).

pub(crate) mod contention;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polychip_host::Device;

use crate::event::{Event, EventKind};
use contention::Contention;
use schemars::JsonSchema;
use serde::Serialize;

/// Runs that each copy gets before its own times count; the first of them is cold.
const FIRST_RUNS: u64 = 2;

/// A copy that is predicted to be slower than the fastest by more than this gets no first runs by itself.
const SLOWER: u64 = 20;

/// A copy that is predicted to be slower than the fastest by more than this begins at rest.
const MUCH_SLOWER: u64 = 2;

/// The figures of a replica.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReplicaReport {
    /// Its devices.
    pub devices: Vec<String>,
    /// Predicted time between its runs, in nanoseconds.
    pub predicted_interval_ns: u64,
    /// Recently measured time between its runs, in nanoseconds; none before its second run.
    pub measured_interval_ns: Option<u64>,
    /// Number of its runs.
    pub runs: u64,
    /// Whether it gets no runs, because it does not increase throughput.
    pub rests: bool,
    /// Whether at least one of its devices is emulated.
    pub emulated: bool,
}

impl std::fmt::Display for ReplicaReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rate = |interval_ns: u64| 1e9 / interval_ns.max(1) as f64;
        write!(
            f,
            "  {}: predicted {:.1} runs/s, ",
            self.devices.join(" + "),
            rate(self.predicted_interval_ns)
        )?;
        match self.measured_interval_ns {
            Some(interval) => write!(f, "measured {:.1} runs/s while it is busy", rate(interval))?,
            None => f.write_str("not measured yet")?,
        }
        let runs = match self.runs {
            1 => "1 run".to_owned(),
            runs => format!("{runs} runs"),
        };
        let rests = if self.rests { ", rests" } else { "" };
        let emulated = if self.emulated { ", emulated" } else { "" };
        write!(f, ", {runs}{rests}{emulated}")
    }
}

/// The replicas of a plan.
#[derive(Debug)]
pub(crate) struct Replicas {
    /// By copy: what people call its devices.
    names: Vec<String>,
    /// As they were before their first runs.
    copies: Vec<ReplicaReport>,
    /// By input: devices that read it, in any copy.
    inputs: Vec<Vec<usize>>,
    /// By output: devices that use it, in any copy, and whether all of them share memory with the host.
    outputs: Vec<(Vec<usize>, bool)>,
    state: Mutex<Dispatch>,
}

/// A run's slot in a replica.
#[derive(Debug)]
pub(crate) struct Taken {
    set: Arc<Replicas>,
    copy: usize,
    is_over: bool,
}

impl Taken {
    pub(crate) fn copy(&self) -> usize {
        self.copy
    }

    /// The run has ended well; what follows for the copies, if anything.
    pub(crate) fn ended(mut self, since_ns: u64, end_ns: u64) -> Option<Event> {
        self.is_over = true;
        let verdict = self.set.lock().ended(self.copy, since_ns, end_ns)?;
        let kind = if verdict.takes_part {
            EventKind::ReplicaReturns
        } else {
            EventKind::ReplicaRests
        };
        let words = format!(
            "{} runs/s with it, {} without",
            rate(verdict.with_mhz),
            rate(verdict.without_mhz)
        );
        Some(Event::new(kind, &self.set.names[verdict.copy], 0, words))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if !self.is_over {
            self.set.lock().left(self.copy);
        }
    }
}

/// A rate in thousandths of a hertz as a decimal number.
fn rate(mhz: u64) -> String {
    format!("{}.{}", mhz / 1000, mhz % 1000 / 100)
}

impl Replicas {
    /// These copies; `inputs` and `outputs` are the users of each tensor of the model in all copies, in the order of
    /// their binding.
    pub(crate) fn new(
        copies: Vec<ReplicaReport>,
        inputs: Vec<Vec<usize>>,
        outputs: Vec<(Vec<usize>, bool)>,
    ) -> Replicas {
        let predicted = copies.iter().map(|copy| copy.predicted_interval_ns).collect();
        Replicas {
            names: copies.iter().map(|copy| copy.devices.join("+")).collect(),
            inputs,
            outputs,
            state: Mutex::new(Dispatch::new(predicted)),
            copies,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Dispatch> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The copy that a run takes that is submitted now.
    pub(crate) fn take(self: &Arc<Self>, now_ns: u64) -> Taken {
        Taken {
            copy: self.lock().take(now_ns),
            set: Arc::clone(self),
            is_over: false,
        }
    }

    pub(crate) fn input_users(&self, index: usize, devices: &[Device]) -> Vec<(usize, Device)> {
        let users = self.inputs[index].iter();
        users.map(|&user| (user, devices[user].clone())).collect()
    }

    pub(crate) fn output_users(&self, index: usize, devices: &[Device]) -> Vec<(usize, Device)> {
        let users = self.outputs[index].0.iter();
        users.map(|&user| (user, devices[user].clone())).collect()
    }

    /// Whether all devices that use an output in some copy share memory with the host.
    pub(crate) fn shares_output(&self, index: usize) -> bool {
        self.outputs[index].1
    }

    /// What is known of each copy.
    pub(crate) fn report(&self) -> Vec<ReplicaReport> {
        let state = self.lock();
        let copies = state.copies.iter().enumerate();
        copies
            .map(|(index, copy)| ReplicaReport {
                measured_interval_ns: (copy.measured > 0).then_some(copy.period_ns),
                runs: copy.ended,
                rests: !state.contention.takes_part(index),
                ..self.copies[index].clone()
            })
            .collect()
    }
}

/// What is known of one copy.
#[derive(Debug)]
struct Copy {
    predicted_ns: u64,
    /// Time between its runs: as predicted, then as measured.
    period_ns: u64,
    measured: u64,
    begun: u64,
    ended: u64,
    /// Runs in flight.
    out: u64,
    /// When all of them are predicted to have ended.
    free_ns: u64,
    last_end_ns: u64,
}

/// Assigns runs to replicas, without a clock or a device.
#[derive(Debug)]
struct Dispatch {
    copies: Vec<Copy>,
    contention: Contention,
}

impl Dispatch {
    /// Copies that are predicted to take so long between runs.
    fn new(predicted_ns: Vec<u64>) -> Self {
        let copy = |&predicted_ns: &u64| Copy {
            predicted_ns,
            period_ns: predicted_ns.max(1),
            measured: 0,
            begun: 0,
            ended: 0,
            out: 0,
            free_ns: 0,
            last_end_ns: 0,
        };
        let fastest = predicted_ns.iter().copied().min().unwrap_or(0);
        let takes_part = predicted_ns
            .iter()
            .map(|&predicted| predicted <= fastest.saturating_mul(MUCH_SLOWER));
        Self {
            contention: Contention::new(takes_part.collect()),
            copies: predicted_ns.iter().map(copy).collect(),
        }
    }

    fn take(&mut self, now_ns: u64) -> usize {
        let fastest = self.copies.iter().map(|copy| copy.predicted_ns).min();
        let near = fastest.unwrap_or(0).saturating_mul(SLOWER);
        let allowed = || {
            let copies = self.copies.iter().enumerate();
            copies.filter(|(index, _)| self.contention.allows(*index))
        };
        let new = allowed().filter(|(_, copy)| copy.begun < FIRST_RUNS && copy.predicted_ns <= near);
        let soonest = |(_, copy): &(usize, &Copy)| copy.free_ns.max(now_ns).saturating_add(copy.period_ns);
        let chosen = new
            .min_by_key(|(_, copy)| copy.begun)
            .or_else(|| allowed().min_by_key(soonest))
            .map_or(0, |(index, _)| index);
        let out: u64 = self.copies.iter().map(|copy| copy.out).sum();
        let taking_part = (0..self.copies.len())
            .filter(|&index| self.contention.allows(index))
            .count();
        self.contention.submitted(out >= taking_part as u64);
        let copy = &mut self.copies[chosen];
        copy.free_ns = copy.free_ns.max(now_ns).saturating_add(copy.period_ns);
        copy.begun += 1;
        copy.out += 1;
        chosen
    }

    /// A run failed, or was dropped.
    fn left(&mut self, copy: usize) {
        let copy = &mut self.copies[copy];
        copy.out = copy.out.saturating_sub(1);
        if copy.out == 0 {
            copy.free_ns = copy.last_end_ns;
        }
    }

    fn ended(&mut self, index: usize, since_ns: u64, end_ns: u64) -> Option<contention::Verdict> {
        let copy = &mut self.copies[index];
        copy.out = copy.out.saturating_sub(1);
        copy.ended += 1;
        // what it took once the one before had ended
        let took = end_ns.saturating_sub(since_ns.max(copy.last_end_ns));
        if copy.ended > 1 && took > 0 {
            copy.period_ns = match copy.measured {
                0 => took,
                _ => (copy.period_ns - copy.period_ns / 8)
                    .saturating_add(took / 8)
                    .max(1),
            };
            copy.measured += 1;
        }
        copy.last_end_ns = copy.last_end_ns.max(end_ns);
        copy.free_ns = copy
            .last_end_ns
            .saturating_add(copy.out.saturating_mul(copy.period_ns));
        let copies = &self.copies;
        let slowest = |takes_part: &[bool]| {
            let periods = copies.iter().zip(takes_part).enumerate();
            let periods = periods.filter(|(_, (_, takes_part))| **takes_part);
            let periods = periods.map(|(index, (copy, _))| (copy.period_ns, index));
            let fastest = periods.clone().min()?;
            periods.max().filter(|slowest| slowest.1 != fastest.1)
        };
        self.contention.ended(end_ns, index, slowest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs through copies of which each takes so long: what an app does that keeps so many runs in flight and waits
    /// for the oldest. Gives runs by copy and the time of all.
    fn driven(predicted: &[u64], real: &[u64], in_flight: usize, runs: usize) -> (Vec<u64>, u64) {
        let mut dispatch = Dispatch::new(predicted.to_vec());
        let mut free = vec![0u64; real.len()];
        let mut out: std::collections::VecDeque<(usize, u64, u64)> = std::collections::VecDeque::new();
        let (mut now, mut counts, mut last) = (0, vec![0; real.len()], 0);
        for _ in 0..runs {
            if out.len() == in_flight {
                let (copy, since, end) = out.pop_front().unwrap();
                now = now.max(end);
                dispatch.ended(copy, since, end);
            }
            let copy = dispatch.take(now);
            free[copy] = free[copy].max(now) + real[copy];
            counts[copy] += 1;
            last = last.max(free[copy]);
            out.push_back((copy, now, free[copy]));
        }
        (counts, last)
    }

    #[test]
    fn equal_replicas_share_the_runs() {
        let (counts, time) = driven(&[1000, 1000], &[1000, 1000], 4, 2000);
        assert!(counts.iter().all(|&count| count >= 990), "{counts:?}");
        assert!(time <= 1_010_000, "{time}");
    }

    #[test]
    fn slow_replica_does_not_delay_the_others() {
        let (counts, time) = driven(&[1000, 1000, 50_000], &[1000, 1000, 50_000], 6, 5000);
        assert!(counts[2] <= 2, "{counts:?}");
        assert!(time <= 2_550_000, "{time}");
    }

    #[test]
    fn mispredicted_replica_uses_measured_times() {
        // said to be alike, and four times as slow
        let (counts, time) = driven(&[1000, 1000], &[1000, 4000], 6, 5000);
        assert!(counts[1] <= 1250, "{counts:?}");
        assert!(time <= 5_000 * 1000 * 4 / 5 * 11 / 10, "{time}");
    }

    #[test]
    fn failed_run_frees_its_replica_slot() {
        let mut dispatch = Dispatch::new(vec![10, 10]);
        let first = dispatch.take(0);
        dispatch.left(first);
        assert!(
            dispatch
                .copies
                .iter()
                .all(|copy| copy.out == 0 && copy.free_ns == 0)
        );
    }
}

//! The profiler: measures fusion groups and whole models on every device in the same way.
//!
//! It measures next what helps plans most: the width of the known interval (all of it without a
//! measurement) times the share of its model's time that depends on it, and less for devices that
//! are slower on that model than the fastest one. Candidates of one model alternate run by run, so
//! that external load affects all of them. All segments of a model run one after another whenever
//! one of them is measured, so that each finds the caches as the others left them, as it does within
//! the model. The whole model runs twice in its turn and counts once: it finds the caches as its
//! previous run left them.
//!
//! With a period in the policy, turns of all candidates start at that period, so that clocks fall
//! between them as they do between the app's runs; a whole model then runs once in its turn.
//!
//! Invariants:
//! 1. Every candidate warms up until the device's times are steady, or reports that they were not,
//!    and is measured by single runs through sessions, like those of apps.
//! 2. A batch of candidates is committed before the next begins: an interruption loses at most that
//!    batch.
//! 3. Parts that are measured precisely enough under the current governor and power mode are not
//!    measured again.
//! 4. Conditions are read while a candidate runs, because a chip's earlier or later readings do not
//!    apply.
//!
//! Not here: stored rows (`profile`), links (`link`).

mod calibrate;
mod candidate;
mod options;
mod signatures;
mod warm;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use polychip_profile::{Cadence, Conditions, Measurement, hex};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::Result;
use crate::model::Model;
use crate::policy::Policy;
use crate::runtime::Runtime;
use candidate::{Candidate, Kind, Loaded};
pub use options::ProfileOptions;
pub(crate) use warm::clock_hold;
pub use warm::{WarmUp, Warmth};

/// Maximum number of fusion groups, or parts of a plan, that run interleaved.
const TOGETHER: usize = 32;
/// Maximum size of their constants together, which fits a phone's memory.
const TOGETHER_BYTES: u64 = 256 << 20;
/// Rounds of emulated devices that warm up: their clocks are their script's.
const WARM: usize = 2;
/// Runs of each per batch that count: from where the interval of the median has an end on both sides of it, to where
/// more would better come later, when the machine is in another mood.
const RUNS: std::ops::RangeInclusive<usize> = 11..=31;
/// Longest that one batch takes, if every candidate had its fewest runs.
const BATCH: Duration = Duration::from_secs(4);

/// Progress of the profiler.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileProgress<'a> {
    /// Parts that are measured precisely enough, or cannot be measured better.
    pub done: u64,
    /// Parts to measure.
    pub total: u64,
    /// Estimated time left, at the pace so far.
    pub left: Option<Duration>,
    /// The part being measured: ops and shapes.
    pub part: &'a str,
    /// The device being measured.
    pub device: &'a str,
}

/// The profiler's results.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ProfileReport {
    /// The cadence of the runs.
    pub cadence: Cadence,
    /// Parts to measure, on all devices.
    pub parts: u64,
    /// Parts that were measured precisely enough before.
    pub known_before: u64,
    /// Parts that are measured precisely enough now.
    pub known: u64,
    /// Recorded runs.
    pub measurements: u64,
    /// Batches measured although the device's times had not become steady.
    pub unsteady: u64,
    /// Whether it ended because nothing was left to measure.
    pub complete: bool,
    /// Total time in nanoseconds.
    pub took_ns: u64,
    /// Widest remaining interval: half its width relative to the median, in millionths; none if nothing was
    /// measured.
    pub widest_ppm: Option<u64>,
    /// Parts that could not be measured, with the reason.
    pub not_measured: Vec<NotMeasured>,
}

/// A part that could not be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NotMeasured {
    /// Name of the device.
    pub device: String,
    /// Ops and shapes, or the model.
    pub part: String,
    /// The reason.
    pub reason: String,
}

impl Runtime {
    /// Measures models on every device that the policy allows, and their fusion groups with
    /// [`ProfileOptions::ops`]. Runs follow the policy's period; without one, a single model uses the period
    /// of its earlier sessions. Ends when everything reaches the target precision, the time is over, or
    /// `watch` stops it. The profile keeps all measurements, and a later call continues from there.
    ///
    /// # Errors
    /// A symbolic dimension is unbound, a device that the policy names does not exist, or neither the
    /// profile's file nor memory accepts the measurements.
    pub fn profile_models(
        &self,
        models: &[Model],
        policy: &Policy,
        options: &ProfileOptions,
        watch: &mut dyn FnMut(&ProfileProgress<'_>) -> ControlFlow<()>,
    ) -> Result<ProfileReport> {
        let start = Instant::now();
        let period = match (policy.stated_period(), models) {
            (Some(period), _) => period,
            (None, [model]) => crate::planned::known_period(&self.0, model, policy)?,
            (None, _) => Duration::ZERO,
        };
        // links and parts of plans are for this cadence too
        let policy = &policy.clone().period(period);
        let mut run = Profiler {
            runtime: self,
            models,
            policy,
            options,
            start,
            candidates: candidate::all(self, models, policy, options)?,
            report: ProfileReport {
                cadence: Cadence::of_period(period),
                ..ProfileReport::default()
            },
            period,
            next_ns: 0,
        };
        run.measure(watch)?;
        let mut report = run.report;
        report.took_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Ok(report)
    }
}

struct Profiler<'a> {
    runtime: &'a Runtime,
    models: &'a [Model],
    policy: &'a Policy,
    options: &'a ProfileOptions,
    start: Instant,
    candidates: Vec<Candidate>,
    report: ProfileReport,
    /// From the start of a turn to the start of the next; zero: at once.
    period: Duration,
    /// When the next turn may begin, on the runtime's clock.
    next_ns: u64,
}

impl Profiler<'_> {
    fn measure(&mut self, watch: &mut dyn FnMut(&ProfileProgress<'_>) -> ControlFlow<()>) -> Result<()> {
        self.look_up()?;
        self.report.parts = self.candidates.len() as u64;
        self.report.known_before = self.known();
        let mut stopped = false;
        while !stopped {
            let mut turn = self.choose();
            if turn.is_empty() && self.options.wholes && !self.is_late() {
                self.add_planned()?;
                turn = self.choose();
            }
            if turn.is_empty() {
                self.report.complete = true;
                break;
            }
            if self.is_late() {
                break;
            }
            stopped = self.batch(&turn, watch)?.is_break();
        }
        self.report.known = self.known();
        let widths = self
            .candidates
            .iter()
            .filter_map(|candidate| candidate.half_width);
        let widest = widths.fold(None, |widest: Option<f64>, width| {
            Some(widest.unwrap_or(0.0).max(width))
        });
        self.report.widest_ppm = widest.map(|width| (width * 1e6).round() as u64);
        Ok(())
    }

    /// The parts of the plans that are chosen by what is known now.
    fn add_planned(&mut self) -> Result<()> {
        for model in self.models {
            // a model that no plan can be made of has its single devices, or none
            let Ok(planned) = self.runtime.plan(model, self.policy) else {
                continue;
            };
            let more = candidate::of_plan(&planned, self.policy, &self.candidates);
            self.report.parts += more.len() as u64;
            self.candidates.extend(more);
        }
        self.look_up()
    }

    /// What is known of every candidate under the present conditions of its device.
    fn look_up(&mut self) -> Result<()> {
        let mut now: BTreeMap<String, Conditions> = BTreeMap::new();
        for candidate in &mut self.candidates {
            let device = &candidate.device;
            let now = now.entry(device.name().to_owned()).or_insert_with(|| Conditions {
                cadence: Some(Cadence::of_period(self.period)),
                ..self.runtime.conditions(device)
            });
            candidate.look_up(self.runtime.profile(), now)?;
        }
        Ok(())
    }

    fn known(&self) -> u64 {
        let goal = self.options.goal;
        let known = |candidate: &&Candidate| candidate.half_width.is_some_and(|width| width <= goal);
        self.candidates.iter().filter(known).count() as u64
    }

    fn is_late(&self) -> bool {
        self.options.time.is_some_and(|time| self.start.elapsed() >= time)
    }

    /// The next candidates: those that plans gain most by, of one device, because devices of one chip share it, and of
    /// one model, so that a drift of the machine is in all that adds up to it.
    fn choose(&self) -> Vec<usize> {
        let goal = self.options.goal;
        let mut open: Vec<usize> = (0..self.candidates.len())
            .filter(|&index| self.candidates[index].is_open(goal))
            .collect();
        open.sort_by(|&a, &b| {
            let (a, b) = (&self.candidates[a], &self.candidates[b]);
            b.value()
                .total_cmp(&a.value())
                .then_with(|| a.key_order().cmp(&b.key_order()))
        });
        let Some(&first) = open.first() else {
            return Vec::new();
        };
        let first = &self.candidates[first];
        let is_composed = |kind: Kind| matches!(kind, Kind::Whole | Kind::Segment);
        let is_beside = |other: &Candidate| {
            let is_alike = if first.models.is_empty() {
                other.models.is_empty()
            } else {
                !other.models.is_disjoint(&first.models)
            };
            is_alike
                && other.device.name() == first.device.name()
                && is_composed(other.kind) == is_composed(first.kind)
        };
        if is_composed(first.kind) {
            // known ones, too: caches are not as within the model where some are missing
            let known = (0..self.candidates.len()).filter(|index| !open.contains(index));
            let known = known.filter(|&index| {
                let known = &self.candidates[index];
                known.kind == Kind::Segment && !known.left_out
            });
            let known: Vec<usize> = known.collect();
            open.extend(known);
        }
        open.retain(|&index| is_beside(&self.candidates[index]));
        let mut turn = Vec::new();
        let mut bytes = 0u64;
        let whole = open
            .iter()
            .copied()
            .find(|&index| self.candidates[index].kind == Kind::Whole);
        for index in whole.into_iter().chain(open) {
            let constants = self.candidates[index].constants;
            let is_whole = self.candidates[index].kind == Kind::Whole;
            let fits = turn.is_empty() || bytes.saturating_add(constants) <= TOGETHER_BYTES;
            // one whole model at a time: its runs are the longest
            if turn.contains(&index) || (is_whole && !turn.is_empty()) || !fits {
                continue;
            }
            bytes = bytes.saturating_add(constants);
            turn.push(index);
            if turn.len() == TOGETHER && !is_composed(first.kind) {
                break;
            }
        }
        turn
    }

    /// Measures some candidates in turns, and commits what was measured.
    fn batch(
        &mut self,
        turn: &[usize],
        watch: &mut dyn FnMut(&ProfileProgress<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let mut flow = self.tell(turn[0], watch);
        if flow.is_break() {
            return Ok(flow);
        }
        let mut loaded: BTreeMap<usize, Loaded> = BTreeMap::new();
        for &index in turn {
            match Loaded::new(self.runtime, self.policy, &self.candidates[index]) {
                Ok(session) => {
                    loaded.insert(index, session);
                }
                Err(error) => self.leave_out(index, error.to_string()),
            }
        }
        let warmth = self.warm_up(&mut loaded);
        let started = Instant::now();
        for session in loaded.values_mut() {
            session.begin();
        }
        // the first round is the sessions' own, which is not kept
        let mut rounds = 0;
        while !loaded.is_empty() && rounds < 1 + RUNS.end() {
            self.round(&mut loaded);
            rounds += 1;
            if rounds < 1 + RUNS.start() {
                continue;
            }
            let goal = self.options.goal;
            let is_narrow = |session: &Loaded| session.half_width().is_some_and(|width| width <= goal);
            if loaded.values().all(is_narrow) || started.elapsed() > BATCH || self.is_late() {
                break;
            }
            flow = self.tell(turn[0], watch);
            if flow.is_break() {
                break;
            }
        }
        let measured: Vec<(usize, Vec<Measurement>)> = loaded
            .iter()
            .map(|(&index, session)| (index, session.measurements()))
            .collect();
        let conditions = Conditions {
            cadence: Some(Cadence::of_period(self.period)),
            unsteady: warmth == Warmth::Unsteady,
            ..self.under_load(&mut loaded)
        };
        let profile = self.runtime.profile();
        for (index, measurements) in measured {
            let candidate = &mut self.candidates[index];
            if measurements.is_empty() {
                let words = format!(
                    "{} does not report the times of its parts",
                    candidate.device.name()
                );
                self.leave_out(index, words);
                continue;
            }
            profile.describe(&candidate.fingerprint, &candidate.content)?;
            let emulated = candidate.device.info().emulated;
            profile.record_under(candidate.key(), emulated, &measurements, &conditions)?;
            tracing::info!(
                "committed {} runs of {} on {}",
                measurements.len(),
                hex(&candidate.fingerprint),
                candidate.device.name()
            );
            candidate.record_latencies(profile, &loaded[&index].latencies(), &conditions)?;
            candidate.batches += 1;
            candidate.look_up(profile, &conditions)?;
            self.report.measurements += measurements.len() as u64;
            self.report.unsteady += u64::from(conditions.unsteady);
        }
        Ok(flow)
    }

    /// Runs each once, and leaves out what fails; the time that all took together in nanoseconds.
    fn round(&mut self, loaded: &mut BTreeMap<usize, Loaded>) -> u64 {
        self.await_turn();
        let start = Instant::now();
        let mut failed = Vec::new();
        let mut after_whole = false;
        for (&index, session) in loaded.iter_mut() {
            if after_whole {
                // what follows the model finds the clocks as it did itself
                self.await_turn();
            }
            after_whole = self.candidates[index].kind == Kind::Whole;
            if let Err(error) = session.run() {
                failed.push((index, error.to_string()));
            }
        }
        let took = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        for (index, reason) in failed {
            loaded.remove(&index);
            self.leave_out(index, reason);
        }
        took
    }

    /// Waits until the next turn is due.
    fn await_turn(&mut self) {
        if self.period.is_zero() {
            return;
        }
        let clock = self.runtime.0.host.clock();
        clock.sleep_until_ns(self.next_ns);
        let period = u64::try_from(self.period.as_nanos()).unwrap_or(u64::MAX);
        self.next_ns = clock.now_ns().saturating_add(period);
    }

    /// Runs them in turns until the times are steady, or for as long as is waited for that.
    fn warm_up(&mut self, loaded: &mut BTreeMap<usize, Loaded>) -> Warmth {
        let Some(device) = loaded
            .keys()
            .next()
            .map(|&index| self.candidates[index].device.clone())
        else {
            return Warmth::Steady;
        };
        if device.info().emulated {
            for _ in 0..WARM {
                self.round(loaded);
            }
            return Warmth::Steady;
        }
        let start = Instant::now();
        let held = clock_hold(&device, self.period);
        let mut warm_up = WarmUp::at_least(held);
        while !loaded.is_empty() {
            let took = self.round(loaded);
            let now = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let runtime = self.runtime;
            match warm_up.round(now, took, || runtime.0.under_load(&device).khz) {
                Warmth::Rising => {}
                warmth => return warmth,
            }
        }
        Warmth::Steady
    }

    /// Under which conditions the device computes, while one of them runs once more.
    fn under_load(&self, loaded: &mut BTreeMap<usize, Loaded>) -> Conditions {
        let Some((&index, session)) = loaded.iter_mut().next() else {
            return Conditions::default();
        };
        let device = &self.candidates[index].device;
        session.run_while(|| self.runtime.0.under_load(device))
    }

    fn leave_out(&mut self, index: usize, reason: String) {
        let candidate = &mut self.candidates[index];
        candidate.left_out = true;
        self.report.not_measured.push(NotMeasured {
            device: candidate.device.name().to_owned(),
            part: candidate.words.clone(),
            reason,
        });
    }

    fn tell(
        &self,
        index: usize,
        watch: &mut dyn FnMut(&ProfileProgress<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let goal = self.options.goal;
        let open = self
            .candidates
            .iter()
            .filter(|candidate| candidate.is_open(goal))
            .count() as u64;
        let total = self.candidates.len() as u64;
        let done = total - open;
        let before = self.report.known_before;
        let elapsed = self.start.elapsed();
        let by_pace = (done > before).then(|| {
            let each = elapsed.as_secs_f64() / (done - before) as f64;
            Duration::from_secs_f64((each * open as f64).min(1e9))
        });
        let by_clock = self.options.time.map(|time| time.saturating_sub(elapsed));
        let left = match (by_pace, by_clock) {
            (Some(pace), Some(clock)) => Some(pace.min(clock)),
            (pace, clock) => pace.or(clock),
        };
        watch(&ProfileProgress {
            done,
            total,
            left,
            part: &self.candidates[index].words,
            device: self.candidates[index].device.name(),
        })
    }
}

//! Totals and the final summary.
//!
//! Invariants:
//! 1. Samples are taken by time, independent of runs, so a share of samples is a share of time.
//! 2. Memory grows only by one power value per sample.

use std::collections::BTreeMap;

use polychip::GovernedReport;
use polychip::telemetry::Sample;
use schemars::JsonSchema;
use serde::Serialize;

use super::limits::LimitLine;
use super::recent::{Recent, Tick};
use super::runner::{Latencies, Runner};
use super::sample::SampleLine;
use super::words::{in_ms, in_watts};

/// Summary of the whole time.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Summary {
    /// Seconds from the first to the last sample.
    pub(super) seconds: f64,
    /// Samples.
    pub(super) samples: usize,
    /// Mean of the devices' power in milliwatts.
    pub(super) mean_power_mw: Option<f64>,
    /// Requested limits and their sensors.
    pub(super) limits: Vec<LimitLine>,
    /// Highest sample in milliwatts.
    pub(super) highest_power_mw: Option<i64>,
    /// The limit in milliwatts.
    pub(super) limit_mw: Option<u64>,
    /// Share of the samples above the limit.
    pub(super) share_above: Option<f64>,
    /// Share of samples with a 5 s mean above the limit, after the first 10 s.
    pub(super) share_above_5s: Option<f64>,
    /// Hottest temperature in thousandths of a degree Celsius, by device.
    pub(super) hottest_mc: BTreeMap<String, i64>,
    /// Runs that have ended.
    pub(super) runs: Option<u64>,
    /// Runs in a second.
    pub(super) runs_per_second: Option<f64>,
    /// Times from submit to outputs.
    pub(super) latency: Option<Latencies>,
    /// Runs over the deadline.
    pub(super) late: Option<u64>,
    /// Frames skipped to meet a limit.
    pub(super) skipped: Option<u64>,
    /// Samples under each plan.
    pub(super) samples_of_plans: BTreeMap<String, usize>,
    /// Actions of the governor.
    pub(super) governed: Option<GovernedReport>,
    /// Decisions in its log, and whether they were the same when it was replayed.
    pub(super) replayed: Option<usize>,
}

/// What is summed up over the time.
pub(super) struct Totals {
    limit_mw: Option<u64>,
    limits: Vec<LimitLine>,
    recent: Recent,
    first_ns: Option<u64>,
    last_ns: u64,
    last_runs: u64,
    /// Seconds and power of each sample that has one.
    powers: Vec<(f64, i64)>,
    samples: usize,
    hottest: BTreeMap<String, i64>,
    plans: BTreeMap<String, usize>,
}

impl Totals {
    pub(super) fn new(limit_mw: Option<u64>) -> Totals {
        Totals {
            limit_mw,
            limits: Vec::new(),
            recent: Recent::default(),
            first_ns: None,
            last_ns: 0,
            last_runs: 0,
            powers: Vec::new(),
            samples: 0,
            hottest: Default::default(),
            plans: Default::default(),
        }
    }

    /// Notes what the limits can be held by, for the summary.
    pub(super) fn note(&mut self, limits: Vec<LimitLine>) {
        self.limits = limits;
    }

    /// When the first sample was taken, on the runtime's clock: the zero of all times that are shown.
    pub(super) fn start_ns(&self) -> u64 {
        self.first_ns.unwrap_or(0)
    }

    /// Counts a sample; the line of it.
    pub(super) fn line(
        &mut self,
        sample: Sample,
        governed: Option<&GovernedReport>,
        runner: Option<&Runner>,
    ) -> SampleLine {
        let now = sample.time_ns;
        let first = *self.first_ns.get_or_insert(now);
        let seconds = now.saturating_sub(first) as f64 / 1e9;
        let known: Vec<i64> = sample
            .devices
            .iter()
            .filter_map(|state| state.power_mw.value)
            .collect();
        let power_mw = (!known.is_empty()).then(|| known.iter().sum());
        self.powers.extend(power_mw.map(|power| (seconds, power)));
        self.samples += 1;
        for state in &sample.devices {
            if let Some(mc) = state.temperature_mc.value {
                let hottest = self.hottest.entry(state.device.clone()).or_insert(mc);
                *hottest = mc.max(*hottest);
            }
        }
        if let Some(governed) = governed {
            *self.plans.entry(governed.plan.clone()).or_default() += 1;
        }
        let runs = runner.map(Runner::runs);
        let passed = now.saturating_sub(self.last_ns) as f64 / 1e9;
        let rate = runs.filter(|_| self.samples > 1 && passed > 0.0);
        let runs_per_second = rate.map(|runs| (runs - self.last_runs) as f64 / passed);
        self.last_ns = now;
        self.last_runs = runs.unwrap_or(0);
        let last_second = self.recent.add(Tick {
            time_ns: now,
            power_mw,
            counts: runner.map(|runner| [runner.runs(), runner.late(), runner.skipped()]),
            latencies_ns: runner.map(Runner::take_times).unwrap_or_default(),
        });
        SampleLine {
            seconds,
            sample,
            power_mw,
            plan: governed.map(|governed| governed.plan.clone()),
            pace_permille: governed.map(|governed| governed.pace_permille),
            runs,
            runs_per_second,
            late: runner.map(Runner::late),
            skipped: runner.map(Runner::skipped),
            last_second,
        }
    }

    /// Ends the runs, and says what all was like.
    pub(super) fn summary(
        self,
        runner: Option<Runner>,
        log: Option<&std::path::Path>,
    ) -> anyhow::Result<Summary> {
        let seconds = self.last_ns.saturating_sub(self.first_ns.unwrap_or(0)) as f64 / 1e9;
        let mean = |powers: &[(f64, i64)]| {
            (!powers.is_empty())
                .then(|| powers.iter().map(|(_, power)| *power as f64).sum::<f64>() / powers.len() as f64)
        };
        let above = |limit: u64| {
            let count = self
                .powers
                .iter()
                .filter(|(_, power)| *power > limit as i64)
                .count();
            count as f64 / self.powers.len() as f64
        };
        let above_5s = |limit: u64| {
            let settled: Vec<usize> = (0..self.powers.len())
                .filter(|&index| self.powers[index].0 >= 10.0)
                .collect();
            let over = settled.iter().filter(|&&index| {
                let now = self.powers[index].0;
                let from = self.powers.partition_point(|(at, _)| *at < now - 5.0);
                mean(&self.powers[from..=index]).is_some_and(|mean| mean > limit as f64)
            });
            (!settled.is_empty()).then(|| over.count() as f64 / settled.len() as f64)
        };
        let limit = self.limit_mw.filter(|_| !self.powers.is_empty());
        let mut summary = Summary {
            seconds,
            samples: self.samples,
            mean_power_mw: mean(&self.powers),
            highest_power_mw: self.powers.iter().map(|(_, power)| *power).max(),
            limit_mw: self.limit_mw,
            limits: self.limits.clone(),
            share_above: limit.map(above),
            share_above_5s: limit.and_then(above_5s),
            hottest_mc: self.hottest.clone(),
            runs: None,
            runs_per_second: None,
            latency: None,
            late: None,
            skipped: None,
            samples_of_plans: self.plans.clone(),
            governed: None,
            replayed: None,
        };
        if let Some(runner) = runner {
            let runs = runner.runs();
            summary.runs = Some(runs);
            summary.runs_per_second = (seconds > 0.0).then(|| runs as f64 / seconds);
            summary.latency = runner.latencies();
            summary.late = Some(runner.late());
            summary.skipped = Some(runner.skipped());
            summary.governed = runner.governed();
            let decisions = runner.finish()?;
            if let Some(decisions) = decisions {
                summary.replayed = Some(decisions.replay()?);
                if let Some(path) = log {
                    crate::file::write(path, decisions.to_json_lines().as_bytes())?;
                }
            }
        }
        Ok(summary)
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} s, {} samples", self.seconds, self.samples)?;
        if let (Some(mean), Some(highest)) = (self.mean_power_mw, self.highest_power_mw) {
            write!(
                f,
                "; power: mean {:.1} W, maximum {}",
                mean / 1e3,
                in_watts(highest)
            )?;
        }
        if let Some(limit) = self.limit_mw {
            write!(
                f,
                "; limit {}",
                in_watts(i64::try_from(limit).unwrap_or(i64::MAX))
            )?;
        }
        if let Some(share) = self.share_above {
            write!(f, ": {:.1} % of the samples above it", share * 100.0)?;
        }
        if let Some(share) = self.share_above_5s {
            write!(
                f,
                ", {:.1} % of the 5 s means after the first 10 s",
                share * 100.0
            )?;
        }
        if let (Some(runs), Some(rate)) = (self.runs, self.runs_per_second) {
            write!(
                f,
                "\n{runs} runs, {rate:.1}/s, {} late, {} frames skipped",
                self.late.unwrap_or(0),
                self.skipped.unwrap_or(0)
            )?;
        }
        if let Some(latency) = &self.latency {
            write!(
                f,
                "\nlatency: median {}, p95 {}, p99 {}, maximum {}",
                in_ms(latency.p50_ns),
                in_ms(latency.p95_ns),
                in_ms(latency.p99_ns),
                in_ms(latency.max_ns)
            )?;
        }
        for words in self.limits.iter().filter_map(LimitLine::words) {
            write!(f, "\n{words}")?;
        }
        if let Some(governed) = &self.governed {
            write!(f, "\n{} plan changes; samples of each plan:", governed.switches)?;
            for (plan, samples) in &self.samples_of_plans {
                write!(f, " {plan} {samples}")?;
            }
        }
        if let Some(replayed) = self.replayed {
            write!(f, "\n{replayed} decisions, confirmed by replay")?;
        }
        Ok(())
    }
}

//! Means over the last second, which are steadier than those of a tenth.
//!
//! Invariant: it spans the samples of the last second, or at least the last interval if samples are further apart.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::Serialize;

use super::words::{in_ms, in_watts};

/// How far back means go.
const SPAN_NS: u64 = 1_000_000_000;

/// Summary of the last second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct LastSecond {
    /// Mean total power of the devices in milliwatts; null without a sensor.
    pub(super) power_mw: Option<i64>,
    /// Runs that ended, in a second.
    pub(super) runs_per_second: Option<f64>,
    /// Median time of finished runs from submission to outputs in nanoseconds; null without one.
    pub(super) latency_p50_ns: Option<u64>,
    /// The longest such time, in nanoseconds.
    pub(super) latency_max_ns: Option<u64>,
    /// Late runs.
    pub(super) late: Option<u64>,
    /// Skipped frames.
    pub(super) skipped: Option<u64>,
}

impl LastSecond {
    /// What there is of it, in words.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        words.extend(self.power_mw.map(|mw| format!("together {}", in_watts(mw))));
        words.extend(self.runs_per_second.map(|rate| format!("{rate:.1} runs/s")));
        if let (Some(median), Some(longest)) = (self.latency_p50_ns, self.latency_max_ns) {
            words.push(format!("median {}, longest {}", in_ms(median), in_ms(longest)));
        }
        if let (Some(late), Some(skipped)) = (self.late, self.skipped) {
            words.push(format!("{late} late, {skipped} skipped"));
        }
        words
    }
}

/// What a sample adds.
pub(super) struct Tick {
    pub(super) time_ns: u64,
    pub(super) power_mw: Option<i64>,
    /// Runs, late ones and skipped frames so far, where a model runs.
    pub(super) counts: Option<[u64; 3]>,
    /// Times of the runs that ended since the sample before.
    pub(super) latencies_ns: Vec<u64>,
}

/// Samples of the last second, behind one that is older.
#[derive(Default)]
pub(super) struct Recent(VecDeque<Tick>);

impl Recent {
    /// Adds a sample; the second up to it.
    pub(super) fn add(&mut self, tick: Tick) -> LastSecond {
        let from = tick.time_ns.saturating_sub(SPAN_NS);
        self.0.push_back(tick);
        // the first one is where counting starts: it is as old as the second is long, or older
        while self.0.len() > 2 && self.0[1].time_ns <= from {
            self.0.pop_front();
        }
        let (Some(first), Some(last)) = (self.0.front(), self.0.back()) else {
            return LastSecond::default();
        };
        let inside = || self.0.iter().skip(usize::from(self.0.len() > 1));
        let powers: Vec<i64> = inside().filter_map(|tick| tick.power_mw).collect();
        let mut latencies: Vec<u64> = inside()
            .flat_map(|tick| tick.latencies_ns.iter().copied())
            .collect();
        latencies.sort_unstable();
        let passed = last.time_ns.saturating_sub(first.time_ns) as f64 / 1e9;
        let grown = |index: usize| {
            let now = last.counts?[index];
            Some(now.saturating_sub(first.counts.map_or(0, |counts| counts[index])))
        };
        LastSecond {
            power_mw: (!powers.is_empty()).then(|| powers.iter().sum::<i64>() / powers.len() as i64),
            runs_per_second: grown(0).filter(|_| passed > 0.0).map(|runs| runs as f64 / passed),
            latency_p50_ns: latencies.get(latencies.len() / 2).copied(),
            latency_max_ns: latencies.last().copied(),
            late: grown(1),
            skipped: grown(2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(ms: u64, power: i64, runs: u64, latencies_ns: &[u64]) -> Tick {
        Tick {
            time_ns: ms * 1_000_000,
            power_mw: Some(power),
            counts: Some([runs, runs / 10, 0]),
            latencies_ns: latencies_ns.to_vec(),
        }
    }

    #[test]
    fn means_cover_the_last_second() {
        let mut recent = Recent::default();
        assert_eq!(recent.add(tick(0, 900, 0, &[])).power_mw, Some(900));
        for step in 1..=30 {
            // each other sample is of twice the power: so is none of the means
            let power = if step % 2 == 0 { 200 } else { 100 };
            let latency = if step == 3 { 5_000 } else { 1_000 };
            let second = recent.add(tick(step * 100, power, step * 4, &[latency, 2_000, 1_000]));
            if step >= 11 {
                assert_eq!(second.power_mw, Some(150), "{step}");
                assert!((second.runs_per_second.unwrap() - 40.0).abs() < 1e-9, "{step}");
                assert_eq!(second.late, Some(4), "{step}");
            }
            let worst = if (3..13).contains(&step) { 5_000 } else { 2_000 };
            assert_eq!(second.latency_max_ns, Some(worst), "{step}");
            assert_eq!(second.latency_p50_ns, Some(1_000), "{step}");
        }
    }

    #[test]
    fn samples_over_a_second_apart_use_their_own_interval() {
        let mut recent = Recent::default();
        recent.add(tick(0, 100, 0, &[]));
        recent.add(tick(5_000, 200, 50, &[10]));
        let second = recent.add(tick(10_000, 300, 150, &[20]));
        assert_eq!((second.power_mw, second.latency_max_ns), (Some(300), Some(20)));
        assert!((second.runs_per_second.unwrap() - 20.0).abs() < 1e-9);
    }

    #[test]
    fn no_values_are_invented_without_a_model_and_sensor() {
        let mut recent = Recent::default();
        for time_ns in [0, 100_000_000] {
            let second = recent.add(Tick {
                time_ns,
                power_mw: None,
                counts: None,
                latencies_ns: Vec::new(),
            });
            assert_eq!(second, LastSecond::default());
        }
    }
}

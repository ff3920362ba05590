//! Runs a model for minutes, and tracks temperature, clock and rate.

use std::time::{Duration, Instant};

use polychip_farm_record::{Measured, SoakWindow, State};

use super::{bench, described};
use crate::inputs;
use crate::measuring::Measuring;

/// Windows of a soak; shorter ones than a second hold too little.
const WINDOWS: u32 = 60;
/// Time between two looks at the sensors: a die's temperature takes about a second to follow its power.
const LOOK: Duration = Duration::from_millis(500);

/// Measures the item.
pub(super) fn run(mut measuring: Measuring<'_>, others: &mut Option<u32>) -> anyhow::Result<Measured> {
    let effort = measuring.assignment.effort.clone();
    let model = measuring.model()?;
    let session = measuring.runtime.session(&model, measuring.policy.clone())?;
    let inputs = inputs::made(&session, &measuring.assignment.inputs)?;
    for _ in 0..effort.warmup {
        bench::once(&session, &inputs)?;
    }
    measuring.begin();
    let whole = Duration::from_secs(u64::from(effort.seconds.max(1)));
    let length = (whole / WINDOWS).max(Duration::from_secs(1));
    let start = Instant::now();
    let mut windows = Vec::new();
    let mut samples_ns = Vec::new();
    while start.elapsed() < whole {
        let end = (start.elapsed() + length).min(whole);
        let mut window = Window::default();
        let mut looked = Instant::now();
        // at least one run, however long
        loop {
            window.times.push(bench::once(&session, &inputs)?);
            if looked.elapsed() >= LOOK {
                window.look(&measuring.conditions.now());
                looked = Instant::now();
            }
            if start.elapsed() >= end {
                break;
            }
        }
        let state = measuring.conditions.now();
        window.look(&state);
        *others = (*others).max(state.load_by_others_millis);
        samples_ns.extend_from_slice(&window.times);
        windows.push(window.closed(start.elapsed()));
    }
    Ok(Measured {
        // a record is a line: of many runs every so many is kept
        samples_ns: thinned(&samples_ns),
        windows,
        ..described::of(&measuring.runtime, &model, &measuring.policy, &session)?
    })
}

/// Samples that a record of a soak holds at most.
const MOST: usize = 10_000;

fn thinned(samples: &[u64]) -> Vec<u64> {
    let step = samples.len().div_ceil(MOST).max(1);
    samples.iter().copied().step_by(step).collect()
}

/// The current window.
#[derive(Debug, Default)]
struct Window {
    times: Vec<u64>,
    hottest_mc: Option<i64>,
    slowest_khz: Option<u64>,
}

impl Window {
    fn look(&mut self, state: &State) {
        let hottest = state.temperatures_mc.values().copied().max();
        self.hottest_mc = self.hottest_mc.max(hottest);
        let slowest = state.clocks_khz.values().copied().min();
        self.slowest_khz = [self.slowest_khz, slowest].into_iter().flatten().min();
    }

    fn closed(mut self, at: Duration) -> SoakWindow {
        self.times.sort_unstable();
        SoakWindow {
            end_ms: u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
            runs: self.times.len() as u64,
            median_ns: self.times[self.times.len() / 2],
            hottest_mc: self.hottest_mc,
            slowest_khz: self.slowest_khz,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_keeps_its_extremes() {
        let state = |mc: i64, khz: u64| State {
            temperatures_mc: [("a".to_owned(), mc), ("b".to_owned(), 1)].into(),
            clocks_khz: [("a".to_owned(), khz)].into(),
            ..State::default()
        };
        let mut window = Window {
            times: vec![5, 1, 9],
            ..Window::default()
        };
        for (mc, khz) in [(50, 900), (70, 600), (60, 800)] {
            window.look(&state(mc, khz));
        }
        window.look(&State::default());
        let closed = window.closed(Duration::from_secs(2));
        assert_eq!((closed.end_ms, closed.runs, closed.median_ns), (2000, 3, 5));
        assert_eq!((closed.hottest_mc, closed.slowest_khz), (Some(70), Some(600)));
    }

    #[test]
    fn long_soaks_are_thinned() {
        assert_eq!(thinned(&[1, 2, 3]), [1, 2, 3]);
        assert_eq!(thinned(&vec![0; 25_000]).len(), 8334);
    }
}

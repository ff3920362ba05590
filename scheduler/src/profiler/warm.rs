//! Warm-up: an idle chip is slow at first and reaches its clock some time later.
//!
//! Rounds of runs fall into windows. Times are steady if the medians of two consecutive windows
//! agree, and the device's clocks at the ends of both, if it reports any.
//!
//! If runs leave gaps, a clock also falls, and more slowly than it rises: a GPU's driver holds it
//! for seconds after the last load. Until that time is over, agreeing times are those of a
//! temporary state.
//!
//! Invariant: a window is long enough for a chip to change its clock in it, so that two slow ones
//! are not taken for steady ones; the warm-up always ends.

use std::time::Duration;

use polychip_host::{Device, DeviceKind};

use crate::planned::Planned;

/// Length of a window. Governors of clocks decide every 10 to 20 ms (devfreq's `polling_ms`, the GPU's firmware).
const WINDOW_NS: u64 = 25_000_000;
/// Fewest rounds in a window: the median of three leaves out one that something else disturbed.
const ROUNDS: usize = 3;
/// Times and clocks agree that differ by less than this share: runs of one clock repeat within it.
const SHARE: u64 = 20;
/// The warm-up ends after this time, steady or not.
const LONGEST_NS: u64 = 2_000_000_000;
/// Windows that are compared at least, however long they take.
const FEWEST: u32 = 2;
/// For how long a GPU's driver may hold the clock of the last load. An H200 at a run of 1 ms every 33, 100 or 1,000 ms holds
/// 1,980 MHz for 4 s and then stays at 345.
const GPU_HOLDS: Duration = Duration::from_secs(6);

/// How long a GPU may take to raise its clock under load: an H200 is at 1,980 MHz within 250 ms, and two windows before agree.
const GPU_RISES: Duration = Duration::from_millis(500);

/// For how long a device's clock may be that of a load that has passed, where runs begin at a period; zero where it follows
/// within a window, and of a GPU that shows no clock: software has none. A zero period: back to back.
pub(crate) fn clock_hold(device: &Device, period: Duration) -> Duration {
    let info = device.info();
    match info.kind {
        DeviceKind::Gpu if info.emulated || !shows_clock(device) => Duration::ZERO,
        DeviceKind::Gpu if period.is_zero() => GPU_RISES,
        DeviceKind::Gpu => GPU_HOLDS,
        _ => Duration::ZERO,
    }
}

fn shows_clock(device: &Device) -> bool {
    let said = device.telemetry();
    said.is_ok_and(|said| said.frequency_khz.is_some())
}

impl Planned {
    /// How long the clocks of the plan's devices may still reflect an earlier load, after runs have
    /// begun to come at this period (zero: back to back).
    #[must_use]
    pub fn clock_hold(&self, period: Duration) -> Duration {
        let used = self.used_devices().into_iter();
        let holds = used.map(|device| clock_hold(&self.devices()[device.index()], period));
        holds.max().unwrap_or_default()
    }
}

/// The state of a warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warmth {
    /// It continues.
    Rising,
    /// The round times of the last two windows of time agree.
    Steady,
    /// The time for the warm-up is over, and the round times still change.
    Unsteady,
}

/// Detects when the times of repeated rounds of runs have become steady.
///
/// ```
/// use polychip::{WarmUp, Warmth};
/// let mut warm_up = WarmUp::default();
/// let mut now_ns = 0;
/// let last = loop {
///     now_ns += 10_000_000;
///     match warm_up.round(now_ns, 10_000_000, || Some(1_980_000)) {
///         Warmth::Rising => {}
///         warmth => break warmth,
///     }
/// };
/// assert_eq!((last, now_ns), (Warmth::Steady, 60_000_000));
/// ```
#[derive(Debug, Clone, Default)]
pub struct WarmUp {
    /// When the first round and the window began.
    start_ns: Option<(u64, u64)>,
    rounds: Vec<u64>,
    /// Median and clock of the last window.
    last: Option<(u64, Option<u64>)>,
    windows: u32,
    least_ns: u64,
}

impl WarmUp {
    /// A warm-up that lasts at least this long: the longest time for which a clock may reflect an earlier
    /// load.
    #[must_use]
    pub fn at_least(least: Duration) -> WarmUp {
        WarmUp {
            least_ns: u64::try_from(least.as_nanos()).unwrap_or(u64::MAX),
            ..WarmUp::default()
        }
    }

    /// Adds a round by its end time and duration, in nanoseconds. At the end of a window, `khz` is called for
    /// the device's clock in kilohertz.
    pub fn round(&mut self, now_ns: u64, took_ns: u64, khz: impl FnOnce() -> Option<u64>) -> Warmth {
        let (start, window) = *self
            .start_ns
            .get_or_insert((now_ns.saturating_sub(took_ns), now_ns.saturating_sub(took_ns)));
        self.rounds.push(took_ns);
        if self.rounds.len() < ROUNDS || now_ns.saturating_sub(window) < WINDOW_NS {
            return Warmth::Rising;
        }
        let middle = polychip_profile::median(&mut self.rounds, u64::cmp);
        let ended = (middle.expect("invariant: there are rounds"), khz());
        self.rounds.clear();
        self.start_ns = Some((start, now_ns));
        self.windows += 1;
        let before = self.last.replace(ended);
        let since = now_ns.saturating_sub(start);
        if since < self.least_ns {
            Warmth::Rising
        } else if before.is_some_and(|before| agree(before, ended)) {
            Warmth::Steady
        } else if self.windows >= FEWEST && since >= self.least_ns.saturating_add(LONGEST_NS) {
            Warmth::Unsteady
        } else {
            Warmth::Rising
        }
    }
}

fn agree((time, clock): (u64, Option<u64>), (later, later_clock): (u64, Option<u64>)) -> bool {
    let near = |a: u64, b: u64| a.abs_diff(b) <= a.max(b) / SHARE;
    let clocks = clock.zip(later_clock);
    near(time, later) && clocks.is_none_or(|(clock, later)| near(clock, later))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of these times at these clocks, one after the other, until the warm-up ends; the last is repeated.
    fn ended(rounds: &[(u64, Option<u64>)]) -> (Warmth, u64) {
        let mut warm_up = WarmUp::default();
        let mut now_ns = 1_000;
        for index in 0..100_000 {
            let (took, khz) = rounds[index.min(rounds.len() - 1)];
            now_ns += took;
            match warm_up.round(now_ns, took, || khz) {
                Warmth::Rising => {}
                warmth => return (warmth, now_ns - 1_000),
            }
        }
        panic!("the warm-up never ends");
    }

    #[test]
    fn equal_windows_end_the_warm_up() {
        let (warmth, took) = ended(&[(1_000_000, None)]);
        assert_eq!((warmth, took), (Warmth::Steady, 2 * WINDOW_NS));
        // longer than a window: three of each
        let (warmth, took) = ended(&[(400_000_000, Some(1))]);
        assert_eq!((warmth, took), (Warmth::Steady, 2_400_000_000));
    }

    #[test]
    fn warm_up_waits_for_a_rising_clock() {
        // an idle GPU: 3 ms at first, then 1 ms
        let mut rounds = vec![(3_000_000, None); 30];
        rounds.push((1_000_000, None));
        let (warmth, took) = ended(&rounds[..]);
        assert_eq!(warmth, Warmth::Steady);
        assert!(took < 90_000_000, "two slow windows agree: {took}");
        // its clock tells that they are slow ones
        let rising: Vec<(u64, Option<u64>)> = (0..40)
            .map(|round| (3_000_000, Some(345_000 * (1 + round / 9))))
            .chain([(1_000_000, Some(1_980_000))])
            .collect();
        let (warmth, took) = ended(&rising);
        assert_eq!(warmth, Warmth::Steady);
        assert!(took > 120_000_000 + WINDOW_NS, "{took}");
    }

    #[test]
    fn warm_up_waits_for_a_held_clock() {
        let mut warm_up = WarmUp::at_least(Duration::from_secs(6));
        let mut now_ns = 0;
        // a frame every 33 ms: 1 ms for four seconds, 4.4 ms from then on
        loop {
            now_ns += 33_000_000;
            let took = if now_ns < 4_000_000_000 {
                1_000_000
            } else {
                4_400_000
            };
            match warm_up.round(now_ns, took, || None) {
                Warmth::Rising => {}
                warmth => break assert_eq!(warmth, Warmth::Steady),
            }
        }
        assert!((6_000_000_000..6_300_000_000).contains(&now_ns), "{now_ns}");
    }

    #[test]
    fn disagreeing_windows_end_unsteady() {
        let mut falling: Vec<(u64, Option<u64>)> = Vec::new();
        for window in 0..200_u64 {
            falling.extend([(25_000_000 * (1 + window % 2), None); ROUNDS]);
        }
        let (warmth, took) = ended(&falling);
        assert_eq!(warmth, Warmth::Unsteady);
        assert!((LONGEST_NS..LONGEST_NS + 300_000_000).contains(&took), "{took}");
    }
}

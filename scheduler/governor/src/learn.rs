//! The current slowness of each device, learnt from clocks, other load and our own runs.
//!
//! A run shows the true speed of the devices that it used. For a device that was not used for a
//! while there are only its sensors: its currently allowed clock, and (if readable) the share that
//! other programs use. If they do not explain the measured time, hidden load keeps the device busy:
//! it is assumed to be slow until it is tried again.
//!
//! If all runs of a candidate are slower by the same factor on a device for a minute, regardless of
//! its sensors, its prediction is wrong there. The factor applies to the candidate, not to the device,
//! which may still be fast for another candidate. Because other load may also last that long,
//! this is never assumed for a candidate that once ran as predicted; for others it is assumed for
//! two minutes, then one run is tried, and if it is as slow again it is assumed for twice as long.
//!
//! Invariant: a slowness is at least 1 and at most 20.

use std::collections::BTreeMap;

/// Slowness by which a device is not called slow.
const NEARLY: f64 = 1.15;
/// Slowness of a late run by which it is not called noise.
const NOT_NOISE: f64 = 1.05;
/// A measurement of a run speaks for so long.
const FRESH_NS: u64 = 1_000_000_000;
/// Sensors speak for so long.
const STALE_NS: u64 = 3_000_000_000;
/// What a candidate's runs took of late is remembered for so long.
const LATELY_NS: u64 = 60_000_000_000;
/// A prediction is wrong if runs take at least this multiple of it ...
const WRONG: f64 = 1.5;
/// ... and are alike: the longest takes at most this multiple of the shortest ...
const ALIKE: f64 = 1.25;
/// ... for at least this long and this many runs, because the load of other programs varies.
const WRONG_NS: u64 = 60_000_000_000;
const WRONG_RUNS: u32 = 4;
/// A wrong prediction is believed for so long, and each time it proves so again twice as long, this often.
const BELIEVED_NS: u64 = 120_000_000_000;
const MOST_DOUBLINGS: u32 = 4;
/// The longest time until a slow device is tried again, as a multiple of the first.
const LONGEST_RETRY: u64 = 4;

/// What is known of one device.
#[derive(Debug, Clone, Default)]
pub(crate) struct Device {
    pub(crate) lost: bool,
    /// It came back, and is avoided until then.
    pub(crate) quarantined_until_ns: u64,
    top_khz: u64,
    khz: Option<(u64, u64)>,
    others: Option<(u64, f64)>,
    /// Measured by a run.
    measured: Option<Measured>,
    /// Slow for reasons that no sensor shows, until then it is not tried.
    avoided_until_ns: u64,
    retry_ns: u64,
}

/// How slow a run found a device, beyond what heat explains.
#[derive(Debug, Clone, Copy)]
struct Measured {
    at_ns: u64,
    slow: f64,
    /// The clock that the run asked for, against the highest one.
    share: f64,
    /// More than noise.
    is_slow: bool,
}

impl Measured {
    /// The slowness relative to a prediction at another clock. Other load sets the clock of a slow device: a run
    /// takes the same time at any clock that it asks for.
    fn slow(&self, share: f64) -> f64 {
        if self.is_slow {
            (self.slow * share / self.share).max(1.0)
        } else {
            self.slow
        }
    }
}

impl Device {
    /// A clock that is asked for, against the highest one.
    fn share_of_top(&self, asked_khz: Option<u64>) -> f64 {
        let asked = asked_khz.filter(|&khz| khz < self.top_khz && self.top_khz > 0);
        asked.map_or(1.0, |khz| khz as f64 / self.top_khz as f64)
    }

    /// Slowness by the load of other programs, relative to a prediction at a clock; `None` without fresh sensor values.
    fn by_others(&self, now_ns: u64, asked_khz: Option<u64>) -> Option<f64> {
        let (at, share) = self.others?;
        let slow = 1.0 / (1.0 - share.min(0.95));
        let held = if slow > NEARLY {
            self.share_of_top(asked_khz)
        } else {
            1.0
        };
        (now_ns.saturating_sub(at) <= STALE_NS).then(|| (slow * held).max(1.0))
    }

    /// Slowness by heat, relative to a prediction at a clock.
    fn by_clock(&self, now_ns: u64, asked_khz: Option<u64>) -> f64 {
        match self.khz {
            Some((at, khz)) if now_ns.saturating_sub(at) <= STALE_NS && khz > 0 => {
                let asked = self.top_khz as f64 * self.share_of_top(asked_khz);
                (asked / khz as f64).max(1.0)
            }
            _ => 1.0,
        }
    }

    /// How slow the sensors say that it is for a candidate that asks for a clock.
    pub(crate) fn by_sensors(&self, now_ns: u64, asked_khz: Option<u64>) -> f64 {
        self.by_clock(now_ns, asked_khz) * self.by_others(now_ns, asked_khz).unwrap_or(1.0)
    }

    /// How slow it is taken to be for a candidate that asks for a clock. In hope, an avoided device is tried in half
    /// the time.
    pub(crate) fn slowness(&self, now_ns: u64, hope: bool, asked_khz: Option<u64>) -> f64 {
        let sensors = self.by_others(now_ns, asked_khz).unwrap_or(1.0);
        let hope_ns = if hope { self.retry_ns / 2 } else { 0 };
        let rest = match self.measured {
            Some(measured) if now_ns.saturating_sub(measured.at_ns) <= FRESH_NS => {
                measured.slow(self.share_of_top(asked_khz))
            }
            Some(measured) if now_ns.saturating_add(hope_ns) < self.avoided_until_ns => {
                measured.slow(self.share_of_top(asked_khz)).max(sensors)
            }
            _ => sensors,
        };
        (self.by_clock(now_ns, asked_khz) * rest).clamp(1.0, 20.0)
    }

    /// A run of a candidate that asks for a clock found it so slow, against its prediction.
    pub(crate) fn measure(
        &mut self,
        now_ns: u64,
        slow: f64,
        asked_khz: Option<u64>,
        late: bool,
        first_retry_ns: u64,
    ) {
        let share = self.share_of_top(asked_khz);
        // what heat does not explain
        let slow = (slow.clamp(1.0, 20.0) / self.by_clock(now_ns, asked_khz)).max(1.0);
        let before = match self.measured {
            Some(before) if now_ns.saturating_sub(before.at_ns) <= FRESH_NS => before.slow(share),
            _ => slow,
        };
        // a late run is believed at once, others by a fifth
        let weight = if late && slow > before { 1.0 } else { 0.2 };
        let slow = before + weight * (slow - before);
        let others = self.by_others(now_ns, asked_khz);
        // at a low clock that others hold higher, little shows; but who is late is slow
        let is_slow = slow > if late { NOT_NOISE } else { NEARLY };
        let unexplained = others.is_none() && is_slow;
        if unexplained && now_ns >= self.avoided_until_ns {
            let longest = first_retry_ns.saturating_mul(LONGEST_RETRY);
            // tried again and still slow: twice the patience
            self.retry_ns = match self.retry_ns {
                0 => first_retry_ns,
                retry => (retry.saturating_mul(2)).min(longest),
            };
        }
        if unexplained {
            self.avoided_until_ns = now_ns.saturating_add(self.retry_ns.max(first_retry_ns));
        } else if slow < NEARLY * others.unwrap_or(1.0) {
            self.retry_ns = 0;
            self.avoided_until_ns = 0;
        }
        self.measured = Some(Measured {
            at_ns: now_ns,
            slow,
            share,
            is_slow,
        });
    }

    pub(crate) fn read_clock(&mut self, now_ns: u64, khz: u64) {
        self.top_khz = self.top_khz.max(khz);
        self.khz = Some((now_ns, khz));
    }

    pub(crate) fn read_others(&mut self, now_ns: u64, permille: u32) {
        self.others = Some((now_ns, f64::from(permille.min(1000)) / 1e3));
    }
}

/// Runs of a candidate that took about as much longer on a device than was predicted, one after the other.
#[derive(Debug, Clone, Copy)]
struct Always {
    since_ns: u64,
    low: f64,
    high: f64,
    runs: u32,
    /// Since when that is taken for a wrong prediction.
    known_ns: Option<u64>,
    /// How often that was believed long enough, and what it was: the next run shows whether it still is.
    believed: Option<(u32, f64)>,
}

impl Always {
    fn of(now_ns: u64, slow: f64) -> Always {
        Always {
            since_ns: now_ns,
            low: slow,
            high: slow,
            runs: 0,
            known_ns: None,
            believed: None,
        }
    }

    /// How often it was believed long enough before.
    fn times(&self) -> u32 {
        self.believed.map_or(0, |(times, _)| times)
    }

    fn factor(&self) -> f64 {
        self.known_ns.map_or(1.0, |_| self.low)
    }
}

/// What is known of one candidate beyond its devices.
#[derive(Debug, Clone)]
pub(crate) struct Learnt {
    /// Measured against predicted time, where devices' slowness is taken into account.
    pub(crate) time: f64,
    /// The same of late: when, and what.
    lately: Option<(u64, f64)>,
    /// By device: what its last runs took alike against what was predicted of them there.
    always: BTreeMap<usize, Always>,
    /// By device: the least that a run ever took against what was predicted of it there.
    least: BTreeMap<usize, f64>,
    /// Measured against predicted energy.
    pub(crate) energy: f64,
    /// Power read while it ran, in milliwatts.
    pub(crate) seen_mw: Option<f64>,
}

impl Default for Learnt {
    fn default() -> Self {
        Self {
            time: 1.0,
            lately: None,
            always: BTreeMap::new(),
            least: BTreeMap::new(),
            energy: 1.0,
            seen_mw: None,
        }
    }
}

impl Learnt {
    pub(crate) fn run(&mut self, now_ns: u64, time: f64, late: bool) {
        let time = time.clamp(0.25, 20.0);
        self.time += 0.1 * (time - self.time);
        let before = match self.lately {
            Some((at, before)) if now_ns.saturating_sub(at) <= FRESH_NS => before,
            _ => self.time,
        };
        // a late run is believed at once, others by a fifth
        let weight = if late && time > before { 1.0 } else { 0.2 };
        self.lately = Some((now_ns, before + weight * (time - before)));
    }

    /// A run took so much longer on a device than was predicted, beyond what sensors explain; by how much all of them do,
    /// where that is known. A run that found its plan cold is slower than those that follow.
    pub(crate) fn took(&mut self, now_ns: u64, device: usize, slow: f64, is_cold: bool) -> f64 {
        let slow = slow.clamp(1.0, 20.0);
        let least = self.least.entry(device).or_insert(slow);
        *least = least.min(slow);
        let least = *least;
        let same = self.always.entry(device).or_insert(Always::of(now_ns, slow));
        if same.known_ns.is_some() {
            // further slowness is load on the device; only a faster run refutes the wrong prediction
            if slow * ALIKE < same.low {
                self.time = (self.time / same.low).max(0.25);
                *same = Always::of(now_ns, slow);
            } else {
                same.low = same.low.min(slow);
            }
            return same.factor();
        }
        if let Some((times, low)) = same.believed {
            let is_as_slow = if is_cold { slow >= low } else { slow * ALIKE >= low };
            if is_as_slow && least >= WRONG {
                *same = Always {
                    known_ns: Some(now_ns),
                    believed: Some((times, low)),
                    ..Always::of(now_ns, low)
                };
                self.time = (self.time * low).min(20.0);
                self.lately = None;
                return low;
            }
            if !is_cold {
                *same = Always::of(now_ns, slow);
            }
            return 1.0;
        }
        let (low, high) = (same.low.min(slow), same.high.max(slow));
        if high > low * ALIKE || least < WRONG {
            *same = Always::of(now_ns, slow);
            return 1.0;
        }
        let runs = same.runs.saturating_add(1);
        *same = Always {
            low,
            high,
            runs,
            ..*same
        };
        let is_long = now_ns.saturating_sub(same.since_ns) >= WRONG_NS && runs >= WRONG_RUNS;
        if is_long {
            same.known_ns = Some(now_ns);
            // what was booked as a busy device is the candidate's
            self.time = (self.time * low).min(20.0);
            self.lately = None;
        }
        same.factor()
    }

    /// Lets time pass: what was believed for long is to be tried again.
    pub(crate) fn pass(&mut self, now_ns: u64) {
        for same in self.always.values_mut() {
            let Some(known_ns) = same.known_ns else { continue };
            let times = same.times();
            if now_ns.saturating_sub(known_ns) >= BELIEVED_NS << times.min(MOST_DOUBLINGS) {
                self.time = (self.time / same.low).max(0.25);
                *same = Always {
                    believed: Some((times + 1, same.low)),
                    ..Always::of(now_ns, same.low)
                };
            }
        }
    }

    /// By how much all runs took longer on a device than was predicted.
    pub(crate) fn always(&self, device: usize) -> f64 {
        self.always.get(&device).map_or(1.0, Always::factor)
    }

    /// Since when it is known that all its runs take longer on some device.
    pub(crate) fn wrong_since_ns(&self) -> Option<u64> {
        self.always.values().filter_map(|always| always.known_ns).min()
    }

    /// Measured against predicted time: the mean, or what late runs said lately.
    pub(crate) fn time(&self, now_ns: u64) -> f64 {
        match self.lately {
            Some((at, lately)) if now_ns.saturating_sub(at) <= LATELY_NS => lately.max(self.time),
            _ => self.time,
        }
    }

    pub(crate) fn spent(&mut self, energy: f64) {
        self.energy = (self.energy + 0.05 * (energy - self.energy)).clamp(0.1, 10.0);
    }

    pub(crate) fn drew(&mut self, mw: f64) {
        let before = self.seen_mw.unwrap_or(mw);
        self.seen_mw = Some(before + 0.2 * (mw - before));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn hidden_load_is_avoided_longer_each_time() {
        let mut device = Device::default();
        device.measure(S, 3.0, None, true, 10 * S);
        assert!(device.slowness(10 * S, false, None) > 2.9);
        assert_eq!(device.slowness(12 * S, false, None), 1.0);
        device.measure(12 * S, 3.0, None, true, 10 * S);
        assert!(device.slowness(30 * S, false, None) > 2.9);
        device.measure(40 * S, 1.0, None, false, 10 * S);
        device.measure(41 * S, 3.0, None, true, 10 * S);
        assert!(device.slowness(45 * S, false, None) > 1.9 && device.slowness(55 * S, false, None) == 1.0);
    }

    #[test]
    fn slowness_explained_by_sensors_ends_with_them() {
        let mut device = Device::default();
        device.read_clock(S, 1000);
        device.read_clock(2 * S, 500);
        device.read_others(2 * S, 500);
        assert_eq!(device.slowness(2 * S, false, None), 4.0);
        device.measure(2 * S, 4.0, None, true, 10 * S);
        device.read_clock(5 * S, 1000);
        device.read_others(5 * S, 0);
        assert_eq!(device.slowness(5 * S, false, None), 1.0);
    }

    #[test]
    fn requested_clock_is_not_slowness() {
        let mut device = Device::default();
        device.read_clock(S, 1000);
        device.read_clock(2 * S, 800);
        assert_eq!(device.slowness(2 * S, false, None), 1.25);
        assert_eq!(device.slowness(2 * S, false, Some(800)), 1.0);
        assert_eq!(device.slowness(2 * S, false, Some(500)), 1.0);
        // others have it at their clock: a run that asks for more is no faster
        device.measure(2 * S, 2.0, Some(500), true, 10 * S);
        assert_eq!(device.slowness(2 * S, false, Some(500)), 2.0);
        assert_eq!(device.slowness(2 * S, false, Some(800)), 3.2);
    }

    #[test]
    fn visible_load_raises_the_clock() {
        let mut device = Device::default();
        device.read_clock(S, 1000);
        device.read_others(S, 750);
        assert_eq!(device.slowness(S, false, None), 4.0);
        assert_eq!(device.slowness(S, false, Some(500)), 2.0);
        device.read_others(2 * S, 50);
        assert!(device.slowness(2 * S, false, Some(500)) < 1.06);
    }
}

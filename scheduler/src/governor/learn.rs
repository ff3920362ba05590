//! How slow each device is just now, from clocks, others' load and our own runs.
//!
//! A run tells the truth about the devices that it used. Of a device that nobody used for a while there are only its
//! sensors: the clock that it may run at, and (where it can be read) the share that others take. Where they do not
//! explain what was measured, somebody unseen keeps the device busy: it is taken to be slow until it is tried again.
//!
//! Invariant: a slowness is at least 1 and at most 20.

/// Slowness by which a device is not called slow.
const NEARLY: f64 = 1.15;
/// A measurement of a run speaks for so long.
const FRESH_NS: u64 = 1_000_000_000;
/// Sensors speak for so long.
const STALE_NS: u64 = 3_000_000_000;
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
    /// Measured by a run: when, and how slow.
    measured: Option<(u64, f64)>,
    /// Slow for reasons that no sensor shows, until then it is not tried.
    avoided_until_ns: u64,
    retry_ns: u64,
}

impl Device {
    /// Whether sensors told the share of others lately.
    fn knows_others(&self, now_ns: u64) -> bool {
        self.others
            .is_some_and(|(at, _)| now_ns.saturating_sub(at) <= STALE_NS)
    }

    /// How slow the sensors say it is.
    fn by_sensors(&self, now_ns: u64) -> f64 {
        let fresh = |at: u64| now_ns.saturating_sub(at) <= STALE_NS;
        let clock = match self.khz {
            Some((at, khz)) if fresh(at) && khz > 0 => self.top_khz as f64 / khz as f64,
            _ => 1.0,
        };
        let others = match self.others {
            Some((at, share)) if fresh(at) => 1.0 / (1.0 - share.min(0.95)),
            _ => 1.0,
        };
        (clock * others).clamp(1.0, 20.0)
    }

    /// How slow it is taken to be. In hope, an avoided device is tried in half the time.
    pub(crate) fn slowness(&self, now_ns: u64, hope: bool) -> f64 {
        let sensors = self.by_sensors(now_ns);
        let hope_ns = if hope { self.retry_ns / 2 } else { 0 };
        match self.measured {
            Some((at, slow)) if now_ns.saturating_sub(at) <= FRESH_NS => slow,
            Some((_, slow)) if now_ns.saturating_add(hope_ns) < self.avoided_until_ns => slow.max(sensors),
            _ => sensors,
        }
    }

    /// A run found it so slow, against its prediction.
    pub(crate) fn measure(&mut self, now_ns: u64, slow: f64, late: bool, first_retry_ns: u64) {
        let slow = slow.clamp(1.0, 20.0);
        let before = match self.measured {
            Some((at, before)) if now_ns.saturating_sub(at) <= FRESH_NS => before,
            _ => slow,
        };
        // a late run is believed at once, others by a fifth
        let weight = if late && slow > before { 1.0 } else { 0.2 };
        let slow = before + weight * (slow - before);
        let unexplained = slow / self.by_sensors(now_ns) > NEARLY && !self.knows_others(now_ns);
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
        } else if slow < NEARLY * self.by_sensors(now_ns) {
            self.retry_ns = 0;
            self.avoided_until_ns = 0;
        }
        self.measured = Some((now_ns, slow));
    }

    pub(crate) fn read_clock(&mut self, now_ns: u64, khz: u64) {
        self.top_khz = self.top_khz.max(khz);
        self.khz = Some((now_ns, khz));
    }

    pub(crate) fn read_others(&mut self, now_ns: u64, permille: u32) {
        self.others = Some((now_ns, f64::from(permille.min(1000)) / 1e3));
    }
}

/// What is known of one candidate beyond its devices.
#[derive(Debug, Clone)]
pub(crate) struct Learnt {
    /// Measured against predicted time, where devices' slowness is taken into account.
    pub(crate) time: f64,
    /// Measured against predicted energy.
    pub(crate) energy: f64,
    /// Power read while it ran, in milliwatts.
    pub(crate) seen_mw: Option<f64>,
}

impl Default for Learnt {
    fn default() -> Self {
        Self {
            time: 1.0,
            energy: 1.0,
            seen_mw: None,
        }
    }
}

impl Learnt {
    pub(crate) fn run(&mut self, time: f64) {
        self.time = (self.time + 0.1 * (time - self.time)).clamp(0.25, 8.0);
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
    fn unseen_others_are_avoided_longer_each_time() {
        let mut device = Device::default();
        device.measure(S, 3.0, true, 10 * S);
        assert!(device.slowness(10 * S, false) > 2.9);
        assert_eq!(device.slowness(12 * S, false), 1.0);
        device.measure(12 * S, 3.0, true, 10 * S);
        assert!(device.slowness(30 * S, false) > 2.9);
        device.measure(40 * S, 1.0, false, 10 * S);
        device.measure(41 * S, 3.0, true, 10 * S);
        assert!(device.slowness(45 * S, false) > 1.9 && device.slowness(55 * S, false) == 1.0);
    }

    #[test]
    fn what_sensors_explain_ends_with_them() {
        let mut device = Device::default();
        device.read_clock(S, 1000);
        device.read_clock(2 * S, 500);
        device.read_others(2 * S, 500);
        assert_eq!(device.slowness(2 * S, false), 4.0);
        device.measure(2 * S, 4.0, true, 10 * S);
        device.read_clock(5 * S, 1000);
        device.read_others(5 * S, 0);
        assert_eq!(device.slowness(5 * S, false), 1.0);
    }
}

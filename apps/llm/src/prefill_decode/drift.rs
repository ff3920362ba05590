//! Tracks how much slower than measured each device is now, because of heat or load.
//!
//! Invariants:
//! 1. The caller provides the time; no clock is read.
//! 2. The penalty of an unused device decays, so that it is tried again.

/// Weight of a new observation.
const SHARE: f64 = 0.2;
/// Half-life of an unused device's penalty, in nanoseconds.
const FORGIVEN: f64 = 20e9;
/// Largest counted observation, so that one interrupted run has little effect.
const MOST: f64 = 4.0;

/// Slowdowns by device.
#[derive(Clone, Debug)]
pub(crate) struct Drift {
    ratios: Vec<f64>,
    seen_ns: Vec<u64>,
}

impl Drift {
    pub(crate) fn new(devices: usize) -> Drift {
        Drift {
            ratios: vec![1.0; devices],
            seen_ns: vec![0; devices],
        }
    }

    /// Records a run's actual and expected time; `now_ns` is on any monotonic clock.
    pub(crate) fn observe(&mut self, device: usize, took_ns: f64, expected_ns: f64, now_ns: u64) {
        // what was forgiven until now is forgiven for good
        let known = self.slowdowns(now_ns)[device];
        let ratio = (took_ns / expected_ns.max(1.0)).clamp(1.0 / MOST, MOST * known.max(1.0));
        self.ratios[device] = known + SHARE * (ratio - known);
        self.seen_ns[device] = now_ns;
    }

    /// The current slowdowns.
    pub(crate) fn slowdowns(&self, now_ns: u64) -> Vec<f64> {
        let devices = self.ratios.iter().zip(&self.seen_ns);
        devices
            .map(|(ratio, seen)| {
                let unused = now_ns.saturating_sub(*seen) as f64;
                1.0 + (ratio - 1.0) * (-unused / FORGIVEN * std::f64::consts::LN_2).exp()
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_device_is_detected_and_readmitted() {
        let mut drift = Drift::new(2);
        let second = 1_000_000_000;
        drift.observe(0, 1e9, 1e3, second);
        assert!(drift.slowdowns(second)[0] <= 1.0 + SHARE * (MOST - 1.0) + 1e-9);
        let mut now = 2 * second;
        for _ in 0..40 {
            now += second / 500;
            drift.observe(1, 2e6, 1e6, now);
        }
        assert!((drift.slowdowns(now)[1] - 2.0).abs() < 0.01);
        assert!((drift.slowdowns(now + 20 * second)[1] - 1.5).abs() < 0.02);
        let later = now + 400 * second;
        assert!(drift.slowdowns(later)[1] < 1.001);
        // tried again, and as fast as it was measured: it stays forgiven
        drift.observe(1, 1e6, 1e6, later);
        assert!(drift.slowdowns(later)[1] < 1.001);
    }
}

//! The thermal model of each place, learnt from its readings and the power of the runs.
//!
//! A place follows `dT/dt = c − a T + b P`: `a` is the inverse of its time constant (1/s), `b` the
//! inverse of its heat capacity (K/J), `P` the power of our runs there (of the device at a device,
//! of all devices elsewhere), and `c` (K/s) the effect of everything else: the air, neighbouring
//! units, other apps, the charger. Time constants are given per kind of place. The rest is fitted
//! by recursive least squares with slow forgetting, so that `b / a`, the rise per watt, is right
//! even if the time constant is not; an observer with a shorter memory follows `c`, because other
//! sources come and go.
//!
//! Invariants:
//! 1. Additions, subtractions, multiplications and divisions only. The response over a horizon `h`,
//!    `(1 − exp(−a h)) / a`, is approximated by `h / (1 + x/2 + x²/12)` with `x = a h`, which for
//!    `x` up to 3 is at most a tenth below the exact value and never above it. Cooling is therefore
//!    predicted too late, and the guard band covers the error in heating.
//! 2. An impossible reading, or one that jumps, is ignored; meanwhile the model continues.

/// Coefficients before anything was learnt, per kind of place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prior {
    /// Per second.
    pub(crate) a: f64,
    /// Kelvin per joule.
    pub(crate) b: f64,
    /// Seconds between two rows of the fit.
    pub(crate) row_s: f64,
    /// A reading so far from what was expected is not believed at first, in kelvin.
    pub(crate) gate: f64,
}

/// A unit of a chip: a joule per kelvin, some seconds.
pub(crate) const DEVICE: Prior = Prior {
    a: 0.12,
    b: 0.8,
    row_s: 1.0,
    gate: 10.0,
};
/// A package: ten joules per kelvin, a minute.
pub(crate) const PACKAGE: Prior = Prior {
    a: 0.02,
    b: 0.1,
    row_s: 5.0,
    gate: 5.0,
};
/// The surface: a hundred joules per kelvin, many minutes.
pub(crate) const SKIN: Prior = Prior {
    a: 0.002,
    b: 0.011,
    row_s: 10.0,
    gate: 2.0,
};

/// Forgetting per row: half is forgotten after about 140 rows.
const FORGET: f64 = 0.995;
/// Learnt coefficients stay within so much of the prior ones.
const BOUND: f64 = 2.5;
/// Readings that are not believed in a row, before they are.
const DOUBTS: u32 = 12;

/// Rows in which runs spent something, after which what they do to a place is more than the prior.
const TAUGHT: u32 = 10;
/// How much of what a row says is taken over by the observer of `c`.
const FOLLOW: f64 = 0.4;

/// Deviations before anything was learnt: half of `b`, and a `c` that holds any temperature.
fn first_covariance(prior: &Prior) -> [[f64; 2]; 2] {
    let (b, c) = (prior.b / 2.0, 60.0 * prior.a);
    [[c * c, 0.0], [0.0, b * b]]
}

/// The fitted thermal model of one sensor location.
#[derive(Debug, Clone)]
pub(crate) struct ThermalModel {
    prior: Prior,
    /// Degrees, believed; none before the first reading.
    degrees: Option<f64>,
    at_ns: u64,
    doubts: u32,
    /// `c` by the fit, and `b`.
    theta: [f64; 2],
    covariance: [[f64; 2]; 2],
    /// All else, by the observer.
    c: f64,
    learnt: bool,
    /// Rows in which our runs spent something.
    spent_rows: u32,
    /// The row that is being filled: its start, temperature and joules.
    row: Option<(u64, f64, f64)>,
}

impl ThermalModel {
    pub(crate) fn new(prior: Prior) -> Self {
        Self {
            prior,
            degrees: None,
            at_ns: 0,
            doubts: 0,
            theta: [0.0, prior.b],
            covariance: first_covariance(&prior),
            c: 0.0,
            learnt: false,
            spent_rows: 0,
            row: None,
        }
    }

    /// Estimated temperature at a time, with this power since the last reading.
    pub(crate) fn degrees(&self, now_ns: u64, watts: f64) -> Option<f64> {
        let degrees = self.degrees?;
        let passed = now_ns.saturating_sub(self.at_ns) as f64 / 1e9;
        // a fresh reading needs no extrapolation
        if passed < 1.0 || !self.learnt {
            return Some(degrees);
        }
        Some(degrees + self.slope(degrees, watts) * self.response(passed.min(120.0)))
    }

    /// Kelvin per second.
    fn slope(&self, degrees: f64, watts: f64) -> f64 {
        self.c + self.theta[1] * watts - self.prior.a * degrees
    }

    /// What a constant slope at the start comes to after so many seconds, in seconds.
    fn response(&self, seconds: f64) -> f64 {
        let x = self.prior.a * seconds;
        seconds / (1.0 + x / 2.0 + x * x / 12.0)
    }

    /// Takes note of joules spent here.
    pub(crate) fn spend(&mut self, joules: f64) {
        if let Some((_, _, spent)) = &mut self.row {
            *spent += joules;
        }
    }

    /// Takes note of a reading, with the mean power since the last one.
    pub(crate) fn read(&mut self, now_ns: u64, degrees: f64, watts: f64) {
        if !(-40.0..=150.0).contains(&degrees) {
            return;
        }
        if let Some(expected) = self.degrees(now_ns, watts) {
            let off = degrees - expected;
            if (off > self.prior.gate || off < -self.prior.gate) && self.doubts < DOUBTS {
                self.doubts += 1;
                return;
            }
            if self.doubts >= DOUBTS {
                // the place really is so: what was being measured across the jump is void
                self.row = None;
            }
        }
        self.doubts = 0;
        self.degrees = Some(degrees);
        self.at_ns = now_ns;
        let Some((start_ns, from, joules)) = self.row else {
            self.row = Some((now_ns, degrees, 0.0));
            if !self.learnt {
                // until a row is full, what holds the temperature
                self.c = self.prior.a * degrees - self.theta[1] * watts;
            }
            return;
        };
        let seconds = now_ns.saturating_sub(start_ns) as f64 / 1e9;
        if seconds >= self.prior.row_s {
            self.row = Some((now_ns, degrees, 0.0));
            // a gap in the readings is no row
            if seconds < 4.0 * self.prior.row_s {
                self.learn(
                    (degrees - from) / seconds,
                    joules / seconds,
                    (from + degrees) / 2.0,
                );
            }
        }
    }

    /// One row of recursive least squares, and of the observer.
    fn learn(&mut self, rate: f64, watts: f64, degrees: f64) {
        // what heats the place, cooling taken off: `rate + a T = c + b P`
        let heating = rate + self.prior.a * degrees;
        let [[cc, cb], [_, bb]] = self.covariance;
        let direction = [cc + cb * watts, cb + bb * watts];
        // the deviation of a row: half a watt that comes and goes unseen
        let deviation = 0.5 * self.prior.b;
        let scale = deviation * deviation + direction[0] + watts * direction[1];
        let error = heating - self.theta[0] - self.theta[1] * watts;
        self.theta[0] += direction[0] * error / scale;
        self.theta[1] += direction[1] * error / scale;
        let next = |old: f64, i: usize, j: usize| (old - direction[i] * direction[j] / scale) / FORGET;
        let covariance = [[next(cc, 0, 0), next(cb, 0, 1)], [next(cb, 1, 0), next(bb, 1, 1)]];
        // what nothing excites must not grow without end
        let first = first_covariance(&self.prior);
        if covariance[0][0] <= first[0][0] && covariance[1][1] <= first[1][1] {
            self.covariance = covariance;
        }
        self.theta[1] = self.theta[1].clamp(self.prior.b / BOUND, self.prior.b * BOUND);
        let rest = heating - self.theta[1] * watts;
        let follow = if self.learnt { FOLLOW } else { 1.0 };
        self.c += follow * (rest - self.c);
        self.learnt = true;
        self.spent_rows = self.spent_rows.saturating_add(u32::from(watts > 0.0));
    }

    /// Predicted temperature after a horizon, with this power from now on.
    pub(crate) fn after(&self, now_ns: u64, watts_now: f64, watts: f64, seconds: f64) -> Option<f64> {
        let degrees = self.degrees(now_ns, watts_now)?;
        Some(degrees + self.slope(degrees, watts) * self.response(seconds))
    }

    /// The most watts with which a temperature is not passed within a horizon; none where nothing is known.
    pub(crate) fn bearable(&self, now_ns: u64, watts_now: f64, limit: f64, seconds: f64) -> Option<f64> {
        let degrees = self.degrees(now_ns, watts_now)?;
        let slope = (limit - degrees) / self.response(seconds);
        Some((slope - self.c + self.prior.a * degrees) / self.theta[1])
    }

    /// Where it settles while our runs spend nothing (°C), and the rise per watt (K/W); none before some rows in which
    /// they spent something.
    pub(crate) fn settles(&self) -> Option<[f64; 2]> {
        (self.spent_rows >= TAUGHT).then(|| [self.c / self.prior.a, self.theta[1] / self.prior.a])
    }

    /// `[c, b, a]`: K/s, K/J, 1/s.
    pub(crate) fn coefficients(&self) -> [f64; 3] {
        [self.c, self.theta[1], self.prior.a]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A place with known coefficients, read ten times a second.
    fn taught(
        prior: Prior,
        truth: [f64; 3],
        watts: impl Fn(u64) -> f64,
        seconds: u64,
    ) -> (ThermalModel, f64) {
        let mut place = ThermalModel::new(prior);
        let mut degrees = 30.0;
        for tick in 0..seconds * 10 {
            let power = watts(tick / 10);
            degrees += (truth[0] + truth[1] * power - truth[2] * degrees) * 0.1;
            place.spend(power * 0.1);
            let tenths = (degrees * 10.0).round() / 10.0;
            place.read((tick + 1) * 100_000_000, tenths, power);
        }
        (place, degrees)
    }

    #[test]
    fn thermal_fit_departs_from_the_prior() {
        let truth = [0.0035 * 28.0, 0.02, 0.0035];
        let watts = |second: u64| if (second / 60).is_multiple_of(2) { 3.0 } else { 0.5 };
        let (place, degrees) = taught(SKIN, truth, watts, 1800);
        let [_, b, _] = place.coefficients();
        assert!(b > 1.3 * SKIN.b && b < 1.2 * truth[1], "{b}");
        // a minute ahead, at another power
        let now = 1_800_000_000_000;
        let foreseen = place.after(now, watts(1799), 2.0, 60.0).unwrap();
        let settled = (truth[0] + truth[1] * 2.0) / truth[2];
        let true_after = settled + (degrees - settled) * (-60.0 * truth[2]).exp();
        assert!((foreseen - true_after).abs() < 0.4, "{foreseen} {true_after}");
    }

    #[test]
    fn implausible_readings_are_ignored_and_jumps_accepted_late() {
        let (mut place, degrees) = taught(SKIN, [0.06, 0.011, 0.002], |_| 1.0, 120);
        let mut now = 120_000_000_000;
        for lie in [-273.0, 4000.0, degrees + 30.0] {
            now += 100_000_000;
            place.read(now, lie, 1.0);
            assert!((place.degrees(now, 1.0).unwrap() - degrees).abs() < 0.5);
        }
        for _ in 0..20 {
            now += 100_000_000;
            place.read(now, degrees + 30.0, 1.0);
        }
        assert!(place.degrees(now, 1.0).unwrap() > degrees + 29.0);
    }
}

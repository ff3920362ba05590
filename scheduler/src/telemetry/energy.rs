//! The energy of a run: sensor samples over repeated runs, without idle power.
//!
//! A sensor is sampled while nothing runs, while the same run is repeated in blocks, and while
//! nothing runs again. An energy counter is read at its own steps, from the first change within a
//! block to the last one, because it updates a few times per second and its value between is stale.
//! Without a counter, power is integrated by the trapezoidal rule over the sample times.
//!
//! Invariants:
//! 1. Every figure has an interval, from the spread of blocks and the difference of the idle times.
//! 2. A window with too few samples gives no figure.
//!
//! Not here: execution (`session`), storage of figures (`profile`).

use schemars::JsonSchema;
use serde::Serialize;

/// Least changes of a counter in a window, and least samples of a power.
const FEWEST: usize = 3;

/// A figure with its 95 % confidence interval, by Student's distribution over blocks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Interval {
    /// Mean.
    pub mean: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// The interval of independent blocks; `None` for fewer than two.
    #[must_use]
    pub fn of(blocks: &[f64]) -> Option<Interval> {
        let count = blocks.len();
        if count < 2 {
            return None;
        }
        let mean = blocks.iter().sum::<f64>() / count as f64;
        let squares: f64 = blocks.iter().map(|value| (value - mean).powi(2)).sum();
        let error = (squares / (count - 1) as f64 / count as f64).sqrt();
        Some(Interval::around(mean, student(count - 1) * error))
    }

    /// An interval from its mean and half width.
    #[must_use]
    pub fn around(mean: f64, half: f64) -> Interval {
        Interval {
            mean,
            low: mean - half,
            high: mean + half,
        }
    }

    /// Half the width.
    #[must_use]
    pub fn half(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// Whether the intervals are disjoint.
    #[must_use]
    pub fn is_apart_from(&self, other: &Interval) -> bool {
        self.high < other.low || other.high < self.low
    }
}

/// The 97.5th percentile of Student's distribution, by degrees of freedom (any table of it).
fn student(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    // from there on it falls to 1.960; the last value is on the safe side
    TABLE[freedom.clamp(1, TABLE.len()) - 1]
}

/// One sample of a sensor.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Point {
    time_ns: u64,
    value: f64,
}

/// What a window of samples says.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Window {
    /// Mean power in milliwatts.
    power_mw: f64,
    /// Changes of the sensor within.
    updates: usize,
}

/// One repetition block.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Block {
    from_ns: u64,
    to_ns: u64,
    runs: u64,
}

/// Samples of one device's sensor, with the times of runs.
#[derive(Debug, Clone, Default)]
pub struct EnergyMeter {
    powers: Vec<Point>,
    energies: Vec<Point>,
    idle: Vec<(u64, u64)>,
    blocks: Vec<Block>,
}

/// Energy of a run on one device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct EnergyFigures {
    /// Energy of a run including idle power, in microjoules.
    pub gross_uj: Interval,
    /// Energy of a run without idle power, in microjoules; none if idle power was not measured.
    pub net_uj: Option<Interval>,
    /// Mean power while runs were repeated, in milliwatts.
    pub power_mw: f64,
    /// Mean power of the idle times before and after, in milliwatts.
    pub idle_mw: Option<f64>,
    /// Difference between the idle powers before and after, in milliwatts.
    pub idle_drift_mw: Option<f64>,
    /// Number of measured runs.
    pub runs: u64,
    /// Blocks of runs.
    pub blocks: usize,
    /// Sensor updates while runs were measured.
    pub updates: usize,
    /// Whether an energy counter was read, instead of integrating a power.
    pub counted: bool,
}

impl EnergyMeter {
    /// Adds a sample: power in milliwatts and a counter in microjoules, either of which may be
    /// absent.
    pub fn sample(&mut self, time_ns: u64, power_mw: Option<i64>, energy_uj: Option<i64>) {
        let add = |points: &mut Vec<Point>, value: Option<i64>| {
            if let Some(value) = value {
                points.push(Point {
                    time_ns,
                    value: value as f64,
                });
            }
        };
        add(&mut self.powers, power_mw);
        add(&mut self.energies, energy_uj);
    }

    /// Marks an interval without runs.
    pub fn idle(&mut self, from_ns: u64, to_ns: u64) {
        self.idle.push((from_ns, to_ns));
    }

    /// Marks an interval with `runs` runs back to back.
    pub fn block(&mut self, from_ns: u64, to_ns: u64, runs: u64) {
        self.blocks.push(Block { from_ns, to_ns, runs });
    }

    /// The energy of a run, or why it is unknown.
    ///
    /// # Errors
    /// The device has no sensor, or blocks are too short for it.
    pub fn figures(&self) -> Result<EnergyFigures, String> {
        if self.powers.is_empty() && self.energies.is_empty() {
            return Err("no sensor of power or energy".to_owned());
        }
        let measured: Vec<(Block, Window)> = self
            .blocks
            .iter()
            .filter(|block| block.runs > 0 && block.to_ns > block.from_ns)
            .filter_map(|block| Some((*block, self.window(block.from_ns, block.to_ns)?)))
            .collect();
        let seconds = |block: &Block| (block.to_ns - block.from_ns) as f64 / 1e9;
        // milliwatts over seconds are millijoules
        let gross: Vec<f64> = measured
            .iter()
            .map(|(block, window)| window.power_mw * seconds(block) * 1e3 / block.runs as f64)
            .collect();
        let gross_uj = Interval::of(&gross).ok_or_else(|| {
            format!(
                "{} of {} blocks are long enough for the sensor; at least 2 are needed",
                measured.len(),
                self.blocks.len()
            )
        })?;
        let time: f64 = measured.iter().map(|(block, _)| seconds(block)).sum();
        let runs: u64 = measured.iter().map(|(block, _)| block.runs).sum();
        let weighted: f64 = measured
            .iter()
            .map(|(block, window)| window.power_mw * seconds(block))
            .sum();
        let idle: Vec<f64> = self
            .idle
            .iter()
            .filter_map(|&(from, to)| Some(self.window(from, to)?.power_mw))
            .collect();
        let idle_mw = (!idle.is_empty()).then(|| idle.iter().sum::<f64>() / idle.len() as f64);
        let spread = idle.iter().copied().fold(f64::NEG_INFINITY, f64::max)
            - idle.iter().copied().fold(f64::INFINITY, f64::min);
        let run_s = time / runs as f64;
        let net_uj = idle_mw.map(|idle_mw| {
            let net: Vec<f64> = measured
                .iter()
                .map(|(block, window)| (window.power_mw - idle_mw) * seconds(block) * 1e3 / block.runs as f64)
                .collect();
            let of_blocks = Interval::of(&net).expect("invariant: as many blocks as for the gross figure");
            let half = of_blocks.half().hypot(spread / 2.0 * run_s * 1e3);
            Interval::around(of_blocks.mean, half)
        });
        Ok(EnergyFigures {
            gross_uj,
            net_uj,
            power_mw: weighted / time,
            idle_mw,
            idle_drift_mw: (idle.len() > 1).then_some(spread),
            runs,
            blocks: measured.len(),
            updates: measured.iter().map(|(_, window)| window.updates).sum(),
            counted: !self.energies.is_empty(),
        })
    }

    /// Mean power from one moment to another.
    fn window(&self, from_ns: u64, to_ns: u64) -> Option<Window> {
        let within = |points: &[Point]| -> Vec<Point> {
            let first = points.partition_point(|point| point.time_ns < from_ns);
            let end = points.partition_point(|point| point.time_ns <= to_ns);
            points[first..end.max(first)].to_vec()
        };
        if self.energies.is_empty() {
            return by_power(&within(&self.powers));
        }
        by_counter(&within(&self.energies))
    }
}

/// From the first change of a counter to the last one.
fn by_counter(points: &[Point]) -> Option<Window> {
    let changes: Vec<&Point> = points
        .windows(2)
        .filter(|pair| pair[1].value > pair[0].value)
        .map(|pair| &pair[1])
        .collect();
    let (first, last) = (changes.first()?, changes.last()?);
    if changes.len() < FEWEST {
        return None;
    }
    let seconds = (last.time_ns - first.time_ns) as f64 / 1e9;
    Some(Window {
        // microjoules over seconds are microwatts
        power_mw: (last.value - first.value) / seconds / 1e3,
        updates: changes.len(),
    })
}

/// The trapezoidal rule.
fn by_power(points: &[Point]) -> Option<Window> {
    let updates = 1 + points
        .windows(2)
        .filter(|pair| pair[1].value != pair[0].value)
        .count();
    let (first, last) = (points.first()?, points.last()?);
    if points.len() < FEWEST || last.time_ns == first.time_ns {
        return None;
    }
    let area: f64 = points
        .windows(2)
        .map(|pair| (pair[0].value + pair[1].value) / 2.0 * (pair[1].time_ns - pair[0].time_ns) as f64)
        .sum();
    Some(Window {
        power_mw: area / (last.time_ns - first.time_ns) as f64,
        updates,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A sensor that changes every 100 ms, sampled every 20 ms: idle, load in blocks, idle.
    fn meter(counter: bool, idle_mw: f64, load_mw: f64, late_idle_mw: f64) -> EnergyMeter {
        let mut meter = EnergyMeter::default();
        let mut energy = 0.0;
        let (mut shown_power, mut shown_energy) = (0.0, 0.0);
        for ms in 0..16_000_u64 {
            let power = match ms {
                0..3000 => idle_mw,
                3000..13_000 => load_mw,
                _ => late_idle_mw,
            };
            energy += power; // microjoules in a millisecond
            if ms % 100 == 0 {
                (shown_power, shown_energy) = (power, energy);
            }
            if ms % 20 == 7 {
                let energy = counter.then_some(shown_energy as i64);
                meter.sample(ms * MS, Some(shown_power as i64), energy);
            }
        }
        meter.idle(0, 3000 * MS);
        meter.idle(13_200 * MS, 16_000 * MS);
        for block in 0..5 {
            let from = 3000 + block * 2000;
            meter.block(from * MS, (from + 2000) * MS, 400);
        }
        meter
    }

    #[test]
    fn energy_of_a_run_is_power_over_time_less_idle() {
        for counter in [true, false] {
            let figures = meter(counter, 80_000.0, 500_000.0, 80_000.0).figures().unwrap();
            // 500 W for 5 ms, 420 W above idle
            assert!((figures.gross_uj.mean / 2.5e6 - 1.0).abs() < 0.01, "{figures:?}");
            assert!(
                (figures.net_uj.unwrap().mean / 2.1e6 - 1.0).abs() < 0.01,
                "{figures:?}"
            );
            assert_eq!(
                (figures.runs, figures.blocks, figures.counted),
                (2000, 5, counter)
            );
            assert!((figures.idle_mw.unwrap() - 80_000.0).abs() < 1.0, "{figures:?}");
        }
    }

    #[test]
    fn idle_drift_widens_only_the_net_interval() {
        let still = meter(true, 80_000.0, 500_000.0, 80_000.0).figures().unwrap();
        let moved = meter(true, 80_000.0, 500_000.0, 100_000.0).figures().unwrap();
        assert_eq!(still.gross_uj, moved.gross_uj);
        assert!((moved.idle_drift_mw.unwrap() - 20_000.0).abs() < 1.0);
        // 10 W on either side over 5 ms
        assert!(moved.net_uj.unwrap().half() > still.net_uj.unwrap().half() + 45_000.0);
    }

    #[test]
    fn too_few_samples_give_a_reason() {
        let none = EnergyMeter::default().figures().unwrap_err();
        assert_eq!(none, "no sensor of power or energy");
        let mut short = EnergyMeter::default();
        for ms in 0..10 {
            short.sample(ms * MS, Some(1000), Some(500));
        }
        short.block(0, 5 * MS, 3);
        short.block(5 * MS, 9 * MS, 3);
        let words = short.figures().unwrap_err();
        assert_eq!(
            words,
            "0 of 2 blocks are long enough for the sensor; at least 2 are needed"
        );
    }

    #[test]
    fn intervals_use_students_distribution() {
        // mean 3, deviation 1.5811, error 0.7071, t of 4 degrees 2.776
        let interval = Interval::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!(
            (interval.half() - 2.776 * 0.5_f64.sqrt()).abs() < 1e-3,
            "{interval:?}"
        );
        assert_eq!(Interval::of(&[1.0]), None);
        assert!(Interval::around(1.0, 0.4).is_apart_from(&Interval::around(2.0, 0.5)));
        assert!(!Interval::around(1.0, 0.6).is_apart_from(&Interval::around(2.0, 0.5)));
    }
}

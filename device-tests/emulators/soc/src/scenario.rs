//! Surroundings of an app for 30 minutes: bursts of other apps, the air, the charger, faulty
//! sensors, lost devices.
//!
//! Time is divided into phases. In each, other apps keep the NPU, the GPU, both or neither busy.
//! The order and length of phases is random; over a run, other apps use each of the two for about a
//! third of the time.
//!
//! Invariants: the same seed gives the same scenario; there are no gaps between phases.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::table::{MOST_UNITS, Table};

/// Length of a run.
pub const RUN_NS: u64 = 30 * 60 * 1_000_000_000;
/// Power of other apps' work, relative to that of a unit that is busy with ours. They also wait for
/// memory.
pub const OTHERS_POWER: f64 = 0.5;

/// Losses of a run with losses.
pub const LOSSES: usize = 10;
/// How long a session waits for a unit that hangs.
const PATIENCE_NS: u64 = 1_000_000_000;

/// A time in which nothing changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Phase {
    /// When it starts.
    pub start_ns: u64,
    /// Share of each unit that others use.
    pub others: [f64; MOST_UNITS],
    /// Share of memory that others use.
    pub memory: f64,
    /// The air, in degrees.
    pub air: f64,
    /// Charging.
    pub charging: bool,
}

/// Fault of a sensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// It reports the same as when the fault began.
    Stuck,
    /// It reports nothing.
    Missing,
    /// It reports a temperature that no chip survives.
    Absurd,
    /// It reports the value of two seconds ago.
    Late,
    /// Its error alternates between plus and minus this many thousandths of a degree.
    Jumping(i64),
}

/// A fault of a sensor or the loss of a unit, for a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// From when.
    pub start_ns: u64,
    /// Until when.
    pub end_ns: u64,
    /// Index of a unit; the next indices after the last unit mean the package and the surface.
    pub place: usize,
    /// The fault of a sensor; `None`: the unit is lost.
    pub lie: Option<Lie>,
    /// Time for which a lost unit hangs before its frame ends with an error.
    pub silent_ns: u64,
}

/// The surroundings of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Phases in order of time.
    pub phases: Vec<Phase>,
    /// Faults.
    pub faults: Vec<Fault>,
}

/// What to leave out of a scenario.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Without {
    /// Others' bursts.
    pub others: bool,
    /// Faults.
    pub faults: bool,
}

impl Scenario {
    /// The scenario of a seed.
    #[must_use]
    pub fn drawn(table: &Table, seed: u64, without: Without) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut below = |limit: u64| random.next_u64() % limit.max(1);
        let unit = |kind: &str| table.units.iter().position(|unit| unit.kind == kind).unwrap_or(0);
        let (cpu, gpu, npu) = (unit("cpu"), unit("gpu"), unit("npu"));
        let air = 18.0 + below(6_001) as f64 / 1e3;
        let charge_from = below(60 * 60) * 1_000_000_000;
        let mut phases = Vec::new();
        let mut start_ns = 0;
        // a hat of phases, drawn without putting back: 6 NPU, 6 GPU, 1 both, 6 neither
        let mut hat: Vec<u8> = Vec::new();
        while start_ns < RUN_NS {
            if hat.is_empty() {
                hat = [[0; 6].as_slice(), &[1; 6], &[2; 6], &[3; 1]].concat();
            }
            let kind = hat.swap_remove(below(hat.len() as u64) as usize);
            let mut share = || (600 + below(301)) as f64 / 1e3;
            let mut others = [0.0; MOST_UNITS];
            // somebody is always a little busy on the CPU
            others[cpu] = 0.05;
            if kind & 1 != 0 {
                others[npu] = share();
            }
            if kind & 2 != 0 {
                others[gpu] = share();
            }
            let memory = if kind == 0 { 0.05 } else { 0.2 };
            if without.others {
                others = [0.0; MOST_UNITS];
            }
            let drift = below(1_001) as f64 / 1e3;
            let charging = (charge_from..charge_from + 600_000_000_000).contains(&start_ns);
            phases.push(Phase {
                start_ns,
                others,
                memory: if without.others { 0.0 } else { memory },
                air: air + drift,
                charging,
            });
            start_ns += (20 + below(71)) * 1_000_000_000;
        }
        let mut faults = Vec::new();
        if !without.faults {
            for _ in 0..4 {
                let start_ns = below(RUN_NS);
                let lie = match below(5) {
                    0 => Lie::Stuck,
                    1 => Lie::Missing,
                    2 => Lie::Absurd,
                    3 => Lie::Late,
                    _ => Lie::Jumping(3_000),
                };
                faults.push(Fault {
                    start_ns,
                    end_ns: start_ns + (5 + below(26)) * 1_000_000_000,
                    place: below(table.units.len() as u64 + 2) as usize,
                    lie: Some(lie),
                    silent_ns: 0,
                });
            }
        }
        Self { phases, faults }
    }

    /// No other users, and an air temperature in degrees.
    #[must_use]
    pub fn quiet(air: f64) -> Self {
        Self {
            phases: vec![Phase {
                start_ns: 0,
                others: [0.0; MOST_UNITS],
                memory: 0.0,
                air,
                charging: false,
            }],
            faults: Vec::new(),
        }
    }

    /// The same surroundings, in which units are lost and come back: [`LOSSES`] times, one unit each, for 5 to 60
    /// seconds; in half of the cases it hangs first.
    #[must_use]
    pub fn with_losses(mut self, table: &Table, seed: u64) -> Self {
        // a stream of its own, so that the surroundings stay those of the seed
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(1);
        let mut below = |limit: u64| random.next_u64() % limit.max(1);
        for _ in 0..LOSSES {
            let start_ns = below(RUN_NS);
            self.faults.push(Fault {
                start_ns,
                end_ns: start_ns + (5 + below(56)) * 1_000_000_000,
                place: below(table.units.len() as u64) as usize,
                lie: None,
                silent_ns: below(2) * PATIENCE_NS,
            });
        }
        self
    }

    /// The loss of a unit at a time, where there is one.
    #[must_use]
    pub fn loss(&self, unit: usize, now_ns: u64) -> Option<&Fault> {
        let mut losses = self.faults.iter().filter(|fault| fault.lie.is_none());
        losses.find(|fault| fault.place == unit && (fault.start_ns..fault.end_ns).contains(&now_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_repeat_and_keep_their_shares() {
        let table = Table::phone();
        let npu = table.unit("npu").unwrap();
        let one = Scenario::drawn(&table, 7, Without::default());
        assert_eq!(one, Scenario::drawn(&table, 7, Without::default()));
        let mut shares = Vec::new();
        for seed in 0..40 {
            let scenario = Scenario::drawn(&table, seed, Without::default());
            let mut busy = 0;
            for (index, phase) in scenario.phases.iter().enumerate() {
                let end = scenario
                    .phases
                    .get(index + 1)
                    .map_or(RUN_NS, |next| next.start_ns);
                if phase.others[npu] > 0.0 {
                    busy += end.min(RUN_NS) - phase.start_ns.min(RUN_NS);
                }
            }
            shares.push(busy as f64 / RUN_NS as f64);
        }
        let mean = shares.iter().sum::<f64>() / 40.0;
        assert!((0.3..0.42).contains(&mean), "{mean}");
    }
}

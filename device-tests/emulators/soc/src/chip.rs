//! The chip: temperatures, levels of clock and voltage, power, and the SoC's own throttling.
//!
//! Invariants:
//! 1. Time goes forward in steps of constant power; the same steps give the same figures.
//! 2. Power is `dynamic × f/f₀ × (V/V₀)²` while busy, plus `static × V/V₀ × (1 + leak × (T − 50°))`; a unit that
//!    nothing uses is gated and leaks a tenth.
//! 3. Throttling uses true temperatures, as the kernel does with sensors beside the units.

use crate::heat::{Network, PACKAGE, PLACES, Places, SKIN, Step};
use crate::table::{MOST_UNITS, Table};

/// An idle unit's share of its leakage.
const GATED: f64 = 0.1;

/// Load of the chip during a step.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Load {
    /// Share of the step that each unit is busy, 0 to 1.
    pub busy: [f64; MOST_UNITS],
    /// Bytes to and from memory per second.
    pub bytes_per_s: f64,
    /// Charging.
    pub charging: bool,
    /// Temperature of the air, in degrees.
    pub air: f64,
}

/// The state of a chip.
#[derive(Debug, Clone)]
pub struct Chip {
    units: Vec<UnitState>,
    degrees: Places,
    /// Number of levels that the surface's temperature removes from every unit.
    skin_level: usize,
    to_unit_look_ns: u64,
    to_skin_look_ns: u64,
    unit_poll_ns: u64,
    skin_poll_ns: u64,
    unit_hysteresis: f64,
    skin_trip: f64,
    skin_step: f64,
    skin_hysteresis: f64,
    base_watts: f64,
    charge_watts: f64,
    joule_per_byte: f64,
    network: Network,
    step: (u64, Step),
}

#[derive(Debug, Clone)]
struct UnitState {
    /// Speed, dynamic watts and static watts per level.
    levels: Vec<[f64; 3]>,
    leak: f64,
    trip: f64,
    critical: f64,
    /// Number of levels that the unit's own temperature removes.
    own_level: usize,
    /// The requested level: the clock is not higher than that level's.
    asked_level: usize,
    watts: f64,
}

impl Chip {
    /// A chip at rest, at the temperature of the air, in degrees.
    #[must_use]
    pub fn new(table: &Table, air: f64) -> Self {
        let network = Network::new(table);
        let units = table.units.iter().map(|unit| {
            let [top_mhz, top_mv] = unit.levels[0];
            let level = |&[mhz, mv]: &[u64; 2]| {
                let (speed, volts) = (mhz as f64 / top_mhz as f64, mv as f64 / top_mv as f64);
                [
                    speed,
                    unit.dynamic_mw / 1e3 * speed * volts * volts,
                    unit.static_mw / 1e3 * volts,
                ]
            };
            UnitState {
                levels: unit.levels.iter().map(level).collect(),
                leak: unit.leak_permille_per_kelvin / 1e3,
                trip: unit.trip_mc / 1e3,
                critical: unit.critical_mc / 1e3,
                own_level: 0,
                asked_level: 0,
                watts: 0.0,
            }
        });
        let mut watts = [0.0; PLACES];
        watts[SKIN] = table.board.base_mw / 1e3;
        let throttle = &table.throttle;
        let frame_ns = 33_333_333;
        Self {
            units: units.collect(),
            degrees: network.settled(&watts, air),
            skin_level: 0,
            to_unit_look_ns: throttle.unit_poll_ms * 1_000_000,
            to_skin_look_ns: throttle.skin_poll_ms * 1_000_000,
            unit_poll_ns: throttle.unit_poll_ms * 1_000_000,
            skin_poll_ns: throttle.skin_poll_ms * 1_000_000,
            unit_hysteresis: throttle.unit_hysteresis_mc / 1e3,
            skin_trip: throttle.skin_trip_mc / 1e3,
            skin_step: throttle.skin_step_mc / 1e3,
            skin_hysteresis: throttle.skin_hysteresis_mc / 1e3,
            base_watts: table.board.base_mw / 1e3,
            charge_watts: table.board.charge_mw / 1e3,
            joule_per_byte: table.memory.pj_per_byte * 1e-12,
            step: (frame_ns, network.step(frame_ns as f64 / 1e9)),
            network,
        }
    }

    /// The current level of a unit: the lower of the allowed and the requested one.
    #[must_use]
    pub fn level(&self, unit: usize) -> usize {
        self.level_at(unit, self.units[unit].asked_level)
    }

    /// The level that a unit would have if `asked` were requested.
    #[must_use]
    pub fn level_at(&self, unit: usize, asked: usize) -> usize {
        let lowest = self.units[unit].levels.len() - 1;
        self.allowed_level(unit).max(asked).min(lowest)
    }

    /// Requests a level of a unit from now on.
    pub fn ask(&mut self, unit: usize, level: usize) {
        self.units[unit].asked_level = level;
    }

    /// The level that temperature allows a unit: the lower of the limits by its own and the
    /// surface's.
    #[must_use]
    pub fn allowed_level(&self, unit: usize) -> usize {
        let state = &self.units[unit];
        let lowest = state.levels.len() - 1;
        // the surface's levels are shares of each unit's own range
        state.own_level.max(self.skin_level).min(lowest)
    }

    /// The speed of a unit, relative to its first level.
    #[must_use]
    pub fn speed(&self, unit: usize) -> f64 {
        self.speed_at(unit, self.level(unit))
    }

    /// The speed of a unit at a level.
    #[must_use]
    pub fn speed_at(&self, unit: usize, level: usize) -> f64 {
        let levels = &self.units[unit].levels;
        levels[level.min(levels.len() - 1)][0]
    }

    /// Power of a busy unit at its current temperature and level, in watts.
    #[must_use]
    pub fn busy_watts(&self, unit: usize) -> f64 {
        self.busy_watts_at(unit, self.level(unit))
    }

    /// Power of a busy unit at its current temperature and this level, in watts.
    #[must_use]
    pub fn busy_watts_at(&self, unit: usize, level: usize) -> f64 {
        let [_, dynamic, leaking] = self.units[unit].levels[level];
        dynamic + leaking * self.leakage(unit)
    }

    fn leakage(&self, unit: usize) -> f64 {
        (1.0 + self.units[unit].leak * (self.degrees[unit] - 50.0)).max(0.2)
    }

    /// Power of a unit during the last step, in watts.
    #[must_use]
    pub fn watts(&self, unit: usize) -> f64 {
        self.units[unit].watts
    }

    /// Temperature of a unit, in degrees.
    #[must_use]
    pub fn degrees(&self, unit: usize) -> f64 {
        self.degrees[unit]
    }

    /// Temperature of the package, in degrees.
    #[must_use]
    pub fn package_degrees(&self) -> f64 {
        self.degrees[PACKAGE]
    }

    /// Temperature of the surface, in degrees.
    #[must_use]
    pub fn skin_degrees(&self) -> f64 {
        self.degrees[SKIN]
    }

    /// Whether a unit is so hot that a phone would switch off.
    #[must_use]
    pub fn is_critical(&self) -> bool {
        let mut units = self.units.iter().zip(self.degrees);
        units.any(|(unit, degrees)| degrees >= unit.critical)
    }

    /// Advances time under a constant load. The chip's power and energy are then those of this
    /// step.
    pub fn pass(&mut self, ns: u64, load: &Load) {
        if ns == 0 {
            return;
        }
        let mut watts = [0.0; PLACES];
        for (index, into) in watts.iter_mut().enumerate().take(self.units.len()) {
            let leakage = self.leakage(index);
            let level = self.level(index);
            let state = &mut self.units[index];
            let [_, dynamic, leaking] = state.levels[level];
            let busy = load.busy[index].clamp(0.0, 1.0);
            let used = busy + (1.0 - busy) * GATED;
            state.watts = dynamic * busy + leaking * leakage * used;
            *into = state.watts;
        }
        watts[PACKAGE] = load.bytes_per_s * self.joule_per_byte;
        watts[SKIN] = self.base_watts + if load.charging { self.charge_watts } else { 0.0 };
        if self.step.0 != ns {
            self.step = (ns, self.network.step(ns as f64 / 1e9));
        }
        self.degrees = self.step.1.over(&self.degrees, &watts, load.air);
        self.look(ns);
    }

    /// The SoC's own throttling.
    fn look(&mut self, mut ns: u64) {
        if ns < self.to_unit_look_ns {
            self.to_unit_look_ns -= ns;
        } else {
            // looks that one step holds would all see the same temperature
            self.to_unit_look_ns = self.unit_poll_ns - (ns - self.to_unit_look_ns) % self.unit_poll_ns;
            for (state, degrees) in self.units.iter_mut().zip(self.degrees) {
                let lowest = state.levels.len() - 1;
                if degrees >= state.critical {
                    state.own_level = lowest;
                } else if degrees >= state.trip {
                    state.own_level = (state.own_level + 1).min(lowest);
                } else if degrees < state.trip - self.unit_hysteresis {
                    state.own_level = state.own_level.saturating_sub(1);
                }
            }
        }
        while ns >= self.to_skin_look_ns {
            ns -= self.to_skin_look_ns;
            self.to_skin_look_ns = self.skin_poll_ns;
            // above the first trip point, one level more every so many degrees
            let above = self.degrees[SKIN] - self.skin_trip;
            let steps = |above: f64| {
                if above < 0.0 {
                    0
                } else {
                    1 + (above / self.skin_step) as usize
                }
            };
            if steps(above) > self.skin_level {
                self.skin_level = steps(above);
            } else {
                self.skin_level = self.skin_level.min(steps(above + self.skin_hysteresis));
            }
        }
        self.to_skin_look_ns -= ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Fit;

    /// Minutes' mean times of frames of one unit that is never idle.
    fn sustained(table: &Table, fit: &Fit) -> Vec<f64> {
        let mut table = table.clone();
        let unit = table.unit(&fit.unit).unwrap();
        table.units[unit].dynamic_mw *= fit.power_permille / 1e3;
        table.units[unit].static_mw *= fit.power_permille / 1e3;
        let mut chip = Chip::new(&table, 25.0);
        let mut load = Load {
            air: 25.0,
            ..Load::default()
        };
        load.busy[unit] = 1.0;
        let mut minutes = Vec::new();
        for _ in 0..30 {
            let mut frames = 0.0;
            for _ in 0..1800 {
                frames += chip.speed(unit) * 33.333_333 / fit.first_ms;
                chip.pass(33_333_333, &load);
            }
            minutes.push(60_000.0 / frames);
        }
        minutes
    }

    #[test]
    fn the_table_fits_the_public_runs() {
        let table = Table::phone();
        for fit in &table.fits {
            let minutes = sustained(&table, fit);
            // levels go to and fro at the end
            let last = minutes[25..].iter().sum::<f64>() / 5.0;
            assert!(
                (fit.last_ms[0]..=fit.last_ms[1]).contains(&last),
                "{}: {minutes:?}",
                fit.name
            );
            assert!(
                (minutes[0] / fit.first_ms - 1.0).abs() < 0.1,
                "{}: {minutes:?}",
                fit.name
            );
        }
    }
}

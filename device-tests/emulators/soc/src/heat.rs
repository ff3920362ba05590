//! Heat flow among units, package, surface and air: exact steps of a linear network.
//!
//! Each unit has a capacity and a resistance to the package, the package to the surface, the surface to the air:
//! `C dT/dt = P − G T`. Over a time with constant power the solution is a matrix times the temperatures and another
//! times the powers, both of one matrix exponential.
//!
//! Invariant: two steps of a time are one step of twice the time, to rounding.

use crate::table::{MOST_UNITS, Table};

/// Places of the network: units, then package, then surface; the rest is unused and stays at zero.
pub(crate) const PLACES: usize = MOST_UNITS + 2;
/// Where the package stands.
pub(crate) const PACKAGE: usize = MOST_UNITS;
/// Where the surface stands.
pub(crate) const SKIN: usize = MOST_UNITS + 1;

/// A figure per place.
pub(crate) type Places = [f64; PLACES];
type Matrix = [[f64; PLACES]; PLACES];

/// The network.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    /// Per second.
    rates: Matrix,
    /// Kelvin per joule.
    inverse_capacity: Places,
    /// Watts per kelvin from the surface to the air.
    to_air: f64,
}

/// What a time does to temperatures.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    keep: Matrix,
    gain: Matrix,
    to_air: f64,
}

impl Network {
    pub(crate) fn new(table: &Table) -> Self {
        let mut conductance = [[0.0; PLACES]; PLACES];
        let mut inverse_capacity = [0.0; PLACES];
        let mut join = |a: usize, b: usize, kelvin_per_watt: f64| {
            let g = 1.0 / kelvin_per_watt;
            conductance[a][a] += g;
            conductance[b][b] += g;
            conductance[a][b] -= g;
            conductance[b][a] -= g;
        };
        for (index, unit) in table.units.iter().enumerate() {
            join(index, PACKAGE, unit.kelvin_per_watt);
            inverse_capacity[index] = 1.0 / unit.joule_per_kelvin;
        }
        let board = &table.board;
        join(PACKAGE, SKIN, board.package_kelvin_per_watt);
        inverse_capacity[PACKAGE] = 1.0 / board.package_joule_per_kelvin;
        inverse_capacity[SKIN] = 1.0 / board.skin_joule_per_kelvin;
        let to_air = 1.0 / board.skin_kelvin_per_watt;
        conductance[SKIN][SKIN] += to_air;
        let mut rates = conductance;
        for (row, inverse) in rates.iter_mut().zip(inverse_capacity) {
            for rate in row {
                *rate *= -inverse;
            }
        }
        Self {
            rates,
            inverse_capacity,
            to_air,
        }
    }

    /// The step of so many seconds: `exp(A t)` and its integral, by a Taylor series of a small time that is then
    /// doubled: over twice a time, `keep² ` and `(keep + 1) gain`.
    pub(crate) fn step(&self, seconds: f64) -> Step {
        let mut doublings = 0;
        let mut small = seconds;
        // the fastest rates are of some per second: eight terms then leave 1e-16
        while small > 0.01 {
            small /= 2.0;
            doublings += 1;
        }
        let mut term = identity();
        let mut keep = identity();
        let mut integral = scaled(&identity(), small);
        for order in 1..=8 {
            term = scaled(&product(&term, &self.rates), small / f64::from(order));
            keep = sum(&keep, &term);
            integral = sum(&integral, &scaled(&term, small / f64::from(order + 1)));
        }
        for _ in 0..doublings {
            integral = sum(&integral, &product(&keep, &integral));
            keep = product(&keep, &keep);
        }
        let mut gain = integral;
        for row in &mut gain {
            for (value, inverse) in row.iter_mut().zip(self.inverse_capacity) {
                *value *= inverse;
            }
        }
        Step {
            keep,
            gain,
            to_air: self.to_air,
        }
    }

    /// Temperatures at which nothing changes, in degrees.
    pub(crate) fn settled(&self, watts: &Places, air: f64) -> Places {
        // a time after which nothing is left of any other start
        self.step(200_000.0).over(&[air; PLACES], watts, air)
    }
}

impl Step {
    /// Temperatures after the step, in degrees, from temperatures, watts per place, and the air's temperature.
    pub(crate) fn over(&self, degrees: &Places, watts: &Places, air: f64) -> Places {
        let mut into = *watts;
        into[SKIN] += self.to_air * air;
        let mut after = [0.0; PLACES];
        for ((after, keep), gain) in after.iter_mut().zip(&self.keep).zip(&self.gain) {
            for other in 0..PLACES {
                *after += keep[other] * degrees[other] + gain[other] * into[other];
            }
        }
        after
    }
}

fn identity() -> Matrix {
    let mut matrix = [[0.0; PLACES]; PLACES];
    for (index, row) in matrix.iter_mut().enumerate() {
        row[index] = 1.0;
    }
    matrix
}

fn scaled(a: &Matrix, by: f64) -> Matrix {
    a.map(|row| row.map(|value| value * by))
}

fn sum(a: &Matrix, b: &Matrix) -> Matrix {
    let mut c = *a;
    for (row, other) in c.iter_mut().zip(b) {
        for (value, other) in row.iter_mut().zip(other) {
            *value += other;
        }
    }
    c
}

fn product(a: &Matrix, b: &Matrix) -> Matrix {
    let mut c = [[0.0; PLACES]; PLACES];
    for (row, a) in c.iter_mut().zip(a) {
        for (&factor, b) in a.iter().zip(b) {
            for (value, b) in row.iter_mut().zip(b) {
                *value += factor * b;
            }
        }
    }
    c
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: &Places, b: &Places) -> bool {
        a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9)
    }

    #[test]
    fn steps_compose_and_settle_at_power_times_resistance() {
        let table = Table::phone();
        let network = Network::new(&table);
        let mut watts = [0.0; PLACES];
        (watts[0], watts[SKIN]) = (2.0, 1.0);
        let start = [25.0; PLACES];
        let whole = network.step(10.0).over(&start, &watts, 25.0);
        let half = network.step(5.0);
        assert!(near(
            &whole,
            &half.over(&half.over(&start, &watts, 25.0), &watts, 25.0)
        ));
        let settled = network.settled(&watts, 25.0);
        let board = &table.board;
        let skin = 25.0 + 3.0 * board.skin_kelvin_per_watt;
        let package = skin + 2.0 * board.package_kelvin_per_watt;
        assert!((settled[SKIN] - skin).abs() < 1e-6);
        assert!((settled[0] - package - 2.0 * table.units[0].kelvin_per_watt).abs() < 1e-6);
    }

    #[test]
    fn one_place_follows_the_exponential() {
        // the surface alone, against the closed form
        let mut table = Table::phone();
        table.board.package_kelvin_per_watt = 1e12;
        let network = Network::new(&table);
        let mut watts = [0.0; PLACES];
        watts[SKIN] = 2.0;
        let after = network.step(100.0).over(&[20.0; PLACES], &watts, 20.0)[SKIN];
        let board = &table.board;
        let rise = 2.0 * board.skin_kelvin_per_watt;
        let left = (-100.0 / (board.skin_kelvin_per_watt * board.skin_joule_per_kelvin)).exp();
        assert!((after - 20.0 - rise * (1.0 - left)).abs() < 1e-6);
    }
}

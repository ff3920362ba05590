//! Chip tables: time and energy of work, and chip temperature.
//!
//! A table is TOML whose `source` names the origin of each figure. Time follows the roofline: the longer of arithmetic and
//! memory traffic, plus a launch. The chip is one thermal mass with one resistance to the air.
//!
//! Invariant: an unknown key, or a figure not above zero, is an error.

use serde::Deserialize;

/// Work of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Multiply-adds of products and convolutions.
    pub macs: u64,
    /// Bytes of tensors read and written.
    pub bytes: u64,
}

/// Width of the chip's arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// Integers of 8 bits.
    Bits8,
    /// Floats or integers of 16 bits.
    Bits16,
    /// Floats of 32 bits.
    Bits32,
}

/// A chip.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chip {
    /// The chip's display name.
    pub name: String,
    /// Origin of the figures.
    pub source: String,
    /// Multiply-adds per nanosecond in 8, 16 and 32 bits, of one core.
    pub macs_per_ns: [f64; 3],
    /// Bytes per nanosecond between chip and memory.
    pub bytes_per_ns: f64,
    /// Launch time of a run, in nanoseconds: from the call to the first instruction, and back.
    pub launch_ns: u64,
    /// Energy of a multiply-add in 8, 16 and 32 bits.
    pub picojoule_per_mac: [f64; 3],
    /// Energy of a byte to or from memory.
    pub picojoule_per_byte: f64,
    /// Power while it runs, in milliwatts, in addition to the energies above.
    pub active_mw: f64,
    /// Thermal resistance from the chip to the air.
    pub kelvin_per_watt: f64,
    /// Heat capacity of the chip.
    pub joule_per_kelvin: f64,
    /// Temperature of the air, in thousandths of a degree Celsius.
    pub air_mc: f64,
    /// Temperature above which the chip runs at `throttled` of its speed, in thousandths of a
    /// degree.
    pub trip_mc: f64,
    /// Share of the speed above the trip point.
    pub throttled: f64,
}

/// Time and energy of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spent {
    /// Nanoseconds.
    pub ns: u64,
    /// Nanojoules.
    pub nj: f64,
}

impl Chip {
    /// Reads a table.
    ///
    /// # Errors
    /// Describes the first mistake.
    pub fn parse(text: &str) -> Result<Chip, String> {
        let chip: Chip = toml::from_str(text).map_err(|error| error.to_string())?;
        let figures = chip.macs_per_ns.into_iter().chain(chip.picojoule_per_mac).chain([
            chip.bytes_per_ns,
            chip.picojoule_per_byte,
            chip.active_mw,
            chip.kelvin_per_watt,
            chip.joule_per_kelvin,
            chip.throttled,
        ]);
        for figure in figures {
            if !(figure.is_finite() && figure > 0.0) {
                return Err(format!("{}: a figure is {figure}, not above zero", chip.name));
            }
        }
        if chip.source.trim().is_empty() {
            return Err(format!("{}: the figures have no source", chip.name));
        }
        Ok(chip)
    }

    /// Time and energy of work at full speed.
    #[must_use]
    pub fn spent(&self, work: Work, width: Width) -> Spent {
        let at = width as usize;
        let arithmetic = work.macs as f64 / self.macs_per_ns[at];
        let memory = work.bytes as f64 / self.bytes_per_ns;
        let busy = arithmetic.max(memory);
        // a milliwatt is a picojoule per nanosecond
        let picojoule = work.macs as f64 * self.picojoule_per_mac[at]
            + work.bytes as f64 * self.picojoule_per_byte
            + busy * self.active_mw;
        Spent {
            ns: self.launch_ns + busy as u64,
            nj: picojoule / 1e3,
        }
    }
}

/// Temperature of a chip.
#[derive(Clone, Copy, Debug)]
pub struct Heat {
    above_air: f64,
}

impl Heat {
    /// At the temperature of the air.
    #[must_use]
    pub const fn cold() -> Heat {
        Heat { above_air: 0.0 }
    }

    /// Temperature in thousandths of a degree Celsius.
    #[must_use]
    pub fn mc(&self, chip: &Chip) -> f64 {
        chip.air_mc + self.above_air * 1e3
    }

    /// Runs work at this temperature, slower above the trip point, and heats the chip.
    pub fn run(&mut self, chip: &Chip, work: Work, width: Width) -> Spent {
        let mut spent = chip.spent(work, width);
        if self.mc(chip) >= chip.trip_mc {
            spent.ns = (spent.ns as f64 / chip.throttled) as u64;
        }
        self.pass(chip, spent.ns, spent.nj);
        spent
    }

    /// Cools the chip for a time without work.
    pub fn rest(&mut self, chip: &Chip, ns: u64) {
        self.pass(chip, ns, 0.0);
    }

    /// The exact step of one thermal mass under constant power.
    fn pass(&mut self, chip: &Chip, ns: u64, nj: f64) {
        if ns == 0 {
            return;
        }
        let seconds = ns as f64 / 1e9;
        let watts = nj / ns as f64;
        let settled = watts * chip.kelvin_per_watt;
        let kept = (-seconds / (chip.kelvin_per_watt * chip.joule_per_kelvin)).exp();
        self.above_air = settled + (self.above_air - settled) * kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = r#"
        name = "test"
        source = "invented for this test"
        macs_per_ns = [1000.0, 500.0, 100.0]
        bytes_per_ns = 10.0
        launch_ns = 1000
        picojoule_per_mac = [0.5, 1.0, 4.0]
        picojoule_per_byte = 60.0
        active_mw = 500.0
        kelvin_per_watt = 20.0
        joule_per_kelvin = 1.0
        air_mc = 25000.0
        trip_mc = 40000.0
        throttled = 0.5
    "#;

    #[test]
    fn slower_of_arithmetic_and_memory_is_used() {
        let chip = Chip::parse(TABLE).unwrap();
        let macs = Work {
            macs: 1_000_000,
            bytes: 10,
        };
        assert_eq!(chip.spent(macs, Width::Bits8).ns, 1000 + 1000);
        assert_eq!(chip.spent(macs, Width::Bits32).ns, 1000 + 10_000);
        let bytes = Work {
            macs: 10,
            bytes: 1_000_000,
        };
        assert_eq!(chip.spent(bytes, Width::Bits8).ns, 1000 + 100_000);
    }

    #[test]
    fn work_warms_slows_and_rest_cools() {
        let chip = Chip::parse(TABLE).unwrap();
        let work = Work {
            macs: 4_000_000_000,
            bytes: 4_000_000,
        };
        let mut heat = Heat::cold();
        let cold = heat.run(&chip, work, Width::Bits8);
        let mut runs = 0;
        while heat.mc(&chip) < chip.trip_mc && runs < 10_000 {
            heat.run(&chip, work, Width::Bits8);
            runs += 1;
        }
        assert!((100..10_000).contains(&runs), "{runs}");
        assert_eq!(heat.run(&chip, work, Width::Bits8).ns, cold.ns * 2);
        heat.rest(&chip, 200_000_000_000);
        assert!(heat.mc(&chip) - chip.air_mc < 50.0, "{}", heat.mc(&chip));
    }

    #[test]
    fn tables_without_a_source_or_with_strange_figures_are_refused() {
        for (from, to) in [
            ("invented for this test", " "),
            ("bytes_per_ns = 10.0", "bytes_per_ns = 0.0"),
            ("launch_ns = 1000", "launch_ns = 1000\nspeed = 3"),
        ] {
            assert!(Chip::parse(&TABLE.replace(from, to)).is_err(), "{to}");
        }
    }
}

//! The table of an emulated SoC: units, board, throttling, links; and tables drawn around it.
//!
//! Invariants:
//! 1. Every section names the origin of its figures; an unknown key is an error.
//! 2. A table drawn with a seed is the same on every host.

use anyhow::{Context, Result, ensure};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::Deserialize;

/// Largest number of units of a table. The physics has this many places, and two more.
pub const MOST_UNITS: usize = 6;

/// The shipped table.
pub const PHONE: &str = include_str!("../tables/phone.toml");
/// Seeds of runs and tables.
pub const SEEDS: &str = include_str!("../tables/seeds.toml");

/// A phone-class SoC.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Display name.
    pub name: String,
    /// What it is.
    pub about: String,
    /// Package and surface.
    pub board: Board,
    /// What the SoC does by itself when it is hot.
    pub throttle: Throttle,
    /// Shared memory.
    pub memory: Memory,
    /// Devices.
    #[serde(rename = "unit")]
    pub units: Vec<Unit>,
    /// Links, the same in both directions.
    #[serde(rename = "link")]
    pub links: Vec<Link>,
    /// Public runs that figures were fitted to.
    #[serde(rename = "fit")]
    pub fits: Vec<Fit>,
}

/// Package and surface.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Board {
    /// From the surface to the air.
    pub skin_kelvin_per_watt: f64,
    /// Of the surface and what lies beneath.
    pub skin_joule_per_kelvin: f64,
    /// From the package to the surface.
    pub package_kelvin_per_watt: f64,
    /// Of the package.
    pub package_joule_per_kelvin: f64,
    /// Heat of the surface that no plan changes.
    pub base_mw: f64,
    /// Heat of charging.
    pub charge_mw: f64,
    /// The policy's limit of the surface, which a static plan ignores.
    pub skin_limit_mc: f64,
    /// Additional time of the first run of a plan.
    pub switch_ns: u64,
    /// Where the figures come from.
    pub source: String,
}

/// What the SoC does by itself when it is hot.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Throttle {
    /// Time between two looks at a unit.
    pub unit_poll_ms: u64,
    /// A unit gets a level back when it is this far below its trip point.
    pub unit_hysteresis_mc: f64,
    /// Temperature from which every unit loses a level.
    pub skin_trip_mc: f64,
    /// Every unit loses another level for each multiple of this above it.
    pub skin_step_mc: f64,
    /// Levels return when the surface is this far below it.
    pub skin_hysteresis_mc: f64,
    /// Time between two looks at the surface.
    pub skin_poll_ms: u64,
    /// Where the figures come from.
    pub source: String,
}

/// Shared memory.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Energy of a byte, spent in the package.
    pub pj_per_byte: f64,
    /// Memory traffic of a node, relative to the bytes of its tensors.
    pub traffic_permille: f64,
    /// Where the figures come from.
    pub source: String,
}

/// A device.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unit {
    /// Display name.
    pub name: String,
    /// `cpu`, `gpu` or `npu`.
    pub kind: String,
    /// Clock in megahertz and voltage in thousandths of the first level's, fastest first.
    pub levels: Vec<[u64; 2]>,
    /// Power of switching, busy at the first level.
    pub dynamic_mw: f64,
    /// Power of leaking at the first level's voltage and 50 degrees.
    pub static_mw: f64,
    /// How much more it leaks per degree.
    pub leak_permille_per_kelvin: f64,
    /// To the package.
    pub kelvin_per_watt: f64,
    /// Of the unit.
    pub joule_per_kelvin: f64,
    /// From here on it loses a level at every look.
    pub trip_mc: f64,
    /// A phone would switch off here.
    pub critical_mc: f64,
    /// To start a part.
    pub launch_ns: u64,
    /// Of every node.
    pub node_ns: f64,
    /// Of a multiply-add of a convolution or matrix product.
    pub ps_per_mac: f64,
    /// Of an element's operation in any other node.
    pub other_ps_per_mac: f64,
    /// Of a byte of memory traffic.
    pub ps_per_byte: f64,
    /// Ops that it does not run.
    pub refused_ops: Vec<String>,
    /// Whether an app can read the load by other users.
    pub load_is_read: bool,
    /// Where the figures come from.
    pub source: String,
}

/// How two units exchange tensors.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// The two.
    pub between: [String; 2],
    /// Of one transfer.
    pub latency_ns: u64,
    /// Speed.
    pub bytes_per_us: u64,
    /// Energy.
    pub nj_per_kilobyte: u64,
    /// Where the figures come from.
    pub source: String,
}

/// A public run: one unit busy without a pause for 30 minutes at 25 degrees.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// Which phone.
    pub name: String,
    /// The unit that ran.
    pub unit: String,
    /// Its power, relative to the table's.
    pub power_permille: f64,
    /// Time of a frame at the start.
    pub first_ms: f64,
    /// Range of the time of a frame at the end.
    pub last_ms: [f64; 2],
    /// Where the figures come from, and what was fitted.
    pub source: String,
}

/// What runs are drawn from.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seeds {
    /// Seed of the first run.
    pub first: u64,
    /// How many runs.
    pub count: u64,
    /// Seeds of the drawn tables.
    pub tables: Vec<u64>,
    /// Largest deviation of their figures from the shipped table's, in thousandths.
    pub spread_permille: u64,
    /// The network of a frame.
    pub network: String,
    /// Inferences of a frame.
    pub inferences: usize,
}

impl Seeds {
    /// The committed seeds.
    #[must_use]
    pub fn committed() -> Self {
        toml::from_str(SEEDS).expect("invariant: the committed seeds are well formed")
    }
}

impl Table {
    /// The shipped table.
    #[must_use]
    pub fn phone() -> Self {
        Self::parse(PHONE).expect("invariant: the shipped table is well formed")
    }

    /// Reads a table.
    ///
    /// # Errors
    /// Unknown or missing keys, and figures out of range.
    pub fn parse(text: &str) -> Result<Self> {
        let table: Self = toml::from_str(text).context("table of an emulated SoC")?;
        ensure!(
            (1..=MOST_UNITS).contains(&table.units.len()),
            "{} units; 1 to {MOST_UNITS} are possible",
            table.units.len()
        );
        for unit in &table.units {
            let name = &unit.name;
            ensure!(!unit.levels.is_empty(), "unit {name} has no level");
            let falls = unit.levels.windows(2).all(|pair| pair[0][0] > pair[1][0]);
            ensure!(falls, "levels of unit {name} do not fall");
            let positive = [unit.kelvin_per_watt, unit.joule_per_kelvin, unit.dynamic_mw];
            ensure!(
                positive.iter().all(|&figure| figure.is_finite() && figure > 0.0),
                "unit {name} has a figure that is not positive"
            );
        }
        for link in &table.links {
            for name in &link.between {
                ensure!(
                    table.unit(name).is_some(),
                    "a link names unit {name}, which is not there"
                );
            }
        }
        Ok(table)
    }

    /// The index of a unit.
    #[must_use]
    pub fn unit(&self, name: &str) -> Option<usize> {
        self.units.iter().position(|unit| unit.name == name)
    }

    /// A table whose times, powers and thermal figures each deviate from this one's by at most this
    /// many thousandths.
    #[must_use]
    pub fn drawn(&self, seed: u64, spread_permille: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut vary = |figure: &mut f64| {
            let drawn = random.next_u64() % (2 * spread_permille + 1);
            *figure *= (1000 + drawn - spread_permille) as f64 / 1e3;
        };
        let mut table = self.clone();
        table.name = format!("{} around {seed}", self.name);
        let board = &mut table.board;
        for figure in [
            &mut board.skin_kelvin_per_watt,
            &mut board.skin_joule_per_kelvin,
            &mut board.package_kelvin_per_watt,
            &mut board.package_joule_per_kelvin,
            &mut board.base_mw,
            &mut board.charge_mw,
            &mut table.memory.pj_per_byte,
        ] {
            vary(figure);
        }
        for unit in &mut table.units {
            for figure in [
                &mut unit.dynamic_mw,
                &mut unit.static_mw,
                &mut unit.kelvin_per_watt,
                &mut unit.joule_per_kelvin,
                &mut unit.ps_per_mac,
                &mut unit.other_ps_per_mac,
                &mut unit.ps_per_byte,
            ] {
                vary(figure);
            }
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_names_its_source() {
        let table = Table::phone();
        let sources = [&table.board.source, &table.throttle.source, &table.memory.source];
        let units = table.units.iter().map(|unit| &unit.source);
        let links = table.links.iter().map(|link| &link.source);
        let fits = table.fits.iter().map(|fit| &fit.source);
        assert!(
            sources
                .into_iter()
                .chain(units)
                .chain(links)
                .chain(fits)
                .all(|s| s.len() > 5)
        );
    }

    #[test]
    fn drawn_tables_repeat_and_stay_near() {
        let table = Table::phone();
        let drawn = table.drawn(11, 150);
        assert_eq!(
            drawn.units[0].dynamic_mw,
            table.drawn(11, 150).units[0].dynamic_mw
        );
        assert_ne!(
            drawn.units[0].dynamic_mw,
            table.drawn(23, 150).units[0].dynamic_mw
        );
        for (a, b) in drawn.units.iter().zip(&table.units) {
            assert!((0.85..=1.15).contains(&(a.kelvin_per_watt / b.kelvin_per_watt)));
        }
    }
}

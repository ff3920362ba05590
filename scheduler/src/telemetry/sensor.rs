//! A sensor: its quantity, its subject, and a reading or the reason for its absence.

use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use super::rules::Subject;

/// The quantity that a sensor measures, which sets the unit of its readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Quantity {
    /// In thousandths of a degree Celsius.
    Temperature,
    /// In milliwatts.
    Power,
    /// Since the sensor was first read, in microjoules.
    Energy,
    /// In kilohertz.
    Frequency,
    /// In millivolts.
    Voltage,
    /// In milliamperes; for a battery, positive in either direction.
    Current,
    /// Charge of a battery, in thousandths.
    Capacity,
    /// Share of time spent computing since the last reading, in thousandths.
    Load,
}

impl Quantity {
    /// The unit of its readings.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Quantity::Temperature => "m°C",
            Quantity::Power => "mW",
            Quantity::Energy => "µJ",
            Quantity::Frequency => "kHz",
            Quantity::Voltage => "mV",
            Quantity::Current => "mA",
            Quantity::Capacity | Quantity::Load => "‰",
        }
    }

    /// Readings that a working sensor can give.
    pub(super) fn possible(self) -> std::ops::RangeInclusive<i64> {
        match self {
            // no chip works below -55 °C (the military range) or above 200 °C
            Quantity::Temperature => -55_000..=200_000,
            Quantity::Capacity | Quantity::Load => 0..=1000,
            // 100 kW, far above any machine that runs this
            Quantity::Power => 0..=100_000_000,
            Quantity::Frequency => 1..=100_000_000,
            Quantity::Voltage | Quantity::Current => 0..=1_000_000_000,
            Quantity::Energy => 0..=i64::MAX,
        }
    }
}

/// Why a sensor has no reading.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Absent {
    /// Its file disappeared after it was found.
    Vanished,
    /// This user may not read it.
    Denied,
    /// Its file is empty.
    Empty,
    /// Its file holds no number.
    NoNumber,
    /// Its reading is outside the possible range.
    Impossible(i64),
    /// A temperature of exactly zero, as zones without a sensor report.
    Zero,
    /// A rate, which needs an earlier reading.
    First,
    /// The driver failed, with its message.
    Failed(String),
}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Absent::Vanished => f.write_str("its file is gone"),
            Absent::Denied => f.write_str("permission denied (often root only)"),
            Absent::Empty => f.write_str("its file is empty"),
            Absent::NoNumber => f.write_str("its file holds no number"),
            Absent::Impossible(value) => write!(f, "impossible reading {value}"),
            Absent::Zero => f.write_str("reading of exactly 0, as from a zone without a sensor"),
            Absent::First => f.write_str("needs a second reading"),
            Absent::Failed(words) => write!(f, "the driver failed: {words}"),
        }
    }
}

/// A limit of a thermal zone, at which the system acts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Trip {
    /// Linux's name of the reaction: `passive` (clocks fall), `active` (a fan), `hot`, `critical`
    /// (shutdown).
    pub kind: String,
    /// In thousandths of a degree Celsius.
    pub temperature_mc: i64,
}

/// A sensor that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sensor {
    /// Its source and name: `thermal/cpu-thermal`, `powercap/package-0`.
    pub name: String,
    /// What it measures.
    pub quantity: Quantity,
    /// The subject of its measurement.
    pub subject: Subject,
    /// Limits of a thermal zone, as Linux states them.
    pub trips: Vec<Trip>,
    /// Lowest and highest currently allowed clock, in kilohertz.
    pub range_khz: Option<(u64, u64)>,
    /// The clock governor: `schedutil`, `performance`.
    pub governor: Option<String>,
    pub(super) source: Source,
}

/// How a sensor is read. Paths are relative to the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// A file with a number, which is scaled by `times / over`.
    File { path: PathBuf, times: i64, over: i64 },
    /// The absolute value of the number in a file, divided by `over`.
    Magnitude { path: PathBuf, over: i64 },
    /// The product of two files, in microvolts and microamperes.
    Product { voltage: PathBuf, current: PathBuf },
    /// A counter of microjoules, which wraps after `range`.
    Counter { path: PathBuf, range: Option<u64> },
    /// `/proc/stat`.
    Stat,
}

/// A sensor reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// In the unit of the sensor's quantity.
    pub value: Result<i64, Absent>,
}

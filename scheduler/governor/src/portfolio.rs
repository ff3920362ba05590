//! Plans to choose from, as far as choosing needs to know them.
//!
//! Invariant: a portfolio that `check` accepts has at least one candidate, and every candidate uses devices of the
//! portfolio, each once.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Plans that are ready to run. Devices are named once; everywhere else they are indices into `devices`, and
/// candidates are indices into `candidates`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Portfolio {
    /// Names of the runtime's devices, `plugin:index`.
    pub devices: Vec<String>,
    /// The plans. The first one runs until something speaks for another.
    pub candidates: Vec<Candidate>,
}

/// One plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// Name for people: `fastest`, `frugal`, `without gpu:0`.
    pub name: String,
    /// Predicted time of a run, from submit to outputs.
    pub latency_ns: u64,
    /// Predicted energy of a run, with transfers, where it is known.
    pub energy_uj: Option<u64>,
    /// The devices that it uses, and for how long.
    pub loads: Vec<Load>,
    /// The operating points at which its devices are to run, which its time and energy are those of. A device that is
    /// not named runs as fast as it may. Who executes the decision sets them; the governor sets nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<Point>,
}

/// The operating point of one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// The device.
    pub device: usize,
    /// Its highest clock meanwhile.
    pub khz: u64,
}

/// What a run asks of one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// The device.
    pub device: usize,
    /// How long it is busy.
    pub busy_ns: u64,
    /// Energy spent on it, where it is known.
    pub energy_uj: Option<u64>,
}

impl Candidate {
    /// A candidate whose energy is that of its loads, where all are known.
    #[must_use]
    pub fn new(name: &str, latency_ns: u64, loads: Vec<Load>) -> Self {
        let energies: Option<Vec<u64>> = loads.iter().map(|load| load.energy_uj).collect();
        Self {
            name: name.to_owned(),
            latency_ns,
            energy_uj: energies.map(|energies| energies.iter().fold(0u64, |sum, &e| sum.saturating_add(e))),
            loads,
            points: Vec::new(),
        }
    }

    /// The same candidate at operating points.
    #[must_use]
    pub fn at(self, points: Vec<Point>) -> Self {
        Self { points, ..self }
    }

    /// The highest clock that it asks of a device, where it asks for one.
    #[must_use]
    pub fn khz(&self, device: usize) -> Option<u64> {
        let mut points = self.points.iter();
        points.find(|point| point.device == device).map(|point| point.khz)
    }

    /// The same candidate with a known energy of the whole run.
    #[must_use]
    pub fn energy(self, energy_uj: u64) -> Self {
        Self {
            energy_uj: Some(energy_uj),
            ..self
        }
    }

    /// Whether a run needs a device.
    #[must_use]
    pub fn uses(&self, device: usize) -> bool {
        self.loads.iter().any(|load| load.device == device)
    }
}

impl Portfolio {
    /// Finds what no governor can work with.
    ///
    /// # Errors
    /// No candidate, a candidate without a load or with two of one device, a device that is not in the list, or an
    /// operating point of a device that the candidate does not use, or of no clock.
    pub fn check(&self) -> Result<()> {
        if self.candidates.is_empty() {
            return Err(Error::portfolio("the portfolio has no candidate"));
        }
        for candidate in &self.candidates {
            let name = &candidate.name;
            if candidate.loads.is_empty() {
                return Err(Error::portfolio(format!("candidate {name} uses no device")));
            }
            for (index, load) in candidate.loads.iter().enumerate() {
                if load.device >= self.devices.len() {
                    return Err(Error::portfolio(format!(
                        "candidate {name} uses device {} of {}",
                        load.device,
                        self.devices.len()
                    )));
                }
                if candidate.loads[..index]
                    .iter()
                    .any(|other| other.device == load.device)
                {
                    return Err(Error::portfolio(format!(
                        "candidate {name} has two loads of {}",
                        self.devices[load.device]
                    )));
                }
            }
            for point in &candidate.points {
                if point.khz == 0 || !candidate.uses(point.device) {
                    return Err(Error::portfolio(format!(
                        "candidate {name} asks device {} for {} kHz",
                        point.device, point.khz
                    )));
                }
            }
        }
        Ok(())
    }
}

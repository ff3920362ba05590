//! The plans to choose from, with the figures that the choice needs.
//!
//! Invariant: a portfolio that `check` accepts has at least one candidate, and every candidate uses
//! devices of the portfolio, each once.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Ready plans. Devices are named once; elsewhere they are indices into `devices`, and candidates
/// are indices into `candidates`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Portfolio {
    /// Names of the runtime's devices, `plugin:index`.
    pub devices: Vec<String>,
    /// The plans. The first one runs initially.
    pub candidates: Vec<Candidate>,
}

/// A plan to choose from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// Name for people: `fastest`, `frugal`, `without gpu:0`.
    pub name: String,
    /// Predicted time of a run, from submit to outputs, in nanoseconds.
    pub latency_ns: u64,
    /// Predicted energy of a run in microjoules, including transfers, if known.
    pub energy_uj: Option<u64>,
    /// Its devices and their busy times.
    pub loads: Vec<Load>,
    /// The operating points to which its time and energy refer. A device without one runs at its
    /// maximum. The caller sets them; the governor sets nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<Point>,
}

/// The operating point of one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// The device.
    pub device: usize,
    /// The clock limit that the plan requests, in kilohertz.
    pub khz: u64,
}

/// A run's load on one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// The device.
    pub device: usize,
    /// Busy time in nanoseconds.
    pub busy_ns: u64,
    /// Energy in microjoules, if known.
    pub energy_uj: Option<u64>,
}

impl Candidate {
    /// A candidate with the energy of its loads, if all are known.
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

    /// Sets its operating points.
    #[must_use]
    pub fn at(self, points: Vec<Point>) -> Self {
        Self { points, ..self }
    }

    /// The maximum clock that it requests of a device, if any.
    #[must_use]
    pub fn khz(&self, device: usize) -> Option<u64> {
        let mut points = self.points.iter();
        points.find(|point| point.device == device).map(|point| point.khz)
    }

    /// Sets the energy of the whole run.
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
    /// Validates the portfolio.
    ///
    /// # Errors
    /// - The portfolio has no candidate.
    /// - A candidate has no load, or two loads on one device.
    /// - A candidate names a device that is not in the list.
    /// - An operating point has a zero clock, or belongs to a device that the candidate does not use.
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

//! Input of a case: the plugin, an open device, and the user's options.
//!
//! Invariant: the device is opened once per process and shared by the cases that do not ask for another.

use std::sync::Arc;

use crate::carrier;
use crate::plugin::{Configuration, Device, Executable, Library};
use crate::problem::Problem;
use crate::tolerance::Tolerances;
use crate::verdict::{Judgement, Stop, skip};

/// A plugin's device under test.
pub struct Bench {
    /// The plugin.
    pub library: Arc<Library>,
    /// The device.
    pub device: Arc<Device>,
    /// What the plugin is created with.
    pub configuration: Configuration,
    /// Whether the device may compute f32 in a 16-bit float type.
    pub reduced: bool,
    /// Rounds of leak cases.
    pub cycles: u32,
}

impl Bench {
    /// Opens another instance and the same device of it.
    ///
    /// # Errors
    /// A call failed.
    pub fn reopen(&self) -> Result<Arc<Device>, Stop> {
        Ok(self
            .library
            .create(&self.configuration)?
            .open(self.device.index())?)
    }

    /// How far a carrier's answers may be off.
    #[must_use]
    pub fn tolerances(&self) -> Tolerances {
        Tolerances::of("elementwise", self.reduced)
    }

    /// A carrier, compiled and loaded.
    ///
    /// # Errors
    /// As [`Bench::carrier`], or a call failed.
    pub fn loaded(&self) -> Result<(Problem, Arc<Executable>), Stop> {
        let problem = self.carrier()?;
        let executable = problem.load(&self.device, self.reduced)?;
        Ok((problem, executable))
    }

    /// The device still works.
    pub(crate) fn works(&self) -> Judgement {
        self.carrier()?
            .solve(&self.device, self.reduced, &self.tolerances())
    }

    /// A small graph that the device supports, to ask about everything but ops.
    ///
    /// # Errors
    /// The device supports none of the suite's carriers: the case is skipped.
    pub fn carrier(&self) -> Result<Problem, Stop> {
        for problem in carrier::all() {
            if self.device.refusal(&problem.flat)?.is_none() {
                return Ok(problem.clone());
            }
        }
        skip("the device supports none of the carrier graphs (listed in docs/conformance.md)")
    }
}

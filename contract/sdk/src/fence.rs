//! Fences: the end of a run, and what the device measured of it.

use std::borrow::Cow;
use std::sync::Arc;

use polychip_abi as abi;

use crate::{Error, Result};

/// Waits without limit.
pub const NO_TIMEOUT: u64 = u64::MAX;

/// Measurements of a run by its device. Times are on the host's clock, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timing {
    /// Time at which the device queued the run.
    pub queued_ns: Option<u64>,
    /// Times at which it started and finished computing.
    pub span_ns: Option<(u64, u64)>,
    /// Energy of the run, in microjoules.
    pub energy_uj: Option<u64>,
    /// Bytes of ports that were copied or converted for the run instead of being used in place.
    pub copied_bytes: Option<u64>,
}

impl Timing {
    pub(crate) fn record(&self) -> abi::polychip_timing {
        let bit = |present: bool, bit: u32| if present { bit } else { 0 };
        let (start_ns, end_ns) = self.span_ns.unwrap_or((0, 0));
        abi::polychip_timing {
            valid: bit(self.queued_ns.is_some(), abi::POLYCHIP_TIMING_QUEUED)
                | bit(self.span_ns.is_some(), abi::POLYCHIP_TIMING_SPAN)
                | bit(self.energy_uj.is_some(), abi::POLYCHIP_TIMING_ENERGY)
                | bit(self.copied_bytes.is_some(), abi::POLYCHIP_TIMING_COPIED),
            queued_ns: self.queued_ns.unwrap_or(0),
            start_ns,
            end_ns,
            energy_uj: self.energy_uj.unwrap_or(0),
            copied_bytes: self.copied_bytes.unwrap_or(0),
            ..<abi::polychip_timing as abi::Sized>::sized()
        }
    }
}

/// A measured step of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The plugin's name of the kernel or loop.
    pub name: Cow<'static, str>,
    /// The computed nodes, as indices in the part's graph; empty if the step serves the whole part.
    pub nodes: Arc<[u32]>,
    /// Time of the step, in nanoseconds.
    pub time_ns: u64,
    /// Arithmetic operations, if known; a multiply-add counts as two.
    pub operations: Option<u64>,
    /// Bytes read and written, if known.
    pub moved_bytes: Option<u64>,
    /// Whether a plain loop computes the step, because there is no kernel.
    pub is_reference: bool,
}

impl Step {
    /// The record, which points into this step.
    pub(crate) fn record(&self) -> abi::polychip_step {
        let bit = |present: bool, bit: u32| if present { bit } else { 0 };
        abi::polychip_step {
            flags: bit(self.is_reference, abi::POLYCHIP_STEP_REFERENCE)
                | bit(self.operations.is_some(), abi::POLYCHIP_STEP_OPERATIONS)
                | bit(self.moved_bytes.is_some(), abi::POLYCHIP_STEP_BYTES),
            name: crate::raw::to_text(&self.name),
            nodes: self.nodes.as_ptr(),
            node_count: self.nodes.len() as u64,
            time_ns: self.time_ns,
            operations: self.operations.unwrap_or(0),
            moved_bytes: self.moved_bytes.unwrap_or(0),
            ..<abi::polychip_step as abi::Sized>::sized()
        }
    }
}

pub use crate::services::SignalCallback;

/// The end of one run. Signals once, with the run's result. Methods are called from several threads
/// at once.
pub trait Fence: Send + Sync + Sized + 'static {
    /// Waits at most `timeout_ns` (or without limit: [`NO_TIMEOUT`]) and returns the run's result.
    ///
    /// # Errors
    /// `Timeout` if the run has not ended, otherwise the run's own error.
    fn wait(&self, timeout_ns: u64) -> Result<()>;

    /// Stores the callback and calls it once when the run ends, or immediately if it has ended.
    ///
    /// # Errors
    /// The callback cannot be stored.
    fn on_signal(&self, _signalled: SignalCallback) -> Result<()> {
        Err(Error::unsupported("this fence offers no callbacks"))
    }

    /// Measurements of a run that has ended. Does not block.
    ///
    /// # Errors
    /// The run has not ended, or nothing was measured.
    fn timing(&self) -> Result<Timing> {
        Err(Error::unsupported("this device measures nothing"))
    }

    /// Steps of an ended run that was asked to measure them. The fence keeps this allocation until it
    /// is destroyed, because the host holds addresses in it.
    ///
    /// # Errors
    /// The run has not ended, or nothing was measured.
    fn steps(&self) -> Result<Arc<[Step]>> {
        Err(Error::unsupported("this device measures no steps"))
    }

    /// Writes the actual extents of an output of a run that has ended, as many as fit, and returns
    /// the rank.
    ///
    /// # Errors
    /// The run has not ended, or the port does not exist.
    fn output_shape(&self, _port: u32, _dims: &mut [i64]) -> Result<usize> {
        Err(Error::unsupported("no port of this device states an upper bound"))
    }

    /// Asks the run to end early. Does not block.
    ///
    /// # Errors
    /// It cannot be stopped.
    fn cancel(&self) -> Result<()> {
        Err(Error::unsupported("runs cannot be cancelled"))
    }

    /// Returns a sync file, which the caller closes.
    ///
    /// # Errors
    /// There is no such file.
    fn export_fd(&self) -> Result<i64> {
        Err(Error::unsupported("sync files are not offered"))
    }
}

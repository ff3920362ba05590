//! Fences: the end of a run, and what the device measured of it.

use std::borrow::Cow;
use std::sync::Arc;

use polychip_abi as abi;

use crate::{Error, Result};

/// Wait for ever.
pub const NO_TIMEOUT: u64 = u64::MAX;

/// What a device measured of a run. Times are on the host's clock, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timing {
    /// When the device took the run into its queue.
    pub queued_ns: Option<u64>,
    /// When it began to compute and when it was done.
    pub span_ns: Option<(u64, u64)>,
    /// Energy of the run, in microjoules.
    pub energy_uj: Option<u64>,
    /// Bytes of ports that were copied or converted for the run instead of being used where they lie.
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

/// A step of a run, measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The kernel, in the plugin's words.
    pub name: Cow<'static, str>,
    /// Indices in the part's graph of the nodes that it computes; none where it serves the whole part.
    pub nodes: Arc<[u32]>,
    /// Its time, in nanoseconds.
    pub time_ns: u64,
    /// Arithmetic operations, where they are known: a multiplication and an addition are two.
    pub operations: Option<u64>,
    /// Bytes read and written, where they are known.
    pub moved_bytes: Option<u64>,
    /// It is computed by plain loops that stand in for a kernel.
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

/// The end of one run. Signals once, with the run's result.
pub trait Fence: Send + Sync + Sized + 'static {
    /// Waits at most `timeout_ns` ([`NO_TIMEOUT`]: for ever) and gives the run's result.
    ///
    /// # Errors
    /// `Timeout` where the run goes on, else the run's own error.
    fn wait(&self, timeout_ns: u64) -> Result<()>;

    /// Keeps the callback and calls it once when the run ends, at once where it has.
    ///
    /// # Errors
    /// Where the callback cannot be kept.
    fn on_signal(&self, _signalled: SignalCallback) -> Result<()> {
        Err(Error::unsupported("this fence calls nobody"))
    }

    /// What the device measured of a run that has ended.
    ///
    /// # Errors
    /// Where the run goes on or nothing was measured.
    fn timing(&self) -> Result<Timing> {
        Err(Error::unsupported("this device measures nothing"))
    }

    /// The steps of a run that was to measure them and has ended. The fence keeps this very allocation until it is destroyed: the
    /// host holds addresses in it.
    ///
    /// # Errors
    /// Where the run goes on or nothing was measured.
    fn steps(&self) -> Result<Arc<[Step]>> {
        Err(Error::unsupported("this device measures no steps"))
    }

    /// Writes the actual extents of an output of a run that has ended, as many as fit, and gives the
    /// rank.
    ///
    /// # Errors
    /// Where the run goes on or there is no such port.
    fn output_shape(&self, _port: u32, _dims: &mut [i64]) -> Result<usize> {
        Err(Error::unsupported("no port of this device states an upper bound"))
    }

    /// Asks the run to end early.
    ///
    /// # Errors
    /// Where it cannot be stopped.
    fn cancel(&self) -> Result<()> {
        Err(Error::unsupported("runs cannot be cancelled"))
    }

    /// A sync file that the caller closes.
    ///
    /// # Errors
    /// Where there is none.
    fn export_fd(&self) -> Result<i64> {
        Err(Error::unsupported("sync files are not offered"))
    }
}

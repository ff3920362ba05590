//! What the device measures: the span of each run, on the host's clock, where the chip is real.
//!
//! Invariant: an emulated device measures nothing: its times are those of the computer that emulates, and no
//! cost table may hold them.
//!
//! Not here: sensors. The library has none that a program may read, so there is no telemetry call.

use polychip_sdk::{HostServices, Timing};

/// Measures one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch {
    queued_ns: u64,
    start_ns: u64,
}

impl Stopwatch {
    /// The run was taken into the queue.
    pub(crate) fn queued(host: &HostServices) -> Stopwatch {
        let now_ns = host.now_ns();
        Stopwatch {
            queued_ns: now_ns,
            start_ns: now_ns,
        }
    }

    /// The device begins to compute.
    pub(crate) fn start(&mut self, host: &HostServices) {
        self.start_ns = host.now_ns();
    }

    /// The device is done.
    pub(crate) fn stop(self, host: &HostServices) -> Timing {
        Timing {
            queued_ns: Some(self.queued_ns),
            span_ns: Some((self.start_ns, host.now_ns())),
            energy_uj: None,
        }
    }
}

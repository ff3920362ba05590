//! What the device measures: the span of each run, on the host's clock. It has no sensors.
//!
//! Invariant: times come from the host's clock, which is virtual in tests.
//!
//! Not here, until there are sensors: `Device::telemetry`, which `Offers::telemetry` announces. A sensor that
//! is missing is `None`, never 0.

use polychip_sdk::{HostServices, Timing};

/// Measures one run.
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

//! A line in the log for a run that takes long, before it counts as hung.

use std::time::Duration;

use polychip_host::Clock;

use super::RunState;
use crate::session::wiring::Wiring;

/// The fraction of the hang timeout after which a run is reported as slow.
const FRACTION: u32 = 6;

impl RunState {
    /// Time until the run is reported as slow; the longest one if it was, and on virtual time.
    pub(super) fn quiet(&self, clock: &Clock, age: Duration, patience: Duration) -> Duration {
        if self.is_told_slow || clock.is_virtual() {
            return Duration::MAX;
        }
        (patience / FRACTION).saturating_sub(age)
    }

    /// Reports a slow run, once; returns whether it did.
    pub(super) fn tell_slow(&mut self, wiring: &Wiring, clock: &Clock, patience: Duration) -> bool {
        let age = self.age(clock);
        if !self.quiet(clock, age, patience).is_zero() {
            return false;
        }
        self.is_told_slow = true;
        let out = (0..self.fences.len()).find(|part| self.is_out(*part));
        if let Some(part) = out.map(|part| &wiring.parts[part]) {
            tracing::warn!(
                "part {} on {} (plugin {}) still runs after {:.1} s; after {:.1} s it counts as hung",
                part.id,
                part.handle.name(),
                part.handle.plugin().name,
                age.as_secs_f64(),
                patience.as_secs_f64()
            );
        }
        true
    }
}

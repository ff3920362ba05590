//! Traces of a session's runs.
//!
//! Not here: what is recorded (`trace`).

use super::Session;
use crate::trace::TracedRun;

impl Session {
    /// Records the part times of the next `runs` runs and discards earlier records; 0 stops tracing. For a
    /// model with open sizes, records runs of the last used sizes.
    pub fn start_trace(&self, runs: usize) {
        if let Some(inner) = self.0.latest() {
            inner.tracer.start(runs, false);
        }
    }

    /// Like [`Session::start_trace`], and devices that support it also time each step of a run
    /// ([`TracedPart::steps`](crate::TracedPart::steps)). This slows runs slightly: two clock reads per
    /// kernel.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), polychip::Error> {
    /// # let runtime = polychip::Runtime::builder().build()?;
    /// # let session = runtime.session(&runtime.load("model.onnx")?, polychip::Policy::latency())?;
    /// session.start_op_trace(1);
    /// session.submit(&[])?.wait(std::time::Duration::from_secs(60))?;
    /// let (runs, _) = session.trace();
    /// for step in runs.iter().flat_map(|run| &run.parts).flat_map(|part| &part.steps) {
    ///     println!("{} {} ns", step.kernel, step.time_ns);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_op_trace(&self, runs: usize) {
        if let Some(inner) = self.0.latest() {
            inner.tracer.start(runs, true);
        }
    }

    /// The traced runs, and the number of runs that the trace had no room for.
    #[must_use]
    pub fn trace(&self) -> (Vec<TracedRun>, u64) {
        self.0
            .latest()
            .map(|inner| inner.tracer.kept())
            .unwrap_or_default()
    }
}

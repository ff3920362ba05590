//! Runs that are used again, and the way to find those in flight.

use std::sync::{Arc, Mutex};

use super::lock;
use super::run::GpuRun;

/// Runs of one device.
#[derive(Default)]
pub(crate) struct Pool(Mutex<Vec<Arc<GpuRun>>>);

impl Pool {
    /// A run that nobody holds, or a new one.
    pub(crate) fn take(&self) -> Arc<GpuRun> {
        let mut runs = lock(&self.0);
        for run in runs.iter_mut() {
            if let Some(free) = Arc::get_mut(run)
                && free.renew()
            {
                return Arc::clone(run);
            }
        }
        let run = Arc::new(GpuRun::new());
        runs.push(Arc::clone(&run));
        run
    }

    /// Puts the runs that have not ended into `list`.
    pub(crate) fn in_flight(&self, list: &mut Vec<Arc<GpuRun>>) {
        list.clear();
        list.extend(lock(&self.0).iter().filter(|run| run.in_flight()).cloned());
    }
}

//! A loaded candidate and its runs.

use std::time::{Duration, Instant};

use polychip::{Planned, Session, WarmUp, Warmth};
use polychip_partitioner::Part;

use crate::pace::Pacer;
use crate::setup::PATIENCE;

/// A candidate that is loaded.
pub(super) struct Runner {
    pub(super) name: String,
    pub(super) because: Option<String>,
    pub(super) session: Session,
    pub(super) inputs: Vec<polychip::Input>,
    pub(super) times: Vec<u64>,
    /// What its last runs make one doubt of its plan.
    pub(super) warnings: Vec<polychip::Warning>,
}

impl Runner {
    /// One run; what it took in nanoseconds.
    pub(super) fn once(&mut self, pacer: &mut Pacer) -> anyhow::Result<u64> {
        let inputs: Vec<&polychip::Input> = self.inputs.iter().collect();
        pacer.wait();
        let start = Instant::now();
        drop(self.session.submit(&inputs)?.wait(PATIENCE)?);
        Ok(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Runs for this long at least, until the times are steady, or for as long as is waited for that.
    pub(super) fn warm_up(&mut self, pacer: &mut Pacer, least: Duration) -> anyhow::Result<()> {
        let start = Instant::now();
        let mut warm_up = WarmUp::at_least(least);
        loop {
            let took = self.once(pacer)?;
            let now = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            if warm_up.round(now, took, || None) != Warmth::Rising {
                self.session.forget();
                return Ok(());
            }
        }
    }

    /// Whether it runs the parts of this plan.
    pub(super) fn runs(&self, planned: &Planned) -> bool {
        self.session.planned().is_some_and(|own| {
            placement(&own.plan().devices, &own.plan().parts)
                == placement(&planned.plan().devices, &planned.plan().parts)
        })
    }
}

/// Nodes of each device: two plans of one placement run the same parts.
pub(super) fn placement(devices: &[String], parts: &[Part]) -> Vec<(String, Vec<u32>)> {
    let name = |part: &Part| devices.get(part.device.index()).cloned().unwrap_or_default();
    let mut all: Vec<(String, Vec<u32>)> = parts
        .iter()
        .map(|part| (name(part), part.nodes.clone()))
        .collect();
    all.sort();
    all
}

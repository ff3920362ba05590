//! Runs of a model, timed from submission to outputs.
//!
//! Invariant: inputs are written once, before the first run; one run is in flight.

use std::time::Instant;

use polychip::{Input, Session};
use polychip_farm_record::Measured;

use super::described;
use crate::inputs;
use crate::measuring::{Measuring, PATIENCE};

/// Measures the item.
pub(super) fn run(mut measuring: Measuring<'_>, others: &mut Option<u32>) -> anyhow::Result<Measured> {
    let effort = &measuring.assignment.effort;
    let start = Instant::now();
    let model = measuring.model()?;
    let session = measuring.runtime.session(&model, measuring.policy.clone())?;
    let load_ns = nanoseconds(start);
    let inputs = inputs::made(&session, &measuring.assignment.inputs)?;
    for _ in 0..effort.warmup {
        once(&session, &inputs)?;
    }
    measuring.begin();
    let mut samples_ns = Vec::with_capacity(effort.iters as usize);
    for _ in 0..effort.iters {
        samples_ns.push(once(&session, &inputs)?);
    }
    *others = measuring.others();
    Ok(Measured {
        samples_ns,
        load_ns: Some(load_ns),
        ..described::of(&measuring.runtime, &model, &measuring.policy, &session)?
    })
}

/// A run; its time in nanoseconds.
pub(super) fn once(session: &Session, inputs: &[Input]) -> anyhow::Result<u64> {
    let inputs: Vec<&Input> = inputs.iter().collect();
    let start = Instant::now();
    let outputs = session.submit(&inputs)?.wait(PATIENCE)?;
    let took = nanoseconds(start);
    drop(outputs);
    Ok(took)
}

fn nanoseconds(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

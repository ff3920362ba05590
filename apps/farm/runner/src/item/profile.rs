//! Measures parts of a model into the place's profile database.

use std::ops::ControlFlow;
use std::time::Duration;

use polychip::ProfileOptions;
use polychip_farm_record::{Measured, RefusedOps};

use super::described;
use crate::measuring::Measuring;

/// Measures the item.
pub(super) fn run(measuring: Measuring<'_>) -> anyhow::Result<Measured> {
    let runtime = &measuring.runtime;
    let model = measuring.model()?;
    let options = ProfileOptions {
        ops: true,
        time: Some(Duration::from_secs(u64::from(
            measuring.assignment.effort.seconds,
        ))),
        ..ProfileOptions::default()
    };
    let mut go_on = |_: &polychip::ProfileProgress<'_>| ControlFlow::Continue(());
    let report = runtime.profile_models(
        std::slice::from_ref(&model),
        &measuring.policy,
        &options,
        &mut go_on,
    )?;
    if let Some(words) = runtime.profile().trouble() {
        return Err(std::io::Error::other(format!("the measurements are not stored: {words}")).into());
    }
    // the plan as it is now that its parts are known
    let session = runtime.session(&model, measuring.policy.clone())?;
    let mut measured = described::of(runtime, &model, &measuring.policy, &session)?;
    measured
        .refused
        .extend(report.not_measured.into_iter().map(|one| RefusedOps {
            device: one.device,
            op: one.part,
            nodes: 1,
            reason: format!("not measured: {}", one.reason),
        }));
    Ok(measured)
}

//! The stored plan by its key.

use std::fmt::Write as _;

use polychip_graph::fingerprint;
use polychip_host::DeviceKind;
use polychip_partitioner::{self as partitioner, Objective, Plan, Request};
use polychip_profile::{Cadence, Profile};

use crate::policy::Settings;

/// Owner of these values, among the plugins' values.
pub(super) const OWNER: &str = "polychip";

/// What a plan is kept under.
pub(super) fn key(
    request: Request<'_>,
    objective: Objective,
    (settings, cadence): (Settings, Cadence),
    identities: &[String],
) -> String {
    let mut key = "settled ".to_owned();
    for byte in fingerprint::structure(request.graph) {
        // writing to a string does not fail
        let _ = write!(key, "{byte:02x}");
    }
    let point = settings.operating_point(DeviceKind::Cpu);
    // as JSON, whose field names are those of plan files: the text for people may be reworded
    let objective = objective.to_json();
    let _ = write!(key, "; {objective}; {point}; {}", identities.join(", "));
    if cadence != Cadence::BackToBack {
        let _ = write!(key, "; {cadence}");
    }
    key
}

/// The plan that was kept, at today's costs; none where none fits.
pub(in crate::planned) fn read(
    profile: &Profile,
    request: Request<'_>,
    settings: (Settings, Cadence),
    identities: &[String],
) -> Option<Plan> {
    let key = key(request, request.objective, settings, identities);
    let kept = profile.or_nothing(profile.plugin_value(OWNER, &key))?;
    let plan = Plan::from_json(std::str::from_utf8(&kept).ok()?).ok()?;
    let names = request.targets.iter().map(|target| &target.name);
    let fits = names.eq(&plan.devices) && plan.objective == request.objective;
    partitioner::check_placement(request, &plan)
        .ok()
        .filter(|()| fits)?;
    Some(plan)
}

//! The plan on which sessions settled, stored in the profile for the next start.
//!
//! Invariants:
//! 1. The key contains everything that the plan depends on: the model's structure, the devices with
//!    their drivers, the objective, the settings and the cadence. The plan is used only if it fits
//!    today's model and devices.
//! 2. It is a candidate, not an order: the planner compares it at today's costs (`incumbent`).

use std::fmt::Write as _;

use polychip_graph::fingerprint;
use polychip_host::DeviceKind;
use polychip_partitioner::{self as partitioner, Objective, Plan, Request};
use polychip_profile::{Cadence, Profile};

use super::Planned;
use crate::policy::Settings;
use crate::shared::Shared;

/// Owner of these values, among the plugins' values.
const OWNER: &str = "polychip";

/// What a plan is kept under.
fn key(
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
pub(super) fn read(
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

impl Planned {
    /// Whether its prices rest on all that is known of the devices by calibration.
    pub(crate) fn is_calibrated(&self, shared: &Shared, settings: Settings) -> bool {
        self.evidence
            .is_calibrated(&self.devices, self.rows(shared, settings))
    }

    /// Whether it is the plan that earlier sessions settled on.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled
    }

    /// Keeps the plan for the next start.
    pub(crate) fn keep_settled(&self, profile: &Profile, settings: Settings) {
        let identities: Vec<String> = self.devices.iter().map(polychip_host::Device::identity).collect();
        let settings = (settings, self.cadence());
        let key = key(self.request(), self.plan.objective, settings, &identities);
        let kept = profile.set_plugin_value(OWNER, &key, self.plan.to_json().as_bytes());
        if let Err(error) = kept {
            tracing::warn!("cannot store the plan for the next start: {error}");
        }
    }
}

//! The plan on which sessions settled, stored in the profile for the next start.
//!
//! Invariants:
//! 1. The key contains everything that the plan depends on: the model's structure, the devices with
//!    their drivers, the objective, the settings and the cadence. The plan is used only if it fits
//!    today's model and devices.
//! 2. It is a candidate, not an order: the planner compares it at today's costs (`incumbent`).

pub(super) mod stored;

use polychip_profile::Profile;

use super::Planned;
use crate::policy::Settings;
use crate::shared::Shared;
use stored::{OWNER, key};

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

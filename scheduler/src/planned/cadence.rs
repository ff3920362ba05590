//! The cadence that a plan is for: the app's own, where it states one, else that of the model's sessions before.
//!
//! Invariant: an app that states a period is taken at its word, and nothing is remembered of its sessions.

use std::time::Duration;

use polychip_graph::{Graph, fingerprint};
use polychip_profile::{Cadence, Profile, hex};

use super::{Planned, Rows, canonical, choose_devices, keeps_halves};
use crate::error::Result;
use crate::model::Model;
use crate::policy::{Policy, Settings};
use crate::shared::Shared;

/// Whose values periods are, among those of plugins.
const OWNER: &str = "polychip";

/// The cadence of a policy's runs of a model.
pub(super) fn asked(shared: &Shared, graph: &Graph, policy: &Policy) -> Cadence {
    if let Some(period) = policy.stated_period() {
        return Cadence::of_period(period);
    }
    Cadence::of_period(known_period(&shared.profile, graph).unwrap_or_default())
}

fn key(graph: &Graph) -> String {
    format!("period {}", hex(&fingerprint::structure(graph)))
}

/// At which period sessions of a model ran before; none where nothing is known of it.
fn known_period(profile: &Profile, graph: &Graph) -> Option<Duration> {
    if profile.has_no_parts().unwrap_or(true) {
        return None;
    }
    let kept = profile.or_nothing(profile.plugin_value(OWNER, &key(graph)))?;
    let ns = std::str::from_utf8(&kept).ok()?.parse().ok()?;
    Some(Duration::from_nanos(ns))
}

/// At which period sessions of a model ran before, by the runtime's profile; zero: back to back, or nothing is known.
pub(crate) fn known_period_of(shared: &Shared, model: &Model, policy: &Policy) -> Result<Duration> {
    if shared.profile.has_no_parts().unwrap_or(true) {
        return Ok(Duration::ZERO);
    }
    let devices = choose_devices(shared, policy)?;
    let graph = canonical(shared, model, keeps_halves(&devices, policy))?;
    Ok(known_period(&shared.profile, &graph).unwrap_or_default())
}

impl Planned {
    /// How the runs that the plan is for follow each other.
    #[must_use]
    pub fn cadence(&self) -> Cadence {
        self.now.first().and_then(|now| now.cadence).unwrap_or_default()
    }

    /// Keeps the period of a session's runs for the next start.
    pub(crate) fn keep_period(&self, profile: &Profile, period: Duration) {
        let ns = period.as_nanos().to_string();
        if let Err(error) = profile.set_plugin_value(OWNER, &key(&self.graph), ns.as_bytes()) {
            tracing::warn!("the period is not kept for the next start: {error}");
        }
    }

    /// The same plan with what the profile knows at another cadence, for plans that are made from it.
    pub(crate) fn at_cadence(&self, shared: &Shared, settings: Settings, cadence: Cadence) -> Planned {
        let mut made = self.clone();
        for now in &mut made.now {
            now.cadence = Some(cadence);
        }
        let rows = Rows {
            profile: &shared.profile,
            settings,
            now: &made.now,
        };
        made.evidence = self.evidence.under(&self.graph, &self.devices, rows);
        made.prices = made.evidence.resolve();
        made
    }
}

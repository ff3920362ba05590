//! The cadence of a plan: the app's period if set, else that of the model's earlier sessions.
//!
//! Invariant: a period that the app sets is used unchanged.

use std::time::Duration;

use polychip_graph::{Graph, fingerprint};
use polychip_profile::{Cadence, Profile, hex};

use crate::policy::Policy;

/// Owner of stored periods, among the plugins' values.
const OWNER: &str = "polychip";

/// The cadence of a policy's runs of a model.
pub(super) fn asked(profile: &Profile, graph: &Graph, policy: &Policy) -> Cadence {
    let stated = policy.stated_period();
    Cadence::of_period(stated.unwrap_or_else(|| known_period(profile, graph)))
}

fn key(graph: &Graph) -> String {
    format!("period {}", hex(&fingerprint::structure(graph)))
}

/// At which period sessions of a model ran before; zero: back to back, or nothing is known of it.
pub(super) fn known_period(profile: &Profile, graph: &Graph) -> Duration {
    if profile.has_no_parts().unwrap_or(true) {
        return Duration::ZERO;
    }
    let kept = profile.or_nothing(profile.plugin_value(OWNER, &key(graph)));
    let ns = kept.and_then(|kept| std::str::from_utf8(&kept).ok()?.parse().ok());
    Duration::from_nanos(ns.unwrap_or(0))
}

/// Keeps the period of a session's runs for the next start.
pub(super) fn keep_period(profile: &Profile, graph: &Graph, period: Duration) {
    let ns = period.as_nanos().to_string();
    if let Err(error) = profile.set_plugin_value(OWNER, &key(graph), ns.as_bytes()) {
        tracing::warn!("cannot store the period for the next start: {error}");
    }
}

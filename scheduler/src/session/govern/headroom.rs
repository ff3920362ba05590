//! The thermal headroom, converted to a surface temperature.
//!
//! Android does not let apps read sensor files, and provides a thermal headroom instead: 1 at
//! severe throttling, and 0 at 30 K below (AOSP, `ThermalManagerService`,
//! `DEGREES_BETWEEN_ZERO_AND_ONE`). It does not state the temperature at 1. Therefore the surface
//! counts as at its limit at 0.85: 4.5 K below severe throttling, a margin of our own choice.
//!
//! Invariants:
//! 1. The app's value takes precedence over the system's, and a surface sensor over both.
//! 2. Without a surface limit, one is set as soon as a headroom is known.

use polychip_governor::{Input, PolicyLimits, Reading, SensorLocation};

use super::state::State;
use crate::telemetry::Sample;

/// A headroom that is used up: the system is a step away from severe slowing down.
const MOST_PERMILLE: i64 = 850;
/// Thousandths of a degree of a thousandth of headroom.
const MILLIKELVIN: i64 = 30;
/// The default surface limit; with a headroom it is a mark on a scale.
const LIMIT_MC: i64 = 43_000;

/// Inputs from a thermal headroom if no sensor reads the surface: the reading, after a limit if none is set.
pub(super) fn inputs(state: &State, sample: &Sample) -> Vec<Input> {
    let limits = state.governor.limits();
    let limit = limits.temperature(SensorLocation::Skin);
    let Some(temperature_mc) = surface_mc(state, sample) else {
        return Vec::new();
    };
    let reading = Input::Reading(Reading {
        temperature_mc: Some(temperature_mc),
        ..Reading::of(SensorLocation::Skin)
    });
    match limit {
        Some(_) => vec![reading],
        None => {
            let limits = PolicyLimits {
                skin_mc: Some(LIMIT_MC),
                ..limits.clone()
            };
            vec![Input::Limits(limits), reading]
        }
    }
}

/// The surface's temperature by the headroom; none where a sensor reads it, or no headroom is known.
pub(super) fn surface_mc(state: &State, sample: &Sample) -> Option<i64> {
    if sample.surface_mc.value.is_some() {
        return None;
    }
    let from_app = state.headroom_permille.map(i64::from);
    let headroom = from_app.or(sample.heat.headroom_permille.value)?;
    let limit = state.governor.limits().temperature(SensorLocation::Skin);
    Some(limit.unwrap_or(LIMIT_MC) + (headroom - MOST_PERMILLE) * MILLIKELVIN)
}

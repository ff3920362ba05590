//! What is left of the way to severe slowing down, as a temperature of the surface.
//!
//! Android closes the files of its sensors to apps, and gives them a thermal headroom instead: 1 where the system slows down
//! severely, and 30 K below that 0 (AOSP, `ThermalManagerService`, `DEGREES_BETWEEN_ZERO_AND_ONE`). Which temperature 1 is,
//! it does not say; so the surface is said to be at its limit where 0.85 is reached: 4.5 K before that, a margin of our own choice.
//!
//! Invariants:
//! 1. What the app said counts before what the system says, and a sensor of the surface before both.
//! 2. Without a limit of the surface, one is set as soon as a headroom is known.

use polychip_governor::{Input, Place, PolicyLimits, Reading};

use super::state::State;
use crate::telemetry::Sample;

/// A headroom that is used up: the system is a step away from severe slowing down.
const MOST_PERMILLE: i64 = 850;
/// Thousandths of a degree of a thousandth of headroom.
const MILLIKELVIN: i64 = 30;
/// The limit of a surface of which nobody said any; with a headroom it is a mark on a scale.
const LIMIT_MC: i64 = 43_000;

/// What a headroom tells the governor where no sensor reads the surface: the reading, and before it a limit where there is none.
pub(super) fn inputs(state: &State, sample: &Sample) -> Vec<Input> {
    let limits = state.governor.limits();
    let limit = limits.temperature(Place::Skin);
    let Some(temperature_mc) = surface_mc(state, sample) else {
        return Vec::new();
    };
    let reading = Input::Reading(Reading {
        temperature_mc: Some(temperature_mc),
        ..Reading::of(Place::Skin)
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
    let told = state.headroom_permille.map(i64::from);
    let headroom = told.or(sample.heat.headroom_permille.value)?;
    let limit = state.governor.limits().temperature(Place::Skin);
    Some(limit.unwrap_or(LIMIT_MC) + (headroom - MOST_PERMILLE) * MILLIKELVIN)
}

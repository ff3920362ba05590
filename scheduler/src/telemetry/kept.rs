//! Stores measured energy in the profile for the part that a device ran.
//!
//! Not here: measuring (`energy`), storage of rows (`profile`), their use in plans (`cost_model`).

use polychip_profile::{Measurement, PartKey};

use super::energy::Interval;
use crate::cost_model::structure;
use crate::error::Result;
use crate::planned::Planned;
use crate::policy::Policy;
use crate::shared::Shared;

/// Keeps the energy of a run of the one part that a plan gives to a device; whether it did.
pub(crate) fn record(
    shared: &Shared,
    planned: &Planned,
    policy: &Policy,
    device: &str,
    sensor: &str,
    net_uj: &Interval,
) -> Result<bool> {
    let Some(index) = planned.devices().iter().position(|found| found.name() == device) else {
        return Ok(false);
    };
    let mut parts = planned
        .plan()
        .parts
        .iter()
        .filter(|part| part.device.index() == index);
    let (Some(part), None) = (parts.next(), parts.next()) else {
        return Ok(false);
    };
    // noise around nothing is no figure
    if !net_uj.mean.is_finite() || net_uj.low <= 0.0 {
        return Ok(false);
    }
    let found = &planned.devices()[index];
    let settings = policy.settings();
    let structure = structure(planned.graph(), part);
    let Some(known) = planned.rows(shared, settings).of(&structure, found, part.device) else {
        return Ok(false);
    };
    let measurement = Measurement {
        time: known.p50,
        energy_uj: Some(net_uj.mean.round() as u64),
    };
    let key = PartKey {
        device: &found.identity(),
        fingerprint: &structure,
        operating_point: &settings.operating_point(found.info().kind),
    };
    // above zero, as was looked at; `as` saturates
    let interval_uj = [net_uj.low, net_uj.high].map(|end| end.round() as u64);
    let emulated = found.info().emulated;
    shared
        .profile
        .record_energy(key, emulated, measurement, sensor, interval_uj)?;
    Ok(true)
}

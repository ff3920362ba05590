//! Measured energy in the profile: kept for the part that a device ran, and as the device's power in new plans.
//!
//! Invariant: a device's power is that of the whole model on it, measured; nodes are then priced by it as an estimate,
//! and the part that was measured by its own figure.
//!
//! Not here: measuring (`energy`), where rows lie (`profile`).

use polychip_graph::{Graph, fingerprint};
use polychip_host::Device;
use polychip_partitioner::{self as partitioner, Milliwatts};
use polychip_profile::{Measurement, PartKey};

use super::energy::Interval;
use crate::error::Result;
use crate::planned::Planned;
use crate::policy::Policy;
use crate::price::{Prices, Rows, alone, part_graph};
use crate::runtime::Shared;

/// Keeps the energy of a run of the one part that a plan gives to a device; whether it did.
pub(crate) fn record(
    shared: &Shared,
    planned: &Planned,
    policy: &Policy,
    device: &str,
    sensor: &str,
    net_uj: &Interval,
) -> Result<bool> {
    let Some(column) = planned.devices().iter().position(|found| found.name() == device) else {
        return Ok(false);
    };
    let mut parts = planned
        .plan()
        .parts
        .iter()
        .filter(|part| part.device as usize == column);
    let (Some(part), None) = (parts.next(), parts.next()) else {
        return Ok(false);
    };
    // noise around nothing is no figure
    if !net_uj.mean.is_finite() || net_uj.low <= 0.0 {
        return Ok(false);
    }
    let found = &planned.devices()[column];
    let settings = policy.settings();
    let Some(known) = planned
        .rows(shared, settings)
        .of(planned.graph(), planned.devices(), part)
    else {
        return Ok(false);
    };
    let measurement = Measurement {
        time: known.p50,
        energy_uj: Some(net_uj.mean.round() as u64),
    };
    let structure = fingerprint::structure(&part_graph(planned.graph(), part));
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

/// Gives each device the power that it took while it ran the whole model, where that was measured.
pub(crate) fn use_power(graph: &Graph, devices: &[Device], prices: &mut Prices, rows: Rows<'_>) {
    let nodes = graph.node_count();
    for column in 0..devices.len() {
        let Some(part) = alone(graph, prices, column) else {
            continue;
        };
        let Some(known) = rows.of(graph, devices, &part) else {
            continue;
        };
        // microjoules over picoseconds are 1e9 milliwatts
        let power = known
            .energy_uj
            .map(|energy| u128::from(energy) * 1_000_000_000 / u128::from(known.p50.picoseconds().max(1)));
        if let Some(power) = power
            .and_then(|power| u64::try_from(power).ok())
            .filter(|&power| power > 0)
        {
            prices.targets[column].power = Some(Milliwatts::new(power));
            for node in 0..nodes {
                // what the plugin guessed gives way to what was measured
                if let Some(cost) = prices.costs.node(node, column).copied() {
                    prices
                        .costs
                        .set_node(node, column, partitioner::Cost { energy: None, ..cost });
                }
            }
        }
    }
}

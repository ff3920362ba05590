//! A device's power in new plans, from the energy that was measured.
//!
//! Invariant: a device's power is that of the whole model on it, measured; nodes are then priced by it as an estimate,
//! and the part that was measured by its own figure.

use polychip_graph::Graph;
use polychip_host::Device;
use polychip_partitioner::{self as partitioner, Milliwatts};

use crate::price::{Prices, Rows, alone};

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

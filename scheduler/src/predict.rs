//! What parts that nobody measured take: composed of, or predicted from, those that were measured.
//!
//! Order of trust: a whole composed of measured stretches, then the law of each piece's family. Both replace what a
//! plugin estimates; a measured part replaces both.
//!
//! Invariant: the same profile gives the same prices.
//!
//! Not here: measuring (`profiler`), what plans do with a price (`price`).

mod check;
mod fit;
mod nnls;
pub(crate) mod piece;
pub(crate) mod stretch;

use std::collections::BTreeMap;
use std::sync::Arc;

use polychip_graph::Graph;
use polychip_host::Device;
use polychip_partitioner::{Cost, CostTable, Nanos, Provenance, Target};

pub use check::{DevicePrediction, Errors, FamilyLaw, ModelPrediction};
use fit::{Fit, Table, Without};
pub(crate) use piece::{Content, words};
use piece::{Piece, nodes_of_pieces};
use stretch::Composition;

use crate::conditions::Conditions;
use crate::error::Result;
use crate::policy::Settings;
use crate::profile::{Profile, ProfileFile};

/// What marks the operating point under which times from submit to outputs are stored.
const END_TO_END: &str = "end-to-end";

/// The operating point under which times from submit to outputs are stored, beside times on the device.
pub(crate) fn end_to_end(operating_point: &str) -> String {
    if operating_point.is_empty() {
        END_TO_END.to_owned()
    } else {
        format!("{operating_point} {END_TO_END}")
    }
}

/// The operating point of the device, where this is one of times from submit to outputs.
fn on_device(operating_point: &str) -> Option<&str> {
    operating_point.strip_suffix(END_TO_END).map(str::trim_end)
}

/// Everything that is fitted on a profile.
#[derive(Debug, Default)]
pub(crate) struct Laws {
    table: Table,
    fits: BTreeMap<(String, String), Fit>,
}

impl Laws {
    pub(crate) fn new(file: &ProfileFile) -> Laws {
        let table = Table::new(file);
        let fits = table.devices.iter().filter_map(|(key, known)| {
            let fit = Fit::new(&table, known, &Without::default())?;
            Some((key.clone(), fit))
        });
        let fits = fits.collect();
        Laws { table, fits }
    }
}

/// Replaces what a device's plugin estimates by what the profile teaches of its nodes.
pub(crate) fn use_laws(
    graph: &Graph,
    device: &Device,
    column: usize,
    target: &Target,
    costs: &mut CostTable,
    settings: Settings,
    profile: &Profile,
    now: &Conditions,
) {
    let laws: Result<Arc<Laws>> = profile.laws(&device.identity(), now);
    let laws = profile.or_nothing(laws);
    let key = (device.identity(), settings.operating_point(device.info().kind));
    let (Some(fit), Some(known)) = (laws.fits.get(&key), laws.table.devices.get(&key)) else {
        return;
    };
    for nodes in nodes_of_pieces(graph) {
        if nodes.iter().all(|node| target.supports(*node as usize))
            && let Some(time) = fit.piece(&Piece::of(graph, &nodes))
        {
            share(costs, column, &nodes, time, Provenance::Predicted);
        }
    }
    let all: Vec<u32> = graph.nodes().map(|(id, _)| id.index() as u32).collect();
    if all.iter().all(|node| target.supports(*node as usize))
        && let Some(time) = fit.whole(known, &Composition::of(graph))
    {
        share(costs, column, &all, time, Provenance::Composed);
    }
}

/// Shares a time in nanoseconds among nodes, in the proportions of what they are said to cost.
fn share(costs: &mut CostTable, column: usize, nodes: &[u32], time: f64, provenance: Provenance) {
    let cost = |costs: &CostTable, node: &u32| costs.node(*node as usize, column).copied();
    let known: Vec<(usize, Cost)> = nodes
        .iter()
        .filter_map(|node| Some((*node as usize, cost(costs, node)?)))
        .collect();
    let summed: f64 = known.iter().map(|(_, cost)| cost.time.picoseconds() as f64).sum();
    for (node, cost) in known {
        let part = match summed > 0.0 {
            true => cost.time.picoseconds() as f64 / summed,
            false => 1.0 / nodes.len() as f64,
        };
        // a node that takes nothing at all is one that a plan may put anywhere; `as` saturates
        let picoseconds = ((time * 1e3 * part).round() as u64).max(1);
        let cost = Cost {
            time: Nanos::from_picoseconds(picoseconds),
            provenance,
            ..cost
        };
        costs.set_node(node, column, cost);
    }
}

#[cfg(test)]
mod tests;

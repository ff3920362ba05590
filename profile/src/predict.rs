//! What parts that nobody measured take: composed of, or predicted from, those that were measured.
//!
//! Order of trust: a whole composed of measured stretches, then the law of each piece's family. Both replace what a
//! plugin estimates; a measured part replaces both.
//!
//! Invariant: the same profile gives the same prices.
//!
//! Not here: measuring, what plans do with a price (the scheduler).

mod check;
mod content;
mod fit;
mod nnls;
mod piece;
mod point;
mod stretch;

use std::collections::BTreeMap;

use polychip_graph::Graph;
use polychip_partitioner::{Cost, CostTable, Nanos, Provenance, Target};

pub(crate) use check::check;
pub use check::{DevicePrediction, Errors, FamilyLaw, ModelPrediction};
pub use content::{Content, words};
use fit::{Fit, Table, Without};
use piece::Piece;
pub use piece::nodes_of_pieces;
pub use point::end_to_end;
pub(crate) use point::is_end_to_end;
use stretch::Composition;
pub use stretch::stretches;

use crate::record::ProfileFile;

/// Everything that is fitted on a profile.
#[derive(Debug, Default)]
pub struct Laws {
    table: Table,
    fits: BTreeMap<(String, String), Fit>,
}

impl Laws {
    /// What is fitted on these records.
    #[must_use]
    pub fn new(file: &ProfileFile) -> Laws {
        let table = Table::new(file);
        let fits = table.devices.iter().filter_map(|(key, known)| {
            let fit = Fit::new(&table, known, &Without::default())?;
            Some((key.clone(), fit))
        });
        let fits = fits.collect();
        Laws { table, fits }
    }

    /// Replaces what a device's plugin estimates by what the profile teaches of its nodes.
    pub fn price(
        &self,
        graph: &Graph,
        device: &str,
        operating_point: &str,
        column: usize,
        target: &Target,
        costs: &mut CostTable,
    ) {
        let key = (device.to_owned(), operating_point.to_owned());
        let (Some(fit), Some(known)) = (self.fits.get(&key), self.table.devices.get(&key)) else {
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

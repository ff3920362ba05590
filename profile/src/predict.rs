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
use polychip_partitioner::Target;

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

    /// What these teach of the pieces of a graph that a device runs, and of all of it.
    #[must_use]
    pub fn predicted(
        &self,
        graph: &Graph,
        device: &str,
        operating_point: &str,
        target: &Target,
    ) -> Predicted {
        let key = (device.to_owned(), operating_point.to_owned());
        let (Some(fit), Some(known)) = (self.fits.get(&key), self.table.devices.get(&key)) else {
            return Predicted::default();
        };
        let runs = |nodes: &[u32]| nodes.iter().all(|node| target.supports(*node as usize));
        let pieces = nodes_of_pieces(graph).into_iter().filter(|nodes| runs(nodes));
        let pieces = pieces.filter_map(|nodes| {
            let time = fit.piece(&Piece::of(graph, &nodes))?;
            Some((nodes, time))
        });
        let all: Vec<u32> = graph.nodes().map(|(id, _)| id.index() as u32).collect();
        let whole = runs(&all).then(|| fit.whole(known, &Composition::of(graph)));
        Predicted {
            pieces: pieces.collect(),
            whole: whole.flatten(),
        }
    }
}

/// What a profile teaches of a graph on a device.
#[derive(Debug, Clone, Default)]
pub struct Predicted {
    /// The nodes of a piece, and what the law of its family says that they take, in nanoseconds.
    pub pieces: Vec<(Vec<u32>, f64)>,
    /// What all nodes take by the measured stretches that they are composed of, in nanoseconds.
    pub whole: Option<f64>,
}

#[cfg(test)]
mod tests;

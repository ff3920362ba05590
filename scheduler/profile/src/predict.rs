//! What parts that nobody measured take: composed of, or predicted from, those that were measured.
//!
//! Order of trust: a whole composed of measured segments, then the regression model of each fusion group's op class.
//! Both replace what a plugin estimates; a measured part replaces both.
//!
//! Invariant: the same profile gives the same prices.
//!
//! Not here: measuring, what plans do with a price (the scheduler).

mod check;
mod content;
mod fit;
mod group;
mod nnls;
mod point;
mod segment;

use std::collections::BTreeMap;

use polychip_graph::Graph;
use polychip_partitioner::Target;

pub(crate) use check::check;
pub use check::{DevicePrediction, Errors, ModelPrediction, OpClassModel};
pub use content::{Content, words};
use fit::{Fit, Table, Without};
use group::FusionGroup;
pub use group::fusion_groups;
pub use point::end_to_end;
pub(crate) use point::is_end_to_end;
use segment::Composition;
pub use segment::segments;

use crate::cadence::Cadence;
use crate::narrow::Narrowed;
use crate::power::{self, DrawnPower};
use crate::record::ProfileFile;

/// Everything that is fitted on a profile.
#[derive(Debug, Default)]
pub struct Regression {
    table: Table,
    fits: BTreeMap<(String, String), Fit>,
    powers: BTreeMap<(String, String), DrawnPower>,
    /// What of the rows is of another cadence.
    narrowed: Narrowed,
}

impl Regression {
    /// What is fitted on these records.
    #[must_use]
    pub fn new(file: &ProfileFile) -> Regression {
        let table = Table::new(file);
        let fits = table.devices.iter().filter_map(|(key, known)| {
            let fit = Fit::new(&table, known, &Without::default())?;
            Some((key.clone(), fit))
        });
        let fits = fits.collect();
        Regression {
            table,
            fits,
            powers: power::drawn(file),
            narrowed: Narrowed::default(),
        }
    }

    /// The same, of rows some of which may be of another cadence than the one asked for.
    pub(crate) fn inheriting(self, narrowed: Narrowed) -> Regression {
        Regression { narrowed, ..self }
    }

    /// How many times as long the device takes at the cadence asked for as at another; none where no part was measured at
    /// both.
    #[must_use]
    pub fn cadence_factor(&self, from: Option<Cadence>) -> Option<f64> {
        self.narrowed.factor(from)
    }

    /// What a device drew at an operating point while it ran what was measured with its energy.
    #[must_use]
    pub fn power(&self, device: &str, operating_point: &str) -> Option<DrawnPower> {
        let key = (device.to_owned(), operating_point.to_owned());
        self.powers.get(&key).copied()
    }

    /// What these teach of the groups of a graph that a device runs, and of all of it.
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
        let groups = fusion_groups(graph).into_iter().filter(|nodes| runs(nodes));
        let groups = groups.filter_map(|nodes| {
            let time = fit.group(&FusionGroup::of(graph, &nodes))?;
            Some((nodes, time))
        });
        let all: Vec<u32> = graph.nodes().map(|(id, _)| id.index() as u32).collect();
        let whole = runs(&all).then(|| fit.whole(known, &Composition::of(graph)));
        Predicted {
            groups: groups.collect(),
            whole: whole.flatten(),
            inherited: self.narrowed.is_inherited,
        }
    }
}

/// What a profile teaches of a graph on a device.
#[derive(Debug, Clone, Default)]
pub struct Predicted {
    /// The nodes of a group, and what the regression model of its op class says that they take, in nanoseconds.
    pub groups: Vec<(Vec<u32>, f64)>,
    /// What all nodes take by the measured segments that they are composed of, in nanoseconds.
    pub whole: Option<f64>,
    /// Some of what these rest on was measured at another cadence than the one asked for.
    pub inherited: bool,
}

#[cfg(test)]
mod tests;

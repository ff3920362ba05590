//! Times of unmeasured parts, composed of or predicted from measured ones.
//!
//! Order of trust: a measured part, then a whole composed of measured segments, then the regression
//! model of each fusion group's op class, then a plugin's estimate.
//!
//! Invariant: the same profile gives the same costs.
//!
//! Not here: measuring, the use of costs in plans (the scheduler).

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

/// All models fitted to a profile.
#[derive(Debug, Default)]
pub struct Regression {
    table: Table,
    fits: BTreeMap<(String, String), Fit>,
    powers: BTreeMap<(String, String), DrawnPower>,
    /// What of the rows is of another cadence.
    narrowed: Narrowed,
}

impl Regression {
    /// Fits the models to these records.
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

    /// The ratio of a device's times at the requested cadence to another; `None` if no part was
    /// measured at both.
    #[must_use]
    pub fn cadence_factor(&self, from: Option<Cadence>) -> Option<f64> {
        self.narrowed.factor(from)
    }

    /// Power of a device at an operating point, from its measured energies.
    #[must_use]
    pub fn power(&self, device: &str, operating_point: &str) -> Option<DrawnPower> {
        let key = (device.to_owned(), operating_point.to_owned());
        self.powers.get(&key).copied()
    }

    /// Predictions for the groups of a graph on a device, and for the whole graph.
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

/// A profile's predictions for a graph on a device.
#[derive(Debug, Clone, Default)]
pub struct Predicted {
    /// The nodes of a group, and the time predicted by the regression model of its op class, in
    /// nanoseconds.
    pub groups: Vec<(Vec<u32>, f64)>,
    /// The time of all nodes, composed of measured segments, in nanoseconds.
    pub whole: Option<f64>,
    /// Whether some figures were measured at another cadence than requested.
    pub inherited: bool,
}

#[cfg(test)]
mod tests;

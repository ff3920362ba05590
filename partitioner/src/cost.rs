//! Costs of nodes and parts on each device, with provenance.
//!
//! Invariants: every figure carries its provenance and whether an emulated device produced it;
//! nodes are addressed by their index in the graph's canonical order, devices by their index in the
//! list of targets; a part is addressed by its set of nodes, in any order. Deliberately not here:
//! measuring (the scheduler does) and transfers (see `link`).

use crate::power::{EnergyProvenance, EnergyRange};
use crate::unit::{Energy, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Provenance of a figure, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Provenance {
    /// Measured on the device, for exactly this node or part.
    Measured,
    /// Summed from measurements of smaller parts, or a share of a measured larger one.
    Composed,
    /// Predicted by a regression model fitted to measurements of other parts on the device.
    Predicted,
    /// Measured on the device at another cadence of runs, or predicted from such measurements; a
    /// share of it if the measurement is of a whole.
    #[serde(rename = "other cadence")]
    OtherCadence,
    /// Measured on a device of the same name on another chip; a share of it if the measurement is
    /// of a whole.
    #[serde(rename = "other device")]
    OtherDevice,
    /// Stated by the device's plugin, scaled by the ratio of measured to stated time of small
    /// networks.
    Calibrated,
    /// Stated by the device's plugin.
    Estimated,
    /// Derived from peak arithmetic and memory speeds.
    Roofline,
}

impl Provenance {
    /// The word that reports use.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Composed => "composed",
            Self::Predicted => "predicted",
            Self::OtherCadence => "other cadence",
            Self::OtherDevice => "other device",
            Self::Calibrated => "calibrated",
            Self::Estimated => "estimated",
            Self::Roofline => "roofline",
        }
    }

    /// The provenance of a sum of two figures: the weaker of the two, and at best `Composed`.
    #[must_use]
    pub fn sum(self, other: Self) -> Self {
        self.max(other).max(Self::Composed)
    }
}

/// The cost of a node or part on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Time on the device, without launch and transfers; JSON holds picoseconds.
    #[serde(rename = "time_ps")]
    pub time: Time,
    /// Energy, if known; JSON holds nanojoules.
    #[serde(rename = "energy_nj")]
    pub energy: Option<Energy>,
    /// Interval and provenance of the energy; none if it is exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy_range: Option<EnergyRange>,
    /// Provenance of the time.
    pub provenance: Provenance,
    /// Whether an emulated device produced the figure.
    pub emulated: bool,
}

impl Cost {
    /// A cost in time alone.
    #[must_use]
    pub fn time(time: Time, provenance: Provenance) -> Self {
        Self {
            time,
            energy: None,
            energy_range: None,
            provenance,
            emulated: false,
        }
    }

    /// The same cost with an exact energy.
    #[must_use]
    pub fn with_energy(self, energy: Energy) -> Self {
        Self {
            energy: Some(energy),
            energy_range: None,
            ..self
        }
    }

    /// The same cost with an energy and its interval.
    #[must_use]
    pub fn with_energy_within(self, energy: Energy, range: EnergyRange) -> Self {
        Self {
            energy: Some(energy),
            energy_range: Some(range),
            ..self
        }
    }

    /// The expected energy, even if the cost holds an upper bound.
    #[must_use]
    pub fn expected_energy(&self) -> Option<Energy> {
        self.range().map(|range| range.expected)
    }

    /// The interval of the energy; `None` without an energy.
    #[must_use]
    pub fn range(&self) -> Option<EnergyRange> {
        let exact = || EnergyRange::exact(self.energy.unwrap_or_default(), EnergyProvenance::Vendor);
        self.energy.map(|_| self.energy_range.unwrap_or_else(exact))
    }

    /// The cost of both in sequence; `None` on overflow. The energy is known if both are.
    #[must_use]
    pub fn sum(self, other: Self) -> Option<Self> {
        let energy = match (self.energy, other.energy) {
            (Some(a), Some(b)) => Some(a.checked_add(b)?),
            _ => None,
        };
        let energy_range = match (energy, self.energy_range, other.energy_range) {
            (None, ..) | (_, None, None) => None,
            _ => self.range().zip(other.range()).and_then(|(a, b)| a.sum(b)),
        };
        Some(Self {
            time: self.time.checked_add(other.time)?,
            energy,
            energy_range,
            provenance: self.provenance.sum(other.provenance),
            emulated: self.emulated || other.emulated,
        })
    }

    /// The same cost, labelled as an emulated device's.
    #[must_use]
    pub fn emulated(self) -> Self {
        Self {
            emulated: true,
            ..self
        }
    }
}

/// Costs of every node and of known parts on every device.
///
/// ```
/// use polychip_partitioner::{Cost, CostTable, Time, Provenance};
/// let mut costs = CostTable::new(2, 1);
/// costs.set_node(0, 0, Cost::time(Time::from_nanoseconds(250), Provenance::Estimated));
/// costs.set_part(&[1, 0], 0, Cost::time(Time::from_nanoseconds(400), Provenance::Measured));
/// assert!(costs.node(1, 0).is_none());
/// assert_eq!(costs.part(&[0, 1], 0).unwrap().time.nanoseconds(), 400);
/// ```
#[derive(Clone, Debug, Default)]
pub struct CostTable {
    nodes: usize,
    /// By device, then by node. Several tables may share a column.
    columns: Vec<Arc<Vec<Option<Cost>>>>,
    by_part: BTreeMap<(usize, Vec<usize>), Cost>,
}

impl CostTable {
    /// An empty table for a graph of `nodes` nodes and a list of `devices` targets.
    #[must_use]
    pub fn new(nodes: usize, devices: usize) -> Self {
        // shared until one is set
        let empty = Arc::new(vec![None; nodes]);
        Self {
            nodes,
            columns: std::iter::repeat_n(empty, devices).collect(),
            by_part: BTreeMap::new(),
        }
    }

    /// Number of nodes (rows).
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Number of devices (columns).
    #[must_use]
    pub fn devices(&self) -> usize {
        self.columns.len()
    }

    /// Sets the cost of a node on a device. Returns false, and changes nothing, for a pair outside
    /// the table.
    pub fn set_node(&mut self, node: usize, device: usize, cost: Cost) -> bool {
        let Some(column) = self.columns.get_mut(device).filter(|_| node < self.nodes) else {
            return false;
        };
        Arc::make_mut(column)[node] = Some(cost);
        true
    }

    /// Sets the costs of all nodes on a device without copying them. Returns false, and changes
    /// nothing, for a column of another length or a device outside the table.
    pub fn set_device(&mut self, device: usize, costs: Arc<Vec<Option<Cost>>>) -> bool {
        match self.columns.get_mut(device) {
            Some(column) if costs.len() == self.nodes => {
                *column = costs;
                true
            }
            _ => false,
        }
    }

    /// The cost of a node on a device, if known.
    #[must_use]
    pub fn node(&self, node: usize, device: usize) -> Option<&Cost> {
        self.columns.get(device)?.get(node)?.as_ref()
    }

    /// Sets the cost of a whole part (nodes compiled together) on a device. It replaces the sum of
    /// its nodes where a plan has exactly this part. Returns false, and changes nothing, for a set
    /// that is empty or outside the table.
    pub fn set_part(&mut self, nodes: &[usize], device: usize, cost: Cost) -> bool {
        let key = part_key(nodes);
        if device >= self.devices() || key.last().is_none_or(|&last| last >= self.nodes) {
            return false;
        }
        self.by_part.insert((device, key), cost);
        true
    }

    /// The cost of a whole part on a device, if known.
    #[must_use]
    pub fn part(&self, nodes: &[usize], device: usize) -> Option<&Cost> {
        if self.by_part.is_empty() {
            return None;
        }
        self.by_part.get(&(device, part_key(nodes)))
    }

    /// Every known part in a fixed order: device, nodes in ascending order, cost.
    pub fn parts(&self) -> impl Iterator<Item = (usize, &[usize], &Cost)> {
        self.by_part
            .iter()
            .map(|((device, nodes), cost)| (*device, nodes.as_slice(), cost))
    }
}

fn part_key(nodes: &[usize]) -> Vec<usize> {
    let mut key = nodes.to_vec();
    key.sort_unstable();
    key.dedup();
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_provenance_is_the_weakest() {
        assert_eq!(
            Provenance::Measured.sum(Provenance::Measured),
            Provenance::Composed
        );
        assert_eq!(
            Provenance::Measured.sum(Provenance::Roofline),
            Provenance::Roofline
        );
    }

    #[test]
    fn pairs_outside_the_table_are_refused() {
        let cost = Cost::time(Time::from_nanoseconds(1), Provenance::Measured);
        let mut table = CostTable::new(2, 2);
        assert!(!table.set_node(2, 0, cost));
        assert!(!table.set_node(0, 2, cost));
        assert!(!table.set_device(2, Arc::new(vec![None; 2])));
        assert!(!table.set_device(0, Arc::new(vec![None; 3])));
        assert!(!table.set_part(&[], 0, cost));
        assert!(!table.set_part(&[0, 2], 0, cost));
        assert!(table.set_part(&[1, 0], 1, cost));
        assert_eq!(table.parts().count(), 1);
        assert!(table.node(0, 2).is_none());
    }
}

//! The cost of a plan within limits with one node forced onto another device: the best plan found,
//! and a bound for all such plans.
//!
//! Invariants: the plan found has the node there, and holds the limits or is reported not to; the
//! bound is the Lagrangian's (`lagrangian`), so that no plan with the node there within the limits
//! is below it; effort is counted. Deliberately not here: costs of whole parts, which are not the
//! sum of their nodes.

use super::draw::{Cap, caps};
use super::improve::{Changes, Improved};
use super::lagrangian::{Dual, Multipliers};
use super::{broken_limit, excess, placed, settings};
use crate::cost::Cost;
use crate::error::Error;
use crate::instance::Inputs;

/// Changes that are priced for one question, and for all of one explanation: a second or so.
const ONE: u64 = 30_000;
const ALL: u64 = 12_000_000;

/// Nodes of a graph that is small enough to be solved anew for every question.
const SMALL: usize = 256;

/// Multipliers and caps of an objective's limits.
pub(crate) struct Rules {
    caps: Vec<Cap>,
    multipliers: Vec<Multipliers>,
}

impl Rules {
    /// Those of the best bound, and none.
    pub(crate) fn new(inputs: &Inputs<'_>, edges: &[(usize, usize)]) -> Self {
        let caps = caps(inputs);
        let none = Multipliers::none(inputs.targets.len(), caps.len());
        let dual = placed(inputs, edges).ok().and_then(|placed| placed.dual);
        Self {
            multipliers: std::iter::once(none).chain(dual).collect(),
            caps,
        }
    }
}

/// Answers what a node on another device would cost.
pub(crate) struct Forced<'a> {
    inputs: &'a Inputs<'a>,
    edges: &'a [(usize, usize)],
    changes: Changes<'a>,
    caps: &'a [Cap],
    duals: Vec<Dual<'a>>,
    left: u64,
}

/// The outcome of forcing nodes onto a device.
pub(crate) struct ForcedOutcome {
    /// Value of the plan found.
    pub(crate) value: u64,
    /// Whether it keeps every limit.
    pub(crate) holds: bool,
    /// Whether other nodes were moved to improve the plan.
    pub(crate) replanned: bool,
    /// Lower bound on all plans within the limits.
    pub(crate) bound: Option<u64>,
}

impl<'a> Forced<'a> {
    /// None where parts have stated costs.
    pub(crate) fn new(
        inputs: &'a Inputs<'a>,
        edges: &'a [(usize, usize)],
        rules: &'a Rules,
    ) -> Result<Option<Self>, Error> {
        let Some(changes) = Changes::new(inputs, &rules.caps)? else {
            return Ok(None);
        };
        let duals = rules.multipliers.iter();
        Ok(Some(Self {
            inputs,
            edges,
            changes,
            caps: &rules.caps,
            duals: duals
                .filter_map(|multipliers| Dual::new(inputs, &rules.caps, multipliers))
                .collect(),
            left: ALL,
        }))
    }

    /// A node of a placement on another device, at this cost; none where no link leads there.
    pub(crate) fn ask(
        &mut self,
        placement: &[usize],
        node: usize,
        device: usize,
        cost: &Cost,
    ) -> Option<ForcedOutcome> {
        let energy = cost.energy.map_or(0, |energy| energy.nanojoules());
        let before = self
            .changes
            .allow(node, device, (cost.time.picoseconds(), energy));
        let (inputs, edges) = (self.inputs, self.edges);
        let over = |placement: &[usize]| excess(inputs, edges, placement);
        let mut start = placement.to_vec();
        start[node] = device;
        let mut starts = vec![start];
        if placement.len() <= SMALL {
            let limits = settings(inputs);
            let duals = self.duals.iter();
            starts.extend(duals.filter_map(|dual| dual.placement(node, device, cost, &limits)));
        }
        let mut replanned = true;
        let mut found: Option<Improved> = None;
        for start in starts {
            let visits = ONE.min(self.left);
            replanned &= visits > 0;
            let next = self.changes.improved(&start, Some(node), visits, &over);
            self.left -= visits - self.changes.left().min(visits);
            let better = |next: &Improved| {
                let key = |found: &Improved| (!found.holds, found.value);
                found.as_ref().is_none_or(|found| key(next) < key(found))
            };
            if let Some(next) = next.filter(better) {
                found = Some(next);
            }
        }
        self.changes.allow(node, device, before);
        let found = found?;
        // a device that is too hot at rest is so without any power of ours
        let holds =
            found.holds && (self.caps.is_empty() || broken_limit(inputs, edges, &found.placement).is_none());
        let bounds = self
            .duals
            .iter()
            .filter_map(|dual| dual.bound(node, device, cost));
        Some(ForcedOutcome {
            value: found.value,
            holds,
            replanned,
            bound: bounds.max(),
        })
    }
}

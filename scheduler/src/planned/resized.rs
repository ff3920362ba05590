//! Plans for further sizes of a model, without asking its devices again.
//!
//! With a single device there is one placement, so costs decide nothing: they are scaled from sizes that the device was
//! asked about. Where several devices compete, each new size is asked about, because a scaled cost could choose another
//! plan than the stated one.
//!
//! Invariants:
//! 1. The plan is checked like every other, against the new graph. Its memory sizes are those of the new graph.
//! 2. A limit of the policy is judged by the device's own figures, never by scaled ones.
//!
//! Not here: scaling costs (`cost_model::resize`), a device that refuses the new size (`session::specializations`).

use polychip_graph::Graph;
use polychip_host::Device;
use polychip_partitioner::Goal;

use super::Planned;
use crate::cost_model::{Evidence, Rows};
use crate::policy::Policy;

/// Whether plans of a policy on so many devices may rest on answers about other sizes.
pub(crate) fn may_resize(devices: usize, policy: &Policy) -> bool {
    let objective = policy.objective();
    let is_limited = objective.deadline.is_some()
        || objective.energy_budget.is_some()
        || objective.max_predicted_power.is_some()
        || objective.max_predicted_temperature.is_some()
        || policy.longest_device_time().is_some()
        || policy.temperature_limit().is_some();
    devices == 1 && objective.goal == Goal::Serial && !is_limited
}

impl Planned {
    /// Whether further sizes may rest on what this plan rests on: it was asked for, and the device takes all nodes.
    pub(crate) fn is_asked(&self) -> bool {
        let nodes = self.graph.node_count();
        let takes_all = |target: &polychip_partitioner::Target| {
            target.quarantined.is_none() && (0..nodes).all(|node| target.supports(node))
        };
        !self.evidence.is_resized
            && !self.locked
            && self.hot.is_empty()
            && self.evidence.targets.iter().all(takes_all)
    }

    /// Hash of the graph's structure.
    pub(crate) fn structure(&self) -> [u8; 32] {
        self.evidence.structure
    }

    /// Whether it rests on the devices' answers about other sizes.
    pub(crate) fn is_resized(&self) -> bool {
        self.evidence.is_resized
    }

    /// The evidence about the same model in other sizes; none if devices or nodes are others.
    pub(super) fn resized(
        &self,
        graph: &Graph,
        devices: &[Device],
        rows: Rows<'_>,
        begin: &dyn Fn(usize, &str),
    ) -> Option<Evidence> {
        let names = |devices: &[Device]| -> Vec<String> {
            devices.iter().map(|device| device.name().to_owned()).collect()
        };
        if names(devices) != names(&self.devices) || devices.iter().any(Device::is_quarantined) {
            return None;
        }
        let evidence = self.evidence.resized(&self.graph, graph, devices, rows)?;
        for (place, device) in devices.iter().enumerate() {
            begin(place, device.name());
        }
        Some(evidence)
    }
}

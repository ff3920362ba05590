//! Support of a model's nodes by device, without planning.
//!
//! Not here: costs and placement ([`Planned`](crate::Planned)).

use std::sync::Arc;

use polychip_graph::Graph;
use polychip_host::Device;
use polychip_partitioner::Target;

use crate::error::Result;
use crate::model::Model;
use crate::planned::Prepared;
use crate::policy::Policy;
use crate::shared::Shared;

/// Which device supports which node of a model.
#[derive(Debug, Clone)]
pub struct Support {
    graph: Arc<Graph>,
    devices: Vec<Device>,
    targets: Vec<Target>,
}

impl Support {
    pub(crate) fn new(shared: &Shared, model: &Model, policy: &Policy) -> Result<Support> {
        let Prepared {
            graph,
            devices,
            evidence,
            ..
        } = Prepared::new(shared, model, policy)?;
        Ok(Support {
            graph,
            devices,
            targets: evidence.targets,
        })
    }

    /// The canonical graph that the devices were asked about.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The devices that were asked.
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// By device: the nodes that it refuses, with the reasons.
    #[must_use]
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }
}

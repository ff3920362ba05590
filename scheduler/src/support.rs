//! Support of a model's nodes by device, without planning.
//!
//! Not here: costs and placement ([`Planned`](crate::Planned)).

use std::sync::Arc;

use polychip_graph::Graph;
use polychip_host::{Device, FlatGraph};
use polychip_partitioner::Target;

use crate::cost_model::support_of;
use crate::error::{Error, ErrorKind, Result};
use crate::model::Model;
use crate::planned::{canonical, choose_devices, keeps_halves, refuse_open, refuse_unknown_heats};
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
        refuse_open(model)?;
        let devices = choose_devices(shared, policy)?;
        refuse_unknown_heats(shared, policy)?;
        let graph = canonical(shared, model, keeps_halves(&devices, policy))?;
        let descriptors = model.descriptors(&graph);
        let flat = FlatGraph::new(&graph, &descriptors)
            .map_err(|error| Error::caused(ErrorKind::BadModel, model.path().display(), error))?;
        let targets = support_of(&graph, &flat, &devices)?;
        Ok(Support {
            graph: Arc::new(graph),
            devices,
            targets,
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

    /// By device: the nodes that it refuses, with the reasons. Costs and launches are those of a [`Target::new`]: no
    /// device was asked for them.
    #[must_use]
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }
}

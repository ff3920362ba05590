//! A phone with the network that its app runs.

use std::sync::Arc;

use anyhow::Result;
use polychip::ReadyPlan;

use crate::emulated::{Emulated, Shown};
use crate::fixed::Fixed;
use crate::network::Network;
use crate::outcome::Outcome;
use crate::scenario::Scenario;
use crate::table::{Seeds, Table};

/// A table with the network of a frame.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The table.
    pub table: Table,
    network: Arc<Network>,
    inferences: usize,
    /// The network as an ONNX model.
    pub(crate) model: Arc<[u8]>,
}

impl Setting {
    /// The committed network on a table.
    ///
    /// # Errors
    /// As [`Network::named`].
    pub fn new(table: Table, seeds: &Seeds) -> Result<Self> {
        let network = Network::named(&seeds.network)?;
        Ok(Self {
            table,
            model: network.onnx().into(),
            network: Arc::new(network),
            inferences: seeds.inferences,
        })
    }

    /// A phone in a scenario.
    #[must_use]
    pub fn phone(&self, scenario: &Scenario, shown: Shown) -> Emulated {
        Emulated::new(
            self.table.clone(),
            Arc::clone(&self.network),
            self.inferences,
            scenario.clone(),
            shown,
        )
    }

    pub(crate) fn fixed(&self, ready: &ReadyPlan) -> Result<Fixed> {
        Fixed::new(ready, &self.table, &self.network, self.inferences)
    }

    /// Each of these plans by itself.
    #[must_use]
    pub fn statics(&self, plans: &[Fixed], scenario: &Scenario, until_ns: u64) -> Vec<Outcome> {
        let phone = self.phone(scenario, Shown::all());
        plans.iter().map(|plan| plan.run(&phone, until_ns)).collect()
    }
}

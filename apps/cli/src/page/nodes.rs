//! The nodes of a page, column by column, so that ten thousand of them stay small.
//!
//! Invariants: all columns are as long as there are nodes, or empty; texts stand once, and columns name them by number.
//! Not here: what the columns become again (`apps/cli/page/src/data.js`).

use std::collections::HashMap;

use polychip_graph::Graph;
use polychip_partitioner::{Cost, Explanation, Reason};
use serde::Serialize;

use crate::per_op::{NodeSteps, PerOp, name_in};

/// Every node, in canonical order.
#[derive(Debug, Serialize)]
pub(super) struct Nodes<'a> {
    names: Vec<&'a str>,
    /// Texts that columns name by their place here.
    texts: Vec<String>,
    op: Vec<usize>,
    part: Vec<usize>,
    device: Vec<usize>,
    /// Per device, in the plan's order.
    on: Vec<OnDevice>,
    /// What was measured of each; empty where nothing was.
    measured: Vec<Option<NodeSteps>>,
}

/// What one device offers for each node.
#[derive(Debug, Default, Serialize)]
struct OnDevice {
    time_ps: Vec<Option<u64>>,
    energy_nj: Vec<Option<u64>>,
    /// Where the cost comes from; none where there is none.
    provenance: Vec<Option<usize>>,
    emulated: Vec<u8>,
    /// Why the node is not there: the kind of the reason; none where it is.
    kind: Vec<Option<usize>>,
    words: Vec<Option<usize>>,
    /// What the plan would cost with it there.
    forced: Vec<Option<usize>>,
    replanned: Vec<u8>,
    derived: Vec<u8>,
}

/// Texts with their places.
#[derive(Default)]
struct Texts {
    all: Vec<String>,
    places: HashMap<String, usize>,
}

impl Texts {
    fn place(&mut self, text: &str) -> usize {
        if let Some(&place) = self.places.get(text) {
            return place;
        }
        let place = self.all.len();
        self.all.push(text.to_owned());
        self.places.insert(text.to_owned(), place);
        place
    }
}

impl<'a> Nodes<'a> {
    /// The nodes of an explanation on devices of these names, with what was measured of them.
    pub(super) fn new(
        explanation: &'a Explanation,
        devices: &[String],
        graph: &Graph,
        per_op: Option<&PerOp>,
    ) -> anyhow::Result<Self> {
        let mut texts = Texts::default();
        let mut on: Vec<OnDevice> = devices.iter().map(|_| OnDevice::default()).collect();
        let place = |name: &str| devices.iter().position(|device| device == name);
        let nodes = &explanation.nodes;
        let mut device = Vec::with_capacity(nodes.len());
        for node in nodes {
            let here = place(&node.device);
            device.push(here.unwrap_or_default());
            for (index, columns) in on.iter_mut().enumerate() {
                let alternatives = node.alternatives.iter();
                match alternatives
                    .clone()
                    .find(|other| place(&other.device) == Some(index))
                {
                    Some(other) => {
                        let reason = (kind(&other.reason)?, other.reason.to_string());
                        let forced = other.counterfactual.as_ref();
                        columns.push(&mut texts, other.cost.as_ref(), Some(reason));
                        columns.forced(&mut texts, forced.map(|found| found.words.as_str()));
                        columns
                            .replanned
                            .push(forced.is_some_and(|found| found.replanned).into());
                        columns
                            .derived
                            .push(forced.is_some_and(|found| found.derived).into());
                    }
                    None => {
                        let cost = node.cost.as_ref().filter(|_| here == Some(index));
                        columns.push(&mut texts, cost, None);
                        columns.forced(&mut texts, None);
                        columns.replanned.push(0);
                        columns.derived.push(0);
                    }
                }
            }
        }
        let measured = per_op.map_or_else(Vec::new, |per_op| {
            let steps = nodes
                .iter()
                .map(|node| per_op.of_node(&node.device, name_in(graph, node.node)));
            steps.collect()
        });
        Ok(Self {
            names: nodes.iter().map(|node| node.name.as_str()).collect(),
            op: nodes.iter().map(|node| texts.place(&node.op)).collect(),
            part: nodes.iter().map(|node| node.part.index()).collect(),
            device,
            on,
            measured,
            texts: texts.all,
        })
    }
}

impl OnDevice {
    fn push(&mut self, texts: &mut Texts, cost: Option<&Cost>, reason: Option<(String, String)>) {
        self.time_ps.push(cost.map(|cost| cost.time.picoseconds()));
        let energy = cost.and_then(|cost| cost.energy);
        self.energy_nj.push(energy.map(|energy| energy.nanojoules()));
        self.provenance
            .push(cost.map(|cost| texts.place(cost.provenance.word())));
        self.emulated.push(cost.is_some_and(|cost| cost.emulated).into());
        self.kind.push(reason.as_ref().map(|(kind, _)| texts.place(kind)));
        self.words
            .push(reason.as_ref().map(|(_, words)| texts.place(words)));
    }

    fn forced(&mut self, texts: &mut Texts, words: Option<&str>) {
        self.forced.push(words.map(|words| texts.place(words)));
    }
}

/// The kind of a reason, as its JSON names it.
fn kind(reason: &Reason) -> anyhow::Result<String> {
    let value = serde_json::to_value(reason)?;
    Ok(value["kind"].as_str().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_strings_are_stored_once() {
        let mut texts = Texts::default();
        let places: Vec<usize> = ["a", "b", "a", "c", "b"]
            .iter()
            .map(|text| texts.place(text))
            .collect();
        assert_eq!(places, [0, 1, 0, 2, 1]);
        assert_eq!(texts.all, ["a", "b", "c"]);
    }
}

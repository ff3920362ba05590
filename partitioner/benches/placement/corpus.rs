//! What PlacementBench runs: `corpus.json`, `corpus/*.json`, `devices/*.json`.
//!
//! Invariants: everything is read from the repository, nothing from the network.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::generators;
use crate::structure::Structure;
use crate::world::DeviceTable;

/// The list of what to run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Corpus {
    #[serde(rename = "about")]
    _about: String,
    files: Vec<String>,
    generated: Vec<String>,
    devices: Vec<String>,
    /// Transfers cost so many thousandths of what the device table says.
    pub(crate) transfer_scales_permille: Vec<u64>,
    pub(crate) seeds: Vec<u64>,
    tiled: Vec<String>,
    tiled_hubs: Vec<String>,
    pub(crate) tiled_nodes: Vec<usize>,
    wide: Vec<(String, usize)>,
}

impl Corpus {
    pub(crate) fn read() -> Self {
        json(&folder().join("corpus.json"))
    }

    /// The graphs whose plans are compared with other rules.
    pub(crate) fn graphs(&self) -> Vec<Structure> {
        let files = self.files.iter().map(|name| file(name));
        files
            .chain(self.generated.iter().map(|name| generated(name)))
            .collect()
    }

    pub(crate) fn tables(&self) -> Vec<DeviceTable> {
        let path = |name: &String| folder().join("devices").join(format!("{name}.json"));
        self.devices.iter().map(|name| json(&path(name))).collect()
    }

    /// Families that grow: name, whether tensors are read from end to end (hubs), and one network per size.
    pub(crate) fn families(&self) -> Vec<(String, bool, Vec<Structure>)> {
        self.families_of(self.tiled_nodes.len())
    }

    /// The same, the smallest few sizes of each.
    pub(crate) fn families_of(&self, count: usize) -> Vec<(String, bool, Vec<Structure>)> {
        let chosen = &self.tiled_nodes[..count.min(self.tiled_nodes.len())];
        let sizes = |make: &dyn Fn(usize) -> Structure| chosen.iter().map(|&n| make(n)).collect();
        let mut families = Vec::new();
        for name in &self.tiled {
            let one = generators::by_name(name).unwrap_or_else(|| file(name));
            families.push((name.clone(), false, sizes(&|nodes| one.tiled(nodes))));
        }
        for name in &self.tiled_hubs {
            let layer =
                generated(&format!("{name}_2")).nodes.len() - generated(&format!("{name}_1")).nodes.len();
            let make = |nodes: usize| generated(&format!("{name}_{}", nodes.div_ceil(layer)));
            families.push((name.clone(), true, sizes(&make)));
        }
        families
    }

    /// Graphs too wide for exact elimination.
    pub(crate) fn wide(&self) -> Vec<Structure> {
        let name = |(kind, nodes): &(String, usize)| format!("{kind}_{nodes}");
        self.wide.iter().map(|entry| generated(&name(entry))).collect()
    }
}

/// `partitioner/benches`.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches")
}

fn file(name: &str) -> Structure {
    json(&folder().join("corpus").join(format!("{name}.json")))
}

fn generated(name: &str) -> Structure {
    generators::by_name(name).unwrap_or_else(|| panic!("corpus.json: no generator makes {name}"))
}

pub(crate) fn json<T: DeserializeOwned>(path: &Path) -> T {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

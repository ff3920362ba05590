//! The content of a part, as the profile describes it beside its measurements. JSON names are those
//! of the first profiles: files of any build stay readable by any other.

use std::collections::BTreeMap;

use polychip_graph::Graph;
use serde::{Deserialize, Serialize};

use super::group::{FusionGroup, fusion_groups};
use super::segment::Composition;
use crate::work::border_of;

/// The content of a part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// The model's name, for a whole model.
    #[serde(default)]
    pub name: String,
    /// Its distinct fusion groups.
    #[serde(rename = "pieces")]
    pub groups: Vec<FusionGroup>,
    /// Bytes that the part reads and writes, without constants.
    pub border: u64,
    /// For a whole model: its composition of segments.
    #[serde(default)]
    pub composition: Composition,
}

impl Content {
    /// The content of a graph.
    pub fn of(graph: &Graph) -> Content {
        let mut groups: Vec<FusionGroup> = Vec::new();
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        for nodes in fusion_groups(graph) {
            let group = FusionGroup::of(graph, &nodes);
            match known.get(&group.fingerprint) {
                Some(&at) => groups[at].count += 1,
                None => {
                    known.insert(group.fingerprint.clone(), groups.len());
                    groups.push(group);
                }
            }
        }
        Content {
            name: String::new(),
            groups,
            border: border_of(graph),
            composition: Composition::default(),
        }
    }

    /// The content of a whole model.
    pub fn of_whole(name: &str, graph: &Graph) -> Content {
        Content {
            name: name.to_owned(),
            composition: Composition::of(graph),
            ..Content::of(graph)
        }
    }

    /// Number of groups, with repetitions.
    pub fn count(&self) -> u64 {
        self.groups.iter().map(|group| u64::from(group.count)).sum()
    }

    /// Bytes of all its constants.
    pub fn constants(&self) -> u64 {
        let groups = self
            .groups
            .iter()
            .map(|group| group.constants.saturating_mul(group.count.into()));
        groups.fold(0, u64::saturating_add)
    }

    /// The stored form.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("invariant: texts and numbers are JSON")
    }
}

/// A stored content as text.
pub fn words(content: &str) -> String {
    let Ok(content) = serde_json::from_str::<Content>(content) else {
        return String::new();
    };
    match &content.groups[..] {
        [only] if only.count == 1 => only.words.clone(),
        _ if !content.name.is_empty() => content.name,
        _ => format!(
            "{} groups, {} of them different",
            content.count(),
            content.groups.len()
        ),
    }
}

//! What a part consists of, as the profile describes it beside what was measured of it. Names in JSON are those of the
//! first profiles: files of any build stay readable by any other.

use std::collections::BTreeMap;

use polychip_graph::Graph;
use serde::{Deserialize, Serialize};

use super::group::{FusionGroup, fusion_groups};
use super::segment::Composition;
use crate::work::border_of;

/// What a part consists of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// The model's name, of a whole model.
    #[serde(default)]
    pub name: String,
    /// Its different fusion groups.
    #[serde(rename = "pieces")]
    pub groups: Vec<FusionGroup>,
    /// Bytes that the part reads and writes beside constants.
    pub border: u64,
    /// Of a whole model: how it is composed of segments.
    #[serde(default)]
    pub composition: Composition,
}

impl Content {
    /// What a graph consists of.
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

    /// What a whole model consists of.
    pub fn of_whole(name: &str, graph: &Graph) -> Content {
        Content {
            name: name.to_owned(),
            composition: Composition::of(graph),
            ..Content::of(graph)
        }
    }

    /// How many groups, each counted as often as it stands there.
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

    /// As it is stored.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("invariant: texts and numbers are JSON")
    }
}

/// What a stored content is, for people.
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

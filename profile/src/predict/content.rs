//! What a part consists of, as the profile describes it beside what was measured of it.

use std::collections::BTreeMap;

use polychip_graph::Graph;
use serde::{Deserialize, Serialize};

use super::piece::{Piece, nodes_of_pieces};
use super::stretch::Composition;
use crate::work::border_of;

/// What a part consists of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// The model's name, of a whole model.
    #[serde(default)]
    pub name: String,
    /// Its different pieces.
    pub pieces: Vec<Piece>,
    /// Bytes that the part reads and writes beside constants.
    pub border: u64,
    /// Of a whole model: how it is composed of stretches.
    #[serde(default)]
    pub composition: Composition,
}

impl Content {
    /// What a graph consists of.
    pub fn of(graph: &Graph) -> Content {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        for nodes in nodes_of_pieces(graph) {
            let piece = Piece::of(graph, &nodes);
            match known.get(&piece.fingerprint) {
                Some(&at) => pieces[at].count += 1,
                None => {
                    known.insert(piece.fingerprint.clone(), pieces.len());
                    pieces.push(piece);
                }
            }
        }
        Content {
            name: String::new(),
            pieces,
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

    /// How many pieces, each counted as often as it stands there.
    pub fn count(&self) -> u64 {
        self.pieces.iter().map(|piece| u64::from(piece.count)).sum()
    }

    /// Bytes of all its constants.
    pub fn constants(&self) -> u64 {
        let pieces = self
            .pieces
            .iter()
            .map(|piece| piece.constants.saturating_mul(piece.count.into()));
        pieces.fold(0, u64::saturating_add)
    }

    /// As it is stored.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("invariant: texts and numbers are JSON")
    }
}

/// What stored pieces are, for people.
pub fn words(pieces: &str) -> String {
    let Ok(content) = serde_json::from_str::<Content>(pieces) else {
        return String::new();
    };
    match &content.pieces[..] {
        [only] if only.count == 1 => only.words.clone(),
        _ if !content.name.is_empty() => content.name,
        _ => format!(
            "{} pieces, {} of them different",
            content.count(),
            content.pieces.len()
        ),
    }
}

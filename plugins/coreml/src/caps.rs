//! Supported nodes: those that our writer can write, node by node.
//!
//! Invariant: a node is supported only if it lowers as a part of its own.
//!
//! Not here: Core ML's own refusals, which occur when a part is compiled (`prepare`).

use polychip_lowering::{Extract, Outcome, Part};
use polychip_sdk::Support;

use crate::lower::{self, Target};
use crate::program::Program;

/// Programs of nodes, each as a part of its own.
pub(crate) struct Nodes<'a> {
    extract: Extract<'a>,
    /// Of each node of the call's graph, what it became in the part.
    places: Vec<Vec<u32>>,
    target: Target,
}

impl<'a> Nodes<'a> {
    /// Nodes of a part that was read of a graph of `count` nodes.
    pub(crate) fn of(part: &'a Part, count: usize, target: Target) -> Nodes<'a> {
        let mut places = vec![Vec::new(); count];
        for (place, node) in part.nodes.iter().enumerate() {
            if let Some(places) = places.get_mut(node.index as usize) {
                places.push(place as u32);
            }
        }
        Nodes {
            extract: Extract::new(part),
            places,
            target,
        }
    }

    /// The program of one node, without the elements of its constants.
    pub(crate) fn program(&mut self, node: usize) -> Outcome<Program> {
        let part = self.extract.nodes(&self.places[node]);
        lower::whole(&part, self.target, false)
    }

    /// Whether each node is supported.
    pub(crate) fn support(&mut self) -> Vec<Support> {
        let count = self.places.len();
        let answer = |node| match self.program(node) {
            Ok(_) => Support::Yes,
            Err(refusal) => refusal.support(),
        };
        (0..count).map(answer).collect()
    }
}

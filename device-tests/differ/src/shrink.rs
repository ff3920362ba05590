//! The smallest part of a graph that still differs.
//!
//! Invariant: what is found differs in the way that the whole did, or in another one that stands in the result.

use anyhow::Result;

use crate::ours::Ours;
use crate::peer::{Drawn, Peer};
use crate::verdict::{Difference, What, difference};

/// A part that differs.
pub(crate) struct Part {
    pub(crate) drawn: Drawn,
    pub(crate) difference: Difference,
}

/// How a model differs on our side, where ONNX Runtime runs it.
///
/// # Errors
/// The files of the model cannot be read.
pub(crate) fn differs(ours: &Ours, drawn: &Drawn) -> Result<Option<Difference>> {
    let Some(path) = drawn.model.as_ref().filter(|_| drawn.refusal.is_none()) else {
        return Ok(None);
    };
    Ok(match ours.alone(path, &drawn.inputs()?) {
        Ok(found) => difference(&found, &drawn.outputs()?),
        Err(error) => {
            let words = format!("{error:#}").replace('\n', " ");
            let what = if words.contains("PANIC") {
                What::Panic
            } else {
                What::Refused
            };
            Some(Difference { what, words })
        }
    })
}

/// One node by itself where that differs, or else the graph without what it does as well without.
///
/// # Errors
/// The peer cannot be asked.
pub(crate) fn smallest(peer: &mut Peer, ours: &Ours, index: usize, whole: Part) -> Result<Part> {
    let nodes = whole.drawn.nodes.clone();
    for node in &nodes {
        if let Some(part) = cut(peer, ours, index, std::slice::from_ref(node))? {
            return Ok(part);
        }
    }
    let (mut kept, mut best) = (nodes.clone(), whole);
    for node in &nodes {
        let less: Vec<String> = kept.iter().filter(|one| *one != node).cloned().collect();
        if less.is_empty() {
            continue;
        }
        if let Some(part) = cut(peer, ours, index, &less)? {
            (kept, best) = (less, part);
        }
    }
    // the peer judges the part that it has cut last
    let again = cut(peer, ours, index, &kept)?;
    Ok(again.unwrap_or(best))
}

fn cut(peer: &mut Peer, ours: &Ours, index: usize, keep: &[String]) -> Result<Option<Part>> {
    let Some(drawn) = peer.cut(index, keep)? else {
        return Ok(None);
    };
    let difference = differs(ours, &drawn)?;
    Ok(difference.map(|difference| Part { drawn, difference }))
}

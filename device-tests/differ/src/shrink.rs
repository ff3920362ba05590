//! The smallest differing part of a graph, and its node that differs on our own values.
//!
//! Invariant: the part differs in the same way as the whole, or in another way that the result states.

use anyhow::Result;

use crate::ours::{On, Ours};
use crate::peer::{self, Drawn, Peer, Tensors};
use crate::verdict::{Difference, What, difference};

/// A part that differs.
pub(crate) struct Part {
    pub(crate) drawn: Drawn,
    pub(crate) difference: Difference,
}

/// A model on our side, and how it differs where ONNX Runtime runs it.
pub(crate) struct Run {
    pub(crate) outputs: Tensors,
    /// Parts of its plan.
    pub(crate) parts: usize,
    pub(crate) difference: Option<Difference>,
}

/// Runs a model on our side; one that ONNX Runtime refuses is not run, and does not differ.
///
/// # Errors
/// The files of the model cannot be read.
pub(crate) fn run(ours: &Ours, on: On, drawn: &Drawn) -> Result<Run> {
    let mut run = Run {
        outputs: Tensors::new(),
        parts: 0,
        difference: None,
    };
    let Some(path) = drawn.model.as_ref().filter(|_| drawn.refusal.is_none()) else {
        return Ok(run);
    };
    match ours.run(on, path, &drawn.inputs()?) {
        Ok(ran) => {
            run.difference = difference(&ran.outputs, &drawn.outputs()?);
            (run.outputs, run.parts) = (ran.outputs, ran.parts);
        }
        Err(error) => {
            let words = format!("{error:#}").replace('\n', " ");
            let what = match on {
                _ if words.contains("PANIC") => What::Panic,
                On::Cpu => What::Refused,
                // the CPU alone runs it
                On::Split(_) => What::Split,
            };
            run.difference = Some(Difference { what, words });
        }
    }
    Ok(run)
}

/// One node by itself where that differs, or else the graph without what it does as well without.
///
/// # Errors
/// The peer cannot be asked.
pub(crate) fn smallest(peer: &mut Peer, ours: &Ours, on: On, index: usize, whole: Part) -> Result<Part> {
    let nodes = whole.drawn.nodes.clone();
    for node in &nodes {
        if let Some(part) = cut(peer, ours, on, index, std::slice::from_ref(node))? {
            return Ok(part);
        }
    }
    let (mut kept, mut best) = (nodes.clone(), whole);
    for node in &nodes {
        let less: Vec<String> = kept.iter().filter(|one| *one != node).cloned().collect();
        if less.is_empty() {
            continue;
        }
        if let Some(part) = cut(peer, ours, on, index, &less)? {
            (kept, best) = (less, part);
        }
    }
    // the peer judges the part that it has cut last
    let again = cut(peer, ours, on, index, &kept)?;
    Ok(again.unwrap_or(best))
}

/// What a part comes to where each of its nodes runs alone, on what our own nodes before it made.
pub(crate) enum OnOwnValues {
    /// This node differs from ONNX Runtime on the same values.
    Differs(Part),
    /// None does: a difference of the whole is none of a node's. All that they made.
    Agree(Tensors),
}

/// Runs a part node by node, each in ONNX Runtime too, on the values that our own nodes before it made.
///
/// # Errors
/// The peer cannot be asked, or a folder cannot be written.
pub(crate) fn on_own_values(
    peer: &mut Peer,
    ours: &Ours,
    on: On,
    index: usize,
    part: &Part,
) -> Result<OnOwnValues> {
    let folder = tempfile::tempdir()?;
    let mut made = Tensors::new();
    for node in &part.drawn.nodes {
        let given = peer::write(folder.path(), &made)?;
        let Some(drawn) = peer.cut(index, std::slice::from_ref(node), &given)? else {
            continue;
        };
        let found = run(ours, on, &drawn)?;
        if let Some(difference) = found.difference {
            return Ok(OnOwnValues::Differs(Part { drawn, difference }));
        }
        made.extend(found.outputs);
    }
    // the peer judges the part that it has cut last
    cut(peer, ours, on, index, &part.drawn.nodes)?;
    Ok(OnOwnValues::Agree(made))
}

fn cut(peer: &mut Peer, ours: &Ours, on: On, index: usize, keep: &[String]) -> Result<Option<Part>> {
    let Some(drawn) = peer.cut(index, keep, &[])? else {
        return Ok(None);
    };
    let difference = run(ours, on, &drawn)?.difference;
    Ok(difference.map(|difference| Part { drawn, difference }))
}

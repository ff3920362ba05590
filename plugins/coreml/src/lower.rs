//! Compiling: from nodes to an ML Program, and from there to a blob that holds the package.
//!
//! Invariants:
//! 1. A node that is not exactly one or a few Core ML operations is refused with a reason; nothing
//!    is approximated.
//! 2. A file imports only files below it: `builder` with `quantise`, then the files of op classes,
//!    then `dispatch`.
//!
//! Not here: bytes of packages (`package`), Core ML's own verdict on them (`prepare`). Start
//! reading at [`whole`], then `dispatch`.

mod builder;
mod conv;
mod dispatch;
mod elementwise;
mod movement;
mod norm;
mod product;
mod quantise;
#[cfg(test)]
mod tests;

pub(crate) use builder::Target;

use std::sync::{Mutex, PoisonError};

use polychip_lowering::{Part, Refusal};
use polychip_sdk::{
    AlignedBytes, Blob, CompileOptions, Error, GraphView, LoadSource, LoadedFrom, Precision, Result,
};

use crate::blob::{self, Stored};
use crate::package::Package;
use crate::prepare::{self, Prepared, Shared};
use crate::program::Program;
use builder::Lower;

/// A compiled part.
pub struct CoremlBlob {
    bytes: AlignedBytes,
    /// Taken by the first load.
    ready: Mutex<Option<Prepared>>,
}

impl Blob for CoremlBlob {
    fn bytes(&self) -> Result<&[u8]> {
        Ok(&self.bytes)
    }
}

/// The part that a view shows, with what we do not lower as the primitive ops that it was recomposed from.
pub(crate) fn read(graph: &GraphView<'_>) -> Part {
    let part = Part::of(graph, |_| false);
    let keep: Vec<bool> = part
        .nodes
        .iter()
        .map(|node| dispatch::is_offered(node.op))
        .collect();
    part.decomposed(|node| !keep[node])
}

/// Lowers a part; without `data`, constants are empty.
///
/// # Errors
/// The first refused node, and the reason.
pub(crate) fn whole(part: &Part, target: Target, data: bool) -> std::result::Result<Program, Refusal> {
    let mut lower = Lower::new(part, target, data);
    let first = part.nodes.first().map_or(0, |node| node.index);
    // an op that is not offered is said before the types that it happens to have
    for node in &part.nodes {
        dispatch::offered(node).map_err(|refusal| refusal.at(node.index))?;
    }
    for &input in &part.inputs {
        lower.port_in(input).map_err(|refusal| refusal.at(first))?;
    }
    for node in &part.nodes {
        dispatch::node(&mut lower, node).map_err(|refusal| refusal.at(node.index))?;
    }
    let last = part.nodes.last().map_or(0, |node| node.index);
    for &output in &part.outputs {
        lower.port_out(output).map_err(|refusal| refusal.at(last))?;
    }
    Ok(lower.program)
}

/// Makes the blob of a part, after Core ML has taken its package.
pub(crate) fn compile(
    shared: &Shared,
    graph: &GraphView<'_>,
    options: &CompileOptions,
) -> Result<CoremlBlob> {
    if let Some(point) = options.operating_point {
        return Err(Error::bad_argument(format!("operating point {point} of 0")));
    }
    let target = Target {
        reduced: shared.target.reduced || options.precision == Precision::Reduced,
        ..shared.target
    };
    let part = read(graph);
    if part.nodes.is_empty() {
        return Err(Error::unsupported("a part without nodes"));
    }
    let program = whole(&part, target, true)?;
    let package = Package::of(&program);
    let ready = prepare::prepare(shared, &package)?;
    prepare::placed(shared, &ready, &program)?;
    let bytes = blob::write(&shared.made_by, graph, &package)?;
    Ok(CoremlBlob {
        bytes,
        ready: Mutex::new(Some(ready)),
    })
}

/// Makes a part ready to run.
pub(crate) fn load(shared: &Shared, source: LoadSource<'_, CoremlBlob>) -> Result<(Stored, Prepared)> {
    let graph = source.graph.as_ref();
    let (stored, ready) = match source.from {
        LoadedFrom::Blob(blob) => {
            let stored = blob::read(&shared.made_by, &blob.bytes, graph)?;
            (
                stored,
                blob.ready.into_inner().unwrap_or_else(PoisonError::into_inner),
            )
        }
        LoadedFrom::Bytes(bytes) => (blob::read(&shared.made_by, bytes.bytes(), graph)?, None),
    };
    let ready = match ready {
        Some(ready) => ready,
        None => prepare::prepare(shared, &stored.package)?,
    };
    Ok((stored, ready))
}

//! From a package to a model loaded by Core ML: folders, the vendor's compiler, and its plan.
//!
//! Invariants:
//! 1. A package is in its own folder while it is compiled, and the folder is removed, however
//!    compilation ends.
//! 2. Core ML's compiled model exists as long as its model is loaded, and is then removed.
//! 3. Nodes that Core ML would compute on the CPU are refused by name: a part runs as planned, or
//!    not at all.

use std::path::PathBuf;

use polychip_sdk::{Error, ErrorKind, HostServices, LogLevel, Result};
use polychip_sys::coreml::{Failure, Library, Model, Preferred, Units};

use crate::lower::Target;
use crate::package::Package;
use crate::program::Program;

/// State that a device shares with its parts.
pub(crate) struct Shared {
    pub(crate) library: &'static Library,
    pub(crate) host: HostServices,
    pub(crate) units: Units,
    pub(crate) target: Target,
    /// Identity in blobs: a blob of another system or unit is refused.
    pub(crate) made_by: String,
}

/// A folder made by Core ML, removed on drop.
struct Compiled(PathBuf);

impl Drop for Compiled {
    fn drop(&mut self) {
        // nothing can be done about a folder that does not go
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A loaded model.
pub(crate) struct Prepared {
    /// Before its folder, which it may read from.
    pub(crate) model: Model,
    compiled: Compiled,
}

/// The contract's error of a failure.
pub(crate) fn error(kind: ErrorKind, what: &str, failure: &Failure) -> Error {
    let words = format!("{what}: {}", failure.to_string().replace(['\n', '\0'], " "));
    Error::new(kind, words).with_vendor_code(failure.code)
}

/// Has Core ML compile a package and load it.
pub(crate) fn prepare(shared: &Shared, package: &Package) -> Result<Prepared> {
    let disk = |error: std::io::Error| {
        let words = format!(
            "a package cannot be written to {}: {error}; free some space, or set TMPDIR",
            std::env::temp_dir().display()
        );
        Error::new(ErrorKind::Transient, words)
    };
    let folder = tempfile::Builder::new()
        .prefix(&format!("polychip-{}-", std::process::id()))
        .suffix(".mlpackage")
        .tempdir()
        .map_err(disk)?;
    package.write(folder.path()).map_err(disk)?;
    let refused = |what: &'static str| move |failure| error(ErrorKind::Unsupported, what, &failure);
    let compiled = Model::compile(shared.library, folder.path())
        .map_err(refused("Core ML does not compile the part"))?;
    let compiled = Compiled(compiled);
    let model = Model::load(shared.library, &compiled.0, shared.units);
    Ok(Prepared {
        model: model.map_err(refused("Core ML does not load the part"))?,
        compiled,
    })
}

/// Refuses a part of which Core ML would compute a node elsewhere.
pub(crate) fn placed(shared: &Shared, ready: &Prepared, program: &Program) -> Result<()> {
    let planned = match shared.library.plan(&ready.compiled.0, shared.units) {
        Ok(planned) => planned,
        Err(failure) => {
            let words = format!("Core ML does not say where it computes what: {failure}");
            shared.host.log(LogLevel::Info, &words);
            return Ok(());
        }
    };
    for intent in planned {
        let made = |id: &usize| program.values[*id].name == intent.output;
        let operation = program
            .operations
            .iter()
            .find(|operation| operation.outputs.iter().any(made));
        let Some((operation, node)) = operation.and_then(|operation| Some((operation, operation.node?)))
        else {
            continue;
        };
        if intent.preferred == Some(Preferred::Processor) && !intent.supported.contains(&shared.units) {
            let words = format!("Core ML computes {} on the processor only", operation.kind);
            return Err(Error::unsupported(words).at_node(node));
        }
    }
    Ok(())
}

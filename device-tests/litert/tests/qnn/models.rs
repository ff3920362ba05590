//! Trained models, compiled for three chips.

use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use polychip_device_tests::{passes, tflite};

use crate::client::Client;
use crate::trace;

/// Snapdragon 8 Gen 2, 8 Gen 3 and 8 Elite.
pub(crate) const SOCS: [&str; 3] = ["SM8550", "SM8650", "SM8750"];

/// How many ops of a model LiteRT's plugin takes on each chip is what is committed.
pub(crate) fn judge(client: &Client, name: &str, model: &Path) -> Result<()> {
    let count = |path: &Path| -> Result<tflite::Ops> {
        let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
        tflite::ops(&bytes).with_context(|| path.display().to_string())
    };
    let before = count(model)?;
    let mut found = vec![("ops", before.own)];
    for soc in SOCS {
        let compiled = client.compile(name, model, soc)?;
        let after = count(&compiled.model)?;
        ensure!(
            after.own <= before.own,
            "{soc}: {} ops are left of {}",
            after.own,
            before.own
        );
        let taken = before.own - after.own;
        ensure!(
            (taken > 0) == (after.pieces > 0),
            "{soc}: {taken} ops in {} pieces",
            after.pieces
        );
        // the library has finalized and serialised what the model holds
        let seen = trace::read(&compiled.trace)?;
        let graphs = seen.finalized.iter().filter(|graph| graph.code == 0).count();
        ensure!(
            graphs >= after.pieces && (after.pieces == 0 || seen.serialised > 0),
            "{soc}: {} pieces of {graphs} graphs, {} binaries",
            after.pieces,
            seen.serialised
        );
        eprintln!(
            "{name}, {soc}: {taken} of {} ops in {} pieces",
            before.own, after.pieces
        );
        found.push((soc, taken));
    }
    passes::check("litert_qnn", name, &found).map_err(|words| anyhow!(words))
}

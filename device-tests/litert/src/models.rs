//! Trained models, compiled for the vendor's chips.

use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use polychip_device_tests::expectations::Outcome;
use polychip_device_tests::{passes, tflite};

use crate::calls::Calls;
use crate::client::Client;

/// How many ops of a model LiteRT's plugin takes on each chip is what is committed.
///
/// # Errors
/// It is not, or LiteRT fails.
pub fn judge(client: &Client, calls: &Calls, name: &str, model: &Path) -> Result<()> {
    let outcome = match taken(client, name, model) {
        Ok(()) => Outcome::Passed,
        Err(error) => Outcome::Failed(format!("{error:#}")),
    };
    calls.expected(name, &outcome)
}

fn taken(client: &Client, name: &str, model: &Path) -> Result<()> {
    let count = |path: &Path| -> Result<tflite::Ops> {
        let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
        tflite::ops(&bytes).with_context(|| path.display().to_string())
    };
    let before = count(model)?;
    let mut found = vec![("ops", before.own)];
    for &soc in client.vendor.socs {
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
        let trace =
            std::fs::read_to_string(&compiled.trace).with_context(|| compiled.trace.display().to_string())?;
        let (graphs, binaries) = (client.vendor.compiled)(&trace)?;
        ensure!(
            graphs >= after.pieces && (after.pieces == 0 || binaries > 0),
            "{soc}: {} pieces of {graphs} graphs, {binaries} binaries",
            after.pieces
        );
        eprintln!(
            "{name}, {soc}: {taken} of {} ops in {} pieces",
            before.own, after.pieces
        );
        found.push((soc, taken));
    }
    let suite = format!("litert_{}", client.vendor.suite);
    passes::check(&suite, name, &found).map_err(|words| anyhow!(words))
}

//! An independent client drives the Neuron emulator: LiteRT's MediaTek compiler plugin.
//!
//! - `models`: trained models are compiled for three chips; how many of their ops the plugin took is committed;
//! - `calls`: of models of one op, the operations that LiteRT adds for it are those that our plugin adds for the same op
//!   in ONNX, but for the renaming of operands; LiteRT's are committed (`golden.txt`), and what differs is explained in
//!   `expectations/litert-neuron.toml`.
//!
//! The library is our emulator: nothing here shows a chip's speed or the refusals of the vendor's own library.
//! Skipped without `cargo xtask vendor litert`. `POLYCHIP_BLESS=1` writes what is committed.
//!
//! Not here: running what LiteRT stored; its bytes are the emulator's own.

mod trace;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use libtest_mimic::{Arguments, Failed, Trial};
use polychip::Runtime;
use polychip_device_tests::litert::Litert;
use polychip_device_tests::{Need, libraries, skipped};
use polychip_litert_tests::client::Client;
use polychip_litert_tests::{Vendor, calls, models, ours};

/// MediaTek: Dimensity 9300, 9400 and 8300.
static VENDOR: Vendor = Vendor {
    suite: "neuron",
    manufacturer: "MediaTek",
    plugin: "mediatek",
    socs: &["mt6989", "mt6991", "mt6897"],
    soc: "mt6989",
    trace: "POLYCHIP_NEURON_TRACE",
    libraries: link,
    runtime,
    device: "neuron:0",
    operations: |trace| Ok(trace::parse(trace)?.text()),
    compiled: |trace| {
        let stored = trace::parse(trace)?.stored();
        Ok((stored, stored))
    },
};

fn link(folder: &Path) -> Result<()> {
    let library = libraries::library("polychip-emulator-neuron", "neuron_adapter")?;
    let to = folder.join("libneuron_adapter.so");
    std::os::unix::fs::symlink(&library, &to).with_context(|| format!("linking {}", to.display()))
}

/// The runtime with the emulated chip; floats may be computed in 16 bits, as LiteRT has them.
fn runtime(libraries: &Path) -> Result<Runtime> {
    Ok(Runtime::builder()
        .only_given_folders()
        .link(polychip_neuron::query)
        .configure("neuron", "soc", VENDOR.soc)
        .configure("neuron", "precision", "reduced")
        .configure("neuron", "lib_dir", libraries.display().to_string())
        .build()?)
}

fn main() -> Result<()> {
    if let Some(folder) = std::env::var_os(ours::CHILD) {
        return ours::child(&VENDOR, Path::new(&folder));
    }
    let arguments = Arguments::from_args();
    let litert = match Litert::find() {
        Ok(litert) => litert,
        Err(why) => {
            let trials = ["models", "calls"].map(|name| skipped(name, Need::Litert, &why));
            libtest_mimic::run(&arguments, trials.into()).exit();
        }
    };
    let client = Arc::new(Client::new(&VENDOR, litert)?);
    let cases = client.cases()?;
    let models = client.litert.models()?;
    let names: Vec<String> = models.iter().map(|trained| trained.name.clone()).collect();
    let calls = Arc::new(calls::Calls::new(&VENDOR, &cases, &names)?);
    let mut trials = Vec::new();
    for trained in models {
        let (client, calls) = (Arc::clone(&client), Arc::clone(&calls));
        trials.push(trial(format!("models/{}", trained.name), move || {
            models::judge(&client, &calls, &trained.name, &trained.path)
        }));
    }
    for case in cases {
        let (client, calls) = (Arc::clone(&client), Arc::clone(&calls));
        trials.push(trial(format!("calls/{case}"), move || {
            calls.judge(&client, &case)
        }));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    calls.finish(&VENDOR).context("writing what was found")?;
    client.close()?;
    conclusion.exit()
}

fn trial(name: String, run: impl FnOnce() -> Result<()> + Send + 'static) -> Trial {
    Trial::test(name, move || {
        run().map_err(|error| Failed::from(format!("{error:#}")))
    })
}

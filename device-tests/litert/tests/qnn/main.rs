//! An independent client drives the QNN emulator: LiteRT's Qualcomm compiler plugin.
//!
//! - `models`: trained models are compiled for three chips; how many of their ops the plugin took is committed;
//! - `calls`: of models of one op, the operations that LiteRT adds for it are those that our plugin adds for the same op
//!   in ONNX, but for the renaming of tensors; LiteRT's are committed (`golden.txt`), and what differs is explained in
//!   `expectations/litert-qnn.toml`;
//! - `answers`: the context binaries that LiteRT's plugin wrote are loaded and run by our plugin, and answer as LiteRT's own
//!   kernels do.
//!
//! All libraries are our emulators: nothing here shows a chip's speed or the refusals of the vendor's own library.
//! Skipped without `cargo xtask vendor litert`. `POLYCHIP_BLESS=1` writes what is committed.
//!
//! Start reading at `VENDOR`.

mod answers;
mod trace;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use libtest_mimic::{Arguments, Failed, Trial};
use polychip::Runtime;
use polychip_device_tests::litert::Litert;
use polychip_device_tests::{Need, left_out, libraries, skipped};
use polychip_litert_tests::client::Client;
use polychip_litert_tests::{Vendor, calls, models, ours};

/// Names that LiteRT's plugin is linked against and calls only where other back ends of the vendor's are asked for.
const STAND_INS: [&str; 3] = ["libQnnIr.so", "libQnnLpai.so", "libQnnSaver.so"];

/// Qualcomm: Snapdragon 8 Gen 2, 8 Gen 3 and 8 Elite.
pub(crate) static VENDOR: Vendor = Vendor {
    suite: "qnn",
    manufacturer: "Qualcomm",
    plugin: "qualcomm",
    socs: &["SM8550", "SM8650", "SM8750"],
    soc: "SM8650",
    trace: "POLYCHIP_QNN_TRACE",
    libraries: link,
    runtime,
    device: "qnn:0",
    operations: |trace| Ok(trace::text(&trace::parse(trace)?.added)),
    compiled: |trace| {
        let seen = trace::parse(trace)?;
        let graphs = seen.finalized.iter().filter(|graph| graph.code == 0).count();
        Ok((graphs, seen.serialised))
    },
};

fn link(folder: &Path) -> Result<()> {
    let system = libraries::library("polychip-emulator-qnn-system", "QnnSystem")?;
    let htp = libraries::library("polychip-emulator-qnn", "QnnHtp")?;
    let link = |to: &Path, name: &str| {
        std::os::unix::fs::symlink(to, folder.join(name)).with_context(|| format!("linking {name}"))
    };
    link(&htp, "libQnnHtp.so")?;
    link(&system, "libQnnSystem.so")?;
    // the loader asks for a file of each name and is content with one that it has already
    STAND_INS.iter().try_for_each(|name| link(&system, name))
}

/// The runtime with the emulated chip; floats may be computed in 16 bits, as LiteRT has them.
pub(crate) fn runtime(libraries: &Path) -> Result<Runtime> {
    Ok(Runtime::builder()
        .only_given_folders()
        .link(polychip_qnn::query)
        .configure("qnn", "soc", VENDOR.soc)
        .configure("qnn", "precision", "reduced")
        .configure("qnn", "lib_dir", libraries.display().to_string())
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
            let trials = ["models", "calls", "answers"].map(|name| skipped(name, Need::Litert, &why));
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
        let (also, expected) = (Arc::clone(&client), Arc::clone(&calls));
        let path = trained.path.clone();
        let name = trained.name.clone();
        trials.push(trial(format!("models/{name}"), move || {
            models::judge(&also, &expected, &name, &path)
        }));
        let name = format!("answers/{}", trained.name);
        if let Some(why) = answers::left_out(&trained.name) {
            trials.push(left_out(&name, why));
            continue;
        }
        let also = Arc::clone(&client);
        trials.push(trial(name, move || {
            answers::trained(&also, &trained.name, &trained.path)
        }));
    }
    for case in cases {
        let (client, calls) = (Arc::clone(&client), Arc::clone(&calls));
        let (also, name) = (Arc::clone(&client), case.clone());
        trials.push(trial(format!("answers/{case}"), move || {
            answers::one_op(&also, &name)
        }));
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

//! A client that nobody here wrote drives the QNN emulator: LiteRT's Qualcomm compiler plugin.
//!
//! - `models`: trained models are compiled for three chips; how many of their ops the plugin took is committed;
//! - `calls`: of models of one op, the operations that LiteRT adds for it are those that our plugin adds for the same op
//!   in ONNX, but for the renaming of tensors; LiteRT's are committed (`golden.txt`), and what differs is explained in
//!   `expectations/litert-qnn.toml`;
//! - `answers`: the context binaries that LiteRT's plugin wrote are loaded and run by our plugin, and answer as LiteRT's own
//!   kernels do.
//!
//! All libraries are the emulators of this repository: nothing here says how fast a chip is, or what the vendor's own library
//! refuses. Skipped where `cargo xtask vendor litert` has not been run. `POLYCHIP_BLESS=1` writes what is committed.
//!
//! Start reading at `client`.

mod answers;
mod calls;
mod client;
mod models;
mod ours;
mod trace;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use libtest_mimic::{Arguments, Failed, Trial};
use polychip_device_tests::litert::Litert;
use polychip_device_tests::{Need, left_out, skipped};

use client::Client;

fn main() -> Result<()> {
    if let Some(folder) = std::env::var_os(ours::CHILD) {
        return ours::child(Path::new(&folder));
    }
    let arguments = Arguments::from_args();
    let litert = match Litert::find() {
        Ok(litert) => litert,
        Err(why) => {
            let trials = ["models", "calls", "answers"].map(|name| skipped(name, Need::Litert, &why));
            libtest_mimic::run(&arguments, trials.into()).exit();
        }
    };
    let client = Arc::new(Client::new(litert)?);
    let mut trials = Vec::new();
    for trained in client.litert.models()? {
        let (also, path) = (Arc::clone(&client), trained.path.clone());
        let name = trained.name.clone();
        trials.push(trial(format!("models/{name}"), move || {
            models::judge(&also, &name, &path)
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
    let cases = client.cases()?;
    let calls = Arc::new(calls::Calls::new(&cases)?);
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
    calls.finish().context("writing what was found")?;
    client.close()?;
    conclusion.exit()
}

fn trial(name: String, run: impl FnOnce() -> Result<()> + Send + 'static) -> Trial {
    Trial::test(name, move || {
        run().map_err(|error| Failed::from(format!("{error:#}")))
    })
}

//! Settings that point a plugin to emulated vendor libraries.
//!
//! Invariant: a folder given here contains no other library that the plugin would open instead.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use polychip_test_requirements::libraries;

/// The plugins of which there is one.
pub const PLUGINS: [&str; 6] = ["ascend", "coreml", "neuron", "nnrt", "qnn", "rknn"];

/// What the plugin's configuration must say so that it opens the emulated library, and compiles for the chip that plans
/// and conformance are shown for.
///
/// # Errors
/// The emulator cannot be built, or there is none for the plugin.
pub fn configuration(plugin: &str) -> Result<Vec<(&'static str, String)>> {
    Ok(match plugin {
        "ascend" => vec![
            ("lib_dir", folder("polychip-emulator-ascend", "ascendcl")?),
            ("atc", program("polychip-emulator-ascend", "atc")?),
        ],
        "coreml" => vec![("lib_dir", folder("polychip-emulator-coreml", "CoreML")?)],
        "neuron" => vec![("lib_dir", folder("polychip-emulator-neuron", "neuron_adapter")?)],
        "nnrt" => vec![(
            "lib_dir",
            folder("polychip-emulator-nnrt", "neural_network_runtime")?,
        )],
        "qnn" => {
            folder("polychip-emulator-qnn-system", "QnnSystem")?;
            vec![
                ("lib_dir", folder("polychip-emulator-qnn", "QnnHtp")?),
                ("soc", "57".to_owned()),
            ]
        }
        "rknn" => rknn("polychip-emulator-rknnrt", "rknnrt")?,
        _ => bail!(
            "no emulator for plugin {plugin:?}; there is one for {}",
            PLUGINS.join(", ")
        ),
    })
}

/// The same for the rknn plugin on another of its two libraries: of a board (`rknnrt`), or of a connected one
/// (`rknn_api`).
///
/// # Errors
/// The emulator cannot be built.
pub fn rknn(package: &str, stem: &str) -> Result<Vec<(&'static str, String)>> {
    Ok(vec![
        ("lib_dir", only(package, stem)?),
        (
            "compiler",
            program("polychip-emulator-rknn", "rknn-toolkit-emulated")?,
        ),
        ("target_platform", "rk3588".to_owned()),
    ])
}

fn program(package: &str, name: &str) -> Result<String> {
    Ok(libraries::program(package, name)?.display().to_string())
}

/// The folder of an emulator's library.
fn folder(package: &str, stem: &str) -> Result<String> {
    Ok(parent(&libraries::library(package, stem)?)?.display().to_string())
}

/// A folder that holds an emulator's library alone: beside others the plugin would find one of a connected board.
fn only(package: &str, stem: &str) -> Result<String> {
    let library = libraries::library(package, stem)?;
    let folder = parent(&library)?.join(format!("only-{stem}"));
    std::fs::create_dir_all(&folder)?;
    let name = library.file_name().context("a library has a name")?;
    // another process may make it at the same time
    let _ = std::os::unix::fs::symlink(&library, folder.join(name));
    Ok(folder.display().to_string())
}

fn parent(library: &Path) -> Result<PathBuf> {
    Ok(library.parent().context("a library lies in a folder")?.to_owned())
}

//! The systems: a chip of each vendor, as its emulator knows it.

use std::path::PathBuf;

use anyhow::{Context, Result};
use polychip::Query;
use polychip_device_tests::libraries;

/// A system: this machine's CPU, and a chip.
pub(crate) struct System {
    /// Its page's name.
    pub(crate) file: &'static str,
    /// What people call it.
    pub(crate) title: &'static str,
    pub(crate) plugin: &'static str,
    pub(crate) query: Query,
    /// Whether the chip computes in the host's memory.
    pub(crate) shares_memory: bool,
    /// The plugin's settings but for the precision.
    pub(crate) configuration: fn() -> Result<Vec<(&'static str, String)>>,
}

/// All of them.
pub(crate) const SYSTEMS: [System; 5] = [
    System {
        file: "snapdragon",
        title: "Snapdragon 8 Gen 3",
        plugin: "qnn",
        query: polychip_qnn::query,
        shares_memory: true,
        configuration: || {
            folder("polychip-emulator-qnn-system", "QnnSystem")?;
            let folder = folder("polychip-emulator-qnn", "QnnHtp")?;
            Ok(vec![("lib_dir", folder), ("soc", "57".to_owned())])
        },
    },
    System {
        file: "dimensity",
        title: "Dimensity 9300",
        plugin: "neuron",
        query: polychip_neuron::query,
        shares_memory: true,
        configuration: || {
            Ok(vec![(
                "lib_dir",
                folder("polychip-emulator-neuron", "neuron_adapter")?,
            )])
        },
    },
    System {
        file: "rk3588",
        title: "RK3588",
        plugin: "rknn",
        query: polychip_rknn::query,
        shares_memory: true,
        configuration: || {
            let compiler = libraries::program("polychip-emulator-rknn", "rknn-toolkit-emulated")?;
            Ok(vec![
                ("lib_dir", only("polychip-emulator-rknnrt", "rknnrt")?),
                ("compiler", compiler.display().to_string()),
                ("target_platform", "rk3588".to_owned()),
            ])
        },
    },
    System {
        file: "a17-pro",
        title: "Apple A17 Pro",
        plugin: "coreml",
        query: polychip_coreml::query,
        shares_memory: true,
        configuration: || Ok(vec![("lib_dir", folder("polychip-emulator-coreml", "CoreML")?)]),
    },
    System {
        file: "atlas-300i-pro",
        title: "Atlas 300I Pro (Ascend 310P3)",
        plugin: "ascend",
        query: polychip_ascend::query,
        shares_memory: false,
        configuration: || {
            let compiler = libraries::program("polychip-emulator-ascend", "atc")?;
            Ok(vec![
                ("lib_dir", folder("polychip-emulator-ascend", "ascendcl")?),
                ("atc", compiler.display().to_string()),
            ])
        },
    },
];

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

fn parent(library: &std::path::Path) -> Result<PathBuf> {
    Ok(library.parent().context("a library lies in a folder")?.to_owned())
}

//! The allowed edges between our crates (ARCHITECTURE.md, "Edges").
//!
//! A new edge is an architectural decision: it changes the table here in the same commit. A new plugin is
//! none: `plugins/NAME` without a row may depend on the SDK, the contract, the vocabulary and what it wraps;
//! its library `plugins/NAME/cdylib` on the plugin and the SDK.

use anyhow::Result;
use cargo_metadata::{DependencyKind, MetadataCommand};

use crate::root::root;

/// Crates and what each may depend on. Development dependencies are free for test crates and limited to
/// crates below otherwise, which cargo itself checks by refusing cycles.
const EDGES: &[(&str, &[&str])] = &[
    ("polychip-abi", &[]),
    ("polychip-build-id", &[]),
    ("polychip-ops", &["polychip-abi"]),
    ("polychip-graph", &["polychip-ops"]),
    ("polychip-partitioner", &["polychip-graph", "polychip-ops"]),
    ("polychip-governor", &[]),
    // pure, and kept so by this row: no host, so no device
    (
        "polychip-profile",
        &["polychip-partitioner", "polychip-graph", "polychip-ops"],
    ),
    ("polychip-cpu-kernels", &[]),
    ("polychip-gpu-kernels", &[]),
    ("polychip-sys", &[]),
    (
        "polychip-host",
        &["polychip-abi", "polychip-ops", "polychip-graph"],
    ),
    ("polychip-sdk", &["polychip-abi", "polychip-ops"]),
    (
        "polychip-reference",
        &[
            "polychip-abi",
            "polychip-ops",
            "polychip-sdk",
            "polychip-cpu-kernels",
        ],
    ),
    (
        "polychip-null",
        &[
            "polychip-abi",
            "polychip-build-id",
            "polychip-ops",
            "polychip-sdk",
            "polychip-reference",
        ],
    ),
    (
        "polychip-cpu",
        &[
            "polychip-abi",
            "polychip-build-id",
            "polychip-ops",
            "polychip-sdk",
            "polychip-lowering",
            "polychip-reference",
            "polychip-cpu-kernels",
        ],
    ),
    ("polychip-lowering", &["polychip-ops", "polychip-sdk"]),
    (
        "polychip-gpu-lowering",
        &[
            "polychip-ops",
            "polychip-sdk",
            "polychip-lowering",
            "polychip-gpu-kernels",
        ],
    ),
    (
        "polychip",
        &[
            "polychip-governor",
            "polychip-profile",
            "polychip-partitioner",
            "polychip-graph",
            "polychip-ops",
            "polychip-host",
            "polychip-cpu",
        ],
    ),
    (
        "polychip-cli",
        &[
            "polychip",
            "polychip-graph",
            "polychip-partitioner",
            "polychip-ops",
        ],
    ),
    ("xtask", &[]),
];

/// What a plugin without a row of its own may depend on: all that it wraps lies below these.
const OF_PLUGINS: &[&str] = &[
    "polychip-abi",
    "polychip-build-id",
    "polychip-ops",
    "polychip-sdk",
    "polychip-lowering",
    "polychip-cpu-kernels",
    "polychip-gpu-kernels",
    "polychip-gpu-lowering",
    "polychip-sys",
];

/// Crates of tests and witnesses: they may depend on anything of ours.
const FREE: &[&str] = &[
    "polychip-device-tests",
    "polychip-isa-tests",
    "polychip-conformance",
    "polychip-plugin-wrong",
    "polychip-emulator-qnn",
    "polychip-emulator-qnn-format",
    "polychip-emulator-qnn-system",
    "polychip-soc",
];

/// Checks the edges of every workspace member.
pub(super) fn check(findings: &mut Vec<String>) -> Result<()> {
    let metadata = MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .no_deps()
        .exec()?;
    let ours: Vec<&str> = metadata
        .packages
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    for package in &metadata.packages {
        let name = package.name.as_str();
        if FREE.contains(&name) {
            continue;
        }
        let folder = package.manifest_path.strip_prefix(root()).ok();
        let folder = folder.and_then(|manifest| manifest.parent());
        let Some(allowed) = allowed(name, folder.map_or("", |folder| folder.as_str())) else {
            findings.push(format!(
                "crate {name} is not in the table of edges (xtask/src/tidy/edges.rs)"
            ));
            continue;
        };
        for dependency in &package.dependencies {
            let to = dependency.name.as_str();
            let counts = dependency.kind != DependencyKind::Development && ours.contains(&to);
            if counts && !allowed.iter().any(|allowed| allowed == to) {
                findings.push(format!(
                    "crate {name} must not depend on {to}: move the code, or argue for the edge in docs/decisions \
                     and add it to xtask/src/tidy/edges.rs"
                ));
            }
        }
    }
    Ok(())
}

/// What the crate of this name in this folder may depend on, where it has a row or is a plugin.
fn allowed(name: &str, folder: &str) -> Option<Vec<String>> {
    if let Some((_, row)) = EDGES.iter().find(|(from, _)| *from == name) {
        return Some(row.iter().map(|to| (*to).to_owned()).collect());
    }
    let plugin = folder.strip_prefix("plugins/")?;
    match plugin.split_once('/') {
        None if name == format!("polychip-{plugin}") => {
            Some(OF_PLUGINS.iter().map(|to| (*to).to_owned()).collect())
        }
        Some((plugin, "cdylib")) if name == format!("polychip-plugin-{plugin}") => {
            Some(vec![format!("polychip-{plugin}"), "polychip-sdk".to_owned()])
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_needs_no_row_and_another_crate_does() {
        let plugin = allowed("polychip-qnn", "plugins/qnn").unwrap();
        assert!(
            plugin.contains(&"polychip-sdk".to_owned()) && !plugin.contains(&"polychip-graph".to_owned())
        );
        let library = allowed("polychip-plugin-qnn", "plugins/qnn/cdylib").unwrap();
        assert_eq!(library, ["polychip-qnn", "polychip-sdk"]);
        // the row of a plugin that has one is what counts
        assert!(
            allowed("polychip-cpu", "plugins/cpu")
                .unwrap()
                .contains(&"polychip-reference".to_owned())
        );
        for (name, folder) in [
            ("polychip-qnn", "qnn"),
            ("polychip-other", "plugins/qnn"),
            ("polychip-plugin-other", "plugins/qnn/cdylib"),
            ("polychip-qnn", "plugins/qnn/tool"),
        ] {
            assert_eq!(allowed(name, folder), None, "{name} in {folder}");
        }
    }
}

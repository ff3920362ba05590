//! The allowed edges between our crates (ARCHITECTURE.md, "Edges").
//!
//! A new edge is an architectural decision: it changes the table here in the same commit. A new plugin is
//! none: `plugins/NAME` without a row may depend on the SDK, the contract, the vocabulary and what it wraps;
//! its library `plugins/NAME/cdylib` on the plugin and the SDK.

use std::collections::BTreeSet;

use anyhow::Result;
use cargo_metadata::{DependencyKind, Metadata};

use super::architecture::{rows, section};
use crate::root::root;

/// Crates and what each may depend on. Development dependencies are free for test crates and limited to
/// crates below otherwise, which cargo itself checks by refusing cycles.
const EDGES: &[(&str, &[&str])] = &[
    ("polychip-abi", &[]),
    ("polychip-build-id", &[]),
    ("polychip-new-plugin", &[]),
    ("polychip-ops", &["polychip-abi"]),
    ("polychip-graph", &["polychip-ops"]),
    ("polychip-partitioner", &["polychip-graph", "polychip-ops"]),
    ("polychip-governor", &[]),
    ("polychip-device-queue", &[]),
    ("polychip-farm-record", &[]),
    ("polychip-farm", &["polychip-farm-record"]),
    (
        "polychip-farm-results",
        &["polychip-farm-record", "polychip-profile"],
    ),
    // pure, and kept so by this row: no host, so no device
    (
        "polychip-profile",
        &["polychip-partitioner", "polychip-graph", "polychip-ops"],
    ),
    ("polychip-cpu-kernels", &[]),
    ("polychip-gpu-kernels", &[]),
    ("polychip-sys", &[]),
    ("polychip-test-requirements", &[]),
    (
        "polychip-host",
        &[
            "polychip-abi",
            "polychip-ops",
            "polychip-graph",
            "polychip-isolation",
        ],
    ),
    (
        "polychip-isolation",
        &["polychip-abi", "polychip-ops", "polychip-sdk"],
    ),
    ("polychip-plugin-host", &["polychip-host", "polychip-isolation"]),
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
            "polychip-device-queue",
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
            "polychip-farm-record",
            "polychip-farm-results",
            "polychip-device-queue",
            "polychip-graph",
            "polychip-partitioner",
            "polychip-profile",
            "polychip-ops",
            "polychip-farm",
            "polychip-llm",
            "polychip-serve",
            "polychip-new-plugin",
        ],
    ),
    ("polychip-runner", &["polychip", "polychip-farm-record"]),
    (
        "polychip-llm",
        &[
            "polychip",
            "polychip-profile",
            "polychip-graph",
            "polychip-ops",
            "polychip-host",
        ],
    ),
    ("polychip-serve", &["polychip-llm"]),
    ("polychip-example-minimal", &["polychip"]),
    ("polychip-example-ocr", &["polychip"]),
    ("polychip-capi", &["polychip"]),
    ("polychip-python", &["polychip", "polychip-cli"]),
    (
        "polychip-onnxruntime",
        &["polychip", "polychip-graph", "polychip-ops", "polychip-sys"],
    ),
    ("xtask", &["polychip-new-plugin"]),
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
    "polychip-litert-tests",
    "polychip-conformance",
    "polychip-differ",
    "polychip-farm-desk",
    "polychip-models",
    "polychip-sessions",
    "polychip-mutants",
    "polychip-ops-bench",
    "polychip-parts",
    "polychip-plugin-wrong",
    "polychip-emulator-ascend",
    "polychip-emulator-chip",
    "polychip-emulator-neuron",
    "polychip-emulator-nnrt",
    "polychip-emulator-coreml",
    "polychip-emulator-qnn",
    "polychip-emulator-qnn-format",
    "polychip-emulator-qnn-system",
    "polychip-emulator-rknn",
    "polychip-emulator-rknn-api",
    "polychip-emulator-rknnrt",
    "polychip-soc",
];

/// Checks the edges of every workspace member, and the table of ARCHITECTURE.md.
pub(super) fn check(metadata: &Metadata, findings: &mut Vec<String>) -> Result<()> {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md"))?;
    findings.extend(stated(&page, |name| package_of(metadata, name)));
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

/// The package that the page calls so: by its folder, or the last word of it.
fn package_of(metadata: &Metadata, name: &str) -> Option<String> {
    let packages = metadata.packages.iter().filter_map(|package| {
        let folder = package.manifest_path.strip_prefix(root()).ok()?.parent()?;
        Some((folder, package.name.to_string()))
    });
    let mut packages: Vec<_> = packages.collect();
    packages.sort_by_key(|(folder, _)| folder.components().count());
    let whole = packages.iter().find(|(folder, _)| folder.as_str() == name);
    let last = || {
        packages
            .iter()
            .find(|(folder, _)| folder.file_name() == Some(name))
    };
    whole.or_else(last).map(|(_, package)| package.clone())
}

/// What the page's table says otherwise than the table here.
fn stated(page: &str, package_of: impl Fn(&str) -> Option<String>) -> Vec<String> {
    const PAGE: &str = "ARCHITECTURE.md";
    let mut findings = Vec::new();
    let mut told = Vec::new();
    for row in rows(section(page, "Edges")) {
        let [from, to] = row[..] else { continue };
        // rules for crates that have no row here
        if from.contains("NAME") || from == "device-tests" {
            continue;
        }
        // text in parentheses, and behind `as`, explains an edge
        let plain: String = to
            .split('(')
            .map(|piece| piece.rsplit_once(')').map_or(piece, |(_, rest)| rest))
            .collect();
        let mut allowed = BTreeSet::new();
        for name in plain.split([',', ';']).filter(|_| to != "nothing of ours") {
            let name = name
                .split(" as ")
                .next()
                .unwrap_or_default()
                .trim_matches(['`', ' ']);
            match package_of(name) {
                Some(package) => drop(allowed.insert(package)),
                None => findings.push(format!("{PAGE}: in the table of edges, {name:?} is no crate")),
            }
        }
        for name in from.split(',').map(|name| name.trim_matches(['`', ' '])) {
            let Some(package) = package_of(name) else {
                findings.push(format!("{PAGE}: in the table of edges, {name:?} is no crate"));
                continue;
            };
            let row = EDGES.iter().find(|(from, _)| *from == package);
            let ours: BTreeSet<String> = row
                .iter()
                .flat_map(|(_, to)| to.iter())
                .map(ToString::to_string)
                .collect();
            if ours != allowed {
                findings.push(format!(
                    "{PAGE}: the table of edges lets {package} depend on {allowed:?}, xtask/src/tidy/edges.rs on {ours:?}"
                ));
            }
            told.push(package);
        }
    }
    for (from, to) in EDGES {
        if !to.is_empty() && !told.iter().any(|package| package == from) {
            findings.push(format!("{PAGE}: the table of edges has no row of {from}"));
        }
    }
    findings
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
    fn page_lists_the_same_edges() {
        let package = |name: &str| (name != "unknown").then(|| format!("polychip-{name}"));
        let found = |row: &str| {
            let page = format!("## Edges\n\n| crate | may |\n|---|---|\n{row}\n\n## Next\n");
            let mut found = stated(&page, package);
            found.retain(|finding| !finding.contains("has no row"));
            found
        };
        assert!(found("| graph | ops |\n| cpu-kernels, sys | nothing of ours |").is_empty());
        assert!(found("| graph | ops as a table (feature `a`, on) |\n| plugins/NAME | sdk |").is_empty());
        assert_eq!(found("| graph | ops, sys |").len(), 1);
        assert_eq!(found("| unknown | unknown |").len(), 2);
    }

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

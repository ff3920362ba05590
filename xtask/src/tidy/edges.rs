//! The allowed edges between our crates (ARCHITECTURE.md, "Edges").
//!
//! A new edge is an architectural decision: it changes the table here in the same commit.

use anyhow::Result;
use cargo_metadata::{DependencyKind, MetadataCommand};

use crate::root::root;

/// Crates and what each may depend on. Development dependencies are free for test crates and limited to
/// crates below otherwise, which cargo itself checks by refusing cycles.
const EDGES: &[(&str, &[&str])] = &[
    ("polychip-abi", &[]),
    ("polychip-ops", &["polychip-abi"]),
    ("polychip-graph", &["polychip-ops"]),
    ("polychip-partitioner", &["polychip-graph", "polychip-ops"]),
    ("polychip-cpu-kernels", &[]),
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
            "polychip-ops",
            "polychip-sdk",
            "polychip-reference",
        ],
    ),
    (
        "polychip-cpu",
        &[
            "polychip-abi",
            "polychip-ops",
            "polychip-sdk",
            "polychip-reference",
            "polychip-cpu-kernels",
        ],
    ),
    ("polychip-plugin-cpu", &["polychip-cpu", "polychip-sdk"]),
    ("polychip-plugin-null", &["polychip-null", "polychip-sdk"]),
    (
        "polychip",
        &[
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

/// Crates of tests and witnesses: they may depend on anything of ours.
const FREE: &[&str] = &["polychip-device-tests"];

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
        let Some((_, allowed)) = EDGES.iter().find(|(from, _)| *from == name) else {
            findings.push(format!(
                "crate {name} is not in the table of edges (xtask/src/tidy/edges.rs)"
            ));
            continue;
        };
        for dependency in &package.dependencies {
            let to = dependency.name.as_str();
            let counts = dependency.kind != DependencyKind::Development && ours.contains(&to);
            if counts && !allowed.contains(&to) {
                findings.push(format!(
                    "crate {name} must not depend on {to}: move the code, or argue for the edge in docs/decisions \
                     and add it to xtask/src/tidy/edges.rs"
                ));
            }
        }
    }
    Ok(())
}

//! Packages with tests on emulated aarch64, packages without and why, and the libraries that tests load.
//!
//! Invariant: every package of the workspace runs unless [`LEFT_OUT`] lists it with its reason; a name that is not a
//! package fails a test.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use cargo_metadata::MetadataCommand;

use super::program::Program;
use crate::root::root;

const NO_VULKAN: &str = "needs vulkan: an emulated process has no GPU driver";
const NO_OPENCL: &str = "needs opencl: an emulated process has no GPU driver";
const NO_OPENVINO: &str = "needs openvino: the test library is built for x86-64";
const BESIDE: &str =
    "needs python: it compares speed with ONNX Runtime, which is meaningless under emulation";

/// A package that is not run, and why.
pub(super) type LeftOut = (String, &'static str);

/// Packages that cannot run there.
const LEFT_OUT: [(&str, &str); 14] = [
    ("polychip-differ", BESIDE),
    (
        "polychip-example-ocr",
        "needs ocr: its test is the suite `ocr` of device-tests, a run of minutes before emulation",
    ),
    ("polychip-gpu", NO_VULKAN),
    (
        "polychip-litert-tests",
        "needs litert: Google's compiler plugins are built for x86-64",
    ),
    ("polychip-models", BESIDE),
    ("polychip-opencl", NO_OPENCL),
    ("polychip-openvino", NO_OPENVINO),
    ("polychip-ops-bench", BESIDE),
    ("polychip-plugin-gpu", NO_VULKAN),
    ("polychip-plugin-opencl", NO_OPENCL),
    ("polychip-plugin-openvino", NO_OPENVINO),
    (
        "polychip-python",
        "needs python: its tests run in Python, and this machine's interpreter cannot load aarch64 modules",
    ),
    ("polychip-sessions", BESIDE),
    ("xtask", "tasks of the build machine"),
];

/// Packages whose libraries or programs the tests of another load or start, which cargo does not know of.
const LOADED: [(&str, &[&str]); 13] = [
    ("polychip-host", &["polychip-plugin-null"]),
    ("polychip-cpu", &["polychip-plugin-cpu"]),
    (
        "polychip-cli",
        &["polychip-plugin-null", "polychip-plugin-cpu", "polychip-runner"],
    ),
    (
        "polychip-device-tests",
        &[
            "polychip-conformance",
            "polychip-emulator-ascend",
            "polychip-emulator-coreml",
            "polychip-emulator-neuron",
            "polychip-emulator-nnrt",
            "polychip-emulator-qnn",
            "polychip-emulator-qnn-system",
            "polychip-emulator-rknn",
            "polychip-emulator-rknnrt",
        ],
    ),
    ("polychip-farm", &["polychip-runner"]),
    ("polychip-test-requirements", &["polychip-plugin-null"]),
    ("polychip-nnrt", &["polychip-emulator-nnrt"]),
    ("polychip-neuron", &["polychip-emulator-neuron"]),
    ("polychip-coreml", &["polychip-emulator-coreml"]),
    ("polychip-ascend", &["polychip-emulator-ascend"]),
    (
        "polychip-rknn",
        &[
            "polychip-emulator-rknn",
            "polychip-emulator-rknnrt",
            "polychip-emulator-rknn-api",
        ],
    ),
    (
        "polychip-emulator-qnn",
        &["polychip-emulator-qnn", "polychip-emulator-qnn-system"],
    ),
    (
        "polychip-conformance",
        &[
            "polychip-plugin-null",
            "polychip-plugin-cpu",
            "polychip-plugin-wrong",
        ],
    ),
];

/// Tests that start a program of ours, or themselves, by its file: `PACKAGE::TEST`, or a package's unit tests.
const STARTING: [&str; 12] = [
    "polychip-ascend::emulated",
    "polychip-cli::command",
    "polychip-conformance::conformance",
    "polychip-device-tests::c_plugin",
    "polychip-device-tests::coreml_witness",
    "polychip-device-tests::qnn_models",
    "polychip-device-tests::qnn_witness",
    "polychip-device-tests::soc_plans",
    "polychip-farm::boards",
    "polychip-mutants::mutants",
    "polychip-rknn::emulated",
    "polychip-runner::runner",
];

/// A program that is not there: the emulator cannot tell a test so, since what `posix_spawn` reports of it gets lost.
const SPAWN: &str = "an emulated process does not notice that a program to start is missing";

/// Tests that cannot pass there, by what their names hold, and why.
const SKIPPED: [(&str, &[&str], &str); 6] = [
    (
        "polychip-conformance::conformance",
        &["wrong/leaks-memory/leaks/runs"],
        "the emulator keeps the memory of finished threads, so growth means nothing",
    ),
    (
        "polychip-device-tests::ocr",
        &["it_reads_what_onnx_runtime_reads", "it_reads_what_the_page_says"],
        "an emulated processor needs minutes for a page, and the example waits for one minute",
    ),
    (
        "polychip-farm",
        &[
            "labgrid::tests::hanging_client_is_killed",
            "transport::shell::tests::transport_failures_are_distinguished",
        ],
        SPAWN,
    ),
    (
        "polychip-host",
        &["memory::tests::sparse_memory_uses_only_touched_pages"],
        "an emulated process sees the emulator's /proc/self/smaps",
    ),
    (
        "polychip-rknn::emulated",
        &["compiler::without_a_compiler_every_node_states_the_reason"],
        SPAWN,
    ),
    (
        "polychip-runner::runner",
        &["benchmark_record_includes_all_conditions"],
        "it needs a real board, but figures are labelled as emulated there",
    ),
];

/// Why a whole program of tests of a package that runs cannot run there, if so.
pub(super) fn cannot_run(program: &str) -> Option<&'static str> {
    (program == "polychip-device-tests::openvino").then_some(NO_OPENVINO)
}

/// Tests of a program that are skipped, each with the reason.
pub(super) fn skipped(program: &str) -> Vec<(&'static str, &'static str)> {
    let rows = SKIPPED.iter().filter(|(of, ..)| *of == program);
    rows.flat_map(|(_, tests, why)| tests.iter().map(|test| (*test, *why)))
        .collect()
}

/// Whether this program starts others of ours.
pub(super) fn starts_programs(program: &Program) -> bool {
    STARTING.contains(&program.name().as_str())
}

/// The packages that are run, and those that are not with the reason.
pub(super) fn choose(only: &[String], without: &[String]) -> Result<(Vec<String>, Vec<LeftOut>)> {
    let all = members()?;
    for name in only.iter().chain(without) {
        ensure!(
            all.contains(name),
            "{name} is not a package of this workspace; the packages are {}",
            all.iter().cloned().collect::<Vec<_>>().join(", ")
        );
    }
    let (mut chosen, mut left_out) = (Vec::new(), Vec::new());
    for name in all {
        let reason = LEFT_OUT.iter().find(|(package, _)| *package == name);
        if !only.is_empty() {
            // a package that the user names is wanted
            if only.contains(&name) {
                chosen.push(name);
            }
        } else if let Some((_, why)) = reason {
            left_out.push((name, *why));
        } else if without.contains(&name) {
            left_out.push((name, "left out by --without"));
        } else {
            chosen.push(name);
        }
    }
    if !only.is_empty() {
        left_out.clear();
    }
    Ok((chosen, left_out))
}

/// What is built beside these packages, for their tests to load.
pub(super) fn loaded(chosen: &[String]) -> BTreeSet<&'static str> {
    let needed = LOADED
        .iter()
        .filter(|(package, _)| chosen.iter().any(|name| name == package));
    needed.flat_map(|(_, loaded)| loaded.iter().copied()).collect()
}

/// All packages of the workspace.
fn members() -> Result<BTreeSet<String>> {
    let metadata = MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .no_deps()
        .exec()
        .context("asking cargo for the workspace's packages")?;
    Ok(metadata
        .packages
        .iter()
        .map(|package| package.name.to_string())
        .collect())
}

/// The package of a folder, and the tests in it that bring their own harness.
pub(super) fn of_folder(folder: &Path) -> Result<(String, BTreeSet<String>)> {
    let file = folder.join("Cargo.toml");
    let manifest: toml::Table = std::fs::read_to_string(&file)
        .with_context(|| file.display().to_string())?
        .parse()
        .with_context(|| file.display().to_string())?;
    let name = manifest["package"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let stated = manifest.get("test").and_then(toml::Value::as_array);
    let own = stated.into_iter().flatten().filter_map(|test| {
        let name = test.get("name")?.as_str()?;
        (test.get("harness")?.as_bool() == Some(false)).then(|| name.to_owned())
    });
    Ok((name, own.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_name_packages_of_the_workspace() {
        let all = members().unwrap();
        let starting = STARTING
            .iter()
            .map(|test| test.split_once("::").map_or(*test, |(package, _)| package));
        let left_out = LEFT_OUT.iter().map(|(package, _)| *package);
        let loading = LOADED
            .iter()
            .flat_map(|(package, loaded)| loaded.iter().copied().chain([*package]));
        let skipping = SKIPPED
            .iter()
            .map(|(test, ..)| test.split_once("::").map_or(*test, |(package, _)| package));
        for name in starting.chain(left_out).chain(loading).chain(skipping) {
            assert!(all.contains(name), "{name} is not a package");
        }
    }

    #[test]
    fn omitted_packages_are_reported_unless_requested() {
        let (chosen, left_out) = choose(&[], &["polychip-cli".to_owned()]).unwrap();
        assert!(chosen.contains(&"polychip-graph".to_owned()));
        assert!(!chosen.contains(&"polychip-gpu".to_owned()));
        let why = |name: &str| left_out.iter().find(|(package, _)| package == name).unwrap().1;
        assert!(why("polychip-gpu").starts_with("needs vulkan: "));
        assert_eq!(why("polychip-cli"), "left out by --without");
        let (chosen, left_out) = choose(&["polychip-gpu".to_owned()], &[]).unwrap();
        assert_eq!((chosen, left_out.len()), (vec!["polychip-gpu".to_owned()], 0));
        let error = choose(&["polychip-cpus".to_owned()], &[])
            .unwrap_err()
            .to_string();
        assert!(error.contains("polychip-cpus is not a package") && error.contains("polychip-cpu,"));
        assert!(loaded(&["polychip-farm".to_owned()]).contains("polychip-runner"));
    }

    #[test]
    fn custom_suites_are_distinguished_from_the_default_harness() {
        let (name, own) = of_folder(&root().join("device-tests/isa")).unwrap();
        assert_eq!(name, "polychip-isa-tests");
        assert!(own.contains("op_suite"));
        assert!(of_folder(&root().join("apps/cli")).unwrap().1.is_empty());
    }
}

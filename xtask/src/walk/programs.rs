//! Replacements for cargo's commands on a page: the programs that the build has made, so that nothing is built again.
//!
//! Invariants:
//! 1. A row of [`STANDS_FOR`] names a package of the workspace that has the program, and each that is used is printed.
//! 2. A command without a row fails with a message, instead of being built or passed over.
//!
//! What this does not show: that the optimised build works (`cargo build --release`), and how long it takes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::root::root;

/// The start of lines that report a replacement.
pub(super) const MARK: &str = "walk: ";

/// What a command of cargo's is, here.
enum Instead {
    /// A program in target/debug, with what follows `--`.
    Program(&'static str),
    /// Nothing: these programs are built and first on PATH.
    Built(&'static [&'static str]),
    /// A program of target/debug with the words that follow.
    Chore,
}

/// Cargo's words up to what a program is given, the package that they name, and what is done.
const STANDS_FOR: [(&str, &str, Instead); 7] = [
    (
        "run --release --package polychip-cli --",
        "polychip-cli",
        Instead::Program("polychip"),
    ),
    (
        "run --release --package polychip --example label --",
        "polychip",
        Instead::Program("examples/label"),
    ),
    (
        "run --release --package polychip-conformance --",
        "polychip-conformance",
        Instead::Program("polychip-conform"),
    ),
    (
        "install --path apps/cli --features full",
        "polychip-cli",
        Instead::Built(&["polychip"]),
    ),
    (
        "build --release --package polychip-cli --package polychip-runner --features full",
        "polychip-runner",
        Instead::Built(&["polychip", "polychip-runner"]),
    ),
    (
        "build --release --package polychip-plugin-null",
        "polychip-plugin-null",
        Instead::Built(&["libpolychip_plugin_null.so"]),
    ),
    ("xtask", "xtask", Instead::Chore),
];

/// Programs that pages call by their names once they are built or installed.
const PROGRAMS: [&str; 3] = ["polychip", "polychip-conform", "polychip-runner"];

/// Builds what is needed.
pub(super) fn build() -> Result<()> {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--lib", "--bins", "--example", "label"]);
    for (_, package, _) in &STANDS_FOR {
        build.args(["--package", package]);
    }
    build.args(["--features", "full"]);
    let status = build.current_dir(root()).status().context("starting cargo")?;
    ensure!(status.success(), "the programs cannot be built");
    Ok(())
}

/// A folder for the front of PATH, with the programs and the script that is `cargo` there.
pub(super) fn lay_out(folder: &Path) -> Result<PathBuf> {
    let bin = folder.join("bin");
    fs::create_dir_all(&bin)?;
    let built = root().join("target/debug");
    for program in PROGRAMS {
        let file = built.join(program);
        ensure!(
            file.is_file(),
            "{} is not there: build the workspace first, or leave --built out",
            file.display()
        );
        // not a link: plugins are looked for beside the program, and target/debug has many
        fs::copy(&file, bin.join(program)).with_context(|| file.display().to_string())?;
    }
    let cargo = bin.join("cargo");
    fs::write(&cargo, script(&built))?;
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755))?;
    Ok(bin)
}

/// The script that is `cargo` on a walk.
fn script(built: &Path) -> String {
    let mut script = format!(
        "#!/usr/bin/env bash\n# Made by `cargo xtask walk`.\nbuilt={}\ncase \"$* \" in\n",
        quoted(built)
    );
    for (words, _, instead) in &STANDS_FOR {
        let count = words.split(' ').count();
        script.push_str(&format!("\"{words} \"*)\n    shift {count}\n"));
        script.push_str(&match instead {
            Instead::Program(program) => format!(
                "    echo \"{MARK}cargo {words} is target/debug/{program}, unoptimised\" >&2\n    exec \"$built/{program}\" \"$@\" ;;\n"
            ),
            Instead::Chore => format!(
                "    echo \"{MARK}cargo {words} is target/debug/xtask\" >&2\n    exec \"$built/xtask\" \"$@\" ;;\n"
            ),
            Instead::Built(files) => {
                let mut lines = format!(
                    "    [ $# = 0 ] || {{ echo \"{MARK}nothing replaces: cargo {words} $*\" >&2; exit 101; }}\n    \
                     echo \"{MARK}cargo {words} builds nothing: target/debug has {}\" >&2\n    mkdir -p target/release\n",
                    files.join(", ")
                );
                for file in *files {
                    lines.push_str(&format!("    cp \"$built/{file}\" target/release/ || exit 1\n"));
                }
                lines.push_str("    exit 0 ;;\n");
                lines
            }
        });
    }
    script.push_str(&format!(
        "*)\n    echo \"{MARK}nothing replaces: cargo $*\" >&2\n    exit 101 ;;\nesac\n"
    ));
    script
}

/// A path as one word of a shell.
pub(super) fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use cargo_metadata::MetadataCommand;

    use super::*;

    /// The script, run with these words.
    fn cargo(built: &Path, at: &Path, words: &str) -> (bool, String) {
        let output = Command::new("bash")
            .args(["-c", &script(built), "cargo"])
            .args(words.split(' '))
            .current_dir(at)
            .output()
            .unwrap();
        let mut said = String::from_utf8(output.stdout).unwrap();
        said.push_str(&String::from_utf8(output.stderr).unwrap());
        (output.status.success(), said)
    }

    #[test]
    fn stand_in_cargo_runs_built_programs_and_refuses_others() {
        let folder = tempfile::tempdir().unwrap();
        let built = folder.path().join("it's built");
        fs::create_dir(&built).unwrap();
        let polychip = built.join("polychip");
        fs::write(&polychip, "#!/bin/sh\necho \"got $*\"\n").unwrap();
        fs::set_permissions(&polychip, fs::Permissions::from_mode(0o755)).unwrap();
        let run = |words: &str| cargo(&built, folder.path(), words);
        let (ok, said) = run("run --release --package polychip-cli -- run m.onnx");
        assert!(ok && said.contains("got run m.onnx"), "{said}");
        assert!(said.contains("is target/debug/polychip, unoptimised"), "{said}");
        let (ok, said) = run("install --path apps/cli --features full");
        assert!(
            ok && folder.path().join("target/release/polychip").is_file(),
            "{said}"
        );
        for words in [
            "install --path cliff --features full",
            "build",
            "run --package polychip-cli -- run",
        ] {
            let (ok, said) = run(words);
            assert!(!ok && said.contains("nothing replaces"), "{words}: {said}");
        }
        // a program that was not built
        assert!(!run("build --release --package polychip-plugin-null").0);
    }

    #[test]
    fn every_row_names_a_package_that_has_the_program() {
        let metadata = MetadataCommand::new()
            .manifest_path(root().join("Cargo.toml"))
            .no_deps()
            .exec()
            .unwrap();
        for (words, package, instead) in &STANDS_FOR {
            let found = metadata
                .packages
                .iter()
                .find(|found| found.name.as_str() == *package);
            let found = found.unwrap_or_else(|| panic!("there is no package {package}"));
            let has = |program: &str| {
                let name = program.rsplit('/').next().unwrap_or_default();
                let name = name
                    .strip_prefix("lib")
                    .and_then(|name| name.strip_suffix(".so"))
                    .unwrap_or(name);
                found.targets.iter().any(|target| target.name == name)
            };
            let program = match instead {
                Instead::Program(program) => program,
                Instead::Built(files) => files.last().unwrap(),
                Instead::Chore => "xtask",
            };
            assert!(has(program), "{words}: {package} has no {program}");
            assert!(
                words.contains(package) || *words == "xtask" || words.contains("--path apps/cli"),
                "{words}"
            );
        }
    }
}

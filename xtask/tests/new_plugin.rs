//! What `cargo xtask new-plugin` writes is a plugin: it builds without a warning, passes its own tests and conforms.
//!
//! The plugin is written into a tree whose folders are this one's, by links, and is built in this workspace's target
//! folder: cargo names a crate by its place in the tree, so it finds there what is built, and builds what is new.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Trial};
use polychip_test_requirements::libraries;

/// Taken by no plugin.
const NAME: &str = "made_up";
const PLUGIN: &str = "polychip-made_up";
const LIBRARY: &str = "polychip-plugin-made_up";

/// Lines that a vendor's engineer is asked to read, tests and manifests included.
const MOST_LINES: usize = 900;

/// What the plugin computes, and so what of the suite's ops must pass.
const OPS: [&str; 3] = ["ops/Identity/", "ops/Relu/", "ops/Add/"];

fn main() {
    let arguments = Arguments::from_args();
    let conforms = || conforms().map_err(|error| format!("{error:#}").into());
    let trial = Trial::test("a_new_plugin_conforms", conforms);
    libtest_mimic::run(&arguments, vec![trial]).exit();
}

fn conforms() -> Result<()> {
    let program = std::env::current_exe()?;
    let profile = program.ancestors().nth(2).context("target/PROFILE")?;
    let target = profile.parent().context("target")?;
    let tree = tree(&target.join("new-plugin"))?;
    run(Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["new-plugin", NAME, "--tree"])
        .arg(&tree))?;
    let lines = lines(&tree.join("plugins").join(NAME))?;
    ensure!(
        lines <= MOST_LINES,
        "the plugin has {lines} lines, more than {MOST_LINES}"
    );
    let cargo = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO"));
        command
            .args(arguments)
            .args(["--offline", "--target-dir"])
            .arg(target);
        if profile.ends_with("release") {
            command.arg("--release");
        }
        let words = run(command.current_dir(&tree))?;
        ensure!(!words.contains("warning"), "{words}");
        Ok(words)
    };
    cargo(&["build", "--package", LIBRARY])?;
    // whoever looks for plugins in the target folder must not find it
    let name = format!(
        "{}polychip_plugin_{NAME}{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    );
    let library = tree.join(&name);
    fs::copy(profile.join(&name), &library)?;
    fs::remove_file(profile.join(&name))?;
    cargo(&["test", "--package", PLUGIN])?;
    judge(&library, &tree.join("report.json"))
}

/// The library by the conformance suite: no case fails, and those of the three ops pass.
fn judge(library: &Path, report: &Path) -> Result<()> {
    let conform = libraries::program("polychip-conformance", "polychip-conform")?;
    run(Command::new(conform)
        .arg(library)
        .args(["--cycles", "200", "--json"])
        .arg(report))?;
    let report: serde_json::Value = serde_json::from_slice(&fs::read(report)?)?;
    let rows = report["devices"][0]["rows"].as_array().context("no rows")?;
    let passed: Vec<&str> = rows
        .iter()
        .filter(|row| row["outcome"] == "passed")
        .filter_map(|row| row["case"].as_str())
        .collect();
    for op in OPS {
        ensure!(
            passed.iter().any(|case| case.starts_with(op)),
            "no case of {op} passed, of {} that did",
            passed.len()
        );
    }
    eprintln!("{} of {} cases passed, none failed", passed.len(), rows.len());
    Ok(())
}

/// A workspace of this one's folders and of no plugin but those that it has.
fn tree(tree: &Path) -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("the root")?;
    if tree.exists() {
        fs::remove_dir_all(tree)?;
    }
    fs::create_dir_all(tree.join("plugins"))?;
    for file in ["Cargo.toml", "Cargo.lock", "rustfmt.toml"] {
        fs::copy(root.join(file), tree.join(file))?;
    }
    for folder in folders(root)?.iter().chain(&folders(&root.join("plugins"))?) {
        let place = folder.strip_prefix(root)?;
        if !["plugins", "target", ".git"]
            .iter()
            .any(|left_out| place == Path::new(left_out))
        {
            link(folder, &tree.join(place))?;
        }
    }
    Ok(tree.to_owned())
}

#[cfg(unix)]
fn link(to: &Path, at: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(to, at)
}

#[cfg(windows)]
fn link(to: &Path, at: &Path) -> std::io::Result<()> {
    std::os::windows::fs::symlink_dir(to, at)
}

fn folders(of: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(of)?.collect::<std::io::Result<Vec<_>>>()?;
    Ok(entries
        .iter()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect())
}

fn lines(folder: &Path) -> Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        count += if path.is_dir() {
            lines(&path)?
        } else {
            fs::read_to_string(&path)?.lines().count()
        };
    }
    Ok(count)
}

/// Runs a command to its end; what it said on standard error, and all that it said where it failed.
fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(
        output.status.success(),
        "{command:?}: {}\n{words}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout)
    );
    Ok(words)
}

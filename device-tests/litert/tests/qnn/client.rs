//! LiteRT with its Qualcomm plugin, and the emulated libraries that it finds.
//!
//! Invariants:
//! 1. The libraries are built from the sources as they are, and are the only ones of the vendor's names that are found.
//! 2. A model is compiled once for a chip, whoever asks.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anyhow::{Context, Result, anyhow};
use polychip_device_tests::libraries;
use polychip_device_tests::litert::{Job, Litert};
use tempfile::TempDir;

/// Names that LiteRT's plugin is linked against and calls only where other back ends of the vendor's are asked for.
const STAND_INS: [&str; 3] = ["libQnnIr.so", "libQnnLpai.so", "libQnnSaver.so"];

/// A compiled model, and the calls that it took.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    pub(crate) model: PathBuf,
    pub(crate) trace: PathBuf,
}

type Once = Arc<OnceLock<Result<Compiled, String>>>;

/// LiteRT, the libraries, and what was compiled so far.
pub(crate) struct Client {
    pub(crate) litert: Litert,
    folder: TempDir,
    libraries: PathBuf,
    compiled: Mutex<BTreeMap<(String, &'static str), Once>>,
}

impl Client {
    pub(crate) fn new(litert: Litert) -> Result<Client> {
        let folder = tempfile::tempdir()?;
        let libraries = folder.path().join("libraries");
        std::fs::create_dir(&libraries)?;
        let system = libraries::library("polychip-emulator-qnn-system", "QnnSystem")?;
        let htp = libraries::library("polychip-emulator-qnn", "QnnHtp")?;
        let link = |to: &Path, name: &str| {
            std::os::unix::fs::symlink(to, libraries.join(name)).with_context(|| format!("linking {name}"))
        };
        link(&htp, "libQnnHtp.so")?;
        link(&system, "libQnnSystem.so")?;
        // the loader asks for a file of each name and is content with one that it has already
        for name in STAND_INS {
            link(&system, name)?;
        }
        Ok(Client {
            litert,
            folder,
            libraries,
            compiled: Mutex::default(),
        })
    }

    /// The folder of the emulated libraries.
    pub(crate) fn libraries(&self) -> &Path {
        &self.libraries
    }

    /// The folder of the models of one op, and theirs.
    pub(crate) fn ops(&self) -> PathBuf {
        self.folder.path().join("ops")
    }

    /// Makes the models of one op and gives their names.
    pub(crate) fn cases(&self) -> Result<Vec<String>> {
        let folder = self.ops();
        std::fs::create_dir(&folder)?;
        let log = self.folder.path().join("ops.py");
        self.litert.script("ops.py", &[folder.as_os_str()], &log)?;
        Ok(serde_json::from_slice(&std::fs::read(
            folder.join("cases.json"),
        )?)?)
    }

    /// A model compiled for a chip, under a name of its own.
    pub(crate) fn compile(&self, name: &str, model: &Path, soc: &'static str) -> Result<Compiled> {
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
            manufacturer: "Qualcomm",
            plugin: "qualcomm",
            soc,
            model,
            output: &output,
            libraries: std::slice::from_ref(&self.libraries),
            environment: &[("POLYCHIP_QNN_TRACE", OsString::from(&trace))],
            flags: &[],
        })?;
        Ok(Compiled { model: output, trace })
    }

    /// LiteRT's own answers for the pieces of a compiled model: a folder that `answers.py` describes.
    pub(crate) fn answers(&self, name: &str, model: &Path, compiled: &Compiled) -> Result<PathBuf> {
        let folder = self
            .folder
            .path()
            .join(format!("{}-answers", name.replace('/', "-")));
        let arguments: [&OsStr; 3] = [model.as_ref(), compiled.model.as_ref(), folder.as_ref()];
        self.litert.script("answers.py", &arguments, &folder)?;
        Ok(folder)
    }

    /// Removes what was made.
    pub(crate) fn close(&self) -> Result<()> {
        // the process ends without running destructors
        std::fs::remove_dir_all(self.folder.path()).context("removing what was made")
    }
}

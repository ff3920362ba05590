//! Opening the adapter: candidate files, and the reasons for refusing one.
//!
//! Invariants:
//! 1. A returned library has every function of [`REQUIRED`] and reports its version.
//! 2. If a folder is named, only that folder is searched.
//!
//! Not here: optional functions, which are checked where they are used.

#![allow(unsafe_code, reason = "a foreign library is opened here")]

use std::path::{Path, PathBuf};

use super::bindings::{NEURON_NO_ERROR, NeuronRuntimeVersion, Symbols};
use crate::error::{Cause, Result};
use crate::library::accessors;
use crate::{Error, Library as File};

/// The variable that names the folder.
pub const LIB_DIR: &str = "NEURON_LIB_DIR";

/// Names of the library, the newest first. Phones have the `.mtk` names; the compilers for
/// workstations have the last one.
pub const NAMES: &[&str] = &[
    "libneuronusdk_adapter.10.mtk.so",
    "libneuronusdk_adapter.9.mtk.so",
    "libneuronusdk_adapter.mtk.so",
    "libneuronusdk_adapter.so",
    "libneuron_adapter_mgvi.so",
    "libneuron_adapter.so",
];

/// Ends each message.
const REMEDY: &str = "on a phone of MediaTek's the system has it; elsewhere set NEURON_LIB_DIR to the folder that holds \
                      libneuron_adapter.so of the NeuroPilot SDK";

/// A symbol of libraries that emulate the chip.
const EMULATED: &str = "polychip_emulates_neuron";

/// The open library.
pub struct Library {
    symbols: &'static Symbols,
    path: PathBuf,
    says_it_emulates: bool,
    version: NeuronRuntimeVersion,
}

/// Names a call by the field of [`Symbols`] that holds it.
macro_rules! required {
    ($($call:ident),* $(,)?) => {
        /// Required functions.
        const REQUIRED: &[(&str, fn(&Symbols) -> bool)] = &[
            $((stringify!($call), |symbols| symbols.$call.is_ok()),)*
        ];
    };
}

required!(
    Neuron_getVersion,
    NeuronModel_create,
    NeuronModel_free,
    NeuronModel_finish,
    NeuronModel_addOperand,
    NeuronModel_setOperandValue,
    NeuronModel_setOperandSymmPerChannelQuantParams,
    NeuronModel_addOperation,
    NeuronModel_identifyInputsAndOutputs,
    NeuronModel_relaxComputationFloat32toFloat16,
    NeuronModel_restoreFromCompiledNetwork,
    NeuronCompilation_create,
    NeuronCompilation_free,
    NeuronCompilation_finish,
    NeuronCompilation_setPreference,
    NeuronCompilation_getSupportedOperations,
    NeuronCompilation_getCompiledNetworkSize,
    NeuronCompilation_storeCompiledNetwork,
    NeuronExecution_create,
    NeuronExecution_free,
    NeuronExecution_setInput,
    NeuronExecution_setOutput,
    NeuronExecution_setInputFromMemory,
    NeuronExecution_setOutputFromMemory,
    NeuronExecution_compute,
    NeuronMemory_createFromFd,
    NeuronMemory_free,
);

impl Library {
    /// Opens the library, by each of [`NAMES`]: in `folder` if there is one, else in the folder
    /// that `NEURON_LIB_DIR` names, else in the system's library path. It is never closed.
    ///
    /// # Errors
    /// No library is found, or the one found cannot be opened, lacks a required call, or does not
    /// report its version.
    pub fn open(folder: Option<&Path>) -> Result<&'static Library> {
        let named = folder.map(|folder| (folder.to_owned(), "the option `lib_dir`".to_owned()));
        let named = named.or_else(|| {
            let folder = std::env::var_os(LIB_DIR).filter(|folder| !folder.is_empty())?;
            Some((PathBuf::from(folder), LIB_DIR.to_owned()))
        });
        let Some((folder, named_by)) = named else {
            return Library::of_the_system();
        };
        let path = NAMES
            .iter()
            .map(|name| folder.join(name))
            .find(|path| path.is_file());
        let missing = || Cause::Missing {
            library: NAMES[NAMES.len() - 1].to_owned(),
            tried: format!("{} ({named_by}), under each of its names", folder.display()),
            remedy: REMEDY.to_owned(),
        };
        Library::check(&File::open_file(path.ok_or_else(missing)?, REMEDY)?)
    }

    /// The library that the system's loader finds by name.
    fn of_the_system() -> Result<&'static Library> {
        let mut tried = Vec::new();
        for name in NAMES {
            match File::open_named(name, REMEDY) {
                Ok(file) => return Library::check(&file),
                Err(words) => tried.push(format!("{name} ({words})")),
            }
        }
        let cause = Cause::Missing {
            library: NAMES[NAMES.len() - 1].to_owned(),
            tried: format!("the system's folders: {}", tried.join(", ")),
            remedy: REMEDY.to_owned(),
        };
        Err(cause.into())
    }

    fn check(file: &File) -> Result<&'static Library> {
        // SAFETY: the symbols have the types of our header, which is the library's interface.
        let symbols = unsafe { Symbols::from_library(file.again()?) };
        let symbols = symbols.map_err(|error| file.wrong_interface(error.to_string()))?;
        // leaked at once: not even a library that is refused is closed
        let symbols: &'static Symbols = Box::leak(Box::new(symbols));
        for (call, there) in REQUIRED {
            if !there(symbols) {
                return Err(file.wrong_interface(format!("it has no symbol {call}")));
            }
        }
        let version = version(symbols).map_err(|code| {
            file.wrong_version(format!("nothing (Neuron_getVersion gives {code})"), "its version")
        })?;
        Ok(Box::leak(Box::new(Library {
            symbols,
            path: file.path().to_owned(),
            says_it_emulates: file.has(EMULATED),
            version,
        })))
    }

    accessors!(Symbols, "polychip_emulates_neuron");

    /// The error of an optional call that the library lacks.
    #[must_use]
    pub fn lacks(&self, call: &str) -> Error {
        Cause::WrongInterface {
            path: self.path.clone(),
            reason: format!("it has no symbol {call}"),
            remedy: REMEDY.to_owned(),
        }
        .into()
    }

    /// Version, such as `9.0.3`.
    #[must_use]
    pub fn version(&self) -> String {
        let NeuronRuntimeVersion { major, minor, patch } = self.version;
        format!("{major}.{minor}.{patch}")
    }
}

/// The version that the library reports, or its code.
fn version(symbols: &Symbols) -> std::result::Result<NeuronRuntimeVersion, i32> {
    let mut version = NeuronRuntimeVersion {
        major: 0,
        minor: 0,
        patch: 0,
    };
    // SAFETY: required and so there; the place is ours.
    let code = unsafe { symbols.Neuron_getVersion(&raw mut version) };
    if code == NEURON_NO_ERROR as i32 {
        Ok(version)
    } else {
        Err(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn folder_without_the_library_is_named_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let error = Library::open(Some(folder.path())).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Missing);
        let words = error.to_string();
        assert!(
            words.contains(&*folder.path().display().to_string()) && words.contains("NEURON_LIB_DIR"),
            "{words}"
        );
    }

    #[test]
    fn invalid_library_file_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("libneuronusdk_adapter.mtk.so"), "no library").unwrap();
        std::fs::write(folder.path().join("libneuron_adapter.so"), "no library").unwrap();
        let error = Library::open(Some(folder.path())).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongArchitecture);
        assert!(
            error.to_string().contains("libneuronusdk_adapter.mtk.so"),
            "{error}"
        );
    }
}

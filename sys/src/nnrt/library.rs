//! Opening the runtime: its search paths, and the functions that it must offer.
//!
//! Invariant: a returned library has every function of [`NEEDED`]; it is never closed.
//!
//! Not here: detection of chips (`OH_NNDevice_GetAllDevicesID`).

#![allow(unsafe_code, reason = "a foreign library is opened here")]

use std::path::{Path, PathBuf};

use super::bindings::Symbols;
use crate::error::{Cause, Result};
use crate::library::accessors;
use crate::{Library as File, SearchPath};

/// The file that builds graphs; the calls of compilations and runs are in `libneural_network_core.so`, which it loads.
pub const FILE: &str = "libneural_network_runtime.so";
/// The variable that names the folder.
pub const LIB_DIR: &str = "NNRT_LIB_DIR";

const REMEDY: &str = "on HarmonyOS and OpenHarmony the system has it (API level 12 or later); elsewhere set NNRT_LIB_DIR, or the \
                      option lib_dir, to its folder";

/// A symbol of libraries that emulate the chip.
const EMULATED: &str = "polychip_emulates_nnrt";

/// The open library.
pub struct Library {
    symbols: &'static Symbols,
    path: PathBuf,
    says_it_emulates: bool,
}

/// A call, and whether the library has it.
type Named = (&'static str, fn(&Symbols) -> bool);

/// Names a call by the field of [`Symbols`] that holds it.
macro_rules! calls {
    ($($call:ident),* $(,)?) => {
        &[$((stringify!($call), |symbols: &Symbols| symbols.$call.is_ok()),)*]
    };
}

/// Required functions; exporting and importing compiled parts is optional.
const NEEDED: &[Named] = calls!(
    OH_NNDevice_GetAllDevicesID,
    OH_NNDevice_GetName,
    OH_NNDevice_GetType,
    OH_NNTensorDesc_Create,
    OH_NNTensorDesc_Destroy,
    OH_NNTensorDesc_SetDataType,
    OH_NNTensorDesc_SetShape,
    OH_NNTensorDesc_SetFormat,
    OH_NNQuantParam_Create,
    OH_NNQuantParam_Destroy,
    OH_NNQuantParam_SetScales,
    OH_NNQuantParam_SetZeroPoints,
    OH_NNQuantParam_SetNumBits,
    OH_NNModel_Construct,
    OH_NNModel_Destroy,
    OH_NNModel_AddTensorToModel,
    OH_NNModel_SetTensorType,
    OH_NNModel_SetTensorData,
    OH_NNModel_SetTensorQuantParams,
    OH_NNModel_AddOperation,
    OH_NNModel_SpecifyInputsAndOutputs,
    OH_NNModel_Finish,
    OH_NNModel_GetAvailableOperations,
    OH_NNCompilation_Construct,
    OH_NNCompilation_Destroy,
    OH_NNCompilation_SetDevice,
    OH_NNCompilation_SetPerformanceMode,
    OH_NNCompilation_SetPriority,
    OH_NNCompilation_EnableFloat16,
    OH_NNCompilation_Build,
    OH_NNTensor_CreateWithFd,
    OH_NNTensor_Destroy,
    OH_NNExecutor_Construct,
    OH_NNExecutor_Destroy,
    OH_NNExecutor_GetInputCount,
    OH_NNExecutor_GetOutputCount,
    OH_NNExecutor_RunSync,
);

impl Library {
    /// Opens the library: in `folder` if there is one, else in the folder that `NNRT_LIB_DIR`
    /// names, else in the system's library path. It is never closed.
    ///
    /// # Errors
    /// It is not found, cannot be opened, or lacks a required function.
    pub fn open(folder: Option<&Path>) -> Result<&'static Library> {
        let place = match folder {
            Some(folder) => Some(SearchPath::new(folder, "the option `lib_dir`")),
            None => std::env::var_os(LIB_DIR)
                .filter(|folder| !folder.is_empty())
                .map(|folder| SearchPath::new(PathBuf::from(folder), LIB_DIR)),
        };
        let file = match place {
            Some(place) => File::open(FILE, std::slice::from_ref(&place), REMEDY)?,
            None => File::open_named(FILE, REMEDY).map_err(|words| Cause::Missing {
                library: FILE.to_owned(),
                tried: format!("the system's folders ({words})"),
                remedy: REMEDY.to_owned(),
            })?,
        };
        // SAFETY: the symbols have the types of our header, which is the library's interface.
        let symbols = unsafe { Symbols::from_library(file.again()?) };
        let symbols = symbols.map_err(|error| file.wrong_interface(error.to_string()))?;
        // leaked at once: not even a library that is refused is closed
        let symbols: &'static Symbols = Box::leak(Box::new(symbols));
        if let Some((call, _)) = NEEDED.iter().find(|(_, there)| !there(symbols)) {
            return Err(file.wrong_interface(format!("it has no symbol {call}")));
        }
        Ok(Box::leak(Box::new(Library {
            symbols,
            path: file.path().to_owned(),
            says_it_emulates: file.has(EMULATED),
        })))
    }

    accessors!(Symbols, "polychip_emulates_nnrt");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn missing_or_invalid_library_file_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let error = Library::open(Some(folder.path())).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Missing);
        let words = error.to_string();
        for part in [FILE, LIB_DIR, "HarmonyOS"] {
            assert!(words.contains(part), "{words} does not say {part}");
        }
        std::fs::write(folder.path().join(FILE), "no library").unwrap();
        let error = Library::open(Some(folder.path())).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongArchitecture);
    }
}

//! Opening AscendCL: its search paths, and the functions that it must offer.
//!
//! Invariants:
//! 1. A returned library has every function of [`NEEDED`].
//! 2. A library is never closed: it has threads.
//!
//! Not here: detection of boards (`aclInit`, `aclrtGetDeviceCount`).

#![allow(unsafe_code, reason = "a foreign library is opened here")]

use std::path::{Path, PathBuf};

use super::bindings::Symbols;
use crate::error::{Error, Result};
use crate::{Library as File, SearchPath};

/// The library.
pub const FILE: &str = "libascendcl.so";
/// The variable that the vendor's `set_env.sh` sets to the toolkit's folder. The library is in
/// `lib64` below it.
pub const HOME: &str = "ASCEND_HOME_PATH";
const REMEDY: &str = "install the board's driver and CANN (toolkit or nnrt), then source its set_env.sh, or set the option \
     lib_dir to the folder of libascendcl.so";
/// A symbol that only emulated libraries have.
const EMULATED: &str = "polychip_emulates_ascend";

/// The open library.
pub struct Library {
    symbols: &'static Symbols,
    path: PathBuf,
    emulated: bool,
}

type Named = (&'static str, fn(&Symbols) -> bool);

/// Calls by the fields of [`Symbols`] that hold them.
macro_rules! calls {
    ($($call:ident),* $(,)?) => {
        &[$((stringify!($call), |symbols: &Symbols| symbols.$call.is_ok()),)*]
    };
}

/// Required functions.
const NEEDED: &[Named] = calls!(
    aclInit,
    aclrtGetDeviceCount,
    aclrtGetSocName,
    aclrtCreateContext,
    aclrtDestroyContext,
    aclrtSetCurrentContext,
    aclrtCreateStream,
    aclrtDestroyStream,
    aclrtSynchronizeStream,
    aclrtCreateEvent,
    aclrtDestroyEvent,
    aclrtRecordEvent,
    aclrtEventElapsedTime,
    aclrtMalloc,
    aclrtFree,
    aclrtMemcpy,
    aclrtMemcpyAsync,
    aclmdlQuerySizeFromMem,
    aclmdlLoadFromMemWithMem,
    aclmdlUnload,
    aclmdlCreateDesc,
    aclmdlDestroyDesc,
    aclmdlGetDesc,
    aclmdlGetNumInputs,
    aclmdlGetNumOutputs,
    aclmdlGetInputSizeByIndex,
    aclmdlGetOutputSizeByIndex,
    aclmdlGetInputDims,
    aclmdlGetOutputDims,
    aclmdlGetInputDataType,
    aclmdlGetOutputDataType,
    aclCreateDataBuffer,
    aclUpdateDataBuffer,
    aclDestroyDataBuffer,
    aclmdlCreateDataset,
    aclmdlAddDatasetBuffer,
    aclmdlDestroyDataset,
    aclmdlExecuteAsync,
);

impl Library {
    /// Opens the library: in `folder` if there is one, else in the toolkit that `ASCEND_HOME_PATH`
    /// names, else in the system's library path. It is never closed.
    ///
    /// # Errors
    /// The file is not found, cannot be opened, or lacks a required function.
    pub fn open(folder: Option<&Path>) -> Result<&'static Library> {
        let place = match folder {
            Some(folder) => Some(SearchPath::new(folder, "the option lib_dir")),
            None => std::env::var_os(HOME)
                .filter(|home| !home.is_empty())
                .map(|home| SearchPath::new(Path::new(&home).join("lib64"), HOME)),
        };
        let Some(place) = place else {
            let library = dlopen(Path::new(FILE)).map_err(|_| {
                let tried = format!("the system's library path, as {HOME} names no folder");
                Error::missing(FILE, &tried, REMEDY)
            })?;
            return Library::check(library, PathBuf::from(FILE), |words| {
                Error::unusable(FILE, words, REMEDY)
            });
        };
        let file = File::open(FILE, std::slice::from_ref(&place), REMEDY)?;
        let again = dlopen(file.path()).map_err(|words| file.wrong_interface(words))?;
        Library::check(again, file.path().to_owned(), |words| file.wrong_interface(words))
    }

    fn check(
        library: libloading::Library,
        path: PathBuf,
        refused: impl Fn(String) -> Error,
    ) -> Result<&'static Library> {
        // SAFETY: only whether the symbol is there is asked.
        let emulated = unsafe { library.get::<*const ()>(EMULATED) }.is_ok();
        // SAFETY: the symbols have the types of our header, as the vendor documents them.
        let symbols =
            unsafe { Symbols::from_library(library) }.map_err(|error| refused(error.to_string()))?;
        // leaked at once: not even a library that is refused is closed
        let symbols: &'static Symbols = Box::leak(Box::new(symbols));
        if let Some((call, _)) = NEEDED.iter().find(|(_, there)| !there(symbols)) {
            return Err(refused(format!("it has no symbol {call}")));
        }
        Ok(Box::leak(Box::new(Library {
            symbols,
            path,
            emulated,
        })))
    }

    /// The functions of the library. All functions of [`NEEDED`] are present.
    #[must_use]
    pub fn symbols(&self) -> &'static Symbols {
        self.symbols
    }

    /// The file, or the name that the system's loader resolved.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the library declares that it emulates a board.
    #[must_use]
    pub fn is_emulated(&self) -> bool {
        self.emulated
    }
}

fn dlopen(path: &Path) -> std::result::Result<libloading::Library, String> {
    // SAFETY: opening runs the library's initialisers. The user who sets the folder trusts it, as any library that
    // the system's loader finds.
    unsafe { libloading::Library::new(path) }.map_err(|error| {
        std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn folder_without_the_file_names_the_remedies() {
        let folder = tempfile::tempdir().unwrap();
        let error = Library::open(Some(folder.path())).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Missing);
        let words = error.to_string();
        for part in [FILE, "CANN", "set_env.sh", "lib_dir"] {
            assert!(words.contains(part), "{words} does not say {part}");
        }
    }

    #[test]
    fn library_of_another_kind_is_refused_by_its_missing_function() {
        let Ok(other) = dlopen(Path::new("libm.so.6")) else {
            return;
        };
        let refused = |words: String| Error::unusable("libm.so.6", words, REMEDY);
        let error = Library::check(other, PathBuf::from("libm.so.6"), refused)
            .map(drop)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongInterface);
        assert!(error.to_string().contains("no symbol aclInit"), "{error}");
    }
}

//! Opening Rockchip's runtime: candidate files, required functions, and optional features.
//!
//! Invariants:
//! 1. A returned library has the functions of [`CORE`] and all functions of one way to pass
//!    tensors: by copies, or through shared memory.
//! 2. The board's own library takes precedence over the one that forwards to a connected board.
//! 3. A library is never closed: it has threads.
//!
//! Not here: detection of boards, which only `rknn_init` performs.

#![allow(unsafe_code, reason = "a foreign library is opened here")]

use std::path::{Path, PathBuf};

use super::bindings::Symbols;
use crate::error::{Error, ErrorKind, Result};
use crate::{Library as File, SearchPath};

/// The runtime on the board.
pub const BOARD_FILE: &str = "librknnrt.so";
/// The runtime that forwards calls to `rknn_server` on a board that is connected by USB or network.
pub const HOST_FILE: &str = "librknn_api.so";
/// The variable that names the folder, unless a setting does.
const VARIABLE: &str = "RKNN_LIB_DIR";
const REMEDY: &str = "on a Rockchip board install the vendor's librknnrt.so and set RKNN_LIB_DIR to its folder; with a \
     board connected, librknn_api.so of the Python package rknn-toolkit2";
/// A symbol that only emulated libraries have.
const EMULATED: &str = "polychip_emulates_rknn";

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
const CORE: &[Named] = calls!(rknn_init, rknn_destroy, rknn_query, rknn_run);
/// Tensors that the library copies.
const COPIES: &[Named] = calls!(rknn_inputs_set, rknn_outputs_get, rknn_outputs_release);
/// Tensors in memory that the device knows.
const SHARED: &[Named] = calls!(rknn_create_mem, rknn_destroy_mem, rknn_set_io_mem);
/// Import of memory that the caller allocated.
const IMPORTS: &[Named] = calls!(rknn_create_mem_from_fd);
/// Cache maintenance by the caller, in place of maintenance by the runtime at each run.
const SYNC: &[Named] = calls!(rknn_mem_sync);
/// A context per core.
const LANES: &[Named] = calls!(rknn_dup_context, rknn_set_core_mask);

fn lacks(symbols: &Symbols, calls: &[Named]) -> Option<&'static str> {
    calls
        .iter()
        .find(|(_, there)| !there(symbols))
        .map(|(name, _)| *name)
}

impl Library {
    /// Opens the library: in `folder` if there is one, else in the folder that `RKNN_LIB_DIR`
    /// names, else in the system's library path. It is never closed.
    ///
    /// # Errors
    /// Neither file is found, or the one found cannot be opened or lacks a required call.
    pub fn open(folder: Option<&Path>) -> Result<&'static Library> {
        let place = match folder {
            Some(folder) => Some(SearchPath::new(folder, "the option lib_dir")),
            None => std::env::var_os(VARIABLE)
                .filter(|folder| !folder.is_empty())
                .map(|folder| SearchPath::new(folder, VARIABLE)),
        };
        match place {
            Some(place) => Library::of_path(&place),
            None => Library::of_system(),
        }
    }

    fn of_path(path: &SearchPath) -> Result<&'static Library> {
        let paths = std::slice::from_ref(path);
        let file = match File::open(BOARD_FILE, paths, REMEDY) {
            Err(error) if error.kind() == ErrorKind::Missing => {
                // the words name the file that a board has
                File::open(HOST_FILE, paths, REMEDY).map_err(|other| match other.kind() {
                    ErrorKind::Missing => error,
                    _ => other,
                })
            }
            other => other,
        }?;
        let again = dlopen(file.path()).map_err(|words| file.wrong_interface(words))?;
        Library::check(again, file.path().to_owned(), |words| file.wrong_interface(words))
    }

    fn of_system() -> Result<&'static Library> {
        for name in [BOARD_FILE, HOST_FILE] {
            if let Ok(library) = dlopen(Path::new(name)) {
                let refused = |words: String| Error::unusable(name, words, REMEDY);
                return Library::check(library, PathBuf::from(name), refused);
            }
        }
        Err(Error::missing(
            BOARD_FILE,
            "the system's library path, as RKNN_LIB_DIR names no folder",
            REMEDY,
        ))
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
        if let Some(call) = lacks(symbols, CORE) {
            return Err(refused(format!("it has no symbol {call}")));
        }
        if let (Some(copy), Some(share)) = (lacks(symbols, COPIES), lacks(symbols, SHARED)) {
            return Err(refused(format!(
                "it cannot pass tensors: it has neither {copy} nor {share}"
            )));
        }
        Ok(Box::leak(Box::new(Library {
            symbols,
            path,
            emulated,
        })))
    }

    /// The functions of the library. Those of [`CORE`] are present; the methods below report which
    /// others are.
    #[must_use]
    pub fn symbols(&self) -> &'static Symbols {
        self.symbols
    }

    /// The file, or the name that the system's loader resolved.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the library forwards calls to a connected board.
    #[must_use]
    pub fn forwards(&self) -> bool {
        self.path
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with(HOST_FILE))
    }

    /// Whether the library declares that it emulates a chip.
    #[must_use]
    pub fn is_emulated(&self) -> bool {
        self.emulated
    }

    /// Whether the library can copy tensors in and out.
    #[must_use]
    pub fn copies(&self) -> bool {
        lacks(self.symbols, COPIES).is_none()
    }

    /// Whether the library can compute on memory that it shares with the caller.
    #[must_use]
    pub fn shares(&self) -> bool {
        lacks(self.symbols, SHARED).is_none()
    }

    /// Whether the library can import memory by its file descriptor.
    #[must_use]
    pub fn imports(&self) -> bool {
        self.shares() && lacks(self.symbols, IMPORTS).is_none()
    }

    /// Whether the caller can maintain the caches of shared memory.
    #[must_use]
    pub fn syncs(&self) -> bool {
        self.shares() && lacks(self.symbols, SYNC).is_none()
    }

    /// Whether a model can have a context per core.
    #[must_use]
    pub fn has_lanes(&self) -> bool {
        lacks(self.symbols, LANES).is_none()
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

    #[test]
    fn folder_without_either_file_names_both_remedies() {
        let folder = tempfile::tempdir().unwrap();
        let error = Library::open(Some(folder.path())).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Missing);
        let words = error.to_string();
        for part in [BOARD_FILE, HOST_FILE, "RKNN_LIB_DIR", "lib_dir"] {
            assert!(words.contains(part), "{words} does not say {part}");
        }
    }

    #[test]
    fn board_library_is_tried_first_and_its_error_reported() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(HOST_FILE), "text").unwrap();
        let host = Library::open(Some(folder.path())).map(drop).unwrap_err();
        assert_eq!(host.kind(), ErrorKind::WrongArchitecture);
        assert!(host.to_string().contains(HOST_FILE), "{host}");
        std::fs::write(folder.path().join(BOARD_FILE), "text").unwrap();
        let board = Library::open(Some(folder.path())).map(drop).unwrap_err();
        assert!(board.to_string().contains(BOARD_FILE), "{board}");
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
        assert!(error.to_string().contains("no symbol rknn_init"), "{error}");
    }
}

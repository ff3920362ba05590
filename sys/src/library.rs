//! A vendor's library: its search paths, how it is opened, and the reasons for refusing it.
//!
//! Invariants:
//! 1. The first path that holds the file is used. A problem with that file is an error, never a
//!    reason to search on.
//! 2. The file's header is read before the loader sees it, so that a library for another processor
//!    is reported as such.
//! 3. An opened library is never closed, because vendors' libraries keep threads.
//!
//! Not here: the paths and names of an SDK, and the contents of its interface.

#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::elf;
use crate::error::{Cause, Result};

/// A folder to search, and the setting that named it (`QNN_LIB_DIR`, "the option `lib_dir`").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchPath {
    /// The folder.
    pub folder: PathBuf,
    /// The setting that named the folder, for messages.
    pub named_by: String,
}

impl SearchPath {
    /// A folder named by a setting that a user can change.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>, named_by: impl Into<String>) -> Self {
        Self {
            folder: folder.into(),
            named_by: named_by.into(),
        }
    }
}

/// An opened library; it stays open until the process ends.
#[derive(Debug, Clone)]
pub struct Library {
    path: PathBuf,
    handle: &'static libloading::Library,
    remedy: &'static str,
}

impl Library {
    /// Searches the paths for `file`, in order, and opens the first file found. `file` may have a
    /// version suffix in the folder: `libopenvino_c.so` finds `libopenvino_c.so.2641`; the highest
    /// version is used.
    ///
    /// `remedy` ends each message: how a user obtains the library.
    ///
    /// # Errors
    /// No path holds the file, or the first file found cannot be opened.
    pub fn open(file: &str, paths: &[SearchPath], remedy: &'static str) -> Result<Self> {
        let Some(path) = paths.iter().find_map(|path| find(&path.folder, file)) else {
            let tried: Vec<String> = paths
                .iter()
                .map(|path| format!("{} ({})", path.folder.display(), path.named_by))
                .collect();
            return Err(Cause::Missing {
                library: file.to_owned(),
                tried: if tried.is_empty() {
                    "no folder, because none is named".to_owned()
                } else {
                    tried.join(", ")
                },
                remedy: remedy.to_owned(),
            }
            .into());
        };
        Self::open_file(path, remedy)
    }

    /// Opens exactly this file.
    ///
    /// # Errors
    /// It cannot be read, is built for another processor, or the loader refuses it.
    pub fn open_file(path: PathBuf, remedy: &'static str) -> Result<Self> {
        if let Err(found) = head(&path).and_then(|head| elf::check(&head)) {
            return Err(Cause::WrongArchitecture {
                path,
                found,
                remedy: remedy.to_owned(),
            }
            .into());
        }
        // SAFETY: opening a library runs its initialisers. The person who named the folder trusts what lies
        // in it, as a library that a program links.
        let opened = unsafe { libloading::Library::new(&path) };
        match opened {
            Ok(library) => Ok(Self {
                path,
                handle: Box::leak(Box::new(library)),
                remedy,
            }),
            Err(error) => Err(Cause::Unloadable {
                reason: loader_words(&path, &error),
                path,
                remedy: remedy.to_owned(),
            }
            .into()),
        }
    }

    /// Opens the library that the system's loader finds by this name.
    ///
    /// # Errors
    /// The loader's message: the library is missing or refused.
    #[cfg(any(feature = "neuron", feature = "nnrt"))]
    pub(crate) fn open_named(name: &str, remedy: &'static str) -> std::result::Result<Self, String> {
        // SAFETY: opening a library runs its initialisers; the system's own are trusted as any that it links.
        match unsafe { libloading::Library::new(name) } {
            Ok(library) => Ok(Self {
                path: PathBuf::from(name),
                handle: Box::leak(Box::new(library)),
                remedy,
            }),
            Err(error) => Err(loader_words(Path::new(name), &error)),
        }
    }

    /// Opens the same library again, because the generated declarations own their library.
    ///
    /// # Errors
    /// The loader refuses it.
    #[cfg(any(feature = "neuron", feature = "nnrt"))]
    pub(crate) fn again(&self) -> Result<libloading::Library> {
        // SAFETY: its initialisers have run already.
        unsafe { libloading::Library::new(&self.path) }
            .map_err(|error| self.wrong_interface(loader_words(&self.path, &error)))
    }

    /// Opens another library of the same release, from the same folder.
    ///
    /// # Errors
    /// It is missing or cannot be opened.
    pub fn sibling(&self, file: &str) -> Result<Self> {
        match find(self.folder(), file) {
            Some(path) => Self::open_file(path, self.remedy),
            None => Err(Cause::HalfInstalled {
                library: file.to_owned(),
                sibling: self.path.clone(),
                remedy: self.remedy.to_owned(),
            }
            .into()),
        }
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of the file.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// A copy of the symbol `name`: a function pointer, valid until the process ends.
    ///
    /// # Errors
    /// The library has no such symbol.
    ///
    /// # Safety
    /// The symbol must have the type `T`.
    pub unsafe fn symbol<T: Copy>(&self, name: &str) -> Result<T> {
        // SAFETY: the caller vouches for the type.
        match unsafe { self.handle.get::<T>(name) } {
            Ok(symbol) => Ok(*symbol),
            Err(_) => Err(self.wrong_interface(format!("it has no symbol {name}"))),
        }
    }

    /// Whether the library has a symbol of this name.
    #[cfg(any(feature = "neuron", feature = "nnrt", feature = "qnn"))]
    pub(crate) fn has(&self, name: &str) -> bool {
        // SAFETY: only whether the symbol is there is asked.
        unsafe { self.handle.get::<*const ()>(name) }.is_ok()
    }

    /// The error of a library that opens but lacks the required interface.
    #[must_use]
    pub fn wrong_interface(&self, reason: impl Into<String>) -> crate::Error {
        Cause::WrongInterface {
            path: self.path.clone(),
            reason: reason.into(),
            remedy: self.remedy.to_owned(),
        }
        .into()
    }

    /// The error of a library whose version the declarations do not cover.
    #[must_use]
    pub fn wrong_version(&self, found: impl Into<String>, wanted: impl Into<String>) -> crate::Error {
        Cause::WrongVersion {
            path: self.path.clone(),
            found: found.into(),
            wanted: wanted.into(),
            remedy: self.remedy.to_owned(),
        }
        .into()
    }
}

/// Defines the methods of an opened library with these fields: its functions, its path, and whether
/// it emulates the chip.
#[cfg(any(feature = "neuron", feature = "nnrt"))]
macro_rules! accessors {
    ($symbols:ty, $emulates:literal) => {
        /// The functions of the library. All required ones are present.
        #[must_use]
        pub fn symbols(&self) -> &'static $symbols {
            self.symbols
        }

        #[doc = concat!("Whether it declares that it emulates the chip: it has the symbol `", $emulates, "`.")]
        #[must_use]
        pub fn says_it_emulates(&self) -> bool {
            self.says_it_emulates
        }

        /// Whether the library emulates the chip: it declares so, or it is built for x86, for which
        /// vendors make only simulators.
        #[must_use]
        pub fn is_emulated(&self) -> bool {
            $crate::library::emulates(self.says_it_emulates, std::env::consts::ARCH)
        }

        /// The file, or the name that the system's loader resolved.
        #[must_use]
        pub fn path(&self) -> &Path {
            &self.path
        }
    };
}

#[cfg(any(feature = "neuron", feature = "nnrt"))]
pub(crate) use accessors;

/// Whether a library emulates a chip of phones or boards: it declares so, or it is built for x86,
/// for which vendors make only simulators.
#[cfg(any(feature = "neuron", feature = "nnrt", feature = "qnn"))]
pub(crate) fn emulates(says_so: bool, arch: &str) -> bool {
    says_so || matches!(arch, "x86" | "x86_64")
}

/// The file of this name in the folder, or the one with the highest version suffix.
fn find(folder: &Path, file: &str) -> Option<PathBuf> {
    let exact = folder.join(file);
    if exact.is_file() {
        return Some(exact);
    }
    let mut versions: Vec<(Vec<u64>, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let name = entry.file_name();
        let version = name
            .to_str()
            .and_then(|name| name.strip_prefix(file))
            .and_then(|rest| rest.strip_prefix('.'))
            .and_then(|rest| rest.split('.').map(|part| part.parse().ok()).collect());
        if let Some(version) = version
            && entry.path().is_file()
        {
            versions.push((version, entry.path()));
        }
    }
    versions.sort();
    versions.pop().map(|(_, path)| path)
}

/// The first bytes of the file, fewer if it is shorter.
fn head(path: &Path) -> std::result::Result<Vec<u8>, String> {
    let mut head = Vec::new();
    File::open(path)
        .and_then(|file| file.take(elf::HEAD_BYTES).read_to_end(&mut head))
        .map_err(|error| format!("it cannot be read: {error}"))?;
    Ok(head)
}

/// The loader's message without the path, which our own message contains.
fn loader_words(path: &Path, error: &libloading::Error) -> String {
    let text = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    text.trim_start_matches(&*path.display().to_string())
        .trim_start_matches(": ")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    const REMEDY: &str = "install it";

    #[test]
    fn missing_library_error_names_every_path_and_the_remedy() {
        let error = Library::open(
            "libnone.so",
            &[
                SearchPath::new("/nowhere/a", "NONE_DIR"),
                SearchPath::new("/nowhere/b", "NONE_ROOT"),
            ],
            REMEDY,
        )
        .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Missing);
        assert_eq!(
            error.to_string(),
            "libnone.so was not found; searched /nowhere/a (NONE_DIR), /nowhere/b (NONE_ROOT); install it"
        );
        let nowhere = Library::open("libnone.so", &[], REMEDY).unwrap_err();
        assert!(nowhere.to_string().contains("none is named"), "{nowhere}");
    }

    #[test]
    fn first_path_with_the_file_is_used() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("libtext.so"), "no library").unwrap();
        let paths = [
            SearchPath::new("/nowhere", "first"),
            SearchPath::new(folder.path(), "second"),
        ];
        let error = Library::open("libtext.so", &paths, REMEDY).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongArchitecture);
        assert!(error.to_string().contains("libtext.so"), "{error}");
    }

    #[test]
    fn a_version_may_follow_the_name() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["libx.so.9", "libx.so.10.1", "libx.so.bak", "liby.so.11"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(
            find(folder.path(), "libx.so").unwrap(),
            folder.path().join("libx.so.10.1")
        );
        fs::write(folder.path().join("libx.so"), "").unwrap();
        assert_eq!(
            find(folder.path(), "libx.so").unwrap(),
            folder.path().join("libx.so")
        );
        assert_eq!(find(folder.path(), "libz.so"), None);
    }

    #[test]
    #[cfg(any(feature = "neuron", feature = "nnrt", feature = "qnn"))]
    fn library_emulates_if_declared_or_on_x86() {
        for (says_so, arch, is_emulated) in [
            (true, "aarch64", true),
            (false, "aarch64", false),
            (true, "arm", true),
            (false, "arm", false),
            (true, "x86_64", true),
            (false, "x86_64", true),
            (false, "x86", true),
        ] {
            assert_eq!(emulates(says_so, arch), is_emulated, "{says_so} on {arch}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn loader_error_is_passed_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libcut.so");
        // the header of this very program and nothing behind it
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        fs::write(&path, &own[..64]).unwrap();
        let error = Library::open_file(path, REMEDY).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unloadable, "{error}");
        assert!(error.to_string().ends_with("; install it"), "{error}");
    }
}

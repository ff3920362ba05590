//! The emulated library and compiler, and a host that uses them.

#![allow(unsafe_code, reason = "exports of the emulator's own are called")]

use std::ffi::{CString, c_char};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use polychip_host::{Device, Host};
use polychip_test_requirements::libraries;

/// What lives in the emulated runtime, and what was done: the emulator's record.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) contexts: u64,
    pub(crate) memories: u64,
    pub(crate) runs: u64,
    pub(crate) copied_bytes: u64,
    pub(crate) syncs: u64,
    pub(crate) nanoseconds: u64,
    pub(crate) nanojoules: u64,
}

/// The runtime of one test at a time.
pub(crate) struct Board {
    library: libloading::Library,
    pub(crate) path: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Board {
    /// The board's own library.
    pub(crate) fn own() -> Board {
        Board::of("polychip-emulator-rknnrt", "rknnrt")
    }

    /// The library of a connected board.
    pub(crate) fn connected() -> Board {
        Board::of("polychip-emulator-rknn-api", "rknn_api")
    }

    fn of(package: &str, stem: &str) -> Board {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let path = libraries::library(package, stem).unwrap();
        // SAFETY: an emulator of this repository.
        let library = unsafe { libloading::Library::new(&path) }.unwrap();
        let board = Board {
            library,
            path,
            _turn: turn,
        };
        board.faults("");
        board.incoherent(false);
        board
    }

    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        // SAFETY: the emulator's own export has this type.
        unsafe {
            let get = self
                .library
                .get::<unsafe extern "C" fn(*mut Counts)>("polychip_rknn_counts");
            get.unwrap()(&raw mut counts);
        }
        counts
    }

    /// Replaces the rules of faults.
    pub(crate) fn faults(&self, rules: &str) {
        let rules = CString::new(rules).unwrap();
        // SAFETY: the emulator's own export has this type; the text ends in zero.
        let set = unsafe {
            let set = self
                .library
                .get::<unsafe extern "C" fn(*const c_char) -> i32>("polychip_rknn_faults");
            set.unwrap()(rules.as_ptr())
        };
        assert!(set >= 0, "{rules:?}");
    }

    /// Whether the chip sees memory otherwise than the processor.
    pub(crate) fn incoherent(&self, on: bool) {
        // SAFETY: the emulator's own export has this type.
        let done = unsafe {
            let set = self
                .library
                .get::<unsafe extern "C" fn(i32) -> i32>("polychip_rknn_incoherent");
            set.unwrap()(on.into())
        };
        assert_eq!(done, 0, "memory of another test is alive");
    }

    /// A host with the plugin, in reduced precision, on a folder that holds this library alone.
    pub(crate) fn host(&self, settings: &[(&str, &str)]) -> Host {
        let folder = folder_with(&self.path);
        let compiler = compiler().display().to_string();
        let usual = [
            ("lib_dir", &*folder.display().to_string()),
            ("compiler", &compiler),
            ("precision", "reduced"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
        let mut builder = Host::builder().linked(polychip_rknn::query);
        for (key, value) in usual {
            builder = builder.configure("rknn", &key, value);
        }
        for (key, value) in settings {
            builder = builder.configure("rknn", key, *value);
        }
        builder.build()
    }

    /// The device of such a host.
    pub(crate) fn device(&self, settings: &[(&str, &str)]) -> Device {
        let host = self.host(settings);
        let device = host.devices().first().cloned();
        device.unwrap_or_else(|| panic!("{:?}", host.refusals()))
    }
}

/// A folder that holds a link to this library and nothing else: both libraries are built into one.
fn folder_with(library: &Path) -> PathBuf {
    let stem = library.file_stem().unwrap().to_string_lossy().into_owned();
    let folder = library.parent().unwrap().join(format!("only-{stem}"));
    std::fs::create_dir_all(&folder).unwrap();
    let link = folder.join(library.file_name().unwrap());
    // of a tree that was somewhere else
    if std::fs::read_link(&link).is_ok_and(|to| to != library) {
        let _ = std::fs::remove_file(&link);
    }
    // another process may make it at the same time
    let _ = std::os::unix::fs::symlink(library, &link);
    assert!(link.is_file());
    folder
}

/// The emulated compiler.
pub(crate) fn compiler() -> PathBuf {
    libraries::program("polychip-emulator-rknn", "rknn-toolkit-emulated").unwrap()
}

//! The emulated library and compiler, and a host that uses them.

#![allow(unsafe_code, reason = "exports of the emulator's own are called")]

use std::ffi::{CString, c_char};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use polychip_host::{Device, Executable, Host, Submission};
use polychip_parts::{buffers, floats, numbers, read, write};
use polychip_test_requirements::libraries;

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const PACKAGE: &str = "polychip-emulator-ascend";

/// What lives in the emulated library, and what was done: the emulator's record.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) contexts: u64,
    pub(crate) memories: u64,
    pub(crate) models: u64,
    pub(crate) runs: u64,
    pub(crate) to_board_bytes: u64,
    pub(crate) from_board_bytes: u64,
    pub(crate) on_board_bytes: u64,
    pub(crate) nanoseconds: u64,
    pub(crate) nanojoules: u64,
}

/// The library, one test at a time.
pub(crate) struct Board {
    library: libloading::Library,
    folder: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Board {
    pub(crate) fn new() -> Board {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let path = libraries::library(PACKAGE, "ascendcl").unwrap();
        // SAFETY: an emulator of this repository.
        let library = unsafe { libloading::Library::new(&path) }.unwrap();
        let board = Board {
            library,
            folder: path.parent().unwrap().to_owned(),
            _turn: turn,
        };
        board.faults("");
        board
    }

    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        // SAFETY: the emulator's own export has this type.
        let call = unsafe {
            self.library
                .get::<unsafe extern "C" fn(*mut Counts)>("polychip_ascend_counts")
        };
        // SAFETY: the record is writable.
        unsafe { call.unwrap()(&raw mut counts) };
        counts
    }

    /// Replaces the rules of faults.
    pub(crate) fn faults(&self, rules: &str) {
        let text = CString::new(rules).unwrap();
        // SAFETY: the emulator's own export has this type.
        let call = unsafe {
            self.library
                .get::<unsafe extern "C" fn(*const c_char) -> i32>("polychip_ascend_faults")
        };
        // SAFETY: the text ends in zero.
        let set = unsafe { call.unwrap()(text.as_ptr()) };
        assert!(set >= 0, "{rules:?}");
    }

    /// A host with the plugin, in reduced precision; `settings` go before the usual ones.
    pub(crate) fn host(&self, settings: &[(&str, &str)]) -> Host {
        let folder = self.folder.display().to_string();
        let atc = compiler().display().to_string();
        let usual = [("lib_dir", &*folder), ("atc", &*atc), ("precision", "reduced")];
        let mut builder = Host::builder().linked(polychip_ascend::query);
        for (key, value) in usual.iter().chain(settings) {
            builder = builder.configure("ascend", key, *value);
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

/// The emulated compiler.
pub(crate) fn compiler() -> PathBuf {
    libraries::program(PACKAGE, "atc").unwrap()
}

/// Runs a part of one input and one output of f32.
pub(crate) fn run(device: &Device, executable: &Executable, x: &[f32], results: usize) -> Vec<f32> {
    let mut submission = Submission::new(executable, 4);
    let held = buffers(device, executable, &mut submission);
    write(&held[0], &floats(x));
    executable
        .execute(&mut submission, &[])
        .unwrap()
        .wait(PATIENCE)
        .unwrap();
    numbers(&read(&held[1], 4 * results))
}

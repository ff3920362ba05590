//! The vendor's runtime: detection of a chip, meaning of codes, contexts and memory.
//!
//! Invariants:
//! 1. A context is used by one thread at a time; the lane that owns it ensures this.
//! 2. The library writes only to records and memory that outlive the call.
//!
//! Start reading at [`Driver`].

#![allow(unsafe_code, reason = "the vendor's library is called here")]

mod context;
mod memory;

use std::path::Path;

use polychip_sdk::{Error, ErrorKind, Result};
use polychip_sys::rknn::bindings as rk;
use polychip_sys::rknn::{BOARD_FILE, Library};

pub(crate) use context::{Context, Copies, Seen};
pub(crate) use memory::DeviceMemory;

/// An available runtime, with a chip as far as detection works.
#[derive(Clone, Copy)]
pub(crate) struct Driver {
    library: &'static Library,
}

/// The file that the older kernel driver makes.
const NODE: &str = "/dev/rknpu";
/// Where the newer one stands, as a graphics device.
const DRM: &str = "/sys/class/drm";

impl Driver {
    /// Opens the library, and looks for a chip.
    ///
    /// # Errors
    /// Names the missing part: the library, the chip, the connected board.
    pub(crate) fn open(folder: Option<&Path>) -> Result<Driver> {
        let library =
            Library::open(folder).map_err(|error| Error::new(ErrorKind::Persistent, error.to_string()))?;
        let driver = Driver { library };
        if library.forwards() {
            driver.find_board()?;
        } else if !library.is_emulated() && !has_chip() {
            // not asked of the library, which prints where there is none
            return Err(absent(&format!(
                "there is {BOARD_FILE} ({}) and no NPU of Rockchip's: neither {NODE} nor a graphics device of the driver \
                 rknpu; on a board load the kernel's module rknpu",
                library.path().display()
            )));
        }
        Ok(driver)
    }

    /// Whether a board is connected: the library looks for one before it looks at a model.
    fn find_board(self) -> Result<()> {
        match Context::open(self, b"RKNN, of no board's", 0) {
            Err(error) if error.vendor_code() == i64::from(rk::RKNN_NO_DEVICE) => Err(absent(&format!(
                "{} finds no board (rknn_init gives {}): connect one by USB, with rknn_server running on it",
                self.library.path().display(),
                rk::RKNN_NO_DEVICE
            ))),
            // it found one and did not like the model
            _ => Ok(()),
        }
    }

    /// The library.
    pub(crate) fn library(self) -> &'static Library {
        self.library
    }

    /// An error for a code that is none of success.
    fn check(call: &'static str, code: i32) -> Result<()> {
        match code {
            rk::RKNN_OK => Ok(()),
            code => Err(failed(call, code)),
        }
    }
}

fn absent(words: &str) -> Error {
    Error::new(ErrorKind::Persistent, format!("no board: {words}"))
}

/// The error of a call: what its code means, and what follows from it.
fn failed(call: &str, code: i32) -> Error {
    let (kind, words) = match code {
        rk::RKNN_FAIL => (ErrorKind::Persistent, "it failed"),
        // the kernel's driver resets the chip, and the next run may do
        rk::RKNN_TIMEOUT => (ErrorKind::Transient, "the chip did not end in time"),
        rk::RKNN_NO_DEVICE => (
            ErrorKind::DeviceLost,
            "the chip or the connected board is not there",
        ),
        rk::RKNN_NO_MEMORY => (ErrorKind::OutOfMemory, "memory ran out"),
        rk::RKNN_BAD_PARAMETER => (ErrorKind::Unsupported, "a parameter is not taken"),
        rk::RKNN_BAD_MODEL => (
            ErrorKind::Unsupported,
            "the runtime does not read what the toolkit made: install a runtime of the toolkit's release",
        ),
        rk::RKNN_BAD_CONTEXT => (ErrorKind::DeviceLost, "the context is void"),
        rk::RKNN_BAD_INPUT => (ErrorKind::Persistent, "an input is not taken"),
        rk::RKNN_BAD_OUTPUT => (ErrorKind::Persistent, "an output is not taken"),
        rk::RKNN_OTHER_DEVICE | rk::RKNN_OTHER_PLATFORM => (
            ErrorKind::Unsupported,
            "the part was compiled for another chip: set target_platform to this one",
        ),
        rk::RKNN_OTHER_PRECOMPILE | rk::RKNN_OTHER_OPTIMISATION => (
            ErrorKind::Unsupported,
            "the part was compiled in a way that this runtime does not take: install one of the toolkit's release",
        ),
        _ => (ErrorKind::Persistent, "it failed"),
    };
    Error::new(kind, format!("{call}: {words} (code {code})")).with_vendor_code(code.into())
}

/// Whether the kernel has an NPU of Rockchip's.
fn has_chip() -> bool {
    if Path::new(NODE).exists() {
        return true;
    }
    let entries = std::fs::read_dir(DRM).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| std::fs::read_link(entry.path().join("device/driver")).ok())
        .any(|driver| {
            let name = driver.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.eq_ignore_ascii_case("rknpu"))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_a_class_and_a_message() {
        for (code, kind, words) in [
            (-1, ErrorKind::Persistent, "failed"),
            (-2, ErrorKind::Transient, "in time"),
            (-3, ErrorKind::DeviceLost, "not there"),
            (-4, ErrorKind::OutOfMemory, "memory"),
            (-6, ErrorKind::Unsupported, "release"),
            (-7, ErrorKind::DeviceLost, "void"),
            (-13, ErrorKind::Unsupported, "target_platform"),
            (-99, ErrorKind::Persistent, "-99"),
            // a code that nobody noted is no success
            (7, ErrorKind::Persistent, "7"),
        ] {
            let error = Driver::check("rknn_run", code).unwrap_err();
            assert_eq!(error.kind(), kind, "{code}");
            assert!(error.to_string().contains(words), "{error}");
            assert_eq!(error.vendor_code(), i64::from(code));
        }
        assert!(Driver::check("rknn_run", 0).is_ok());
    }
}

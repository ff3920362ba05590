//! Opens the runtime, and looks for a chip or a connected board.

use std::path::Path;

use polychip_sdk::{Error, ErrorKind, Result};
use polychip_sys::rknn::bindings as rk;
use polychip_sys::rknn::{BOARD_FILE, Library};

use super::Driver;
use super::context::Context;

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
}

fn absent(words: &str) -> Error {
    Error::new(ErrorKind::Persistent, format!("no board: {words}"))
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

//! Intel OpenVINO on this machine: its library, and a runtime that uses it.
//!
//! Not here: installing it (`cargo xtask vendor openvino`), the plugin itself.

use std::path::PathBuf;

use crate::paths;

/// The folder of the library: `OPENVINO_LIB_DIR`, else what `cargo xtask vendor openvino` has put into `target`.
///
/// # Errors
/// The words with which a test that needs it is skipped.
pub fn library() -> Result<PathBuf, String> {
    if let Some(folder) = std::env::var_os("OPENVINO_LIB_DIR").filter(|folder| !folder.is_empty()) {
        return Ok(PathBuf::from(folder));
    }
    if cfg!(not(target_arch = "x86_64")) {
        return Err(
            "OPENVINO_LIB_DIR is not set, and what `cargo xtask vendor openvino` fetches is x86-64's"
                .to_owned(),
        );
    }
    let vendored = paths::root().join("target/vendor/openvino/openvino/libs");
    if vendored.is_dir() {
        return Ok(vendored);
    }
    Err("OPENVINO_LIB_DIR is not set, and `cargo xtask vendor openvino` has not been run".to_owned())
}

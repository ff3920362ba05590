//! The version, and the name of a status.

#![allow(unsafe_code)]

use std::ffi::c_char;

use crate::status::{self, polychip_status_t};

/// Major version of this header. While it is 0, a library of another minor version is not compatible.
pub const POLYCHIP_VERSION_MAJOR: u32 = 0;
/// Minor version of this header.
pub const POLYCHIP_VERSION_MINOR: u32 = 1;
/// Patch version of this header.
pub const POLYCHIP_VERSION_PATCH: u32 = 0;

/// Returns the version of the loaded library: major * 1000000 + minor * 1000 + patch. Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn polychip_version() -> u32 {
    POLYCHIP_VERSION_MAJOR * 1_000_000 + POLYCHIP_VERSION_MINOR * 1000 + POLYCHIP_VERSION_PATCH
}

/// Returns the version as text, such as `0.1.0`. Static. Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn polychip_version_text() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Returns a short name for a status, such as `bad model`; also for a status that this version does
/// not know. Static. Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn polychip_status_text(status: polychip_status_t) -> *const c_char {
    status::words(status).as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_equal_the_package_version() {
        let text = format!("{POLYCHIP_VERSION_MAJOR}.{POLYCHIP_VERSION_MINOR}.{POLYCHIP_VERSION_PATCH}");
        assert_eq!(text, env!("CARGO_PKG_VERSION"));
    }
}

//! The version, and words for a status.

#![allow(unsafe_code)]

use std::ffi::c_char;

use crate::status::{self, polychip_status_t};

/// Major version of this header. While it is 0, a library of another minor version is not compatible.
pub const POLYCHIP_VERSION_MAJOR: u32 = 0;
/// Minor version of this header.
pub const POLYCHIP_VERSION_MINOR: u32 = 1;
/// Patch version of this header.
pub const POLYCHIP_VERSION_PATCH: u32 = 0;

/// The version of the library that is loaded: major * 1000000 + minor * 1000 + patch. Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn polychip_version() -> u32 {
    POLYCHIP_VERSION_MAJOR * 1_000_000 + POLYCHIP_VERSION_MINOR * 1000 + POLYCHIP_VERSION_PATCH
}

/// The same as text, `0.1.0`. Static. Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn polychip_version_text() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// A few words for a status, `bad model`. Static, also of a status that this version does not know. Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn polychip_status_text(status: polychip_status_t) -> *const c_char {
    status::words(status).as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_are_the_version_of_the_package() {
        let text = format!("{POLYCHIP_VERSION_MAJOR}.{POLYCHIP_VERSION_MINOR}.{POLYCHIP_VERSION_PATCH}");
        assert_eq!(text, env!("CARGO_PKG_VERSION"));
    }
}

//! AscendCL: detection of boards, meaning of codes, a board's opening, its memory, its models.
//!
//! Invariants:
//! 1. The library is initialised once per process and never finalised: other code of the process
//!    may use it.
//! 2. Each call is made with its opening's context current in the calling thread.
//! 3. The library writes only to memory that outlives the call.
//!
//! Start reading at [`Driver`], then [`Opening`].

#![allow(unsafe_code, reason = "the vendor's library is called here")]

mod memory;
mod model;
mod opening;

use std::ffi::CStr;
use std::path::Path;

use polychip_sdk::{Error, ErrorKind, Result};
use polychip_sys::ascend::Library;
use polychip_sys::ascend::bindings as acl;

pub(crate) use memory::Piece;
pub(crate) use model::{Model, Seen};
pub(crate) use opening::Opening;

/// A library that is there, with boards behind it.
#[derive(Clone, Copy)]
pub(crate) struct Driver {
    library: &'static Library,
    boards: u32,
}

impl Driver {
    /// Opens the library, and looks for boards.
    ///
    /// # Errors
    /// What is missing, by its name: the library, the driver, the board.
    pub(crate) fn open(folder: Option<&Path>) -> Result<Driver> {
        let library =
            Library::open(folder).map_err(|error| Error::new(ErrorKind::Persistent, error.to_string()))?;
        let mut driver = Driver { library, boards: 0 };
        // SAFETY: no configuration is a null pointer, as the library documents it.
        match unsafe { library.symbols().aclInit(std::ptr::null()) } as u32 {
            acl::ACL_OK | acl::ACL_INITIALISED_BEFORE => {}
            code => return Err(absent(&driver.failed("aclInit", code as i32))),
        }
        // SAFETY: the count is writable.
        let code = unsafe { library.symbols().aclrtGetDeviceCount(&raw mut driver.boards) };
        driver
            .check("aclrtGetDeviceCount", code)
            .map_err(|error| absent(&error))?;
        if driver.boards == 0 {
            return Err(Error::new(
                ErrorKind::Persistent,
                "no board: AscendCL is there and counts none; load the driver, and be of the group HwHiAiUser",
            ));
        }
        Ok(driver)
    }

    /// The library.
    pub(crate) fn library(self) -> &'static Library {
        self.library
    }

    /// How many boards there are.
    pub(crate) fn boards(self) -> u32 {
        self.boards
    }

    /// Name of the chip, where the library says it.
    pub(crate) fn soc(self) -> Option<String> {
        // SAFETY: no arguments; the text is the library's, and static.
        let name = unsafe { self.library.symbols().aclrtGetSocName() };
        text(name)
    }

    /// The library's version, where it says one.
    pub(crate) fn version(self) -> Option<String> {
        let symbols = self.library.symbols();
        symbols.aclrtGetVersion.as_ref().ok()?;
        let mut version = [0i32; 3];
        let [major, minor, patch] = &mut version;
        // SAFETY: the call is there, and the three numbers are writable.
        let code = unsafe { symbols.aclrtGetVersion(major, minor, patch) };
        let [major, minor, patch] = version;
        (code as u32 == acl::ACL_OK).then(|| format!("{major}.{minor}.{patch}"))
    }

    /// An error for a code that is none of success.
    fn check(self, call: &'static str, code: i32) -> Result<()> {
        if code as u32 == acl::ACL_OK {
            return Ok(());
        }
        Err(self.failed(call, code))
    }

    /// The error of a call: what its code means, what follows from it, and what the library says beside it.
    fn failed(self, call: &str, code: i32) -> Error {
        let symbols = self.library.symbols();
        let said = symbols.aclGetRecentErrMsg.as_ref().ok().and_then(|_| {
            // SAFETY: the call is there; its text is the library's, and stays until the thread's next call.
            text(unsafe { symbols.aclGetRecentErrMsg() })
        });
        let (kind, words) = meaning(code);
        let said = said.map_or(String::new(), |said| {
            let first = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("");
            format!(": {}", first.trim().chars().take(200).collect::<String>())
        });
        Error::new(kind, format!("{call}: {words} (code {code}){said}")).with_vendor_code(code.into())
    }
}

/// A text of the library's, if there is one.
fn text(from: *const std::ffi::c_char) -> Option<String> {
    if from.is_null() {
        return None;
    }
    // SAFETY: not null, and the library ends its texts with a zero.
    let text = unsafe { CStr::from_ptr(from) }.to_string_lossy().into_owned();
    Some(text).filter(|text| !text.is_empty())
}

fn absent(error: &Error) -> Error {
    Error::new(ErrorKind::Persistent, format!("no board: {error}")).with_vendor_code(error.vendor_code())
}

/// What a code means: its first digit is the class (1 misuse, 2 resources, 3 service, 5 within board or driver).
fn meaning(code: i32) -> (ErrorKind, &'static str) {
    match code as u32 {
        acl::ACL_BAD_PARAMETER | acl::ACL_RT_BAD_PARAMETER | acl::ACL_GE_BAD_PARAMETER => {
            (ErrorKind::Unsupported, "a parameter is not taken")
        }
        acl::ACL_NOT_INITIALISED => (ErrorKind::Persistent, "the library was finalised by someone else"),
        acl::ACL_BAD_MODEL_ID | acl::ACL_GE_BAD_MODEL_ID => (ErrorKind::DeviceLost, "the model is void"),
        acl::ACL_RT_BAD_DEVICE | acl::ACL_RT_NO_DEVICE => (ErrorKind::DeviceLost, "the board is not there"),
        acl::ACL_RT_NO_CONTEXT | acl::ACL_RT_OTHER_CONTEXT => (ErrorKind::DeviceLost, "the context is void"),
        acl::ACL_GE_BAD_MODEL_SIZE | acl::ACL_GE_FAILED | acl::ACL_GE_INTERNAL => (
            ErrorKind::Unsupported,
            "the library does not read what the compiler made: both must be of one release, and of this chip",
        ),
        acl::ACL_NO_HOST_MEMORY | acl::ACL_RT_NO_MEMORY | acl::ACL_GE_NO_MEMORY | acl::ACL_RT_NO_RESOURCE => {
            (ErrorKind::OutOfMemory, "memory or another resource ran out")
        }
        acl::ACL_NOT_OFFERED | acl::ACL_RT_NOT_OFFERED => {
            (ErrorKind::Unsupported, "the board does not offer it")
        }
        acl::ACL_RT_CORE_TIMEOUT => (ErrorKind::Transient, "a core did not end in time"),
        acl::ACL_RT_TASK_ABORTED
        | acl::ACL_RT_LOST_HEARTBEAT
        | acl::ACL_RT_CORE_EXCEPTION
        | acl::ACL_RT_DRIVER_INTERNAL => (ErrorKind::DeviceLost, "the board failed and starts anew"),
        acl::ACL_RT_MODEL_FAILED => (ErrorKind::Persistent, "the model failed"),
        _ => (ErrorKind::Persistent, "it failed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_a_class_and_a_message() {
        for (code, kind, words) in [
            (100_000, ErrorKind::Unsupported, "parameter"),
            (100_011, ErrorKind::DeviceLost, "void"),
            (107_002, ErrorKind::DeviceLost, "context"),
            (145_006, ErrorKind::Unsupported, "one release"),
            (207_001, ErrorKind::OutOfMemory, "memory"),
            (507_010, ErrorKind::DeviceLost, "anew"),
            (507_014, ErrorKind::Transient, "in time"),
            // codes that nobody noted are no success
            (-1, ErrorKind::Persistent, "failed"),
            (599_999, ErrorKind::Persistent, "failed"),
        ] {
            let (found, said) = meaning(code);
            assert_eq!(found, kind, "{code}");
            assert!(said.contains(words), "{said}");
        }
    }
}

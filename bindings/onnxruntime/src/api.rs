//! The functions that ONNX Runtime passes in.
//!
//! Invariants:
//! 1. Every table comes from the runtime, for a version that it has, and is never freed.
//! 2. Nothing is read beyond the end of a table: older tables are shorter than our declaration, so
//!    no reference to one is made.
//! 3. A failed status is released once its message is read.
//!
//! Not here: the arguments of each function, which each call justifies.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};
use std::mem::offset_of;
use std::sync::OnceLock;

use polychip_sys::onnxruntime::bindings::{
    ORT_VERSION, ORT_VERSION_SHAPES, OrtApi, OrtApiBase, OrtEpApi, OrtStatus,
};

use crate::failure::{Failure, Result};

/// A table of functions, and its size in bytes.
pub(crate) struct Table<T> {
    raw: *const T,
    bytes: usize,
}

impl<T> Clone for Table<T> {
    fn clone(&self) -> Table<T> {
        *self
    }
}

impl<T> Copy for Table<T> {}

impl<T> Table<T> {
    /// The entry at this offset, read by `read` if the table contains it.
    ///
    /// # Errors
    /// The table ends before it, or the entry is null.
    pub(crate) fn entry<F>(
        self,
        name: &str,
        offset: usize,
        read: impl FnOnce(*const T) -> Option<F>,
    ) -> Result<F> {
        let is_there = offset + size_of::<Option<F>>() <= self.bytes;
        is_there
            .then(|| read(self.raw))
            .flatten()
            .ok_or_else(|| Failure::new(format!("this ONNX Runtime has no {name}")))
    }
}

/// The function of this name in the runtime's table; a failure if it is missing.
macro_rules! ort {
    ($api:expr, $name:ident) => {
        $crate::api::Api::ort($api).entry(
            stringify!($name),
            std::mem::offset_of!(polychip_sys::onnxruntime::bindings::OrtApi, $name),
            // SAFETY: `entry` calls this where the table, which is constant, has that entry.
            |table| unsafe { (&raw const (*table).$name).read() },
        )
    };
}
pub(crate) use ort;

/// As [`ort`], in the table for providers.
macro_rules! ep {
    ($api:expr, $name:ident) => {
        $crate::api::Api::ep($api).entry(
            stringify!($name),
            std::mem::offset_of!(polychip_sys::onnxruntime::bindings::OrtEpApi, $name),
            // SAFETY: `entry` calls this where the table, which is constant, has that entry.
            |table| unsafe { (&raw const (*table).$name).read() },
        )
    };
}
pub(crate) use ep;

/// ONNX Runtime's functions, those for providers, and which version it has.
#[derive(Clone, Copy)]
pub(crate) struct Api {
    ort: Table<OrtApi>,
    ep: Table<OrtEpApi>,
    /// Whether the two functions at the end of the table are there.
    pub(crate) has_shapes: bool,
    /// Whether a fused node is given what bodies within it alone read.
    pub(crate) hands_captures: bool,
}

// SAFETY: the tables are constant memory of the runtime's.
unsafe impl Send for Api {}
// SAFETY: as above.
unsafe impl Sync for Api {}

/// The first release that was seen to hand fused nodes what only bodies within them read; 1.26 does not.
const HANDS_CAPTURES: Version = Version(1, 31);

/// Size of our part of the table of [`ORT_VERSION`].
const FIRST_BYTES: usize = offset_of!(OrtApi, unused_380);

/// Major and minor number of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u32, u32);

impl Version {
    /// The version in this text; the lowest version if it contains none.
    fn of(text: &str) -> Version {
        let mut numbers = text.split('.').map(|number| number.parse().unwrap_or(0));
        Version(numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }
}

/// The reason why a runtime has no table for us.
fn unfit(version: &str) -> String {
    let reason = if Version::of(version) < Version(1, ORT_VERSION) {
        "is too old for the Polychip provider, which needs"
    } else {
        "no longer has the functions that the Polychip provider calls, those of"
    };
    format!("ONNX Runtime {version} {reason} 1.{ORT_VERSION} or newer")
}

/// The process that first used the library.
static PROCESS: OnceLock<u32> = OnceLock::new();

/// Whether this is a child that was forked since: it has none of the library's threads, and locks as they happened to be.
pub(crate) fn is_forked() -> bool {
    *PROCESS.get_or_init(std::process::id) != std::process::id()
}

impl Api {
    /// Requests the tables; returns a message if the runtime is too old.
    ///
    /// # Safety
    /// `base` is null or what ONNX Runtime gave.
    pub(crate) unsafe fn new(base: *const OrtApiBase) -> std::result::Result<Api, String> {
        // SAFETY: the caller's promise.
        let base = unsafe { base.as_ref() }.ok_or("ONNX Runtime passed no functions")?;
        let get = base.GetApi.ok_or("ONNX Runtime passed no functions")?;
        // SAFETY: any version may be asked for; what is given is null or lives as long as the runtime.
        let table = |version: u32| unsafe { get(version) };
        // SAFETY: the runtime's version is constant text.
        let version = base
            .GetVersionString
            .map_or("", |text| unsafe { text_at(text()) });
        // a version that is not there may not be asked for: the runtime says so on standard error
        let newer = Version::of(version) >= Version(1, ORT_VERSION_SHAPES);
        let newer = newer
            .then(|| table(ORT_VERSION_SHAPES))
            .filter(|raw| !raw.is_null());
        let ort = match newer {
            Some(raw) => Table {
                raw,
                bytes: size_of::<OrtApi>(),
            },
            None => Table {
                raw: table(ORT_VERSION),
                bytes: FIRST_BYTES,
            },
        };
        if ort.raw.is_null() {
            return Err(unfit(version));
        }
        let mut api = Api {
            ort,
            ep: Table {
                raw: std::ptr::null(),
                bytes: 0,
            },
            hands_captures: Version::of(version) >= HANDS_CAPTURES,
            has_shapes: newer.is_some(),
        };
        let without = "this ONNX Runtime was built without support for provider libraries";
        let ep = ort!(api, GetEpApi).map_err(|_| without)?;
        // SAFETY: it takes nothing, and what it gives is null or lives as long as the runtime.
        let raw = unsafe { ep() };
        if raw.is_null() {
            return Err(without.to_owned());
        }
        // of this table only entries are named here that the first version has
        let bytes = size_of::<OrtEpApi>();
        api.ep = Table { raw, bytes };
        Ok(api)
    }

    pub(crate) fn ort(self) -> Table<OrtApi> {
        self.ort
    }

    pub(crate) fn ep(self) -> Table<OrtEpApi> {
        self.ep
    }

    /// A status as a result.
    ///
    /// # Safety
    /// The status is null, or the runtime's and the caller's to release; it is not used after this.
    pub(crate) unsafe fn check(self, status: *mut OrtStatus) -> Result<()> {
        if status.is_null() {
            return Ok(());
        }
        let words = match ort!(self, GetErrorMessage) {
            // SAFETY: the status is the runtime's, and the text lives as long as it.
            Ok(message) => unsafe { text_at(message(status)) }.to_owned(),
            Err(_) => String::new(),
        };
        if let Ok(release) = ort!(self, ReleaseStatus) {
            // SAFETY: it is ours to release, and not used after this.
            unsafe { release(status) };
        }
        Err(Failure::new(format!("ONNX Runtime: {words}")))
    }
}

/// Text of the runtime; empty for null, and if it is not UTF-8.
///
/// # Safety
/// `text` is null or ends in a zero, and lives as long as the result is used.
pub(crate) unsafe fn text_at<'a>(text: *const c_char) -> &'a str {
    if text.is_null() {
        return "";
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_major_version_is_not_an_old_one() {
        assert!(Version::of("2.0.0") > Version(1, ORT_VERSION_SHAPES));
        assert!(Version::of("1.9.3") < Version(1, ORT_VERSION));
        assert_eq!(Version::of("1.26.0+cuda"), Version(1, 26));
        assert_eq!(Version::of(""), Version(0, 0));
        assert!(unfit("1.22.1").contains("1.22.1 is too old") && unfit("1.22.1").contains("needs 1.23"));
        assert!(
            unfit("2.0.0").contains("2.0.0 no longer has"),
            "{}",
            unfit("2.0.0")
        );
    }

    #[test]
    fn reads_stay_within_the_table() {
        // what release 1.23 has, and nothing behind it: Miri and sanitizers see a read that goes further
        let words = vec![0usize; FIRST_BYTES / size_of::<usize>()];
        let ort = Table {
            raw: words.as_ptr().cast::<OrtApi>(),
            bytes: FIRST_BYTES,
        };
        let ep = Table {
            raw: std::ptr::null(),
            bytes: 0,
        };
        let api = Api {
            ort,
            ep,
            has_shapes: false,
            hands_captures: false,
        };
        let last = ort!(api, GetSessionOptionsConfigEntries).err().unwrap();
        assert!(
            last.words.contains("GetSessionOptionsConfigEntries"),
            "{}",
            last.words
        );
        assert!(ort!(api, TensorTypeAndShape_HasShape).is_err());
        assert!(ort!(api, GetTensorElementTypeAndShapeDataReference).is_err());
        assert!(ep!(api, CreateEpDevice).is_err());
    }
}

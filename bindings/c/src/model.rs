//! Models from a file, from bytes or from a descriptor.
//!
//! Invariant: borrowed bytes of the app are not copied, and are released once nothing reads them.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use polychip::Model;

use crate::handle::{Kind, Object, Table};

/// A model.
pub(crate) struct ModelObject(pub(crate) Model);

impl Object for ModelObject {
    fn table() -> &'static Table<ModelObject> {
        static TABLE: Table<ModelObject> = Table::new(Kind::Model);
        &TABLE
    }
}

/// Called when the library no longer uses the app's memory.
pub(crate) type ReleaseCallback = Option<unsafe extern "C" fn(user: *mut c_void)>;

/// Calls the app back on drop, once armed: memory is borrowed only if the call succeeds.
pub(crate) struct Release {
    callback: ReleaseCallback,
    user: *mut c_void,
    armed: Arc<AtomicBool>,
}

/// What arms a release.
pub(crate) struct Armed(Arc<AtomicBool>);

impl Armed {
    pub(crate) fn arm(self) {
        self.0.store(true, Ordering::Release);
    }
}

// SAFETY: the app promised that the callback may be called with `user` from any thread.
unsafe impl Send for Release {}
// SAFETY: as above; it is called once, when it is dropped.
unsafe impl Sync for Release {}

impl Release {
    /// # Safety
    /// The callback may be called with `user` from any thread.
    pub(crate) unsafe fn new(callback: ReleaseCallback, user: *mut c_void) -> (Release, Armed) {
        let armed = Arc::new(AtomicBool::new(false));
        let arm = Armed(Arc::clone(&armed));
        (
            Release {
                callback,
                user,
                armed,
            },
            arm,
        )
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        if let Some(callback) = self.callback.filter(|_| self.armed.load(Ordering::Acquire)) {
            // SAFETY: what `Release::new` was promised.
            unsafe { callback(self.user) };
        }
    }
}

/// Bytes of the app, read in place.
pub(crate) struct LentBytes {
    data: *const u8,
    bytes: usize,
    /// Calls the app back.
    _release: Release,
}

// SAFETY: the app promised that the bytes do not change, so any thread may read them.
unsafe impl Send for LentBytes {}
// SAFETY: as above.
unsafe impl Sync for LentBytes {}

impl LentBytes {
    /// # Safety
    /// `bytes` bytes from `data` on are there and do not change until `release` is dropped; `data` is not null.
    pub(crate) unsafe fn new(data: *const u8, bytes: usize, release: Release) -> LentBytes {
        LentBytes {
            data,
            bytes,
            _release: release,
        }
    }
}

impl AsRef<[u8]> for LentBytes {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: what `LentBytes::new` was promised.
        unsafe { std::slice::from_raw_parts(self.data, self.bytes) }
    }
}

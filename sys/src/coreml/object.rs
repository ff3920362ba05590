//! Objective-C objects with an explicit reference count.

#![allow(unsafe_code, reason = "objects are counted here")]

use std::ptr::NonNull;

use super::library::{Id, Library};

/// An object of Objective-C.
pub struct Object {
    id: NonNull<std::ffi::c_void>,
    library: &'static Library,
}

// SAFETY: counts are atomic, and the objects that we hold are immutable or used by one thread at a time (`model`).
unsafe impl Send for Object {}
// SAFETY: as above.
unsafe impl Sync for Object {}

impl Object {
    /// Takes ownership of an object that the caller has retained (`alloc`, `new`).
    pub(super) fn owned(library: &'static Library, id: Id) -> Option<Object> {
        let id = NonNull::new(id)?;
        Some(Object { id, library })
    }

    /// Retains an object that other code owns or that a pool will release.
    pub(super) fn held(library: &'static Library, id: Id) -> Option<Object> {
        library.retain(id);
        Object::owned(library, id)
    }

    pub(super) fn id(&self) -> Id {
        self.id.as_ptr()
    }

    pub(super) fn library(&self) -> &'static Library {
        self.library
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        self.library.release(self.id());
    }
}

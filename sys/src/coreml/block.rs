//! Hand-made Objective-C blocks: completion handlers in C.
//!
//! A block is on the stack of its maker. The callee copies it byte by byte, and the copy has a
//! pointer to the waiter.

#![allow(unsafe_code, reason = "blocks are laid out here")]

use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::library::{Id, Library};
use super::object::Object;

/// Size of a block, for code that copies it.
#[repr(C)]
struct Descriptor {
    reserved: usize,
    size: usize,
}

static DESCRIPTOR: Descriptor = Descriptor {
    reserved: 0,
    size: size_of::<Handler>(),
};

/// A block that takes an object and an error.
#[repr(C)]
struct Handler {
    isa: *const c_void,
    flags: i32,
    reserved: i32,
    invoke: unsafe extern "C" fn(*mut Handler, Id, Id),
    descriptor: &'static Descriptor,
    waiting: *const Waiting,
}

/// The result of the handler, for the waiting thread.
struct Waiting {
    library: &'static Library,
    came: Mutex<Option<(Option<Object>, Option<Object>)>>,
    told: Condvar,
}

/// Starts a call with a completion handler, waits for the handler, and returns the object and the
/// error that it received. `None` if the handler is not called in time. A later call of the handler
/// is safe, because its memory remains.
pub(super) fn completed(
    library: &'static Library,
    limit: Duration,
    call: impl FnOnce(*mut c_void),
) -> Option<(Option<Object>, Option<Object>)> {
    let waiting = Arc::new(Waiting {
        library,
        came: Mutex::new(None),
        told: Condvar::new(),
    });
    let mut handler = Handler {
        isa: library.stack_block(),
        flags: 0,
        reserved: 0,
        invoke,
        descriptor: &DESCRIPTOR,
        // given back by the handler, which is called once; leaked where it never is
        waiting: Arc::into_raw(Arc::clone(&waiting)),
    };
    call((&raw mut handler).cast());
    let came = waiting.came.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut came, _) = waiting
        .told
        .wait_timeout_while(came, limit, |came| came.is_none())
        .unwrap_or_else(PoisonError::into_inner);
    came.take()
}

unsafe extern "C" fn invoke(block: *mut Handler, object: Id, error: Id) {
    // SAFETY: the block, or the runtime's copy of it.
    let waiting = unsafe { (*block).waiting };
    // SAFETY: made by `into_raw`, and a completion handler is called once.
    let waiting = unsafe { Arc::from_raw(waiting) };
    let library = waiting.library;
    let came = (Object::held(library, object), Object::held(library, error));
    *waiting.came.lock().unwrap_or_else(PoisonError::into_inner) = Some(came);
    waiting.told.notify_all();
}

//! Objects, their counts and their contents.

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{CString, c_void};
use std::path::PathBuf;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use super::classes::{Class, Unit};
use crate::program::Ready;

/// A pointer to an object or a class; null is nothing.
pub(super) type Id = *mut Object;

/// Number of live objects.
pub(super) static LIVE: AtomicUsize = AtomicUsize::new(0);

/// Content of an object.
pub(super) enum Body {
    Text(CString),
    Number(i64),
    List(Vec<Held>),
    Dictionary(Vec<(String, Held)>),
    File(PathBuf),
    Failure { code: i64, words: String },
    Process,
    Configuration(AtomicIsize),
    Array(ArrayBody),
    Value(Held),
    Features(Vec<(String, Held)>),
    Options(Mutex<Vec<(String, Held)>>),
    Model(Loaded),
    Device,
    Plan(Plan),
    Structure(Arc<Ready>),
    Operation { name: String, output: String },
    Named(String),
    Usage(Intended),
    Cost(f64),
}

/// An array.
pub(super) struct ArrayBody {
    pub(super) address: *mut c_void,
    pub(super) dims: Vec<usize>,
    pub(super) strides: Vec<usize>,
    pub(super) data: isize,
    /// Memory of the array's own.
    pub(super) _own: Option<Box<[u64]>>,
}

/// A plan of a model.
pub(super) struct Plan {
    pub(super) ready: Arc<Ready>,
    /// The unit beside the processor that the configuration allows.
    pub(super) unit: Unit,
}

/// The plan for an operation.
#[derive(Clone, Copy)]
pub(super) struct Intended {
    pub(super) unit: Unit,
    pub(super) supported: bool,
}

/// A loaded model.
pub(super) struct Loaded {
    pub(super) ready: Arc<Ready>,
    /// Restarts of the chip before it was loaded.
    pub(super) restarts: u64,
}

/// An object; a class starts alike.
#[repr(C)]
pub(super) struct Object {
    class: &'static Class,
    count: AtomicUsize,
    body: OnceLock<Body>,
}

impl Object {
    pub(super) fn class(&self) -> &'static Class {
        self.class
    }

    pub(super) fn body(&self) -> Option<&Body> {
        self.body.get()
    }

    /// An object without content, with a count of one.
    pub(super) fn empty(class: &'static Class) -> Id {
        LIVE.fetch_add(1, Ordering::Relaxed);
        Box::into_raw(Box::new(Object {
            class,
            count: AtomicUsize::new(1),
            body: OnceLock::new(),
        }))
    }

    /// An object, with a count of one.
    pub(super) fn with(class: &'static Class, body: Body) -> Held {
        let id = Object::empty(class);
        // SAFETY: made just now.
        let _ = unsafe { (*id).body.set(body) };
        Held(id)
    }

    /// Gives an object that `alloc` made its content.
    ///
    /// # Safety
    /// `id` is such an object.
    pub(super) unsafe fn fill(id: Id, body: Body) {
        // SAFETY: the caller vouches for it.
        let _ = unsafe { (*id).body.set(body) };
    }
}

/// A reference to an object.
pub(super) struct Held(Id);

// SAFETY: contents are immutable or behind locks; addresses of arrays are the client's to keep apart.
unsafe impl Send for Held {}
// SAFETY: as above.
unsafe impl Sync for Held {}

impl Held {
    /// Retains an object; `None` for null.
    ///
    /// # Safety
    /// `id` is null or a live object.
    pub(super) unsafe fn of(id: Id) -> Option<Held> {
        if id.is_null() {
            return None;
        }
        // SAFETY: the caller vouches for it.
        unsafe { retain(id) };
        Some(Held(id))
    }

    pub(super) fn id(&self) -> Id {
        self.0
    }

    /// The content, as long as this count is held.
    pub(super) fn body(&self) -> Option<&Body> {
        // SAFETY: alive as long as this count.
        unsafe { (*self.0).body() }
    }

    /// Moves the reference to the innermost autorelease pool.
    pub(super) fn autorelease(self) -> Id {
        let id = self.0;
        std::mem::forget(self);
        POOLS.with_borrow_mut(|pools| {
            pools.objects.push(id);
            if pools.open == 0 {
                eprintln!("an object is autoreleased with no pool in place - just leaking");
            }
        });
        id
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the count that this stood for.
        unsafe { release(self.0) };
    }
}

/// # Safety
/// `id` is null, a class or a live object.
pub(super) unsafe fn retain(id: Id) {
    if id.is_null() || super::classes::is_class(id) {
        return;
    }
    // SAFETY: the caller vouches for it.
    unsafe { (*id).count.fetch_add(1, Ordering::Relaxed) };
}

/// # Safety
/// `id` is null, a class, or a live object of which the caller has a count.
pub(super) unsafe fn release(id: Id) {
    if id.is_null() || super::classes::is_class(id) {
        return;
    }
    // SAFETY: the caller vouches for it.
    let before = unsafe { (*id).count.fetch_sub(1, Ordering::AcqRel) };
    if before == 1 {
        LIVE.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: the last count is gone, and `empty` made it with a box.
        drop(unsafe { Box::from_raw(id) });
    }
}

#[derive(Default)]
struct Pools {
    objects: Vec<Id>,
    open: usize,
}

thread_local! {
    static POOLS: RefCell<Pools> = RefCell::default();
}

/// Opens a pool, and returns the mark that closes it.
pub(super) fn push() -> usize {
    POOLS.with_borrow_mut(|pools| {
        pools.open += 1;
        pools.objects.len()
    })
}

/// Closes a pool, and all pools that were opened after it.
pub(super) fn pop(mark: usize) {
    let objects = POOLS.with_borrow_mut(|pools| {
        pools.open = pools.open.saturating_sub(1);
        let mark = mark.min(pools.objects.len());
        pools.objects.split_off(mark)
    });
    for id in objects {
        // SAFETY: each entry owns a count that was given to the pool.
        unsafe { release(id) };
    }
}

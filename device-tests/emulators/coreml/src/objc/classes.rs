//! The classes and their methods: a table by name.
//!
//! Not here: what the methods do (`foundation`, `model`, `plan`).

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A message's name, one address per name.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Sel(pub(super) *const c_char);

impl Sel {
    pub(super) fn text(self) -> String {
        // SAFETY: names are registered and never freed.
        unsafe { CStr::from_ptr(self.0) }.to_string_lossy().into_owned()
    }
}

/// A compute unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    Processor,
    Gpu,
    Ane,
}

impl Unit {
    pub(super) fn class(self) -> &'static Class {
        class(match self {
            Unit::Processor => "MLCPUComputeDevice",
            Unit::Gpu => "MLGPUComputeDevice",
            Unit::Ane => "MLNeuralEngineComputeDevice",
        })
    }
}

/// The address of a function.
#[derive(Clone, Copy)]
pub(super) struct Method(*const ());

// SAFETY: addresses of functions.
unsafe impl Send for Method {}
// SAFETY: as above.
unsafe impl Sync for Method {}

/// Methods by name.
pub(super) type Methods = Vec<(&'static str, Method)>;

/// Names functions: `methods!["name" = function, ...]`.
macro_rules! methods {
    ($($name:literal = $function:expr),* $(,)?) => {
        vec![$(($name, $crate::objc::classes::Method::of($function as *const ())),)*]
    };
}
pub(super) use methods;

impl Method {
    pub(super) fn of(function: *const ()) -> Method {
        Method(function)
    }
}

/// A class, which starts as an object does.
#[repr(C)]
pub(super) struct Class {
    class: AtomicPtr<Class>,
    pub(super) name: &'static str,
    methods: Methods,
}

/// A class's name, its own methods, and those of its objects.
pub(super) type Row = (&'static str, Methods, Methods);

static CLASSES: OnceLock<Vec<&'static Class>> = OnceLock::new();

/// The classes, once they were made.
fn all() -> &'static [&'static Class] {
    CLASSES.get().map_or(&[], Vec::as_slice)
}

/// Makes the classes of a table, the first time.
pub(super) fn make(table: fn() -> Vec<Row>) {
    CLASSES.get_or_init(|| made(table()));
}

fn made(table: Vec<Row>) -> Vec<&'static Class> {
    let mut classes = Vec::new();
    for (name, own, of_objects) in table {
        let make = |methods| -> &'static Class {
            Box::leak(Box::new(Class {
                class: AtomicPtr::default(),
                name,
                methods,
            }))
        };
        let (class, meta) = (make(of_objects), make(own));
        let address = std::ptr::from_ref(meta).cast_mut();
        class.class.store(address, Ordering::Release);
        meta.class.store(address, Ordering::Release);
        classes.push(class);
    }
    classes
}

/// The class of this name.
pub(super) fn named(name: &str) -> Option<&'static Class> {
    all().iter().copied().find(|class| class.name == name)
}

/// A class that is there.
pub(super) fn class(name: &str) -> &'static Class {
    named(name).expect("invariant: our own classes are in the table")
}

/// Whether a pointer is one of a class.
pub(super) fn is_class<T>(id: *const T) -> bool {
    all().iter().any(|class| std::ptr::addr_eq(*class, id))
}

/// The method of this name.
pub(super) fn method(class: &Class, name: Sel) -> Option<*const ()> {
    let name = name.text();
    class
        .methods
        .iter()
        .find(|(own, _)| *own == name)
        .map(|(_, method)| method.0)
}

/// The class that a pointer is one of.
pub(super) fn at<T>(id: *const T) -> Option<&'static Class> {
    all().iter().copied().find(|class| std::ptr::addr_eq(*class, id))
}

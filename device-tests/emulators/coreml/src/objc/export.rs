//! The functions of the runtime, as they are exported; and three of this emulator's own, whose names begin with
//! `polychip_coreml_`.

#![allow(unsafe_code)]
#![allow(non_snake_case, non_upper_case_globals, reason = "the runtime's own names")]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::classes::Sel;
use super::object::{self, Body, Id, LIVE, Object};
use super::{classes, foundation, model, plan};

fn table() -> Vec<classes::Row> {
    let mut table = [foundation::table(), model::table(), plan::table()].concat();
    for (_, own, of_objects) in &mut table {
        own.extend(classes::methods!["alloc" = alloc, "new" = alloc]);
        of_objects.extend(classes::methods!["isKindOfClass:" = is_kind_of]);
    }
    table
}

/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn objc_getClass(name: *const c_char) -> *const c_void {
    classes::make(table);
    // SAFETY: the caller vouches for it.
    let name = unsafe { CStr::from_ptr(name) };
    classes::named(&name.to_string_lossy()).map_or(std::ptr::null(), |class| std::ptr::from_ref(class).cast())
}

/// # Safety
/// `object` is null, a class or a live object.
#[unsafe(no_mangle)]
unsafe extern "C" fn object_getClass(object: Id) -> *const c_void {
    if object.is_null() {
        return std::ptr::null();
    }
    // SAFETY: the caller vouches for it; classes start with theirs, too.
    std::ptr::from_ref(unsafe { *object.cast::<&'static classes::Class>() }).cast()
}

/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn sel_registerName(name: *const c_char) -> Sel {
    static NAMES: Mutex<BTreeMap<CString, usize>> = Mutex::new(BTreeMap::new());
    // SAFETY: the caller vouches for it.
    let name = unsafe { CStr::from_ptr(name) }.to_owned();
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let address = names
        .entry(name.clone())
        .or_insert_with(|| name.into_raw().expose_provenance());
    Sel(std::ptr::with_exposed_provenance(*address))
}

/// # Safety
/// `class` is a class that this runtime gave.
#[unsafe(no_mangle)]
unsafe extern "C" fn class_respondsToSelector(class: *const classes::Class, name: Sel) -> u8 {
    // SAFETY: the caller vouches for it.
    u8::from(classes::method(unsafe { &*class }, name).is_some())
}

/// # Safety
/// `id` is null, a class or a live object.
#[unsafe(no_mangle)]
unsafe extern "C" fn objc_retain(id: Id) -> Id {
    // SAFETY: the caller vouches for it.
    unsafe { object::retain(id) };
    id
}

/// # Safety
/// `id` is null, a class, or a live object of which the caller has a count.
#[unsafe(no_mangle)]
unsafe extern "C" fn objc_release(id: Id) {
    // SAFETY: the caller vouches for it.
    unsafe { object::release(id) };
}

#[unsafe(no_mangle)]
extern "C" fn objc_autoreleasePoolPush() -> usize {
    object::push()
}

#[unsafe(no_mangle)]
extern "C" fn objc_autoreleasePoolPop(mark: usize) {
    object::pop(mark);
}

/// The class of blocks on a stack; only its address is used.
#[unsafe(no_mangle)]
static _NSConcreteStackBlock: [usize; 32] = [0; 32];

/// A setting of the system's kernel.
///
/// # Safety
/// `name` is a C string, `old_length` points to the number of bytes at `old`.
#[unsafe(no_mangle)]
unsafe extern "C" fn sysctlbyname(
    name: *const c_char,
    old: *mut c_void,
    old_length: *mut usize,
    _new: *mut c_void,
    _new_length: usize,
) -> c_int {
    // SAFETY: the caller vouches for it.
    if unsafe { CStr::from_ptr(name) } != c"machdep.cpu.brand_string" {
        return -1;
    }
    let Ok(value) = CString::new(&*crate::world::chip().name) else {
        return -1;
    };
    let value = value.as_bytes_with_nul();
    // SAFETY: the caller vouches for it.
    let room = unsafe { *old_length };
    if room < value.len() {
        return -1;
    }
    // SAFETY: there is room.
    unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), old.cast(), value.len()) };
    // SAFETY: the caller vouches for it.
    unsafe { *old_length = value.len() };
    0
}

/// Number of live objects, including those that a client did not release.
#[unsafe(no_mangle)]
extern "C" fn polychip_coreml_live() -> usize {
    LIVE.load(Ordering::Relaxed)
}

/// The number of compiled models' folders that were not removed.
#[unsafe(no_mangle)]
extern "C" fn polychip_coreml_folders() -> usize {
    model::folders_left()
}

/// Replaces the fault rules; returns -1 if one is malformed.
///
/// # Safety
/// `rules` is a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn polychip_coreml_set_faults(rules: *const c_char) -> c_int {
    // SAFETY: the caller vouches for it.
    let rules = unsafe { CStr::from_ptr(rules) }.to_string_lossy();
    crate::world::faults()
        .set(&rules)
        .map_or(-1, |count| count as c_int)
}

/// The content of objects that `new` alone makes whole.
fn fresh(class: &str) -> Option<Body> {
    match class {
        "MLModelConfiguration" => Some(Body::Configuration(AtomicIsize::new(2))),
        "MLPredictionOptions" => Some(Body::Options(Mutex::new(Vec::new()))),
        _ => None,
    }
}

unsafe extern "C" fn alloc(this: Id, _: Sel) -> Id {
    let class = classes::at(this);
    let class = class.expect("invariant: a class is sent this");
    let id = Object::empty(class);
    if let Some(body) = fresh(class.name) {
        // SAFETY: made just now.
        unsafe { Object::fill(id, body) };
    }
    id
}

unsafe extern "C" fn is_kind_of(this: Id, _: Sel, class: *const classes::Class) -> u8 {
    // SAFETY: the receiver is a live object.
    u8::from(std::ptr::eq(unsafe { (*this).class() }, class))
}

//! Foundation: texts, numbers, lists, dictionaries, file addresses, errors, the process.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char};
use std::path::PathBuf;

use super::classes::{Methods, Sel, class, methods};
use super::object::{Body, Held, Id, Object};

pub(super) fn table() -> Vec<(&'static str, Methods, Methods)> {
    vec![
        (
            "NSString",
            methods!["stringWithUTF8String:" = string],
            methods!["UTF8String" = utf8],
        ),
        (
            "NSNumber",
            methods!["numberWithLongLong:" = number],
            methods!["longLongValue" = long_long],
        ),
        (
            "NSArray",
            methods!["arrayWithObjects:count:" = array],
            methods!["count" = count, "objectAtIndex:" = at],
        ),
        (
            "NSDictionary",
            methods!["dictionaryWithObjects:forKeys:count:" = dictionary],
            methods!["objectForKey:" = object_for_key],
        ),
        (
            "NSURL",
            methods!["fileURLWithPath:" = file_url],
            methods!["path" = path],
        ),
        (
            "NSError",
            methods![],
            methods![
                "domain" = domain,
                "code" = code,
                "localizedDescription" = description
            ],
        ),
        (
            "NSProcessInfo",
            methods!["processInfo" = process_info],
            methods!["operatingSystemVersionString" = os_version],
        ),
    ]
}

/// The content of a message's receiver.
///
/// # Safety
/// `this` is a live object.
pub(super) unsafe fn body<'a>(this: Id) -> &'a Body {
    // SAFETY: the caller vouches for it.
    unsafe { (*this).body() }.expect("a message to an object that was not initialised")
}

/// A new text.
pub(super) fn text(value: &str) -> Held {
    let value = CString::new(value.replace('\0', " ")).expect("invariant: no zero is left");
    Object::with(class("NSString"), Body::Text(value))
}

/// The value of a text.
///
/// # Safety
/// `id` is null or a live object.
pub(super) unsafe fn read(id: Id) -> Option<String> {
    if id.is_null() {
        return None;
    }
    // SAFETY: the caller vouches for it.
    match unsafe { body(id) } {
        Body::Text(text) => Some(text.to_string_lossy().into_owned()),
        _ => None,
    }
}

/// A new list.
pub(super) fn list(items: Vec<Held>) -> Held {
    Object::with(class("NSArray"), Body::List(items))
}

/// A list of numbers.
pub(super) fn numbers(values: &[usize]) -> Held {
    let number = |&value: &usize| Object::with(class("NSNumber"), Body::Number(value as i64));
    list(values.iter().map(number).collect())
}

/// The numbers of a list.
///
/// # Safety
/// `id` is null or a live object.
pub(super) unsafe fn read_numbers(id: Id) -> Option<Vec<usize>> {
    if id.is_null() {
        return None;
    }
    // SAFETY: the caller vouches for it.
    let Body::List(items) = (unsafe { body(id) }) else {
        return None;
    };
    let number = |item: &Held| match item.body() {
        Some(Body::Number(value)) => usize::try_from(*value).ok(),
        _ => None,
    };
    items.iter().map(number).collect()
}

/// A new error of Core ML's.
pub(super) fn failure(code: i64, words: String) -> Held {
    Object::with(class("NSError"), Body::Failure { code, words })
}

unsafe extern "C" fn string(_: Id, _: Sel, value: *const c_char) -> Id {
    // SAFETY: the client gives a C string.
    let value = unsafe { CStr::from_ptr(value) };
    Object::with(class("NSString"), Body::Text(value.to_owned())).autorelease()
}

unsafe extern "C" fn utf8(this: Id, _: Sel) -> *const c_char {
    // SAFETY: the receiver is a live object.
    match unsafe { body(this) } {
        Body::Text(text) => text.as_ptr(),
        _ => std::ptr::null(),
    }
}

unsafe extern "C" fn number(_: Id, _: Sel, value: i64) -> Id {
    Object::with(class("NSNumber"), Body::Number(value)).autorelease()
}

unsafe extern "C" fn long_long(this: Id, _: Sel) -> i64 {
    // SAFETY: the receiver is a live object.
    match unsafe { body(this) } {
        Body::Number(value) => *value,
        _ => 0,
    }
}

/// Retains the objects in a client's array. Ends the process if one is null, as the real Core ML
/// does.
unsafe fn holds(objects: *const Id, count: usize) -> Vec<Held> {
    let hold = |index| {
        // SAFETY: the client gives `count` pointers.
        let id = unsafe { *objects.add(index) };
        // SAFETY: each is null or a live object.
        unsafe { Held::of(id) }.unwrap_or_else(|| {
            eprintln!("attempt to insert nil object from objects[{index}]");
            std::process::abort()
        })
    };
    (0..count).map(hold).collect()
}

unsafe extern "C" fn array(_: Id, _: Sel, objects: *const Id, count: usize) -> Id {
    // SAFETY: the client gives `count` objects.
    list(unsafe { holds(objects, count) }).autorelease()
}

unsafe extern "C" fn count(this: Id, _: Sel) -> usize {
    // SAFETY: the receiver is a live object.
    match unsafe { body(this) } {
        Body::List(items) => items.len(),
        _ => 0,
    }
}

unsafe extern "C" fn at(this: Id, _: Sel, index: usize) -> Id {
    // SAFETY: the receiver is a live object.
    match unsafe { body(this) } {
        Body::List(items) if index < items.len() => items[index].id(),
        _ => {
            eprintln!("-[NSArray objectAtIndex:]: index {index} beyond bounds");
            std::process::abort()
        }
    }
}

unsafe extern "C" fn dictionary(_: Id, _: Sel, objects: *const Id, keys: *const Id, count: usize) -> Id {
    // SAFETY: the client gives `count` objects.
    let (objects, keys) = unsafe { (holds(objects, count), holds(keys, count)) };
    // SAFETY: keys are held.
    let name = |key: &Held| unsafe { read(key.id()) }.unwrap_or_default();
    let pairs = keys.iter().map(name).zip(objects).collect();
    Object::with(class("NSDictionary"), Body::Dictionary(pairs)).autorelease()
}

unsafe extern "C" fn object_for_key(this: Id, _: Sel, key: Id) -> Id {
    // SAFETY: receiver and key are live objects.
    let (body, key) = unsafe { (body(this), read(key)) };
    let (Body::Dictionary(pairs), Some(key)) = (body, key) else {
        return std::ptr::null_mut();
    };
    let found = pairs.iter().find(|(name, _)| *name == key);
    found.map_or(std::ptr::null_mut(), |(_, value)| value.id())
}

unsafe extern "C" fn file_url(_: Id, _: Sel, path: Id) -> Id {
    // SAFETY: the client gives a text.
    let path = unsafe { read(path) }.unwrap_or_default();
    Object::with(class("NSURL"), Body::File(PathBuf::from(path))).autorelease()
}

unsafe extern "C" fn path(this: Id, _: Sel) -> Id {
    // SAFETY: the receiver is a live object.
    match unsafe { body(this) } {
        Body::File(path) => text(&path.to_string_lossy()).autorelease(),
        _ => std::ptr::null_mut(),
    }
}

unsafe extern "C" fn domain(_: Id, _: Sel) -> Id {
    text("com.apple.CoreML").autorelease()
}

unsafe extern "C" fn code(this: Id, _: Sel) -> isize {
    // SAFETY: the receiver is a live object.
    match unsafe { body(this) } {
        Body::Failure { code, .. } => *code as isize,
        _ => 0,
    }
}

unsafe extern "C" fn description(this: Id, _: Sel) -> Id {
    // SAFETY: the receiver is a live object.
    match unsafe { body(this) } {
        Body::Failure { words, .. } => text(words).autorelease(),
        _ => std::ptr::null_mut(),
    }
}

unsafe extern "C" fn process_info(_: Id, _: Sel) -> Id {
    Object::with(class("NSProcessInfo"), Body::Process).autorelease()
}

unsafe extern "C" fn os_version(_: Id, _: Sel) -> Id {
    text(concat!("Version 17.0 (emulated ", env!("CARGO_PKG_VERSION"), ")")).autorelease()
}

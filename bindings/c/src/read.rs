//! From what C gave to what Rust takes: checked before it is used.
//!
//! Invariants:
//! 1. Null, an invalid size, and text that is not UTF-8 are failures that name the argument.
//! 2. Nothing is read beyond what the caller said is there.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};

use crate::failure::{Failure, Result};
#[cfg(unix)]
use crate::status::POLYCHIP_ERROR_IO;

/// More than any struct of this library will have; a larger size was not set.
const MOST_STRUCT_BYTES: usize = 1 << 16;

/// Whether a `struct_size` is one that a caller of this version, or a later one, sets.
pub(crate) fn size<T>(struct_size: u32, name: &str) -> Result<()> {
    let own = size_of::<T>();
    let given = struct_size as usize;
    if (own..=MOST_STRUCT_BYTES).contains(&given) {
        return Ok(());
    }
    Err(Failure::argument(format!(
        "struct_size of {name} is {given}: set it to sizeof(struct {name}), which is {own} in this version"
    )))
}

/// Text that ends with a zero byte.
///
/// # Safety
/// `text` is null, or points to zero-terminated text that stays unchanged for `'a`.
pub(crate) unsafe fn text<'a>(text: *const c_char, name: &str) -> Result<&'a str> {
    if text.is_null() {
        return Err(null(name));
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str()
        .map_err(|error| Failure::argument(format!("{name} is not UTF-8: {error}")))
}

/// An array; null where it has no elements.
///
/// # Safety
/// `data` is null, or points to `count` elements that stay unchanged for `'a`.
pub(crate) unsafe fn array<'a, T: Copy>(data: *const T, count: usize, name: &str) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(null(name));
    }
    if !data.is_aligned() {
        return Err(Failure::argument(format!("{name} is not aligned")));
    }
    let bytes = count.checked_mul(size_of::<T>());
    if bytes.is_none_or(|bytes| bytes > isize::MAX as usize) {
        return Err(Failure::argument(format!(
            "{name} has a count of {count} elements, which exceeds the address space"
        )));
    }
    // SAFETY: the caller's promise; the address is aligned and the length is one that a slice may have.
    Ok(unsafe { std::slice::from_raw_parts(data, count) })
}

/// A struct that begins with its size, whose size was checked.
///
/// # Safety
/// `data` is null, or points to a struct that begins with its size, is as long as that says, and does not change for `'a`.
pub(crate) unsafe fn sized<'a, T>(data: *const T, name: &str) -> Result<&'a T> {
    if data.is_null() {
        return Err(null(name));
    }
    if !data.is_aligned() {
        return Err(Failure::argument(format!("{name} is not aligned")));
    }
    // SAFETY: the caller's promise: it begins with its size.
    let struct_size = unsafe { data.cast::<u32>().read() };
    size::<T>(struct_size, name)?;
    // SAFETY: the caller's promise: it is as long as its size says, which is that of the struct at least.
    Ok(unsafe { &*data })
}

/// Duplicates the app's descriptor; the result refers to the same file.
#[cfg(unix)]
pub(crate) fn duplicated(descriptor: i32) -> Result<std::os::fd::OwnedFd> {
    use std::os::fd::{FromRawFd, OwnedFd};

    if descriptor < 0 {
        return Err(Failure::argument(format!("descriptor {descriptor} is negative")));
    }
    // SAFETY: the call takes any number, and gives a new descriptor or -1.
    let own = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 0) };
    if own < 0 {
        let error = std::io::Error::last_os_error();
        return Err(Failure::new(
            POLYCHIP_ERROR_IO,
            format!("descriptor {descriptor}: {error}"),
        ));
    }
    // SAFETY: the descriptor was made just now, and no other code has it.
    Ok(unsafe { OwnedFd::from_raw_fd(own) })
}

/// There are no descriptors here.
#[cfg(not(unix))]
pub(crate) fn duplicated(_: i32) -> Result<std::fs::File> {
    Err(Failure::argument("this system has no file descriptors"))
}

/// A place for a result.
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// # Safety
    /// `place` is null, or may be written until the call has returned.
    pub(crate) unsafe fn new(place: *mut T, name: &str) -> Result<Out<T>> {
        if place.is_null() {
            return Err(null(name));
        }
        if !place.is_aligned() {
            return Err(Failure::argument(format!("{name} is not aligned")));
        }
        Ok(Out(place))
    }

    /// As [`Out::new`]; none where the place is null.
    ///
    /// # Safety
    /// As [`Out::new`].
    pub(crate) unsafe fn optional(place: *mut T, name: &str) -> Result<Option<Out<T>>> {
        if place.is_null() {
            return Ok(None);
        }
        // SAFETY: the caller's promise.
        unsafe { Out::new(place, name) }.map(Some)
    }

    /// Writes the result.
    pub(crate) fn put(&self, value: T) {
        // SAFETY: who made this promised that the place may be written; it is aligned.
        unsafe { self.0.write(value) }
    }
}

impl<T> Out<T> {
    /// Fills a struct that begins with its size: the caller's size is checked and stays.
    ///
    /// # Safety
    /// The place holds a struct that begins with its size, and is as long as that says.
    pub(crate) unsafe fn fill(&self, name: &str, fill: impl FnOnce(&mut T)) -> Result<()> {
        // SAFETY: the caller's promise: it begins with its size.
        let struct_size = unsafe { self.0.cast::<u32>().read() };
        size::<T>(struct_size, name)?;
        // SAFETY: the caller promises that the whole struct is there, and that no other thread uses
        // it during the call.
        fill(unsafe { &mut *self.0 });
        Ok(())
    }
}

/// A pointer that must not be null is.
pub(crate) fn null(name: &str) -> Failure {
    Failure::argument(format!("{name} is null"))
}

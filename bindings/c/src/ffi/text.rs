//! Texts made by the library.

#![allow(unsafe_code)]

use std::ffi::c_char;

use crate::entry::entry;
use crate::failure::polychip_failure;
use crate::handle::Object;
use crate::read::Out;
use crate::status::polychip_status_t;
use crate::text::Text;

/// A text made by the library, such as a report or a list.
pub type polychip_text_t = u64;

/// Returns the text as UTF-8 with a terminating zero byte. It is valid until the text is destroyed.
/// `out_bytes`, if not null, receives its length without the zero byte. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_text_get(
    text: polychip_text_t,
    out_text: *mut *const c_char,
    out_bytes: *mut u64,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    let call = || {
        // SAFETY: the caller's promise, rules 3 and 4 of the header.
        let place = unsafe { Out::new(out_text, "out_text") }?;
        // SAFETY: as above.
        let length = unsafe { Out::optional(out_bytes, "out_bytes") }?;
        let text = Text::of(text)?;
        place.put(text.0.as_ptr());
        if let Some(length) = length {
            length.put(text.0.as_bytes().len() as u64);
        }
        Ok(())
    };
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { entry(failure, call) }
}

/// Destroys a text. Accepts 0. Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polychip_text_destroy(
    text: polychip_text_t,
    failure: *mut polychip_failure,
) -> polychip_status_t {
    // SAFETY: the caller's promise, rule 2 of the header.
    unsafe { super::destroy::<Text>(text, failure) }
}

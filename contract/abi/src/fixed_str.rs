//! Text in the fixed-size fields of records.
//!
//! Invariant: no field ends with part of a character, whichever side cut the text.

use std::borrow::Cow;

/// Copies as much of a text into a field as fits, and returns the bytes in use.
pub(crate) fn put(text: &str, field: &mut [u8]) -> u32 {
    let mut len = text.len().min(field.len());
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    field[..len].copy_from_slice(&text.as_bytes()[..len]);
    len as u32
}

/// Returns the text of a field. Drops a character that is torn at the end and replaces bytes that
/// are not UTF-8.
pub(crate) fn read(field: &[u8], len: u32) -> Cow<'_, str> {
    let bytes = &field[..field.len().min(len as usize)];
    match std::str::from_utf8(bytes) {
        // the last bytes begin a character that does not end
        Err(error) if error.error_len().is_none() => String::from_utf8_lossy(&bytes[..error.valid_up_to()]),
        _ => String::from_utf8_lossy(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_between_characters() {
        let mut field = [0; 5];
        let len = put("a\u{e9}\u{e9}\u{e9}", &mut field);
        assert_eq!((len, read(&field, len).as_ref()), (5, "a\u{e9}\u{e9}"));
        let len = put("\u{e9}\u{e9}\u{e9}", &mut field);
        assert_eq!((len, read(&field, len).as_ref()), (4, "\u{e9}\u{e9}"));
    }

    #[test]
    fn torn_last_character_is_dropped() {
        let field = "a\u{e9}\u{20ac}".as_bytes();
        assert_eq!(read(&field[..2], 2), "a");
        assert_eq!(read(field, 5), "a\u{e9}");
        assert_eq!(read(field, 99), "a\u{e9}\u{20ac}");
        assert_eq!(read(b"a\xffb", 3), "a\u{fffd}b");
    }
}

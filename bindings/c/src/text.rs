//! Text of the library's, as long as its handle lives.

use std::ffi::CString;
use std::fmt::Display;

use crate::failure::{Failure, Result};
use crate::handle::{Kind, Object, Table};
use crate::status::POLYCHIP_ERROR_INTERNAL;

/// Text for people.
pub const POLYCHIP_FORMAT_TEXT: u32 = 0;
/// JSON.
pub const POLYCHIP_FORMAT_JSON: u32 = 1;

/// Text that ends with a zero byte.
pub(crate) struct Text(pub(crate) CString);

impl Text {
    pub(crate) fn new(text: &str) -> Text {
        Text(c_text(text))
    }

    /// What was written as JSON.
    pub(crate) fn json(written: serde_json::Result<String>) -> Result<Text> {
        let failed = |error| Failure::new(POLYCHIP_ERROR_INTERNAL, format!("as JSON: {error}"));
        written.map(|text| Text::new(&text)).map_err(failed)
    }
}

/// Something in the format of a POLYCHIP_FORMAT_*.
pub(crate) fn formatted<T: Display>(
    format: u32,
    thing: &T,
    json: impl FnOnce(&T) -> serde_json::Result<String>,
) -> Result<Text> {
    match format {
        POLYCHIP_FORMAT_TEXT => Ok(Text::new(&thing.to_string())),
        POLYCHIP_FORMAT_JSON => Text::json(json(thing)),
        other => Err(Failure::argument(format!(
            "format {other} is not a POLYCHIP_FORMAT_* value"
        ))),
    }
}

impl Object for Text {
    fn table() -> &'static Table<Text> {
        static TABLE: Table<Text> = Table::new(Kind::Text);
        &TABLE
    }
}

/// Text for C; a zero inside, which would end it there, becomes a space.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).expect("invariant: no zero is left")
}

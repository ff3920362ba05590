//! Text of the library's, as long as its handle lives.

use std::ffi::CString;

use crate::handle::{Kind, Object, Table};

/// Text that ends with a zero byte.
pub(crate) struct Text(pub(crate) CString);

impl Text {
    pub(crate) fn new(text: &str) -> Text {
        Text(c_text(text))
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

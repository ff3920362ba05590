//! The kinds of messages: their first byte.

pub(crate) const TEMPLATE: u8 = b'T';
pub(crate) const VOCABULARY: u8 = b'V';
pub(crate) const SCHEMA: u8 = b'J';
pub(crate) const LARK: u8 = b'L';
/// Begins an answer, gives it a token, ends it.
pub(crate) const BEGIN: u8 = b'B';
pub(crate) const TOKEN: u8 = b'K';
pub(crate) const END: u8 = b'E';
/// Forgets the grammar.
pub(crate) const RESET: u8 = b'R';
/// Reply: what was asked for.
pub(crate) const DONE: u8 = b'd';
/// Reply: why it cannot be done.
pub(crate) const REFUSED: u8 = b'r';
/// Reply to a token: whether the answer is complete.
pub(crate) const TAKEN: u8 = b't';
/// Reply to a token: the tokens that may follow.
pub(crate) const MASK: u8 = b'm';
/// Reply to a token: why the answer cannot continue.
pub(crate) const FAILED: u8 = b'f';

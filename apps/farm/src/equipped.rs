//! A board and the files that it is given.

use crate::blob::Blob;
use crate::inventory::Member;

/// A board with what it needs.
#[derive(Debug, Clone)]
pub struct Equipped {
    /// The board.
    pub member: Member,
    /// Its runner.
    pub runner: Blob,
    /// Its conformance suite.
    pub conform: Option<Blob>,
    /// Its plugin libraries.
    pub plugins: Vec<Blob>,
}

//! Events of a run, for observers.
//!
//! Invariant: an event borrows from the run; an observer copies what it keeps.

use std::time::Duration;

use polychip_farm_record::{Item, Record};

use crate::blob::Blob;
use crate::dispatch::Next;
use crate::transport::Counter;

/// An event of a run, for observers.
#[derive(Debug)]
#[non_exhaustive]
pub enum News<'a> {
    /// A record came.
    Recorded {
        /// It.
        record: &'a Record,
        /// What becomes of its item.
        next: Next,
    },
    /// A try failed, and there will be another.
    Trouble {
        /// The board.
        place: &'a str,
        /// Why.
        words: &'a str,
    },
    /// A file is about to be sent to a board.
    Sending {
        /// The board.
        place: &'a str,
        /// The file.
        blob: &'a Blob,
        /// Bytes that have left this host.
        sent: &'a Counter,
    },
    /// A board has all files that its items need, or a transfer failed.
    Sent {
        /// The board.
        place: &'a str,
    },
    /// A board waits, before an item, until it may be measured on.
    Waiting {
        /// The board.
        place: &'a str,
        /// The item.
        item: &'a Item,
        /// Why it may not be measured on now.
        words: &'a str,
        /// Longest wait; then the item is skipped.
        longest: Duration,
    },
    /// A board is lost for this run.
    Lost {
        /// The board.
        place: &'a str,
        /// Why.
        words: &'a str,
        /// Items that end with it: no other board may do them.
        given_up: usize,
    },
}

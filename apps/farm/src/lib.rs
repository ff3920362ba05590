//! Runs items on the boards of a device farm: reaches boards, sends them what they lack, hands out items, keeps what
//! they record.
//!
//! Invariants:
//! 1. A record that reached the host is on its disk before anything else happens with its item.
//! 2. A file is on a board whole and under the name of its contents, or not at all.
//! 3. A board does one thing at a time, whoever asks.
//!
//! Not here: measuring (`apps/farm/runner`), what is recorded (`apps/farm/record`), merging and comparing what was recorded.
//! Start reading at [`drive`].

#![forbid(unsafe_code)]

mod blob;
mod clock;
mod dispatch;
mod drive;
mod hold;
pub mod inventory;
pub mod labgrid;
pub mod lock;
mod run_folder;
pub mod transport;
pub mod upload;

pub use blob::Blob;
pub use clock::{Clock, Presence};
pub use dispatch::{BoardIndex, Dispatch, ItemIndex, Next};
pub use drive::{Equipped, News, Settings, Summary, drive};
pub use run_folder::{RunError, RunFolder};

//! Runs items on the boards of a device farm: connects to boards, sends missing files, assigns items, and stores
//! records.
//!
//! Invariants:
//! 1. A received record is on the host's disk before anything else happens with its item.
//! 2. A file is on a board completely and under the name of its contents, or not at all.
//! 3. A board does one thing at a time.
//!
//! Not here: measuring (`apps/farm/runner`), records (`apps/farm/record`), merging and comparing results (`apps/farm/results`).
//! Start reading at [`drive`].

#![forbid(unsafe_code)]

pub mod alternation;
mod blob;
mod clean;
mod clock;
mod dispatch;
mod drive;
mod equipped;
mod hold;
pub mod inventory;
pub mod labgrid;
pub mod lock;
pub mod model_list;
mod news;
mod run_folder;
mod survey;
pub mod transport;
pub mod upload;

pub use blob::Blob;
pub use clean::clean;
pub use clock::{Clock, Presence};
pub use dispatch::{BoardIndex, Dispatch, ItemIndex, Next};
pub use drive::{Settings, Summary, drive};
pub use equipped::Equipped;
pub use news::News;
pub use run_folder::{RunError, RunFolder};
pub use survey::{CLOCK_S, Facts, Survey, survey};

//! What a farm records: one [`Record`] per item (a model or op, on one device of one board, under stated settings).
//!
//! A run of a farm is one folder, which the runner on a board and the driver on the host both write in the same form:
//!
//! ```text
//! RUN/run.json                      a RunHeader: what was asked for, of which boards
//! RUN/records/PLACE.jsonl           a Record a line, in the order of measuring; appended and synced, never rewritten
//! RUN/profiles/PLACE.profile        the profile database of the place: rows of parts, as `polychip profile` writes it
//! ```
//!
//! Invariants:
//! 1. A line is whole or absent: a runner killed while it writes loses the item that it was on, no other
//!    ([`read_lines`] skips a torn last line and says so).
//! 2. What a board does not say is absent; nothing is made up.
//! 3. A record of an emulated board or device says so ([`Board::emulated`]).
//!
//! Not here: measuring (`apps/farm/runner`), where the files go (`farm`). Nothing here reads a file, clock or sensor.

#![forbid(unsafe_code)]

mod assignment;
mod item;
mod lines;
mod outcome;
mod place;
mod record;
mod state;

pub use assignment::{Assignment, Effort, Limits, PluginFile};
pub use item::{Item, Job, Model, Settings};
pub use lines::{Lines, LinesError, read_lines};
pub use outcome::{EnergyOutcome, Failure, Measured, Outcome, PlannedPart, RefusedOps, SoakWindow};
pub use place::{Board, Build, Place};
pub use record::{FORMAT, Record, RunHeader, Wanted};
pub use state::State;

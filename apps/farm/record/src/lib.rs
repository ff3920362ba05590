//! Records of a farm: one [`Record`] per item (a model or op, on one device of one board, under stated settings).
//!
//! A farm run is one folder, which the runner on a board and the driver on the host write in the same form:
//!
//! ```text
//! RUN/run.json                      a RunHeader: what was asked for, of which boards
//! RUN/records/PLACE.jsonl           a Record a line, in the order of measuring; appended and synced, never rewritten
//! RUN/profiles/PLACE.profile        the profile database of the place: rows of parts, as `polychip profile` writes it
//! ```
//!
//! Invariants:
//! 1. A line is complete or absent: a runner killed while writing loses only its current item ([`read_lines`] skips
//!    and reports a truncated last line).
//! 2. A value that a board does not report is absent; nothing is invented.
//! 3. A record of an emulated board or device is marked ([`Board::emulated`]).
//!
//! Not here: measuring (`apps/farm/runner`), file locations (`farm`). Nothing here reads a file, clock or sensor.

#![forbid(unsafe_code)]

mod assignment;
mod item;
mod lines;
mod outcome;
mod place;
mod printable;
mod record;
mod state;

pub use assignment::{Assignment, Effort, Limits, PluginFile, Waiting};
pub use item::{InputFile, Item, Job, Model, Settings};
pub use lines::{Lines, LinesError, read_lines};
pub use outcome::{EnergyOutcome, Failure, Measured, Outcome, PlannedPart, RefusedOps, SoakWindow};
pub use place::{Board, Build, InventoryEntry};
pub use printable::printable;
pub use record::{Equipment, FORMAT, Record, RunHeader, Unchanged, Wanted};
pub use state::State;

//! What is known of devices from measuring them: the profile database, which of its rows hold now, and what they predict
//! of parts that nobody measured.
//!
//! [`Profile`] is one file that an app may ship, a SQLite database (feature `sqlite`), or memory. Its rows are keyed by device identity, structure of the part and
//! operating point ([`PartKey`]); [`Conditions`], of which one is the [`Cadence`], choose among the batches of a row. [`predict`] composes what was
//! measured into times of other parts. Runs of nodes that a device refused are in the same file ([`refusal`]). What a farm
//! measured comes to an app as a signed file ([`bundle`]).
//!
//! Invariants:
//! 1. Nothing here calls a device, starts a thread or reads a sensor; devices are known by the text of their identity.
//!    It reads and writes the database's file, and the wall clock where a row says when it was recorded.
//! 2. The same rows give the same figures, on every host, wherever they are kept.
//!
//! Allowed dependencies: the partitioner's plain types (times, costs, targets), `ops`, and `graph`, because a part is
//! known by the structure of its graph and consists of what its graph does. Not here: measuring (the scheduler).
//! Start reading at [`Profile`], then `rows`, then [`predict`].

#![forbid(unsafe_code)]

pub mod bundle;
mod cadence;
mod conditions;
mod database;
mod diff;
mod error;
pub mod extract;
mod hex;
mod key;
mod link;
mod list;
mod memory;
mod narrow;
mod near_matches;
mod power;
pub mod predict;
mod record;
pub mod refusal;
mod rows;
#[cfg(feature = "sqlite")]
mod sqlite;
mod statistics;
pub mod work;

pub use cadence::{Cadence, NoCadence, PeriodClass};
pub use conditions::Conditions;
pub use database::{Profile, Summary};
pub use diff::{Change, ProfileDiff};
pub use error::{Error, ErrorKind, Result};
pub use hex::{hex, unhex};
pub use key::{KEPT, Measurement, PartKey};
pub use link::LinkCost;
pub use list::PartSummary;
pub use near_matches::{Difference, NearMatch};
pub use power::DrawnPower;
pub use record::{
    BatchRecord, ContentRecord, LinkRecord, Merged, PartRecord, ProfileFile, RefusalRecord, ValueRecord,
};
pub use refusal::RefusedRun;
pub use statistics::{Interval, MeasuredEnergy, median_interval};

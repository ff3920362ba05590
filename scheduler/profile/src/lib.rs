//! Measurements of devices: the profile database, selection of its rows for the current conditions,
//! and predictions for unmeasured parts.
//!
//! [`Profile`] is one file that an app may ship, a SQLite database (feature `sqlite`), or memory.
//! Its rows are keyed by device identity, part structure and operating point ([`PartKey`]);
//! [`Conditions`], including the [`Cadence`], select among the batches of a row. [`predict`]
//! composes measurements into times of other parts. The file also holds runs of nodes that a device
//! refused ([`refusal`]). Farm measurements reach an app as a signed file ([`bundle`]).
//!
//! Invariants:
//! 1. Nothing here calls a device, starts a thread or reads a sensor; devices are known by the text
//!    of their identity. It reads and writes the database's file, and reads the wall clock to date
//!    a row.
//! 2. The same rows give the same figures on every host and in every storage.
//!
//! Allowed dependencies: the partitioner's plain types (times, costs, targets), `ops`, and `graph`,
//! because the structure of a part's graph identifies it. Not here: measuring (the scheduler).
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
pub use statistics::{Interval, MeasuredEnergy, median, median_interval, percentile};

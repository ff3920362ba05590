//! Results of farm runs: reading, merging, comparing and reporting.
//!
//! [`Run::read`] reads the folder of a run (format: [`polychip_farm_record`]), and [`Selection`]
//! chooses the records to compare. [`compare()`] decides for each item and board type whether it
//! became slower, [`Report`] shows the results, and [`bundle`] makes of them what ships with an
//! app.
//!
//! Invariants:
//! 1. Every figure states its runs, places and builds.
//! 2. Gaps are reported: truncated lines, items without a result, boards that never answered.
//! 3. Times of emulated boards or devices are labelled, and never compared with others.
//! 4. The same folders give the same answer, byte for byte, on every host.
//!
//! Not here: measuring (`apps/farm/runner`), scheduling boards (`farm`). No device and no clock. Start reading at [`Run`],
//! then [`compare()`].

#![forbid(unsafe_code)]

mod batch;
pub mod bundle;
pub mod compare;
mod earlier;
mod error;
mod kind;
pub mod report;
mod run;
mod selection;
mod statistics;

pub use compare::{Comparison, compare};
pub use earlier::Earlier;
pub use error::{Error, ErrorKind, Result};
pub use kind::Kind;
pub use report::Report;
pub use run::{Missing, Run, Silent, Torn};
pub use selection::{Selection, Source, is_of};

//! The suite that tests any plugin, using only its shared library.
//!
//! Invariants:
//! 1. The process that reports never loads the plugin: cases run in child processes, so that a crash or a
//!    hang is a failed case and not the end of the suite.
//! 2. Expected values come from the scalar reference, tolerances from one table (`tolerances.toml`).
//! 3. A case without a check is skipped or refused with the reason, never passed.
//!
//! Not here: whole models (`device-tests`), speed.
//! Start reading at [`run::run`] and [`groups::cases`].

#![deny(unsafe_code)]

pub mod bench;
pub mod carrier;
pub mod case;
pub mod child;
pub mod groups;
pub mod ops;
pub mod plugin;
pub mod problem;
pub mod report;
pub mod run;
pub mod tolerance;
pub mod value;
pub mod verdict;

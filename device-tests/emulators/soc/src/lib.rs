//! An emulated SoC of the phone class: CPU clusters, a GPU and an NPU on one package, on virtual time.
//!
//! - [`table`] describes units, board and throttling, with the origin of each figure.
//! - [`chip`] is the physics: levels of clock and voltage, power, heat, the SoC's own throttling.
//! - [`emulated`] places the chip in the surroundings of a [`scenario`].
//! - [`plugin`] offers its units as devices, and [`tree`] its sensors as files.
//! - [`live`] is an app with a governed session, frame by frame.
//! - [`fixed`] runs a plan of the session without a governor.
//!
//! All figures are emulated.
//!
//! Invariants:
//! 1. Time is virtual: no clock is read, and the same table, seed and options give the same
//!    figures.
//! 2. The session is the one that apps use. It sees only fences, errors and sensors, never the
//!    chip.
//!
//! Not here: plans, sensors' reading, the governor (`scheduler`).
//! Start reading at [`table`], then [`chip`], [`emulated`], [`live`].

#![forbid(unsafe_code)]

pub mod chip;
pub mod emulated;
pub mod fixed;
mod heat;
pub mod live;
pub mod network;
pub mod outcome;
pub mod plugin;
pub mod scenario;
pub mod setting;
pub mod study;
pub mod table;
pub mod tree;

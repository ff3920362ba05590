//! An emulated SoC of the phone class: CPU clusters, a GPU and an NPU on one package, on virtual time.
//!
//! A [`table`] describes units, board and throttling, with the origin of each figure. [`chip`] is the physics: levels
//! of clock and voltage, power, heat, the SoC's own throttling. [`emulated`] puts it into a [`scenario`]'s surroundings,
//! [`plugin`] shows it as devices and [`tree`] as the files of sensors. [`live`] is an app with a governed session on that,
//! frame by frame; [`fixed`] are the session's plans run by themselves. Everything it says is emulated.
//!
//! Invariants:
//! 1. Virtual time: no clock is read, and the same table, seed and options give the same figures.
//! 2. What decides is the session that apps use, which sees what fences, errors and sensors say, never the chip.
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

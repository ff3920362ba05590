//! An emulated SoC of the phone class: CPU clusters, a GPU and an NPU on one package, on virtual time.
//!
//! A [`table`] says what units, board and links are, and where each figure comes from. [`chip`] is the physics: levels
//! of clock and voltage, power, heat, the SoC's own throttling. [`plans`] lets the real planner make plans of a real
//! network on that table; [`drive`] runs frames of an app by them through a [`scenario`], under a governor or under
//! none, step by step of a frame. [`plugin`] puts the same chip behind real devices, for a session. Everything it says is
//! emulated.
//!
//! Invariants:
//! 1. Virtual time: no clock is read, and the same table, seed and rule give the same figures.
//! 2. A governor sees what sensors say, never the chip.
//!
//! Not here: the governor (`scheduler`).
//! Start reading at [`table`], then [`chip`].

#![forbid(unsafe_code)]

pub mod chip;
pub mod demand;
pub mod drive;
mod heat;
pub mod network;
pub mod plans;
pub mod plugin;
pub mod scenario;
pub mod study;
pub mod table;

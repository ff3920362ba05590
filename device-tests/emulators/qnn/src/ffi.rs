//! The C side: every call of the table, and the exported symbols.
//!
//! Invariants:
//! 1. Nothing unwinds into the client: a panic is a general error.
//! 2. Outputs are written on success only.
//! 3. Raw pointers stop here: the rest of the crate sees owned values.
//!
//! Not here: what a call means (`world`, `plan`, `support`).

mod context;
mod device;
mod graph;
mod guard;
mod log;
mod memory;
mod observe;
mod read;
mod table;

pub use table::{
    QnnInterface_getProviders, polychip_emulates_qnn, polychip_emulator_qnn_addressed,
    polychip_emulator_qnn_corner, polychip_emulator_qnn_faults, polychip_emulator_qnn_live,
};

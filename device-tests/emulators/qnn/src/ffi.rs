//! The C interface: every call of the table, and the exported symbols.
//!
//! Invariants:
//! 1. Nothing unwinds into the client: a panic becomes a general error.
//! 2. Outputs are written only on success.
//! 3. Only this module uses raw pointers; the rest of the crate uses owned values.
//!
//! Not here: the effect of a call (`world`, `plan`, `support`).

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

//! The QNN plugin against the QNN emulator, through the host: each kind of node beside the CPU plugin, networks,
//! refusals, blobs, chips, resets, and the table of what is supported.
//!
//! Everything here is computed by an emulator: no figure of time or energy is read.
//!
//! Not here: what every plugin owes the contract (the conformance suite), the vendor's own library.

mod cases;
mod device;
mod kinds;
mod net;
mod parts;
mod random;
mod table;

//! Rockchip's NPU runtime and toolkit, emulated: the vendor's layouts and codes, and right answers in 16-bit floats.
//!
//! The toolkit is a program (`rknn-toolkit-emulated`) that speaks the plugin's JSON and writes files of its own form behind
//! the vendor's mark; the runtime reads those, never a vendor's. Its two libraries, which export these calls by the
//! vendor's names, are `emulators/rknnrt` (a board's) and `emulators/rknn_api` (with a board connected).
//!
//! Invariants:
//! 1. Nothing here is shipped. Each library has the symbol `polychip_emulates_rknn`, which no vendor's has.
//! 2. Tensors are rounded to 16-bit floats wherever a node writes one; answers are the oracle's else.
//! 3. Calls copy what they are given, or use it as long as the vendor's would.
//!
//! `POLYCHIP_RKNN_FAULTS` and `POLYCHIP_RKNN_TOOLKIT_FAULTS` hold rules of faults; `POLYCHIP_RKNN_INCOHERENT=1` gives the
//! chip a view of memory of its own, which only `rknn_mem_sync` and the runtime's own maintenance bring together with the
//! processor's; `POLYCHIP_RKNN_BOARD=none` takes the board away.
//!
//! Not here: how the chip orders channels, integers (the plugin asks for neither).
//! Start reading at [`ffi`] for the runtime, at [`compile`] for the toolkit.

#![deny(unsafe_code)]

mod board;
pub mod compile;
mod context;
pub mod ffi;
mod memories;
mod memory;
mod world;

#[doc(hidden)]
pub use polychip_sys::rknn::bindings as rk;

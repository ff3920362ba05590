//! An emulator of Rockchip's NPU runtime and toolkit. It has the vendor's layouts and codes, and
//! computes correct outputs in 16-bit floats.
//!
//! The toolkit is a program (`rknn-toolkit-emulated`) that reads the plugin's JSON. Its files have
//! the vendor's magic number and our own format. The runtime reads only these. Two libraries export
//! the calls under the vendor's names: `emulators/rknnrt` (on a board) and `emulators/rknn_api`
//! (with a connected board).
//!
//! Invariants:
//! 1. Nothing here is shipped. Each library has the symbol `polychip_emulates_rknn`, which no
//!    vendor's library has.
//! 2. Every tensor that a node writes is rounded to 16-bit floats; apart from that, outputs are
//!    those of the scalar reference.
//! 3. A call copies its arguments, or uses them as long as the vendor's call would.
//!
//! Environment variables:
//!
//! - `POLYCHIP_RKNN_FAULTS` and `POLYCHIP_RKNN_TOOLKIT_FAULTS` hold fault rules.
//! - `POLYCHIP_RKNN_INCOHERENT=1` makes the chip incoherent: it has its own view of memory, which
//!   only `rknn_mem_sync` and the runtime's cache maintenance synchronise with the CPU's.
//! - `POLYCHIP_RKNN_BOARD=none` removes the board.
//!
//! Not here: the chip's order of channels and its integers, which the plugin does not request.
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

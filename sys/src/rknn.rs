//! Rockchip's NPU runtime: the C library on the board, and the one that forwards to a connected
//! board.
//!
//! Invariant: names, layouts and codes are those of release 2.3.2 on 64-bit machines. Functions
//! that older or smaller libraries lack are optional.
//!
//! Not here: the compiler (`rknn-toolkit2`, a separate program), matrix products, custom ops. Start
//! reading at [`Library`].

#[allow(
    unsafe_code,
    missing_docs,
    unused,
    non_camel_case_types,
    non_snake_case,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    reason = "generated"
)]
pub mod bindings;
mod library;

pub use library::{BOARD_FILE, HOST_FILE, Library};

//! The C library `libpolychip`: the runtime for programs in C and C++, and what all other languages stand on.
//!
//! The header is `include/polychip.h`, made of this crate by cbindgen (`cargo xtask header`); docs/c.md is its guide.
//!
//! Invariants:
//! 1. Nothing unwinds into C: every entry catches what panics, and says so with a status.
//! 2. Bad input is a status with words, never a crash: null, sizes, strings that are not UTF-8, handles that were
//!    destroyed, never made or of another kind.
//! 3. Handles are numbers with a generation (`handle`); no pointer of ours is taken back from C.
//! 4. No lock is held while a callback is called.
//!
//! Depends on: `polychip` alone. Not here: what a call does (package `polychip`).
//! Start reading at `entry.rs`, then `ffi.rs`.

#![deny(unsafe_code)]

mod completion;
mod entry;
mod failure;
mod ffi;
mod fork;
mod handle;
mod log;
mod model;
mod plan;
mod port;
mod read;
mod run;
mod runtime;
mod session;
mod status;
mod tensor;
mod text;

pub use failure::{POLYCHIP_FAILURE_DEVICE_BYTES, POLYCHIP_FAILURE_MESSAGE_BYTES, polychip_failure};
pub use ffi::{
    admission::*, dtype::*, governed::*, logging::*, measure::*, model::*, plan::*, policy::*, run::*,
    runtime::*, session::*, tensor::*, text::*, version::*,
};
pub use log::{
    POLYCHIP_LOG_DEBUG, POLYCHIP_LOG_ERROR, POLYCHIP_LOG_INFO, POLYCHIP_LOG_OFF, POLYCHIP_LOG_TRACE,
    POLYCHIP_LOG_WARN,
};
pub use status::*;
pub use text::{POLYCHIP_FORMAT_JSON, POLYCHIP_FORMAT_TEXT};

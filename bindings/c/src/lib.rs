//! The C library `libpolychip`: the runtime for C and C++ programs, and the basis of bindings for
//! other languages.
//!
//! cbindgen generates the header `include/polychip.h` from this crate (`cargo xtask header`). The
//! guide is docs/c.md.
//!
//! Invariants:
//! 1. Nothing unwinds into C: every entry catches panics and returns a status instead.
//! 2. Bad input yields a status with a message, never a crash: null, sizes, strings that are not
//!    UTF-8, handles that were destroyed, never made or of another kind.
//! 3. Handles are numbers with a generation (`handle`); no pointer from C is converted back to an
//!    object.
//! 4. No lock is held while a callback is called.
//!
//! Depends on: `polychip` alone. Not here: the behaviour of a call (package `polychip`). Start
//! reading at `entry.rs`, then `ffi.rs`.

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

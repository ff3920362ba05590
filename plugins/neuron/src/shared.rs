//! State that a device shares with its parts and buffers.

use std::sync::atomic::{AtomicU8, AtomicU64};

use crate::api::Api;

/// The device, shared by everything made on it.
pub(crate) struct Shared {
    pub(crate) api: Api,
    /// Incremented by a reset, which invalidates parts loaded before.
    pub(crate) epoch: AtomicU64,
    /// Boost hint of runs; [`NO_BOOST`]: none.
    pub(crate) boost: AtomicU8,
}

/// No hint: the library decides.
pub(crate) const NO_BOOST: u8 = u8::MAX;

//! What the parts and buffers of a device share with it.

use std::sync::atomic::{AtomicU8, AtomicU64};

use crate::api::Api;

/// The device, beneath everything made of it.
pub(crate) struct Shared {
    pub(crate) api: Api,
    /// Raised by a reset: parts loaded before are void.
    pub(crate) epoch: AtomicU64,
    /// What runs are told as boost hint; [`NO_BOOST`] tells nothing.
    pub(crate) boost: AtomicU8,
}

/// No hint: the library decides.
pub(crate) const NO_BOOST: u8 = u8::MAX;

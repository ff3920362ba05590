//! The open device behind everything that is made on it: its table, its losses and resets.
//!
//! Invariants:
//! 1. The device is closed after everything made on it, because everything holds it.
//! 2. A loss before the last reset has no effect.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use polychip_abi as abi;

use crate::device_info::DeviceInfo;
use crate::error::{Error, ErrorKind, Result};
use crate::instance::Instance;
use crate::open_calls::Mark;

/// The device behind everything that is made on it.
pub(crate) struct Open {
    pub(crate) instance: Arc<Instance>,
    pub(crate) raw: *mut abi::polychip_device,
    pub(crate) name: String,
    pub(crate) info: DeviceInfo,
    /// Number of resets so far. `lost` is one more than the number of resets at which the device
    /// was last seen to be lost or hung; the device is lost while `lost` is above `resets`. A late
    /// report of a loss that a reset has ended therefore has no effect.
    pub(crate) resets: AtomicU64,
    pub(crate) lost: AtomicU64,
    /// Value of `resets` after the reset that was begun last.
    pub(crate) begun: AtomicU64,
    /// The device's message when it was last lost.
    pub(crate) words: Mutex<String>,
    /// Serialises resets.
    pub(crate) resetting: Mutex<()>,
    /// Whether a thread is in `execute`.
    pub(crate) executing: Arc<Mark>,
    /// Quantities of which an impossible reading was reported, as bits `POLYCHIP_TELEMETRY_*`.
    pub(crate) doubted: AtomicU32,
}

// SAFETY: the contract allows calls on a device from any thread; those that this crate makes at once
// from several threads (support, estimate, compile, load, buffers, operating points, information,
// telemetry) are stated thread-safe, and `device_reset` needs `&mut`-like care that its caller has by resetting only a quarantined device.
unsafe impl Send for Open {}
// SAFETY: as above.
unsafe impl Sync for Open {}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(close) = self.instance.table.device_close {
            // SAFETY: the device came from this table's `device_open`; all that was made on it is gone.
            unsafe { close(self.raw) };
        }
    }
}

impl Open {
    /// The table, for a call that follows.
    #[track_caller]
    pub(crate) fn table(&self) -> &abi::polychip_plugin_table {
        crate::checked_lock::assert_none_held("a plugin");
        &self.instance.table
    }

    /// The table, to see what the plugin offers.
    pub(crate) fn offers(&self) -> &abi::polychip_plugin_table {
        &self.instance.table
    }

    /// Converts a status to a result, and records a lost device.
    pub(crate) fn check(&self, call: &str, status: u32, record: &abi::polychip_error) -> Result<()> {
        self.check_since(self.resets.load(Ordering::Acquire), call, status, record)
    }

    /// As [`Open::check`], for an object made after `resets` resets.
    pub(crate) fn check_since(
        &self,
        resets: u64,
        call: &str,
        status: u32,
        record: &abi::polychip_error,
    ) -> Result<()> {
        if status == abi::POLYCHIP_STATUS_OK {
            return Ok(());
        }
        let error = Error::of_call(&self.name, call, status, record);
        if status == abi::POLYCHIP_STATUS_DEVICE_LOST {
            self.lose(resets, error.message());
        }
        Err(error)
    }

    /// Records a loss seen by an object made after `resets` resets.
    fn lose(&self, resets: u64, words: &str) {
        if self.lost.fetch_max(resets + 1, Ordering::AcqRel) <= resets {
            let mut kept = self.words.lock().unwrap_or_else(PoisonError::into_inner);
            words.clone_into(&mut kept);
        }
    }

    /// Quarantines the device after an abandoned run: the device may still write.
    pub(crate) fn quarantine_after_hang(&self) {
        self.lose(self.resets.load(Ordering::Acquire), "a run did not end");
    }

    /// Whether a reset was begun after the first `resets`.
    pub(crate) fn was_reset_since(&self, resets: u64) -> bool {
        self.begun.load(Ordering::Acquire) > resets
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire) > self.resets.load(Ordering::Acquire)
    }

    /// Returns an error if the device is lost or quarantined.
    pub(crate) fn usable(&self) -> Result<()> {
        if self.is_lost() {
            let words = self.words.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let until = if self.table().device_reset.is_some() {
                "not used until it is reset"
            } else {
                "not used any more, as its plugin offers no reset"
            };
            return Err(Error::new(
                ErrorKind::DeviceLost,
                &self.name,
                format!("{until}: {words}"),
            ));
        }
        Ok(())
    }
}

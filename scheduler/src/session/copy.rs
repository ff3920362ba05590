//! The explicit copy: the only way bytes move between devices that share no memory. Every one is counted, and so
//! are the bytes that devices share instead.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use polychip_host::{Access, Buffer};

use crate::error::{Error, Result, kind_of_host};

/// Bytes that the runs of a plan copied between devices, and bytes that its devices shared.
#[derive(Debug, Default)]
pub(crate) struct Copied {
    copies: AtomicU64,
    bytes: AtomicU64,
    /// What plugins say that they copied for their runs.
    in_devices: AtomicU64,
    shared: AtomicU64,
}

impl Copied {
    pub(crate) fn add(&self, bytes: u64) {
        self.copies.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_in_device(&self, bytes: u64) {
        if bytes > 0 {
            self.in_devices.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Counts tensors that other devices read where a part wrote them.
    pub(crate) fn add_shared(&self, bytes: u64) {
        if bytes > 0 {
            self.shared.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    pub(crate) fn shared_bytes(&self) -> u64 {
        self.shared.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes_in_devices(&self) -> u64 {
        self.in_devices.load(Ordering::Relaxed)
    }

    pub(crate) fn copies(&self) -> u64 {
        self.copies.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// A copy of a tensor from one device's buffer to another's.
#[derive(Debug, Clone)]
pub(crate) struct Copy {
    /// The graph output that is copied, where it is one: another run may bind it elsewhere.
    pub(crate) output: Option<usize>,
    pub(crate) from: (Arc<Buffer>, u64),
    pub(crate) to: (Arc<Buffer>, u64),
    pub(crate) bytes: u64,
    pub(crate) counter: Arc<Copied>,
}

impl Copy {
    pub(crate) fn run(&self) -> Result<()> {
        // a device that is lost here is lost in its part, which is repeated
        let failed = |error: polychip_host::Error| {
            Error::caused(kind_of_host(error.kind()), "copying between devices", error)
        };
        let source = self
            .from
            .0
            .access(Access::Read, self.from.1, self.bytes)
            .map_err(failed)?;
        let mut target = self
            .to
            .0
            .access(Access::Write, self.to.1, self.bytes)
            .map_err(failed)?;
        target.copy_from_slice(&source);
        self.counter.add(self.bytes);
        Ok(())
    }
}

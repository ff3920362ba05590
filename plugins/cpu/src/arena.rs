//! The arena's memory; where pieces lie in it is planned by the SDK.

use polychip_cpu_kernels::AlignedVec;
use polychip_sdk::{Error, ErrorKind, Result};

/// Zeroed memory for `floats` floats; sizes come from models, so memory may not hold them.
pub(crate) fn memory(floats: usize, what: &str) -> Result<AlignedVec> {
    AlignedVec::try_zeroed(floats).ok_or_else(|| {
        let bytes = floats.saturating_mul(4);
        Error::new(
            ErrorKind::OutOfMemory,
            format!("no memory for {bytes} bytes of {what}"),
        )
    })
}

/// Alignment of every piece, in bytes: a cache line and the widest vector.
pub(crate) const ALIGN: usize = 64;

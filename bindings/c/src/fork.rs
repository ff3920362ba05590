//! Children of `fork`: they have none of the library's threads, and locks in arbitrary states.
//!
//! Invariant: a child is refused by a flag alone, without a lock.

#![allow(unsafe_code)]

use crate::failure::Result;

/// A failure where this process is a child that was forked after the library was first used.
#[cfg(unix)]
pub(crate) fn check() -> Result<()> {
    use std::sync::Once;
    use std::sync::atomic::{AtomicBool, Ordering};

    static FORKED: AtomicBool = AtomicBool::new(false);
    static WATCHED: Once = Once::new();

    extern "C" fn in_child() {
        FORKED.store(true, Ordering::Relaxed);
    }

    WATCHED.call_once(|| {
        // SAFETY: the function sets a flag, which is allowed in a child; the library is never unloaded.
        let watched = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        if watched != 0 {
            tracing::warn!("children of fork will not be told apart: pthread_atfork gave {watched}");
        }
    });
    if FORKED.load(Ordering::Relaxed) {
        return Err(crate::failure::Failure::new(
            crate::status::POLYCHIP_ERROR_FORKED,
            "this process was forked after the library was first used: its threads do not exist in the child; call exec, or fork \
             before the first call",
        ));
    }
    Ok(())
}

/// There is no fork here.
#[cfg(not(unix))]
pub(crate) fn check() -> Result<()> {
    Ok(())
}

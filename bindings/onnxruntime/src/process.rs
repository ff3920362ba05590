//! Children of `fork`: they have none of the library's threads, and locks as they happened to be.
//!
//! Invariant: a child is refused by a flag alone, without a lock.

#![allow(unsafe_code)]

use crate::failure::Result;

/// A failure where this process is a child that was forked after the library was first used.
#[cfg(unix)]
pub(crate) fn check() -> Result<()> {
    use std::sync::Once;
    use std::sync::atomic::{AtomicBool, Ordering};

    use crate::failure::Failure;

    static FORKED: AtomicBool = AtomicBool::new(false);
    static WATCHED: Once = Once::new();

    extern "C" fn in_child() {
        FORKED.store(true, Ordering::Relaxed);
    }

    WATCHED.call_once(|| {
        // SAFETY: the function sets a flag, which is allowed in a child, and the library is never unloaded (build.rs).
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    if FORKED.load(Ordering::Relaxed) {
        return Err(Failure::new(
            "this process was forked after the provider was loaded: its threads are not here; fork before, or start a \
             new process (Python: multiprocessing's \"spawn\")",
        ));
    }
    Ok(())
}

/// There is no fork here.
#[cfg(not(unix))]
pub(crate) fn check() -> Result<()> {
    Ok(())
}

//! The process that made a runtime, to detect children of `fork`.

use pyo3::PyResult;

use crate::error::ForkError;

/// A process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Process(u32);

impl Process {
    pub(crate) fn this() -> Process {
        Process(std::process::id())
    }

    /// Returns an error in a child of `fork`.
    pub(crate) fn check(self) -> PyResult<()> {
        if self.0 == std::process::id() {
            return Ok(());
        }
        Err(ForkError::new_err(
            "the runtime was made before this process was forked, and its threads do not exist in the child; make a \
             Runtime in the child, or start processes by multiprocessing's \"spawn\"",
        ))
    }
}

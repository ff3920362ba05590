//! Whether the process is the one that made a runtime.

use pyo3::PyResult;

use crate::error::ForkError;

/// The process that something was made in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Process(u32);

impl Process {
    pub(crate) fn this() -> Process {
        Process(std::process::id())
    }

    /// An error in a child of `fork`.
    pub(crate) fn check(self) -> PyResult<()> {
        if self.0 == std::process::id() {
            return Ok(());
        }
        Err(ForkError::new_err(
            "the runtime was made before this process was forked, whose child has none of its threads; make a \
             Runtime in the child, or start processes by multiprocessing's \"spawn\"",
        ))
    }
}

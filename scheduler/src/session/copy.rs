//! The explicit copy: the only way bytes move between devices that share no memory.

use std::sync::Arc;

use polychip_host::{Access, Buffer};

use crate::error::{Error, ErrorKind, Result};

/// A copy of a tensor from one device's buffer to another's.
#[derive(Debug, Clone)]
pub(crate) struct Copy {
    /// The graph output that is copied, where it is one: another run may bind it elsewhere.
    pub(crate) output: Option<usize>,
    pub(crate) from: (Arc<Buffer>, u64),
    pub(crate) to: (Arc<Buffer>, u64),
    pub(crate) bytes: u64,
}

impl Copy {
    pub(crate) fn run(&self) -> Result<()> {
        let failed = |error| Error::caused(ErrorKind::DeviceFailed, "copying between devices", error);
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
        Ok(())
    }
}

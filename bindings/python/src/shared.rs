//! The runtime, as shared by all objects made from it.

use std::sync::Arc;

use crate::fork::Process;

/// The runtime, and the process that made it.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) runtime: Arc<polychip::Runtime>,
    pub(crate) process: Process,
}

//! The runtime, as all that is made of it holds it.

use std::sync::Arc;

use crate::fork::Process;

/// The runtime, and the process that made it.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) runtime: Arc<polychip::Runtime>,
    pub(crate) process: Process,
}

//! State that a device shares with its executables, and that devices share with each other.

use std::sync::Arc;

use polychip_sys::openvino::Library;

use crate::api::Core;
use crate::cores::Cores;

/// The vendor's library and its root object.
pub(crate) struct Vendor {
    pub(crate) library: &'static Library,
    pub(crate) core: Core,
    /// Constants of this many bytes and more are handed over by address; `None` where the library cannot.
    pub(crate) by_address: Option<usize>,
}

/// State that a device shares with its executables.
pub(crate) struct Shared {
    pub(crate) vendor: Arc<Vendor>,
    /// As the library names it: `CPU`, `GPU.0`, `NPU`.
    pub(crate) name: String,
    pub(crate) is_cpu: bool,
    /// Threads of a CPU where the host leaves it to us; 0 leaves it to the library.
    pub(crate) threads: u32,
    /// Processors of a CPU that its runs are kept to.
    pub(crate) cores: Cores,
    /// Whether quantised parts are computed in integers; in floats where not.
    pub(crate) integers: bool,
    /// Identity in blobs: a blob of another library or chip is refused.
    pub(crate) made_by: String,
}

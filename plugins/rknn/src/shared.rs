//! State that a device shares with its executables and buffers.

use std::collections::BTreeMap;
use std::sync::Mutex;

use polychip_lowering::vendor_compiler::Hash;
use polychip_sdk::HostServices;

use crate::chip::Chip;
use crate::driver::Driver;
use crate::settings::Settings;
use crate::toolkit::Toolkit;

/// State that a device shares with its executables and buffers.
pub(crate) struct Shared {
    pub(crate) host: HostServices,
    pub(crate) driver: Driver,
    pub(crate) chip: Chip,
    pub(crate) settings: Settings,
    /// The compiler, or the reason why there is none.
    pub(crate) toolkit: Result<Toolkit, String>,
    /// Identity in blobs: a blob of another toolkit, chip or setting is refused.
    pub(crate) made_by: String,
    /// Nanoseconds by node and by part, as the compiler's tables gave them; none until they were asked for.
    pub(crate) costs: Mutex<Option<BTreeMap<Hash, u64>>>,
}

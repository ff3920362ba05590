//! State shared by all models and sessions of a runtime: devices, profile, and the cache of
//! compiled parts.
//!
//! Not here: its construction (`runtime`).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock};

use polychip_host::{Device, Host};
use polychip_profile::Profile;

use crate::blob_cache::BlobCache;
use crate::bundles::LoadedBundle;
use crate::device_queue::DeviceQueues;
use crate::durable::Durable;
use crate::memory_account::MemoryAccount;
use crate::memory_pressure::{OnMemoryPressure, PressureWatch};
use crate::policy::Settings;
use crate::telemetry::files::Sensors;
use crate::telemetry::sampler::Sampler;

/// Plugins with their devices, the profile and the cache.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Watches memory pressure from the first session on; ends before what it frees.
    pub(crate) pressure: OnceLock<Option<PressureWatch>>,
    pub(crate) on_memory_pressure: OnMemoryPressure,
    /// Ends before what it writes to.
    pub(crate) durable: Durable,
    pub(crate) host: Host,
    /// What sessions hold, and the limit.
    pub(crate) memory: Arc<MemoryAccount>,
    /// The queue of each device.
    pub(crate) device_queues: DeviceQueues,
    pub(crate) profile: Arc<Profile>,
    /// Bundles that were given.
    pub(crate) bundles: Vec<LoadedBundle>,
    /// Compiled parts are kept here between processes.
    pub(crate) cache: Option<BlobCache>,
    /// Linux's sensors, where the app gave them.
    pub(crate) sensors: Option<Sensors>,
    /// Calibrations tried in this process. Locked while devices are calibrated, so that none is calibrated twice.
    pub(crate) calibrating: Mutex<BTreeSet<String>>,
    /// Calibrates the devices that a session chooses between. A function pointer, because it makes
    /// sessions itself, a layer above its callers (`Runtime::calibrate_for_session`).
    pub(crate) calibrate: fn(&Arc<Shared>, &[Device], Settings),
    /// Sensors by which measured figures are chosen, found when they are first asked for.
    pub(crate) sampler: Mutex<Option<Sampler>>,
}

impl Shared {
    /// Watches memory pressure from now on, unless the app wants it ignored.
    pub(crate) fn watch_pressure(&self) {
        if self.on_memory_pressure == OnMemoryPressure::Follow {
            self.pressure
                .get_or_init(|| PressureWatch::start(&self.memory, self.host.clock()));
        }
    }
}

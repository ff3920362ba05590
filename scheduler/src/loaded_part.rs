//! A part of a plan, compiled and loaded on its device.

use bytes::Bytes;
use polychip_host::Executable;
use polychip_partitioner::DeviceIndex;

/// A part of the plan, loaded.
#[derive(Debug, Clone)]
pub(crate) struct LoadedPart {
    pub(crate) device: DeviceIndex,
    pub(crate) executable: Executable,
    /// Structure fingerprint: the key of measurements.
    pub(crate) structure: [u8; 32],
    /// The blob came from the cache, or was compiled ahead.
    pub(crate) cached: bool,
    /// Its bytes, for a device that may have to load it again after a reset.
    pub(crate) blob: Option<Bytes>,
}

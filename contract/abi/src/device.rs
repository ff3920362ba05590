//! Devices and their operating points.

use crate::sized::sized;
use crate::span::polychip_text;

/// A general-purpose processor.
pub const POLYCHIP_DEVICE_CPU: u32 = 1;
/// A graphics processor.
pub const POLYCHIP_DEVICE_GPU: u32 = 2;
/// A processor for neural networks.
pub const POLYCHIP_DEVICE_NPU: u32 = 3;
/// A digital signal processor.
pub const POLYCHIP_DEVICE_DSP: u32 = 4;

/// The device is emulated: its figures are not those of a real chip.
pub const POLYCHIP_DEVICE_EMULATED: u32 = 1;
/// Runs use imported host memory in place, without any copy.
pub const POLYCHIP_DEVICE_SHARES_HOST_MEMORY: u32 = 2;
/// Runs of the device end one after the other, in the order of their `execute` calls.
pub const POLYCHIP_DEVICE_SERIAL: u32 = 4;

/// Unknown whether a running part yields to a more urgent one.
pub const POLYCHIP_PREEMPTION_UNKNOWN: u32 = 0;
/// A running part never yields.
pub const POLYCHIP_PREEMPTION_NONE: u32 = 1;
/// A running part yields to a more urgent one between two of its commands.
pub const POLYCHIP_PREEMPTION_COMMANDS: u32 = 2;
/// A running part yields to a more urgent one at any time.
pub const POLYCHIP_PREEMPTION_ANY_TIME: u32 = 3;

/// A plugin instance.
pub struct polychip_instance {
    _private: [u8; 0],
}

/// An open device.
pub struct polychip_device {
    _private: [u8; 0],
}

/// Identity of a plugin. Texts are static.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_plugin_info {
    /// Size of this struct as the caller knows it, in bytes.
    pub struct_size: u32,
    /// Zero.
    pub flags: u32,
    /// Short name, as in `name:index`: lower-case ASCII letters, digits and `_`. Of two plugins
    /// with the same name, the host uses the one found first.
    pub name: polychip_text,
    /// Plugin version.
    pub version: polychip_text,
    /// Identifier of the build, part of every cache key. It changes with every build whose blobs or
    /// figures may differ.
    pub build_id: polychip_text,
}

/// Description of a device. Texts live as long as the device is open.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_device_info {
    /// Size of this struct as the caller knows it, in bytes.
    pub struct_size: u32,
    /// `POLYCHIP_DEVICE_CPU`, `_GPU`, `_NPU` or `_DSP`.
    pub kind: u32,
    /// Bits `POLYCHIP_DEVICE_EMULATED` and following.
    pub flags: u32,
    /// Memory kinds that `buffer_import` accepts, as bits `1 << POLYCHIP_MEMORY_*`; 0: none.
    pub import_kinds: u32,
    /// Memory kinds that `buffer_export` offers, as bits `1 << POLYCHIP_MEMORY_*`; 0: none.
    pub export_kinds: u32,
    /// Required alignment of imported host memory, in bytes: a power of two; 0 and 1: any. The
    /// host's own memory is page-aligned. If a device requires more, the host copies its tensors.
    pub import_alignment: u32,
    /// Human-readable name.
    pub name: polychip_text,
    /// Manufacturer.
    pub vendor: polychip_text,
    /// System on chip, or empty.
    pub soc: polychip_text,
    /// Version of the driver or of the vendor's library.
    pub driver: polychip_text,
    /// Memory available to parts, in bytes; 0 if the device sets no limit.
    pub memory_bytes: u64,
    /// Peak arithmetic rate for f32, in multiply-adds per second; 0 if unknown, and the host
    /// assumes 10^9.
    pub peak_macs_per_s: u64,
    /// Peak memory rate, in bytes per second; 0 if unknown, and the host assumes 10^9.
    pub peak_bytes_per_s: u64,
    /// Everything else that affects the speed of parts or the contents of blobs: cores and threads,
    /// instruction set, clock, configuration. Entries `key=value`, sorted by key and separated by
    /// spaces; empty without entries. The host stores measured times and blobs under a key made of
    /// this and the texts above. Two devices or configurations with different speed must therefore
    /// differ here.
    pub settings: polychip_text,
    /// Time at which the peak rates were measured, in seconds since 1970. 0: they were not
    /// measured, but follow from the device's identity.
    pub rates_measured_s: u64,
    /// Rate of the bus between host memory and the device's own memory, in bytes per second; 0 if
    /// there is no bus. All tensors that the device exchanges with other devices cross the bus,
    /// even those in imported memory. The host adds the time of these transfers. `estimate`
    /// therefore includes only the transfers of inputs and outputs of the whole graph.
    pub link_bytes_per_s: u64,
    /// When a running part yields to one whose `execute` has a higher priority
    /// (`POLYCHIP_PREEMPTION_*`). The part that yielded resumes once the device has no more urgent
    /// part. Since 1.1.
    pub preemption: u32,
    /// Number of parts that the host should keep submitted: more than 1 if the device computes
    /// several in parallel, or is faster when the next one is queued already. 0 if unknown, and the
    /// host submits one at a time. Since 1.1.
    pub queue_depth: u32,
    /// Longest time from the `execute` of a part until less urgent parts have yielded, in
    /// nanoseconds. The bound holds for all parts. 0 if there is none, if it is unknown, or if
    /// `preemption` is neither `POLYCHIP_PREEMPTION_COMMANDS` nor `POLYCHIP_PREEMPTION_ANY_TIME`.
    /// Since 1.1.
    pub preemption_bound_ns: u64,
    /// Time lost when the device switches from a part of one plan to a part of another, in
    /// nanoseconds: loading weights, changing contexts. Estimates and measurements of a single part
    /// exclude it. 0 if unknown, and the host adds nothing. Since 1.1.
    pub switch_ns: u64,
}

/// A setting of clocks and voltage that the device supports.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_operating_point {
    /// Size of this struct as the caller knows it, in bytes.
    pub struct_size: u32,
    /// Zero.
    pub flags: u32,
    /// Name; lives as long as the device is open.
    pub name: polychip_text,
    /// Clock, in kilohertz; 0 if unknown.
    pub frequency_khz: u64,
    /// Typical power under load, in milliwatts; 0 if unknown.
    pub power_mw: u64,
}

sized!(
    polychip_plugin_info,
    polychip_device_info,
    polychip_operating_point
);

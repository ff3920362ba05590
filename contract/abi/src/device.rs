//! Devices: what they are, and the operating points they can be set to.

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

/// The device is emulated: its figures are not a real chip's.
pub const POLYCHIP_DEVICE_EMULATED: u32 = 1;
/// Runs use host memory that was imported in place, without a copy anywhere.
pub const POLYCHIP_DEVICE_SHARES_HOST_MEMORY: u32 = 2;
/// Runs of the device end one after the other, in the order of their `execute`.
pub const POLYCHIP_DEVICE_SERIAL: u32 = 4;

/// It is not known whether a part that the device has begun gives way to a more urgent one.
pub const POLYCHIP_PREEMPTION_UNKNOWN: u32 = 0;
/// A part that the device has begun runs to its end.
pub const POLYCHIP_PREEMPTION_NONE: u32 = 1;
/// A part that the device has begun gives way to a more urgent one between two of its commands.
pub const POLYCHIP_PREEMPTION_COMMANDS: u32 = 2;
/// A part that the device has begun gives way to a more urgent one at any time.
pub const POLYCHIP_PREEMPTION_ANY_TIME: u32 = 3;

/// A plugin instance.
pub struct polychip_instance {
    _private: [u8; 0],
}

/// An open device.
pub struct polychip_device {
    _private: [u8; 0],
}

/// What a plugin is. Texts are static.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_plugin_info {
    /// Size of this struct as the caller knows it, in bytes.
    pub struct_size: u32,
    /// Zero.
    pub flags: u32,
    /// Short name, as in `name:index`: lower-case ASCII letters, digits and `_`. Of two plugins of one
    /// name the first found is used.
    pub name: polychip_text,
    /// Version of the plugin.
    pub version: polychip_text,
    /// Changes with every build whose blobs or figures may differ; part of every cache key.
    pub build_id: polychip_text,
}

/// What a device is. Texts live as long as the device is open.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_device_info {
    /// Size of this struct as the caller knows it, in bytes.
    pub struct_size: u32,
    /// `POLYCHIP_DEVICE_CPU`, `_GPU`, `_NPU` or `_DSP`.
    pub kind: u32,
    /// Bits `POLYCHIP_DEVICE_EMULATED` and following.
    pub flags: u32,
    /// Bits `1 << POLYCHIP_MEMORY_*` of the memory kinds that `buffer_import` takes; 0: none.
    pub import_kinds: u32,
    /// Bits `1 << POLYCHIP_MEMORY_*` of the memory kinds that `buffer_export` gives; 0: none.
    pub export_kinds: u32,
    /// Alignment that host memory needs to be imported, in bytes: a power of two; 0 and 1: any. The host's
    /// own memory starts on a page; a device that needs more gets copies.
    pub import_alignment: u32,
    /// Name for people.
    pub name: polychip_text,
    /// Maker.
    pub vendor: polychip_text,
    /// System on chip, or empty.
    pub soc: polychip_text,
    /// Version of the driver or the vendor's library.
    pub driver: polychip_text,
    /// Memory that parts may use, in bytes; 0 where the device sets no limit.
    pub memory_bytes: u64,
    /// Peak arithmetic rate for f32, in multiply-adds per second; 0 where not known, and the host reckons
    /// with 10^9.
    pub peak_macs_per_s: u64,
    /// Peak memory rate, in bytes per second; 0 where not known, and the host reckons with 10^9.
    pub peak_bytes_per_s: u64,
    /// Everything else that changes how fast its parts run or what its blobs hold: cores and threads, instruction
    /// set, clock, configuration. Words `key=value` in the order of their keys, separated by spaces; empty where
    /// there is nothing. With the texts above it is what measured times and blobs are kept under: two devices or
    /// configurations of different speed differ in it.
    pub settings: polychip_text,
    /// When the peak rates were measured, in seconds since 1970; 0: they are stated, from what identifies the device.
    pub rates_measured_s: u64,
    /// Rate between memory of the host and the device's own, in bytes per second, of a device that computes in memory
    /// of its own behind a bus; 0: there is no such bus. Tensors that other devices exchange with it cross it, also
    /// those that it imports. What is estimated of a part holds this time for the inputs and outputs of the whole graph
    /// only.
    pub link_bytes_per_s: u64,
    /// Since 1.1. `POLYCHIP_PREEMPTION_*`: when a part that the device has begun gives way to one whose `execute` has a
    /// higher priority. What gave way goes on once no more urgent part is with the device.
    pub preemption: u32,
    /// Since 1.1. Parts that the device gains from having at once: it computes so many beside each other, or need not
    /// wait for the next one. 0 where not known, and the host gives it one at a time.
    pub queue_depth: u32,
    /// Since 1.1. Longest time from the `execute` of a part until what is less urgent has given way, in nanoseconds,
    /// whatever parts these are; 0 where there is no such bound or it is not known, and where `preemption` is neither
    /// `POLYCHIP_PREEMPTION_COMMANDS` nor `POLYCHIP_PREEMPTION_ANY_TIME`.
    pub preemption_bound_ns: u64,
    /// Since 1.1. Time that the device loses where it goes from a part of one plan to one of another, in nanoseconds:
    /// weights to bring in, contexts to change. It is not in what is estimated and measured of a part by itself. 0 where
    /// not known, and the host counts nothing.
    pub switch_ns: u64,
}

/// A setting of clocks and voltage that the device can be put to.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_operating_point {
    /// Size of this struct as the caller knows it, in bytes.
    pub struct_size: u32,
    /// Zero.
    pub flags: u32,
    /// Name; lives as long as the device is open.
    pub name: polychip_text,
    /// Clock, in kilohertz; 0 where not known.
    pub frequency_khz: u64,
    /// Typical power under load, in milliwatts; 0 where not known.
    pub power_mw: u64,
}

sized!(
    polychip_plugin_info,
    polychip_device_info,
    polychip_operating_point
);

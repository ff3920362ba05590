//! The driver layer: adapters, open devices with their command queues, memory, pipelines.
//!
//! Invariants:
//! 1. Nothing of graphs or of the contract is known here but its error type and the kinds of memory.
//! 2. Unsafe code of this plugin stands here only: raw Vulkan beneath wgpu, kernels that run without checks.
//!
//! Not here: what runs (`exec`), what is compiled (`lower`).

pub(crate) mod adapter;
#[cfg(any(target_os = "linux", target_os = "android", windows))]
mod barriers;
pub(crate) mod command_queue;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod external;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod foreign;
pub(crate) mod gpu;
pub(crate) mod kernel_timer;
pub(crate) mod launch;
pub(crate) mod launches;
pub(crate) mod memory;
#[cfg(target_vendor = "apple")]
pub(crate) mod metal;
pub(crate) mod pipeline;
#[cfg(any(target_os = "linux", target_os = "android", windows))]
mod recording;
#[cfg(any(target_os = "linux", target_os = "android", windows))]
mod spirv;
#[cfg(any(target_os = "linux", target_os = "android", windows))]
pub(crate) mod timeline;
pub(crate) mod timestamps;
mod usage;
#[cfg(any(target_os = "linux", target_os = "android", windows))]
pub(crate) mod vulkan;
#[cfg(any(target_os = "linux", target_os = "android", windows))]
mod vulkan_memory;
#[cfg(any(target_os = "linux", target_os = "android", windows))]
mod vulkan_pipeline;
#[cfg(any(target_os = "linux", target_os = "android", windows))]
mod vulkan_queues;

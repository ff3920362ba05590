//! Which memory of others Vulkan takes by a handle: Linux dma-bufs, and Android's hardware buffers.
//!
//! Invariant: an import is offered only where the driver reports that it supports buffers of our usage.
//!
//! Not here: the import itself (`foreign`).

#![allow(unsafe_code, reason = "calls of Vulkan")]

use std::ffi::CStr;

use ash::vk;

use super::usage::OF_VULKAN;

pub(super) const DMA_BUF: vk::ExternalMemoryHandleTypeFlags = vk::ExternalMemoryHandleTypeFlags::DMA_BUF_EXT;

#[cfg(target_os = "android")]
pub(super) const HARDWARE_BUFFER: vk::ExternalMemoryHandleTypeFlags =
    vk::ExternalMemoryHandleTypeFlags::ANDROID_HARDWARE_BUFFER_ANDROID;

/// What of others' memory a device imports.
pub(super) struct External {
    pub(super) dma_buf: Option<ash::khr::external_memory_fd::Device>,
    /// Whether a dma-buf's memory serves one buffer only.
    pub(super) dedicated: bool,
    #[cfg(target_os = "android")]
    pub(super) hardware_buffer: Option<ash::android::external_memory_android_hardware_buffer::Device>,
    /// The queue family that represents all other owners.
    pub(super) foreign: u32,
}

impl External {
    /// Extensions to enable where the driver has them.
    pub(super) const EXTENSIONS: &'static [&'static CStr] = &[
        ash::khr::external_memory_fd::NAME,
        #[cfg(target_os = "android")]
        ash::android::external_memory_android_hardware_buffer::NAME,
        ash::ext::external_memory_dma_buf::NAME,
        ash::ext::queue_family_foreign::NAME,
    ];

    /// Asks what the driver imports with these extensions.
    pub(super) fn new(
        instance: &ash::Instance,
        physical: vk::PhysicalDevice,
        device: &ash::Device,
        enabled: &[&CStr],
    ) -> External {
        let has = |name: &CStr| enabled.contains(&name);
        let info = vk::PhysicalDeviceExternalBufferInfo::default()
            .usage(OF_VULKAN)
            .handle_type(DMA_BUF);
        let mut found = vk::ExternalBufferProperties::default();
        let listed = has(ash::khr::external_memory_fd::NAME) && has(ash::ext::external_memory_dma_buf::NAME);
        if listed {
            // SAFETY: a live physical device of Vulkan 1.1, and records that live during the call.
            unsafe { instance.get_physical_device_external_buffer_properties(physical, &info, &mut found) };
        }
        let says = found.external_memory_properties.external_memory_features;
        let imports = says.contains(vk::ExternalMemoryFeatureFlags::IMPORTABLE);
        External {
            dma_buf: imports.then(|| ash::khr::external_memory_fd::Device::new(instance, device)),
            dedicated: says.contains(vk::ExternalMemoryFeatureFlags::DEDICATED_ONLY),
            #[cfg(target_os = "android")]
            hardware_buffer: Self::hardware_buffers(instance, physical, device, enabled),
            foreign: if has(ash::ext::queue_family_foreign::NAME) {
                vk::QUEUE_FAMILY_FOREIGN_EXT
            } else {
                vk::QUEUE_FAMILY_EXTERNAL
            },
        }
    }

    #[cfg(target_os = "android")]
    fn hardware_buffers(
        instance: &ash::Instance,
        physical: vk::PhysicalDevice,
        device: &ash::Device,
        enabled: &[&CStr],
    ) -> Option<ash::android::external_memory_android_hardware_buffer::Device> {
        if !enabled.contains(&ash::android::external_memory_android_hardware_buffer::NAME) {
            return None;
        }
        let info = vk::PhysicalDeviceExternalBufferInfo::default()
            .usage(OF_VULKAN)
            .handle_type(HARDWARE_BUFFER);
        let mut found = vk::ExternalBufferProperties::default();
        // SAFETY: a live physical device of Vulkan 1.1, and records that live during the call.
        unsafe { instance.get_physical_device_external_buffer_properties(physical, &info, &mut found) };
        let says = found.external_memory_properties.external_memory_features;
        says.contains(vk::ExternalMemoryFeatureFlags::IMPORTABLE)
            .then(|| ash::android::external_memory_android_hardware_buffer::Device::new(instance, device))
    }

    /// Whether hardware buffers can be imported.
    #[cfg(target_os = "android")]
    pub(super) fn imports_hardware_buffers(&self) -> bool {
        self.hardware_buffer.is_some()
    }

    /// Whether dma-bufs can be imported.
    pub(super) fn imports_dma_bufs(&self) -> bool {
        self.dma_buf.is_some()
    }
}

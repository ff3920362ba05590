//! What all buffers are used for, in the words of wgpu and of Vulkan.

/// As wgpu says it.
pub(crate) const USAGE: wgpu::BufferUsages = wgpu::BufferUsages::STORAGE
    .union(wgpu::BufferUsages::COPY_SRC)
    .union(wgpu::BufferUsages::COPY_DST);

/// As Vulkan says it.
#[cfg(any(target_os = "linux", target_os = "android", windows))]
pub(super) const OF_VULKAN: ash::vk::BufferUsageFlags = ash::vk::BufferUsageFlags::from_raw(
    ash::vk::BufferUsageFlags::STORAGE_BUFFER.as_raw()
        | ash::vk::BufferUsageFlags::TRANSFER_SRC.as_raw()
        | ash::vk::BufferUsageFlags::TRANSFER_DST.as_raw(),
);

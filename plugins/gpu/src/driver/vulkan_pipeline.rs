//! Pipelines of Vulkan's own: one per kernel for all command queues, for commands that are recorded once and kept.
//!
//! Why not wgpu's: it shows neither its pipelines nor what is bound to them, and its commands are used once.
//!
//! Invariants:
//! 1. Checks at run time (bounds, loops) are left out: kernels are this project's own, and sizes of bindings are
//!    checked when a part is loaded.
//! 2. Bytes of a cache are handed to the driver only where their head names it.

#![allow(unsafe_code, reason = "calls of Vulkan")]

use std::sync::Arc;

use ash::vk;
use polychip_gpu_kernels::Kernel;
use polychip_sdk::{Error, ErrorKind, Result};

use super::vulkan::{Raw, failed};

/// Length of the head of a cache's bytes.
const HEAD: usize = 32;

/// A kernel made ready.
pub(crate) struct VulkanPipeline {
    raw: Arc<Raw>,
    pub(super) pipeline: vk::Pipeline,
    pub(super) layout: vk::PipelineLayout,
    pub(super) set: vk::DescriptorSetLayout,
}

impl Drop for VulkanPipeline {
    fn drop(&mut self) {
        let device = self.raw.device();
        // SAFETY: recordings that use it hold it, and go after the GPU has ended them.
        unsafe { device.destroy_pipeline(self.pipeline, None) }
        // SAFETY: of this device, and used by nothing else.
        unsafe { device.destroy_pipeline_layout(self.layout, None) }
        // SAFETY: as above.
        unsafe { device.destroy_descriptor_set_layout(self.set, None) }
    }
}

impl VulkanPipeline {
    /// Makes a kernel ready.
    ///
    /// # Errors
    /// Where its text is wrong or the driver refuses it, with the driver's message.
    pub(super) fn new(raw: &Arc<Raw>, cache: &VulkanCache, kernel: &Kernel) -> Result<VulkanPipeline> {
        let device = raw.device();
        let words = raw
            .dialect
            .words(kernel)
            .map_err(|why| Error::new(ErrorKind::Persistent, why))?;
        let out = |result| failed("the driver refuses it", result);
        // null handles are let go of without effect
        let mut made = VulkanPipeline {
            raw: Arc::clone(raw),
            pipeline: vk::Pipeline::null(),
            layout: vk::PipelineLayout::null(),
            set: vk::DescriptorSetLayout::null(),
        };
        let bindings: Vec<vk::DescriptorSetLayoutBinding<'_>> = (0u32..)
            .zip(&kernel.bindings)
            .map(|(binding, _)| {
                vk::DescriptorSetLayoutBinding::default()
                    .binding(binding)
                    .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                    .descriptor_count(1)
                    .stage_flags(vk::ShaderStageFlags::COMPUTE)
            })
            .collect();
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        // SAFETY: a valid description.
        made.set = unsafe { device.create_descriptor_set_layout(&info, None) }.map_err(out)?;
        let sets = [made.set];
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets);
        // SAFETY: a valid description.
        made.layout = unsafe { device.create_pipeline_layout(&info, None) }.map_err(out)?;
        let info = vk::ShaderModuleCreateInfo::default().code(&words);
        // SAFETY: words of a valid module, which stays within its bindings and ends.
        let module = unsafe { device.create_shader_module(&info, None) }.map_err(out)?;
        let flags = if raw.dialect.features.contains(wgpu::Features::SUBGROUP) {
            vk::PipelineShaderStageCreateFlags::ALLOW_VARYING_SUBGROUP_SIZE
        } else {
            vk::PipelineShaderStageCreateFlags::empty()
        };
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .flags(flags)
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main");
        let info = [vk::ComputePipelineCreateInfo::default()
            .layout(made.layout)
            .stage(stage)];
        // SAFETY: module and layout are live and agree in their bindings.
        let pipelines = unsafe { device.create_compute_pipelines(cache.cache, &info, None) };
        // SAFETY: the pipeline has been made, or not.
        unsafe { device.destroy_shader_module(module, None) }
        made.pipeline = pipelines
            .map_err(|(_, result)| out(result))?
            .pop()
            .ok_or_else(|| Error::new(ErrorKind::Persistent, "the driver made no pipeline"))?;
        Ok(made)
    }
}

/// What the driver keeps of the pipelines that it made.
pub(super) struct VulkanCache {
    raw: Arc<Raw>,
    cache: vk::PipelineCache,
}

impl Drop for VulkanCache {
    fn drop(&mut self) {
        // SAFETY: no pipeline is being made any more.
        unsafe { self.raw.device().destroy_pipeline_cache(self.cache, None) }
    }
}

impl VulkanCache {
    /// A cache, with the bytes of an earlier one where they are this driver's.
    pub(super) fn new(raw: &Arc<Raw>, bytes: Option<&[u8]>) -> VulkanCache {
        let bytes = bytes
            .filter(|bytes| is_of(bytes, &raw.properties))
            .unwrap_or_default();
        let info = vk::PipelineCacheCreateInfo::default().initial_data(bytes);
        // SAFETY: the bytes were made by the same driver.
        let made = unsafe { raw.device().create_pipeline_cache(&info, None) };
        VulkanCache {
            raw: Arc::clone(raw),
            // without a cache the driver makes each pipeline anew
            cache: made.unwrap_or_default(),
        }
    }

    /// The bytes of all pipelines made.
    pub(super) fn bytes(&self) -> Option<Vec<u8>> {
        if self.cache == vk::PipelineCache::null() {
            return None;
        }
        // SAFETY: a live cache.
        unsafe { self.raw.device().get_pipeline_cache_data(self.cache) }.ok()
    }
}

/// Whether the head of a cache's bytes names this driver and device.
fn is_of(bytes: &[u8], properties: &vk::PhysicalDeviceProperties) -> bool {
    let word = |at: usize| {
        let word = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(word))
    };
    word(0) == Some(HEAD as u32)
        && word(4) == Some(vk::PipelineCacheHeaderVersion::ONE.as_raw() as u32)
        && word(8) == Some(properties.vendor_id)
        && word(12) == Some(properties.device_id)
        && bytes.get(16..HEAD) == Some(properties.pipeline_cache_uuid.as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_of_another_driver_is_not_used() {
        let properties = vk::PhysicalDeviceProperties {
            vendor_id: 0x10de,
            device_id: 0x2335,
            pipeline_cache_uuid: [7; 16],
            ..Default::default()
        };
        let words = [32u32, 1, 0x10de, 0x2335];
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        bytes.extend([7; 16]);
        assert!(is_of(&bytes, &properties));
        for index in 0..bytes.len() {
            let mut other = bytes.clone();
            other[index] ^= 1;
            assert!(!is_of(&other, &properties), "byte {index}");
            assert!(!is_of(&bytes[..index], &properties), "{index} bytes");
        }
    }
}

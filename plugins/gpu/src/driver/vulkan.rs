//! Raw Vulkan beneath wgpu: one device for all command queues.
//!
//! Invariant: the raw device lives until the last wgpu device and the last buffer over it are gone, and the instance
//! lives longer.
//!
//! Not here: its command queues (`vulkan_queues`), its memory (`vulkan_memory`, `foreign`).

#![allow(unsafe_code, reason = "calls of Vulkan, and wgpu's own entries to it")]

use std::ffi::CStr;
use std::sync::Arc;

use ash::vk;
use polychip_sdk::{Error, ErrorKind, Result};
use wgpu::hal::api::Vulkan;

use super::adapter::GpuAdapter;
#[cfg(any(target_os = "linux", target_os = "android"))]
use super::external::External;
use super::spirv::Dialect;
use super::usage::OF_VULKAN;

/// Launches of a submission where an urgent one may come between two of them.
const AT_ONCE: usize = 16;

/// The location of a command queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QueueLocation {
    pub(super) family: u32,
    pub(super) queue: u32,
}

/// The queues of the command queues: an urgent run goes to a family that draws nothing, where it does not wait behind a
/// batch; or to another queue of the same family; and where there is one queue, to that.
fn queue_locations(families: &[vk::QueueFamilyProperties]) -> Vec<QueueLocation> {
    let batch = QueueLocation { family: 0, queue: 0 };
    let computes = |family: &vk::QueueFamilyProperties| {
        family.queue_flags.contains(vk::QueueFlags::COMPUTE)
            && !family.queue_flags.contains(vk::QueueFlags::GRAPHICS)
            && family.queue_count > 0
    };
    let other = (1u32..)
        .zip(families.iter().skip(1))
        .find(|(_, family)| computes(family))
        .map(|(family, _)| QueueLocation { family, queue: 0 });
    let second = families
        .first()
        .filter(|family| family.queue_count > 1)
        .map(|_| QueueLocation { family: 0, queue: 1 });
    std::iter::once(batch).chain(other.or(second)).collect()
}

/// The raw device.
pub(crate) struct Raw {
    device: ash::Device,
    host_import: Option<ash::ext::external_memory_host::Device>,
    /// Alignment of host memory that can be imported, in bytes.
    pub(crate) import_alignment: u64,
    calibrated: Option<ash::ext::calibrated_timestamps::Device>,
    /// Bits of a time that count, in every family in use.
    pub(crate) timestamp_bits: u32,
    memory: vk::PhysicalDeviceMemoryProperties,
    #[cfg(any(target_os = "linux", target_os = "android"))]
    external: External,
    pub(super) properties: vk::PhysicalDeviceProperties,
    /// What shaders may use.
    pub(super) dialect: Dialect,
    /// Whether the host may reset queries.
    pub(super) resets_queries: bool,
    /// Multiply-adds of 32-bit floats per clock, where the driver tells.
    pub(crate) fma_lanes: Option<u64>,
    /// Launches of one submission, where command queues share a family and the GPU changes between submissions only.
    pub(super) at_once: Option<usize>,
    /// Of each command queue: its family and its queue there.
    queues: Vec<QueueLocation>,
    /// Queue families in use, each once.
    families: Vec<u32>,
    /// Held so that it goes last.
    _instance: wgpu::Instance,
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: whatever was made of the device holds it, so nothing is left.
        unsafe { self.device.destroy_device(None) }
    }
}

/// A raw buffer with its memory.
pub(super) struct RawBuffer {
    raw: Arc<Raw>,
    pub(super) buffer: vk::Buffer,
    pub(super) memory: vk::DeviceMemory,
}

impl Drop for RawBuffer {
    fn drop(&mut self) {
        // SAFETY: wgpu lets go of a buffer only when no submission uses it any more.
        unsafe { self.raw.device.destroy_buffer(self.buffer, None) }
        // SAFETY: nothing is bound to it any more.
        unsafe { self.raw.device.free_memory(self.memory, None) }
    }
}

pub(super) fn failed(what: &str, result: vk::Result) -> Error {
    let kind = match result {
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY => {
            ErrorKind::OutOfMemory
        }
        vk::Result::ERROR_DEVICE_LOST => ErrorKind::DeviceLost,
        vk::Result::ERROR_INVALID_EXTERNAL_HANDLE
        | vk::Result::ERROR_FEATURE_NOT_PRESENT
        | vk::Result::ERROR_EXTENSION_NOT_PRESENT => ErrorKind::Unsupported,
        _ => ErrorKind::Persistent,
    };
    Error::new(kind, format!("{what}: {result}")).with_vendor_code(i64::from(result.as_raw()))
}

/// A device just opened, and what its command queues are made with.
pub(super) struct Opened {
    pub(super) raw: Arc<Raw>,
    /// Extensions that are enabled.
    pub(super) extensions: Vec<&'static CStr>,
    /// Whether semaphores count.
    pub(super) timelines: bool,
}

/// Multiply-adds of 32-bit floats per clock of all the units that the driver counts; `has` tells its extensions.
fn fma_lanes(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
    has: impl Fn(&'static CStr) -> bool,
) -> Option<u64> {
    let nvidia = has(ash::nv::shader_sm_builtins::NAME);
    let amd = has(ash::amd::shader_core_properties2::NAME);
    let arm = has(ash::arm::shader_core_properties::NAME) && has(ash::arm::shader_core_builtins::NAME);
    let mut of_nvidia = vk::PhysicalDeviceShaderSMBuiltinsPropertiesNV::default();
    let mut of_amd = vk::PhysicalDeviceShaderCoreProperties2AMD::default();
    let mut of_arm = vk::PhysicalDeviceShaderCorePropertiesARM::default();
    let mut cores_of_arm = vk::PhysicalDeviceShaderCoreBuiltinsPropertiesARM::default();
    let mut asked = vk::PhysicalDeviceProperties2::default();
    if nvidia {
        asked = asked.push_next(&mut of_nvidia);
    }
    if amd {
        asked = asked.push_next(&mut of_amd);
    }
    if arm {
        asked = asked.push_next(&mut of_arm).push_next(&mut cores_of_arm);
    }
    // SAFETY: a live physical device and a chain of structs that live during the call, each of an extension that it has.
    unsafe { instance.get_physical_device_properties2(physical, &mut asked) };
    let product = |factors: &[u32]| factors.iter().map(|&factor| u64::from(factor)).product::<u64>();
    let lanes = if nvidia {
        // 64 lanes in the multiprocessors of Turing, which hold 32 warps; 128 in those since, but for a few
        let lanes = if of_nvidia.shader_warps_per_sm <= 32 {
            64
        } else {
            128
        };
        product(&[of_nvidia.shader_sm_count, lanes])
    } else if amd {
        // sixteen lanes of four vector units, or 32 of two
        product(&[of_amd.active_compute_unit_count, 64])
    } else if arm {
        product(&[cores_of_arm.shader_core_count, of_arm.fma_rate])
    } else {
        0
    };
    // a driver that counts nothing, or nonsense
    (64..1 << 20).contains(&lanes).then_some(lanes)
}

/// Opens the device.
///
/// # Errors
/// Where the driver refuses, with the driver's message.
pub(super) fn open(found: &GpuAdapter, features: wgpu::Features) -> Result<Opened> {
    // SAFETY: the guard is dropped here; nothing is destroyed through it.
    let adapter = unsafe { found.adapter.as_hal::<Vulkan>() }
        .ok_or_else(|| Error::unsupported("the adapter is not Vulkan's"))?;
    let instance = adapter.shared_instance().raw_instance().clone();
    let physical = adapter.raw_physical_device();
    let capabilities = adapter.physical_device_capabilities();

    let mut extensions: Vec<&'static CStr> = adapter.required_device_extensions(features);
    let wanted = [
        ash::ext::external_memory_host::NAME,
        ash::khr::global_priority::NAME,
        ash::ext::calibrated_timestamps::NAME,
    ];
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let wanted = wanted.into_iter().chain(External::EXTENSIONS.iter().copied());
    for name in wanted {
        if capabilities.supports_extension(name) && !extensions.contains(&name) {
            extensions.push(name);
        }
    }
    let imports = extensions.contains(&ash::ext::external_memory_host::NAME);
    let calibrated = extensions.contains(&ash::ext::calibrated_timestamps::NAME);
    let prioritised = extensions.contains(&ash::khr::global_priority::NAME);
    let mut enabled = adapter.physical_device_features(&extensions, features);

    // SAFETY: a live physical device.
    let families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
    let queues = queue_locations(&families);
    let mut used_families: Vec<u32> = queues.iter().map(|location| location.family).collect();
    used_families.dedup();

    let version = capabilities.properties().api_version;
    let dots =
        version >= vk::API_VERSION_1_3 || extensions.contains(&ash::khr::shader_integer_dot_product::NAME);
    let mut counting = vk::PhysicalDeviceTimelineSemaphoreFeatures::default();
    let mut resetting = vk::PhysicalDeviceHostQueryResetFeatures::default();
    let mut of_bytes = vk::PhysicalDeviceShaderFloat16Int8Features::default();
    let mut of_products = vk::PhysicalDeviceShaderIntegerDotProductFeatures::default();
    let mut offered = vk::PhysicalDeviceFeatures2::default()
        .push_next(&mut counting)
        .push_next(&mut resetting)
        .push_next(&mut of_bytes);
    if dots {
        offered = offered.push_next(&mut of_products);
    }
    // SAFETY: a live physical device and a chain of structs that live during the call.
    unsafe { instance.get_physical_device_features2(physical, &mut offered) };
    // wgpu enables these wherever they are there; the calls are part of Vulkan 1.2
    let timelines = counting.timeline_semaphore == vk::TRUE && version >= vk::API_VERSION_1_2;
    let resets_queries = resetting.host_query_reset == vk::TRUE && version >= vk::API_VERSION_1_2;

    let names: Vec<_> = extensions.iter().map(|name| name.as_ptr()).collect();
    let create = |enabled: &mut wgpu::hal::vulkan::PhysicalDeviceFeatures, prioritised: bool| {
        let mut high = vk::DeviceQueueGlobalPriorityCreateInfoKHR::default()
            .global_priority(vk::QueueGlobalPriorityKHR::HIGH);
        // that of the first command queue is the lowest, the last one's the highest
        let both = [0.0f32, 1.0];
        let mut of_families = vec![
            vk::DeviceQueueCreateInfo::default()
                .queue_family_index(used_families[0])
                .queue_priorities(&both[..queues.len() + 1 - used_families.len()]),
        ];
        if let Some(&family) = used_families.get(1) {
            let mut queue = vk::DeviceQueueCreateInfo::default()
                .queue_family_index(family)
                .queue_priorities(&both[1..]);
            if prioritised {
                queue = queue.push_next(&mut high);
            }
            of_families.push(queue);
        }
        let info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&of_families)
            .enabled_extension_names(&names);
        let mut resets = vk::PhysicalDeviceHostQueryResetFeatures::default().host_query_reset(true);
        let mut info = enabled.add_to_device_create(info);
        if resets_queries {
            info = info.push_next(&mut resets);
        }
        // SAFETY: extensions and features are those that the adapter lists.
        unsafe { instance.create_device(physical, &info, None) }
    };
    let device = match create(&mut enabled, prioritised) {
        // a priority above the usual is for those whom the system grants it
        Err(vk::Result::ERROR_NOT_PERMITTED_KHR) => {
            let mut enabled = adapter.physical_device_features(&extensions, features);
            create(&mut enabled, false)
        }
        other => other,
    }
    .map_err(|result| failed("the driver does not open the GPU", result))?;

    let mut host_properties = vk::PhysicalDeviceExternalMemoryHostPropertiesEXT::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut host_properties);
    // SAFETY: a live physical device and a chain of structs that live during the call.
    unsafe { instance.get_physical_device_properties2(physical, &mut properties) };
    // SAFETY: a live physical device.
    let memory = unsafe { instance.get_physical_device_memory_properties(physical) };
    let raw = Arc::new(Raw {
        host_import: imports.then(|| ash::ext::external_memory_host::Device::new(&instance, &device)),
        calibrated: calibrated.then(|| ash::ext::calibrated_timestamps::Device::new(&instance, &device)),
        timestamp_bits: used_families
            .iter()
            .map(|&family| families[family as usize].timestamp_valid_bits)
            .min()
            .unwrap_or(0),
        #[cfg(any(target_os = "linux", target_os = "android"))]
        external: External::new(&instance, physical, &device, &extensions),
        device,
        properties: capabilities.properties(),
        dialect: Dialect {
            version: match version {
                ..vk::API_VERSION_1_1 => (1, 0),
                vk::API_VERSION_1_1..vk::API_VERSION_1_2 => (1, 3),
                vk::API_VERSION_1_2..vk::API_VERSION_1_3 => (1, 5),
                _ => (1, 6),
            },
            features,
            dot_products: of_products.shader_integer_dot_product == vk::TRUE,
            bytes: of_bytes.shader_int8 == vk::TRUE,
        },
        resets_queries,
        fma_lanes: fma_lanes(&instance, physical, |name| capabilities.supports_extension(name)),
        at_once: (queues.len() > used_families.len()).then_some(AT_ONCE),
        queues,
        import_alignment: host_properties.min_imported_host_pointer_alignment.max(1),
        memory,
        families: used_families,
        _instance: found.instance.clone(),
    });

    Ok(Opened {
        raw,
        extensions,
        timelines,
    })
}

impl Raw {
    /// The raw device, for calls that its holder may make.
    pub(super) fn device(&self) -> &ash::Device {
        &self.device
    }

    /// The queue of each command queue.
    pub(super) fn queues(&self) -> &[QueueLocation] {
        &self.queues
    }

    /// What imports host memory.
    pub(super) fn host_import(&self) -> Option<&ash::ext::external_memory_host::Device> {
        self.host_import.as_ref()
    }

    /// Queue family of a command queue.
    pub(super) fn family(&self, queue_index: usize) -> u32 {
        self.queues[queue_index].family
    }

    /// Whether host memory can be imported.
    pub(crate) fn imports(&self) -> bool {
        self.host_import.is_some()
    }

    /// What of others' memory it imports.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn external(&self) -> &External {
        &self.external
    }

    /// Queue families in use, each once.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn families(&self) -> &[u32] {
        &self.families
    }

    /// The GPU's time, in ticks, where it can be asked.
    pub(crate) fn ticks(&self) -> Option<u64> {
        let info = [vk::CalibratedTimestampInfoEXT::default().time_domain(vk::TimeDomainEXT::DEVICE)];
        // SAFETY: the extension is enabled, and every device that has it knows its own clock.
        let read = unsafe { self.calibrated.as_ref()?.get_calibrated_timestamps(&info) };
        read.ok()?.0.first().copied()
    }

    /// Memory of the device's own, in bytes.
    pub(crate) fn local_bytes(&self) -> u64 {
        self.memory
            .memory_heaps_as_slice()
            .iter()
            .filter(|heap| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL))
            .map(|heap| heap.size)
            .sum()
    }

    pub(super) fn memory_type(&self, allowed: u32, wanted: vk::MemoryPropertyFlags) -> Option<u32> {
        let types = self.memory.memory_types_as_slice();
        let fits = |index: u32| allowed & (1 << index) != 0;
        (0u32..)
            .zip(types)
            .find_map(|(index, kind)| (fits(index) && kind.property_flags.contains(wanted)).then_some(index))
    }

    pub(super) fn buffer(
        self: &Arc<Self>,
        bytes: u64,
        external: Option<vk::ExternalMemoryHandleTypeFlags>,
    ) -> Result<RawBuffer> {
        let mut handles = vk::ExternalMemoryBufferCreateInfo::default();
        let mut info = vk::BufferCreateInfo::default().size(bytes).usage(OF_VULKAN);
        if self.families.len() > 1 {
            info = info
                .sharing_mode(vk::SharingMode::CONCURRENT)
                .queue_family_indices(&self.families);
        }
        if let Some(kind) = external {
            handles = handles.handle_types(kind);
            info = info.push_next(&mut handles);
        }
        // SAFETY: a valid description.
        let buffer = unsafe { self.device.create_buffer(&info, None) }
            .map_err(|result| failed(&format!("a buffer of {bytes} bytes"), result))?;
        Ok(RawBuffer {
            raw: Arc::clone(self),
            buffer,
            memory: vk::DeviceMemory::null(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urgent_runs_use_a_compute_family_or_a_second_queue() {
        let family = |flags, queue_count| vk::QueueFamilyProperties {
            queue_flags: flags,
            queue_count,
            ..Default::default()
        };
        let (draws, computes) = (vk::QueueFlags::GRAPHICS, vk::QueueFlags::COMPUTE);
        let first = QueueLocation { family: 0, queue: 0 };
        let of = |families: &[vk::QueueFamilyProperties]| queue_locations(families);
        let copies = family(vk::QueueFlags::TRANSFER, 2);
        let all = [family(draws | computes, 16), copies, family(computes, 8)];
        assert_eq!(of(&all), [first, QueueLocation { family: 2, queue: 0 }]);
        assert_eq!(of(&all[..2]), [first, QueueLocation { family: 0, queue: 1 }]);
        assert_eq!(of(&[family(draws | computes, 1)]), [first]);
    }
}

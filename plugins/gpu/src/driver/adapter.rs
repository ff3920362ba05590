//! The adapters of this machine: each GPU once, software ones named as such.
//!
//! Invariants:
//! 1. A GPU that several drivers or APIs offer is listed once, by the first of Metal, Vulkan, Direct3D 12.
//! 2. Discrete GPUs stand before integrated ones, software ones last; the order is the same in each process.

use polychip_gpu_kernels::{Features, Limits};
use polychip_sdk::{Error, ErrorKind, Result};

/// An adapter that can be opened.
#[derive(Clone)]
pub(crate) struct GpuAdapter {
    /// What made the adapter; it outlives all devices.
    #[cfg_attr(target_vendor = "apple", allow(dead_code, reason = "held"))]
    pub(crate) instance: wgpu::Instance,
    /// The adapter.
    pub(crate) adapter: wgpu::Adapter,
    /// What the driver says of it.
    pub(crate) info: wgpu::AdapterInfo,
}

impl GpuAdapter {
    /// Whether the host's processor computes: a driver without a GPU.
    pub(crate) fn software(&self) -> bool {
        self.info.device_type == wgpu::DeviceType::Cpu
    }

    /// Whether its memory is its own, behind a link.
    pub(crate) fn discrete(&self) -> bool {
        self.info.device_type == wgpu::DeviceType::DiscreteGpu
    }

    /// Name for people.
    pub(crate) fn name(&self) -> String {
        if self.software() {
            format!("{} (software, no GPU)", self.info.name)
        } else {
            self.info.name.clone()
        }
    }

    /// Maker.
    pub(crate) fn vendor(&self) -> String {
        match self.info.vendor {
            0x1002 | 0x1022 => "AMD".to_owned(),
            0x10de => "NVIDIA".to_owned(),
            0x8086 => "Intel".to_owned(),
            0x106b => "Apple".to_owned(),
            0x13b5 => "Arm".to_owned(),
            0x5143 => "Qualcomm".to_owned(),
            0x1010 => "Imagination".to_owned(),
            0x10005 => "Mesa".to_owned(),
            vendor => format!("vendor {vendor:#06x}"),
        }
    }

    /// Name and version of the driver.
    pub(crate) fn driver(&self) -> String {
        let words = [self.info.driver.as_str(), self.info.driver_info.as_str()].join(" ");
        format!("{} {}", api_name(self.info.backend), words.trim())
            .trim()
            .to_owned()
    }

    /// What blobs, pipelines and figures of this device depend on.
    pub(crate) fn identity(&self) -> String {
        format!(
            "{:04x}:{:04x} {} | {}",
            self.info.vendor,
            self.info.device,
            self.info.name,
            self.driver()
        )
    }

    /// Optional instructions and calls to ask of the device.
    pub(crate) fn features(&self) -> wgpu::Features {
        let wanted = wgpu::Features::SHADER_F16
            | wgpu::Features::SHADER_INT64
            | wgpu::Features::SUBGROUP
            | wgpu::Features::SUBGROUP_BARRIER
            | wgpu::Features::TIMESTAMP_QUERY
            | wgpu::Features::PIPELINE_CACHE
            | wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX;
        self.adapter.features() & wanted
    }

    /// What a device can hold, as the generators see it.
    pub(crate) fn limits(&self) -> Limits {
        let (limits, features) = (self.adapter.limits(), self.features());
        let subgroups = wgpu::Features::SUBGROUP | wgpu::Features::SUBGROUP_BARRIER;
        Limits {
            invocations: limits.max_compute_invocations_per_workgroup,
            workgroup: [
                limits.max_compute_workgroup_size_x,
                limits.max_compute_workgroup_size_y,
                limits.max_compute_workgroup_size_z,
            ],
            groups: limits.max_compute_workgroups_per_dimension,
            shared_bytes: limits.max_compute_workgroup_storage_size,
            bindings: limits.max_storage_buffers_per_shader_stage,
            binding_bytes: limits.max_storage_buffer_binding_size,
            subgroup: [self.info.subgroup_min_size, self.info.subgroup_max_size],
            features: Features {
                f16: features.contains(wgpu::Features::SHADER_F16),
                int64: features.contains(wgpu::Features::SHADER_INT64),
                subgroups: features.contains(subgroups),
                dot4: true,
                cooperative: self.cooperative(features),
            },
        }
    }

    /// Side of the square f16 tile whose sums are f32.
    fn cooperative(&self, features: wgpu::Features) -> u32 {
        if !features.contains(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX) {
            return 0;
        }
        self.adapter
            .cooperative_matrix_properties()
            .into_iter()
            .filter(|shape| {
                [shape.n_size, shape.k_size] == [shape.m_size; 2]
                    && [8, 16].contains(&shape.m_size)
                    && shape.ab_type == wgpu::CooperativeScalarType::F16
                    && shape.cr_type == wgpu::CooperativeScalarType::F32
            })
            .map(|shape| shape.m_size)
            .max()
            .unwrap_or(0)
    }
}

fn api_name(api: wgpu::Backend) -> &'static str {
    match api {
        wgpu::Backend::Vulkan => "Vulkan",
        wgpu::Backend::Metal => "Metal",
        wgpu::Backend::Dx12 => "Direct3D 12",
        _ => "",
    }
}

fn api_rank(api: wgpu::Backend) -> u32 {
    match api {
        wgpu::Backend::Metal => 0,
        wgpu::Backend::Vulkan => 1,
        _ => 2,
    }
}

fn sort_rank(kind: wgpu::DeviceType) -> u32 {
    match kind {
        wgpu::DeviceType::DiscreteGpu => 0,
        wgpu::DeviceType::IntegratedGpu => 1,
        wgpu::DeviceType::VirtualGpu => 2,
        wgpu::DeviceType::Other => 3,
        wgpu::DeviceType::Cpu => 4,
    }
}

/// Whether two entries are one GPU.
fn same(a: &wgpu::AdapterInfo, b: &wgpu::AdapterInfo) -> bool {
    if (a.vendor, a.device) != (b.vendor, b.device) {
        return false;
    }
    if a.backend != b.backend {
        return true;
    }
    // two of one kind differ by their place; software ones have none
    a.device_pci_bus_id == b.device_pci_bus_id && (!a.device_pci_bus_id.is_empty() || a.driver == b.driver)
}

/// Finds the adapters; `wanted` is a part of a name, or nothing.
///
/// # Errors
/// Where there is none, in words that say what to install or to set.
pub(crate) fn find(wanted: Option<&str>) -> Result<Vec<GpuAdapter>> {
    let apis = wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12;
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
        backends: apis,
        // layers that check every call are for authors, who set VK_INSTANCE_LAYERS
        flags: wgpu::InstanceFlags::empty(),
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    });
    let mut listed: Vec<(wgpu::Adapter, wgpu::AdapterInfo)> =
        pollster::block_on(instance.enumerate_adapters(apis))
            .into_iter()
            .map(|adapter| {
                let info = adapter.get_info();
                (adapter, info)
            })
            .collect();
    listed.sort_by_key(|(_, info)| (sort_rank(info.device_type), api_rank(info.backend)));
    let mut found: Vec<GpuAdapter> = Vec::new();
    for (adapter, info) in listed {
        let computes = adapter
            .get_downlevel_capabilities()
            .flags
            .contains(wgpu::DownlevelFlags::COMPUTE_SHADERS);
        if computes && !found.iter().any(|other| same(&other.info, &info)) {
            found.push(GpuAdapter {
                instance: instance.clone(),
                adapter,
                info,
            });
        }
    }
    if found.is_empty() {
        return Err(Error::new(ErrorKind::Persistent, none_found()));
    }
    let Some(wanted) = wanted else {
        return Ok(found);
    };
    let names: Vec<String> = found.iter().map(GpuAdapter::name).collect();
    let wanted = wanted.to_lowercase();
    found.retain(|adapter| adapter.name().to_lowercase().contains(&wanted));
    if found.is_empty() {
        return Err(Error::bad_argument(format!(
            "configuration adapter is '{wanted}'; the GPUs here are: {}",
            names.join(", ")
        )));
    }
    Ok(found)
}

fn none_found() -> &'static str {
    if cfg!(target_vendor = "apple") {
        "no GPU: Metal offers no device"
    } else if cfg!(windows) {
        "no GPU: neither Vulkan nor Direct3D 12 offers a device; install the GPU's driver"
    } else {
        "no GPU: Vulkan offers no device; install the loader (libvulkan.so.1) and the GPU's Vulkan driver, \
         or Mesa's software one (mesa-vulkan-drivers), or point VK_DRIVER_FILES at the driver's file"
    }
}

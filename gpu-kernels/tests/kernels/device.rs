//! The first GPU of this machine, a software one too, that runs one kernel at a time.

use std::sync::Arc;

use polychip_gpu_kernels::{Features, Kernel, Limits};

/// An open device.
pub(crate) struct Gpu {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    /// Name and driver.
    pub(crate) name: String,
    /// Whether the processor plays the device.
    pub(crate) software: bool,
    pub(crate) limits: Limits,
}

impl Gpu {
    /// Opens the first device; the error gives the reason if it cannot.
    pub(crate) fn open() -> Result<Arc<Gpu>, String> {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
        let adapter = pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions {
            power_preference: wgpu::PowerPreference::HighPerformance,
            ..Default::default()
        }))
        .map_err(|error| format!("no GPU: {error}"))?;
        let wanted = wgpu::Features::SHADER_F16
            | wgpu::Features::SHADER_INT64
            | wgpu::Features::SUBGROUP
            | wgpu::Features::SUBGROUP_BARRIER
            | wgpu::Features::TIMESTAMP_QUERY
            | wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX;
        let features = adapter.features() & wanted;
        let limits = adapter.limits();
        // SAFETY: the tests run kernels of ours only, with matrix shapes that the adapter lists.
        let experimental = unsafe { wgpu::ExperimentalFeatures::enabled() };
        let (device, queue) = pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor {
            required_features: features,
            required_limits: limits.clone(),
            experimental_features: experimental,
            ..Default::default()
        }))
        .map_err(|error| format!("the GPU does not open: {error}"))?;
        let cooperative = adapter
            .cooperative_matrix_properties()
            .into_iter()
            .filter(|p| {
                p.m_size == p.n_size
                    && p.n_size == p.k_size
                    && p.ab_type == wgpu::CooperativeScalarType::F16
                    && p.cr_type == wgpu::CooperativeScalarType::F32
            })
            .map(|p| p.m_size)
            .max()
            .filter(|_| features.contains(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX));
        let info = adapter.get_info();
        Ok(Arc::new(Gpu {
            device,
            queue,
            name: format!("{}, {} {}", info.name, info.driver, info.driver_info),
            software: info.device_type == wgpu::DeviceType::Cpu,
            limits: Limits {
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
                subgroup: [info.subgroup_min_size, info.subgroup_max_size],
                features: Features {
                    f16: features.contains(wgpu::Features::SHADER_F16),
                    int64: features.contains(wgpu::Features::SHADER_INT64),
                    subgroups: features.contains(wgpu::Features::SUBGROUP | wgpu::Features::SUBGROUP_BARRIER),
                    dot4: true,
                    cooperative: cooperative.unwrap_or(0),
                },
            },
        }))
    }

    /// Runs a kernel over these bytes and gives all bindings afterwards.
    pub(crate) fn run(&self, kernel: &Kernel, before: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, String> {
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let after = self.run_unchecked(kernel, before);
        match pollster::block_on(scope.pop()) {
            Some(error) => Err(format!("{error}\n{}", kernel.wgsl)),
            None => after,
        }
    }

    /// Compiles a kernel, with the driver's checks of its accesses.
    pub(crate) fn pipeline(&self, kernel: &Kernel) -> wgpu::ComputePipeline {
        let module = self.device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some(&kernel.variant),
            source: wgpu::ShaderSource::Wgsl(kernel.wgsl.as_str().into()),
        });
        self.device
            .create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(&kernel.variant),
                layout: None,
                module: &module,
                entry_point: Some("main"),
                compilation_options: wgpu::PipelineCompilationOptions {
                    zero_initialize_workgroup_memory: false,
                    ..Default::default()
                },
                cache: None,
            })
    }

    fn run_unchecked(&self, kernel: &Kernel, before: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, String> {
        let pipeline = self.pipeline(kernel);
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let buffers: Vec<wgpu::Buffer> = kernel
            .bindings
            .iter()
            .zip(before)
            .map(|(binding, bytes)| {
                let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
                    label: None,
                    size: binding.bytes,
                    usage,
                    mapped_at_creation: false,
                });
                let end = bytes
                    .len()
                    .min(usize::try_from(binding.bytes).unwrap_or(usize::MAX));
                self.queue.write_buffer(&buffer, 0, &bytes[..end]);
                buffer
            })
            .collect();
        let entries: Vec<wgpu::BindGroupEntry<'_>> = (0u32..)
            .zip(&buffers)
            .map(|(binding, buffer)| wgpu::BindGroupEntry {
                binding,
                resource: buffer.as_entire_binding(),
            })
            .collect();
        let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &entries,
        });
        let mut encoder = self.device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(&pipeline);
            pass.set_bind_group(0, &group, &[]);
            let [x, y, z] = kernel.groups;
            pass.dispatch_workgroups(x, y, z);
        }
        let reads: Vec<wgpu::Buffer> = buffers
            .iter()
            .map(|buffer| {
                let read = self.device.create_buffer(&wgpu::BufferDescriptor {
                    label: None,
                    size: buffer.size(),
                    usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
                    mapped_at_creation: false,
                });
                encoder.copy_buffer_to_buffer(buffer, 0, &read, 0, buffer.size());
                read
            })
            .collect();
        self.queue.submit([encoder.finish()]);
        for read in &reads {
            read.slice(..).map_async(wgpu::MapMode::Read, |_| ());
        }
        self.device
            .poll(wgpu::PollType::wait_indefinitely())
            .map_err(|error| error.to_string())?;
        reads
            .iter()
            .map(|read| {
                let bytes = read
                    .slice(..)
                    .get_mapped_range()
                    .map_err(|error| error.to_string())?;
                Ok(bytes.to_vec())
            })
            .collect()
    }
}

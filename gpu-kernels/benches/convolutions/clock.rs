//! A device with a clock: runs a kernel several times in a row and reads the GPU's own times.

use polychip_gpu_kernels::{Features, Kernel, Limits, Sample};

/// Launches between two readings of the clock.
const LAUNCHES: u32 = 24;

/// Readings of which the median counts.
const READINGS: usize = 7;

/// An open device.
pub(crate) struct Clock {
    device: wgpu::Device,
    queue: wgpu::Queue,
    period_ns: f64,
    pub(crate) limits: Limits,
    pub(crate) name: String,
}

impl Clock {
    pub(crate) fn open() -> Result<Clock, String> {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
        let adapter = pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions {
            power_preference: wgpu::PowerPreference::HighPerformance,
            ..Default::default()
        }))
        .map_err(|error| format!("no GPU: {error}"))?;
        let wanted = wgpu::Features::SHADER_F16
            | wgpu::Features::SUBGROUP
            | wgpu::Features::SUBGROUP_BARRIER
            | wgpu::Features::TIMESTAMP_QUERY
            | wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX;
        let features = adapter.features() & wanted;
        if !features.contains(wgpu::Features::TIMESTAMP_QUERY) {
            return Err("the GPU has no clock".into());
        }
        let limits = adapter.limits();
        // SAFETY: kernels of ours only, with matrix shapes that the adapter lists.
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
        let period_ns = f64::from(queue.get_timestamp_period());
        Ok(Clock {
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
                    int64: false,
                    subgroups: features.contains(wgpu::Features::SUBGROUP | wgpu::Features::SUBGROUP_BARRIER),
                    dot4: true,
                    cooperative: cooperative.unwrap_or(0),
                },
            },
            device,
            queue,
            period_ns,
            name: format!("{} ({})", info.name, info.driver_info),
        })
    }

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

    /// Buffers that hold a sample.
    pub(crate) fn buffers(&self, kernel: &Kernel, sample: &Sample) -> Vec<wgpu::Buffer> {
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        kernel
            .bindings
            .iter()
            .zip(&sample.before)
            .map(|(binding, values)| {
                let bytes = values.bytes();
                let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
                    label: None,
                    size: binding.bytes.max(bytes.len() as u64),
                    usage,
                    mapped_at_creation: false,
                });
                self.queue.write_buffer(&buffer, 0, &bytes);
                buffer
            })
            .collect()
    }

    /// The median time of a launch in microseconds, and what is wrong with the values.
    pub(crate) fn time(
        &self,
        kernel: &Kernel,
        pipeline: &wgpu::ComputePipeline,
        buffers: &[wgpu::Buffer],
        sample: &Sample,
    ) -> (f64, Option<String>) {
        let entries: Vec<wgpu::BindGroupEntry<'_>> = (0u32..)
            .zip(buffers)
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
        let queries = self.device.create_query_set(&wgpu::QuerySetDescriptor {
            label: None,
            ty: wgpu::QueryType::Timestamp,
            count: 2,
        });
        let output = buffers.last().expect("invariant: a kernel has an output");
        let read = |size, usage| {
            self.device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size,
                usage: usage | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            })
        };
        let resolved = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: 16,
            usage: wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC,
            mapped_at_creation: false,
        });
        let mut times = Vec::new();
        for reading in 0..=READINGS {
            let stamps = read(16, wgpu::BufferUsages::MAP_READ);
            let mut encoder = self.device.create_command_encoder(&Default::default());
            {
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
                    label: None,
                    timestamp_writes: Some(wgpu::ComputePassTimestampWrites {
                        query_set: &queries,
                        beginning_of_pass_write_index: Some(0),
                        end_of_pass_write_index: Some(1),
                    }),
                });
                pass.set_pipeline(pipeline);
                pass.set_bind_group(0, &group, &[]);
                let [x, y, z] = kernel.groups;
                for _ in 0..LAUNCHES {
                    pass.dispatch_workgroups(x, y, z);
                }
            }
            encoder.resolve_query_set(&queries, 0..2, &resolved, 0);
            encoder.copy_buffer_to_buffer(&resolved, 0, &stamps, 0, 16);
            self.queue.submit([encoder.finish()]);
            let bytes = self.fetch(&stamps);
            let stamp =
                |i: usize| u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().expect("eight bytes"));
            // the first one warms
            if reading > 0 {
                let ticks = stamp(1).saturating_sub(stamp(0)) as f64;
                times.push(ticks * self.period_ns / 1000.0 / f64::from(LAUNCHES));
            }
        }
        times.sort_by(f64::total_cmp);
        let result = read(output.size(), wgpu::BufferUsages::MAP_READ);
        let mut encoder = self.device.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(output, 0, &result, 0, output.size());
        self.queue.submit([encoder.finish()]);
        let bytes = self.fetch(&result);
        // nothing of this kernel may answer for the next one
        self.queue
            .write_buffer(output, 0, &vec![0xff; output.size() as usize]);
        let wrong = sample.judge(sample.after.len() - 1, &bytes).err();
        (times[times.len() / 2], wrong)
    }

    fn fetch(&self, buffer: &wgpu::Buffer) -> Vec<u8> {
        buffer.slice(..).map_async(wgpu::MapMode::Read, |_| ());
        self.device
            .poll(wgpu::PollType::wait_indefinitely())
            .expect("the device answers");
        buffer.slice(..).get_mapped_range().expect("mapped").to_vec()
    }
}

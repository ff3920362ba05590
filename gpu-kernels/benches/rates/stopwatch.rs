//! Times of launches, by the device's own clock, and of submissions, by the host's.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use polychip_gpu_kernels::Kernel;

use crate::device::Gpu;

/// A kernel with its memory, ready to launch.
pub(crate) struct Launch {
    pipeline: wgpu::ComputePipeline,
    group: wgpu::BindGroup,
    groups: [u32; 3],
    buffers: Vec<wgpu::Buffer>,
}

/// A device and the clock on it.
pub(crate) struct Stopwatch {
    gpu: Arc<Gpu>,
    stamps: wgpu::QuerySet,
    resolved: wgpu::Buffer,
    read: wgpu::Buffer,
}

impl Stopwatch {
    /// The error names what the device lacks.
    pub(crate) fn new(gpu: Arc<Gpu>) -> Result<Stopwatch, String> {
        if !gpu.device.features().contains(wgpu::Features::TIMESTAMP_QUERY) {
            return Err(format!("{} has no timestamps", gpu.name));
        }
        let stamps = gpu.device.create_query_set(&wgpu::QuerySetDescriptor {
            label: None,
            ty: wgpu::QueryType::Timestamp,
            count: 2,
        });
        let buffer = |usage| {
            gpu.device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: 256,
                usage: usage | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            })
        };
        let resolved = buffer(wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC);
        let read = buffer(wgpu::BufferUsages::MAP_READ);
        Ok(Stopwatch {
            gpu,
            stamps,
            resolved,
            read,
        })
    }

    /// Makes the pipeline and memory of a kernel, with these bytes in its bindings.
    pub(crate) fn launch(&self, kernel: &Kernel, before: &[&[u8]]) -> Result<Launch, String> {
        let device = &self.gpu.device;
        let scope = device.push_error_scope(wgpu::ErrorFilter::Validation);
        let text = wgpu::ShaderModuleDescriptor {
            label: Some(&kernel.variant),
            source: wgpu::ShaderSource::Wgsl(kernel.wgsl.as_str().into()),
        };
        // SAFETY: kernels of this crate guard their edges and their loops end; the tests run them checked.
        let module =
            unsafe { device.create_shader_module_trusted(text, wgpu::ShaderRuntimeChecks::unchecked()) };
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(&kernel.variant),
            layout: None,
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions {
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache: None,
        });
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let buffers: Vec<wgpu::Buffer> = kernel
            .bindings
            .iter()
            .enumerate()
            .map(|(index, binding)| {
                let buffer = device.create_buffer(&wgpu::BufferDescriptor {
                    label: None,
                    size: binding.bytes,
                    usage,
                    mapped_at_creation: false,
                });
                if let Some(bytes) = before.get(index) {
                    let end = bytes
                        .len()
                        .min(usize::try_from(binding.bytes).unwrap_or(usize::MAX));
                    self.gpu.queue.write_buffer(&buffer, 0, &bytes[..end]);
                }
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
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &entries,
        });
        self.gpu.queue.submit([]);
        match pollster::block_on(scope.pop()) {
            Some(error) => Err(format!("{}: {error}", kernel.variant)),
            None => Ok(Launch {
                pipeline,
                group,
                groups: kernel.groups,
                buffers,
            }),
        }
    }

    /// Commands of this many launches, each after the one before it, between two timestamps.
    fn encode(&self, launch: &Launch, count: u32) -> wgpu::CommandBuffer {
        let mut encoder = self.gpu.device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
                label: None,
                timestamp_writes: Some(wgpu::ComputePassTimestampWrites {
                    query_set: &self.stamps,
                    beginning_of_pass_write_index: Some(0),
                    end_of_pass_write_index: Some(1),
                }),
            });
            pass.set_pipeline(&launch.pipeline);
            pass.set_bind_group(0, &launch.group, &[]);
            let [x, y, z] = launch.groups;
            for _ in 0..count {
                pass.dispatch_workgroups(x, y, z);
            }
        }
        encoder.resolve_query_set(&self.stamps, 0..2, &self.resolved, 0);
        encoder.copy_buffer_to_buffer(&self.resolved, 0, &self.read, 0, 16);
        encoder.finish()
    }

    fn wait(&self) -> Result<(), String> {
        self.gpu
            .device
            .poll(wgpu::PollType::wait_indefinitely())
            .map(|_| ())
            .map_err(|error| error.to_string())
    }

    /// Nanoseconds on the device of this many launches.
    fn once(&self, launch: &Launch, count: u32) -> Result<f64, String> {
        self.gpu.queue.submit([self.encode(launch, count)]);
        self.read.slice(..).map_async(wgpu::MapMode::Read, |_| ());
        self.wait()?;
        let stamps: [u64; 2] = {
            let bytes = self
                .read
                .slice(..16)
                .get_mapped_range()
                .map_err(|error| error.to_string())?;
            let (words, _) = bytes.as_chunks::<8>();
            [u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])]
        };
        self.read.unmap();
        let period = f64::from(self.gpu.queue.get_timestamp_period());
        Ok(stamps[1].saturating_sub(stamps[0]) as f64 * period)
    }

    /// Keeps the device busy for this long: idle clocks are up to four times slower.
    pub(crate) fn warm_up(&self, launch: &Launch, time: Duration) -> Result<(), String> {
        let start = Instant::now();
        let mut count = 1;
        while start.elapsed() < time {
            let took = self.once(launch, count)?.max(1.0);
            // pauses of the host between submissions would let the clock fall
            count = (f64::from(count) * 5e6 / took).clamp(1.0, 1000.0) as u32;
        }
        Ok(())
    }

    /// Median nanoseconds on the device of one launch among dependent ones, of some milliseconds in all.
    pub(crate) fn time(&self, launch: &Launch) -> Result<f64, String> {
        let first = self.once(launch, 1)?.min(self.once(launch, 1)?).max(1.0);
        // short samples, with the host's pauses between them, let the clock fall
        let count = (3e7 / first).clamp(1.0, 500.0) as u32;
        let samples = if self.gpu.software { 3 } else { 11 };
        let times: Result<Vec<f64>, String> = (0..samples).map(|_| self.once(launch, count)).collect();
        Ok(median(times?) / f64::from(count))
    }

    /// Median nanoseconds on the host from encoding this many launches to seeing them done, by asking without pause.
    pub(crate) fn latency(&self, launch: &Launch, count: u32) -> Result<f64, String> {
        let samples = if self.gpu.software { 20 } else { 200 };
        let mut times = Vec::new();
        for _ in 0..samples {
            let start = Instant::now();
            let mut encoder = self.gpu.device.create_command_encoder(&Default::default());
            {
                let mut pass = encoder.begin_compute_pass(&Default::default());
                pass.set_pipeline(&launch.pipeline);
                pass.set_bind_group(0, &launch.group, &[]);
                let [x, y, z] = launch.groups;
                for _ in 0..count {
                    pass.dispatch_workgroups(x, y, z);
                }
            }
            let submission = self.gpu.queue.submit([encoder.finish()]);
            loop {
                let look = wgpu::PollType::Wait {
                    submission_index: Some(submission.clone()),
                    timeout: Some(Duration::ZERO),
                };
                match self.gpu.device.poll(look) {
                    Ok(_) => break,
                    Err(wgpu::PollError::Timeout) => {}
                    Err(error) => return Err(error.to_string()),
                }
            }
            times.push(start.elapsed().as_nanos() as f64);
        }
        Ok(median(times))
    }

    /// The bytes of a binding.
    pub(crate) fn read(&self, launch: &Launch, binding: usize) -> Result<Vec<u8>, String> {
        let buffer = &launch.buffers[binding];
        let read = self.gpu.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: buffer.size(),
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let mut encoder = self.gpu.device.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(buffer, 0, &read, 0, buffer.size());
        self.gpu.queue.submit([encoder.finish()]);
        read.slice(..).map_async(wgpu::MapMode::Read, |_| ());
        self.wait()?;
        let bytes = read
            .slice(..)
            .get_mapped_range()
            .map_err(|error| error.to_string())?;
        Ok(bytes.to_vec())
    }
}

/// As `polychip_profile::median`; kernels depend on no other package of ours.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

//! A device with a clock: runs a kernel several times in a row and reads the GPU's own times.

use std::sync::Arc;

use polychip_gpu_kernels::{Kernel, Sample};

use crate::device::Gpu;

/// Launches between two readings of the clock.
const LAUNCHES: u32 = 24;

/// Readings of which the median counts.
const READINGS: usize = 7;

/// An open device.
pub(crate) struct Clock {
    pub(crate) gpu: Arc<Gpu>,
    period_ns: f64,
}

impl Clock {
    /// The error says why there is no device, or what it lacks.
    pub(crate) fn open() -> Result<Clock, String> {
        let gpu = Gpu::open()?;
        if !gpu.device.features().contains(wgpu::Features::TIMESTAMP_QUERY) {
            return Err(format!("{} has no timestamps", gpu.name));
        }
        let period_ns = f64::from(gpu.queue.get_timestamp_period());
        Ok(Clock { gpu, period_ns })
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
                let buffer = self.gpu.device.create_buffer(&wgpu::BufferDescriptor {
                    label: None,
                    size: binding.bytes.max(bytes.len() as u64),
                    usage,
                    mapped_at_creation: false,
                });
                self.gpu.queue.write_buffer(&buffer, 0, &bytes);
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
        let group = self.gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &entries,
        });
        let queries = self.gpu.device.create_query_set(&wgpu::QuerySetDescriptor {
            label: None,
            ty: wgpu::QueryType::Timestamp,
            count: 2,
        });
        let output = buffers.last().expect("invariant: a kernel has an output");
        let read = |size, usage| {
            self.gpu.device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size,
                usage: usage | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            })
        };
        let resolved = self.gpu.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: 16,
            usage: wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC,
            mapped_at_creation: false,
        });
        let mut times = Vec::new();
        for reading in 0..=READINGS {
            let stamps = read(16, wgpu::BufferUsages::MAP_READ);
            let mut encoder = self.gpu.device.create_command_encoder(&Default::default());
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
            self.gpu.queue.submit([encoder.finish()]);
            let bytes = self.fetch(&stamps);
            let stamp = |i: usize| {
                u64::from_le_bytes(
                    bytes[8 * i..8 * i + 8]
                        .try_into()
                        .expect("invariant: eight bytes"),
                )
            };
            // the first one warms
            if reading > 0 {
                let ticks = stamp(1).saturating_sub(stamp(0)) as f64;
                times.push(ticks * self.period_ns / 1000.0 / f64::from(LAUNCHES));
            }
        }
        times.sort_by(f64::total_cmp);
        let result = read(output.size(), wgpu::BufferUsages::MAP_READ);
        let mut encoder = self.gpu.device.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(output, 0, &result, 0, output.size());
        self.gpu.queue.submit([encoder.finish()]);
        let bytes = self.fetch(&result);
        // nothing of this kernel may answer for the next one
        self.gpu
            .queue
            .write_buffer(output, 0, &vec![0xff; output.size() as usize]);
        let wrong = sample.judge(sample.after.len() - 1, &bytes).err();
        (times[times.len() / 2], wrong)
    }

    fn fetch(&self, buffer: &wgpu::Buffer) -> Vec<u8> {
        buffer.slice(..).map_async(wgpu::MapMode::Read, |_| ());
        self.gpu
            .device
            .poll(wgpu::PollType::wait_indefinitely())
            .expect("the device is there as long as the benchmark runs");
        buffer
            .slice(..)
            .get_mapped_range()
            .expect("invariant: mapped by the wait before")
            .to_vec()
    }
}

//! Launches as commands of Vulkan's, recorded once and submitted as often as wanted.
//!
//! Why: wgpu encodes each run anew and puts a barrier before each launch; on an NVIDIA H200 a run spent more time
//! in that than the GPU in a small model.
//!
//! Invariants:
//! 1. A recording is under way at most once at a time; the submitter holds it until it has ended.
//! 2. It holds the pipelines and the memory that it names. What the GPU may still be executing is never freed.
//! 3. Launches wait for each other where one writes what the other touches, and for whatever the queue was given
//!    before the recording; what is written is seen by whatever comes behind it, the host included.
//!
//! Not here: when it is submitted (`crate::exec`), the queue (`timeline`).

#![allow(unsafe_code, reason = "calls of Vulkan, and wgpu's own entries to it")]

use std::sync::Arc;

use ash::vk;
use polychip_sdk::{Error, ErrorKind, Result};
use wgpu::hal::api::Vulkan;

use super::barriers::{Pending, Touch};
use super::command_queue::{CommandQueue, Submission};
#[cfg(any(target_os = "linux", target_os = "android"))]
use super::foreign::Way;
use super::launch::{BufferBinding, Launch};
use super::memory::{MemoryBlock, Owner};
use super::pipeline::Pipeline;
use super::timeline::Timeline;
use super::vulkan::{Raw, failed};

/// Recorded launches.
pub(super) struct Recording {
    raw: Arc<Raw>,
    pool: vk::CommandPool,
    commands: Vec<vk::CommandBuffer>,
    descriptors: vk::DescriptorPool,
    /// Begin and end; null unless requested.
    times: vk::QueryPool,
    /// The last submission.
    under_way: Option<(Arc<Timeline>, u64)>,
    held: Vec<(Arc<Pipeline>, Vec<Arc<MemoryBlock>>)>,
}

impl Drop for Recording {
    fn drop(&mut self) {
        let ended = match &self.under_way {
            // a lost device executes nothing any more
            Some((timeline, number)) => timeline.wait(*number, std::time::Duration::ZERO).unwrap_or(true),
            None => true,
        };
        if !ended {
            std::mem::forget(std::mem::take(&mut self.held));
            std::mem::forget(Arc::clone(&self.raw));
            return;
        }
        let device = self.raw.device();
        // SAFETY: nothing of it is executed; with the pool go its commands.
        unsafe { device.destroy_command_pool(self.pool, None) }
        // SAFETY: as above; with the pool go its sets.
        unsafe { device.destroy_descriptor_pool(self.descriptors, None) }
        // SAFETY: as above.
        unsafe { device.destroy_query_pool(self.times, None) }
    }
}

const WRITES: vk::AccessFlags = vk::AccessFlags::SHADER_WRITE;
const TOUCHES: vk::AccessFlags =
    vk::AccessFlags::from_raw(vk::AccessFlags::SHADER_READ.as_raw() | vk::AccessFlags::SHADER_WRITE.as_raw());
const COMPUTES: vk::PipelineStageFlags = vk::PipelineStageFlags::COMPUTE_SHADER;

impl Recording {
    /// Records launches for a command queue.
    ///
    /// # Errors
    /// Where the driver has no memory for the commands.
    pub(super) fn new(
        raw: &Arc<Raw>,
        queue_index: usize,
        launches: &[Launch<'_>],
        timed: bool,
    ) -> Result<Recording> {
        let device = raw.device();
        let out = |result| failed("commands cannot be recorded", result);
        // null handles are let go of without effect
        let mut made = Recording {
            raw: Arc::clone(raw),
            pool: vk::CommandPool::null(),
            commands: Vec::new(),
            descriptors: vk::DescriptorPool::null(),
            times: vk::QueryPool::null(),
            under_way: None,
            held: Vec::new(),
        };
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(raw.family(queue_index));
        // SAFETY: a family of this device.
        made.pool = unsafe { device.create_command_pool(&info, None) }.map_err(out)?;
        if timed {
            let info = vk::QueryPoolCreateInfo::default()
                .query_type(vk::QueryType::TIMESTAMP)
                .query_count(2);
            // SAFETY: a valid description.
            made.times = unsafe { device.create_query_pool(&info, None) }.map_err(out)?;
        }
        let chunks: Vec<&[Launch<'_>]> = match raw.at_once {
            Some(count) if launches.len() > count => launches.chunks(count.max(1)).collect(),
            _ => vec![launches],
        };
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(made.pool)
            .command_buffer_count(chunks.len() as u32);
        // SAFETY: a live pool, which no other thread knows.
        made.commands = unsafe { device.allocate_command_buffers(&info) }.map_err(out)?;
        let sets = made.describe(launches)?;
        let mut sets = sets.into_iter();
        let mut pending = Pending::default();
        for (index, chunk) in chunks.iter().enumerate() {
            let commands = made.commands[index];
            let info = vk::CommandBufferBeginInfo::default();
            // SAFETY: a fresh command buffer.
            unsafe { device.begin_command_buffer(commands, &info) }.map_err(out)?;
            if index == 0 {
                #[cfg(any(target_os = "linux", target_os = "android"))]
                made.hand_over(commands, launches, Way::Take)?;
                made.open(commands);
            }
            for (launch, set) in chunk.iter().zip(&mut sets) {
                made.launch(commands, launch, set, &mut pending)?;
            }
            if index + 1 == chunks.len() {
                made.close(commands, launches);
                #[cfg(any(target_os = "linux", target_os = "android"))]
                made.hand_over(commands, launches, Way::Give)?;
            }
            // SAFETY: recording was begun.
            unsafe { device.end_command_buffer(commands) }.map_err(out)?;
        }
        for launch in launches {
            let blocks = launch
                .bindings
                .iter()
                .map(|bound| Arc::clone(bound.block))
                .collect();
            made.held.push((Arc::clone(launch.pipeline), blocks));
        }
        Ok(made)
    }

    /// What each launch binds; a launch that binds what the last one bound shares its set.
    fn describe(&mut self, launches: &[Launch<'_>]) -> Result<Vec<vk::DescriptorSet>> {
        let device = self.raw.device();
        let out = |result| failed("bindings cannot be recorded", result);
        let count = launches.iter().map(|launch| launch.bindings.len() as u32).sum();
        if count == 0 {
            return Ok(vec![vk::DescriptorSet::null(); launches.len()]);
        }
        let sizes = [vk::DescriptorPoolSize::default()
            .ty(vk::DescriptorType::STORAGE_BUFFER)
            .descriptor_count(count)];
        let info = vk::DescriptorPoolCreateInfo::default()
            .max_sets(launches.len() as u32)
            .pool_sizes(&sizes);
        // SAFETY: a valid description.
        self.descriptors = unsafe { device.create_descriptor_pool(&info, None) }.map_err(out)?;
        let mut sets: Vec<vk::DescriptorSet> = Vec::with_capacity(launches.len());
        for (index, launch) in launches.iter().enumerate() {
            if let (Some(before), Some(&set)) = (index.checked_sub(1), sets.last())
                && same_bindings(&launches[before], launch)
            {
                sets.push(set);
                continue;
            }
            let layouts = [vulkan(launch)?.set];
            let info = vk::DescriptorSetAllocateInfo::default()
                .descriptor_pool(self.descriptors)
                .set_layouts(&layouts);
            // SAFETY: a live pool of enough sets, which no other thread knows.
            let set = unsafe { device.allocate_descriptor_sets(&info) }.map_err(out)?[0];
            let mut buffers = Vec::with_capacity(launch.bindings.len());
            for bound in &launch.bindings {
                buffers.push([vk::DescriptorBufferInfo::default()
                    .buffer(handle(bound.block)?)
                    .offset(bound.offset)
                    .range(bound.bytes)]);
            }
            let writes: Vec<vk::WriteDescriptorSet<'_>> = (0u32..)
                .zip(&buffers)
                .map(|(binding, buffer)| {
                    vk::WriteDescriptorSet::default()
                        .dst_set(set)
                        .dst_binding(binding)
                        .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                        .buffer_info(buffer)
                })
                .collect();
            // SAFETY: a fresh set; the buffers live as long as the recording, which holds them.
            unsafe { device.update_descriptor_sets(&writes, &[]) }
            sets.push(set);
        }
        Ok(sets)
    }

    /// Takes memory over from others, or gives it back.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn hand_over(&self, commands: vk::CommandBuffer, launches: &[Launch<'_>], way: Way) -> Result<()> {
        let mut buffers = Vec::new();
        for bound in launches.iter().flat_map(|launch| &launch.bindings) {
            if bound.block.owner == Owner::Foreign {
                let buffer = handle(bound.block)?;
                if !buffers.contains(&buffer) {
                    buffers.push(buffer);
                }
            }
        }
        if !buffers.is_empty() {
            self.raw.record_hand_over(commands, &buffers, way);
        }
        Ok(())
    }

    /// Waits for what the queue was given before, and takes the time.
    fn open(&self, commands: vk::CommandBuffer) {
        let device = self.raw.device();
        let barrier = [vk::MemoryBarrier::default()
            .src_access_mask(WRITES | vk::AccessFlags::TRANSFER_WRITE | vk::AccessFlags::HOST_WRITE)
            .dst_access_mask(TOUCHES)];
        // SAFETY: commands that are being recorded.
        unsafe {
            device.cmd_pipeline_barrier(
                commands,
                COMPUTES | vk::PipelineStageFlags::TRANSFER | vk::PipelineStageFlags::HOST,
                COMPUTES,
                vk::DependencyFlags::empty(),
                &barrier,
                &[],
                &[],
            );
        }
        if self.times != vk::QueryPool::null() {
            if !self.raw.resets_queries {
                // SAFETY: as above; the pool has two places.
                unsafe { device.cmd_reset_query_pool(commands, self.times, 0, 2) }
            }
            // SAFETY: the place was reset.
            unsafe { device.cmd_write_timestamp(commands, COMPUTES, self.times, 0) }
        }
    }

    fn launch(
        &self,
        commands: vk::CommandBuffer,
        launch: &Launch<'_>,
        set: vk::DescriptorSet,
        pending: &mut Pending,
    ) -> Result<()> {
        use vk::Handle as _;
        let device = self.raw.device();
        let mut touches = Vec::with_capacity(launch.bindings.len());
        for bound in &launch.bindings {
            touches.push(Touch {
                buffer: handle(bound.block)?.as_raw(),
                start: bound.offset,
                end: bound.offset.saturating_add(bound.bytes),
                writes: bound.writes,
            });
        }
        if pending.follows(&touches) {
            let barrier = [vk::MemoryBarrier::default()
                .src_access_mask(WRITES)
                .dst_access_mask(TOUCHES)];
            let none = vk::DependencyFlags::empty();
            // SAFETY: commands that are being recorded.
            unsafe {
                device.cmd_pipeline_barrier(commands, COMPUTES, COMPUTES, none, &barrier, &[], &[]);
            }
        }
        let pipeline = vulkan(launch)?;
        let point = vk::PipelineBindPoint::COMPUTE;
        // SAFETY: a live pipeline, which the recording holds.
        unsafe { device.cmd_bind_pipeline(commands, point, pipeline.pipeline) }
        if set != vk::DescriptorSet::null() {
            // SAFETY: a set of the pipeline's layout.
            unsafe { device.cmd_bind_descriptor_sets(commands, point, pipeline.layout, 0, &[set], &[]) }
        }
        let [x, y, z] = launch.groups;
        // SAFETY: within the device's limits: kernels are checked when they are loaded.
        unsafe { device.cmd_dispatch(commands, x, y, z) }
        Ok(())
    }

    /// Takes the time, and shows what was written to whatever comes next.
    fn close(&self, commands: vk::CommandBuffer, launches: &[Launch<'_>]) {
        let device = self.raw.device();
        let mut stages = vk::PipelineStageFlags::TRANSFER;
        let mut access = vk::AccessFlags::TRANSFER_READ | vk::AccessFlags::TRANSFER_WRITE;
        let written = launches.iter().flat_map(|launch| &launch.bindings);
        for bound in written.filter(|bound| bound.writes) {
            match bound.block.owner {
                Owner::Device => {}
                #[cfg(any(target_os = "linux", target_os = "android"))]
                Owner::Foreign => {}
                Owner::Host => {
                    stages |= vk::PipelineStageFlags::HOST;
                    access |= vk::AccessFlags::HOST_READ;
                }
            }
        }
        let barrier = [vk::MemoryBarrier::default()
            .src_access_mask(WRITES)
            .dst_access_mask(access)];
        let none = vk::DependencyFlags::empty();
        // SAFETY: commands that are being recorded.
        unsafe { device.cmd_pipeline_barrier(commands, COMPUTES, stages, none, &barrier, &[], &[]) }
        if self.times != vk::QueryPool::null() {
            // SAFETY: the place was reset.
            unsafe { device.cmd_write_timestamp(commands, COMPUTES, self.times, 1) }
        }
    }

    /// Puts the launches into the queue of a command queue.
    ///
    /// # Errors
    /// `DeviceLost` and others, with the driver's message.
    pub(super) fn submit(&mut self, command_queue: &CommandQueue) -> Result<Submission> {
        let Some((timeline, other)) = command_queue.timelines() else {
            return Err(Error::unsupported("the driver does not count what has ended"));
        };
        if self.times != vk::QueryPool::null() && self.raw.resets_queries {
            // SAFETY: the feature is on, and nothing of the recording is under way (invariant 1).
            unsafe { self.raw.device().reset_query_pool(self.times, 0, 2) }
        }
        // SAFETY: not under way (invariant 1); what the commands use is held until they have ended (invariant 2).
        let number = unsafe { timeline.submit_recorded(&self.commands, other) }?;
        self.under_way = Some((Arc::clone(timeline), number));
        Ok(Submission::Number(number))
    }

    /// Begin and end of the last submission, which has ended, in ticks.
    pub(super) fn ticks(&self) -> Option<(u64, u64)> {
        if self.times == vk::QueryPool::null() {
            return None;
        }
        let mut times = [0u64; 2];
        let flags = vk::QueryResultFlags::TYPE_64;
        // SAFETY: a live pool of two places.
        unsafe {
            self.raw
                .device()
                .get_query_pool_results(self.times, 0, &mut times, flags)
        }
        .ok()?;
        Some((times[0], times[1]))
    }
}

/// Whether two launches of one kernel touch the same memory.
fn same_bindings(a: &Launch<'_>, b: &Launch<'_>) -> bool {
    let same = |(a, b): (&BufferBinding<'_>, &BufferBinding<'_>)| {
        Arc::ptr_eq(a.block, b.block) && a.offset == b.offset && a.bytes == b.bytes
    };
    Arc::ptr_eq(a.pipeline, b.pipeline)
        && a.bindings.len() == b.bindings.len()
        && a.bindings.iter().zip(&b.bindings).all(same)
}

fn vulkan<'a>(launch: &Launch<'a>) -> Result<&'a super::vulkan_pipeline::VulkanPipeline> {
    match &**launch.pipeline {
        Pipeline::Vulkan(pipeline) => Ok(pipeline),
        Pipeline::Wgpu { .. } => Err(Error::new(
            ErrorKind::Persistent,
            "a pipeline of wgpu's cannot be recorded",
        )),
    }
}

/// The raw buffer of a block, the same for all command queues.
fn handle(block: &MemoryBlock) -> Result<vk::Buffer> {
    // SAFETY: the guard is dropped here; nothing is destroyed through it.
    let buffer = unsafe { block.buffers[0].as_hal::<Vulkan>() }
        .ok_or_else(|| Error::new(ErrorKind::Persistent, "the memory is not Vulkan's"))?;
    // SAFETY: the block holds the buffer.
    Ok(unsafe { buffer.raw_handle() })
}

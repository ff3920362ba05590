//! The command queues of a device of raw Vulkan: a device of wgpu for each of its queues.

#![allow(unsafe_code, reason = "calls of Vulkan, and wgpu's own entries to it")]

use std::sync::Arc;

use polychip_sdk::{Error, ErrorKind, Result};
use wgpu::hal::api::Vulkan;

use super::adapter::GpuAdapter;
use super::command_queue::CommandQueue;
use super::timeline::Timeline;
use super::vulkan::{self, Opened, Raw};

/// Opens the device with its command queues, at most two.
///
/// # Errors
/// Where the driver refuses, with the driver's message.
pub(crate) fn open(
    found: &GpuAdapter,
    features: wgpu::Features,
    limits: &wgpu::Limits,
) -> Result<(Arc<Raw>, Vec<CommandQueue>)> {
    let Opened {
        raw,
        extensions,
        timelines,
    } = vulkan::open(found, features)?;
    // SAFETY: the guard is dropped here; nothing is destroyed through it.
    let adapter = unsafe { found.adapter.as_hal::<Vulkan>() }
        .ok_or_else(|| Error::unsupported("the adapter is not Vulkan's"))?;
    let mut command_queues = Vec::with_capacity(raw.queues().len());
    for location in raw.queues() {
        let held = Arc::clone(&raw);
        let hints = wgpu::MemoryHints::Performance;
        // SAFETY: made of this adapter with these extensions and features; held until the callback is dropped.
        let open = unsafe {
            adapter.device_from_raw(
                raw.device().clone(),
                Some(Box::new(move || drop(held))),
                &extensions,
                features,
                limits,
                &hints,
                location.family,
                location.queue,
            )
        }
        .map_err(|error| Error::new(ErrorKind::Persistent, format!("the GPU does not open: {error}")))?;
        let descriptor = super::pipeline::descriptor(features, limits);
        // SAFETY: opened of this adapter, with these features.
        let (device, queue) = unsafe { found.adapter.create_device_from_hal::<Vulkan>(open, &descriptor) }
            .map_err(|error| Error::new(ErrorKind::Persistent, format!("the GPU does not open: {error}")))?;
        // SAFETY: the device was made with this queue.
        let of_driver = unsafe { raw.device().get_device_queue(location.family, location.queue) };
        let timeline = timelines.then(|| Timeline::new(&raw, of_driver).ok()).flatten();
        command_queues.push(CommandQueue::new(device, queue, timeline));
    }
    if let [batch, urgent] = &mut command_queues[..] {
        batch.set_other(urgent);
        urgent.set_other(batch);
    }
    Ok((raw, command_queues))
}

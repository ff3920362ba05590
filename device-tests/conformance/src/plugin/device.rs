//! An open device: its information, support, sensors, settings and objects.

#![allow(unsafe_code)]

use std::sync::Arc;

use polychip_abi as abi;
use polychip_abi::Sized;
use polychip_host::FlatGraph;

use super::call::{Call, breach, checked, text};
use super::instance::Instance;

/// What a device says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the fields of `polychip_device_info`
pub struct DeviceFacts {
    pub kind: u32,
    pub flags: u32,
    pub import_kinds: u32,
    pub export_kinds: u32,
    pub import_alignment: u32,
    pub name: String,
    pub vendor: String,
    pub soc: String,
    pub driver: String,
    pub memory_bytes: u64,
    pub peak_macs_per_s: u64,
    pub peak_bytes_per_s: u64,
    /// Rate of the bus between the host's memory and its own, in bytes per second; 0 where there is none.
    pub link_bytes_per_s: u64,
    pub preemption: u32,
    pub queue_depth: u32,
    pub preemption_bound_ns: u64,
    pub switch_ns: u64,
}

/// What the sensors say: the record as it was filled.
pub type Telemetry = abi::polychip_telemetry;

/// The answer for one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// `POLYCHIP_SUPPORT_*`; 0 is yes.
    pub reason: u32,
    /// The words beside it.
    pub detail: String,
}

/// A setting of the device.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the fields of `polychip_operating_point`
pub struct Point {
    pub name: String,
    pub frequency_khz: u64,
    pub power_mw: u64,
}

/// An open device.
pub struct Device {
    instance: Arc<Instance>,
    index: u32,
    raw: *mut abi::polychip_device,
}

// SAFETY: the contract allows calls on a device from any thread.
unsafe impl Send for Device {}
// SAFETY: cases call from several threads what the contract states thread-safe.
unsafe impl Sync for Device {}

impl Instance {
    /// Opens a device.
    ///
    /// # Errors
    /// The call failed.
    pub fn open(self: &Arc<Self>, index: u32) -> Call<Arc<Device>> {
        let mut raw = std::ptr::null_mut();
        let call = self
            .table()
            .device_open
            .expect("invariant: required calls are checked");
        // SAFETY: the instance is alive and the out pointer is ours.
        checked("device_open", |record| unsafe {
            call(self.raw(), index, &raw mut raw, record)
        })?;
        if raw.is_null() {
            return Err(breach("device_open", "it returned no device"));
        }
        Ok(Arc::new(Device::new(Arc::clone(self), index, raw)))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if let Some(close) = self.table().device_close {
            // SAFETY: opened by this table, closed once, after what was made on it, which holds it.
            unsafe { close(self.raw) };
        }
    }
}

impl Device {
    pub(crate) fn new(instance: Arc<Instance>, index: u32, raw: *mut abi::polychip_device) -> Device {
        Device { instance, index, raw }
    }

    /// The calls.
    #[must_use]
    pub fn table(&self) -> &abi::polychip_plugin_table {
        self.instance.table()
    }

    /// The instance that opened it.
    #[must_use]
    pub fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    /// Its index.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The handle, for calls with wrong arguments.
    #[must_use]
    pub fn raw(&self) -> *mut abi::polychip_device {
        self.raw
    }

    /// What the device is.
    ///
    /// # Errors
    /// The call failed, or a text is not one.
    pub fn info(&self) -> Call<DeviceFacts> {
        let mut found = abi::polychip_device_info::sized();
        let call = self
            .table()
            .device_info
            .expect("invariant: required calls are checked");
        // SAFETY: the device is open and the record is ours.
        checked("device_info", |record| unsafe {
            call(self.raw, &raw mut found, record)
        })?;
        // SAFETY: the texts live as long as the device is open.
        let of = |span| unsafe { text("device_info", span) };
        Ok(DeviceFacts {
            kind: found.kind,
            flags: found.flags,
            import_kinds: found.import_kinds,
            export_kinds: found.export_kinds,
            import_alignment: found.import_alignment,
            name: of(found.name)?,
            vendor: of(found.vendor)?,
            soc: of(found.soc)?,
            driver: of(found.driver)?,
            memory_bytes: found.memory_bytes,
            peak_macs_per_s: found.peak_macs_per_s,
            peak_bytes_per_s: found.peak_bytes_per_s,
            link_bytes_per_s: found.link_bytes_per_s,
            preemption: found.preemption,
            queue_depth: found.queue_depth,
            preemption_bound_ns: found.preemption_bound_ns,
            switch_ns: found.switch_ns,
        })
    }

    /// The answer for each node of a graph.
    ///
    /// # Errors
    /// The call failed.
    pub fn support(&self, graph: &FlatGraph) -> Call<Vec<Answer>> {
        let mut rows = vec![abi::polychip_support::sized(); graph.node_count()];
        for row in &mut rows {
            // what the plugin does not write is not an answer
            row.reason = u32::MAX;
        }
        let call = self
            .table()
            .query_support
            .expect("invariant: required calls are checked");
        let stride = size_of::<abi::polychip_support>() as u64;
        // SAFETY: the graph is valid for the call and there is a record per node.
        checked("query_support", |record| unsafe {
            call(self.raw, graph.raw(), rows.as_mut_ptr(), stride, record)
        })?;
        rows.iter()
            .map(|row| {
                if row.reason == u32::MAX {
                    return Err(breach("query_support", "a node got no answer"));
                }
                if row.detail_len as usize > row.detail.len() {
                    return Err(breach("query_support", "a detail is longer than its record"));
                }
                Ok(Answer {
                    reason: row.reason,
                    detail: row.text(),
                })
            })
            .collect()
    }

    /// The first refusal of a graph, or nothing where every node is supported.
    ///
    /// # Errors
    /// The call failed.
    pub fn refusal(&self, graph: &FlatGraph) -> Call<Option<Answer>> {
        Ok(self.support(graph)?.into_iter().find(|answer| answer.reason != 0))
    }

    /// What the plugin expects nodes to cost as one part; nothing where it does not say.
    ///
    /// # Errors
    /// The call failed.
    pub fn estimate(&self, graph: &FlatGraph, nodes: &[u32]) -> Call<Option<abi::polychip_cost>> {
        let costs = self.estimate_parts(graph, &[nodes])?;
        Ok(costs.first().copied().filter(|cost| cost.valid != 0))
    }

    /// What the plugin expects each part to cost, by one call; nothing at all where it does not say.
    ///
    /// # Errors
    /// The call failed, or left a record as it was.
    pub fn estimate_parts(&self, graph: &FlatGraph, parts: &[&[u32]]) -> Call<Vec<abi::polychip_cost>> {
        let ends = parts.iter().scan(0, |end, part| {
            *end += part.len() as u64;
            Some(*end)
        });
        self.estimate_raw(graph, &parts.concat(), &ends.collect::<Vec<u64>>())
    }

    /// As [`Device::estimate_parts`], with the ends as they are given; the last is within the nodes.
    ///
    /// # Errors
    /// As [`Device::estimate_parts`].
    pub fn estimate_raw(
        &self,
        graph: &FlatGraph,
        nodes: &[u32],
        ends: &[u64],
    ) -> Call<Vec<abi::polychip_cost>> {
        let Some(call) = self.table().estimate else {
            return Ok(Vec::new());
        };
        assert!(ends.last().is_none_or(|&end| end <= nodes.len() as u64));
        let untouched = abi::polychip_cost {
            valid: u32::MAX,
            ..abi::polychip_cost::sized()
        };
        let mut costs = vec![untouched; ends.len()];
        let stride = size_of::<abi::polychip_cost>() as u64;
        // SAFETY: the graph is valid for the call, nodes and ends are slices, and there is a record per part.
        let done = checked("estimate", |record| unsafe {
            call(
                self.raw,
                graph.raw(),
                nodes.as_ptr(),
                ends.as_ptr(),
                ends.len() as u64,
                costs.as_mut_ptr(),
                stride,
                record,
            )
        });
        match done {
            Ok(()) if costs.iter().any(|cost| cost.valid == u32::MAX) => {
                Err(breach("estimate", "a part got no cost"))
            }
            Ok(()) => Ok(costs),
            Err(failure) if failure.status == abi::POLYCHIP_STATUS_UNSUPPORTED => Ok(Vec::new()),
            Err(failure) => Err(failure),
        }
    }

    /// The settings it can be put to, and the number that it states.
    ///
    /// # Errors
    /// The call failed, or a name is not one.
    pub fn operating_points(&self, capacity: usize) -> Call<Option<(Vec<Point>, u64)>> {
        let Some(call) = self.table().operating_points else {
            return Ok(None);
        };
        let mut points = vec![abi::polychip_operating_point::sized(); capacity];
        let mut count = 0;
        let stride = size_of::<abi::polychip_operating_point>() as u64;
        // SAFETY: there is room for the stated capacity.
        checked("operating_points", |record| unsafe {
            call(
                self.raw,
                points.as_mut_ptr(),
                capacity as u64,
                stride,
                &raw mut count,
                record,
            )
        })?;
        let written = usize::try_from(count).unwrap_or(usize::MAX).min(capacity);
        let points = points[..written]
            .iter()
            .map(|point| {
                Ok(Point {
                    // SAFETY: the name lives as long as the device is open.
                    name: unsafe { text("operating_points", point.name) }?,
                    frequency_khz: point.frequency_khz,
                    power_mw: point.power_mw,
                })
            })
            .collect::<Call<_>>()?;
        Ok(Some((points, count)))
    }

    /// Puts it to a setting; nothing where that is not offered.
    ///
    /// # Errors
    /// The call failed.
    pub fn set_operating_point(&self, index: u32) -> Call<Option<()>> {
        let Some(call) = self.table().set_operating_point else {
            return Ok(None);
        };
        // SAFETY: the device is open.
        checked("set_operating_point", |record| unsafe {
            call(self.raw, index, record)
        })?;
        Ok(Some(()))
    }

    /// What the sensors say; nothing where that is not offered.
    ///
    /// # Errors
    /// The call failed.
    pub fn telemetry(&self) -> Call<Option<Telemetry>> {
        let Some(call) = self.table().telemetry else {
            return Ok(None);
        };
        let mut found = Telemetry::sized();
        // SAFETY: the device is open and the record is ours.
        checked("telemetry", |record| unsafe {
            call(self.raw, &raw mut found, record)
        })?;
        Ok(Some(found))
    }

    /// Resets the device; nothing where that is not offered.
    ///
    /// # Errors
    /// The call failed.
    pub fn reset(&self) -> Call<Option<()>> {
        let Some(call) = self.table().device_reset else {
            return Ok(None);
        };
        // SAFETY: the device is open.
        checked("device_reset", |record| unsafe { call(self.raw, record) })?;
        Ok(Some(()))
    }
}

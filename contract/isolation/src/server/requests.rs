//! Requests as calls of the plugin.

#![allow(unsafe_code, reason = "the plugin's table is called here")]

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use polychip_abi as abi;
use polychip_abi::Sized;

use super::Server;
use super::calls::{checked, text, values};
use super::failure::failure;
use super::objects::{Buffer, Device, Executable, Handle};
use super::raw_graph::RawGraph;
use crate::graph_record::{EncodingRecord, GraphRecord};
use crate::message::{
    CostRecord, DeviceRecord, ExecutableRecord, FailureRecord, OptionsRecord, PortRecord, Reply, Request,
    SourceRecord, TelemetryRecord,
};
use crate::records::{CostRecords, SupportRecords};
use crate::shared_file::{self, SharedFile};

pub(super) type Result<T> = std::result::Result<T, FailureRecord>;
pub(super) type Answered = Result<(Reply, Option<OwnedFd>)>;

/// Most operating points that are read of a device.
const MOST_POINTS: usize = 256;

/// Status of a success that breaks the contract; the contract has no such status.
const BROKEN: u32 = u32::MAX;

/// Largest blob that is read, in bytes.
const MOST_BLOB: u64 = 1 << 40;

pub(super) const CHECKED: &str = "invariant: required calls are checked when the library is opened";

pub(super) fn optional<T>(call: Option<T>, name: &str) -> Result<T> {
    call.ok_or_else(|| {
        failure(
            abi::POLYCHIP_STATUS_UNSUPPORTED,
            format!("the plugin does not offer {name}"),
        )
    })
}

pub(super) fn no_output(name: &str) -> FailureRecord {
    failure(BROKEN, format!("{name} succeeded and returned nothing"))
}

pub(super) fn made<T>(raw: *mut T, name: &str) -> Result<Handle<T>> {
    if raw.is_null() {
        Err(no_output(name))
    } else {
        Ok(Handle(raw))
    }
}

pub(super) fn plain(reply: Reply) -> Answered {
    Ok((reply, None))
}

impl Server {
    pub(super) fn answer(&'static self, request: Request, mut descriptors: Vec<OwnedFd>) -> Answered {
        match request {
            Request::Create => self.create(),
            Request::Destroy => self.destroy(),
            Request::DeviceCount => self.device_count(),
            Request::DeviceOpen { index } => self.device_open(index),
            Request::DeviceClose { device } => {
                let device = self.objects.devices.remove(device)?;
                // SAFETY: an open device, closed once.
                unsafe { self.table.device_close.expect(CHECKED)(device.raw.0) };
                plain(Reply::Done)
            }
            Request::SetOperatingPoint { device, index } => {
                let device = self.objects.devices.get(device)?;
                let call = optional(self.table.set_operating_point, "set_operating_point")?;
                // SAFETY: an open device.
                checked(|error| unsafe { call(device.raw.0, index, error) })?;
                plain(Reply::Done)
            }
            Request::DeviceReset { device } => {
                let device = self.objects.devices.get(device)?;
                let call = optional(self.table.device_reset, "device_reset")?;
                // SAFETY: an open device.
                checked(|error| unsafe { call(device.raw.0, error) })?;
                plain(Reply::Done)
            }
            Request::Telemetry { device } => self.telemetry(device),
            Request::QuerySupport { device, graph } => self.query_support(device, graph, descriptors),
            Request::Estimate {
                device,
                graph,
                nodes,
                part_ends,
            } => self.estimate(device, graph, descriptors, (&nodes, &part_ends)),
            Request::Compile {
                device,
                graph,
                options,
            } => self.compile(device, graph, descriptors, &options),
            Request::BlobBytes { blob } => self.blob_bytes(blob),
            Request::BlobDestroy { blob } => {
                let blob = self.objects.blobs.remove(blob)?;
                // SAFETY: a blob of this table, destroyed once.
                unsafe { self.table.blob_destroy.expect(CHECKED)(blob.0) };
                plain(Reply::Done)
            }
            Request::Load {
                device,
                threads,
                source,
                graph,
            } => self.load(device, threads, &source, graph, descriptors),
            Request::ExecutableDestroy { executable } => {
                drop(self.objects.executables.remove(executable)?);
                plain(Reply::Done)
            }
            Request::BufferCreate {
                device,
                bytes,
                alignment,
            } => self.buffer_create(device, (bytes, alignment), first(&mut descriptors)?),
            Request::BufferImport {
                device,
                kind,
                offset,
                bytes,
            } => self.buffer_import(device, kind, (offset, bytes), first(&mut descriptors)?),
            Request::BufferExport { buffer, kind } => self.buffer_export(buffer, kind),
            Request::BufferBegin {
                buffer,
                access,
                offset,
                bytes,
            } => self.buffer_begin(buffer, access, offset, bytes),
            Request::BufferEnd { buffer } => self.buffer_end(buffer),
            Request::BufferDestroy { buffer } => {
                drop(self.objects.buffers.remove(buffer)?);
                plain(Reply::Done)
            }
            Request::Execute(run) => self.execute(&run),
            Request::FenceWait { fence, timeout_ns } => {
                let fence = self.objects.fences.get(fence)?;
                self.wait(&fence, timeout_ns)?;
                plain(Reply::Done)
            }
            Request::FenceShape { fence, port } => self.output_shape(fence, port),
            Request::FenceSteps { fence } => self.steps(fence),
            Request::FenceExport { fence } => self.fence_export(fence),
            Request::FenceImport { device, fence, slot } => {
                self.fence_import(device, fence, slot, &first(&mut descriptors)?)
            }
            Request::FencesDestroy { fences } => {
                for fence in fences {
                    drop(self.objects.fences.remove(fence));
                }
                plain(Reply::Done)
            }
            Request::Cancel { fence } => {
                let fence = self.objects.fences.get(fence)?;
                let call = optional(self.table.cancel, "cancel")?;
                // SAFETY: a live fence.
                checked(|error| unsafe { call(fence.raw.0, error) })?;
                plain(Reply::Done)
            }
        }
    }

    fn create(&'static self) -> Answered {
        let mut instance = self.instance.lock().unwrap_or_else(PoisonError::into_inner);
        if instance.is_some() {
            return Err(failure(abi::POLYCHIP_STATUS_BAD_ARGUMENT, "the instance exists"));
        }
        let services: &'static abi::polychip_host_services = Box::leak(Box::new(self.services.table()));
        let mut raw = std::ptr::null_mut();
        let call = self.table.create.expect(CHECKED);
        // SAFETY: the services live until the process ends.
        checked(|error| unsafe { call(services, &raw mut raw, error) })?;
        *instance = Some(made(raw, "create")?);
        plain(Reply::Done)
    }

    fn destroy(&self) -> Answered {
        let instance = self
            .instance
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(instance) = instance {
            // SAFETY: an instance of this table, destroyed once; the host closed its devices.
            unsafe { self.table.destroy.expect(CHECKED)(instance.0) };
        }
        plain(Reply::Done)
    }

    fn instance(&self) -> Result<Handle<abi::polychip_instance>> {
        let instance = *self.instance.lock().unwrap_or_else(PoisonError::into_inner);
        instance.ok_or_else(|| failure(abi::POLYCHIP_STATUS_BAD_ARGUMENT, "there is no instance"))
    }

    fn device_count(&self) -> Answered {
        let instance = self.instance()?;
        let mut count = 0;
        let call = self.table.device_count.expect(CHECKED);
        // SAFETY: a live instance.
        checked(|error| unsafe { call(instance.0, &raw mut count, error) })?;
        plain(Reply::Count(count))
    }

    fn device_open(&self, index: u32) -> Answered {
        let instance = self.instance()?;
        let mut raw = std::ptr::null_mut();
        let call = self.table.device_open.expect(CHECKED);
        // SAFETY: a live instance.
        checked(|error| unsafe { call(instance.0, index, &raw mut raw, error) })?;
        let raw = made(raw, "device_open")?;
        let described = self.describe(raw);
        let info = match described {
            Ok(info) => info,
            Err(failed) => {
                // SAFETY: opened above, closed once.
                unsafe { self.table.device_close.expect(CHECKED)(raw.0) };
                return Err(failed);
            }
        };
        let device = self.objects.devices.add(Device {
            raw,
            import_kinds: info.import_kinds,
            import_alignment: info.import_alignment,
        });
        plain(Reply::Device {
            device,
            info: Box::new(info),
        })
    }

    fn describe(&self, device: Handle<abi::polychip_device>) -> Result<DeviceRecord> {
        let mut info = abi::polychip_device_info::sized();
        let call = self.table.device_info.expect(CHECKED);
        // SAFETY: an open device.
        checked(|error| unsafe { call(device.0, &raw mut info, error) })?;
        // SAFETY: a device's texts live as long as it is open.
        let text = |span: abi::polychip_text| unsafe { text(span) };
        let mut points = vec![abi::polychip_operating_point::sized(); MOST_POINTS];
        let mut count = 0u64;
        if let Some(call) = self.table.operating_points {
            let stride = size_of::<abi::polychip_operating_point>() as u64;
            let (first, capacity) = (points.as_mut_ptr(), points.len() as u64);
            // SAFETY: an open device, and room for the stated capacity.
            checked(|error| unsafe { call(device.0, first, capacity, stride, &raw mut count, error) })?;
        }
        points.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        Ok(DeviceRecord {
            kind: info.kind,
            flags: info.flags,
            import_kinds: info.import_kinds,
            export_kinds: info.export_kinds,
            import_alignment: info.import_alignment,
            name: text(info.name),
            vendor: text(info.vendor),
            soc: text(info.soc),
            driver: text(info.driver),
            settings: text(info.settings),
            memory_bytes: info.memory_bytes,
            peak_macs_per_s: info.peak_macs_per_s,
            peak_bytes_per_s: info.peak_bytes_per_s,
            rates_measured_s: info.rates_measured_s,
            link_bytes_per_s: info.link_bytes_per_s,
            preemption: info.preemption,
            queue_depth: info.queue_depth,
            preemption_bound_ns: info.preemption_bound_ns,
            switch_ns: info.switch_ns,
            points: points
                .iter()
                .map(|point| (text(point.name), point.frequency_khz, point.power_mw))
                .collect(),
        })
    }

    fn telemetry(&self, device: u64) -> Answered {
        let device = self.objects.devices.get(device)?;
        let call = optional(self.table.telemetry, "telemetry")?;
        let mut found = abi::polychip_telemetry::sized();
        // SAFETY: an open device.
        checked(|error| unsafe { call(device.raw.0, &raw mut found, error) })?;
        plain(Reply::Telemetry(TelemetryRecord {
            valid: found.valid,
            time_ns: found.time_ns,
            temperature_mc: found.temperature_mc,
            power_mw: found.power_mw,
            energy_uj: found.energy_uj,
            frequency_khz: found.frequency_khz,
            memory_used_bytes: found.memory_used_bytes,
            load_permille: found.load_permille,
            throttle: found.throttle,
        }))
    }

    fn query_support(&self, device: u64, graph: GraphRecord, files: Vec<OwnedFd>) -> Answered {
        let device = self.objects.devices.get(device)?;
        let graph = RawGraph::new(graph, files)?;
        let mut records = SupportRecords::new(graph.node_count());
        let stride = size_of::<abi::polychip_support>() as u64;
        let call = self.table.query_support.expect(CHECKED);
        // SAFETY: an open device, a graph that lives during the call, a record per node.
        checked(|error| unsafe { call(device.raw.0, graph.raw(), records.as_mut_ptr(), stride, error) })?;
        let answers = records
            .answers()
            .map_err(|words| failure(abi::POLYCHIP_STATUS_PERSISTENT, words))?;
        plain(Reply::Support(
            answers
                .iter()
                .map(|record| (record.reason, record.text()))
                .collect(),
        ))
    }

    fn estimate(
        &self,
        device: u64,
        graph: GraphRecord,
        files: Vec<OwnedFd>,
        (nodes, ends): (&[u32], &[u64]),
    ) -> Answered {
        let device = self.objects.devices.get(device)?;
        let call = optional(self.table.estimate, "estimate")?;
        if ends.last().is_some_and(|end| *end > nodes.len() as u64) {
            return Err(failure(
                abi::POLYCHIP_STATUS_BAD_ARGUMENT,
                "parts end behind their nodes",
            ));
        }
        let graph = RawGraph::new(graph, files)?;
        let mut costs = CostRecords::new(ends.len());
        let stride = size_of::<abi::polychip_cost>() as u64;
        // SAFETY: an open device, a graph that lives during the call, a record per part.
        checked(|error| unsafe {
            call(
                device.raw.0,
                graph.raw(),
                nodes.as_ptr(),
                ends.as_ptr(),
                ends.len() as u64,
                costs.as_mut_ptr(),
                stride,
                error,
            )
        })?;
        let costs = costs
            .costs()
            .map_err(|words| failure(abi::POLYCHIP_STATUS_PERSISTENT, words))?;
        let record = |cost: &abi::polychip_cost| CostRecord {
            valid: cost.valid,
            flags: cost.flags,
            error_permille: cost.error_permille,
            time_ns: cost.time_ns,
            launch_ns: cost.launch_ns,
            energy_uj: cost.energy_uj,
            power_mw: cost.power_mw,
            memory_bytes: cost.memory_bytes,
        };
        plain(Reply::Costs(costs.iter().map(record).collect()))
    }

    fn compile(
        &self,
        device: u64,
        graph: GraphRecord,
        files: Vec<OwnedFd>,
        options: &OptionsRecord,
    ) -> Answered {
        let device = self.objects.devices.get(device)?;
        let graph = RawGraph::new(graph, files)?;
        let ports: Vec<_> = options
            .ports
            .iter()
            .map(|(port, layout)| abi::polychip_port_request {
                port: *port,
                layout: *layout,
                ..Sized::sized()
            })
            .collect();
        let wanted = abi::polychip_compile_options {
            precision: options.precision,
            threads: options.threads,
            operating_point: options.operating_point,
            ports: ports.as_ptr(),
            port_count: ports.len() as u64,
            port_stride: size_of::<abi::polychip_port_request>() as u64,
            ..Sized::sized()
        };
        let mut raw = std::ptr::null_mut();
        let call = self.table.compile.expect(CHECKED);
        // SAFETY: an open device; graph and options live during the call.
        checked(|error| unsafe { call(device.raw.0, graph.raw(), &raw const wanted, &raw mut raw, error) })?;
        plain(Reply::Blob(self.objects.blobs.add(made(raw, "compile")?)))
    }

    fn blob_bytes(&self, blob: u64) -> Answered {
        let blob = self.objects.blobs.get(blob)?;
        let mut found = abi::polychip_bytes::default();
        let call = self.table.blob_bytes.expect(CHECKED);
        // SAFETY: a live blob.
        checked(|error| unsafe { call(blob.0, &raw mut found, error) })?;
        let reported = if found.data.is_null() { 0 } else { found.len };
        let len = usize::try_from(reported).ok().filter(|_| reported <= MOST_BLOB);
        let Some(len) = len else {
            return Err(failure(
                abi::POLYCHIP_STATUS_PERSISTENT,
                format!("blob_bytes reports {reported} bytes; at most {MOST_BLOB} are read"),
            ));
        };
        let bytes: &[u8] = if len == 0 {
            &[]
        } else {
            // SAFETY: the bytes live as long as the blob.
            unsafe { std::slice::from_raw_parts(found.data, len) }
        };
        let file = shared_file::filled([bytes])?;
        Ok((Reply::Bytes(len as u64), Some(file)))
    }

    fn load(
        &self,
        device: u64,
        threads: u32,
        from: &SourceRecord,
        graph: Option<GraphRecord>,
        mut files: Vec<OwnedFd>,
    ) -> Answered {
        let device = self.objects.devices.get(device)?;
        let mut source = abi::polychip_load_source::sized();
        source.threads = threads;
        let mut held = None;
        match from {
            SourceRecord::Blob(blob) => source.blob = self.objects.blobs.get(*blob)?.0,
            SourceRecord::Bytes(len) => {
                let file = SharedFile::map_read_only(first(&mut files)?, 0, *len)?;
                source.bytes = abi::polychip_bytes {
                    data: file.data().cast_const(),
                    len: *len,
                };
                held = Some(file);
            }
        }
        let graph = graph.map(|graph| RawGraph::new(graph, files)).transpose()?;
        source.graph = graph.as_ref().map_or(std::ptr::null(), RawGraph::raw);
        let mut raw = std::ptr::null_mut();
        let call = self.table.load.expect(CHECKED);
        // SAFETY: an open device; blob, bytes and graph live during the call, bytes and constants as
        // long as the executable.
        checked(|error| unsafe { call(device.raw.0, &raw const source, &raw mut raw, error) })?;
        let executable = Arc::new(Executable {
            raw: made(raw, "load")?,
            destroy: self.table.executable_destroy,
            _graph: graph,
            _bytes: held,
        });
        let (info, ports) = self.ports(&executable)?;
        plain(Reply::Executable {
            executable: self.objects.executables.add(executable),
            info,
            ports,
        })
    }

    fn ports(&self, executable: &Executable) -> Result<(ExecutableRecord, Vec<PortRecord>)> {
        let mut info = abi::polychip_executable_info::sized();
        let call = self.table.executable_info.expect(CHECKED);
        // SAFETY: a live executable.
        checked(|error| unsafe { call(executable.raw.0, &raw mut info, error) })?;
        let mut ports = Vec::new();
        for port in 0..info.input_count.saturating_add(info.output_count) {
            let mut found = abi::polychip_port::sized();
            found.state_port = abi::POLYCHIP_NO_INDEX;
            let call = self.table.port_info.expect(CHECKED);
            // SAFETY: a live executable.
            checked(|error| unsafe { call(executable.raw.0, port, &raw mut found, error) })?;
            let rank = (found.rank as usize).min(abi::POLYCHIP_MAX_RANK);
            let strides = &found.strides[..rank];
            ports.push(PortRecord {
                flags: found.flags,
                dtype: found.dtype,
                layout: found.layout,
                state_port: found.state_port,
                alignment: found.alignment,
                memory_kinds: found.memory_kinds,
                bytes: found.bytes,
                dims: found.dims[..rank].to_vec(),
                strides: if strides.iter().all(|stride| *stride == 0) {
                    Vec::new()
                } else {
                    strides.to_vec()
                },
                encoding: encoding(found.encoding),
            });
        }
        let info = ExecutableRecord {
            input_count: info.input_count,
            constant_bytes: info.constant_bytes,
            arena_bytes: info.arena_bytes,
        };
        Ok((info, ports))
    }

    fn buffer(
        &self,
        raw: Handle<abi::polychip_buffer>,
        shared: Option<SharedFile>,
        is_copied: bool,
    ) -> Answered {
        let buffer = self.objects.buffers.add(Arc::new(Buffer {
            raw,
            destroy: self.table.buffer_destroy,
            shared,
            copied: is_copied.then(Mutex::default),
        }));
        plain(Reply::Buffer {
            buffer,
            copied: is_copied,
        })
    }

    fn buffer_create(&self, device: u64, (bytes, alignment): (u64, u64), file: OwnedFd) -> Answered {
        let device = self.objects.devices.get(device)?;
        let shared = SharedFile::map(file, 0, bytes)?;
        let wanted = abi::polychip_memory {
            kind: abi::POLYCHIP_MEMORY_HOST,
            fd: abi::POLYCHIP_NO_FD,
            bytes,
            alignment,
            ..Sized::sized()
        };
        let mut raw = std::ptr::null_mut();
        let call = self.table.buffer_create.expect(CHECKED);
        // SAFETY: an open device.
        checked(|error| unsafe { call(device.raw.0, &raw const wanted, &raw mut raw, error) })?;
        self.buffer(made(raw, "buffer_create")?, Some(shared), true)
    }

    fn buffer_import(&self, device: u64, kind: u32, (offset, bytes): (u64, u64), file: OwnedFd) -> Answered {
        let device = self.objects.devices.get(device)?;
        let mut memory = abi::polychip_memory {
            kind,
            fd: i64::from(file.as_raw_fd()),
            offset,
            bytes,
            ..Sized::sized()
        };
        let mut shared = None;
        if kind == abi::POLYCHIP_MEMORY_MEMFD && device.import_kinds & (1 << abi::POLYCHIP_MEMORY_HOST) != 0 {
            let mapped = SharedFile::map(
                file.try_clone()
                    .map_err(|error| failure(abi::POLYCHIP_STATUS_OUT_OF_MEMORY, error.to_string()))?,
                offset,
                bytes,
            )?;
            let alignment = device.import_alignment.max(1) as usize;
            let takes_files = device.import_kinds & (1 << abi::POLYCHIP_MEMORY_MEMFD) != 0;
            if !takes_files || (mapped.data() as usize).is_multiple_of(alignment) {
                memory.kind = abi::POLYCHIP_MEMORY_HOST;
                memory.data = mapped.data();
                memory.fd = abi::POLYCHIP_NO_FD;
                memory.offset = 0;
                shared = Some(mapped);
            }
        }
        let mut raw = std::ptr::null_mut();
        let call = self.table.buffer_import.expect(CHECKED);
        // SAFETY: an open device; the mapping lives as long as the buffer, the descriptor as long as the call.
        checked(|error| unsafe { call(device.raw.0, &raw const memory, &raw mut raw, error) })?;
        self.buffer(made(raw, "buffer_import")?, shared, false)
    }

    fn buffer_export(&self, buffer: u64, kind: u32) -> Answered {
        let buffer = self.objects.buffers.get(buffer)?;
        let call = optional(self.table.buffer_export, "buffer_export")?;
        let mut memory = abi::polychip_memory::sized();
        memory.fd = abi::POLYCHIP_NO_FD;
        // SAFETY: a live buffer.
        checked(|error| unsafe { call(buffer.raw.0, kind, &raw mut memory, error) })?;
        let fd = i32::try_from(memory.fd)
            .ok()
            .filter(|fd| *fd >= 0)
            .ok_or_else(|| {
                failure(
                    abi::POLYCHIP_STATUS_UNSUPPORTED,
                    "the exported memory has no descriptor",
                )
            })?;
        // SAFETY: the plugin keeps the descriptor open as long as the buffer, which is held here.
        let lent = unsafe { BorrowedFd::borrow_raw(fd) };
        let file = lent
            .try_clone_to_owned()
            .map_err(|error| failure(abi::POLYCHIP_STATUS_OUT_OF_MEMORY, error.to_string()))?;
        let reply = Reply::Memory {
            offset: memory.offset,
            bytes: memory.bytes,
        };
        Ok((reply, Some(file)))
    }

    fn buffer_begin(&self, buffer: u64, access: u32, offset: u64, bytes: u64) -> Answered {
        let buffer = self.objects.buffers.get(buffer)?;
        let mut data = std::ptr::null_mut();
        let call = self.table.buffer_begin_access.expect(CHECKED);
        // SAFETY: a live buffer.
        checked(|error| unsafe { call(buffer.raw.0, access, offset, bytes, &raw mut data, error) })?;
        plain(Reply::Done)
    }

    fn buffer_end(&self, buffer: u64) -> Answered {
        let buffer = self.objects.buffers.get(buffer)?;
        let call = self.table.buffer_end_access.expect(CHECKED);
        // SAFETY: a live buffer.
        checked(|error| unsafe { call(buffer.raw.0, error) })?;
        plain(Reply::Done)
    }
}

fn first(descriptors: &mut Vec<OwnedFd>) -> Result<OwnedFd> {
    if descriptors.is_empty() {
        return Err(failure(
            abi::POLYCHIP_STATUS_BAD_ARGUMENT,
            "a request lacks its descriptor",
        ));
    }
    Ok(descriptors.remove(0))
}

/// The encoding behind a port's pointer.
fn encoding(at: *const abi::polychip_encoding) -> Option<EncodingRecord> {
    if at.is_null() {
        return None;
    }
    // SAFETY: an encoding begins with its size and lives as long as the executable.
    let size = unsafe { at.cast::<u32>().read() } as usize;
    let mut found = abi::polychip_encoding::sized();
    let count = size.min(size_of::<abi::polychip_encoding>());
    // SAFETY: both have that many bytes, and any bits there are a number or an address.
    unsafe { std::ptr::copy_nonoverlapping(at.cast::<u8>(), (&raw mut found).cast::<u8>(), count) };
    Some(EncodingRecord {
        kind: found.kind,
        axis: found.axis,
        block_size: found.block_size,
        block_layout: found.block_layout,
        real_dtype: found.real_dtype,
        // SAFETY: the arrays live as long as the encoding.
        scales: unsafe { values(found.scales, found.scale_count) },
        // SAFETY: as above.
        zero_points: unsafe { values(found.zero_points, found.zero_point_count) },
    })
}

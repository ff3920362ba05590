//! The connections between a plan's parts, computed once for all runs.
//!
//! Invariants:
//! 1. Every input port of every part has one source: a graph input, or an output port of an earlier
//!    part.
//! 2. A part that must see the end of another on the host (another plugin, a copy, a size known
//!    only then) is listed in `after_here`; all others are left to fences on the device.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use polychip_graph::{Graph, TensorId};
use polychip_host::{Device, DeviceKind, Executable};
use polychip_ops::Packed;
use polychip_partitioner::{Goal, Plan};

use crate::device_queue::{DeviceQueue, DeviceQueues};
use crate::error::{Error, ErrorKind, Result, kind_of_host};
use crate::loaded_part::LoadedPart;
use crate::planned::Planned;
use crate::refusal;
use crate::session::copy::Copied;
use crate::tensor::TensorSpec;

/// One part and what it waits for.
pub(crate) struct PartWiring {
    pub(crate) id: String,
    /// The plan, and its place there, for messages.
    pub(crate) place: (Arc<Planned>, usize),
    pub(crate) device: usize,
    pub(crate) handle: Device,
    pub(crate) executable: Executable,
    pub(crate) input_count: usize,
    pub(crate) output_count: usize,
    /// Parts whose end must be seen here before this one is issued.
    pub(crate) after_here: Vec<usize>,
    /// Parts that the device itself waits for, by fences.
    pub(crate) after_on_device: Vec<usize>,
    /// Inputs whose true sizes come from an earlier part.
    pub(crate) sized_inputs: Vec<SizedInput>,
    /// Output ports with upper bounds.
    pub(crate) bounded_outputs: Vec<usize>,
    /// Bytes of its outputs that other devices read without a copy, once for each such device.
    pub(crate) shared_bytes: u64,
    /// From the start of a run, where the plan's devices work at once on one.
    pub(crate) planned_start: Option<Duration>,
    /// The queue of its device.
    pub(crate) device_queue: Arc<DeviceQueue>,
    /// How long its device is expected to take, with its launch, in nanoseconds.
    pub(crate) expected_ns: u64,
    /// How many of its device's places it takes: threads of a CPU.
    pub(crate) width: usize,
    /// Of an admitted session: time from when a run is submitted to when this part is to be done, in nanoseconds;
    /// `u64::MAX`: it is due with its run.
    pub(crate) within_ns: AtomicU64,
}

impl PartWiring {
    /// An error of this part. A bad argument means a bad input value, because shapes and types of ports
    /// were checked before.
    pub(crate) fn failed(&self, error: polychip_host::Error) -> Error {
        let kind = match error.kind() {
            polychip_host::ErrorKind::BadArgument => ErrorKind::BadInput,
            kind => kind_of_host(kind),
        };
        let (planned, index) = &self.place;
        let part = &planned.plan().parts[*index];
        let node = refusal::node_words(planned.graph(), part, error.node());
        let context = node.unwrap_or_else(|| format!("part {}", self.id));
        Error::caused(kind, context, error)
    }
}

/// An input whose true size an earlier part decides.
pub(crate) struct SizedInput {
    pub(crate) port: u32,
    pub(crate) from_part: usize,
    pub(crate) from_output: usize,
}

/// A tensor written by one part and used by others or the app.
pub(crate) struct Between {
    pub(crate) tensor: TensorId,
    pub(crate) writer: (usize, u32),
    pub(crate) readers: Vec<(usize, u32)>,
    pub(crate) bytes: u64,
    /// Index of the graph output that it is, where it is one.
    pub(crate) output: Option<usize>,
}

/// Where a graph output comes from.
#[derive(Debug, Clone)]
pub(crate) enum OutputSource {
    /// A part writes it: part, output port of the part (counted from the first output).
    Part(usize, usize),
    /// It is a constant.
    Constant(bytes::Bytes),
    /// It is an input, handed through.
    Input(usize),
    /// It is the same tensor as an earlier output.
    Same(usize),
}

/// A graph output.
pub(crate) struct OutputWiring {
    pub(crate) spec: TensorSpec,
    pub(crate) source: OutputSource,
}

/// A graph input.
pub(crate) struct InputWiring {
    pub(crate) spec: TensorSpec,
    /// Part and port of each reader.
    pub(crate) readers: Vec<(usize, u32)>,
}

/// The whole.
pub(crate) struct Wiring {
    pub(crate) parts: Vec<PartWiring>,
    pub(crate) inputs: Vec<InputWiring>,
    pub(crate) outputs: Vec<OutputWiring>,
    pub(crate) between: Vec<Between>,
    /// Per part, the parts that end before it starts.
    pub(crate) after: Vec<Vec<usize>>,
    /// Explicit copies of the runs.
    pub(crate) copied: Arc<Copied>,
}

/// Where a device stands among those that a tensor is bound to: those that import memory of the host come first, as the
/// host reads and writes through the first.
pub(crate) fn binding_order(index: usize, devices: &[Device]) -> (bool, bool, bool, usize) {
    let info = devices[index].info();
    let (host, files) = (info.imports_host_memory, info.imports_memory_files);
    (!host, !files, !info.imports_memory(), index)
}

impl Wiring {
    /// Whether a part writes an output.
    pub(crate) fn is_written(&self, output: usize) -> bool {
        matches!(self.outputs[output].source, OutputSource::Part(..))
    }

    /// Whether a host thread must drive a run after `submit` has returned.
    pub(crate) fn needs_run_driver(&self) -> bool {
        self.parts.iter().any(|part| !part.after_here.is_empty())
    }

    /// Goes by what was admitted: the times that were counted on, by part, and no part beside another on a device.
    pub(crate) fn count_on(&mut self, times_ns: &[u64]) {
        for (part, time_ns) in self.parts.iter_mut().zip(times_ns) {
            (part.expected_ns, part.width) = (*time_ns, usize::MAX);
        }
    }

    /// When parts are due, where they are not due with their runs.
    pub(crate) fn set_due(&self, within_ns: &[u64]) {
        for (part, within_ns) in self.parts.iter().zip(within_ns) {
            part.within_ns.store(*within_ns, Ordering::Relaxed);
        }
    }

    /// As it was set.
    pub(crate) fn due(&self) -> Vec<u64> {
        let parts = self.parts.iter();
        parts.map(|part| part.within_ns.load(Ordering::Relaxed)).collect()
    }

    /// Devices that touch a tensor, those that import host memory first, by its address before as a file.
    pub(crate) fn devices_of(
        &self,
        parts: impl IntoIterator<Item = usize>,
        devices: &[Device],
    ) -> Vec<(usize, Device)> {
        let mut found: Vec<usize> = parts.into_iter().map(|part| self.parts[part].device).collect();
        found.sort_by_key(|index| binding_order(*index, devices));
        found.dedup();
        found
            .into_iter()
            .map(|index| (index, devices[index].clone()))
            .collect()
    }

    pub(crate) fn new(
        planned: &Arc<Planned>,
        loaded: Vec<LoadedPart>,
        device_queues: &DeviceQueues,
        threads: u32,
    ) -> Result<Wiring> {
        let (graph, plan, devices) = (planned.graph(), planned.plan(), planned.devices());
        let writers: BTreeMap<TensorId, (usize, usize)> = plan
            .parts
            .iter()
            .enumerate()
            .flat_map(|(part, described)| {
                let outputs = described.outputs.iter().enumerate();
                outputs.map(move |(output, tensor)| (TensorId::new(*tensor as usize), (part, output)))
            })
            .collect();
        let inputs = inputs(graph, plan)?;
        let outputs = outputs(graph, &writers, &loaded, &inputs)?;
        let between = between(graph, plan, &writers, &loaded);
        let after: Vec<Vec<usize>> = plan
            .parts
            .iter()
            .map(|part| part.after.iter().map(|part| part.index()).collect())
            .collect();
        // where runs follow each other, parts start when the runs before let them
        let schedule = plan
            .schedule
            .as_ref()
            .filter(|_| plan.objective.goal == Goal::Makespan);
        let mut parts = Vec::with_capacity(loaded.len());
        for (index, (loaded, described)) in loaded.into_iter().zip(&plan.parts).enumerate() {
            let info = loaded.executable.info();
            let input_count = info.inputs as usize;
            let ports = loaded.executable.ports();
            let bounded_outputs = (0..info.outputs as usize)
                .filter(|i| ports[input_count + i].upper_bound)
                .collect();
            parts.push(PartWiring {
                id: described.id.clone(),
                place: (Arc::clone(planned), index),
                device: loaded.device.index(),
                handle: devices[loaded.device.index()].clone(),
                input_count,
                output_count: info.outputs as usize,
                after_here: Vec::new(),
                after_on_device: after[index].clone(),
                sized_inputs: Vec::new(),
                bounded_outputs,
                shared_bytes: 0,
                planned_start: schedule
                    .map(|schedule| Duration::from_nanos(schedule.starts[index].nanoseconds())),
                device_queue: device_queues.of(&devices[loaded.device.index()]),
                expected_ns: (described.cost.time.nanoseconds())
                    .saturating_add(described.launch.nanoseconds()),
                // places of a CPU are threads: without a number, all there are
                width: match (devices[loaded.device.index()].info().kind, threads) {
                    (DeviceKind::Cpu, 0) => usize::MAX,
                    (DeviceKind::Cpu, threads) => threads as usize,
                    _ => 1,
                },
                within_ns: AtomicU64::new(u64::MAX),
                executable: loaded.executable,
            });
        }
        let mut wiring = Wiring {
            parts,
            inputs,
            outputs,
            between,
            after,
            copied: Arc::default(),
        };
        wiring.sort_dependencies(devices);
        Ok(wiring)
    }

    fn sort_dependencies(&mut self, devices: &[Device]) {
        let mut copied = vec![false; self.parts.len()];
        for tensor in &self.between {
            let users = std::iter::once(tensor.writer.0).chain(tensor.readers.iter().map(|(part, _)| *part));
            let users = self.devices_of(users, devices);
            let importing = users
                .iter()
                .filter(|(_, device)| device.info().imports_memory())
                .count();
            copied[tensor.writer.0] |= users.len() > 1 && importing < users.len();
            // one of the importing devices writes the memory that the others read, or gets the copy
            let readers = importing.saturating_sub(1) as u64;
            let shared = &mut self.parts[tensor.writer.0].shared_bytes;
            *shared = shared.saturating_add(tensor.bytes.saturating_mul(readers));
        }
        for tensor in &self.between {
            let (writer, port) = tensor.writer;
            let output = port as usize - self.parts[writer].input_count;
            if self.parts[writer].bounded_outputs.contains(&output) {
                for &(reader, port) in &tensor.readers {
                    let sized = SizedInput {
                        port,
                        from_part: writer,
                        from_output: output,
                    };
                    self.parts[reader].sized_inputs.push(sized);
                }
            }
        }
        for index in 0..self.parts.len() {
            let (here, on_device) = self.after[index].iter().partition(|dependency| {
                let (part, other) = (&self.parts[index], &self.parts[**dependency]);
                let fences = devices[part.device].shares_fences_with(&devices[other.device]);
                let sized = part
                    .sized_inputs
                    .iter()
                    .any(|sized| sized.from_part == **dependency);
                !fences || copied[**dependency] || sized
            });
            self.parts[index].after_here = here;
            self.parts[index].after_on_device = on_device;
        }
    }
}

fn spec(graph: &Graph, id: TensorId) -> Result<TensorSpec> {
    let tensor = graph.tensor(id);
    let wrong = |words: String| Error::new(ErrorKind::BadInput, format!("tensor {:?} {words}", tensor.name));
    if tensor.is_packed() {
        return Ok(TensorSpec::of_packed(&tensor.name));
    }
    if !tensor.is_tensor() {
        return Err(wrong(format!(
            "is a {} of {}, which has no memory layout at the model's edge",
            tensor.container.name(),
            tensor.ty.dtype.name()
        )));
    }
    let shape = tensor
        .ty
        .sizes()
        .ok_or_else(|| wrong("has a size that is not known".into()))?;
    let elements = polychip_ops::axis::product(&shape);
    let bytes = elements.and_then(|elements| tensor.ty.dtype.byte_len(elements));
    let bytes = bytes.ok_or_else(|| wrong("is too large".into()))? as u64;
    let name = tensor.name.clone();
    Ok(TensorSpec {
        name,
        dtype: tensor.ty.dtype,
        shape,
        open: Vec::new(),
        any_rank: false,
        upper_bound: tensor.upper_bound,
        packed: false,
        bytes,
    })
}

fn inputs(graph: &Graph, plan: &Plan) -> Result<Vec<InputWiring>> {
    let ports = |id: TensorId| {
        let parts = plan.parts.iter().enumerate();
        parts
            .flat_map(|(part, described)| {
                let read = described.inputs.iter().enumerate();
                read.filter(|(_, tensor)| **tensor as usize == id.index())
                    .map(move |(port, _)| (part, port as u32))
            })
            .collect()
    };
    graph
        .inputs
        .iter()
        .map(|&id| {
            Ok(InputWiring {
                spec: spec(graph, id)?,
                readers: ports(id),
            })
        })
        .collect()
}

fn outputs(
    graph: &Graph,
    writers: &BTreeMap<TensorId, (usize, usize)>,
    loaded: &[LoadedPart],
    inputs: &[InputWiring],
) -> Result<Vec<OutputWiring>> {
    let mut found = Vec::with_capacity(graph.outputs.len());
    for (index, &id) in graph.outputs.iter().enumerate() {
        let tensor = graph.tensor(id);
        if let Some(first) = graph.outputs[..index].iter().position(|other| *other == id) {
            let earlier: &OutputWiring = &found[first];
            found.push(OutputWiring {
                spec: earlier.spec.clone(),
                source: OutputSource::Same(first),
            });
            continue;
        }
        if let Some(&(part, output)) = writers.get(&id) {
            let executable = &loaded[part].executable;
            let port = &executable.ports()[executable.info().inputs as usize + output];
            let shape: Option<Vec<usize>> = port.dims.iter().map(|dim| usize::try_from(*dim).ok()).collect();
            let shape = shape.ok_or_else(|| {
                let words = format!("output {:?} has no upper bound on its size", tensor.name);
                Error::new(ErrorKind::DeviceFailed, words)
            })?;
            let name = tensor.name.clone();
            let spec = TensorSpec {
                name,
                dtype: port.dtype,
                shape,
                open: Vec::new(),
                any_rank: false,
                upper_bound: port.upper_bound,
                packed: tensor.is_packed(),
                bytes: port.bytes,
            };
            found.push(OutputWiring {
                spec,
                source: OutputSource::Part(part, output),
            });
            continue;
        }
        let mut spec = spec(graph, id)?;
        let source = if let Some(constant) = &tensor.data {
            let bytes = match constant.to_literal(&tensor.ty).filter(|_| spec.packed) {
                Some(texts) => Packed::Tensor(texts).to_bytes().into(),
                None => constant.bytes.clone(),
            };
            if spec.packed {
                (spec.shape, spec.upper_bound) = (vec![bytes.len()], false);
                spec.bytes = bytes.len() as u64;
            }
            OutputSource::Constant(bytes)
        } else if let Some(index) = inputs.iter().position(|input| input.spec.name == tensor.name) {
            OutputSource::Input(index)
        } else {
            let words = format!("no part of the plan writes output {:?}", tensor.name);
            return Err(Error::new(ErrorKind::BadPlan, words));
        };
        found.push(OutputWiring { spec, source });
    }
    Ok(found)
}

fn between(
    graph: &Graph,
    plan: &Plan,
    writers: &BTreeMap<TensorId, (usize, usize)>,
    loaded: &[LoadedPart],
) -> Vec<Between> {
    let mut readers: BTreeMap<TensorId, Vec<(usize, u32)>> = BTreeMap::new();
    for (part, described) in plan.parts.iter().enumerate() {
        for (port, tensor) in described.inputs.iter().enumerate() {
            readers
                .entry(TensorId::new(*tensor as usize))
                .or_default()
                .push((part, port as u32));
        }
    }
    writers
        .iter()
        .map(|(&tensor, &(part, output))| {
            let executable = &loaded[part].executable;
            let port = executable.info().inputs + output as u32;
            Between {
                tensor,
                writer: (part, port),
                readers: readers.remove(&tensor).unwrap_or_default(),
                bytes: executable.ports()[port as usize].bytes,
                output: graph.outputs.iter().position(|id| *id == tensor),
            }
        })
        .collect()
}

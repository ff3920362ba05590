//! The client that plays a sequence against one library folder, in a process of its own.
//!
//! Invariants:
//! 1. It speaks the QNN interface through `polychip-sys` alone, and knows nothing of which library answers.
//! 2. Memory that a call was given is leaked: the process ends with its sequence.
//! 3. Each code is on disk before the next call, so that a library that ends the process tells where.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::c_char;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr;

use anyhow::{Context, Result};
use polychip_sys::qnn::{self, *};
use serde::{Deserialize, Serialize};

use crate::model::{NodeSpec, ParamSpec, TensorSpec, filled};
use crate::raw::{
    SLACK, argument, config, custom_value, described, device_config, ignore, op_config, silent, tensor, text,
};
use crate::sequence::{Damage, Fault, Sequence, Step, Target};

/// The code of a call that the library leaves out.
pub(crate) const ABSENT: u64 = u64::MAX;

/// A call and its code, as one line of the output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// Number of the step in its sequence.
    pub(crate) step: usize,
    pub(crate) call: String,
    /// The low 16 bits, or [`ABSENT`].
    pub(crate) code: u64,
}

/// Plays the sequence; answers go to `out`, a line each.
pub(crate) fn play(folder: &Path, sequence: &Sequence, out: &Path) -> Result<()> {
    let library = Qnn::load(Some(folder))?;
    let out = File::create(out).with_context(|| format!("creating {}", out.display()))?;
    let mut client = Client::new(library, out);
    for (index, (step, _)) in sequence.steps.iter().enumerate() {
        client.step = index;
        client.take(*step);
    }
    Ok(())
}

/// A tensor that execute gives or takes.
#[derive(Clone)]
pub(crate) struct Operand {
    pub(crate) id: u32,
    pub(crate) spec: TensorSpec,
}

struct BuiltGraph {
    handle: Graph,
    operands: Vec<Operand>,
    /// Ids by name, of all tensors.
    ids: BTreeMap<String, u32>,
}

struct Client {
    table: &'static Table,
    system: &'static SystemTable,
    out: File,
    step: usize,
    log: Log,
    backend: Backend,
    device: Device,
    context: qnn::Context,
    /// Graph in use.
    graph: String,
    graphs: BTreeMap<String, BuiltGraph>,
    /// What executes need of graphs that were built or described by the System library.
    known: BTreeMap<String, Vec<Operand>>,
    binary: Vec<u8>,
    outputs: Vec<Vec<Vec<u8>>>,
}

/// Calls a slot and records its code.
macro_rules! call {
    ($client:expr, $table:ident . $name:ident ( $($argument:expr),* $(,)? )) => {{
        let code = match $client.$table.$name {
            // SAFETY: the arguments are of the interface's types; pointers are null, leaked or live here.
            Some(function) => (unsafe { function($($argument),*) }) & u64::from(POLYCHIP_QNN_ERROR_CODE_MASK),
            None => ABSENT,
        };
        $client.record(stringify!($name), code);
        code
    }};
}

impl Client {
    fn new(library: &'static Qnn, out: File) -> Self {
        Self {
            table: library.table(),
            system: library.system_table(),
            out,
            step: 0,
            log: ptr::null_mut(),
            backend: ptr::null_mut(),
            device: ptr::null_mut(),
            context: ptr::null_mut(),
            graph: String::new(),
            graphs: BTreeMap::new(),
            known: BTreeMap::new(),
            binary: Vec::new(),
            outputs: Vec::new(),
        }
    }

    fn record(&mut self, call: &str, code: u64) {
        let answer = Answer {
            step: self.step,
            call: call.to_owned(),
            code,
        };
        let mut line = serde_json::to_vec(&answer).expect("invariant: an answer is plain data");
        line.push(b'\n');
        self.out.write_all(&line).expect("the output can be written");
    }

    fn handle(&self) -> Graph {
        self.graphs
            .get(&self.graph)
            .map_or(ptr::null_mut(), |graph| graph.handle)
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::LogCreate => {
                call!(
                    self,
                    table.log_create(Some(silent), POLYCHIP_QNN_LOG_ERROR, &raw mut self.log)
                );
            }
            Step::LogLevel => {
                call!(self, table.log_set_level(self.log, POLYCHIP_QNN_LOG_WARN));
            }
            Step::LogFree => {
                call!(self, table.log_free(self.log));
                self.log = ptr::null_mut();
            }
            Step::BuildId => {
                let mut id = ptr::null();
                call!(self, table.build_id(&raw mut id));
            }
            Step::Operations => {
                let (mut count, mut list) = (0, ptr::null());
                call!(
                    self,
                    table.supported_operations(self.backend, &raw mut count, &raw mut list)
                );
                self.record("operations are listed", u64::from(count == 0));
            }
            Step::PlatformInfo => {
                let mut info = ptr::null();
                call!(self, table.platform_info(self.log, &raw mut info));
                call!(self, table.platform_info_free(self.log, info));
            }
            Step::ErrorMessage => {
                let mut message = ptr::null();
                call!(
                    self,
                    table.error_message(u64::from(POLYCHIP_QNN_ERROR_OP_REJECTED), &raw mut message)
                );
            }
            Step::BackendCreate => {
                call!(
                    self,
                    table.backend_create(self.log, ptr::null(), &raw mut self.backend)
                );
            }
            Step::BackendFree => {
                call!(self, table.backend_free(self.backend));
                self.backend = ptr::null_mut();
                self.forget_context();
            }
            Step::SecondSession => self.second_session(),
            Step::DeviceCreate(target) => {
                let mut device = ptr::null_mut();
                call!(
                    self,
                    table.device_create(self.log, device_config(target), &raw mut device)
                );
                self.device = device;
            }
            Step::DeviceFree => {
                call!(self, table.device_free(self.device));
                self.device = ptr::null_mut();
                self.forget_context();
            }
            Step::Power => self.power(),
            Step::Validate(model, types) => {
                for node in model.nodes(types) {
                    let op = op_config(&node, &BTreeMap::new());
                    call!(self, table.validate_op_config(self.backend, op));
                }
            }
            Step::ContextCreate => self.context_create(ptr::null()),
            Step::ContextCreateJunk => {
                self.context_create(config(0x7000, polychip_qnn_config_value { unsigned64: 0 }))
            }
            Step::ContextFree => {
                call!(self, table.context_free(self.context, ptr::null_mut()));
                self.forget_context();
            }
            Step::GraphCreate(name) => self.graph_create(name, ptr::null()),
            Step::GraphCreateJunk(name) => {
                let custom: &'static HtpGraphConfig = Box::leak(Box::new(HtpGraphConfig {
                    option: 9999,
                    zero: 0,
                    value: polychip_qnn_htp_graph_value { unsigned64: 0 },
                }));
                let list = config(POLYCHIP_QNN_CONFIG_CUSTOM, custom_value(custom));
                self.graph_create(name, list);
            }
            Step::Tensors(model, types) => {
                for node in model.nodes(types) {
                    self.tensors(&node);
                }
            }
            Step::Nodes(model, types) => {
                for node in model.nodes(types) {
                    let none = BTreeMap::new();
                    let ids = self.graphs.get(&self.graph).map_or(&none, |graph| &graph.ids);
                    let op = op_config(&node, ids);
                    call!(self, table.add_node(self.handle(), op));
                }
            }
            Step::Finalize => {
                call!(
                    self,
                    table.finalize(self.handle(), ptr::null_mut(), ptr::null_mut())
                );
            }
            Step::FinalizeProfiled => self.finalize_profiled(),
            Step::Execute(fault) => self.execute(fault, false),
            Step::ExecuteAsync => self.execute(Fault::None, true),
            Step::SameOutput => {
                let same = matches!(&self.outputs[..], [.., one, other] if one == other);
                self.record("same output", u64::from(!same));
            }
            Step::BinarySize => {
                let mut bytes = 0;
                call!(self, table.binary_size(self.context, &raw mut bytes));
            }
            Step::BinaryGet => self.binary_get(),
            Step::BinaryGetShort => {
                let short: &'static mut [u8] = vec![0; 16 + SLACK].leak();
                let mut written = 0;
                call!(
                    self,
                    table.get_binary(self.context, short.as_mut_ptr().cast(), 16, &raw mut written)
                );
            }
            Step::ContextFromBinary(damage) => self.context_from_binary(damage, ptr::null()),
            Step::ContextFromBinaryOnly(name) => {
                let names: &'static mut [*const c_char] = vec![text(name), ptr::null()].leak();
                let value = polychip_qnn_config_value {
                    texts: names.as_ptr(),
                };
                self.context_from_binary(
                    Damage::None,
                    config(POLYCHIP_QNN_CONTEXT_CONFIG_ENABLE_GRAPHS, value),
                );
            }
            Step::Retrieve(name) => self.retrieve(name),
            Step::Metadata(damage) => self.metadata(damage),
            Step::ValidateBinary => {
                let binary: &'static mut [u8] = self.binary.clone().leak();
                call!(
                    self,
                    table.validate_binary(
                        self.backend,
                        self.device,
                        ptr::null(),
                        binary.as_ptr().cast(),
                        binary.len() as u64
                    )
                );
            }
            Step::SignalCreate => {
                let mut signal = ptr::null_mut();
                call!(
                    self,
                    table.signal_create(self.backend, ptr::null(), &raw mut signal)
                );
            }
            Step::MemoryRegister(kind) => self.memory_register(kind),
        }
    }

    /// Handles below a context that is gone are gone with it; the library is not asked about dangling ones.
    fn forget_context(&mut self) {
        self.context = ptr::null_mut();
        self.graphs.clear();
        self.graph.clear();
    }

    fn second_session(&mut self) {
        let (mut backend, mut device) = (ptr::null_mut(), ptr::null_mut());
        call!(
            self,
            table.backend_create(self.log, ptr::null(), &raw mut backend)
        );
        call!(
            self,
            table.device_create(self.log, device_config(Target::Soc(43)), &raw mut device)
        );
        call!(self, table.device_free(device));
        call!(self, table.backend_free(backend));
    }

    fn power(&mut self) {
        let mut infrastructure = ptr::null();
        call!(self, table.infrastructure(&raw mut infrastructure));
        // SAFETY: null, or the library's own constant struct.
        let Some(infrastructure) = (unsafe { infrastructure.as_ref() }) else {
            return self.record("infrastructure is given", 1);
        };
        let mut id = 0;
        if let Some(create) = infrastructure.create_power_config {
            // SAFETY: device 0, core 0; the output lives here.
            let code = unsafe { create(0, 0, &raw mut id) };
            self.record("create_power_config", code);
        }
        // SAFETY: a struct of integers.
        let mut dcvs: polychip_qnn_htp_dcvs_v3 = unsafe { std::mem::zeroed() };
        dcvs.context_id = id;
        dcvs.power_mode = POLYCHIP_QNN_HTP_POWER_MODE_PERFORMANCE;
        let power: &'static HtpPowerConfig = Box::leak(Box::new(HtpPowerConfig {
            option: POLYCHIP_QNN_HTP_POWER_DCVS_V3,
            value: polychip_qnn_htp_power_value { dcvs_v3: dcvs },
        }));
        if let Some(set) = infrastructure.set_power_config {
            let list = [ptr::from_ref(power), ptr::null()];
            // SAFETY: a null-terminated list of one leaked struct.
            let code = unsafe { set(id, list.as_ptr()) };
            self.record("set_power_config", code);
        }
        if let Some(destroy) = infrastructure.destroy_power_config {
            // SAFETY: takes any number.
            let code = unsafe { destroy(id) };
            self.record("destroy_power_config", code);
        }
    }

    fn context_create(&mut self, list: *const *const Config) {
        let mut context = ptr::null_mut();
        call!(
            self,
            table.context_create(self.backend, self.device, list, &raw mut context)
        );
        self.forget_context();
        self.context = context;
    }

    fn graph_create(&mut self, name: &str, list: *const *const Config) {
        let mut handle = ptr::null_mut();
        let code = call!(
            self,
            table.graph_create(self.context, text(name), list, &raw mut handle)
        );
        if code == 0 {
            self.graph = name.to_owned();
            self.graphs.insert(
                name.to_owned(),
                BuiltGraph {
                    handle,
                    operands: Vec::new(),
                    ids: BTreeMap::new(),
                },
            );
        }
    }

    fn tensors(&mut self, node: &NodeSpec) {
        let params = node.params.iter().filter_map(|param| match param {
            ParamSpec::Tensor { tensor, .. } => Some(tensor),
            _ => None,
        });
        for spec in node.inputs.iter().chain(params).chain(&node.outputs) {
            let there = self
                .graphs
                .get(&self.graph)
                .is_some_and(|graph| graph.ids.contains_key(&spec.name));
            // both nodes list a tensor between them; the second time it exists
            if there && spec.kind == POLYCHIP_QNN_TENSOR_NATIVE {
                continue;
            }
            let mut made = tensor(spec, 0);
            let code = call!(self, table.create_graph_tensor(self.handle(), &raw mut made));
            if code != 0 {
                continue;
            }
            // SAFETY: the client made it of version 2.
            let id = unsafe { made.tensor.v2.id };
            let Some(graph) = self.graphs.get_mut(&self.graph) else {
                continue;
            };
            graph.ids.insert(spec.name.clone(), id);
            if matches!(spec.kind, POLYCHIP_QNN_TENSOR_INPUT | POLYCHIP_QNN_TENSOR_OUTPUT) {
                graph.operands.push(Operand {
                    id,
                    spec: spec.clone(),
                });
                self.known.insert(self.graph.clone(), graph.operands.clone());
            }
        }
    }

    fn finalize_profiled(&mut self) {
        let mut profile = ptr::null_mut();
        call!(
            self,
            table.profile_create(self.backend, POLYCHIP_QNN_PROFILE_BASIC, &raw mut profile)
        );
        call!(self, table.finalize(self.handle(), profile, ptr::null_mut()));
        let (mut events, mut count) = (ptr::null(), 0);
        let code = call!(
            self,
            table.profile_events(profile, &raw mut events, &raw mut count)
        );
        if code == 0 && count > 0 {
            // SAFETY: the library lists `count` events.
            let first = unsafe { *events };
            // SAFETY: a struct of integers and a pointer.
            let mut data: EventData = unsafe { std::mem::zeroed() };
            call!(self, table.profile_event_data(first, &raw mut data));
        }
        call!(self, table.profile_free(profile));
    }

    fn execute(&mut self, fault: Fault, asynchronous: bool) {
        let operands = self
            .graphs
            .get(&self.graph)
            .map_or_else(Vec::new, |graph| graph.operands.clone());
        let of = |kind| operands.iter().filter(move |operand| operand.spec.kind == kind);
        let mut inputs: Vec<Tensor> = of(POLYCHIP_QNN_TENSOR_INPUT)
            .map(|operand| argument(operand, &filled(&operand.spec)))
            .collect();
        let mut outputs: Vec<Tensor> = of(POLYCHIP_QNN_TENSOR_OUTPUT)
            .map(|operand| argument(operand, &vec![0; operand.spec.bytes()]))
            .collect();
        if let Some(first) = inputs.first_mut() {
            // SAFETY: the client made it; version 2 begins as version 1.
            let v1 = unsafe { &mut first.tensor.v1 };
            match fault {
                Fault::IdZero => v1.id = 0,
                Fault::IdUnknown => v1.id = 0x00ff_fff0,
                // SAFETY: a raw buffer.
                Fault::Short => unsafe { v1.memory.buffer.size -= 1 },
                // SAFETY: a raw buffer.
                Fault::Long => unsafe { v1.memory.buffer.size += 1 },
                Fault::None | Fault::Version1 | Fault::NoInputs => {}
            }
        }
        if fault == Fault::Version1 {
            for tensor in inputs.iter_mut().chain(&mut outputs) {
                tensor.version = POLYCHIP_QNN_TENSOR_V1;
            }
        }
        if fault == Fault::NoInputs {
            inputs.clear();
        }
        let (inputs, outputs) = (inputs.leak(), outputs.leak());
        let (given, taken) = (inputs.len() as u32, outputs.len() as u32);
        let code = if asynchronous {
            call!(
                self,
                table.execute_async(
                    self.handle(),
                    inputs.as_ptr(),
                    given,
                    outputs.as_mut_ptr(),
                    taken,
                    ptr::null_mut(),
                    ptr::null_mut(),
                    Some(ignore),
                    ptr::null_mut()
                )
            )
        } else {
            call!(
                self,
                table.execute(
                    self.handle(),
                    inputs.as_ptr(),
                    given,
                    outputs.as_mut_ptr(),
                    taken,
                    ptr::null_mut(),
                    ptr::null_mut()
                )
            )
        };
        if code == 0 && !asynchronous {
            let bytes = outputs.iter().map(|tensor| {
                // SAFETY: the client made it, with a buffer of this size.
                unsafe {
                    let buffer = tensor.tensor.v1.memory.buffer;
                    std::slice::from_raw_parts(buffer.data.cast::<u8>(), buffer.size as usize).to_vec()
                }
            });
            self.outputs.push(bytes.collect());
        }
    }

    fn binary_get(&mut self) {
        let mut bytes = 0;
        let code = call!(self, table.binary_size(self.context, &raw mut bytes));
        if code != 0 || bytes > 1 << 30 {
            return;
        }
        let buffer: &'static mut [u8] = vec![0; bytes as usize + SLACK].leak();
        let mut written = 0;
        let code = call!(
            self,
            table.get_binary(self.context, buffer.as_mut_ptr().cast(), bytes, &raw mut written)
        );
        if code == 0 {
            self.binary = buffer[..(written.min(bytes)) as usize].to_vec();
        }
    }

    /// The binary, damaged as asked, with some bytes of room behind it.
    fn damaged(&self, damage: Damage) -> (&'static [u8], u64) {
        let mut binary = self.binary.clone();
        let mut bytes = binary.len();
        match damage {
            Damage::None => {}
            Damage::Truncated => bytes /= 2,
            Damage::Zeroed => binary.fill(0),
            Damage::Flipped => {
                if let Some(byte) = binary.get_mut(bytes * 7 / 8) {
                    *byte ^= 1;
                }
            }
        }
        binary.resize(binary.len() + SLACK, 0);
        (binary.leak(), bytes as u64)
    }

    fn context_from_binary(&mut self, damage: Damage, list: *const *const Config) {
        let (binary, bytes) = self.damaged(damage);
        let mut context = ptr::null_mut();
        call!(
            self,
            table.create_from_binary(
                self.backend,
                self.device,
                list,
                binary.as_ptr().cast(),
                bytes,
                &raw mut context,
                ptr::null_mut()
            )
        );
        self.forget_context();
        self.context = context;
    }

    fn retrieve(&mut self, name: &str) {
        let mut handle = ptr::null_mut();
        let code = call!(self, table.retrieve(self.context, text(name), &raw mut handle));
        if code == 0 {
            self.graph = name.to_owned();
            let operands = self.known.get(name).cloned().unwrap_or_default();
            self.graphs.insert(
                name.to_owned(),
                BuiltGraph {
                    handle,
                    operands,
                    ids: BTreeMap::new(),
                },
            );
        }
    }

    /// Reads the binary's description; the ids in it are what later executes use.
    fn metadata(&mut self, damage: Damage) {
        let (binary, bytes) = self.damaged(damage);
        let (mut system, mut info) = (ptr::null_mut(), ptr::null());
        call!(self, system.create(&raw mut system));
        let code = call!(
            self,
            system.get_metadata(system, binary.as_ptr().cast(), bytes, &raw mut info)
        );
        // SAFETY: null, or the System library's own struct, valid until it is freed.
        let info = unsafe { info.as_ref() };
        if let (0, Some(info)) = (code, info) {
            // SAFETY: the System library wrote it.
            let graphs = unsafe { described(info) };
            let mut missing = 0;
            for (name, ids) in graphs {
                for operand in self.known.get_mut(&name).into_iter().flatten() {
                    match ids.get(&operand.spec.name) {
                        Some(id) => operand.id = *id,
                        None => missing += 1,
                    }
                }
            }
            self.record("inputs and outputs are described", u64::from(missing > 0));
        }
        call!(self, system.free(system));
    }

    fn memory_register(&mut self, kind: u32) {
        let file = File::open("/dev/zero").expect("every system has it");
        let descriptor = MemoryDescriptor {
            shape: polychip_qnn_memory_shape {
                rank: 1,
                dimensions: vec![4096].leak().as_mut_ptr(),
                shape_config: ptr::null(),
            },
            data_type: POLYCHIP_QNN_TYPE_UFIXED8,
            kind,
            source: polychip_qnn_memory_source {
                dma_buf: polychip_qnn_dma_buf {
                    fd: file.as_raw_fd(),
                    data: ptr::null_mut(),
                },
            },
        };
        let mut handle = ptr::null_mut();
        call!(
            self,
            table.memory_register(self.context, &raw const descriptor, 1, &raw mut handle)
        );
    }
}

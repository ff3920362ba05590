//! Contexts: a program compiled to the library's binary, and a binary loaded to run.
//!
//! Invariants:
//! 1. A program has one graph, named `part`. A binary has one, of the name that the binary tells.
//! 2. Ids of ports are read from the loaded binary: they hold for one context only.
//! 3. The bytes bound to a port are exactly those of its tensor: the library does not look.

use std::ffi::{CStr, CString};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use polychip_sdk::{Error, ErrorKind, Result};
use polychip_sys::qnn;
use polychip_sys::slot;

use super::library::{Refused, Session, lock, unusable};
use super::memory::{Range, Registered};
use super::raw::{self, Raw, Thing};
use crate::program::{self, Program, Type};

const GRAPH: &CStr = c"part";
/// Upper limit of ports; a larger count is invalid.
const MOST_PORTS: u32 = 1 << 16;

/// A port as a blob describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PortOf {
    /// Name of its tensor in the program.
    pub(crate) name: String,
    pub(crate) ty: Type,
    pub(crate) bytes: usize,
}

/// Result of a compilation.
pub(crate) struct Compiled {
    /// The library's binary.
    pub(crate) binary: Vec<u8>,
}

/// A context that ends with the value.
struct Handle<'a> {
    session: &'a Session,
    context: qnn::Context,
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        self.session.free_context(self.context);
    }
}

impl Session {
    fn free_context(&self, context: qnn::Context) {
        if let Some(free) = self.table().context_free
            && !context.is_null()
        {
            // SAFETY: made by this library and used by no run any more.
            let _ = unsafe { free(context, ptr::null_mut()) };
        }
    }

    /// Compiles a program.
    ///
    /// # Errors
    /// `Unsupported` if the library refuses an operation or the whole, at the node concerned.
    pub(crate) fn compile(&self, program: &Program) -> Result<Compiled> {
        let table = self.table();
        let device = lock(&self.device);
        let create = slot!(table, context_create).map_err(unusable)?;
        let mut context = ptr::null_mut();
        // SAFETY: live handles; no configuration; the place for the handle is ours.
        let code = unsafe { create(self.backend, *device, ptr::null(), &raw mut context) };
        self.check(code)
            .map_err(|refused| refused.error("contextCreate", ErrorKind::Persistent))?;
        // ends before the device is unlocked
        let held = Handle {
            session: self,
            context,
        };
        let graph_create = slot!(table, graph_create).map_err(unusable)?;
        let mut graph = ptr::null_mut();
        // SAFETY: as above; the name lives for ever.
        let code = unsafe { graph_create(held.context, GRAPH.as_ptr(), ptr::null(), &raw mut graph) };
        self.check(code)
            .map_err(|refused| refused.error("graphCreate", ErrorKind::Persistent))?;
        self.build(graph, program)?;
        let finalize = slot!(table, finalize).map_err(unusable)?;
        // SAFETY: a live graph, all of whose nodes were added.
        let code = unsafe { finalize(graph, ptr::null_mut(), ptr::null_mut()) };
        self.check(code)
            .map_err(|refused| self.finalize_error(&refused, program))?;
        let binary = self.binary(held.context)?;
        drop(held);
        drop(device);
        Ok(Compiled { binary })
    }

    /// What a failed finalize says; of one node, where the part has no other.
    fn finalize_error(&self, refused: &Refused, program: &Program) -> Error {
        let what = format!(
            "{} (build {}, SoC {}): graphFinalize of {} operations",
            self.path().display(),
            self.build_id,
            self.soc.id,
            program.operations.len()
        );
        let error = refused.error(&what, ErrorKind::Unsupported);
        let mut nodes = program.operations.iter().filter_map(|operation| operation.node);
        match (nodes.next(), nodes.next()) {
            (Some(node), None) => error.at_node(node),
            _ => error,
        }
    }

    fn build(&self, graph: qnn::Graph, program: &Program) -> Result<()> {
        let table = self.table();
        let create = slot!(table, create_graph_tensor).map_err(unusable)?;
        let add = slot!(table, add_node).map_err(unusable)?;
        let mut ids = Vec::with_capacity(program.tensors.len());
        for tensor in &program.tensors {
            let mut raw = Raw::new();
            let mut created = raw.tensor(tensor, 0);
            // SAFETY: a live graph; the tensor and all it points to live during the call, which copies them.
            let code = unsafe { create(graph, &raw mut created) };
            self.check(code).map_err(|refused| {
                refused.error(
                    &format!("tensorCreateGraphTensor of {}", tensor.name),
                    ErrorKind::Unsupported,
                )
            })?;
            // SAFETY: a tensor of version 1, as it was made.
            ids.push(unsafe { created.tensor.v1.id });
        }
        for operation in &program.operations {
            let mut raw = Raw::new();
            let mut params = vec![0u32; operation.params.len()];
            for (place, (name, param)) in operation.params.iter().enumerate() {
                let own = raw::param_name(operation, place);
                let Some(mut created) = raw.param_tensor(&own, param, 0) else {
                    continue;
                };
                // SAFETY: as above.
                let code = unsafe { create(graph, &raw mut created) };
                self.check(code).map_err(|refused| {
                    let what = format!("tensorCreateGraphTensor of {name} of {}", operation.kind);
                    node_error(refused.error(&what, ErrorKind::Unsupported), operation.node)
                })?;
                // SAFETY: a tensor of version 1, as it was made.
                params[place] = unsafe { created.tensor.v1.id };
            }
            let id = |thing| match thing {
                Thing::Tensor(tensor) => ids[tensor],
                Thing::Param(place) => params[place],
            };
            let op = raw.operation(program, operation, &id);
            // SAFETY: a live graph; the operation and all it points to live during the call.
            let code = unsafe { add(graph, op) };
            self.check(code).map_err(|refused| {
                let what = format!("graphAddNode of {}", operation.kind);
                node_error(refused.error(&what, ErrorKind::Unsupported), operation.node)
            })?;
        }
        Ok(())
    }

    fn binary(&self, context: qnn::Context) -> Result<Vec<u8>> {
        let table = self.table();
        let size = slot!(table, binary_size).map_err(unusable)?;
        let get = slot!(table, get_binary).map_err(unusable)?;
        let failed = |refused: Refused| refused.error("contextGetBinary", ErrorKind::Persistent);
        let mut bytes = 0u64;
        // SAFETY: a live context; the place for the number is ours.
        let code = unsafe { size(context, &raw mut bytes) };
        self.check(code).map_err(failed)?;
        let full = || {
            Error::new(
                ErrorKind::OutOfMemory,
                format!("no memory for {bytes} bytes of binary"),
            )
        };
        let len = usize::try_from(bytes).map_err(|_| full())?;
        let mut binary = Vec::new();
        binary.try_reserve_exact(len).map_err(|_| full())?;
        binary.resize(len, 0u8);
        let mut written = 0u64;
        // SAFETY: the buffer holds as many bytes as the call is told.
        let code = unsafe { get(context, binary.as_mut_ptr().cast(), bytes, &raw mut written) };
        self.check(code).map_err(failed)?;
        if written > bytes {
            return Err(Error::new(
                ErrorKind::Persistent,
                format!("contextGetBinary wrote {written} bytes of {bytes}"),
            ));
        }
        binary.truncate(written as usize);
        Ok(binary)
    }

    /// The graph of a binary and the ids of its ports, by name, from the System library.
    fn described(&self, binary: &[u8], ports: &[PortOf]) -> Result<Described> {
        let table = self.qnn.system_table();
        let create = slot!(table, create).map_err(unusable)?;
        let read = slot!(table, get_metadata).map_err(unusable)?;
        let free = slot!(table, free).map_err(unusable)?;
        let mut system = ptr::null_mut();
        // SAFETY: the place for the handle is ours.
        let code = unsafe { create(&raw mut system) };
        self.check(code)
            .map_err(|refused| refused.error("systemContextCreate", ErrorKind::Persistent))?;
        let mut info = ptr::null();
        // SAFETY: a live handle; the binary lives during the call.
        let code = unsafe { read(system, binary.as_ptr().cast(), binary.len() as u64, &raw mut info) };
        let result = self
            .check(code)
            .map_err(|refused| refused.error("systemContextGetMetadata", ErrorKind::BadBlob))
            // SAFETY: what the library gave on success lives until `free`.
            .and_then(|()| unsafe { describe(info, ports) });
        // SAFETY: made above and not used after.
        let _ = unsafe { free(system) };
        result
    }
}

fn node_error(error: Error, node: Option<u32>) -> Error {
    match node {
        Some(node) => error.at_node(node),
        None => error,
    }
}

/// Description of the graph in a binary.
struct Described {
    graph: CString,
    /// Of the ports, in their order.
    ids: Vec<u32>,
}

/// The graph and the ids of the ports in what the System library tells of a binary.
///
/// # Safety
/// `info` is null or what the library gave, and lives during the call.
unsafe fn describe(info: *const qnn::BinaryInfo, ports: &[PortOf]) -> Result<Described> {
    let bad = |what: &str| Error::bad_blob(format!("the binary's description {what}"));
    if info.is_null() {
        return Err(bad("is missing"));
    }
    // SAFETY: as the caller promises; later versions begin as the first does.
    let (version, info) = unsafe { ((*info).version, (*info).info.v1) };
    if !(1..=3).contains(&version) || info.graphs.is_null() || info.graph_count != 1 {
        return Err(bad(&format!(
            "is of version {version} with {} graphs; 1 to 3 with one are known",
            info.graph_count
        )));
    }
    // SAFETY: one graph, as the library counts; later versions begin as the first does.
    let (version, graph) = unsafe { ((*info.graphs).version, (*info.graphs).info.v1) };
    if !(1..=3).contains(&version) || graph.input_count > MOST_PORTS || graph.output_count > MOST_PORTS {
        return Err(bad(&format!("has a graph of version {version}")));
    }
    if graph.name.is_null() {
        return Err(bad("has a graph without a name"));
    }
    // SAFETY: a terminated name of the library.
    let name = unsafe { CStr::from_ptr(graph.name) }.to_owned();
    let mut found = vec![None; ports.len()];
    for (list, count) in [
        (graph.inputs, graph.input_count),
        (graph.outputs, graph.output_count),
    ] {
        for place in 0..count as usize {
            // SAFETY: the library lists this many tensors; version 2 begins as version 1 does.
            let tensor = unsafe { (*list.add(place)).tensor.v1 };
            if tensor.name.is_null() {
                continue;
            }
            // SAFETY: a terminated name of the library.
            let name = unsafe { CStr::from_ptr(tensor.name) };
            let at = ports
                .iter()
                .position(|port| port.name.as_bytes() == name.to_bytes());
            if let Some(at) = at {
                let mut bytes = program::from_code(tensor.data_type).map_or(0, Type::bytes);
                for axis in 0..tensor.rank as usize {
                    // SAFETY: the library lists as many extents as axes.
                    bytes = bytes.saturating_mul(unsafe { *tensor.dimensions.add(axis) } as usize);
                }
                if bytes != ports[at].bytes || tensor.id == 0 {
                    return Err(bad(&format!(
                        "gives port {} {bytes} bytes; it has {}",
                        ports[at].name, ports[at].bytes
                    )));
                }
                found[at] = Some(tensor.id);
            }
        }
    }
    let ids = found
        .into_iter()
        .zip(ports)
        .map(|(id, port)| id.ok_or_else(|| bad(&format!("lacks port {}", port.name))))
        .collect::<Result<_>>()?;
    Ok(Described { graph: name, ids })
}

/// A loaded binary, ready to run.
pub(crate) struct Context {
    session: Arc<Session>,
    context: qnn::Context,
    graph: qnn::Graph,
    /// Tensors of a run: inputs, then outputs.
    tensors: Vec<qnn::Tensor>,
    /// Type and bytes of each port.
    ports: Vec<(Type, usize)>,
    inputs: usize,
}

// SAFETY: the library takes calls from any thread; the tensors hold addresses only during a run.
unsafe impl Send for Context {}

impl Context {
    /// Loads a binary with these ports, of which the first `inputs` are inputs.
    ///
    /// # Errors
    /// The library refuses it, or its ports differ.
    pub(crate) fn load(
        session: &Arc<Session>,
        binary: &[u8],
        ports: &[PortOf],
        inputs: usize,
    ) -> Result<Context> {
        let described = session.described(binary, ports)?;
        let table = session.table();
        let create = slot!(table, create_from_binary).map_err(unusable)?;
        let retrieve = slot!(table, retrieve).map_err(unusable)?;
        let device = lock(&session.device);
        let mut context = ptr::null_mut();
        // SAFETY: live handles; the binary lives during the call; no configuration, no profile.
        let code = unsafe {
            create(
                session.backend,
                *device,
                ptr::null(),
                binary.as_ptr().cast(),
                binary.len() as u64,
                &raw mut context,
                ptr::null_mut(),
            )
        };
        if code == 0 {
            session.contexts.fetch_add(1, Ordering::AcqRel);
        }
        drop(device);
        session.check(code).map_err(|refused| {
            let what = format!(
                "contextCreateFromBinary of {} bytes by {}",
                binary.len(),
                session.path().display()
            );
            refused.error(&what, ErrorKind::BadBlob)
        })?;
        let tensors = described
            .ids
            .iter()
            .zip(ports)
            .enumerate()
            .map(|(place, (&id, port))| {
                let kind = if place < inputs {
                    qnn::POLYCHIP_QNN_TENSOR_INPUT
                } else {
                    qnn::POLYCHIP_QNN_TENSOR_OUTPUT
                };
                raw::bound(id, kind, port.ty)
            })
            .collect();
        let mut loaded = Context {
            session: Arc::clone(session),
            context,
            graph: ptr::null_mut(),
            tensors,
            ports: ports.iter().map(|port| (port.ty, port.bytes)).collect(),
            inputs,
        };
        // SAFETY: a live context; the name lives during the call.
        let code = unsafe { retrieve(context, described.graph.as_ptr(), &raw mut loaded.graph) };
        session
            .check(code)
            .map_err(|refused| refused.error("graphRetrieve", ErrorKind::BadBlob))?;
        Ok(loaded)
    }

    /// Points a port to its elements for the next run.
    ///
    /// # Errors
    /// If `bytes` is not exactly what the port holds.
    pub(crate) fn bind(&mut self, port: usize, data: *mut u8, bytes: usize) -> Result<()> {
        if self.ports.get(port).map(|port| port.1) != Some(bytes) {
            return Err(Error::bad_argument(
                "a port is bound to another number of bytes than it holds",
            ));
        }
        raw::bind(&mut self.tensors[port], data, bytes);
        Ok(())
    }

    /// Registers a range with a port's elements. It must be released before the context.
    ///
    /// # Errors
    /// The library refuses it.
    pub(crate) fn register(&self, port: usize, range: Range) -> Result<Registered> {
        let (ty, bytes) = self.ports[port];
        self.session.register(self.context, range, ty, bytes)
    }

    /// Points a port to memory that was registered for it.
    pub(crate) fn bind_known(&mut self, port: usize, memory: &Registered) {
        raw::bind_known(&mut self.tensors[port], memory.handle());
    }

    /// Runs the graph and waits for it.
    ///
    /// # Errors
    /// `DeviceLost` if the subsystem restarted, else what the library says.
    ///
    /// # Safety
    /// Every port was bound since the last run to memory that lives until this returns, that nobody writes to
    /// where it is an input, and that nobody else uses where it is an output.
    pub(crate) unsafe fn run(&mut self) -> Result<()> {
        let execute = slot!(self.session.table(), execute).map_err(unusable)?;
        let outputs = self.tensors.len() - self.inputs;
        let (first, last) = self.tensors.split_at_mut(self.inputs);
        // SAFETY: a live graph; ids are its own, memory is as the caller promises and of the right sizes.
        let code = unsafe {
            execute(
                self.graph,
                first.as_ptr(),
                first.len() as u32,
                last.as_mut_ptr(),
                outputs as u32,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        self.session
            .check(code)
            .map_err(|refused| refused.error("graphExecute", ErrorKind::Persistent))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.session.free_context(self.context);
        self.session.contexts.fetch_sub(1, Ordering::AcqRel);
    }
}

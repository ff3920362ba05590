//! Graphs as C sees them: building, finalizing, executing.
//!
//! Invariants:
//! 1. Adding a node checks little: op types and shapes are judged by finalize, as in the vendor's library.
//! 2. Execute takes buffers of any size and touches no byte that they do not have.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::time::Instant;

use polychip_emulator_qnn_format::{Graph as Description, Kind, Node, Param, Tensor};
use polychip_sys::qnn as sys;

use super::guard::{fault as general_fault, give, guard, handle, number};
use super::{log, memory, read};
use crate::code::{Code, Result};
use crate::fault::{self, Call, Effect};
use crate::plan::{Plan, Values};
use crate::trace;
use crate::world::{self, Graph};

pub(super) unsafe extern "C" fn create(
    context: sys::Context,
    name: *const c_char,
    config: *const *const sys::Config,
    out: *mut sys::Graph,
) -> sys::Code {
    guard(|| {
        general_fault(Call::GraphCreate)?;
        let at = number(context);
        let context = world::context(at)?;
        if name.is_null() || out.is_null() {
            return Err(Code::ARGUMENT);
        }
        // SAFETY: the client's text ends with a zero byte.
        let name = unsafe { read::text(name) };
        // SAFETY: the client's list ends with null.
        let half = unsafe { half_precision(config) };
        let description = Description {
            name,
            half,
            ..Description::default()
        };
        let graph = Graph::new(&context, at, description, true);
        let at = world::add_graph(graph)?;
        // SAFETY: the client gives a place for the handle.
        unsafe { give(out, handle(at)) }
    })
}

/// Whether a graph configuration requests 16-bit floats. Ignores unknown options.
///
/// # Safety
/// The list ends with null; custom entries point to HTP graph configurations.
unsafe fn half_precision(config: *const *const sys::Config) -> bool {
    // SAFETY: the caller vouches for it.
    let entries = unsafe { read::list(config) };
    entries.into_iter().any(|entry| {
        if entry.option != sys::POLYCHIP_QNN_CONFIG_CUSTOM {
            return false;
        }
        // SAFETY: with this option the union holds a pointer to a custom configuration.
        let custom = unsafe { entry.value.custom }.cast::<sys::HtpGraphConfig>();
        if custom.is_null() || !custom.is_aligned() {
            return false;
        }
        // SAFETY: the caller vouches for it.
        let custom = unsafe { &*custom };
        // SAFETY: whichever member it holds, its first 4 bytes are plain data.
        let value = unsafe { custom.value.unsigned32 };
        custom.option == sys::POLYCHIP_QNN_HTP_GRAPH_PRECISION && value == sys::POLYCHIP_QNN_HTP_PRECISION_F16
    })
}

pub(super) unsafe extern "C" fn create_tensor(graph: sys::Graph, tensor: *mut sys::Tensor) -> sys::Code {
    guard(|| {
        let graph = world::graph(number(graph))?;
        // SAFETY: the client gives a tensor, for writing its id.
        let given = unsafe { tensor.as_mut() }.ok_or(Code::ARGUMENT)?;
        // SAFETY: its pointers hold what its counts say.
        let mut made = unsafe { read::tensor(given) }?;
        if graph.plan.get().is_some() {
            return Err(Code::GRAPH_STATE);
        }
        let mut description = graph.description();
        let same = |known: &Tensor| !made.name.is_empty() && known.name == made.name;
        if made.kind != Kind::Null && description.tensors.iter().any(same) {
            return Err(Code::TENSOR);
        }
        if made.kind == Kind::Static && made.data.is_empty() && made.byte_len() != Some(0) {
            return Err(Code::TENSOR);
        }
        made.id = world::tensor_id();
        // both versions begin with the same fields
        given.tensor.v1.id = made.id;
        description.tensors.push(made);
        description.tensors.sort_by_key(|tensor| tensor.id);
        Ok(())
    })
}

/// The tensor of a graph that a client means: by id, else by name.
fn resolve<'a>(description: &'a Description, given: &Tensor) -> Result<Option<&'a Tensor>> {
    if given.kind == Kind::Null {
        return Ok(None);
    }
    let by_name = || {
        description
            .tensors
            .iter()
            .find(|known| !given.name.is_empty() && known.name == given.name)
    };
    match description.tensor(given.id).or_else(by_name) {
        Some(tensor) => Ok(Some(tensor)),
        None => Err(Code::TENSOR_ID),
    }
}

pub(super) unsafe extern "C" fn add_node(graph: sys::Graph, op: sys::OpConfig) -> sys::Code {
    guard(|| {
        let graph = world::graph(number(graph))?;
        // SAFETY: the client's pointers hold what its counts say.
        let op = unsafe { read::op(&op) }?;
        match fault::at(Call::AddNode, |name| name == op.kind) {
            Some(Effect::Fail(code)) => return Err(code),
            Some(Effect::Restart) => {
                graph.context.restart();
                return Err(Code::RESTARTED);
            }
            Some(Effect::Wait(time)) => fault::wait(time),
            Some(Effect::WrongSize) | None => {}
        }
        if graph.plan.get().is_some() {
            return Err(Code::GRAPH_STATE);
        }
        let mut description = graph.description();
        let ids = |tensors: &[Tensor]| -> Result<Vec<u32>> {
            tensors
                .iter()
                .map(|tensor| Ok(resolve(&description, tensor)?.map_or(0, |known| known.id)))
                .collect()
        };
        let (inputs, outputs) = (ids(&op.inputs)?, ids(&op.outputs)?);
        let mut params = Vec::with_capacity(op.params.len());
        for (name, param) in op.params {
            let param = match param {
                Param::Tensor(given) => {
                    Param::Tensor(resolve(&description, &given)?.ok_or(Code::TENSOR_ID)?.clone())
                }
                scalar @ Param::Scalar(_) => scalar,
            };
            params.push((name, param));
        }
        let node = Node {
            name: op.name,
            package: op.package,
            op: op.kind,
            params,
            inputs,
            outputs,
        };
        trace::added(&description, &node);
        description.nodes.push(node);
        Ok(())
    })
}

pub(super) unsafe extern "C" fn finalize(
    graph: sys::Graph,
    profile: sys::Profile,
    signal: sys::Signal,
) -> sys::Code {
    guard(|| {
        if !signal.is_null() {
            return Err(Code::NOT_SUPPORTED);
        }
        let graph = world::graph(number(graph))?;
        if graph.plan.get().is_some() {
            return Err(Code::GRAPH_STATE);
        }
        let start = Instant::now();
        let description = graph.description().clone();
        let has = |name: &str| description.nodes.iter().any(|node| node.op == name);
        match fault::at(Call::Finalize, has) {
            Some(Effect::Fail(code)) => return Err(code),
            Some(Effect::Restart) => {
                graph.context.restart();
                return Err(Code::RESTARTED);
            }
            Some(Effect::Wait(time)) => fault::wait(time),
            Some(Effect::WrongSize) | None => {}
        }
        let plan = Plan::new(&description, graph.context.soc).map_err(|(code, why)| {
            let text = format!("graph {:?} cannot be finalized: {why}", description.name);
            log::emit(sys::POLYCHIP_QNN_LOG_ERROR, &text);
            code
        });
        trace::finalized(&description, &plan.as_ref().map(drop).map_err(|&code| code));
        let plan = plan?;
        if !profile.is_null() {
            world::profile(number(profile))?.finalized(start.elapsed(), graph.context.soc, plan.size());
        }
        graph.plan.set(Arc::new(plan)).map_err(|_| Code::GRAPH_STATE)
    })
}

pub(super) unsafe extern "C" fn retrieve(
    context: sys::Context,
    name: *const c_char,
    out: *mut sys::Graph,
) -> sys::Code {
    guard(|| {
        if name.is_null() {
            return Err(Code::ARGUMENT);
        }
        // SAFETY: the client's text ends with a zero byte.
        let name = unsafe { read::text(name) };
        let at = world::find_graph(number(context), &name)?;
        // SAFETY: the client gives a place for the handle.
        unsafe { give(out, handle(at)) }
    })
}

pub(super) unsafe extern "C" fn execute(
    graph: sys::Graph,
    inputs: *const sys::Tensor,
    input_count: u32,
    outputs: *mut sys::Tensor,
    output_count: u32,
    profile: sys::Profile,
    signal: sys::Signal,
) -> sys::Code {
    guard(|| {
        if !signal.is_null() {
            return Err(Code::NOT_SUPPORTED);
        }
        let graph = world::graph(number(graph))?;
        let plan = graph.finalized()?;
        if !graph.enabled {
            return Err(Code::GENERAL);
        }
        let start = Instant::now();
        // SAFETY: the client's arrays hold what its counts say.
        let (inputs, outputs) = unsafe {
            (
                read::slice(inputs, input_count, 1 << 12)?,
                read::slice(outputs.cast_const(), output_count, 1 << 12)?,
            )
        };
        let mut values = Values::new();
        for given in inputs {
            let known = expect(&plan, given, Kind::is_input)?;
            // SAFETY: the client's buffer holds the bytes that it says.
            let bytes = unsafe {
                let place = memory::place(graph.context_handle(), read::shared(given)?)?;
                read::bytes(place, known.byte_len().ok_or(Code::TENSOR)?)
            };
            values.insert(known.id, bytes.into());
        }
        if plan.inputs().any(|tensor| !values.contains_key(&tensor.id)) {
            return Err(Code::TENSOR_ID);
        }
        let mut places = Vec::with_capacity(outputs.len());
        for given in outputs {
            let known = expect(&plan, given, Kind::is_output)?;
            places.push((
                known.id,
                memory::place(graph.context_handle(), read::shared(given)?)?,
            ));
        }
        let mut part = 1;
        match fault::at(Call::Execute, |name| plan.has_op(name)) {
            Some(Effect::Fail(code)) => return Err(code),
            Some(Effect::Restart) => {
                graph.context.restart();
                return Err(Code::RESTARTED);
            }
            Some(Effect::Wait(time)) => fault::wait(time),
            Some(Effect::WrongSize) => part = 2,
            None => {}
        }
        // another execute may have lost the subsystem meanwhile
        graph.context.usable()?;
        plan.run(&mut values)?;
        for (id, (data, size)) in places {
            if let Some(bytes) = values.get(&id) {
                // SAFETY: the client's buffer holds the bytes that it says.
                unsafe { write(data, size, &bytes[..bytes.len() / part]) };
            }
        }
        if !profile.is_null() {
            world::profile(number(profile))?.executed(start.elapsed());
        }
        Ok(())
    })
}

/// The tensor of a graph that a client's execute names by id.
fn expect<'a>(plan: &'a Plan, given: &sys::Tensor, kind: fn(Kind) -> bool) -> Result<&'a Tensor> {
    let id = read::shared(given)?.id;
    plan.port(id)
        .filter(|known| id != 0 && kind(known.kind))
        .ok_or(Code::TENSOR_ID)
}

/// Writes as much as the buffer holds.
///
/// # Safety
/// `data` is null or valid for writing `size` bytes.
unsafe fn write(data: *mut u8, size: usize, bytes: &[u8]) {
    if !data.is_null() {
        let count = bytes.len().min(size);
        // SAFETY: the caller vouches for `size` bytes; ours do not lie in them.
        unsafe { data.copy_from_nonoverlapping(bytes.as_ptr(), count) };
    }
}

pub(super) unsafe extern "C" fn execute_async(
    _graph: sys::Graph,
    _inputs: *const sys::Tensor,
    _input_count: u32,
    _outputs: *mut sys::Tensor,
    _output_count: u32,
    _profile: sys::Profile,
    _signal: sys::Signal,
    _notify: sys::polychip_qnn_notify,
    _parameter: *mut c_void,
) -> sys::Code {
    Code::NOT_SUPPORTED.0
}

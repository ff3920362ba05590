//! A set of nodes that ONNX Runtime sees as one: a session whose inputs and outputs are in ONNX
//! Runtime's memory.
//!
//! Invariants:
//! 1. Tensors are read and written in place. An output whose size is known only after the run,
//!    strings, and an output that no run writes are copied and counted.
//! 2. Any number of threads may compute at once: a run waits for a slot among the runs in flight.
//! 3. If large constants lie in the model's files, a session is planned when ONNX Runtime compiles the node, and weights are
//!    packed when it makes the node's kernel: it has released its own constants by then, so only one of both is in memory.
//! 4. A node with open sizes is claimed by sample sizes (`claim`). If the sizes of a run turn out
//!    to be unsupported, a warning and the run's error state the reason.

#![allow(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use polychip::{
    Input, Memory, Output, Outputs, Packed, Planned, Policy, Precompiled, RunOptions, Runtime, Session,
    TensorSpec,
};
use polychip_sys::onnxruntime::bindings as sys;
use smallvec::SmallVec;

use crate::api::Api;
use crate::changes::Changes;
use crate::context::Context;
use crate::entry::entry;
use crate::failure::{Failure, Result};
use crate::log::Log;
use crate::ort::{Info, Node};
use crate::read::{Nodes, unranked};
use crate::reports::{Copies, Entry, PartId};
use crate::value::Sizes;

/// Time limit of a run for its slot, and for its end.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// Polling interval for the release of memory after a failure.
const AGAIN: Duration = Duration::from_millis(1);

/// Number of cached shape lists with known outputs.
const KEPT: usize = 64;

/// Bytes of constants in files from which on weights are packed later.
const LARGE: usize = 8 << 20;

/// So many sessions are kept of a node whose inputs come with ranks that the model does not tell; that which was used longest
/// ago goes first.
const MAX_RANK_SESSIONS: usize = 8;

/// Arguments for making sessions of a fused node.
#[derive(Clone)]
pub(crate) struct Making {
    pub(crate) api: Api,
    pub(crate) log: Log,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) policy: Policy,
    pub(crate) name: String,
    pub(crate) entry: Arc<Entry>,
    pub(crate) changes: Arc<Changes>,
    pub(crate) copies: Arc<Copies>,
}

/// The compute object of a fused node: the part visible to ONNX Runtime first.
#[repr(C)]
pub(crate) struct Fused {
    seen: sys::OrtNodeComputeInfo,
    making: Making,
    places: PortMapping,
    sessions: Sessions,
}

/// Mapping from the names of the model to the node's inputs and outputs.
#[derive(Clone, Default)]
pub(crate) struct PortMapping {
    inputs: BTreeMap<String, usize>,
    outputs: BTreeMap<String, usize>,
}

impl PortMapping {
    /// Of a node whose model has the node's own names.
    pub(crate) fn of(node: Node<'_>) -> Result<PortMapping> {
        let [inputs, outputs] = names(node)?;
        let placed = |names: Vec<String>| {
            names
                .into_iter()
                .enumerate()
                .map(|(place, name)| (name, place))
                .collect()
        };
        Ok(PortMapping {
            inputs: placed(inputs),
            outputs: placed(outputs),
        })
    }

    /// The same for a model that has these names, in the order in which `inner` has them of the node.
    pub(crate) fn renamed(
        &self,
        inner: Node<'_>,
        inputs: &[String],
        outputs: &[String],
    ) -> Result<PortMapping> {
        let [given, gives] = names(inner)?;
        let renamed = |what: &str, now: Vec<String>, then: &[String], places: &BTreeMap<String, usize>| {
            if now.len() != then.len() {
                return Err(Failure::new(format!(
                    "the node has {} {what}, and was compiled with {}",
                    now.len(),
                    then.len()
                )));
            }
            // an output without readers has no place
            let placed = then
                .iter()
                .zip(&now)
                .filter_map(|(then, now)| Some((then.clone(), *places.get(now)?)));
            Ok(placed.collect::<BTreeMap<String, usize>>())
        };
        Ok(PortMapping {
            inputs: renamed("inputs", given, inputs, &self.inputs)?,
            outputs: renamed("outputs", gives, outputs, &self.outputs)?,
        })
    }
}

/// Names of a node's inputs and outputs, in order.
pub(crate) fn names(node: Node<'_>) -> Result<[Vec<String>; 2]> {
    let names = |infos: Vec<Option<Info<'_>>>| -> Result<Vec<String>> {
        let name = |info: Option<Info<'_>>| match info {
            Some(info) => Ok(info.name()?.to_owned()),
            None => Ok(String::new()),
        };
        infos.into_iter().map(name).collect()
    };
    Ok([names(node.inputs()?)?, names(node.outputs()?)?])
}

/// The sessions of a fused node.
enum Sessions {
    One(Arc<Compiled>),
    /// Planned, and made when the node's kernel is.
    Later(Box<Later>),
    /// The model does not say how many sizes the inputs at these places of the node have (and at these of the model): one
    /// session for each way in which runs do.
    ByRank {
        nodes: Box<Nodes>,
        open: Vec<(usize, usize)>,
        made: Mutex<ByRank>,
    },
}

/// A session that is planned, and then made.
struct Later {
    /// Until it is made.
    planned: Mutex<Option<Planned>>,
    made: OnceLock<Arc<Compiled>>,
}

impl Later {
    fn compiled(&self, making: &Making, places: &PortMapping) -> Result<&Arc<Compiled>> {
        if let Some(made) = self.made.get() {
            return Ok(made);
        }
        let mut planned = self.planned.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = self.made.get() {
            return Ok(made);
        }
        let planned = planned
            .take()
            .ok_or_else(|| Failure::new("its session could not be made; the log has the reason"))?;
        trim();
        let session = making.runtime.session_of(planned, making.policy.clone())?;
        let compiled = making.ready(session, places)?;
        Ok(self.made.get_or_init(|| compiled))
    }
}

/// Returns free memory to the system: ONNX Runtime's constants, which it has released, lie between blocks in use.
fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes no pointer, and may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Sessions by the ranks of inputs, used last first.
#[derive(Default)]
struct ByRank(Vec<(Ranks, Arc<Slot>)>);

/// One session, made on first use while other users wait; after a failure, the next user tries again.
type Slot = Mutex<Option<Arc<Compiled>>>;

impl ByRank {
    /// The slot for these ranks, and the one that goes for it.
    fn slot(&mut self, ranks: &Ranks) -> (Arc<Slot>, Option<Arc<Slot>>) {
        let place = self.0.iter().position(|(known, _)| known == ranks);
        let used = match place {
            Some(place) => self.0.remove(place),
            None => (ranks.clone(), Arc::default()),
        };
        let slot = Arc::clone(&used.1);
        self.0.insert(0, used);
        let gone = (self.0.len() > MAX_RANK_SESSIONS).then(|| self.0.pop()).flatten();
        (slot, gone.map(|(_, slot)| slot))
    }
}

type Ranks = SmallVec<[usize; 4]>;

/// A session that computes a fused node.
struct Compiled {
    session: Session,
    /// For each input of the session: its place among those of the node.
    inputs: Vec<Port>,
    /// For each output of the session: its place among those of the node.
    outputs: Vec<Port>,
    /// Where all sizes are known: what runs write.
    fixed: Option<Arc<[Target]>>,
    /// By shapes of the inputs, newest last.
    known: Mutex<Vec<(Shapes, Arc<[Target]>)>>,
    copies: Arc<Copies>,
    entry: Arc<Entry>,
    part: PartId,
}

/// An input or output of the session, and its place in the node.
struct Port {
    spec: TensorSpec,
    place: usize,
}

/// Shapes of the inputs of a run.
type Shapes = SmallVec<[Sizes; 4]>;

/// Transfer of an output to ONNX Runtime.
enum Target {
    /// Written in place: its sizes.
    InPlace(Vec<usize>, Vec<i64>, u64),
    /// Copied after the run.
    Copied,
}

impl Making {
    /// A session for a fused node, of the plans that were compiled ahead if there are any.
    fn compiled(&self, nodes: Nodes, places: &PortMapping, made: &[Precompiled]) -> Result<Arc<Compiled>> {
        let model = nodes.load(&self.runtime, &self.name)?;
        let policy = self.policy.clone();
        let session = match made {
            [] => self.runtime.session(&model, policy)?,
            _ => self.runtime.session_precompiled(&model, policy, made)?,
        };
        self.ready(session, places)
    }

    /// A plan for a fused node, if its session is to be made later.
    fn planned(&self, nodes: &Nodes, made: &[Precompiled]) -> Result<Option<Planned>> {
        let is_large = nodes.files.is_some() && nodes.constant_bytes() >= LARGE;
        if !is_large || !made.is_empty() || self.policy.has_buckets() {
            return Ok(None);
        }
        let model = nodes.clone().load(&self.runtime, &self.name)?;
        if !model.open_dims().is_empty() {
            return Ok(None);
        }
        Ok(Some(self.runtime.plan(&model, &self.policy)?))
    }

    /// A session for a fused node, with its ports.
    fn ready(&self, session: Session, places: &PortMapping) -> Result<Arc<Compiled>> {
        let ports = |specs: Vec<TensorSpec>, places: &BTreeMap<String, usize>| -> Result<Vec<Port>> {
            let port = |spec: TensorSpec| {
                let place = places.get(&spec.name).copied();
                let place = place.ok_or_else(|| {
                    Failure::new(format!("{:?} is no input or output of the fused node", spec.name))
                })?;
                Ok(Port { spec, place })
            };
            specs.into_iter().map(port).collect()
        };
        let inputs = ports(session.inputs().cloned().collect(), &places.inputs)?;
        let outputs = ports(session.outputs().cloned().collect(), &places.outputs)?;
        let none: [(&str, &[usize]); 0] = [];
        let fixed = if session.is_open() {
            None
        } else {
            Some(targets(&session, session.outputs_for(none)?))
        };
        let enter = || self.entry.compiled(&self.name, &session, &self.copies);
        let part = self.changes.enter(&session, enter, |error| {
            self.log
                .warning(&format!("{}: a dynamic option has no effect: {error}", self.name));
        });
        Ok(Arc::new(Compiled {
            entry: Arc::clone(&self.entry),
            part,
            session,
            inputs,
            outputs,
            fixed,
            known: Mutex::default(),
            copies: Arc::clone(&self.copies),
        }))
    }

    /// A failure to plan for sizes that a run came with, of which a warning tells.
    fn unfit(&self, failure: Failure) -> Failure {
        if failure.code == sys::ORT_INVALID_ARGUMENT as i32 {
            // the inputs of the run are wrong for any provider
            return failure;
        }
        self.log.warning(&format!(
            "{}: was claimed when its sizes were open, and those of this run cannot be run: {}; give the sizes when the session \
             is made (free dimension overrides), or make it without this provider",
            self.name, failure.words
        ));
        failure
    }
}

impl Fused {
    pub(crate) fn new(
        making: Making,
        nodes: Nodes,
        places: PortMapping,
        made: &[Precompiled],
    ) -> Result<Fused> {
        let unranked = unranked(&nodes.model);
        let sessions = if unranked.is_empty() {
            match making.planned(&nodes, made)? {
                Some(planned) => Sessions::Later(Box::new(Later {
                    planned: Mutex::new(Some(planned)),
                    made: OnceLock::new(),
                })),
                None => Sessions::One(making.compiled(nodes, &places, made)?),
            }
        } else {
            let given = nodes
                .model
                .graph
                .as_ref()
                .map(|graph| &graph.input[..])
                .unwrap_or_default();
            let place = |own: usize| {
                let name = &given[own].name;
                let place = places.inputs.get(name).copied();
                Ok((
                    place.ok_or_else(|| Failure::new(format!("{name:?} is no input of the fused node")))?,
                    own,
                ))
            };
            Sessions::ByRank {
                open: unranked.into_iter().map(place).collect::<Result<_>>()?,
                nodes: Box::new(nodes),
                made: Mutex::default(),
            }
        };
        Ok(Fused {
            seen: sys::OrtNodeComputeInfo {
                ort_version_supported: sys::ORT_VERSION,
                CreateState: Some(create_state),
                Compute: Some(compute),
                ReleaseState: Some(release_state),
            },
            making,
            places,
            sessions,
        })
    }

    /// Names of the devices that its plan uses, separated by commas; empty without a plan.
    pub(crate) fn devices(&self) -> String {
        let plan = match &self.sessions {
            Sessions::One(compiled) => compiled.session.plan(),
            Sessions::Later(later) => later.made.get().and_then(|compiled| compiled.session.plan()),
            Sessions::ByRank { .. } => None,
        };
        let Some(plan) = plan else {
            return String::new();
        };
        let used: BTreeSet<&str> = plan
            .parts
            .iter()
            .filter_map(|part| plan.devices.get(part.device.index()).map(String::as_str))
            .collect();
        used.into_iter().collect::<Vec<_>>().join(",")
    }

    /// Makes a session that is only planned.
    fn prepare(&self) -> Result<()> {
        match &self.sessions {
            Sessions::Later(later) => later.compiled(&self.making, &self.places).map(drop),
            Sessions::One(_) | Sessions::ByRank { .. } => Ok(()),
        }
    }

    fn compute(&self, context: Context) -> Result<()> {
        match &self.sessions {
            Sessions::One(compiled) => compiled.compute(context, &self.making),
            Sessions::Later(later) => later
                .compiled(&self.making, &self.places)?
                .compute(context, &self.making),
            Sessions::ByRank { nodes, open, made } => {
                let mut ranks = Ranks::new();
                for (place, _) in open {
                    ranks.push(rank(context, *place)?);
                }
                let (slot, gone) = made.lock().unwrap_or_else(PoisonError::into_inner).slot(&ranks);
                // without the lock: a session that ends waits for its last run
                drop(gone);
                // held while the session is made: others that need the same wait, and no one else
                let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
                let compiled = match &*slot {
                    Some(compiled) => Arc::clone(compiled),
                    None => {
                        let own = open.iter().map(|(_, own)| *own).zip(ranks.iter().copied());
                        let compiled = self.making.compiled(nodes.ranked(own), &self.places, &[]);
                        let compiled = compiled.map_err(|failure| self.making.unfit(failure))?;
                        Arc::clone(slot.insert(compiled))
                    }
                };
                drop(slot);
                compiled.compute(context, &self.making)
            }
        }
    }
}

/// How many sizes an input of a run has.
fn rank(context: Context, place: usize) -> Result<usize> {
    let input = context.input(place)?;
    let input =
        input.ok_or_else(|| Failure::argument(format!("input {place} of the fused node is not given")))?;
    Ok(input.form()?.1.len())
}

impl Compiled {
    fn compute(&self, context: Context, making: &Making) -> Result<()> {
        let mut lent = SmallVec::new();
        let result = self.run(context, making, &mut lent);
        if result.is_err() {
            // ONNX Runtime's memory goes when this returns, and a device that failed may still write it
            while lent.iter().any(Memory::is_in_flight) {
                std::thread::sleep(AGAIN);
            }
        }
        result
    }

    fn run(&self, context: Context, making: &Making, lent: &mut SmallVec<[Memory; 8]>) -> Result<()> {
        let mut inputs: SmallVec<[Input; 4]> = SmallVec::new();
        let mut shapes = Shapes::new();
        for port in &self.inputs {
            let (input, sizes) = self.input(context, port, lent)?;
            inputs.push(input);
            shapes.push(sizes);
        }
        let targets = self.targets(shapes).map_err(|failure| making.unfit(failure))?;
        let mut bound: SmallVec<[Output; 4]> = SmallVec::new();
        for (port, target) in self.outputs.iter().zip(&*targets) {
            if let Target::InPlace(shape, sizes, bytes) = target
                && let Some(place) = context.output(port.place, sizes)?
            {
                // SAFETY: `compute` returns when no run uses the memory any more, and the session's next run has other
                // memory; no other code touches it, and its room is that of its sizes.
                let memory = unsafe { Memory::external(place.data()?, *bytes, ()) };
                bound.push(self.session.output_in_memory(&port.spec.name, shape, &memory)?);
                lent.push(memory);
            }
        }
        let given: SmallVec<[&Input; 4]> = inputs.iter().collect();
        let written: SmallVec<[&Output; 4]> = bound.iter().collect();
        let options = RunOptions::new().queue_timeout(PATIENCE);
        let run = self.session.submit_with(&given, &written, options)?;
        let outputs = run.wait(PATIENCE)?;
        for (index, (port, target)) in self.outputs.iter().zip(&*targets).enumerate() {
            if matches!(target, Target::Copied) {
                self.copy(context, port, index, &outputs)?;
            }
        }
        Ok(())
    }

    /// An input of a run, in ONNX Runtime's memory.
    fn input(
        &self,
        context: Context,
        port: &Port,
        lent: &mut SmallVec<[Memory; 8]>,
    ) -> Result<(Input, Sizes)> {
        let name = &port.spec.name;
        let value = context
            .input(port.place)?
            .ok_or_else(|| Failure::argument(format!("input {name:?} is not given")))?;
        if port.spec.packed {
            let strings = value.strings()?;
            let sizes = Sizes::from_slice(&strings.shape);
            let strings = Packed::Tensor(strings);
            let mut input = self.session.input(name)?;
            input.write_packed(&strings)?;
            self.copies.add_input(strings.to_bytes().len());
            return Ok((input, sizes));
        }
        // SAFETY: the inputs of a run are not written during the run.
        let (dtype, sizes, bytes) = unsafe { value.bytes::<'static>() }?;
        if dtype != port.spec.dtype {
            let words = format!("input {name:?} takes {}, and {dtype} was given", port.spec.dtype);
            return Err(Failure::argument(words));
        }
        // SAFETY: as above; `compute` returns when no run uses the memory any more, and the next run has other.
        let memory = unsafe { Memory::external(NonNull::from(bytes).cast(), bytes.len() as u64, ()) };
        let input = self.session.input_from(name, &sizes, &memory)?;
        lent.push(memory);
        Ok((input, sizes))
    }

    /// How the outputs of a run on inputs of these shapes come to ONNX Runtime.
    fn targets(&self, shapes: Shapes) -> Result<Arc<[Target]>> {
        if let Some(fixed) = &self.fixed {
            return Ok(Arc::clone(fixed));
        }
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, targets)) = lock().iter().find(|(known, _)| *known == shapes) {
            return Ok(Arc::clone(targets));
        }
        let given = self.inputs.iter().zip(&shapes);
        let given = given.map(|(port, sizes)| (port.spec.name.as_str(), sizes.as_slice()));
        let targets = targets(&self.session, self.session.outputs_for(given)?);
        let mut known = lock();
        if known.len() >= KEPT {
            known.remove(0);
        }
        known.push((shapes, Arc::clone(&targets)));
        Ok(targets)
    }

    /// Copies an output of which the run has told the size.
    fn copy(&self, context: Context, port: &Port, index: usize, outputs: &Outputs) -> Result<()> {
        let view = outputs.at(index)?;
        let bytes = view.bytes();
        let signed = |sizes: &[usize]| -> Vec<i64> { sizes.iter().map(|size| *size as i64).collect() };
        if port.spec.packed {
            let Some(Packed::Tensor(literal)) = Packed::from_bytes(bytes) else {
                return Err(Failure::new(format!("output {:?} is no tensor", port.spec.name)));
            };
            if let Some(place) = context.output(port.place, &signed(&literal.shape))? {
                place.set_strings(&literal.strings().unwrap_or_default())?;
            }
        } else if let Some(place) = context.output(port.place, &signed(view.shape()))? {
            let data = place.data()?;
            // SAFETY: the room is that of these sizes, and no run writes it.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), data.as_ptr(), bytes.len()) };
        }
        self.copies.add_output(bytes.len());
        Ok(())
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        self.entry.released(self.part);
    }
}

/// Which outputs are written in place: those whose size is known, and that a run writes.
fn targets(session: &Session, specs: Vec<Option<TensorSpec>>) -> Arc<[Target]> {
    let target = |spec: Option<TensorSpec>| {
        // a constant or an input handed through is written by no run
        let Some(spec) = spec else {
            return Target::Copied;
        };
        if spec.packed || spec.upper_bound || !spec.open.is_empty() {
            return Target::Copied;
        }
        // also where the model does not say how many axes there are
        let Ok(memory) = Memory::new(spec.bytes.max(1)) else {
            return Target::Copied;
        };
        if session
            .output_in_memory(&spec.name, &spec.shape, &memory)
            .is_err()
        {
            return Target::Copied;
        }
        let sizes = spec.shape.iter().map(|size| *size as i64).collect();
        Target::InPlace(spec.shape, sizes, spec.bytes)
    };
    specs.into_iter().map(target).collect()
}

unsafe extern "C" fn create_state(
    info: *mut sys::OrtNodeComputeInfo,
    _context: *mut sys::OrtNodeComputeContext,
    state: *mut *mut c_void,
) -> *mut sys::OrtStatus {
    // SAFETY: the place is ONNX Runtime's. There is no state beside what is compiled.
    unsafe { *state = info.cast() };
    // SAFETY: ONNX Runtime gives back what was made in `compile`, which lives during the call.
    let fused = unsafe { &*info.cast::<Fused>() };
    entry(fused.making.api, || {
        fused.prepare().map_err(|failure| Failure {
            words: format!("{}: {}", fused.making.name, failure.words),
            ..failure
        })
    })
}

unsafe extern "C" fn compute(
    info: *mut sys::OrtNodeComputeInfo,
    _state: *mut c_void,
    context: *mut sys::OrtKernelContext,
) -> *mut sys::OrtStatus {
    // SAFETY: ONNX Runtime gives back what was made in `compile`, which lives during the call.
    let fused = unsafe { &*info.cast::<Fused>() };
    entry(fused.making.api, || {
        // SAFETY: the context is that of this call, and what crosses the edge of a set is a tensor (`sets`).
        let context = unsafe { Context::new(fused.making.api, context) };
        fused.compute(context).map_err(|failure| Failure {
            words: format!("{}: {}", fused.making.name, failure.words),
            ..failure
        })
    })
}

unsafe extern "C" fn release_state(_info: *mut sys::OrtNodeComputeInfo, _state: *mut c_void) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_by_rank_are_bounded_and_evicted_least_recently_used_first() {
        let mut made = ByRank::default();
        let ranks = |rank: usize| Ranks::from_slice(&[rank, 1]);
        let first = made.slot(&ranks(0)).0;
        for rank in 1..MAX_RANK_SESSIONS {
            assert!(
                made.slot(&ranks(rank)).1.is_none(),
                "there is room for {MAX_RANK_SESSIONS}"
            );
        }
        assert!(
            Arc::ptr_eq(&first, &made.slot(&ranks(0)).0),
            "the same ranks are the same session"
        );
        let (_, gone) = made.slot(&ranks(MAX_RANK_SESSIONS));
        assert_eq!(made.0.len(), MAX_RANK_SESSIONS);
        assert!(gone.is_some() && !made.0.iter().any(|(known, _)| *known == ranks(1)));
        assert!(Arc::ptr_eq(&first, &made.slot(&ranks(0)).0), "it was used since");
    }
}

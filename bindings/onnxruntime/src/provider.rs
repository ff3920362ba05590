//! The provider of one ONNX Runtime session: its claims, and its compiled nodes.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char};
use std::path::PathBuf;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use polychip::{Policy, Runtime};
use polychip_sys::onnxruntime::bindings as sys;

use crate::NAME;
use crate::api::{Api, ep, is_forked, text_at};
use crate::changes::Changes;
use crate::claim::{Asked, Claim, words_of};
use crate::compiled;
use crate::compiling::{Compiling, Made};
use crate::entry::{caught, entry};
use crate::failure::{Failure, Result};
use crate::fused::{Fused, Making};
use crate::identity::Identity;
use crate::log::Log;
use crate::options::{self, ContextOptions, Options};
use crate::ort::{Graph, Node};
use crate::read::{Captured, Constants, Nodes, Reader, known_by};
use crate::reports::{self, Entry};
use crate::source::Source;
use crate::surroundings::Surroundings;

/// A provider: the part visible to ONNX Runtime first.
#[repr(C)]
pub(crate) struct Provider {
    seen: sys::OrtEp,
    api: Api,
    log: Log,
    runtime: Arc<Runtime>,
    policy: Policy,
    report: Option<PathBuf>,
    context: ContextOptions,
    /// The compiler's identity for compiled models, made on request.
    identity: OnceLock<CString>,
    entry: Arc<Entry>,
    changes: Arc<Changes>,
    captured: Mutex<Captured>,
    surroundings: Surroundings,
}

impl Provider {
    pub(crate) fn new(api: Api, log: Log, options: Options) -> Provider {
        Provider {
            seen: sys::OrtEp {
                ort_version_supported: sys::ORT_VERSION,
                GetName: Some(get_name),
                GetCapability: Some(get_capability),
                Compile: Some(compile),
                ReleaseNodeComputeInfos: Some(release_node_compute_infos),
                GetPreferredDataLayout: None,
                ShouldConvertDataLayoutForOp: None,
                SetDynamicOptions: Some(set_dynamic_options),
                OnRunStart: None,
                OnRunEnd: None,
                CreateAllocator: None,
                CreateSyncStreamForDevice: None,
                GetCompiledModelCompatibilityInfo: Some(get_compiled_model_compatibility_info),
                GetKernelRegistry: None,
            },
            api,
            log,
            runtime: options.runtime,
            policy: options.policy,
            report: options.report,
            context: options.context,
            identity: OnceLock::new(),
            entry: reports::begin(),
            changes: Arc::default(),
            captured: Mutex::default(),
            surroundings: Surroundings::default(),
        }
    }

    fn captured(&self) -> MutexGuard<'_, Captured> {
        self.captured.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reader<'r>(&self, captured: &'r Captured, source: Option<&'r Source>) -> Reader<'r> {
        Reader {
            api: self.api,
            constants: Constants::Kept,
            captured,
            source,
        }
    }

    /// Releases it, in the process that made it; in a child its sessions cannot end, and the report belongs to the parent.
    pub(crate) fn release(self: Box<Self>) {
        if is_forked() {
            Box::leak(self);
        }
    }

    /// # Safety
    /// `info` is what ONNX Runtime gave with the graph.
    unsafe fn claim(&self, graph: Graph<'_>, info: *mut sys::OrtEpGraphSupportInfo) -> Result<()> {
        let asked = Asked {
            api: self.api,
            runtime: &self.runtime,
            policy: &self.policy,
            surroundings: &self.surroundings,
            compiles: self.context.is_made,
        };
        let mut claim = asked.claim(graph)?;
        let nodes = graph.nodes()?;
        if !self.api.has_shapes {
            self.keep_captured(&nodes, &mut claim)?;
        }
        let fuse = ep!(self.api, EpGraphSupportInfo_AddNodesToFuse)?;
        for set in &claim.sets {
            let is_compiled = matches!(set[..], [place] if compiled::is_ours(nodes[place])?);
            let options = sys::OrtNodeFusionOptions {
                ort_version_supported: sys::ORT_VERSION,
                // what was compiled knows its inputs, be they constants by now
                drop_constant_initializers: !is_compiled,
            };
            let nodes: Vec<*const sys::OrtNode> = set.iter().map(|index| nodes[*index].raw()).collect();
            // SAFETY: the caller's promise; the array holds this many nodes of the graph, and they
            // and the options are copied.
            unsafe {
                self.api
                    .check(fuse(info, nodes.as_ptr(), nodes.len(), &raw const options))
            }?;
        }
        self.tell(graph, &claim)
    }

    /// Keeps what bodies of claimed nodes read of constants around them. Where two graphs of the model have a node of the same
    /// name that reads constants of the same name which differ, the later one is left to others: once compiled, nothing tells
    /// which is meant.
    fn keep_captured(&self, nodes: &[Node<'_>], claim: &mut Claim) -> Result<()> {
        let none = Captured::new();
        let reader = self.reader(&none, None);
        let mut kept = self.captured();
        let mut sets = Vec::new();
        for set in std::mem::take(&mut claim.sets) {
            let mut captured = Captured::new();
            for node in &set {
                captured.extend(reader.captured(nodes[*node])?);
            }
            if captured
                .iter()
                .any(|(key, tensor)| kept.get(key).is_some_and(|kept| kept != tensor))
            {
                for node in set {
                    let why = "another graph of the model has a node with the same outputs, whose bodies read other constants";
                    claim.refused.push((words_of(nodes[node])?, why.to_owned()));
                }
            } else {
                kept.extend(captured);
                sets.push(set);
            }
        }
        claim.sets = sets;
        Ok(())
    }

    fn tell(&self, graph: Graph<'_>, claim: &Claim) -> Result<()> {
        let around = graph.parent()?.map(Node::name).transpose()?;
        self.entry.claimed(
            &format!("{} {}", around.unwrap_or_default(), graph.name()?),
            claim,
        );
        let whose = match graph.parent()? {
            Some(node) => format!("of a body of node {:?}, it ", node.name()?),
            None => String::new(),
        };
        match reports::warning(claim) {
            Some(words) => self.log.warning(&format!("{whose}{words}")),
            None if claim.nodes > 0 => self.log.info(&format!("{whose}runs all {} nodes", claim.nodes)),
            None => {}
        }
        Ok(())
    }

    /// The compute object for the nodes of a fused node.
    fn compiled(&self, compiling: &mut Compiling<'_>, graph: Graph<'_>, node: Node<'_>) -> Result<Made> {
        let making = Making {
            api: self.api,
            log: self.log,
            runtime: Arc::clone(&self.runtime),
            policy: self.policy.clone(),
            name: node.name()?.to_owned(),
            entry: Arc::clone(&self.entry),
            changes: Arc::clone(&self.changes),
            copies: Arc::default(),
        };
        if let Some(inner) = compiled::node_of(graph)? {
            return compiling.restored(making, graph, inner, node);
        }
        let mut captured = self.captured();
        let source = compiling.source(graph)?;
        let whole = Nodes {
            model: self.reader(&captured, source).whole(graph)?,
            files: source.map(|source| source.files().clone()),
            hashes: Arc::default(),
        };
        for node in graph.nodes()? {
            let of_node = known_by(node)?;
            captured.retain(|(known_by, _), _| *known_by != of_node);
        }
        drop(captured);
        compiling.made(making, whole, node)
    }

    /// Changes settings of the sessions of its parts while they run, and of those that are made later.
    fn set(&self, options: &[(&str, &str)]) -> Result<()> {
        for (key, value) in options {
            let Some(name) = options::of_ours(key) else {
                // ONNX Runtime tells all providers of a session what one of them knows
                self.log
                    .info(&format!("the option {key} is left to other providers"));
                continue;
            };
            self.changes.set(name, value, || self.entry.sessions())?;
        }
        Ok(())
    }

    /// The compiler's identity for compiled models.
    fn identity(&self) -> &CStr {
        self.identity.get_or_init(|| {
            let json = Identity::of(&self.runtime).to_json();
            CString::new(json).unwrap_or_default()
        })
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let Some(file) = &self.report else {
            return;
        };
        let written = self.entry.json().map_err(std::io::Error::from);
        if let Err(error) = written.and_then(|json| std::fs::write(file, json + "\n")) {
            self.log.warning(&format!(
                "the report cannot be written to {}: {error}",
                file.display()
            ));
        }
    }
}

/// # Safety
/// The provider is one of ours, and lives during the call.
unsafe fn provider<'a>(ep: *mut sys::OrtEp) -> &'a Provider {
    // SAFETY: the caller's promise.
    unsafe { &*ep.cast::<Provider>() }
}

unsafe extern "C" fn get_name(_ep: *const sys::OrtEp) -> *const c_char {
    CStr::as_ptr(NAME)
}

unsafe extern "C" fn get_capability(
    ep: *mut sys::OrtEp,
    graph: *const sys::OrtGraph,
    info: *mut sys::OrtEpGraphSupportInfo,
) -> *mut sys::OrtStatus {
    // SAFETY: ONNX Runtime gives back what was made here.
    let provider = unsafe { provider(ep) };
    entry(provider.api, || {
        // SAFETY: the graph lives during the call.
        let graph = unsafe { Graph::new(provider.api, graph) };
        // SAFETY: as above.
        unsafe { provider.claim(graph, info) }
    })
}

unsafe extern "C" fn compile(
    ep: *mut sys::OrtEp,
    graphs: *mut *const sys::OrtGraph,
    nodes: *mut *const sys::OrtNode,
    count: usize,
    infos: *mut *mut sys::OrtNodeComputeInfo,
    contexts: *mut *mut sys::OrtNode,
) -> *mut sys::OrtStatus {
    // SAFETY: as above.
    let provider = unsafe { provider(ep) };
    entry(provider.api, || {
        let (mut made, mut sets) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let mut compiling = Compiling::new(provider.api, &provider.context);
        for index in 0..count {
            // SAFETY: the arrays hold `count` graphs and nodes, which live during the call.
            let (graph, node) = unsafe {
                (
                    Graph::new(provider.api, *graphs.add(index)),
                    Node::new(provider.api, *nodes.add(index)),
                )
            };
            let one = provider
                .compiled(&mut compiling, graph, node)
                .map_err(|failure| Failure {
                    words: format!("{}: {}", node.name().unwrap_or_default(), failure.words),
                    ..failure
                })?;
            made.push(one);
            sets.push((graph, node));
        }
        if provider.context.is_made && !contexts.is_null() {
            for (index, node) in compiling.nodes(&made, &sets)?.into_iter().enumerate() {
                // SAFETY: there are as many places; their reader releases the nodes.
                unsafe { *contexts.add(index) = node.into_raw() };
            }
        }
        for (index, one) in made.into_iter().enumerate() {
            // SAFETY: there are as many places.
            unsafe { *infos.add(index) = Box::into_raw(one.fused).cast() };
        }
        Ok(())
    })
}

unsafe extern "C" fn set_dynamic_options(
    ep: *mut sys::OrtEp,
    keys: *const *const c_char,
    values: *const *const c_char,
    count: usize,
) -> *mut sys::OrtStatus {
    // SAFETY: as above.
    let provider = unsafe { provider(ep) };
    entry(provider.api, || {
        let mut options = Vec::with_capacity(count);
        for index in 0..count {
            // SAFETY: the arrays hold `count` texts, which live during the call.
            options.push(unsafe { (text_at(*keys.add(index)), text_at(*values.add(index))) });
        }
        provider.set(&options)
    })
}

unsafe extern "C" fn get_compiled_model_compatibility_info(
    ep: *mut sys::OrtEp,
    _graph: *const sys::OrtGraph,
) -> *const c_char {
    if is_forked() {
        return ptr::null();
    }
    // SAFETY: as above; the text lives as long as the provider.
    let provider = unsafe { provider(ep) };
    caught(|| provider.identity().as_ptr()).unwrap_or(ptr::null())
}

unsafe extern "C" fn release_node_compute_infos(
    _ep: *mut sys::OrtEp,
    infos: *mut *mut sys::OrtNodeComputeInfo,
    count: usize,
) {
    if is_forked() {
        // sessions cannot end here
        return;
    }
    for index in 0..count {
        // SAFETY: the array holds `count` entries, each made in `compile` or null.
        let info = unsafe { std::mem::replace(&mut *infos.add(index), ptr::null_mut()) };
        if !info.is_null() {
            // SAFETY: as above; it is not used after this.
            let fused = unsafe { Box::from_raw(info.cast::<Fused>()) };
            // the call has no way to return an error
            let _ = caught(|| drop(fused));
        }
    }
}

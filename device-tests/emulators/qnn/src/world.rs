//! The objects behind the clients' handles, and the state of the process.
//!
//! Invariants:
//! 1. A handle is a number that is never reused, so a freed handle is unknown and not dangling.
//! 2. No lock is held while a graph runs, a fault waits, or the client's log callback is called.
//! 3. A client can free a backend or a device that has contexts. The contexts are then invalid, as
//!    in the vendor's library.
//! 4. Validation answers for the SoC of the device that was created last, even after that device is
//!    freed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

use polychip_emulator_qnn_format::{Binary, Graph as Description, Target};

use crate::code::{Code, Result};
use crate::plan::Plan;
use crate::profile::Profile;
use crate::soc::{DEFAULT, Soc};

/// Build id of the emulated library: the version whose behaviour it reproduces, and a mark that it
/// is emulated.
pub(crate) const BUILD: &std::ffi::CStr = c"v2.51.0.polychip-emulator";

/// A device.
pub(crate) struct Device {
    /// The SoC that it was created for.
    pub(crate) soc: Soc,
    /// Whether its subsystem restarted: the device and its contexts are then invalid.
    pub(crate) lost: Arc<AtomicBool>,
}

/// A context.
pub(crate) struct Context {
    backend: usize,
    device: usize,
    /// For which SoC its graphs are prepared.
    pub(crate) soc: Soc,
    alive: AtomicBool,
    lost: Arc<AtomicBool>,
    /// The bytes that were announced, so that both calls agree.
    pub(crate) binary: Mutex<Option<Arc<[u8]>>>,
}

impl Context {
    /// Fails unless its backend and device exist and its subsystem has not restarted.
    pub(crate) fn usable(&self) -> Result<()> {
        if !self.alive.load(Ordering::Acquire) {
            return Err(Code::CONTEXT);
        }
        if self.lost.load(Ordering::Acquire) {
            return Err(Code::RESTARTED);
        }
        Ok(())
    }

    /// The subsystem restarts: whatever shares the device is lost with this context.
    pub(crate) fn restart(&self) {
        self.lost.store(true, Ordering::Release);
    }
}

/// A graph.
pub(crate) struct Graph {
    pub(crate) context: Arc<Context>,
    context_handle: usize,
    /// Left out when its context was created.
    pub(crate) enabled: bool,
    pub(crate) description: Mutex<Description>,
    pub(crate) plan: OnceLock<Arc<Plan>>,
}

impl Graph {
    /// A graph of a context.
    pub(crate) fn new(
        context: &Arc<Context>,
        context_handle: usize,
        description: Description,
        enabled: bool,
    ) -> Graph {
        Graph {
            context: context.clone(),
            context_handle,
            enabled,
            description: Mutex::new(description),
            plan: OnceLock::new(),
        }
    }

    /// The handle of its context.
    pub(crate) fn context_handle(&self) -> usize {
        self.context_handle
    }

    /// Its tensors and nodes.
    pub(crate) fn description(&self) -> MutexGuard<'_, Description> {
        self.description.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its plan, once it is finalized.
    pub(crate) fn finalized(&self) -> Result<Arc<Plan>> {
        self.plan.get().cloned().ok_or(Code::GRAPH_STATE)
    }
}

#[derive(Default)]
struct World {
    backends: BTreeMap<usize, ()>,
    devices: BTreeMap<usize, Device>,
    contexts: BTreeMap<usize, Arc<Context>>,
    graphs: BTreeMap<usize, Arc<Graph>>,
    profiles: BTreeMap<usize, Arc<Profile>>,
    memories: BTreeMap<usize, Arc<Known>>,
    selected: Option<Soc>,
}

static WORLD: LazyLock<Mutex<World>> = LazyLock::new(Mutex::default);
static NEXT_HANDLE: AtomicUsize = AtomicUsize::new(1);
static NEXT_TENSOR: AtomicU32 = AtomicU32::new(0);
/// Tensors of graphs that live, for tests of leaks.
static TENSORS: AtomicU64 = AtomicU64::new(0);

fn world() -> MutexGuard<'static, World> {
    WORLD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number for a handle: aligned like a pointer, never null.
pub(crate) fn handle() -> usize {
    0x5000_0000 + NEXT_HANDLE.fetch_add(1, Ordering::Relaxed) * 16
}

/// A tensor id: never 0, and another one in another process.
pub(crate) fn tensor_id() -> u32 {
    let start = std::process::id() % 1000;
    TENSORS.fetch_add(1, Ordering::Relaxed);
    1 + start.wrapping_add(NEXT_TENSOR.fetch_add(1, Ordering::Relaxed)) % (u32::MAX - 1)
}

/// A new backend.
pub(crate) fn create_backend() -> usize {
    let at = handle();
    world().backends.insert(at, ());
    at
}

/// Fails if the backend does not exist.
pub(crate) fn backend(at: usize) -> Result<()> {
    world().backends.get(&at).copied().ok_or(Code::BACKEND)
}

/// Frees a backend; its contexts die.
pub(crate) fn free_backend(at: usize) -> Result<()> {
    let mut world = world();
    world.backends.remove(&at).ok_or(Code::BACKEND)?;
    kill(&world, |context| context.backend == at);
    Ok(())
}

fn kill(world: &World, whose: impl Fn(&Context) -> bool) {
    for context in world.contexts.values().filter(|context| whose(context)) {
        context.alive.store(false, Ordering::Release);
    }
}

/// A new device, which validation answers for from now on.
pub(crate) fn create_device(soc: Soc) -> usize {
    let at = handle();
    let mut world = world();
    world.selected = Some(soc);
    world.devices.insert(
        at,
        Device {
            soc,
            lost: Arc::default(),
        },
    );
    at
}

/// Fails if the device does not exist or its subsystem has restarted.
pub(crate) fn device(at: usize) -> Result<()> {
    let world = world();
    let device = world.devices.get(&at).ok_or(Code::DEVICE)?;
    if device.lost.load(Ordering::Acquire) {
        return Err(Code::RESTARTED);
    }
    Ok(())
}

/// Frees a device; its contexts die.
pub(crate) fn free_device(at: usize) -> Result<()> {
    let mut world = world();
    world.devices.remove(&at).ok_or(Code::DEVICE)?;
    kill(&world, |context| context.device == at);
    Ok(())
}

/// The SoC that validation answers for.
pub(crate) fn selected() -> Soc {
    world().selected.unwrap_or(DEFAULT)
}

/// Creates a context; without a device, for the default SoC. `soc` is the target of a binary.
pub(crate) fn create_context(
    backend_at: usize,
    device_at: usize,
    soc: Option<Soc>,
) -> Result<(usize, Arc<Context>)> {
    backend(backend_at)?;
    if device_at != 0 {
        device(device_at)?;
    }
    let at = handle();
    let mut world = world();
    let device = world.devices.get(&device_at);
    let context = Arc::new(Context {
        backend: backend_at,
        device: device_at,
        soc: soc.unwrap_or(device.map_or(DEFAULT, |device| device.soc)),
        alive: AtomicBool::new(true),
        lost: device.map(|device| device.lost.clone()).unwrap_or_default(),
        binary: Mutex::default(),
    });
    world.contexts.insert(at, context.clone());
    Ok((at, context))
}

/// A context that is usable.
pub(crate) fn context(at: usize) -> Result<Arc<Context>> {
    let context = world().contexts.get(&at).cloned().ok_or(Code::CONTEXT)?;
    context.usable()?;
    Ok(context)
}

/// Frees a context, dead or not, and its graphs.
pub(crate) fn free_context(at: usize) -> Result<()> {
    let mut world = world();
    let context = world.contexts.remove(&at).ok_or(Code::CONTEXT)?;
    // who hangs in an execute of it shall not write into buffers that may be gone
    context.alive.store(false, Ordering::Release);
    world.graphs.retain(|_, graph| {
        let stays = graph.context_handle != at;
        if !stays {
            let count = graph.description().tensors.len();
            TENSORS.fetch_sub(count as u64, Ordering::Relaxed);
        }
        stays
    });
    Ok(())
}

/// Adds a graph whose name its context does not have yet.
pub(crate) fn add_graph(graph: Graph) -> Result<usize> {
    let at = handle();
    let mut world = world();
    let name = graph.description().name.clone();
    let same = |known: &&Arc<Graph>| {
        known.context_handle == graph.context_handle && known.description().name == name
    };
    if world.graphs.values().find(same).is_some() {
        return Err(Code::GRAPH_NAME);
    }
    world.graphs.insert(at, Arc::new(graph));
    Ok(at)
}

/// Counts the tensors of a graph that came from a binary.
pub(crate) fn count_tensors(count: usize) {
    TENSORS.fetch_add(count as u64, Ordering::Relaxed);
}

/// A graph whose context is usable.
pub(crate) fn graph(at: usize) -> Result<Arc<Graph>> {
    let graph = world().graphs.get(&at).cloned().ok_or(Code::GRAPH)?;
    graph.context.usable()?;
    Ok(graph)
}

/// The graph of this name.
pub(crate) fn find_graph(context_handle: usize, name: &str) -> Result<usize> {
    context(context_handle)?;
    world()
        .graphs
        .iter()
        .find(|(_, graph)| graph.context_handle == context_handle && graph.description().name == name)
        .map(|(at, _)| *at)
        .ok_or(Code::GRAPH)
}

/// The binary of a context whose graphs are all finalized.
pub(crate) fn binary(context_handle: usize) -> Result<Arc<[u8]>> {
    let context = context(context_handle)?;
    let mut held = context.binary.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(bytes) = &*held {
        return Ok(bytes.clone());
    }
    let graphs: Vec<Arc<Graph>> = world()
        .graphs
        .values()
        .filter(|graph| graph.context_handle == context_handle)
        .cloned()
        .collect();
    let mut descriptions = Vec::with_capacity(graphs.len());
    for graph in graphs {
        graph.finalized()?;
        descriptions.push(graph.description().clone());
    }
    let binary = Binary {
        target: Target {
            soc: context.soc.id,
            arch: context.soc.arch,
            build: BUILD.to_string_lossy().into_owned(),
        },
        graphs: descriptions,
    };
    let bytes: Arc<[u8]> = binary.write().into();
    *held = Some(bytes.clone());
    Ok(bytes)
}

/// Memory that a context knows.
pub(crate) struct Known {
    pub(crate) context: usize,
    pub(crate) map: memmap2::MmapRaw,
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

/// Makes memory known.
pub(crate) fn add_memory(known: Known) -> usize {
    let at = handle();
    world().memories.insert(at, Arc::new(known));
    at
}

/// Memory that is known.
pub(crate) fn memory(at: usize) -> Result<Arc<Known>> {
    world().memories.get(&at).cloned().ok_or(Code::ARGUMENT)
}

/// Forgets memory.
pub(crate) fn end_memory(at: usize) -> Result<()> {
    world().memories.remove(&at).map(drop).ok_or(Code::ARGUMENT)
}

/// A new profile.
pub(crate) fn create_profile(level: u32) -> usize {
    let at = handle();
    world().profiles.insert(at, Arc::new(Profile::new(level)));
    at
}

/// A profile.
pub(crate) fn profile(at: usize) -> Result<Arc<Profile>> {
    world().profiles.get(&at).cloned().ok_or(Code::PROFILE)
}

/// All profiles: an event's number does not say whose it is.
pub(crate) fn profiles() -> Vec<Arc<Profile>> {
    world().profiles.values().cloned().collect()
}

/// Frees a profile and its events.
pub(crate) fn free_profile(at: usize) -> Result<()> {
    world().profiles.remove(&at).map(drop).ok_or(Code::PROFILE)
}

/// Number of live objects of a kind, for tests of leaks: backends, devices, contexts, graphs,
/// tensors, profiles, memories; 0 for other kinds.
pub(crate) fn live(kind: u32) -> u64 {
    let world = world();
    match kind {
        0 => world.backends.len() as u64,
        1 => world.devices.len() as u64,
        2 => world.contexts.len() as u64,
        3 => world.graphs.len() as u64,
        4 => TENSORS.load(Ordering::Relaxed),
        5 => world.profiles.len() as u64,
        6 => world.memories.len() as u64,
        _ => 0,
    }
}

//! Compiles and loads parts, several at once, with a cache if one is set.
//!
//! Invariants:
//! 1. A part whose cached blob is refused (`blob_cache`) is compiled again, and the reason logged.
//! 2. A device that refuses a part returns its own error; `replan` handles it.

use std::borrow::Cow;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use polychip_graph::{Graph, TensorId, fingerprint};
use polychip_host::{CompileOptions, Device, Executable, FlatGraph};
use polychip_partitioner::{DeviceIndex, Part};

use crate::blob_cache::BlobCache;
use crate::cost_model::part_graph;
use crate::loaded_part::{LoadedPart, PartMemory};
use crate::planned::Planned;
use crate::policy::{Precision, Settings};

/// A device's result for a part.
pub(crate) type DeviceResult<T> = std::result::Result<T, polychip_host::Error>;

/// The contract's value for a missing fingerprint.
const NO_FINGERPRINT: [u8; 32] = [0; 32];

/// Parts that are loaded already, and blobs of parts that are not, by device and nodes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Loaded {
    parts: Vec<(DeviceIndex, Vec<u32>, LoadedPart)>,
    blobs: Vec<(DeviceIndex, Vec<u32>, Bytes)>,
}

impl Loaded {
    pub(crate) fn add(&mut self, part: &Part, loaded: LoadedPart) {
        self.parts.push((part.device, part.nodes.clone(), loaded));
    }

    /// Lets go of the parts; blobs are kept.
    pub(crate) fn clear(&mut self) {
        self.parts.clear();
    }

    /// Keeps the blob of a part whose executable is void.
    pub(crate) fn keep_blob(&mut self, part: &Part, loaded: &LoadedPart) {
        if let Some(blob) = &loaded.blob {
            self.blobs.push((part.device, part.nodes.clone(), blob.clone()));
        }
    }

    fn find(&self, part: &Part) -> Option<&LoadedPart> {
        let parts = self.parts.iter();
        let mut found = parts.filter(|(device, nodes, _)| (*device, nodes) == (part.device, &part.nodes));
        found.next().map(|(_, _, loaded)| loaded)
    }

    fn blob(&self, part: &Part) -> Option<&Bytes> {
        let blobs = self.blobs.iter();
        let mut found = blobs.filter(|(device, nodes, _)| (*device, nodes) == (part.device, &part.nodes));
        found.next().map(|(_, _, blob)| blob)
    }

    /// Lets go of the parts of a device, which a reset has made void; their blobs are kept.
    pub(crate) fn forget(&mut self, device: DeviceIndex) {
        for (other, nodes, loaded) in std::mem::take(&mut self.parts) {
            if other != device {
                self.parts.push((other, nodes, loaded));
            } else if let Some(blob) = loaded.blob {
                self.blobs.push((other, nodes, blob));
            }
        }
    }

    /// Lets go of the parts of all devices that are lost or were reset.
    pub(crate) fn forget_void(&mut self, devices: &[Device]) {
        for (index, device) in devices.iter().enumerate() {
            let index = DeviceIndex::new(index);
            let is_void = |(of, _, part): &(DeviceIndex, Vec<u32>, LoadedPart)| {
                *of == index && (device.is_quarantined() || part.executable.is_void())
            };
            if self.parts.iter().any(is_void) {
                self.forget(index);
            }
        }
    }

    /// Devices with the number of their parts that were loaded before and are to be loaded again.
    pub(crate) fn missing(&self, planned: &Planned) -> Vec<(DeviceIndex, usize)> {
        let mut missing: std::collections::BTreeMap<DeviceIndex, usize> = std::collections::BTreeMap::new();
        for part in planned.plan().copies().flat_map(|copy| &copy.parts) {
            if self.find(part).is_none() && self.blob(part).is_some() {
                *missing.entry(part.device).or_default() += 1;
            }
        }
        missing.into_iter().collect()
    }
}

/// Compiles and loads all parts of a plan that are not loaded yet.
pub(crate) fn all(
    planned: &Planned,
    settings: Settings,
    cache: Option<&BlobCache>,
    have: &Loaded,
) -> Vec<DeviceResult<LoadedPart>> {
    let descriptors = planned.model().descriptors(planned.graph());
    let parts = &planned.plan().parts;
    let one = |index: usize| -> DeviceResult<LoadedPart> {
        let part = &parts[index];
        if let Some(loaded) = have.find(part) {
            return Ok(loaded.clone());
        }
        let device = &planned.devices()[part.device.index()];
        if let Some(loaded) = planned.model().loaded(device, planned.graph(), part, settings) {
            return Ok(loaded);
        }
        let graph = graph_of(planned.graph(), part);
        let source = Source {
            cache,
            blob: have.blob(part),
            keep: true,
            structure: matches!(graph, Cow::Borrowed(_)).then(|| planned.structure()),
        };
        let loaded = one(planned, part.device, &graph, &descriptors, settings, source)?;
        planned.model().share(planned.graph(), part, settings, &loaded);
        Ok(loaded)
    };
    in_parallel(parts.len(), one)
}

/// Runs a job for each part, several at once.
pub(crate) fn in_parallel<T: Send>(parts: usize, one: impl Fn(usize) -> T + Sync) -> Vec<T> {
    if parts == 1 {
        return vec![one(0)];
    }
    let threads = std::thread::available_parallelism()
        .map_or(1, std::num::NonZero::get)
        .min(parts);
    // not rayon's pool: a plugin that holds a lock while it waits for rayon would be handed another part's compile
    let next = AtomicUsize::new(0);
    let work = || -> Vec<(usize, T)> {
        let taken = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        let taken = taken.take_while(|index| *index < parts);
        taken.map(|index| (index, one(index))).collect()
    };
    let mut done: Vec<(usize, T)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let made = threads.into_iter().map(|thread| thread.join());
        made.flat_map(|made| made.unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    });
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, answer)| answer).collect()
}

/// Where the blob of a part may come from, and whether it is kept.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Source<'a> {
    pub(crate) cache: Option<&'a BlobCache>,
    pub(crate) blob: Option<&'a Bytes>,
    pub(crate) keep: bool,
    /// Hash of the part's structure, if it is known.
    pub(crate) structure: Option<[u8; 32]>,
}

/// The graph of a part: the plan's own, if the part is all of it.
fn graph_of<'a>(graph: &'a Graph, part: &Part) -> Cow<'a, Graph> {
    let are = |tensors: &[TensorId], ports: &[u32]| {
        let tensors = tensors.iter().map(|id| id.index() as u32);
        tensors.eq(ports.iter().copied())
    };
    let is_whole = part.nodes.len() == graph.node_count()
        && are(&graph.inputs, &part.inputs)
        && are(&graph.outputs, &part.outputs);
    if is_whole {
        debug_assert_eq!(
            fingerprint::structure(graph),
            fingerprint::structure(&part_graph(graph, part)),
            "invariant: the whole graph is the graph of its only part"
        );
        return Cow::Borrowed(graph);
    }
    Cow::Owned(part_graph(graph, part))
}

/// Compiles and loads one part on one device.
pub(crate) fn one(
    planned: &Planned,
    device: DeviceIndex,
    graph: &Graph,
    descriptors: &[i64],
    settings: Settings,
    source: Source<'_>,
) -> DeviceResult<LoadedPart> {
    let (index, device) = (device, &planned.devices()[device.index()]);
    // a device that can be reset may need the blob once more
    let keep = source.keep && device.offers_reset();
    let structure = source.structure.unwrap_or_else(|| fingerprint::structure(graph));
    // weights are hashed only for a blob that outlives this call: it takes longer than reading them
    let content = if keep || source.blob.is_some() || source.cache.is_some() {
        planned.model().content_from_files(graph)
    } else {
        NO_FINGERPRINT
    };
    let flat = FlatGraph::new(graph, descriptors)?.with_fingerprints(structure, content);
    let made = |executable: Executable, cached: bool, blob: Option<Bytes>| LoadedPart {
        memory: PartMemory::new(
            planned.model().weights(),
            device,
            &executable,
            graph.constant_bytes(),
            // a cached blob is a mapping of its file
            blob.as_ref().filter(|_| !cached),
        ),
        device: index,
        executable,
        structure,
        cached,
        blob,
    };
    if let Some(blob) = source.blob {
        match device.load_bytes(blob.clone(), &flat, settings.threads) {
            Ok(executable) => return Ok(made(executable, false, Some(blob.clone()))),
            Err(error) if error.kind() == polychip_host::ErrorKind::DeviceLost => return Err(error),
            Err(error) => tracing::warn!("a blob in memory: {error}; compiling again"),
        }
    }
    let key = key(device, &content, settings);
    if let Some(cache) = source.cache {
        let file = || cache.path(&key).display().to_string();
        match cache.read(&key) {
            Ok(Some(bytes)) => {
                // the bytes are a mapping of the file
                let blob = keep.then(|| bytes.clone());
                match device.load_bytes(bytes, &flat, settings.threads) {
                    Ok(executable) => return Ok(made(executable, true, blob)),
                    Err(error) => tracing::warn!("{}: {error}; compiling again", file()),
                }
            }
            Ok(None) => {}
            Err(reason) => tracing::warn!("{}: {reason}; compiling again", file()),
        }
    }
    let mut compiled = device.compile(&flat, &options(settings))?;
    let mut blob = None;
    if keep || source.cache.is_some() {
        match compiled.bytes() {
            Ok(bytes) => {
                if let Some(cache) = source.cache
                    && let Err(error) = cache.write(&key, bytes)
                {
                    let file = cache.path(&key);
                    tracing::warn!("{}: {error}; the part is not cached", file.display());
                }
                blob = keep.then(|| Bytes::copy_from_slice(bytes));
            }
            Err(error) => tracing::warn!("{error}; the part is neither cached nor kept for a reset"),
        }
    }
    let executable = device.load(compiled, &flat, settings.threads)?;
    Ok(made(executable, false, blob))
}

/// The options with which a device compiles a part.
pub(crate) fn options(settings: Settings) -> CompileOptions {
    CompileOptions {
        threads: settings.threads,
        reduced_precision: settings.precision == Precision::Reduced,
        ..CompileOptions::default()
    }
}

fn key(device: &Device, content: &[u8; 32], settings: Settings) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(content);
    hasher.update(device.identity().as_bytes());
    hasher.update(&settings.threads.to_le_bytes());
    hasher.update(&[u8::from(settings.precision == Precision::Reduced)]);
    hasher.finalize()
}

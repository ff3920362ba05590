//! Compiles and loads parts, several at once, with a cache if one is set.
//!
//! Invariants:
//! 1. A cached blob is used only if its hash is valid and its key names the part's content, the
//!    device, the plugin's build and the options; else it is compiled again and the reason logged.
//! 2. A device that refuses a part returns its own error; `replan` handles it.

use std::borrow::Cow;
use std::io::Write as _;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use polychip_graph::{Graph, TensorId, fingerprint};
use polychip_host::{CompileOptions, Device, Executable, FlatGraph, MappedFile};
use polychip_partitioner::{DeviceIndex, Part};

use crate::cost_model::part_graph;
use crate::loaded_part::{LoadedPart, PartMemory};
use crate::planned::Planned;
use crate::policy::{Precision, Settings};

/// A device's result for a part.
pub(crate) type DeviceResult<T> = std::result::Result<T, polychip_host::Error>;

/// "PLYB": a cached blob of ours.
const MAGIC: [u8; 4] = *b"PLYB";
/// Magic, then key and hash of the payload; the payload follows at a multiple of 64.
const HEADER: usize = 128;

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
    cache: Option<&Path>,
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
    pub(crate) cache: Option<&'a Path>,
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
        fingerprint::content(graph)
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
    let file = source
        .cache
        .map(|folder| folder.join(format!("{}.blob", key.to_hex())));
    if let Some(file) = &file {
        match read(file, &key) {
            Ok(Some(bytes)) => {
                // the bytes are a mapping of the file
                let blob = keep.then(|| bytes.clone());
                match device.load_bytes(bytes, &flat, settings.threads) {
                    Ok(executable) => return Ok(made(executable, true, blob)),
                    Err(error) => tracing::warn!("{}: {error}; compiling again", file.display()),
                }
            }
            Ok(None) => {}
            Err(reason) => tracing::warn!("{}: {reason}; compiling again", file.display()),
        }
    }
    let mut compiled = device.compile(&flat, &options(settings))?;
    let mut blob = None;
    if keep || file.is_some() {
        match compiled.bytes() {
            Ok(bytes) => {
                if let Some(file) = &file
                    && let Err(error) = write(file, &key, bytes)
                {
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

/// The payload of a cached blob, `None` where there is no file, or why it is refused.
fn read(file: &Path, key: &blake3::Hash) -> std::result::Result<Option<Bytes>, String> {
    let mapped = match MappedFile::open(file) {
        Ok(mapped) => mapped,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let bytes = mapped.bytes();
    if bytes.len() < HEADER || bytes[..4] != MAGIC {
        return Err("not a cached blob, or torn".into());
    }
    if bytes[32..64] != *key.as_bytes() {
        return Err("made for another part, device or build".into());
    }
    let payload = bytes.slice(HEADER..);
    if bytes[64..96] != *blake3::hash(&payload).as_bytes() {
        return Err("its hash does not hold: torn or changed".into());
    }
    Ok(Some(payload))
}

fn write(file: &Path, key: &blake3::Hash, payload: &[u8]) -> std::result::Result<(), String> {
    let mut bytes = vec![0; HEADER];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[32..64].copy_from_slice(key.as_bytes());
    bytes[64..96].copy_from_slice(blake3::hash(payload).as_bytes());
    bytes.extend_from_slice(payload);
    let words = |error: std::io::Error| error.to_string();
    if let Some(folder) = file.parent() {
        make_private(folder).map_err(words)?;
    }
    // written under another name and renamed, so that readers never see half a file
    static WRITES: AtomicU64 = AtomicU64::new(0);
    let count = WRITES.fetch_add(1, Ordering::Relaxed);
    let aside: PathBuf = file.with_extension(format!("{}-{count}.part", std::process::id()));
    create_private(&aside)
        .and_then(|mut file| file.write_all(&bytes))
        .and_then(|()| std::fs::rename(&aside, file))
        .map_err(|error| {
            let _ = std::fs::remove_file(&aside);
            words(error)
        })
}

/// Makes a folder, if it is missing, that only this user can enter.
fn make_private(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Makes a new file that only this user can read and write.
fn create_private(file: &Path) -> std::io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_cached_blob_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a/b.blob");
        let key = blake3::hash(b"key");
        assert_eq!(read(&file, &key), Ok(None));
        write(&file, &key, b"payload").unwrap();
        assert_eq!(read(&file, &key).unwrap().unwrap(), "payload");
        assert!(
            read(&file, &blake3::hash(b"other"))
                .unwrap_err()
                .contains("another part")
        );
        let mut bytes = std::fs::read(&file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&file, &bytes).unwrap();
        assert!(read(&file, &key).unwrap_err().contains("hash"));
        std::fs::write(&file, &bytes[..60]).unwrap();
        assert!(read(&file, &key).unwrap_err().contains("torn"));
    }
}

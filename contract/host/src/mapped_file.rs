//! Model files in memory, and access to weight files beside a model.
//!
//! Invariants:
//! 1. Returned bytes keep their mapping, or their owner, alive. Nothing of a mapped file is read or
//!    copied before it is accessed.
//! 2. External data is opened only inside the model's folder or, if the model is a link, inside the
//!    folder of its target, as in a download cache. Links are resolved before this check. A model
//!    without a folder has no external data.
//! 3. If another process truncates a mapped file, the process does not die: reads past the file's
//!    end give zeros (`truncation_guard`), and [`MappedFile::check`] then fails. A caller that
//!    computes with a file's bytes calls it before using the results.
//! 4. Only regular files are opened (`open_file`).

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use memmap2::{Mmap, MmapMut, MmapOptions};
use polychip_graph::onnx::ExternalData;

use crate::open_file;
use crate::truncation_guard::Guarded;

/// Files up to this size are read into memory instead of mapped, in bytes: a model with external weights
/// is then parsed from a private copy.
const SMALL: u64 = 1 << 20;

/// How model files and cached parts are held in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ModelFiles {
    /// Mapped. A handler for the signal SIGBUS keeps the process alive if another process truncates
    /// a file, and the use of that file fails with an error. Files up to 1 MiB are copied.
    #[default]
    Guard,
    /// Copied. No handler is installed, and the copies stay in memory as long as the model.
    Copy,
    /// Mapped, without a handler. If another process truncates a file, SIGBUS ends the process. For
    /// apps whose files no other process writes.
    Map,
}

impl FromStr for ModelFiles {
    type Err = String;

    fn from_str(text: &str) -> Result<ModelFiles, String> {
        match text {
            "guard" => Ok(ModelFiles::Guard),
            "copy" => Ok(ModelFiles::Copy),
            "map" => Ok(ModelFiles::Map),
            _ => Err(format!("{text:?}; expected guard, copy or map")),
        }
    }
}

static MODEL_FILES: AtomicU8 = AtomicU8::new(0);

/// Sets how files that this process opens from now on are held in memory.
pub fn set_model_files(files: ModelFiles) {
    MODEL_FILES.store(files as u8, Ordering::Relaxed);
}

fn model_files() -> ModelFiles {
    match MODEL_FILES.load(Ordering::Relaxed) {
        1 => ModelFiles::Copy,
        2 => ModelFiles::Map,
        _ => ModelFiles::Guard,
    }
}

/// A file as bytes, with the descriptor by which devices may map it.
#[derive(Debug)]
pub struct MappedFile {
    bytes: Bytes,
    /// `None` if the system states no size for the file.
    file: Option<Arc<File>>,
    /// `None` if the file was read instead of mapped.
    mapping: Option<Arc<Mapping>>,
}

/// A range of a file in memory.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// Dropped before the mapping.
    guard: Option<Guarded>,
    map: Mmap,
    path: PathBuf,
    file: Arc<File>,
    /// Bytes of the file up to the end of the range.
    end: u64,
}

/// Keeps a mapping as long as bytes of it are used.
struct Owner(Arc<Mapping>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0.map
    }
}

/// All mappings of files, by address.
static MAPPINGS: Mutex<BTreeMap<usize, Weak<Mapping>>> = Mutex::new(BTreeMap::new());

impl Mapping {
    fn new(path: &Path, file: Arc<File>, offset: u64, len: usize) -> io::Result<Arc<Mapping>> {
        // SAFETY: the mapping is private and read-only. Its bytes may still change if another process
        // writes the file: readers check what they read, and `check` reports a truncated file.
        let map = unsafe { MmapOptions::new().offset(offset).len(len).map(&*file)? };
        let start = map.as_ptr() as usize;
        let guard = if model_files() == ModelFiles::Guard {
            let guard = Guarded::new(start, map.len());
            if guard.is_none() {
                tracing::warn!(
                    "{}: mapped without a guard; the process ends if another one truncates the file",
                    path.display()
                );
            }
            guard
        } else {
            None
        };
        let mapping = Arc::new(Mapping {
            guard,
            map,
            path: path.to_owned(),
            file,
            end: offset + len as u64,
        });
        all_mappings().insert(start, Arc::downgrade(&mapping));
        Ok(mapping)
    }

    /// The mappings that hold these bytes, each once.
    pub(crate) fn of<'a>(all: impl IntoIterator<Item = &'a Bytes>) -> Vec<Arc<Mapping>> {
        // what is let go of here may be the last user of a mapping, whose drop takes the lock
        let (mut seen, mut others): (Vec<Arc<Mapping>>, Vec<Arc<Mapping>>) = Default::default();
        let mappings = all_mappings();
        for bytes in all.into_iter().filter(|bytes| !bytes.is_empty()) {
            let address = bytes.as_ptr() as usize;
            if seen.last().is_some_and(|last| last.holds(address)) {
                continue;
            }
            let before = mappings.range(..=address).next_back();
            let mapping = before.and_then(|(_, mapping)| mapping.upgrade());
            let list = if mapping.as_ref().is_some_and(|mapping| mapping.holds(address)) {
                &mut seen
            } else {
                &mut others
            };
            list.extend(mapping);
        }
        drop(mappings);
        let mut found: Vec<Arc<Mapping>> = Vec::with_capacity(seen.len());
        for mapping in seen {
            if !found.iter().any(|other| Arc::ptr_eq(other, &mapping)) {
                found.push(mapping);
            }
        }
        found
    }

    fn holds(&self, address: usize) -> bool {
        self.map.as_ptr_range().contains(&(address as *const u8))
    }

    /// As [`MappedFile::check`].
    pub(crate) fn check(&self) -> io::Result<()> {
        let len = self.file.metadata()?.len();
        let is_damaged = self.guard.as_ref().is_some_and(Guarded::is_damaged);
        if len >= self.end && !is_damaged {
            return Ok(());
        }
        let words = format!(
            "{}: another process truncated the file while it was in use (it had {} bytes, now {len}): restore it and load it again",
            self.path.display(),
            self.end
        );
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, words))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let start = self.map.as_ptr() as usize;
        all_mappings().remove(&start);
    }
}

fn all_mappings() -> std::sync::MutexGuard<'static, BTreeMap<usize, Weak<Mapping>>> {
    MAPPINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A range of a file, read into memory at the alignment that its mapping would have.
fn copied(file: &File, offset: u64, len: usize) -> io::Result<Bytes> {
    let pad = usize::try_from(offset % 4096).unwrap_or(0);
    let mut memory = MmapMut::map_anon(pad + len)?;
    read_exact(file, offset, &mut memory[pad..])?;
    Ok(Bytes::from_owner(memory.make_read_only()?).slice(pad..))
}

#[cfg(unix)]
fn read_exact(file: &File, offset: u64, out: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, offset)
}

#[cfg(not(unix))]
fn read_exact(mut file: &File, offset: u64, out: &mut [u8]) -> io::Result<()> {
    use std::io::Seek;
    file.seek(io::SeekFrom::Start(offset))?;
    file.read_exact(out)
}

impl MappedFile {
    /// Opens a file for reading, mapped or copied as [`ModelFiles`] says. A system file without a size
    /// is read to its end.
    ///
    /// # Errors
    /// The file cannot be opened, read or mapped, or is no regular file.
    pub fn open(path: &Path) -> io::Result<MappedFile> {
        let (mut file, metadata) = open_file::opened(path)?;
        if metadata.len() == 0 {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            return Ok(MappedFile {
                bytes: Bytes::from(bytes),
                file: None,
                mapping: None,
            });
        }
        MappedFile::of_range(path, Arc::new(file), 0, metadata.len())
    }

    /// A range of an open file, with at least one byte; messages name it by `path`.
    fn of_range(path: &Path, file: Arc<File>, offset: u64, len: u64) -> io::Result<MappedFile> {
        let size = usize::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let files = model_files();
        if files == ModelFiles::Copy || (files == ModelFiles::Guard && len <= SMALL) {
            return Ok(MappedFile {
                bytes: copied(&file, offset, size)?,
                file: Some(file),
                mapping: None,
            });
        }
        let mapping = Mapping::new(path, Arc::clone(&file), offset, size)?;
        Ok(MappedFile {
            bytes: Bytes::from_owner(Owner(Arc::clone(&mapping))),
            file: Some(file),
            mapping: Some(mapping),
        })
    }

    /// The content. Clones share the mapping.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// Checks that everything read from [`MappedFile::bytes`] so far came from the file. Call it after
    /// reading and before the results are used.
    ///
    /// # Errors
    /// Another process has truncated the file since it was opened. The message names it.
    pub fn check(&self) -> io::Result<()> {
        self.mapping.as_ref().map_or(Ok(()), |mapping| mapping.check())
    }

    /// The descriptor, for devices that map the file themselves; -1 on systems without one.
    #[must_use]
    pub fn fd(&self) -> i64 {
        #[cfg(unix)]
        {
            use std::os::fd::AsRawFd;
            self.file
                .as_ref()
                .map_or(polychip_abi::POLYCHIP_NO_FD, |file| i64::from(file.as_raw_fd()))
        }
        #[cfg(not(unix))]
        {
            let _ = &self.file;
            polychip_abi::POLYCHIP_NO_FD
        }
    }
}

/// Reads from the file if there is one, else from the bytes.
fn read_at(bytes: &Bytes, file: Option<&MappedFile>, offset: usize, out: &mut [u8]) -> io::Result<()> {
    let bytes = bytes.get(offset..).and_then(|rest| rest.get(..out.len()));
    let bytes = bytes.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
    #[cfg(unix)]
    if let Some(mapping) = file.and_then(|mapped| mapped.mapping.as_ref()) {
        return read_exact(&mapping.file, offset as u64, out);
    }
    #[cfg(not(unix))]
    let _ = file;
    out.copy_from_slice(bytes);
    Ok(())
}

/// The bytes of a model, and the files beside it that it refers to.
#[derive(Debug)]
pub struct ModelFolder {
    bytes: Bytes,
    /// The model's file, if the model starts at its first byte.
    file: Option<MappedFile>,
    /// The model's file, if the model starts elsewhere in it.
    part: Option<MappedFile>,
    folder: Option<PathBuf>,
    /// If the model is a link into another folder: that folder.
    resolved: Option<PathBuf>,
    external: Mutex<BTreeMap<String, MappedFile>>,
}

impl ModelFolder {
    /// Opens the model, as [`MappedFile::open`].
    ///
    /// # Errors
    /// The file cannot be opened or mapped, or is no regular file.
    pub fn open(model: &Path) -> io::Result<ModelFolder> {
        let mapped = MappedFile::open(model)?;
        let folder = match model.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let target = model.canonicalize().ok();
        let resolved = target
            .and_then(|target| target.parent().map(Path::to_owned))
            .filter(|resolved| folder.canonicalize().is_ok_and(|folder| folder != *resolved));
        Ok(ModelFolder {
            resolved,
            bytes: mapped.bytes(),
            file: Some(mapped),
            part: None,
            folder: Some(folder),
            external: Mutex::default(),
        })
    }

    /// A model in memory, kept as it is. It has no files beside it.
    #[must_use]
    pub fn of_bytes(bytes: Bytes) -> ModelFolder {
        ModelFolder {
            bytes,
            file: None,
            part: None,
            folder: None,
            resolved: None,
            external: Mutex::default(),
        }
    }

    /// Maps a model inside an open file: `len` bytes starting at byte `offset`, or up to the end of
    /// the file. It has no files beside it. Devices map the file themselves only if the model
    /// starts at its first byte.
    ///
    /// # Errors
    /// The range exceeds the file, or the file cannot be mapped.
    pub fn of_file(file: File, offset: u64, len: Option<u64>) -> io::Result<ModelFolder> {
        let metadata = file.metadata()?;
        open_file::check(metadata.file_type())?;
        let whole = metadata.len();
        let left = whole.checked_sub(offset);
        let len = len.or(left).filter(|len| left.is_some_and(|left| *len <= left));
        let Some(len) = len else {
            let words = format!("the model's range at offset {offset} exceeds the file of {whole} bytes");
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, words));
        };
        if len == 0 {
            return Ok(ModelFolder::of_bytes(Bytes::new()));
        }
        let mapped = MappedFile::of_range(Path::new("the model's open file"), Arc::new(file), offset, len)?;
        let bytes = mapped.bytes();
        let (file, part) = if offset == 0 {
            (Some(mapped), None)
        } else {
            (None, Some(mapped))
        };
        Ok(ModelFolder {
            bytes,
            file,
            part,
            folder: None,
            resolved: None,
            external: Mutex::default(),
        })
    }

    /// Checks that everything read from the model and its opened files so far came from them, as
    /// [`MappedFile::check`].
    ///
    /// # Errors
    /// Another process has truncated one of the files. The message names it.
    pub fn check(&self) -> io::Result<()> {
        let external = self.external.lock().unwrap_or_else(PoisonError::into_inner);
        let own = self.file.iter().chain(&self.part);
        own.chain(external.values()).try_for_each(MappedFile::check)
    }

    /// The model's bytes.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// Reads bytes of the model, starting at `offset`. Reads a file through its descriptor, because
    /// pages of the mapping would count towards the process's memory.
    ///
    /// # Errors
    /// The file cannot be read, or the range exceeds it.
    pub fn read_at(&self, offset: usize, out: &mut [u8]) -> io::Result<()> {
        read_at(&self.bytes, self.file.as_ref(), offset, out)
    }

    /// As [`ModelFolder::read_at`], for an opened file beside the model.
    ///
    /// # Errors
    /// As [`ModelFolder::read_at`], or that file was not opened.
    pub fn read_external_at(&self, location: &str, offset: usize, out: &mut [u8]) -> io::Result<()> {
        let external = self.external.lock().unwrap_or_else(PoisonError::into_inner);
        let file = external.get(location).ok_or(io::ErrorKind::NotFound)?;
        read_at(&file.bytes, Some(file), offset, out)
    }

    /// Descriptors by the file indices of a graph: the model itself, then external files by name.
    #[must_use]
    pub fn descriptors(&self, files: &[String]) -> Vec<i64> {
        let external = self.external.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |name: &String| {
            if name.is_empty() {
                self.file.as_ref()
            } else {
                external.get(name)
            }
        };
        let files = files.iter().map(of);
        files
            .map(|file| file.map_or(polychip_abi::POLYCHIP_NO_FD, MappedFile::fd))
            .collect()
    }

    /// Reads a range of the model's file (the empty name) or of a file with weights, not through its mapping: mapped
    /// pages that were read count towards the process's memory.
    ///
    /// # Errors
    /// There is no such open file, it ends before, or it cannot be read.
    pub fn read_range(&self, name: &str, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let external = self.external.lock().unwrap_or_else(PoisonError::into_inner);
        let mapped = if name.is_empty() {
            self.file.as_ref()
        } else {
            external.get(name)
        };
        let file = mapped.and_then(|mapped| mapped.file.clone());
        drop(external);
        read_exact(&*file.ok_or(io::ErrorKind::NotFound)?, offset, out)
    }

    /// Maps a file that the user named together with the model. Links may lead out of the model's
    /// folder, as they do in download caches.
    ///
    /// # Errors
    /// The name is not a plain file name, the file cannot be opened or mapped, or the model has no
    /// folder.
    pub fn open_beside(&self, name: &str) -> io::Result<Bytes> {
        let folder = self.folder.as_ref().ok_or(io::ErrorKind::NotFound)?;
        if Path::new(name).file_name() != Some(std::ffi::OsStr::new(name)) {
            let words = format!("{name:?} is not the name of a file beside the model");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, words));
        }
        let mapped = MappedFile::open(&folder.join(name))?;
        let mut external = self.external.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(external.entry(name.to_owned()).or_insert(mapped).bytes.clone())
    }

    /// Maps a file beside the model, or beside the file that the model is a link to.
    ///
    /// # Errors
    /// The file cannot be opened or mapped, it lies in neither folder after links are resolved, or
    /// the model has no folder.
    pub fn open_external(&self, location: &str) -> io::Result<Bytes> {
        let folder = self.folder.as_ref().ok_or_else(|| {
            let words = "the model was given as bytes or an open file: it has no folder to look in";
            io::Error::new(io::ErrorKind::NotFound, words)
        })?;
        let folder = folder.canonicalize()?;
        let path = match (folder.join(location).canonicalize(), &self.resolved) {
            (Err(_), Some(resolved)) => resolved.join(location).canonicalize()?,
            (path, _) => path?,
        };
        let is_beside = |folder: &Path| path.starts_with(folder);
        if !is_beside(&folder) && !self.resolved.as_deref().is_some_and(is_beside) {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "a link leads out of the model's folder, and not to the folder of the file that the model is a link to",
            ));
        }
        let mapped = MappedFile::open(&path)?;
        let bytes = mapped.bytes();
        self.external
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(location.to_owned(), mapped);
        Ok(bytes)
    }
}

impl ExternalData for ModelFolder {
    fn open(&self, location: &str) -> io::Result<Bytes> {
        self.open_external(location)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(not(miri))] // Miri maps no files
    #[test]
    fn external_data_cannot_leave_the_folder_by_links() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret.bin"), b"secret").unwrap();
        let inside = tempfile::tempdir().unwrap();
        let model = inside.path().join("model.onnx");
        std::fs::write(&model, b"model").unwrap();
        std::fs::write(inside.path().join("w.bin"), b"weights").unwrap();
        let folder = ModelFolder::open(&model).unwrap();
        assert_eq!(&folder.open_external("w.bin").unwrap()[..], b"weights");
        assert_eq!(
            folder.open_external("none.bin").unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(outside.path().join("secret.bin"), inside.path().join("link.bin"))
                .unwrap();
            let error = folder.open_external("link.bin").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            let names = [String::new(), "w.bin".into(), "none.bin".into()];
            let descriptors = folder.descriptors(&names);
            assert!(
                descriptors[0] >= 0 && descriptors[1] >= 0 && descriptors[2] == -1,
                "{descriptors:?}"
            );
        }
    }

    #[cfg(all(unix, not(miri)))] // Miri maps no files
    #[test]
    fn links_of_a_download_cache_lead_to_the_folder_of_the_models_file() {
        use std::os::unix::fs::symlink;
        let cache = tempfile::tempdir().unwrap();
        let (blobs, snapshot) = (
            cache.path().join("blobs"),
            cache.path().join("snapshots/abc/onnx"),
        );
        for folder in [&blobs, &snapshot, &cache.path().join("other")] {
            std::fs::create_dir_all(folder).unwrap();
        }
        for (name, content) in [
            ("blobs/m", "model"),
            ("blobs/w", "weights"),
            ("other/s", "secret"),
        ] {
            std::fs::write(cache.path().join(name), content).unwrap();
        }
        for (to, name) in [
            ("blobs/m", "model.onnx"),
            ("blobs/w", "w.bin"),
            ("other/s", "s.bin"),
        ] {
            symlink(Path::new("../../..").join(to), snapshot.join(name)).unwrap();
        }
        let folder = ModelFolder::open(&snapshot.join("model.onnx")).unwrap();
        assert_eq!(&folder.open_external("w.bin").unwrap()[..], b"weights");
        // beside the model's file, without a link of its own
        assert_eq!(&folder.open_external("w").unwrap()[..], b"weights");
        for (location, kind) in [
            ("s.bin", io::ErrorKind::PermissionDenied),
            ("none.bin", io::ErrorKind::NotFound),
        ] {
            assert_eq!(folder.open_external(location).unwrap_err().kind(), kind);
        }
        // the folder of a link to a folder is the folder
        symlink(&blobs, cache.path().join("linked")).unwrap();
        let folder = ModelFolder::open(&cache.path().join("linked/m")).unwrap();
        assert_eq!(&folder.open_external("w").unwrap()[..], b"weights");
    }

    #[cfg(not(miri))] // Miri maps no files
    #[test]
    fn model_inside_a_file_is_mapped_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("assets.bin");
        std::fs::write(&path, [&[0; 5000], &b"model"[..], b"rest"].concat()).unwrap();
        let open = |offset, len| ModelFolder::of_file(File::open(&path).unwrap(), offset, len);
        let model = open(5000, Some(5)).unwrap();
        assert_eq!(&model.bytes()[..], b"model");
        let mut some = [0; 3];
        model.read_at(1, &mut some).unwrap();
        assert_eq!(&some, b"ode");
        assert!(model.read_at(3, &mut some).is_err());
        let whole = ModelFolder::open(&path).unwrap();
        whole.read_at(5001, &mut some).unwrap();
        assert_eq!(&some, b"ode");
        assert!(whole.read_at(5007, &mut some).is_err());
        // the file continues past the model's end
        assert!(open(0, Some(5)).unwrap().read_at(3, &mut some).is_err());
        // a device would map the file from its first byte
        assert_eq!(
            model.descriptors(&[String::new()]),
            [polychip_abi::POLYCHIP_NO_FD]
        );
        assert_eq!(&open(5000, None).unwrap().bytes()[..], b"modelrest");
        assert!(open(5000, Some(0)).unwrap().bytes().is_empty());
        for (offset, len) in [
            (5000, Some(10)),
            (6000, None),
            (6000, Some(0)),
            (1, Some(u64::MAX)),
        ] {
            let error = open(offset, len).unwrap_err().to_string();
            assert!(error.contains("exceeds the file of 5009 bytes"), "{error}");
        }
        let whole = open(0, None).unwrap();
        assert!(whole.descriptors(&[String::new()])[0] >= 0);
        assert!(
            whole
                .open_external("assets.bin")
                .unwrap_err()
                .to_string()
                .contains("no folder")
        );
    }

    #[test]
    fn empty_file_and_folder_are_distinguished() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("empty.onnx");
        std::fs::write(&path, b"").unwrap();
        assert!(MappedFile::open(&path).unwrap().bytes().is_empty());
        assert!(MappedFile::open(folder.path()).is_err());
    }
}

//! Model files mapped into memory, and access to weight files beside a model.
//!
//! Invariants:
//! 1. Returned bytes keep their mapping, or their owner, alive. Nothing is read or copied before it
//!    is accessed.
//! 2. External data is opened only inside the model's folder or, if the model is a link, inside the
//!    folder of its target, as in a download cache. Links are resolved before this check. A model
//!    without a folder has no external data.
//! 3. A pipe or device is read to its end, once; it has no descriptor to map.
//!
//! A mapped file must not be truncated while it is in use: the system would end the process. Models
//! are files that an app ships or a user names; they are not written while they run.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use memmap2::Mmap;
use polychip_graph::onnx::ExternalData;

/// A file as bytes, with the descriptor by which devices may map it.
#[derive(Debug)]
pub struct MappedFile {
    bytes: Bytes,
    /// `None` if the file was read instead of mapped.
    file: Option<File>,
}

impl MappedFile {
    /// Maps a file for reading. A file that cannot be mapped (a pipe, a device, a system file
    /// without a size) is read to its end instead.
    ///
    /// # Errors
    /// The file cannot be opened or mapped, or is a folder.
    pub fn open(path: &Path) -> io::Result<MappedFile> {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::new(
                io::ErrorKind::IsADirectory,
                "is a folder, not a file",
            ));
        }
        if metadata.len() == 0 || !metadata.is_file() {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            return Ok(MappedFile {
                bytes: Bytes::from(bytes),
                file: None,
            });
        }
        // SAFETY: the mapping is private and read-only; the module's header states what remains.
        let map = unsafe { Mmap::map(&file)? };
        Ok(MappedFile {
            bytes: Bytes::from_owner(map),
            file: Some(file),
        })
    }

    /// The content. Clones share the mapping.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.bytes.clone()
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
    if let Some(file) = file.and_then(|mapped| mapped.file.as_ref()) {
        use std::os::unix::fs::FileExt;
        return file.read_exact_at(out, offset as u64);
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
    folder: Option<PathBuf>,
    /// If the model is a link into another folder: that folder.
    resolved: Option<PathBuf>,
    external: Mutex<BTreeMap<String, MappedFile>>,
}

impl ModelFolder {
    /// Maps the model.
    ///
    /// # Errors
    /// The file cannot be opened or mapped.
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
        let whole = file.metadata()?.len();
        let left = whole.checked_sub(offset);
        let len = len.or(left).filter(|len| left.is_some_and(|left| *len <= left));
        let Some(len) = len.and_then(|len| usize::try_from(len).ok()) else {
            let words = format!("the model's range at offset {offset} exceeds the file of {whole} bytes");
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, words));
        };
        let bytes = if len == 0 {
            Bytes::new()
        } else {
            // SAFETY: the mapping is private and read-only; the module's header states what remains.
            Bytes::from_owner(unsafe { memmap2::MmapOptions::new().offset(offset).len(len).map(&file)? })
        };
        let file = (offset == 0).then(|| MappedFile {
            bytes: bytes.clone(),
            file: Some(file),
        });
        Ok(ModelFolder {
            bytes,
            file,
            folder: None,
            resolved: None,
            external: Mutex::default(),
        })
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

    #[cfg(all(unix, not(miri)))] // Miri opens no pipes
    #[test]
    fn pipes_are_read_to_their_end() {
        use std::io::Write;
        use std::os::fd::AsRawFd;
        let (reader, mut writer) = io::pipe().unwrap();
        let path = PathBuf::from(format!("/proc/self/fd/{}", reader.as_raw_fd()));
        if !path.exists() {
            return; // a system without such paths
        }
        let sent = std::thread::spawn(move || writer.write_all(&[7; 200_000]));
        let model = ModelFolder::open(&path).unwrap();
        sent.join().unwrap().unwrap();
        assert_eq!(model.bytes().len(), 200_000);
        let mut some = [0; 3];
        model.read_at(199_997, &mut some).unwrap();
        assert_eq!(some, [7; 3]);
        assert_eq!(
            model.descriptors(&[String::new()]),
            [polychip_abi::POLYCHIP_NO_FD]
        );
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

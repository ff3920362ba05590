//! Compiled parts in files, for later processes.
//!
//! Invariants:
//! 1. A cached blob is used only if this user wrote it on this machine (`seal`), and its key names the
//!    part's content, the device, the plugin's build and the options.
//! 2. A file is written whole under another name and renamed. Files are never written in place, so that what
//!    is mapped from them does not change.
//! 3. Only this user can read the files.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use polychip_host::{MappedFile, create_private, make_private};

use crate::seal::{Sealed, Sealer};

/// "PLYB": a cached blob of ours.
const MAGIC: [u8; 4] = *b"PLYB";
/// Magic, then key and seal of the payload; the payload follows at a multiple of 64.
const HEADER: usize = 128;

/// A folder of compiled parts.
#[derive(Debug)]
pub(crate) struct BlobCache {
    folder: PathBuf,
    sealer: Arc<Sealer>,
}

impl BlobCache {
    pub(crate) fn new(folder: PathBuf, sealer: Arc<Sealer>) -> BlobCache {
        BlobCache { folder, sealer }
    }

    /// The file for this key.
    pub(crate) fn path(&self, key: &blake3::Hash) -> PathBuf {
        self.folder.join(format!("{}.blob", key.to_hex()))
    }

    /// The payload of a cached blob, `None` if there is no file, or why it is refused.
    pub(crate) fn read(&self, key: &blake3::Hash) -> Result<Option<Bytes>, String> {
        let mapped = match MappedFile::open(&self.path(key)) {
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
        let stated: [u8; 32] = bytes[64..96].try_into().unwrap_or_default();
        match self.sealer.seal(Sealed::Blob(key), &payload, false) {
            Some(seal) if seal == stated => Ok(Some(payload)),
            Some(_) => {
                Err("its seal does not hold: torn, changed, or written by another user or machine".into())
            }
            None => Err("it has the seal of another user or machine: there is no key here yet".into()),
        }
    }

    /// Writes a blob, or says why not.
    pub(crate) fn write(&self, key: &blake3::Hash, payload: &[u8]) -> Result<(), String> {
        let words = |error: std::io::Error| error.to_string();
        let seal = self.sealer.seal(Sealed::Blob(key), payload, true);
        let seal = seal.ok_or("there is no key to seal it with")?;
        let mut header = [0; HEADER];
        header[..4].copy_from_slice(&MAGIC);
        header[32..64].copy_from_slice(key.as_bytes());
        header[64..96].copy_from_slice(seal.as_bytes());
        make_private(&self.folder).map_err(words)?;
        static WRITES: AtomicU64 = AtomicU64::new(0);
        let count = WRITES.fetch_add(1, Ordering::Relaxed);
        let file = self.path(key);
        let aside = file.with_extension(format!("{}-{count}.part", std::process::id()));
        write_aside(&aside, &[&header, payload])
            .and_then(|()| std::fs::rename(&aside, &file))
            .map_err(|error| {
                let _ = std::fs::remove_file(&aside);
                words(error)
            })
    }
}

fn write_aside(aside: &Path, pieces: &[&[u8]]) -> std::io::Result<()> {
    // left by a process of the same number that was ended
    let _ = std::fs::remove_file(aside);
    let mut file = create_private(aside)?;
    pieces.iter().try_for_each(|piece| file.write_all(piece))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_cached_blob_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let sealer = |name: &str| Arc::new(Sealer::in_folders(vec![at(name)]));
        let cache = BlobCache::new(at("a"), sealer("keys"));
        let key = blake3::hash(b"key");
        let file = cache.path(&key);
        assert_eq!(cache.read(&key), Ok(None));
        cache.write(&key, b"payload").unwrap();
        assert_eq!(cache.read(&key).unwrap().unwrap(), "payload");
        // after a restart
        let again = BlobCache::new(at("a"), sealer("keys"));
        assert_eq!(again.read(&key).unwrap().unwrap(), "payload");
        // of another user or machine
        let elsewhere = BlobCache::new(at("a"), sealer("other"));
        assert!(elsewhere.read(&key).unwrap_err().contains("no key here yet"));
        elsewhere.write(&blake3::hash(b"x"), b"x").unwrap();
        assert!(
            elsewhere
                .read(&key)
                .unwrap_err()
                .contains("another user or machine")
        );
        let other = blake3::hash(b"other");
        std::fs::copy(&file, cache.path(&other)).unwrap();
        assert!(cache.read(&other).unwrap_err().contains("another part"));
        // as anyone can write it
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[64..96].copy_from_slice(blake3::hash(b"payload").as_bytes());
        std::fs::write(&file, &bytes).unwrap();
        assert!(cache.read(&key).unwrap_err().contains("seal"));
        cache.write(&key, b"payload").unwrap();
        let mut bytes = std::fs::read(&file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&file, &bytes).unwrap();
        assert!(cache.read(&key).unwrap_err().contains("seal"));
        std::fs::write(&file, &bytes[..60]).unwrap();
        assert!(cache.read(&key).unwrap_err().contains("torn"));
    }
}

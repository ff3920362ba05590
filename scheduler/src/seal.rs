//! Seals on what reaches a driver from files: plugins' own values in a profile, and cached parts.
//!
//! Invariants:
//! 1. Bytes reach a plugin only if this user stored them on this machine: their seal is a keyed hash, and
//!    the key is in a file of this user ([`UserKey`]). What was copied, merged or imported from
//!    elsewhere has no such seal.
//! 2. Without a key nothing is sealed and nothing is opened.
//! 3. A key file is made when something is first sealed, not before.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use polychip_host::UserKey;

/// "PLYV": a sealed value.
const MAGIC: [u8; 4] = *b"PLYV";
/// Magic and seal; the value follows.
const HEADER: usize = 4 + blake3::OUT_LEN;

/// The key for seals, found when it is first needed.
#[derive(Debug)]
pub(crate) struct Sealer {
    /// Where the key may be, in order; empty: it is in memory, for this runtime alone.
    folders: Vec<PathBuf>,
    key: Mutex<Option<UserKey>>,
    /// A reason why a key is not used was logged.
    warned: AtomicBool,
}

/// What is sealed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sealed<'a> {
    /// A plugin's value of this name.
    Value { plugin: &'a str, key: &'a str },
    /// A compiled part with this cache key.
    Blob(&'a blake3::Hash),
}

impl Sealer {
    /// Uses the key in the user's data folder, or if that is unusable the one in `fallback`.
    pub(crate) fn of_user(fallback: Option<&Path>) -> Sealer {
        let usual = UserKey::usual_folder();
        Sealer::in_folders(usual.into_iter().chain(fallback.map(Path::to_owned)).collect())
    }

    pub(crate) fn in_folders(folders: Vec<PathBuf>) -> Sealer {
        Sealer {
            folders,
            key: Mutex::default(),
            warned: AtomicBool::new(false),
        }
    }

    /// Seals nothing beyond this object's life.
    pub(crate) fn in_memory() -> Sealer {
        Sealer {
            folders: Vec::new(),
            key: Mutex::new(UserKey::in_memory().ok()),
            warned: AtomicBool::new(false),
        }
    }

    fn key(&self, create: bool) -> Option<UserKey> {
        let mut key = self.key.lock().unwrap_or_else(PoisonError::into_inner);
        if key.is_none() {
            *key = self.folders.iter().find_map(|folder| {
                let found = if create {
                    UserKey::read_or_create(folder).map(Some)
                } else {
                    UserKey::read(folder)
                };
                found.unwrap_or_else(|error| {
                    if !self.warned.swap(true, Ordering::Relaxed) {
                        tracing::warn!(
                            "{error}: values of plugins and compiled parts are not sealed with the key in {}",
                            folder.display()
                        );
                    }
                    None
                })
            });
        }
        key.clone()
    }

    /// The seal of these bytes. Without `create` and without a key there is none.
    pub(crate) fn seal(&self, what: Sealed<'_>, bytes: &[u8], create: bool) -> Option<blake3::Hash> {
        let key = self.key(create)?;
        let mut hasher = blake3::Hasher::new_keyed(key.bytes());
        let mut part = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        match what {
            Sealed::Value { plugin, key } => [b"value", plugin.as_bytes(), key.as_bytes()].map(&mut part),
            Sealed::Blob(key) => [b"blob", key.as_bytes().as_slice(), &[]].map(&mut part),
        };
        part(bytes);
        Some(hasher.finalize())
    }

    /// The value with its seal; `None` without a key.
    pub(crate) fn close(&self, what: Sealed<'_>, value: &[u8]) -> Option<Vec<u8>> {
        let seal = self.seal(what, value, true)?;
        Some([&MAGIC, seal.as_bytes().as_slice(), value].concat())
    }

    /// The value if its seal holds.
    pub(crate) fn open(&self, what: Sealed<'_>, sealed: &[u8]) -> Option<Vec<u8>> {
        let value = sealed.get(HEADER..)?;
        let stated: [u8; blake3::OUT_LEN] = sealed[MAGIC.len()..HEADER].try_into().ok()?;
        // hashes are compared in constant time
        let holds = sealed[..MAGIC.len()] == MAGIC && self.seal(what, value, false)? == stated;
        holds.then(|| value.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TILE: Sealed<'static> = Sealed::Value {
        plugin: "gpu",
        key: "pipelines",
    };

    #[test]
    fn only_values_that_this_user_sealed_are_opened() {
        let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let of = |folder: &Path| Sealer::in_folders(vec![folder.to_owned()]);
        let sealed = of(own.path()).close(TILE, b"bytes").unwrap();
        // after a restart
        assert_eq!(of(own.path()).open(TILE, &sealed).as_deref(), Some(&b"bytes"[..]));
        let elsewhere = of(other.path());
        assert_eq!(elsewhere.open(TILE, &sealed), None, "there is no key yet");
        elsewhere.close(TILE, b"x").unwrap();
        assert_eq!(elsewhere.open(TILE, &sealed), None);
        // under another name it is another value
        for (plugin, key) in [("cpu", "pipelines"), ("gpu", "tile"), ("gpupipelines", "")] {
            assert_eq!(of(own.path()).open(Sealed::Value { plugin, key }, &sealed), None);
        }
        for index in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[index] ^= 1;
            assert_eq!(of(own.path()).open(TILE, &changed), None, "byte {index}");
        }
        for end in 0..sealed.len() {
            assert_eq!(of(own.path()).open(TILE, &sealed[..end]), None, "{end} bytes");
        }
        assert_eq!(of(own.path()).open(TILE, b"planted"), None);
    }

    #[test]
    fn sealer_without_a_usable_folder_seals_nothing_or_uses_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, b"").unwrap();
        let blocked = file.join("below");
        assert_eq!(Sealer::in_folders(vec![blocked.clone()]).close(TILE, b"v"), None);
        let next = folder.path().join("next");
        let sealer = Sealer::in_folders(vec![blocked, next.clone()]);
        let sealed = sealer.close(TILE, b"v").unwrap();
        assert_eq!(
            Sealer::in_folders(vec![next]).open(TILE, &sealed).as_deref(),
            Some(&b"v"[..])
        );
        let memory = Sealer::in_memory();
        let sealed = memory.close(TILE, b"v").unwrap();
        assert_eq!(memory.open(TILE, &sealed).as_deref(), Some(&b"v"[..]));
        assert_eq!(Sealer::in_memory().open(TILE, &sealed), None);
    }
}

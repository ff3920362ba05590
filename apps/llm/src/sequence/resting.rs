//! The KV cache of a sequence in the account of the runtime's memory, and sequences that rest.
//!
//! Invariants:
//! 1. Only the KV cache of a resting sequence is released. A sequence in use keeps its own.
//! 2. After a release, the sequence's next use reads its tokens again, or none if its text is replaced anyway.
//!
//! Not here: the account (`polychip::AppMemory`), which caches a server lets rest.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use polychip::{AppMemory, Memory, Releasable, Runtime};

use super::{BatchSlot, Sequence, View};
use crate::chunk::SessionKey;
use crate::kv_cache::KvCache;
use crate::{Error, LanguageModel, Result};

/// Positions that are charged at once.
const POSITIONS: usize = 64;
/// An estimate of the time to read a position again, in nanoseconds, per byte of its KV cache.
const REREAD_NS_PER_BYTE: u64 = 100;

/// What a sequence keeps in memory.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) memories: Vec<Memory>,
    pub(super) views: BTreeMap<SessionKey, View>,
    pub(super) places: BTreeMap<usize, BatchSlot>,
    pub(super) current: Option<SessionKey>,
}

/// The account's side of a sequence.
#[derive(Debug)]
pub(crate) struct Cache {
    runtime: Runtime,
    memory: OnceLock<AppMemory>,
    /// Of a resting sequence, unless it was released.
    held: Mutex<Option<Held>>,
    used_ns: AtomicU64,
}

impl Cache {
    pub(super) fn new(model: &LanguageModel) -> Arc<Cache> {
        let cache = Arc::new(Cache {
            runtime: model.runtime().clone(),
            memory: OnceLock::new(),
            held: Mutex::new(None),
            used_ns: AtomicU64::new(0),
        });
        let owner: Weak<Cache> = Arc::downgrade(&cache);
        let name = format!("{} (KV cache)", model.path().display());
        // it is new, so that it is not set
        let _ = cache.memory.set(model.runtime().app_memory(&name, owner));
        cache
    }

    fn held(&self) -> MutexGuard<'_, Option<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KvCache for Cache {
    fn bytes(&self) -> u64 {
        self.memory.get().map_or(0, AppMemory::bytes)
    }
}

impl Releasable for Cache {
    fn is_idle(&self) -> bool {
        self.held().is_some()
    }

    fn used_ns(&self) -> u64 {
        self.used_ns.load(Ordering::Relaxed)
    }

    fn rebuild_ns(&self) -> u64 {
        self.bytes().saturating_mul(REREAD_NS_PER_BYTE)
    }

    fn release(&self, _why: &str) -> bool {
        let Some(held) = self.held().take() else {
            return false;
        };
        drop(held);
        // less memory always fits
        self.memory.get().is_some_and(|memory| memory.resize(0).is_ok())
    }
}

impl Sequence {
    /// Lets the sequence rest, for example while a user types: its KV cache may be released when memory is short
    /// ([`Runtime::memory`](polychip::Runtime::memory)). The next use of the sequence takes the cache back, or reads the
    /// tokens again if it was released, whose logits may then differ in their last bits. Does nothing if it rests.
    pub fn rest(&mut self) {
        if self.rests {
            return;
        }
        self.rests = true;
        let held = Held {
            memories: std::mem::take(&mut self.memories),
            views: std::mem::take(&mut self.views),
            places: std::mem::take(&mut self.places),
            current: self.current.take(),
        };
        self.cache
            .used_ns
            .store(self.cache.runtime.now_ns(), Ordering::Relaxed);
        *self.cache.held() = Some(held);
        if let Some(companion) = &mut self.companion {
            companion.rest();
        }
    }

    /// Whether the sequence rests and its KV cache was released.
    #[must_use]
    pub fn is_released(&self) -> bool {
        self.rests && self.cache.held().is_none()
    }

    /// Ends the rest. Reads the tokens again if the KV cache was released; any use does this by itself.
    ///
    /// # Errors
    /// As [`Sequence::append`]; then the sequence is empty.
    pub fn wake(&mut self) -> Result<()> {
        if !self.take_back()? {
            let tokens = std::mem::take(&mut self.tokens);
            let logits = std::mem::take(&mut self.logits);
            if let Err(error) = self.chunks(&tokens, &mut || true) {
                self.truncate(0);
                return Err(error);
            }
            if logits.is_empty() {
                // as before: they were forgotten with the text behind them
                self.logits.clear();
            }
        }
        Ok(())
    }

    /// Ends the rest; whether the sequence still has its KV cache.
    fn take_back(&mut self) -> Result<bool> {
        if !std::mem::take(&mut self.rests) {
            return Ok(true);
        }
        let held = self.cache.held().take();
        let is_whole = held.is_some();
        let held = match held {
            Some(held) => held,
            None => {
                self.charged = 0;
                Held {
                    memories: memories(&self.model)?,
                    ..Held::default()
                }
            }
        };
        self.memories = held.memories;
        self.views = held.views;
        self.places = held.places;
        self.current = held.current;
        Ok(is_whole)
    }

    /// Ends the rest for a text that takes the place of the sequence's: of a released cache nothing is read again.
    pub(crate) fn wake_anew(&mut self) -> Result<()> {
        if !self.take_back()? {
            self.tokens.clear();
            self.logits.clear();
        }
        Ok(())
    }

    /// Calls `take` with the memories, also of a resting sequence; none if they were released.
    pub(super) fn with_memories<T>(&self, take: impl FnOnce(&[Memory]) -> T) -> Option<T> {
        if !self.rests {
            return Some(take(&self.memories));
        }
        self.cache.held().as_ref().map(|held| take(&held.memories))
    }

    /// Charges the KV cache of so many positions, with the inputs of all chunk sizes in use.
    pub(crate) fn charge(&mut self, positions: usize) -> Result<()> {
        let positions = positions.next_multiple_of(POSITIONS);
        let inputs = self.views.keys().map(|key| self.model.input_bytes(key.rows));
        let bytes = inputs.fold(self.model.sequence_bytes(positions), u64::saturating_add);
        if bytes > self.charged {
            let memory = self.cache.memory.get();
            memory
                .map_or(Ok(()), |memory| memory.resize(bytes))
                .map_err(Error::run)?;
            self.charged = bytes;
        }
        Ok(())
    }
}

/// Memory of a KV cache, of which a sequence seldom touches all pages.
pub(super) fn memories(model: &LanguageModel) -> Result<Vec<Memory>> {
    let bytes = model.memory_bytes()?;
    let memories: std::result::Result<Vec<Memory>, _> = (0..2 * model.sizes().layers)
        .map(|_| Memory::sparse(bytes))
        .collect();
    memories.map_err(Error::memory)
}

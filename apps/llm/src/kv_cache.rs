//! A KV cache in the account of the runtime's memory.
//!
//! Invariant: what it holds is released only while it rests here; its user takes it out.
//!
//! Not here: what a sequence holds, and when it rests (`sequence/resting`).

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use polychip::{AppMemory, Releasable, Runtime};

/// An estimate of the time to read tokens again, in nanoseconds per byte of their KV cache.
const REREAD_NS_PER_BYTE: u64 = 50;

/// The KV cache of a sequence, as its model sees it.
pub(crate) trait KvCache: Releasable {
    /// The bytes that count in the account.
    fn bytes(&self) -> u64;
}

/// The account's side of a sequence that holds `T` in memory.
#[derive(Debug)]
pub(crate) struct Cache<T> {
    runtime: Runtime,
    memory: OnceLock<AppMemory>,
    /// While it rests, unless it was released.
    held: Mutex<Option<T>>,
    used_ns: AtomicU64,
}

impl<T: Debug + Send + 'static> Cache<T> {
    /// The KV cache of a sequence of the model with this name.
    pub(crate) fn new(runtime: &Runtime, model: &str) -> Arc<Cache<T>> {
        let cache = Arc::new(Cache {
            runtime: runtime.clone(),
            memory: OnceLock::new(),
            held: Mutex::new(None),
            used_ns: AtomicU64::new(0),
        });
        let owner: Weak<Cache<T>> = Arc::downgrade(&cache);
        // it is new, so that it is not set
        let _ = cache
            .memory
            .set(runtime.app_memory(&format!("{model} (KV cache)"), owner));
        cache
    }
}

impl<T> Cache<T> {
    fn held(&self) -> MutexGuard<'_, Option<T>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on it may be released.
    pub(crate) fn put(&self, held: T) {
        self.used_ns.store(self.runtime.now_ns(), Ordering::Relaxed);
        *self.held() = Some(held);
    }

    /// What rests here, unless it was released.
    pub(crate) fn take(&self) -> Option<T> {
        self.held().take()
    }

    pub(crate) fn is_held(&self) -> bool {
        self.held().is_some()
    }

    /// Calls `look` with what rests here.
    pub(crate) fn with<U>(&self, look: impl FnOnce(&T) -> U) -> Option<U> {
        self.held().as_ref().map(look)
    }

    /// Counts so many bytes.
    ///
    /// # Errors
    /// They do not fit the memory limit.
    pub(crate) fn resize(&self, bytes: u64) -> Result<(), polychip::Error> {
        let memory = self.memory.get();
        memory.map_or(Ok(()), |memory| memory.resize(bytes))
    }
}

impl<T: Debug + Send> KvCache for Cache<T> {
    fn bytes(&self) -> u64 {
        self.memory.get().map_or(0, AppMemory::bytes)
    }
}

impl<T: Debug + Send> Releasable for Cache<T> {
    fn is_idle(&self) -> bool {
        self.is_held()
    }

    fn used_ns(&self) -> u64 {
        self.used_ns.load(Ordering::Relaxed)
    }

    fn rebuild_ns(&self) -> u64 {
        self.bytes().saturating_mul(REREAD_NS_PER_BYTE)
    }

    fn release(&self, _why: &str) -> bool {
        let Some(held) = self.take() else {
            return false;
        };
        drop(held);
        // less memory always fits
        self.resize(0).is_ok()
    }
}

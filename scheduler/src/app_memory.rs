//! Memory of the app that counts towards a runtime's limit, such as KV caches of language models.
//!
//! Invariants:
//! 1. It is released like a session is parked: idle owners first, in order of value, and never one in use.
//! 2. No lock of the account is held while an owner is asked.
//!
//! Not here: the account (`memory_account`).

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::error::Result;
use crate::memory_account::{Charge, Holder, MemoryAccount, Parkable, Purpose, Room};
use crate::runtime::Runtime;
use crate::session::next_id;

/// An owner of memory that it can make again, and releases when memory is short.
///
/// The calls come from any thread and may not wait for work that takes memory.
pub trait Releasable: std::fmt::Debug + Send + Sync {
    /// Whether nothing uses the memory now.
    fn is_idle(&self) -> bool;
    /// When it was used last, in nanoseconds of the runtime's clock ([`Runtime::now_ns`]).
    fn used_ns(&self) -> u64;
    /// An estimate of the time to make the content again, in nanoseconds.
    fn rebuild_ns(&self) -> u64;
    /// Frees the memory and releases it from its [`AppMemory`], unless it is in use. Returns whether it did.
    fn release(&self, why: &str) -> bool;
}

/// Memory of the app in a runtime's account ([`Runtime::memory`]). It is released when this is dropped.
#[derive(Debug)]
pub struct AppMemory {
    account: Arc<MemoryAccount>,
    holder: Arc<Holder>,
    charge: Mutex<Option<Arc<Charge>>>,
    /// What the account knows of the owner.
    owner: Arc<Owned>,
}

/// An owner, as the account sees it.
#[derive(Debug)]
struct Owned {
    number: usize,
    owner: Weak<dyn Releasable>,
    charged: Mutex<Weak<Charge>>,
}

impl Runtime {
    /// Counts memory of the app, of 0 bytes at first, as held by `name`. When memory is short, `owner` is asked to
    /// release it.
    #[must_use]
    pub fn app_memory(&self, name: &str, owner: Weak<dyn Releasable>) -> AppMemory {
        let holder = Arc::new(Holder {
            session: next_id(),
            model: name.to_owned(),
        });
        let owner = Arc::new(Owned {
            number: holder.session,
            owner,
            charged: Mutex::new(Weak::new()),
        });
        let parkable: Weak<Owned> = Arc::downgrade(&owner);
        self.0.memory.add_parkable(parkable);
        self.0.watch_pressure();
        AppMemory {
            account: Arc::clone(&self.0.memory),
            holder,
            charge: Mutex::new(None),
            owner,
        }
    }

    /// The runtime's clock, in nanoseconds.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.0.host.clock().now_ns()
    }
}

impl AppMemory {
    fn charge(&self) -> std::sync::MutexGuard<'_, Option<Arc<Charge>>> {
        self.charge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes that count now.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.charge().as_ref().map_or(0, |charge| charge.bytes())
    }

    /// Counts so many bytes from now on. If they are more, idle sessions are parked and other app memory is released
    /// to make room.
    ///
    /// # Errors
    /// They do not fit the limit ([`ErrorKind::OutOfMemory`](crate::ErrorKind)); as many count as before.
    pub fn resize(&self, bytes: u64) -> Result<()> {
        let known = self.charge().clone();
        let Some(charge) = known else {
            if bytes > 0 {
                let amounts = [(Purpose::Caches, bytes)];
                let granted = self.account.charge(&self.holder, &amounts, None, Room::Parked)?;
                let charge = granted.charges.into_iter().next().map(Arc::new);
                let known = charge.as_ref().map_or_else(Weak::new, Arc::downgrade);
                *self.owner.charged.lock().unwrap_or_else(PoisonError::into_inner) = known;
                *self.charge() = charge;
            }
            return Ok(());
        };
        match bytes.checked_sub(charge.bytes()) {
            Some(more) if more > 0 => charge.grow(more),
            _ => {
                charge.shrink(bytes);
                Ok(())
            }
        }
    }
}

impl Parkable for Owned {
    fn session(&self) -> usize {
        self.number
    }

    fn freeable(&self) -> u64 {
        // memory in use may stay so for as long as the app wants: no load waits for it
        if !self.is_idle() {
            return 0;
        }
        let charged = self.charged.lock().unwrap_or_else(PoisonError::into_inner);
        charged.upgrade().map_or(0, |charge| charge.bytes())
    }

    fn rebuild_ns(&self) -> u64 {
        self.owner.upgrade().map_or(0, |owner| owner.rebuild_ns())
    }

    fn used_ns(&self) -> u64 {
        self.owner.upgrade().map_or(0, |owner| owner.used_ns())
    }

    fn is_idle(&self) -> bool {
        self.owner.upgrade().is_some_and(|owner| owner.is_idle())
    }

    fn park_idle(&self, why: &str) -> bool {
        let bytes = self.freeable();
        let is_released = self.owner.upgrade().is_some_and(|owner| owner.release(why));
        if is_released {
            tracing::info!("{bytes} bytes of memory that the app accounts for are released: {why}");
        }
        is_released
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::memory_pressure::MemoryPressure;

    #[derive(Debug, Default)]
    struct Cache {
        memory: OnceLock<AppMemory>,
        is_busy: AtomicBool,
    }

    impl Releasable for Cache {
        fn is_idle(&self) -> bool {
            !self.is_busy.load(Ordering::Relaxed)
        }

        fn used_ns(&self) -> u64 {
            0
        }

        fn rebuild_ns(&self) -> u64 {
            1
        }

        fn release(&self, _why: &str) -> bool {
            self.is_idle() && self.memory.get().unwrap().resize(0).is_ok()
        }
    }

    fn cache(runtime: &Runtime, name: &str) -> Arc<Cache> {
        let cache = Arc::new(Cache::default());
        let owner: Weak<Cache> = Arc::downgrade(&cache);
        cache.memory.set(runtime.app_memory(name, owner)).unwrap();
        cache
    }

    #[test]
    fn app_memory_counts_and_gives_way_unless_it_is_in_use() {
        let runtime = Runtime::builder()
            .only_given_folders()
            .memory_limit(100)
            .build()
            .unwrap();
        let (one, two) = (cache(&runtime, "one"), cache(&runtime, "two"));
        let size = |cache: &Cache| cache.memory.get().unwrap().bytes();
        one.memory.get().unwrap().resize(60).unwrap();
        one.memory.get().unwrap().resize(50).unwrap();
        two.memory.get().unwrap().resize(40).unwrap();
        let report = runtime.memory();
        assert_eq!((report.held_bytes, report.caches_bytes), (90, 90));
        assert_eq!(
            (&*report.sessions[0].model, report.sessions[0].caches_bytes),
            ("one", 50)
        );
        two.is_busy.store(true, Ordering::Relaxed);
        two.memory.get().unwrap().resize(80).unwrap();
        assert_eq!((size(&one), size(&two)), (0, 80), "the idle one gave way");
        let error = one.memory.get().unwrap().resize(30).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::OutOfMemory);
        assert_eq!((size(&one), size(&two)), (0, 80), "one in use stays");
        two.is_busy.store(false, Ordering::Relaxed);
        assert_eq!(runtime.trim_memory(MemoryPressure::Critical), 80);
        two.memory.get().unwrap().resize(10).unwrap();
        drop(two);
        assert_eq!(runtime.memory().held_bytes, 0);
    }
}

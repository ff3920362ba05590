//! Thread pools of a device, by their number of threads.
//!
//! Invariants:
//! 1. Two runs never compute with the same pool: a run [`take`](Pools::take)s one for itself, and gives it back.
//! 2. There are at most as many pools of a size as the peak number of concurrent runs of that size.
//!
//! Not here: how many runs may compute at once (the SDK's queue).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polychip_cpu_kernels::ThreadPool;

/// A pool, and whether a run computes with it.
struct Shelved {
    pool: Arc<ThreadPool>,
    busy: bool,
}

/// Thread pools.
pub(crate) struct Pools {
    /// Processors that their threads keep to; empty for any.
    cores: Vec<usize>,
    shelf: Mutex<BTreeMap<usize, Vec<Shelved>>>,
}

impl Pools {
    /// None yet.
    pub(crate) fn new(cores: Vec<usize>) -> Self {
        Self {
            cores,
            shelf: Mutex::new(BTreeMap::new()),
        }
    }

    fn shelf(&self) -> MutexGuard<'_, BTreeMap<usize, Vec<Shelved>>> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn made(&self, threads: usize, busy: bool) -> Shelved {
        Shelved {
            pool: Arc::new(ThreadPool::pinned(threads, &self.cores)),
            busy,
        }
    }

    /// The first pool of this size, even if in use: for what happens once, and to ask how many threads the
    /// system gives.
    pub(crate) fn shared(&self, threads: usize) -> Arc<ThreadPool> {
        let mut shelf = self.shelf();
        let pools = shelf.entry(threads).or_default();
        if pools.is_empty() {
            pools.push(self.made(threads, false));
        }
        Arc::clone(&pools[0].pool)
    }

    /// A pool of at most this many threads for one run.
    pub(crate) fn take(&self, threads: usize) -> Taken<'_> {
        let mut shelf = self.shelf();
        let pools = shelf.entry(threads).or_default();
        let pool = match pools.iter_mut().find(|shelved| !shelved.busy) {
            Some(free) => {
                free.busy = true;
                Arc::clone(&free.pool)
            }
            None => {
                pools.push(self.made(threads, true));
                Arc::clone(&pools[pools.len() - 1].pool)
            }
        };
        Taken {
            pools: self,
            threads,
            pool,
        }
    }
}

/// A pool that one run computes with.
pub(crate) struct Taken<'a> {
    pools: &'a Pools,
    threads: usize,
    pool: Arc<ThreadPool>,
}

impl std::ops::Deref for Taken<'_> {
    type Target = ThreadPool;

    fn deref(&self) -> &ThreadPool {
        &self.pool
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut shelf = self.pools.shelf();
        let pools = shelf.entry(self.threads).or_default();
        if let Some(own) = pools
            .iter_mut()
            .find(|shelved| Arc::ptr_eq(&shelved.pool, &self.pool))
        {
            own.busy = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_has_its_own_pool() {
        let pools = Pools::new(Vec::new());
        let shared = pools.shared(2);
        let first = pools.take(2);
        assert!(Arc::ptr_eq(&first.pool, &shared), "what is there is used");
        let second = pools.take(2);
        assert!(!Arc::ptr_eq(&second.pool, &shared));
        assert_eq!((second.threads(), pools.take(1).threads()), (2, 1));
        drop(first);
        assert!(Arc::ptr_eq(&pools.take(2).pool, &shared));
        assert_eq!(pools.shelf()[&2].len(), 2);
    }
}

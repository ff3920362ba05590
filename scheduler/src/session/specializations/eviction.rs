//! Lets go of cached specialisations when the system is short of memory.

use super::Open;
use crate::memory_account::SpecializationCache;

impl SpecializationCache for Open {
    fn evict(&self) {
        let mut kept = self.lock();
        let dropped = self.shrink(&mut kept, 0);
        drop(kept);
        // without the lock: a dropped specialisation waits for its last runs
        drop(dropped);
    }
}

//! Lets go of cached specialisations when the system is short of memory.

use std::sync::Arc;

use super::Open;
use crate::event::{Event, EventKind};
use crate::memory_account::SpecializationCache;

impl SpecializationCache for Open {
    fn evict(&self, why: &str) {
        let mut kept = self.lock();
        let dropped = self.shrink(&mut kept, 0);
        let latest = kept.all.iter().max_by_key(|one| one.used);
        let latest = latest.map(|one| Arc::clone(&one.special.inner));
        drop(kept);
        if let Some(latest) = latest.filter(|_| !dropped.is_empty()) {
            let words = format!("{why}; {} cached specializations dropped", dropped.len());
            latest.tell(Event::new(EventKind::Evicted, "", 0, words));
        }
        // without the lock: a dropped specialisation waits for its last runs
        drop(dropped);
    }
}

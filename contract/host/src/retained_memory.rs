//! Objects that the process retains until it ends, because a hung device may still write into them.
//!
//! Invariant: a retained object is never freed or reused. It stays reachable, so leak checkers do
//! not report it.
//!
//! Not here: detection of hangs (`fence`, `submission`).

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

static RETAINED: Mutex<Vec<Arc<dyn Any + Send + Sync>>> = Mutex::new(Vec::new());

/// Retains `object` until the process ends.
pub(crate) fn retain<T: Any + Send + Sync>(object: &Arc<T>) {
    let object: Arc<dyn Any + Send + Sync> = Arc::<T>::clone(object);
    RETAINED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(object);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retained_object_outlives_its_owner() {
        let memory = Arc::new([7u8; 16]);
        let seen = Arc::downgrade(&memory);
        retain(&memory);
        drop(memory);
        assert_eq!(seen.upgrade().as_deref(), Some(&[7; 16]));
    }
}

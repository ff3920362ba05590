//! The guard and the tuner on the available driver.

mod guard;
mod tuner;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use polychip_gpu_lowering::Keep;

/// An in-memory store, and the notes, for tests to inspect.
#[derive(Clone, Default)]
struct MemoryStore(Arc<Mutex<BTreeMap<String, Vec<u8>>>>, Arc<Mutex<Vec<String>>>);

impl Keep for MemoryStore {
    fn read(&self, key: &str) -> Option<Vec<u8>> {
        self.0.lock().unwrap().get(key).cloned()
    }

    fn write(&self, key: &str, value: &[u8]) {
        self.0.lock().unwrap().insert(key.to_owned(), value.to_vec());
    }

    fn warn(&self, _: &str) {}

    fn note(&self, message: &str) {
        self.1.lock().unwrap().push(message.to_owned());
    }
}

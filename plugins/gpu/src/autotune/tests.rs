//! The guard and the tuner on the driver that is there.

mod guard;
mod tuner;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use polychip_gpu_lowering::Keep;

/// What is kept and what is noted, where a test can look.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<BTreeMap<String, Vec<u8>>>>, Arc<Mutex<Vec<String>>>);

impl Keep for Kept {
    fn read(&self, key: &str) -> Option<Vec<u8>> {
        self.0.lock().unwrap().get(key).cloned()
    }

    fn write(&self, key: &str, value: &[u8]) {
        self.0.lock().unwrap().insert(key.to_owned(), value.to_vec());
    }

    fn warn(&self, _: &str) {}

    fn note(&self, words: &str) {
        self.1.lock().unwrap().push(words.to_owned());
    }
}

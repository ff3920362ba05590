//! Plugins that were quarantined, remembered for later processes.
//!
//! Invariants:
//! 1. What is remembered is of a build of a plugin and the drivers of its devices: another build or driver is used.
//! 2. It is kept in the store of plugins' values, under a name that no plugin has. A store that guards these values
//!    guards it too.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use polychip_isolation::OnQuarantine;

use crate::device::Device;
use crate::services::Store;

/// In place of the name of a plugin.
const STORED_FOR: &str = "@quarantine";

/// First line of what is stored.
const VERSION: &str = "1";

/// Longest kept words, in bytes.
const MOST_WORDS: usize = 1000;

/// What is remembered of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remembered {
    build_id: String,
    deaths: u32,
    /// How the last process died.
    words: String,
    drivers: BTreeSet<String>,
}

/// One line of text.
fn line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

impl Remembered {
    /// What is remembered of a plugin, if anything.
    pub(crate) fn read(store: &dyn Store, plugin: &str) -> Option<Remembered> {
        let text = String::from_utf8(store.read(STORED_FOR, plugin)?).ok()?;
        let mut lines = text.lines();
        if lines.next() != Some(VERSION) {
            return None;
        }
        Some(Remembered {
            build_id: lines.next()?.to_owned(),
            deaths: lines.next()?.parse().ok()?,
            words: lines.next()?.to_owned(),
            drivers: lines.map(str::to_owned).collect(),
        })
    }

    /// Forgets what is remembered of a plugin.
    pub(crate) fn clear(store: &dyn Store, plugin: &str) {
        if store.read(STORED_FOR, plugin).is_some() && store.write(STORED_FOR, plugin, &[]) {
            tracing::info!(target: "polychip::plugin", "the quarantine of plugin {plugin} is cleared");
        }
    }

    fn write(&self, store: &dyn Store, plugin: &str) {
        let end = self.words.floor_char_boundary(MOST_WORDS);
        let fixed = [
            VERSION,
            &self.build_id,
            &self.deaths.to_string(),
            &self.words[..end],
        ];
        let lines = fixed.into_iter().chain(self.drivers.iter().map(String::as_str));
        let text: String = lines.map(|text| line(text) + "\n").collect();
        if !store.write(STORED_FOR, plugin, text.as_bytes()) {
            tracing::warn!(
                target: "polychip::plugin",
                "that plugin {plugin} is quarantined is not remembered: its store cannot be written"
            );
        }
    }

    /// Why a device of this build of the plugin is not used; none if it is.
    pub(crate) fn refuses(&self, plugin: &str, build_id: &str, device: &Device) -> Option<String> {
        let driver = line(&device.info().driver);
        if line(build_id) != self.build_id || !self.drivers.contains(&driver) {
            return None;
        }
        Some(format!(
            "plugin {plugin} is quarantined: with driver {driver:?} its process died {} times in an earlier program, \
             at last: {}. It is used again once the driver or the plugin is another, or the quarantine is cleared \
             (clear-quarantine)",
            self.deaths, self.words
        ))
    }
}

/// Remembers the quarantine of a plugin, if it comes to that.
pub(crate) struct Keeper {
    store: Arc<dyn Store>,
    plugin: String,
    build_id: String,
    drivers: Mutex<BTreeSet<String>>,
}

impl Keeper {
    pub(crate) fn new(store: &Arc<dyn Store>, plugin: &str, build_id: &str) -> Keeper {
        Keeper {
            store: Arc::clone(store),
            plugin: plugin.to_owned(),
            build_id: build_id.to_owned(),
            drivers: Mutex::default(),
        }
    }

    /// Adds the drivers of devices.
    pub(crate) fn add(&self, devices: &[Device]) {
        let mut drivers = self.drivers.lock().unwrap_or_else(PoisonError::into_inner);
        drivers.extend(devices.iter().map(|device| line(&device.info().driver)));
    }
}

impl OnQuarantine for Keeper {
    fn quarantined(&self, deaths: u32, words: &str) {
        let drivers = self
            .drivers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        // one that died before its driver was known is tried in each process
        if drivers.is_empty() {
            return;
        }
        let remembered = Remembered {
            build_id: line(&self.build_id),
            deaths,
            words: line(words),
            drivers,
        };
        remembered.write(&*self.store, &self.plugin);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Default)]
    struct Kept(Mutex<BTreeMap<(String, String), Vec<u8>>>);

    impl Store for Kept {
        fn read(&self, plugin: &str, key: &str) -> Option<Vec<u8>> {
            let kept = self.0.lock().unwrap();
            kept.get(&(plugin.to_owned(), key.to_owned())).cloned()
        }

        fn write(&self, plugin: &str, key: &str, value: &[u8]) -> bool {
            let mut kept = self.0.lock().unwrap();
            let key = (plugin.to_owned(), key.to_owned());
            if value.is_empty() {
                kept.remove(&key);
            } else {
                kept.insert(key, value.to_vec());
            }
            true
        }
    }

    #[test]
    fn quarantine_is_read_as_it_was_written_until_it_is_cleared() {
        let kept = Kept::default();
        let remembered = Remembered {
            build_id: "build".to_owned(),
            deaths: 3,
            words: "signal 11 in execute".to_owned(),
            drivers: ["24.1", ""].map(str::to_owned).into(),
        };
        remembered.write(&kept, "npu");
        assert_eq!(Remembered::read(&kept, "npu"), Some(remembered));
        assert_eq!(Remembered::read(&kept, "gpu"), None);
        Remembered::clear(&kept, "npu");
        assert_eq!(Remembered::read(&kept, "npu"), None);
        for damaged in [
            &b"2\nbuild\n3\nwords\n"[..],
            b"1\nbuild\nthree\nwords\n",
            b"1\n",
            b"\xff",
        ] {
            kept.write(STORED_FOR, "npu", damaged);
            assert_eq!(Remembered::read(&kept, "npu"), None);
        }
    }
}

//! An isolated library: its identity and the table of its proxy.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError, Weak};

use polychip_abi as abi;
use polychip_sdk::PluginInfo;

use crate::confinement::Confinement;
use crate::isolated::{Isolated, OnQuarantine};
use crate::message::{Hello, OPTIONAL};

/// An isolated library.
pub(super) struct Entry {
    pub(super) isolated: Isolated,
    info: PluginInfo,
    table: abi::polychip_plugin_table,
    /// What the plugin said of itself when the entry was made.
    hello: Hello,
    /// Deaths of its processes so far.
    deaths: AtomicU32,
    /// Whom to tell when it is quarantined.
    watchers: Mutex<Vec<Weak<dyn OnQuarantine>>>,
}

impl Entry {
    pub(super) fn new(isolated: &Isolated, hello: Hello, mut table: abi::polychip_plugin_table) -> Entry {
        let offers = |call: &str| {
            let bit = OPTIONAL.iter().position(|name| *name == call);
            bit.is_some_and(|bit| hello.offers & (1 << bit) != 0)
        };
        macro_rules! withhold {
            ($($call:ident),+) => {
                $(if !offers(stringify!($call)) {
                    table.$call = None;
                })+
            };
        }
        withhold!(
            operating_points,
            set_operating_point,
            estimate,
            buffer_export,
            cancel,
            fence_import_fd,
            fence_export_fd,
            fence_timing,
            fence_output_shape,
            telemetry,
            fence_steps
        );
        table.abi_minor = hello.abi_minor.min(abi::POLYCHIP_ABI_MINOR);
        // static, as the texts of a library that is never unloaded
        let keep = |text: &str| -> &'static str { Box::leak(Box::from(text)) };
        Entry {
            isolated: isolated.clone(),
            info: PluginInfo {
                name: keep(&hello.name),
                version: keep(&hello.plugin_version),
                build_id: keep(&hello.build_id),
            },
            table,
            hello,
            deaths: AtomicU32::new(0),
            watchers: Mutex::default(),
        }
    }

    /// Whether the plugin itself can reset a device.
    pub(super) fn plugin_resets(&self) -> bool {
        OPTIONAL
            .iter()
            .position(|name| *name == "device_reset")
            .is_some_and(|bit| self.hello.offers & (1 << bit) != 0)
    }

    /// Checks that a process speaks for the plugin that the entry describes.
    ///
    /// # Errors
    /// The library or the program was replaced since.
    pub(super) fn check(&self, hello: &Hello) -> Result<(), String> {
        if *hello == self.hello {
            return Ok(());
        }
        Err(format!(
            "the plugin is now {} {} ({}), it was {} {} ({}): its library was replaced",
            hello.name,
            hello.plugin_version,
            hello.build_id,
            self.hello.name,
            self.hello.plugin_version,
            self.hello.build_id
        ))
    }

    /// How its processes are confined.
    pub(super) fn confinement(&self) -> &Confinement {
        &self.hello.confinement
    }

    /// Deaths of its processes so far, and starts that failed.
    pub(super) fn deaths(&self) -> u32 {
        self.deaths.load(Ordering::Acquire)
    }

    /// Counts a death. Returns whether it is the one that quarantines the plugin.
    pub(super) fn count_death(&self) -> bool {
        self.deaths.fetch_add(1, Ordering::AcqRel) + 1 == self.isolated.limits.deaths
    }

    /// Has the quarantine of the plugin told.
    pub(super) fn tell(&self, watcher: Weak<dyn OnQuarantine>) {
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.retain(|other| other.strong_count() > 0);
        watchers.push(watcher);
    }

    /// Tells that the plugin is quarantined, with the words of the last death.
    pub(super) fn tell_quarantine(&self, words: &str) {
        let watchers = std::mem::take(&mut *self.watchers.lock().unwrap_or_else(PoisonError::into_inner));
        for watcher in watchers.iter().filter_map(Weak::upgrade) {
            watcher.quarantined(self.deaths(), words);
        }
    }

    /// Identity of the plugin.
    pub(super) fn info(&self) -> PluginInfo {
        self.info
    }

    /// The table of the proxy.
    pub(super) fn table(&self) -> *const abi::polychip_plugin_table {
        &raw const self.table
    }
}

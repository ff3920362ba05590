//! The plugin instance behind all objects of a plugin, and the plugin's identity.
//!
//! Invariant: the instance is destroyed after everything made through it, because everything holds
//! it.

#![allow(unsafe_code)]

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use polychip_abi as abi;
use polychip_isolation::{Confinement, OnQuarantine};

use crate::error::Result;
use crate::flat::FlatGraph;
use crate::services::Services;

/// Identity of a plugin, as it reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginInfo {
    /// Short name, as in `name:index`.
    pub name: String,
    /// Version of the plugin.
    pub version: String,
    /// Identifier that changes with every build whose blobs or figures may differ.
    pub build_id: String,
    /// Path of the library, or `None` for a linked plugin.
    pub path: Option<PathBuf>,
    /// How the kernel confines the plugin's process; `None` for a plugin in the app's process.
    pub confinement: Option<Confinement>,
}

/// Tries a plugin's calls where a fault costs nothing.
pub(crate) trait Trial: Send + Sync {
    /// Asks a device which nodes of a graph it runs. A device that cannot be opened for the trial is
    /// not asked.
    ///
    /// # Errors
    /// The plugin died or hung, now or when the device was asked before.
    fn query_support(&self, device: &str, graph: &FlatGraph) -> Result<()>;
}

/// The instance behind all objects of a plugin.
pub(crate) struct Instance {
    pub(crate) table: abi::polychip_plugin_table,
    pub(crate) info: PluginInfo,
    pub(crate) raw: *mut abi::polychip_instance,
    /// Asked before the instance is.
    pub(crate) trial: Option<Box<dyn Trial>>,
    /// Remembers its quarantine; for a plugin in a process of its own.
    pub(crate) keeper: OnceLock<Arc<dyn OnQuarantine>>,
    pub(crate) _services: Arc<Services>,
}

// SAFETY: the contract allows calls on an instance from any thread; the only ones made after `create`
// are `device_count` and `device_open`, at start, from one thread, and `destroy`, once.
unsafe impl Send for Instance {}
// SAFETY: as above.
unsafe impl Sync for Instance {}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(destroy) = self.table.destroy {
            // SAFETY: the instance came from this table's `create`; all that was made of it is gone.
            unsafe { destroy(self.raw) };
        }
    }
}

/// Longest text of a plugin, in bytes.
const MOST_TEXT: usize = 1 << 20;

/// Copies the text behind a span; bytes that are not UTF-8 are replaced.
///
/// # Safety
/// The span is valid now.
pub(crate) unsafe fn text(span: abi::polychip_text) -> String {
    if span.data.is_null() || span.len == 0 {
        return String::new();
    }
    // a longer one is garbage, behind which no memory may lie
    let len = usize::try_from(span.len)
        .ok()
        .filter(|len| *len <= MOST_TEXT)
        .unwrap_or(0);
    // SAFETY: by the caller's promise.
    String::from_utf8_lossy(unsafe { std::slice::from_raw_parts(span.data, len) }).into_owned()
}

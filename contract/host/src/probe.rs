//! Questions that a plugin answers in a process of its own before this process asks it, so that a
//! fault ends that process only.
//!
//! Invariants:
//! 1. The process has ended when the plugin is loaded or asked here: a device that only one process can
//!    open is free again.
//! 2. A plugin that died or hung in the process is never asked the same thing here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use polychip_isolation::Isolated;

use crate::device::Device;
use crate::error::{Error, ErrorKind, Result};
use crate::flat::FlatGraph;
use crate::instance::Trial;
use crate::plugin::Plugin;
use crate::services::Recipe;
use crate::table;

/// A plugin library, and the process that tries it.
pub(crate) struct Probe {
    isolated: Isolated,
    recipe: Recipe,
    asked: Mutex<Asked>,
}

/// Questions that were asked, by device.
#[derive(Default)]
struct Asked {
    /// Graphs that the plugin answered for: device, name, number of nodes.
    answered: BTreeSet<(String, String, usize)>,
    /// How the process died or hung.
    died: BTreeMap<String, String>,
}

impl Probe {
    pub(crate) fn new(isolated: Isolated, recipe: Recipe) -> Probe {
        Probe {
            isolated,
            recipe,
            asked: Mutex::default(),
        }
    }

    /// Loads the library in the process, and opens its devices there.
    ///
    /// # Errors
    /// The library cannot be loaded, or the process died or hung. Other failures are left to this
    /// process, which reports them.
    pub(crate) fn load(&self) -> std::result::Result<(), String> {
        self.isolated.query()?;
        let died = match self.open() {
            Ok((_, errors)) => errors.into_iter().find(is_death),
            Err(error) => Some(error).filter(is_not_restarted),
        };
        match died {
            Some(error) => Err(format!("plugin {}", of_probe(&error))),
            None => Ok(()),
        }
    }

    /// How the process died or hung when the device was asked; none if it lives.
    fn death_of(&self, device: &str, graph: &FlatGraph) -> Option<Error> {
        let (devices, errors) = match self.open() {
            Ok(opened) => opened,
            Err(error) => return Some(error).filter(is_not_restarted),
        };
        match devices.iter().find(|open| open.name() == device) {
            Some(open) => open.query_support(graph).err().filter(is_death),
            // this process has it open, which may keep others out
            None => errors.into_iter().find(is_death),
        }
    }

    /// The plugin's devices in a new process, which ends with the last of them.
    fn open(&self) -> Result<(Vec<Device>, Vec<Error>)> {
        let path = &self.isolated.library;
        let refused = |words| Error::new(ErrorKind::DeviceLost, path.display().to_string(), words);
        let table = self.isolated.query().and_then(table::of_query).map_err(refused)?;
        let info = Plugin::identify(&table, Some(path.clone()))?;
        Plugin::create(table, info, &self.recipe, None)?.open_devices()
    }
}

impl Trial for Probe {
    fn query_support(&self, device: &str, graph: &FlatGraph) -> Result<()> {
        let question = (device.to_owned(), graph.name().to_owned(), graph.node_count());
        {
            let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(words) = asked.died.get(device) {
                return Err(Error::new(ErrorKind::DeviceLost, device, words));
            }
            if asked.answered.contains(&question) {
                return Ok(());
            }
        }
        let died = self.death_of(device, graph);
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(error) = died else {
            asked.answered.insert(question);
            return Ok(());
        };
        let words = of_probe(&error);
        asked.died.insert(device.to_owned(), words.clone());
        Err(Error::new(ErrorKind::DeviceLost, device, words))
    }
}

/// Whether the process died, or was ended because it hung.
fn is_death(error: &Error) -> bool {
    error.kind() == ErrorKind::DeviceLost
}

/// Whether the process died or hung when the plugin was created, or has done so too often before.
fn is_not_restarted(error: &Error) -> bool {
    is_death(error) || error.kind() == ErrorKind::Persistent
}

/// The error, with the way that it was found.
fn of_probe(error: &Error) -> String {
    format!(
        "{}: {} (found by a trial in a process of its own)",
        error.subject(),
        error.message()
    )
}

//! The host's side: a plugin that forwards every call to the plugin's process.
//!
//! A function table has no place for a context, so each isolated library gets an entry with a
//! number, and the type [`Proxy`] carries that number.
//!
//! Invariants:
//! 1. An entry is made once and never removed, as a library is never unloaded.
//! 2. The proxy offers the optional calls that the plugin offers, and `device_reset` always: a
//!    process can be replaced.

mod buffer;
mod convert;
mod device;
mod entry;
mod fence;
mod link;
mod opened;
mod part;
mod process;
mod spawn;
mod watch;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use polychip_abi as abi;
use polychip_sdk::{HostServices, Plugin, PluginInfo, Result, plugin_table};

use crate::confinement::Confinement;
use crate::isolated::{Isolated, OnQuarantine};
use crate::message::VERSION;
use device::ProxyDevice;
use entry::Entry;
use link::Link;

/// Isolated libraries that a process may have.
const MOST_ENTRIES: usize = 64;

static ENTRIES: [OnceLock<Entry>; MOST_ENTRIES] = [const { OnceLock::new() }; MOST_ENTRIES];

/// Serialises the making of entries.
static MAKING: Mutex<()> = Mutex::new(());

fn entry(number: usize) -> &'static Entry {
    ENTRIES[number]
        .get()
        .expect("invariant: an entry is made before its functions are given out")
}

/// The plugin of entry `NUMBER`.
pub(crate) struct Proxy<const NUMBER: usize>(Arc<Link>);

impl<const NUMBER: usize> Plugin for Proxy<NUMBER> {
    type Device = ProxyDevice;
    const INFO: PluginInfo = PluginInfo {
        name: "isolated",
        version: "",
        build_id: "",
    };

    fn info() -> PluginInfo {
        entry(NUMBER).info()
    }

    fn create(host: HostServices) -> Result<Self> {
        Link::new(entry(NUMBER), host).map(Proxy)
    }

    fn device_count(&self) -> Result<u32> {
        self.0.device_count()
    }

    fn open(&self, index: u32) -> Result<ProxyDevice> {
        ProxyDevice::open(&self.0, index)
    }
}

extern "C" fn query_of<const NUMBER: usize>(
    host_major: u32,
    _host_minor: u32,
) -> *const abi::polychip_plugin_table {
    match ENTRIES[NUMBER].get() {
        Some(entry) if host_major == abi::POLYCHIP_ABI_MAJOR => entry.table(),
        _ => std::ptr::null(),
    }
}

type Functions = (
    abi::polychip_plugin_query_fn,
    fn() -> &'static abi::polychip_plugin_table,
);

macro_rules! functions {
    ($($number:literal)+) => {
        [$((query_of::<$number>, plugin_table::<Proxy<$number>>)),+]
    };
}

const FUNCTIONS: [Functions; MOST_ENTRIES] = functions!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63);

impl Isolated {
    /// The query function of a proxy for the plugin. Starts the program once, to ask the plugin for
    /// its identity; each instance then has a process of its own. The same library, program, limits
    /// and confinement give the same function.
    ///
    /// # Errors
    /// The reason why the plugin cannot be used, as text.
    pub fn query(&self) -> std::result::Result<abi::polychip_plugin_query_fn, String> {
        query(self)
    }

    /// How the plugin's process is confined; `None` before [`Isolated::query`].
    #[must_use]
    pub fn confinement(&self) -> Option<Confinement> {
        Some(self.entry()?.confinement().clone())
    }

    /// Tells `watcher`, while it lives, when the plugin is quarantined. Nothing before [`Isolated::query`].
    pub fn tell(&self, watcher: &Arc<dyn OnQuarantine>) {
        if let Some(entry) = self.entry() {
            entry.tell(Arc::downgrade(watcher));
        }
    }

    fn entry(&self) -> Option<&'static Entry> {
        let mut made = ENTRIES.iter().filter_map(OnceLock::get);
        made.find(|entry| entry.isolated == *self)
    }
}

/// The query function of the library's entry, which is made on the first call.
fn query(isolated: &Isolated) -> std::result::Result<abi::polychip_plugin_query_fn, String> {
    let _one = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    for (number, (query, table)) in FUNCTIONS.iter().enumerate() {
        if let Some(entry) = ENTRIES[number].get() {
            if entry.isolated == *isolated {
                return Ok(*query);
            }
            continue;
        }
        let hello = spawn::describe(isolated)?;
        if hello.version != VERSION {
            return Err(format!(
                "{} is of another version ({}; {VERSION} is needed)",
                isolated.program.display(),
                hello.version
            ));
        }
        let _ = ENTRIES[number].set(Entry::new(isolated, hello, *table()));
        return Ok(*query);
    }
    Err(format!(
        "{MOST_ENTRIES} plugins run in processes of their own already, which is the limit"
    ))
}

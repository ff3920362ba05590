//! A plugin as its shared library offers it: the table called as it stands, without the host's checks.
//!
//! Invariants:
//! 1. Every object holds what it was made of, so that `drop` in any order destroys children first;
//!    cases that want another order say so.
//! 2. A call that fails gives the status, the record and the name of the call.
//! 3. The library is never unloaded.
//!
//! Not here: what is right (`groups`), what a graph should compute (`oracle`).
//! Start reading at [`Library`].

#![allow(unsafe_code)]

mod device;
mod executable;
mod fence;
mod memory;
mod raw_graph;
mod services;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use polychip_abi as abi;
use polychip_abi::Sized;

pub use device::{Answer, Device, DeviceFacts, Point, Telemetry};
pub use executable::{Binding, Blob, Executable, Port};
pub use fence::{Fence, PATIENCE, Signalled, Timing};
pub use memory::{Buffer, HostMemory};
pub use raw_graph::RawGraph;
pub use services::{Configuration, Services, now_ns};

/// A call that did not succeed.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Name of the call in the table.
    pub call: &'static str,
    /// What it returned.
    pub status: u32,
    /// The status in the error record.
    pub record_status: u32,
    /// The words in the error record.
    pub words: String,
    /// The node in the error record.
    pub node: Option<u32>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.call, status_name(self.status))?;
        if !self.words.is_empty() {
            write!(f, ": {}", self.words)?;
        }
        Ok(())
    }
}

/// The result of a call.
pub type Call<T> = std::result::Result<T, Failure>;

/// The name of a status code.
#[must_use]
pub fn status_name(status: u32) -> String {
    match status {
        abi::POLYCHIP_STATUS_OK => "OK".into(),
        abi::POLYCHIP_STATUS_BAD_ARGUMENT => "BAD_ARGUMENT".into(),
        abi::POLYCHIP_STATUS_UNSUPPORTED => "UNSUPPORTED".into(),
        abi::POLYCHIP_STATUS_TRANSIENT => "TRANSIENT".into(),
        abi::POLYCHIP_STATUS_PERSISTENT => "PERSISTENT".into(),
        abi::POLYCHIP_STATUS_DEVICE_LOST => "DEVICE_LOST".into(),
        abi::POLYCHIP_STATUS_CANCELLED => "CANCELLED".into(),
        abi::POLYCHIP_STATUS_TIMEOUT => "TIMEOUT".into(),
        abi::POLYCHIP_STATUS_OUT_OF_MEMORY => "OUT_OF_MEMORY".into(),
        abi::POLYCHIP_STATUS_BAD_BLOB => "BAD_BLOB".into(),
        other => format!("unknown status {other}"),
    }
}

/// Makes a call and turns its status into a result.
pub(crate) fn checked(call: &'static str, make: impl FnOnce(*mut abi::polychip_error) -> u32) -> Call<()> {
    let mut record = abi::polychip_error::sized();
    let status = make(&raw mut record);
    if status == abi::POLYCHIP_STATUS_OK {
        return Ok(());
    }
    Err(Failure {
        call,
        status,
        record_status: record.status,
        words: record.text(),
        node: (record.node != abi::POLYCHIP_NO_INDEX).then_some(record.node),
    })
}

/// A breach of the contract that the call's status does not tell.
pub(crate) fn breach(call: &'static str, words: impl Into<String>) -> Failure {
    Failure {
        call,
        status: abi::POLYCHIP_STATUS_OK,
        record_status: abi::POLYCHIP_STATUS_OK,
        words: words.into(),
        node: None,
    }
}

/// What a plugin says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginFacts {
    /// Short name.
    pub name: String,
    /// Version.
    pub version: String,
    /// Build id.
    pub build_id: String,
}

/// An opened plugin library.
pub struct Library {
    path: PathBuf,
    query: abi::polychip_plugin_query_fn,
    table: abi::polychip_plugin_table,
}

// SAFETY: function pointers of a library that is never unloaded.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

/// Calls that a plugin must offer, by name.
pub(crate) fn missing_calls(table: &abi::polychip_plugin_table) -> Vec<&'static str> {
    macro_rules! missing {
        ($($call:ident),+ $(,)?) => {
            [$((stringify!($call), table.$call.is_none())),+]
                .into_iter()
                .filter_map(|(name, absent)| absent.then_some(name))
                .collect()
        };
    }
    missing!(
        plugin_info,
        create,
        destroy,
        device_count,
        device_open,
        device_info,
        device_close,
        query_support,
        compile,
        blob_bytes,
        blob_destroy,
        load,
        executable_info,
        port_info,
        executable_destroy,
        buffer_create,
        buffer_import,
        buffer_begin_access,
        buffer_end_access,
        buffer_destroy,
        execute,
        fence_wait,
        fence_destroy,
    )
}

/// The four numbers in front of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableHead {
    /// Where the table lies.
    pub address: usize,
    /// Its size in bytes.
    pub struct_size: u32,
    /// Major version of the contract.
    pub abi_major: u32,
    /// Minor version of the contract.
    pub abi_minor: u32,
    /// Flags.
    pub flags: u32,
}

impl Library {
    /// Opens a library and reads its table.
    ///
    /// # Errors
    /// It cannot be opened, has no export, or gives no usable table.
    pub fn open(path: &Path) -> Result<Arc<Library>> {
        let path = path.canonicalize().with_context(|| path.display().to_string())?;
        // SAFETY: the person who runs the suite named the library and thereby trusts its initialisers.
        let library = unsafe { libloading::Library::new(&path) }.context("the library cannot be opened")?;
        let library: &'static libloading::Library = Box::leak(Box::new(library));
        // SAFETY: the symbol of this name has this type, by the contract.
        let query = unsafe { library.get::<abi::polychip_plugin_query_fn>(abi::QUERY_SYMBOL) }
            .map_err(|_| anyhow::anyhow!("it exports no {}", abi::QUERY_SYMBOL))?;
        let mut opened = Library {
            path,
            query: *query,
            table: abi::polychip_plugin_table::sized(),
        };
        let head = opened
            .query(abi::POLYCHIP_ABI_MAJOR, abi::POLYCHIP_ABI_MINOR)
            .context("polychip_plugin_query returned no table for this version of the contract")?;
        let size = (head.struct_size as usize).min(size_of::<abi::polychip_plugin_table>());
        // SAFETY: the table is `struct_size` bytes long, by the contract; every pattern there is a number,
        // a null or a call.
        unsafe {
            std::ptr::copy_nonoverlapping(
                head.address as *const u8,
                (&raw mut opened.table).cast::<u8>(),
                size,
            );
        }
        let missing = missing_calls(&opened.table);
        anyhow::ensure!(
            missing.is_empty(),
            "its table lacks required calls: {}",
            missing.join(", ")
        );
        Ok(Arc::new(opened))
    }

    /// The library file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Asks for the table of a version; nothing where the plugin does not serve it.
    #[must_use]
    pub fn query(&self, major: u32, minor: u32) -> Option<TableHead> {
        // SAFETY: the export is pure and takes any two numbers.
        let table = unsafe { (self.query)(major, minor) };
        if table.is_null() {
            return None;
        }
        // SAFETY: a table begins with four numbers, by the contract.
        let read = |index: usize| unsafe { table.cast::<u32>().add(index).read_unaligned() };
        Some(TableHead {
            address: table as usize,
            struct_size: read(0),
            abi_major: read(1),
            abi_minor: read(2),
            flags: read(3),
        })
    }

    /// The calls.
    #[must_use]
    pub fn table(&self) -> &abi::polychip_plugin_table {
        &self.table
    }

    /// What the plugin is.
    ///
    /// # Errors
    /// The call failed.
    pub fn info(&self) -> Call<PluginFacts> {
        let mut info = abi::polychip_plugin_info::sized();
        let call = self
            .table
            .plugin_info
            .expect("invariant: required calls are checked");
        // SAFETY: a whole record of this build.
        let status = unsafe { call(&raw mut info) };
        if status != abi::POLYCHIP_STATUS_OK {
            return Err(Failure {
                status,
                ..breach("plugin_info", "")
            });
        }
        // SAFETY: the texts are static, by the contract.
        unsafe {
            Ok(PluginFacts {
                name: text("plugin_info", info.name)?,
                version: text("plugin_info", info.version)?,
                build_id: text("plugin_info", info.build_id)?,
            })
        }
    }

    /// Makes an instance.
    ///
    /// # Errors
    /// The call failed.
    pub fn create(self: &Arc<Self>, configuration: &Configuration) -> Call<Arc<Instance>> {
        let services = Services::new(configuration.clone());
        let mut raw = std::ptr::null_mut();
        let call = self.table.create.expect("invariant: required calls are checked");
        // SAFETY: the services outlive the instance, which holds them.
        checked("create", |record| unsafe {
            call(services.table(), &raw mut raw, record)
        })?;
        if raw.is_null() {
            return Err(breach("create", "it gave no instance"));
        }
        Ok(Arc::new(Instance {
            library: Arc::clone(self),
            services,
            raw,
        }))
    }
}

/// An instance of a plugin.
pub struct Instance {
    library: Arc<Library>,
    services: Arc<Services>,
    raw: *mut abi::polychip_instance,
}

// SAFETY: the contract allows calls on an instance from any thread.
unsafe impl Send for Instance {}
// SAFETY: as above; those made here are `device_count` and `device_open`, one case at a time.
unsafe impl Sync for Instance {}

impl Instance {
    pub(crate) fn table(&self) -> &abi::polychip_plugin_table {
        self.library.table()
    }

    /// The library.
    #[must_use]
    pub fn library(&self) -> &Arc<Library> {
        &self.library
    }

    /// What the instance was given.
    #[must_use]
    pub fn services(&self) -> &Services {
        &self.services
    }

    /// How many devices there are.
    ///
    /// # Errors
    /// The call failed.
    pub fn device_count(&self) -> Call<u32> {
        let mut count = 0;
        let call = self
            .table()
            .device_count
            .expect("invariant: required calls are checked");
        // SAFETY: the instance is alive and the out pointer is ours.
        checked("device_count", |record| unsafe {
            call(self.raw, &raw mut count, record)
        })?;
        Ok(count)
    }

    /// Opens a device.
    ///
    /// # Errors
    /// The call failed.
    pub fn open(self: &Arc<Self>, index: u32) -> Call<Arc<Device>> {
        let mut raw = std::ptr::null_mut();
        let call = self
            .table()
            .device_open
            .expect("invariant: required calls are checked");
        // SAFETY: the instance is alive and the out pointer is ours.
        checked("device_open", |record| unsafe {
            call(self.raw, index, &raw mut raw, record)
        })?;
        if raw.is_null() {
            return Err(breach("device_open", "it gave no device"));
        }
        Ok(Arc::new(Device::new(Arc::clone(self), index, raw)))
    }

    /// The handle, for calls with wrong arguments.
    #[must_use]
    pub fn raw(&self) -> *mut abi::polychip_instance {
        self.raw
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(destroy) = self.table().destroy {
            // SAFETY: made by this table, destroyed once, after its devices, which hold it.
            unsafe { destroy(self.raw) };
        }
    }
}

/// The text behind a span, copied.
///
/// # Safety
/// The span is valid now, or null.
pub(crate) unsafe fn text(call: &'static str, span: abi::polychip_text) -> Call<String> {
    if span.len == 0 {
        return Ok(String::new());
    }
    if span.data.is_null() || span.len > 1 << 20 {
        return Err(breach(
            call,
            format!("a text of {} bytes at {:?}", span.len, span.data),
        ));
    }
    // SAFETY: by the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(span.data, span.len as usize) };
    std::str::from_utf8(bytes)
        .map(str::to_owned)
        .map_err(|_| breach(call, "a text is not UTF-8"))
}

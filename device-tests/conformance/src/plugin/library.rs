//! A plugin's shared library: its export, its table, and its information.
//!
//! Invariants:
//! 1. The library is never unloaded.
//! 2. A table that lacks a required call is refused.

#![allow(unsafe_code)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use polychip_abi as abi;
use polychip_abi::Sized;

use super::call::{Call, Failure, breach, text};

/// What a plugin reports about itself.
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
    /// Opens a library, in this process or in one of its own, and reads its table.
    ///
    /// # Errors
    /// It cannot be opened, has no export, or gives no usable table.
    pub fn open(path: &Path, isolated: bool) -> Result<Arc<Library>> {
        let path = path.canonicalize().with_context(|| path.display().to_string())?;
        if isolated {
            let words = |words: String| anyhow::anyhow!(words);
            let program = polychip_isolation::Isolated::find_program(&path).map_err(words)?;
            let mut isolated = polychip_isolation::Isolated::new(program, &path);
            // cases about losses may end the process many times
            isolated.limits.deaths = u32::MAX;
            let query = isolated.query().map_err(words)?;
            return Library::of_query(path, query);
        }
        // SAFETY: the person who runs the suite named the library and thereby trusts its initialisers.
        let library = unsafe { libloading::Library::new(&path) }.context("the library cannot be opened")?;
        let library: &'static libloading::Library = Box::leak(Box::new(library));
        // SAFETY: the symbol of this name has this type, by the contract.
        let query = unsafe { library.get::<abi::polychip_plugin_query_fn>(abi::QUERY_SYMBOL) }
            .map_err(|_| anyhow::anyhow!("it exports no {}", abi::QUERY_SYMBOL))?;
        Library::of_query(path, *query)
    }

    fn of_query(path: PathBuf, query: abi::polychip_plugin_query_fn) -> Result<Arc<Library>> {
        let mut opened = Library {
            path,
            query,
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
        let missing = opened.table.missing_calls();
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
}

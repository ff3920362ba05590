//! The pair of QNN libraries, opened once per process: search paths and supported versions.
//!
//! Invariants:
//! 1. Both libraries come from one folder.
//! 2. The tables are the library's own memory, read in place; an empty slot is `None`.
//! 3. A failure is not cached: the next call searches again. A success holds for the life of the
//!    process.

#![allow(unsafe_code)]

use std::env;
use std::ffi::CStr;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::slice;
use std::sync::Mutex;

use super::bindings::{
    POLYCHIP_QNN_LIBRARY_HTP, polychip_qnn_get_providers, polychip_qnn_provider as Provider,
    polychip_qnn_system_get_providers, polychip_qnn_system_provider as SystemProvider,
    polychip_qnn_system_table as SystemTable, polychip_qnn_table as Table, polychip_qnn_version as Version,
};
use crate::library::{Library, SearchPath, emulates};
use crate::{Error, Result};

/// Environment variable: the folder that holds libQnnHtp.so and libQnnSystem.so.
pub const LIB_DIR: &str = "QNN_LIB_DIR";
/// Environment variable: the root folder of the vendor's SDK, whose `lib/<target>` holds them.
pub const SDK_ROOT: &str = "QNN_SDK_ROOT";

/// A symbol of an HTP library that emulates the chip and is not the vendor's.
const EMULATED: &str = "polychip_emulates_qnn";

const HTP: &str = "libQnnHtp.so";
const SYSTEM: &str = "libQnnSystem.so";
const REMEDY: &str = "install Qualcomm's AI Runtime (`cargo xtask vendor qnn` explains how), then set QNN_LIB_DIR to the \
                      folder of libQnnHtp.so or QNN_SDK_ROOT to the SDK's folder";

/// Major version of the declarations. Tables of an older minor version may be shorter than ours,
/// which has the 68 slots of the published interface 2.27, and must not be read beyond their end.
const CORE_MAJOR: u32 = 2;
const CORE_LEAST_MINOR: u32 = 27;
const SYSTEM_MAJOR: u32 = 1;
/// Limit on the number of providers, above that of any library. A larger number is an error.
const MOST_PROVIDERS: u32 = 64;

/// Folders below `lib/` of the SDK for the machine that this is built for.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
const SDK_TARGETS: &[&str] = &["x86_64-linux-clang"];
#[cfg(all(target_arch = "aarch64", target_os = "android"))]
const SDK_TARGETS: &[&str] = &["aarch64-android"];
#[cfg(all(target_arch = "aarch64", target_os = "linux"))]
const SDK_TARGETS: &[&str] = &[
    "aarch64-oe-linux-gcc11.2",
    "aarch64-ubuntu-gcc9.4",
    "aarch64-oe-linux-gcc9.3",
    "aarch64-oe-linux-gcc8.2",
];
#[cfg(not(any(
    all(target_arch = "x86_64", target_os = "linux"),
    all(target_arch = "aarch64", any(target_os = "android", target_os = "linux"))
)))]
const SDK_TARGETS: &[&str] = &[];

/// The opened libraries.
pub struct Qnn {
    htp: Library,
    system: Library,
    provider: &'static Provider,
    system_provider: &'static SystemProvider,
    says_it_emulates: bool,
}

// SAFETY: the tables are constant memory of libraries that are never closed; what their calls allow is the
// caller's question.
unsafe impl Send for Qnn {}
// SAFETY: as above; nothing here changes after opening.
unsafe impl Sync for Qnn {}

/// The libraries of this process. Leaked, because they are never unmapped.
static LOADED: Mutex<Option<&'static Qnn>> = Mutex::new(None);

impl Qnn {
    /// Opens the libraries, or returns those that the process has already opened. Searches only
    /// `folder` if there is one, else `QNN_LIB_DIR` and then `QNN_SDK_ROOT`.
    ///
    /// # Errors
    /// A library is missing, built for another processor, refused by the loader, or of another
    /// version; or the process has opened those of another folder.
    pub fn load(folder: Option<&Path>) -> Result<&'static Self> {
        let mut loaded = LOADED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(held) = *loaded {
            return match folder {
                Some(folder) if !same(folder, held.folder()) => {
                    Err(Error::loaded_elsewhere(folder, held.folder()))
                }
                _ => Ok(held),
            };
        }
        let opened: &'static Self = Box::leak(Box::new(Self::open(&search_paths(folder, &|name| {
            env::var_os(name)
        }))?));
        *loaded = Some(opened);
        Ok(opened)
    }

    fn open(search_paths: &[SearchPath]) -> Result<Self> {
        let htp = Library::open(HTP, search_paths, REMEDY)?;
        let system = htp.sibling(SYSTEM)?;
        let provider = provider(&htp)?;
        let system_provider = system_provider(&system)?;
        let says_it_emulates = htp.has(EMULATED);
        Ok(Self {
            says_it_emulates,
            htp,
            system,
            provider,
            system_provider,
        })
    }

    /// The folder of both libraries.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.htp.folder()
    }

    /// The file of the HTP library.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.htp.path()
    }

    /// The file of the System library.
    #[must_use]
    pub fn system_path(&self) -> &Path {
        self.system.path()
    }

    /// Whether the HTP library declares that it emulates the chip: it has the symbol `polychip_emulates_qnn`.
    #[must_use]
    pub fn says_it_emulates(&self) -> bool {
        self.says_it_emulates
    }

    /// Whether the HTP library emulates the chip: it declares so, or it is built for x86, for which
    /// the vendor makes only an emulator.
    #[must_use]
    pub fn is_emulated(&self) -> bool {
        emulates(self.says_it_emulates, env::consts::ARCH)
    }

    /// The HTP library's name for itself.
    #[must_use]
    pub fn provider_name(&self) -> String {
        if self.provider.name.is_null() {
            return String::new();
        }
        // SAFETY: the library's provider holds a terminated string for the life of the library.
        let name = unsafe { CStr::from_ptr(self.provider.name) };
        name.to_string_lossy().into_owned()
    }

    /// Version of the core interface (2.x).
    #[must_use]
    pub fn core_api(&self) -> Version {
        self.provider.core_api
    }

    /// Version of the HTP library's own interface (5.x).
    #[must_use]
    pub fn library_api(&self) -> Version {
        self.provider.library_api
    }

    /// Version of the System interface (1.x).
    #[must_use]
    pub fn system_api(&self) -> Version {
        self.system_provider.system_api
    }

    /// The HTP library's calls.
    #[must_use]
    pub fn table(&self) -> &'static Table {
        &self.provider.table
    }

    /// The System library's calls.
    #[must_use]
    pub fn system_table(&self) -> &'static SystemTable {
        &self.system_provider.table
    }
}

impl fmt::Debug for Qnn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Qnn")
            .field("path", &self.htp.path())
            .field("core_api", &self.core_api().to_string())
            .field("library_api", &self.library_api().to_string())
            .field("system_api", &self.system_api().to_string())
            .finish()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

fn same(one: &Path, other: &Path) -> bool {
    one == other || matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// The folders to search. If the caller names one, no other is searched.
fn search_paths(folder: Option<&Path>, variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<SearchPath> {
    if let Some(folder) = folder {
        return vec![SearchPath::new(folder, "the plugin's setting")];
    }
    let mut search_paths = Vec::new();
    let set = |name| {
        variable(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    if let Some(folder) = set(LIB_DIR) {
        search_paths.push(SearchPath::new(folder, LIB_DIR));
    }
    if let Some(root) = set(SDK_ROOT) {
        for target in SDK_TARGETS {
            search_paths.push(SearchPath::new(root.join("lib").join(target), SDK_ROOT));
        }
    }
    search_paths
}

/// The HTP library's table of the core interface's right version.
fn provider(library: &Library) -> Result<&'static Provider> {
    // SAFETY: the export of this name has this type, by the vendor's interface.
    let export = unsafe { library.symbol::<polychip_qnn_get_providers>("QnnInterface_getProviders") }?;
    let export = export.ok_or_else(|| library.wrong_interface("QnnInterface_getProviders is null"))?;
    let (mut list, mut count) = (ptr::null(), 0);
    // SAFETY: both outputs are valid for writing.
    let code = unsafe { export(&raw mut list, &raw mut count) };
    // SAFETY: the library filled the list on success and keeps it.
    let found = unsafe { entries(library, code, list, count) }?.map(|pointer| {
        // SAFETY: every core version begins with these fields; only they are read before the version is known.
        let (version, kind) = unsafe { ((*pointer).core_api, (*pointer).library_id) };
        let fits = version.major == CORE_MAJOR
            && version.minor >= CORE_LEAST_MINOR
            && kind == POLYCHIP_QNN_LIBRARY_HTP;
        (pointer, version, fits)
    });
    let wanted = format!("{CORE_MAJOR}.{CORE_LEAST_MINOR} or a later {CORE_MAJOR}.x of an HTP library");
    let provider = choose(library, found, &wanted)?;
    // SAFETY: a provider of this version is constant memory of the library, at least as long as ours.
    Ok(unsafe { &*provider })
}

/// The System library's table of the right version.
fn system_provider(library: &Library) -> Result<&'static SystemProvider> {
    // SAFETY: the export of this name has this type, by the vendor's interface.
    let export =
        unsafe { library.symbol::<polychip_qnn_system_get_providers>("QnnSystemInterface_getProviders") }?;
    let export = export.ok_or_else(|| library.wrong_interface("QnnSystemInterface_getProviders is null"))?;
    let (mut list, mut count) = (ptr::null(), 0);
    // SAFETY: both outputs are valid for writing.
    let code = unsafe { export(&raw mut list, &raw mut count) };
    // SAFETY: the library filled the list on success and keeps it.
    let found = unsafe { entries(library, code, list, count) }?.map(|pointer| {
        // SAFETY: every version begins with these fields.
        let version = unsafe { (*pointer).system_api };
        (pointer, version, version.major == SYSTEM_MAJOR)
    });
    let provider = choose(library, found, &format!("{SYSTEM_MAJOR}.x"))?;
    // SAFETY: a provider of this version is constant memory of the library.
    Ok(unsafe { &*provider })
}

/// The providers that the library lists, without null entries.
///
/// # Safety
/// On success of the call, `list` holds `count` pointers that the library keeps.
unsafe fn entries<T: 'static>(
    library: &Library,
    code: u64,
    list: *const *const T,
    count: u32,
) -> Result<impl Iterator<Item = *const T> + use<T>> {
    if code != 0 {
        return Err(library.wrong_interface(format!("listing its providers failed with code {code}")));
    }
    if list.is_null() || count == 0 || count > MOST_PROVIDERS {
        return Err(library.wrong_interface(format!("it lists {count} providers")));
    }
    // SAFETY: the caller vouches for `count` entries.
    let pointers = unsafe { slice::from_raw_parts(list, count as usize) };
    Ok(pointers.iter().copied().filter(|pointer| !pointer.is_null()))
}

/// The first provider that fits, or the error that names the versions found.
fn choose<T>(
    library: &Library,
    found: impl Iterator<Item = (*const T, Version, bool)>,
    wanted: &str,
) -> Result<*const T> {
    let mut versions = Vec::new();
    for (pointer, version, fits) in found {
        if fits {
            return Ok(pointer);
        }
        versions.push(version.to_string());
    }
    let found = if versions.is_empty() {
        "none".to_owned()
    } else {
        versions.join(", ")
    };
    Err(library.wrong_version(found, wanted))
}

#[cfg(test)]
mod tests;

//! The host's side of the plugin contract: loads and checks plugins, and wraps every call safely.
//!
//! Invariants:
//! 1. Only this crate calls plugins, and raw pointers do not leave it. A plugin in a process of its
//!    own is called through a proxy, which is a plugin like any other (`contract/isolation`).
//! 2. A plugin library is never unloaded.
//! 3. The host never reads, writes or frees memory that a run may still write: buffers count the
//!    runs that use them, and a fence that never signalled keeps its buffers alive.
//! 4. A plugin's table is used only after its version, its size and its required calls are checked.
//!
//! Not here: assignment of work to devices (`partitioner`), the order of runs (`scheduler`). Start
//! reading at [`Host`].

#![deny(unsafe_code)]

mod access;
mod blob;
mod buffer;
mod checked_lock;
mod clock;
mod device;
mod device_info;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod dma_buf;
mod dma_buf_source;
mod elf_file;
mod error;
mod executable;
mod external_memory;
mod fence;
mod flat;
mod guard;
mod heap;
mod host;
mod instance;
mod isolate;
mod library;
mod mapped_file;
mod memory;
mod open_calls;
mod open_device;
mod open_file;
mod page_size;
mod plugin;
mod port;
mod probe;
mod quarantine;
mod retained_memory;
mod run_resources;
mod services;
mod storage;
mod submission;
mod table;
mod thermal;
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
mod truncation_guard;
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
#[path = "no_truncation_guard.rs"]
mod truncation_guard;
mod user_key;

pub use access::{Access, AccessGuard};
pub use blob::{Blob, CompileOptions};
pub use buffer::Buffer;
pub use checked_lock::{CheckedGuard, CheckedMutex, assert_none_held};
pub use clock::Clock;
pub use device::{Cost, Device, OperatingPoint, Support, Telemetry};
pub use device_info::{DeviceInfo, DeviceKind, Preemption};
pub use dma_buf_source::DmaBufSource;
pub use error::{Error, ErrorKind, Result};
pub use executable::{Executable, ExecutableInfo, WeakExecutable};
pub use fence::{Fence, Signal, Step, Timing};
pub use flat::FlatGraph;
pub use guard::{buffers_are_guarded, guard_buffers};
pub use heap::trim_heap;
pub use host::{Builder, Host, Query, Refusal};
pub use isolate::Isolate;
pub use library::open as open_library;
pub use mapped_file::{MappedFile, ModelFiles, ModelFolder, set_model_files};
pub use memory::Memory;
pub use open_file::{open_regular, read_regular};
pub use polychip_isolation::{CallLimit, Confinement, Limits, trusted_variable};
/// Major and minor version of the contract that this host implements.
pub const CONTRACT: [u32; 2] = [polychip_abi::POLYCHIP_ABI_MAJOR, polychip_abi::POLYCHIP_ABI_MINOR];
/// Largest rank of a tensor at a port.
pub const MAX_RANK: usize = polychip_abi::POLYCHIP_MAX_RANK;
pub use instance::PluginInfo;
pub use open_calls::{OpenCall, open_calls};
pub use plugin::Plugin;
pub use port::{Layout, Port};
pub use services::Store;
pub use submission::{Priority, Submission};
pub use thermal::ThermalService;
pub use user_key::{UserKey, create_private, make_private};

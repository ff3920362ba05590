//! A plugin from its shared library: its table is called directly, without the host's checks.
//!
//! Invariants:
//! 1. Every object holds what it was made of, so that `drop` in any order destroys children first;
//!    cases that want another order say so.
//! 2. A call that fails gives the status, the record and the name of the call.
//! 3. The library is never unloaded.
//!
//! Not here: the checks (`groups`), the expected results (`oracle`). Start reading at [`Library`].

mod call;
mod device;
mod executable;
mod fence;
mod instance;
mod library;
mod memory;
mod raw_graph;
mod services;
mod submission;

pub use call::{Call, Failure, status_name};
pub(crate) use call::{breach, checked};
pub use device::{Answer, Device, DeviceFacts, Point, Telemetry};
pub use executable::{Blob, Executable, Port};
pub use fence::{Fence, PATIENCE, Signalled, Timing};
pub use instance::Instance;
pub use library::{Library, PluginFacts, TableHead};
pub use memory::{Buffer, HostMemory};
pub use raw_graph::RawGraph;
pub use services::{Configuration, Services, now_ns};
pub use submission::Binding;

//! Safe Rust for plugin authors: implement [`Plugin`] and four more traits, and get the C table
//! from [`plugin_table`].
//!
//! Invariants:
//! 1. A plugin author writes no unsafe code for the contract: each entry checks the arguments
//!    before the author's code and catches unwinds after it.
//! 2. Structs from the host may be smaller or larger than ours: only the common prefix is read or
//!    written, and a size that ends inside a field is refused.
//! 3. A [`GraphView`] is checked as a whole when it is made, so reading it cannot fail later.
//! 4. Objects behind handles are `Arc`s: a run keeps its executable and its buffers alive.
//!
//! Not here: loading plugins (`contract/host`), any device. Start reading at [`Plugin`], then
//! [`Device`]. `polychip new-plugin NAME` writes a working plugin.

#![deny(unsafe_code)]

pub mod arena;
mod buffer;
mod calls;
mod compile;
mod container;
mod cost;
mod device;
mod device_buffer;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod dma_buf;
mod encoding;
mod error;
mod executable;
mod execution_slots;
mod fence;
mod graph;
#[cfg(target_os = "android")]
mod hardware_buffer;
mod memory;
pub mod onnx;
mod plugin;
mod port;
pub mod protobuf;
mod queue;
mod raw;
mod run;
mod run_fence;
mod services;
mod submit;
mod support;
mod table;
mod telemetry;

pub use buffer::{Access, Buffer, Memory, MemoryKind, MemoryKinds};
pub use compile::{Blob, CompileOptions, LoadSource, LoadedFrom, PortRequest, Precision};
pub use container::{BlobReader, BlobWriter};
pub use cost::Cost;
pub use device::{Device, DeviceInfo, DeviceKind, Offers, OperatingPoint, Preemption, settings};
pub use device_buffer::{DeviceBuffer, Side};
pub use encoding::{Encoding, EncodingKind};
pub use error::{Error, ErrorKind, Result};
pub use executable::{Executable, ExecutableInfo};
pub use fence::{Fence, NO_TIMEOUT, SignalCallback, Step, Timing};
pub use graph::{
    AttributeView, BodyView, Constant, EncodingView, GraphView, GroupKind, GroupView, NodeView, TensorView,
};
pub use memory::{AlignedBytes, HostBacked, HostBuffer};
pub use plugin::{Plugin, PluginInfo};
pub use port::{Layout, Port};
pub use queue::{QueueGrant, QueuedRun, RunQueue, Runner};
pub use run::{Compute, Pace, PortBuffer, Run, RunContext, Span};
pub use run_fence::RunFence;
pub use services::{HostServices, LogLevel, RatesWanted};
pub use submit::{Binding, Priority, Shared, Submit};
pub use support::{Reason, Support};
pub use table::{plugin_query, plugin_table};
pub use telemetry::{Telemetry, Throttle};

#[doc(hidden)]
pub use polychip_abi as abi;

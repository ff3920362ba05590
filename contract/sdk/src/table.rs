//! The C table of a plugin, made from its type.
//!
//! Invariants:
//! 1. Required calls are never null; an optional one is present if [`crate::Offers`] states so.
//! 2. The table is static.

use std::marker::PhantomData;

use polychip_abi::{POLYCHIP_ABI_MAJOR, POLYCHIP_ABI_MINOR, polychip_plugin_table};

use crate::{Device, Offers, Plugin, calls};

struct TableOf<P>(PhantomData<P>);

impl<P: Plugin> TableOf<P> {
    const OFFERS: Offers = <P::Device as Device>::OFFERS;
    const TABLE: &'static polychip_plugin_table = &polychip_plugin_table {
        struct_size: size_of::<polychip_plugin_table>() as u32,
        abi_major: POLYCHIP_ABI_MAJOR,
        abi_minor: POLYCHIP_ABI_MINOR,
        flags: 0,
        plugin_info: Some(calls::plugin_info::<P>),
        create: Some(calls::create::<P>),
        destroy: Some(calls::destroy::<P>),
        device_count: Some(calls::device_count::<P>),
        device_open: Some(calls::device_open::<P>),
        device_info: Some(calls::device_info::<P::Device>),
        device_close: Some(calls::device_close::<P::Device>),
        operating_points: if Self::OFFERS.operating_points {
            Some(calls::operating_points::<P::Device>)
        } else {
            None
        },
        set_operating_point: if Self::OFFERS.set_operating_point {
            Some(calls::set_operating_point::<P::Device>)
        } else {
            None
        },
        query_support: Some(calls::query_support::<P::Device>),
        estimate: if Self::OFFERS.estimate {
            Some(calls::estimate::<P::Device>)
        } else {
            None
        },
        compile: Some(calls::compile::<P::Device>),
        blob_bytes: Some(calls::blob_bytes::<P::Device>),
        blob_destroy: Some(calls::blob_destroy::<P::Device>),
        load: Some(calls::load::<P::Device>),
        executable_info: Some(calls::executable_info::<P::Device>),
        port_info: Some(calls::port_info::<P::Device>),
        executable_destroy: Some(calls::executable_destroy::<P::Device>),
        buffer_create: Some(calls::buffer_create::<P::Device>),
        buffer_import: Some(calls::buffer_import::<P::Device>),
        buffer_export: if Self::OFFERS.buffer_export {
            Some(calls::buffer_export::<P::Device>)
        } else {
            None
        },
        buffer_begin_access: Some(calls::buffer_begin_access::<P::Device>),
        buffer_end_access: Some(calls::buffer_end_access::<P::Device>),
        buffer_destroy: Some(calls::buffer_destroy::<P::Device>),
        execute: Some(calls::execute::<P::Device>),
        cancel: if Self::OFFERS.cancel {
            Some(calls::cancel::<P::Device>)
        } else {
            None
        },
        device_reset: if Self::OFFERS.device_reset {
            Some(calls::device_reset::<P::Device>)
        } else {
            None
        },
        fence_wait: Some(calls::fence_wait::<P::Device>),
        fence_on_signal: if Self::OFFERS.fence_on_signal {
            Some(calls::fence_on_signal::<P::Device>)
        } else {
            None
        },
        fence_import_fd: if Self::OFFERS.fence_import_fd {
            Some(calls::fence_import_fd::<P::Device>)
        } else {
            None
        },
        fence_export_fd: if Self::OFFERS.fence_export_fd {
            Some(calls::fence_export_fd::<P::Device>)
        } else {
            None
        },
        fence_timing: if Self::OFFERS.fence_timing {
            Some(calls::fence_timing::<P::Device>)
        } else {
            None
        },
        fence_output_shape: if Self::OFFERS.fence_output_shape {
            Some(calls::fence_output_shape::<P::Device>)
        } else {
            None
        },
        fence_destroy: Some(calls::fence_destroy::<P::Device>),
        telemetry: if Self::OFFERS.telemetry {
            Some(calls::telemetry::<P::Device>)
        } else {
            None
        },
        fence_steps: if Self::OFFERS.fence_steps {
            Some(calls::fence_steps::<P::Device>)
        } else {
            None
        },
    };
}

/// The table of a plugin, for static linking.
#[must_use]
pub fn plugin_table<P: Plugin>() -> &'static polychip_plugin_table {
    TableOf::<P>::TABLE
}

/// Implementation of the one export of a plugin library: returns the table, or null for another
/// major version. A host calls this function directly for a plugin that is linked into the program.
pub extern "C" fn plugin_query<P: Plugin>(host_major: u32, _host_minor: u32) -> *const polychip_plugin_table {
    if host_major == POLYCHIP_ABI_MAJOR {
        plugin_table::<P>()
    } else {
        std::ptr::null()
    }
}

/// Exports `polychip_plugin_query` for a plugin. Only for the thin `cdylib` wrapper, so that several
/// plugins can be linked into one program.
#[macro_export]
macro_rules! export_plugin {
    ($plugin:ty) => {
        /// The one export of a plugin library.
        #[unsafe(no_mangle)]
        pub extern "C" fn polychip_plugin_query(
            host_major: u32,
            host_minor: u32,
        ) -> *const $crate::abi::polychip_plugin_table {
            $crate::plugin_query::<$plugin>(host_major, host_minor)
        }
    };
}

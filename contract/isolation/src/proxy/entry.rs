//! An isolated library: its identity and the table of its proxy.

use std::sync::atomic::AtomicU32;

use polychip_abi as abi;
use polychip_sdk::PluginInfo;

use crate::isolated::Isolated;
use crate::message::{Hello, OPTIONAL};

/// An isolated library.
pub(super) struct Entry {
    pub(super) isolated: Isolated,
    info: PluginInfo,
    table: abi::polychip_plugin_table,
    /// Bits of the optional calls, as in [`Hello::offers`].
    offers: u32,
    /// Deaths of its processes so far.
    pub(super) deaths: AtomicU32,
}

impl Entry {
    pub(super) fn new(isolated: &Isolated, hello: Hello, mut table: abi::polychip_plugin_table) -> Entry {
        let offers = |call: &str| {
            let bit = OPTIONAL.iter().position(|name| *name == call);
            bit.is_some_and(|bit| hello.offers & (1 << bit) != 0)
        };
        macro_rules! withhold {
            ($($call:ident),+) => {
                $(if !offers(stringify!($call)) {
                    table.$call = None;
                })+
            };
        }
        withhold!(
            operating_points,
            set_operating_point,
            estimate,
            buffer_export,
            cancel,
            fence_import_fd,
            fence_export_fd,
            fence_timing,
            fence_output_shape,
            telemetry,
            fence_steps
        );
        table.abi_minor = hello.abi_minor.min(abi::POLYCHIP_ABI_MINOR);
        // static, as the texts of a library that is never unloaded
        let keep = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
        Entry {
            isolated: isolated.clone(),
            info: PluginInfo {
                name: keep(hello.name),
                version: keep(hello.plugin_version),
                build_id: keep(hello.build_id),
            },
            table,
            offers: hello.offers,
            deaths: AtomicU32::new(0),
        }
    }

    /// Whether the plugin itself can reset a device.
    pub(super) fn plugin_resets(&self) -> bool {
        OPTIONAL
            .iter()
            .position(|name| *name == "device_reset")
            .is_some_and(|bit| self.offers & (1 << bit) != 0)
    }

    /// Identity of the plugin.
    pub(super) fn info(&self) -> PluginInfo {
        self.info
    }

    /// The table of the proxy.
    pub(super) fn table(&self) -> *const abi::polychip_plugin_table {
        &raw const self.table
    }
}

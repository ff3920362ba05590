//! A plugin instance: its table, its identity, its devices.
//!
//! Invariant: the instance is destroyed after everything made through it, because everything holds it.

#![allow(unsafe_code)]

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use polychip_abi as abi;
use polychip_abi::Sized;
use polychip_isolation::{Isolated, OnQuarantine};

use crate::device::Device;
use crate::error::{Error, ErrorKind, Result};
use crate::instance::{Instance, PluginInfo, Trial, text};
use crate::open_calls::OpenCall;
use crate::quarantine::Keeper;
use crate::services::{Recipe, Services};

/// More devices than any machine has.
const MOST_DEVICES: u32 = 4096;

/// A plugin instance. Clones share it.
#[derive(Clone)]
pub struct Plugin(Arc<Instance>);

impl Plugin {
    /// Reads the identity of a plugin from its table.
    pub(crate) fn identify(table: &abi::polychip_plugin_table, path: Option<PathBuf>) -> Result<PluginInfo> {
        let subject = path
            .as_ref()
            .map_or_else(|| "linked plugin".into(), |path| path.display().to_string());
        let mut info = abi::polychip_plugin_info::sized();
        let call = table.plugin_info.expect("invariant: required calls are checked");
        // SAFETY: `info` is a whole record of this build.
        let status = unsafe { call(&raw mut info) };
        if status != abi::POLYCHIP_STATUS_OK {
            return Err(Error::new(
                ErrorKind::of_status(status),
                subject,
                format!("plugin_info returned status {status}"),
            ));
        }
        // SAFETY: the texts of a plugin's information are static.
        let (name, version, build_id) = unsafe { (text(info.name), text(info.version), text(info.build_id)) };
        let is_name = !name.is_empty()
            && name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if !is_name {
            let words = format!("its name {name:?} is not lower-case letters, digits and _");
            return Err(Error::new(ErrorKind::BadPlugin, subject, words));
        }
        Ok(PluginInfo {
            name,
            version,
            build_id,
            path,
            confinement: None,
        })
    }

    /// Makes an instance from a checked table. `trial` is asked before the instance is.
    pub(crate) fn create(
        table: abi::polychip_plugin_table,
        info: PluginInfo,
        recipe: &Recipe,
        trial: Option<Box<dyn Trial>>,
    ) -> Result<Plugin> {
        let configuration = recipe.configuration_of(&info.name);
        let services = Services::new(
            &info.name,
            recipe.clock.clone(),
            recipe.store.clone(),
            configuration,
        );
        let mut raw = std::ptr::null_mut();
        let mut record = abi::polychip_error::sized();
        let call = table.create.expect("invariant: required calls are checked");
        let open = OpenCall::begin(&info.name, "create", "");
        // SAFETY: the services live as long as the instance, and the out pointers are ours.
        let status = unsafe { call(services.table(), &raw mut raw, &raw mut record) };
        drop(open);
        if status != abi::POLYCHIP_STATUS_OK {
            return Err(Error::of_call(&info.name, "create", status, &record));
        }
        if raw.is_null() {
            return Err(Error::new(
                ErrorKind::BadPlugin,
                info.name,
                "create returned no instance",
            ));
        }
        Ok(Plugin(Arc::new(Instance {
            table,
            info,
            raw,
            trial,
            keeper: OnceLock::new(),
            _services: services,
        })))
    }

    /// Has the quarantine of the plugin, which runs in a process of its own, remembered as long as the plugin
    /// is used.
    pub(crate) fn remember_quarantine(&self, isolated: &Isolated, keeper: Keeper) {
        let keeper: Arc<dyn OnQuarantine> = Arc::new(keeper);
        isolated.tell(&keeper);
        let _ = self.0.keeper.set(keeper);
    }

    /// The plugin's identity.
    #[must_use]
    pub fn info(&self) -> &PluginInfo {
        &self.0.info
    }

    /// Opens all devices. A device that fails to open is left out, with its error. May block.
    ///
    /// # Errors
    /// The plugin cannot count its devices.
    pub fn open_devices(&self) -> Result<(Vec<Device>, Vec<Error>)> {
        let mut count = 0;
        let mut record = abi::polychip_error::sized();
        let call = self
            .0
            .table
            .device_count
            .expect("invariant: required calls are checked");
        // SAFETY: the instance is alive and the out pointers are ours.
        let status = unsafe { call(self.0.raw, &raw mut count, &raw mut record) };
        if status != abi::POLYCHIP_STATUS_OK {
            return Err(Error::of_call(&self.0.info.name, "device_count", status, &record));
        }
        if count > MOST_DEVICES {
            let words = format!("device_count reports {count} devices; at most {MOST_DEVICES} are plausible");
            return Err(Error::new(ErrorKind::BadPlugin, &self.0.info.name, words));
        }
        let (mut devices, mut errors) = (Vec::new(), Vec::new());
        for index in 0..count {
            match self.open(index) {
                Ok(device) => devices.push(device),
                Err(error) => errors.push(error),
            }
        }
        Ok((devices, errors))
    }

    fn open(&self, index: u32) -> Result<Device> {
        let name = format!("{}:{index}", self.0.info.name);
        let mut raw = std::ptr::null_mut();
        let mut record = abi::polychip_error::sized();
        let call = self
            .0
            .table
            .device_open
            .expect("invariant: required calls are checked");
        let listed = OpenCall::begin(&name, "device_open", "");
        // SAFETY: the instance is alive and the out pointers are ours.
        let status = unsafe { call(self.0.raw, index, &raw mut raw, &raw mut record) };
        drop(listed);
        if status != abi::POLYCHIP_STATUS_OK {
            return Err(Error::of_call(&name, "device_open", status, &record));
        }
        if raw.is_null() {
            return Err(Error::new(
                ErrorKind::BadPlugin,
                name,
                "device_open returned no device",
            ));
        }
        Device::new(Arc::clone(&self.0), name, raw)
    }
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Plugin").field(&self.0.info).finish()
    }
}

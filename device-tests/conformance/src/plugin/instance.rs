//! An instance of a plugin, with the services that it was given.

#![allow(unsafe_code)]

use std::sync::Arc;

use polychip_abi as abi;

use super::call::{Call, breach, checked};
use super::library::Library;
use super::services::{Configuration, Services};

impl Library {
    /// Makes an instance.
    ///
    /// # Errors
    /// The call failed.
    pub fn create(self: &Arc<Self>, configuration: &Configuration) -> Call<Arc<Instance>> {
        let services = Services::new(configuration.clone());
        let mut raw = std::ptr::null_mut();
        let call = self
            .table()
            .create
            .expect("invariant: required calls are checked");
        // SAFETY: the services outlive the instance, which holds them.
        checked("create", |record| unsafe {
            call(services.table(), &raw mut raw, record)
        })?;
        if raw.is_null() {
            return Err(breach("create", "it returned no instance"));
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

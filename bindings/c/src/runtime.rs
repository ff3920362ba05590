//! Builders, runtimes and policies.
//!
//! Invariant: a setting is checked when it is set, not when it is used.

use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

use polychip::{Policy, Runtime};

use crate::failure::Result;
use crate::handle::{Kind, Object, Table};
use crate::text::c_text;

/// Settings of a runtime.
#[derive(Default)]
pub(crate) struct Builder(Mutex<Vec<(String, String)>>);

impl Builder {
    pub(crate) fn set(&self, name: &str, value: &str) -> Result<()> {
        drop(Runtime::builder().with_setting(name, value)?);
        let mut settings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        settings.push((name.to_owned(), value.to_owned()));
        Ok(())
    }

    pub(crate) fn build(&self) -> Result<RuntimeObject> {
        let settings = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let builder = settings
            .iter()
            .try_fold(Runtime::builder(), |builder, (name, value)| {
                builder.with_setting(name, value)
            })?;
        Ok(RuntimeObject::new(builder.build()?))
    }
}

impl Object for Builder {
    fn table() -> &'static Table<Builder> {
        static TABLE: Table<Builder> = Table::new(Kind::Builder);
        &TABLE
    }
}

/// A device as it is listed.
pub(crate) struct ListedDevice {
    pub(crate) name: CString,
    pub(crate) description: CString,
    pub(crate) kind: CString,
}

/// A runtime, with what is listed of its devices.
pub(crate) struct RuntimeObject {
    pub(crate) runtime: Runtime,
    pub(crate) devices: Vec<ListedDevice>,
}

impl RuntimeObject {
    fn new(runtime: Runtime) -> RuntimeObject {
        let listed = runtime.devices().iter().map(|device| ListedDevice {
            name: c_text(device.name()),
            description: c_text(&device.info().name),
            kind: c_text(device.info().kind.word()),
        });
        let devices = listed.collect();
        RuntimeObject { runtime, devices }
    }

    /// What is not used, a line each with its reason.
    pub(crate) fn refusals(&self) -> String {
        let lines = self.runtime.refusals().iter();
        lines.map(|refusal| format!("{refusal}\n")).collect()
    }

    /// The bundles that were given, a line each.
    pub(crate) fn bundles(&self) -> String {
        let lines = self.runtime.bundles().iter();
        lines.map(|bundle| format!("{bundle}\n")).collect()
    }
}

impl Object for RuntimeObject {
    fn table() -> &'static Table<RuntimeObject> {
        static TABLE: Table<RuntimeObject> = Table::new(Kind::Runtime);
        &TABLE
    }
}

/// A policy that is being put together.
pub(crate) struct PolicyObject(Mutex<Policy>);

impl PolicyObject {
    pub(crate) fn new() -> PolicyObject {
        PolicyObject(Mutex::new(Policy::latency()))
    }

    pub(crate) fn set(&self, name: &str, value: &str) -> Result<()> {
        let mut policy = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *policy = policy.clone().with_setting(name, value)?;
        Ok(())
    }

    /// The policy of a handle; with 0 that of the shortest time of a run.
    pub(crate) fn given(handle: u64) -> Result<Policy> {
        match handle {
            0 => Ok(Policy::latency()),
            policy => Ok(PolicyObject::of(policy)?.policy()),
        }
    }

    pub(crate) fn policy(&self) -> Policy {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Object for PolicyObject {
    fn table() -> &'static Table<PolicyObject> {
        static TABLE: Table<PolicyObject> = Table::new(Kind::Policy);
        &TABLE
    }
}

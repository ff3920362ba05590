//! The runtime and its devices.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::array::Held;
use crate::error;
use crate::fork::Process;
use crate::model::Model;
use crate::shared::Shared;

/// Plugins, their devices, and what was measured on them.
#[pyclass(frozen, module = "polychip")]
pub(crate) struct Runtime(Shared);

/// A device that is open.
#[pyclass(frozen, get_all, module = "polychip")]
pub(crate) struct Device {
    /// `plugin:index`.
    name: String,
    /// What its maker calls it.
    description: String,
    /// cpu, gpu, npu, dsp or other.
    kind: String,
    /// Its figures are an emulated device's.
    emulated: bool,
}

#[pymethods]
impl Device {
    fn __repr__(&self) -> String {
        let emulated = if self.emulated { ", emulated" } else { "" };
        format!(
            "<polychip.Device {}: {} ({}{emulated})>",
            self.name, self.description, self.kind
        )
    }
}

/// A folder or several.
#[derive(FromPyObject)]
enum Folders {
    One(PathBuf),
    Several(Vec<PathBuf>),
}

#[pymethods]
impl Runtime {
    #[new]
    #[pyo3(signature = (*, plugins = None, profiles = None, cache = None, settings = None))]
    fn new(
        py: Python<'_>,
        plugins: Option<Folders>,
        profiles: Option<Folders>,
        cache: Option<PathBuf>,
        settings: Option<BTreeMap<String, String>>,
    ) -> PyResult<Runtime> {
        let listed = |folders: Option<Folders>| match folders {
            None => Vec::new(),
            Some(Folders::One(one)) => vec![one],
            Some(Folders::Several(several)) => several,
        };
        let mut builder = polychip::Runtime::builder();
        for folder in listed(plugins) {
            builder = builder.plugins(folder);
        }
        for file in listed(profiles) {
            builder = builder.profiles(file);
        }
        if let Some(folder) = cache {
            builder = builder.cache(folder);
        }
        for (name, value) in settings.unwrap_or_default() {
            let words = polychip::words::plugin_setting(&format!("{name}={value}"));
            let (plugin, key, value) = words.map_err(error::BadInputError::new_err)?;
            builder = builder.configure(&plugin, &key, value);
        }
        let runtime = py.detach(|| builder.build()).map_err(error::of)?;
        Ok(Runtime(Shared {
            runtime: Arc::new(runtime),
            process: Process::this(),
        }))
    }

    /// The devices that are open.
    #[getter]
    fn devices(&self) -> Vec<Device> {
        let devices = self.0.runtime.devices().iter();
        devices
            .map(|device| Device {
                name: device.name().to_owned(),
                description: device.info().name.clone(),
                kind: device.info().kind.word().to_owned(),
                emulated: device.info().emulated,
            })
            .collect()
    }

    /// Plugins, folders and devices that are not used, each with its reason.
    #[getter]
    fn refusals(&self) -> Vec<String> {
        self.0
            .runtime
            .refusals()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    /// Reads an ONNX model: a file's path, or its bytes, which are kept and not copied.
    #[pyo3(signature = (model, *, name = "model"))]
    fn load(&self, py: Python<'_>, model: &Bound<'_, PyAny>, name: &str) -> PyResult<Model> {
        self.0.process.check()?;
        let runtime = &self.0.runtime;
        let loaded = if let Ok(bytes) = model.cast::<PyBytes>() {
            let held = Held::of(bytes)?;
            py.detach(|| runtime.load_bytes(name, held))
        } else if let Ok(path) = model.extract::<PathBuf>() {
            py.detach(|| runtime.load(path))
        } else {
            return Err(PyTypeError::new_err(format!(
                "a model is a path or bytes, not {}",
                model.get_type().name()?
            )));
        };
        Ok(Model::new(loaded.map_err(error::of)?, self.0.clone()))
    }

    fn __repr__(&self) -> String {
        let names: Vec<&str> = self
            .0
            .runtime
            .devices()
            .iter()
            .map(polychip::Device::name)
            .collect();
        format!("<polychip.Runtime on {}>", names.join(", "))
    }
}

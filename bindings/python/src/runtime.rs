//! The runtime and its devices.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use polychip::ProfileOptions;
use polychip::admission::Wanted;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::array::OwnedBytes;
use crate::error;
use crate::fork::Process;
use crate::measure;
use crate::model::Model;
use crate::plan::{json, loaded};
use crate::policy::{self, Policy};
use crate::session::Session;
use crate::shared::Shared;

/// Plugins, their devices, and measurements of them.
#[pyclass(frozen, module = "polychip")]
pub(crate) struct Runtime(Shared);

/// An open device.
#[pyclass(frozen, get_all, module = "polychip")]
pub(crate) struct Device {
    /// `plugin:index`.
    name: String,
    /// Human-readable name.
    description: String,
    /// cpu, gpu, npu, dsp or other.
    kind: String,
    /// Whether its figures are those of an emulated device.
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

/// A public key or several, as 64 hexadecimal digits.
#[derive(FromPyObject)]
enum Keys {
    One(String),
    Several(Vec<String>),
}

#[pymethods]
impl Runtime {
    #[new]
    #[pyo3(signature = (*, plugins = None, profiles = None, cache = None, settings = None, trust = None, **words))]
    fn new(
        py: Python<'_>,
        plugins: Option<Folders>,
        profiles: Option<Folders>,
        cache: Option<PathBuf>,
        settings: Option<BTreeMap<String, String>>,
        trust: Option<Keys>,
        words: Option<&Bound<'_, PyDict>>,
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
            let words = polychip::settings::plugin_setting(&format!("{name}={value}"));
            let (plugin, key, value) = words.map_err(error::BadInputError::new_err)?;
            builder = builder.configure(&plugin, &key, value);
        }
        let keys = match trust {
            None => Vec::new(),
            Some(Keys::One(one)) => vec![one],
            Some(Keys::Several(several)) => several,
        };
        let keys = keys.into_iter().map(|key| ("trust".to_owned(), key));
        for (name, value) in keys.chain(policy::words(words)?) {
            builder = builder.with_setting(&name, &value).map_err(error::of)?;
        }
        let runtime = py.detach(|| builder.build()).map_err(error::of)?;
        Ok(Runtime(Shared {
            runtime: Arc::new(runtime),
            process: Process::this(),
        }))
    }

    /// Open devices.
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

    /// The memory that all sessions hold, by purpose and by session, and its limit.
    #[getter]
    fn memory<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        loaded(py, &json(serde_json::to_string(&self.0.runtime.memory()))?)
    }

    /// Frees memory: cached specializations except the last used ones (`moderate`), and all idle
    /// sessions' plans (`critical`). Returns the number of bytes.
    fn trim_memory(&self, py: Python<'_>, pressure: &str) -> PyResult<u64> {
        let pressure = pressure.parse().map_err(error::of)?;
        Ok(py.detach(|| self.0.runtime.trim_memory(pressure)))
    }

    /// Bundles passed as profiles: family and version, or the reason why one is not used.
    #[getter]
    fn bundles(&self) -> Vec<String> {
        let bundles = self.0.runtime.bundles().iter();
        bundles.map(ToString::to_string).collect()
    }

    /// Measures the costs behind plans for these models: links, models on each device, parts of the
    /// chosen plans. Blocks for seconds to minutes.
    #[pyo3(signature = (models, policy = None, *, ops = false, wholes = true, seconds = None, goal = 0.03, on_progress = None))]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword argument in Python")]
    fn measure<'py>(
        &self,
        py: Python<'py>,
        models: Vec<PyRef<'py, Model>>,
        policy: Option<&Policy>,
        ops: bool,
        wholes: bool,
        seconds: Option<f64>,
        goal: f64,
        on_progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.0.process.check()?;
        let time = seconds.map(Duration::try_from_secs_f64).transpose();
        let time =
            time.map_err(|_| error::BadInputError::new_err("seconds must be a finite time of at least 0"))?;
        let options = ProfileOptions {
            ops,
            wholes,
            time,
            goal,
        };
        let models: Vec<polychip::Model> = models.iter().map(|model| model.model.clone()).collect();
        let policy = Policy::given(policy);
        let report = measure::measured(py, &self.0.runtime, &models, &policy, &options, on_progress)?;
        loaded(py, &json(serde_json::to_string(&report))?)
    }

    /// Makes sessions that share devices, with a proof that no deadline is missed. `wanted` maps
    /// names to a model and a policy.
    #[pyo3(signature = (wanted, *, margin_percent = 50.0))]
    fn admit<'py>(
        &self,
        py: Python<'py>,
        wanted: &Bound<'py, PyDict>,
        margin_percent: f64,
    ) -> PyResult<Bound<'py, PyDict>> {
        self.0.process.check()?;
        let mut names = Vec::new();
        let mut all = Vec::new();
        for (name, pair) in wanted {
            let name: String = name.extract()?;
            let (model, policy): (PyRef<'_, Model>, PyRef<'_, Policy>) = pair.extract()?;
            let wanted = Wanted::new(&name, &model.model, policy.0.clone());
            all.push(wanted.margin_percent(margin_percent));
            names.push(name);
        }
        let admission = py.detach(|| self.0.runtime.admit(all)).map_err(error::of)?;
        if let Some(refusal) = admission.refusal() {
            let error = error::NotAdmittedError::new_err(refusal.to_string().trim_end().to_owned());
            let refusal = loaded(py, &json(serde_json::to_string(refusal))?)?;
            error.value(py).setattr("refusal", refusal)?;
            return Err(error);
        }
        let sessions = py
            .detach(|| admission.admitted()?.sessions())
            .map_err(error::of)?;
        let made = PyDict::new(py);
        for (name, session) in names.into_iter().zip(sessions) {
            made.set_item(name, Py::new(py, Session::new(session, self.0.clone()))?)?;
        }
        Ok(made)
    }

    /// The proof for all sessions that are admitted now; None without such sessions.
    #[getter]
    fn admitted<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match py.detach(|| self.0.runtime.admitted()) {
            None => Ok(None),
            Some(proof) => loaded(py, &json(serde_json::to_string(&proof))?).map(Some),
        }
    }

    /// Reads an ONNX model from a path, or from bytes, which are kept rather than copied.
    #[pyo3(signature = (model, *, name = "model"))]
    fn load(&self, py: Python<'_>, model: &Bound<'_, PyAny>, name: &str) -> PyResult<Model> {
        self.0.process.check()?;
        let runtime = &self.0.runtime;
        let loaded = if let Ok(bytes) = model.cast::<PyBytes>() {
            let held = OwnedBytes::of(bytes)?;
            py.detach(|| runtime.load_bytes(name, held))
        } else if let Ok(path) = model.extract::<PathBuf>() {
            py.detach(|| runtime.load(path))
        } else {
            return Err(PyTypeError::new_err(format!(
                "a model must be a path or bytes, not {}",
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

//! Plans before compilation, and their explanations.

use pyo3::prelude::*;

use crate::error::{self, BadPlanError, Error};

/// A plan: the device of each node, and the reasons.
#[pyclass(frozen, module = "polychip")]
pub(crate) struct Plan(pub(crate) polychip::Planned);

impl Plan {
    /// Parses the text of a plan file, without checking the plan.
    pub(crate) fn parsed(text: &str) -> PyResult<polychip::Plan> {
        polychip::Plan::from_json(text).map_err(|error| BadPlanError::new_err(format!("not a plan: {error}")))
    }
}

#[pymethods]
impl Plan {
    /// Devices that run a part.
    #[getter]
    fn devices(&self) -> Vec<String> {
        let plan = self.0.plan();
        let mut names: Vec<String> = plan
            .parts
            .iter()
            .map(|part| plan.devices[part.device.index()].clone())
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Text of the plan file, as `polychip partition -o` writes it. With `lock` it also records the
    /// costs of launches, links and whole parts.
    #[pyo3(signature = (*, lock = false))]
    fn to_json(&self, py: Python<'_>, lock: bool) -> String {
        py.detach(|| {
            if lock {
                self.0.lock_file().to_json()
            } else {
                self.0.plan_file().to_json()
            }
        })
    }

    /// Explains for each node its device and cost, and the reason against every other device.
    fn explain(&self, py: Python<'_>) -> PyResult<Explained> {
        py.detach(|| self.0.explain()).map(Explained).map_err(error::of)
    }

    fn __repr__(&self) -> String {
        let (path, devices) = (self.0.model().path().display(), self.devices().join(", "));
        format!("<polychip.Plan of {path} on {devices}>")
    }
}

/// The reasons for the device of each node: text, or a dict.
#[pyclass(frozen, module = "polychip")]
pub(crate) struct Explained(polychip::Explained);

#[pymethods]
impl Explained {
    /// JSON, in the schema of `polychip explain --json`.
    fn to_json(&self) -> PyResult<String> {
        json(serde_json::to_string(&self.0))
    }

    /// A dict with the names of the JSON.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        loaded(py, &self.to_json()?)
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<polychip.Explained of {}>", self.0.model)
    }
}

/// What was written as JSON.
pub(crate) fn json(written: serde_json::Result<String>) -> PyResult<String> {
    written.map_err(|error| Error::new_err(error.to_string()))
}

/// JSON as Python has it.
pub(crate) fn loaded<'py>(py: Python<'py>, json: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (json,))
}

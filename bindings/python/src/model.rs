//! A model, ready to be planned.

use pyo3::prelude::*;

use crate::error;
use crate::plan::Plan;
use crate::policy::Policy;
use crate::session::Session;
use crate::shared::Shared;

/// A model of one runtime, ready to be planned.
#[pyclass(frozen, module = "polychip")]
pub(crate) struct Model {
    pub(crate) model: polychip::Model,
    shared: Shared,
}

impl Model {
    pub(crate) fn new(model: polychip::Model, shared: Shared) -> Model {
        Model { model, shared }
    }
}

#[pymethods]
impl Model {
    /// Path of its file, or the name passed to `load`.
    #[getter]
    fn path(&self) -> String {
        self.model.path().display().to_string()
    }

    /// Names of the dimensions whose sizes the model leaves open.
    #[getter]
    fn open_dims(&self) -> Vec<String> {
        self.model.open_dims()
    }

    /// Key-value metadata that the author of the model added.
    #[getter]
    fn metadata(&self, py: Python<'_>) -> PyResult<std::collections::BTreeMap<String, String>> {
        let header = py.detach(|| self.model.header());
        Ok(header.map_err(error::of)?.metadata)
    }

    /// Returns a copy of the model with these sizes.
    #[pyo3(signature = (**sizes))]
    fn bind(
        &self,
        py: Python<'_>,
        sizes: Option<std::collections::HashMap<String, usize>>,
    ) -> PyResult<Model> {
        let bound = py.detach(|| self.model.bind(sizes.unwrap_or_default()));
        Ok(Model::new(bound.map_err(error::of)?, self.shared.clone()))
    }

    /// Plans the model without compiling anything. Blocks.
    #[pyo3(signature = (policy = None))]
    fn plan(&self, py: Python<'_>, policy: Option<&Policy>) -> PyResult<Plan> {
        self.shared.process.check()?;
        let policy = Policy::given(policy);
        let planned = py.detach(|| self.shared.runtime.plan(&self.model, &policy));
        planned.map(Plan).map_err(error::of)
    }

    /// Reads a plan from the text of a file and checks it for this model and these devices. A
    /// session of this plan keeps it.
    #[pyo3(signature = (text, policy = None))]
    fn read_plan(&self, py: Python<'_>, text: &str, policy: Option<&Policy>) -> PyResult<Plan> {
        self.shared.process.check()?;
        let (plan, policy) = (Plan::parsed(text)?, Policy::given(policy));
        let planned = py.detach(|| self.shared.runtime.with_plan(&self.model, &policy, plan));
        planned.map(Plan).map_err(error::of)
    }

    /// Plans, compiles and loads the model; with `plan`, compiles and loads that plan. Blocks.
    #[pyo3(signature = (policy = None, *, plan = None))]
    fn session(&self, py: Python<'_>, policy: Option<&Policy>, plan: Option<&Plan>) -> PyResult<Session> {
        self.shared.process.check()?;
        let (runtime, policy) = (&self.shared.runtime, Policy::given(policy));
        let session = py.detach(|| match plan {
            None => runtime.session(&self.model, policy),
            Some(plan) => runtime.session_of(plan.0.clone(), policy),
        });
        Ok(Session::new(session.map_err(error::of)?, self.shared.clone()))
    }

    fn __repr__(&self) -> String {
        format!("<polychip.Model {}>", self.path())
    }
}

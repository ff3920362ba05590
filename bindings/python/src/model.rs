//! A model that has been read.

use pyo3::prelude::*;

use crate::error;
use crate::plan::Plan;
use crate::policy::Policy;
use crate::session::Session;
use crate::shared::Shared;

/// A model that has been read, of one runtime.
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
    /// Its file, or the name that it was given.
    #[getter]
    fn path(&self) -> String {
        self.model.path().display().to_string()
    }

    /// Names of the sizes that the model leaves open.
    #[getter]
    fn open_dims(&self) -> Vec<String> {
        self.model.open_dims()
    }

    /// Named texts that its maker added.
    #[getter]
    fn metadata(&self, py: Python<'_>) -> PyResult<std::collections::BTreeMap<String, String>> {
        let header = py.detach(|| self.model.header());
        Ok(header.map_err(error::of)?.metadata)
    }

    /// The same with these sizes.
    #[pyo3(signature = (**sizes))]
    fn bind(
        &self,
        py: Python<'_>,
        sizes: Option<std::collections::HashMap<String, usize>>,
    ) -> PyResult<Model> {
        let bound = py.detach(|| self.model.bind(sizes.unwrap_or_default()));
        Ok(Model::new(bound.map_err(error::of)?, self.shared.clone()))
    }

    /// Plans, and compiles nothing.
    #[pyo3(signature = (policy = None))]
    fn plan(&self, py: Python<'_>, policy: Option<&Policy>) -> PyResult<Plan> {
        self.shared.process.check()?;
        let policy = Policy::given(policy);
        let planned = py.detach(|| self.shared.runtime.plan(&self.model, &policy));
        planned.map(Plan).map_err(error::of)
    }

    /// The plan in the text of a file, checked for this model and these devices. A session of it keeps it.
    #[pyo3(signature = (text, policy = None))]
    fn read_plan(&self, py: Python<'_>, text: &str, policy: Option<&Policy>) -> PyResult<Plan> {
        self.shared.process.check()?;
        let (plan, policy) = (Plan::parsed(text)?, Policy::given(policy));
        let planned = py.detach(|| self.shared.runtime.with_plan(&self.model, &policy, plan));
        planned.map(Plan).map_err(error::of)
    }

    /// Plans, compiles and loads; with a plan, compiles and loads that.
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

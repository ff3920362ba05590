//! A model that has been read.

use pyo3::prelude::*;

use crate::error;
use crate::policy::Policy;
use crate::session::Session;
use crate::shared::Shared;

/// A model that has been read, of one runtime.
#[pyclass(frozen, module = "polychip")]
pub(crate) struct Model {
    model: polychip::Model,
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

    /// Plans, compiles and loads.
    #[pyo3(signature = (policy = None))]
    fn session(&self, py: Python<'_>, policy: Option<&Policy>) -> PyResult<Session> {
        self.shared.process.check()?;
        let policy = policy.map_or_else(polychip::Policy::latency, |policy| policy.0.clone());
        let session = py.detach(|| self.shared.runtime.session(&self.model, policy));
        Ok(Session::new(session.map_err(error::of)?, self.shared.clone()))
    }

    fn __repr__(&self) -> String {
        format!("<polychip.Model {}>", self.path())
    }
}

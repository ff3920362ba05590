//! Reports of sessions.

use std::sync::Arc;

use pyo3::prelude::*;

use crate::error::Error;
use crate::plan::{json, loaded};

/// The device of each part of a session, with its predicted and measured cost: as text, as a dict,
/// or as the plan's HTML page in a notebook.
#[pyclass(frozen, module = "polychip")]
pub(crate) struct Report {
    report: polychip::Report,
    planned: Option<Arc<polychip::Planned>>,
}

impl Report {
    pub(crate) fn new(report: polychip::Report, planned: Option<Arc<polychip::Planned>>) -> Report {
        Report { report, planned }
    }
}

#[pymethods]
impl Report {
    /// JSON, in the schema of `polychip run --json`.
    fn to_json(&self) -> PyResult<String> {
        json(serde_json::to_string(&self.report))
    }

    /// A dict with the names of the JSON.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        loaded(py, &self.to_json()?)
    }

    /// The plan's page: graph, timeline, costs and reasons, in one HTML file.
    fn to_html(&self, py: Python<'_>) -> PyResult<String> {
        let Some(planned) = &self.planned else {
            return Err(Error::new_err(
                "no plan has been made yet: the model leaves sizes open until the first run",
            ));
        };
        let title = &self.report.model;
        let page = py.detach(|| polychip_cli::plan_page(title, planned));
        page.map_err(|error| Error::new_err(error.to_string()))
    }

    /// The page in an iframe, for notebooks.
    pub(crate) fn _repr_html_(&self, py: Python<'_>) -> PyResult<Option<String>> {
        if self.planned.is_none() {
            return Ok(None);
        }
        let page = self.to_html(py)?.replace('&', "&amp;").replace('"', "&quot;");
        Ok(Some(format!(
            "<iframe sandbox=\"allow-scripts\" style=\"width:100%;height:640px;border:0\" srcdoc=\"{page}\"></iframe>"
        )))
    }

    fn __str__(&self) -> String {
        self.report.to_string()
    }

    fn __repr__(&self) -> String {
        self.report.to_string()
    }
}

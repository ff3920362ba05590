//! The library as a module of Python's: reports. What a person imports is in `python/polychip_ort`.

use pyo3::prelude::*;

/// What became of each session that is open, as JSON each.
#[pyfunction]
fn reports(py: Python<'_>) -> Vec<String> {
    py.detach(crate::reports::all)
}

#[pymodule(gil_used = false)]
fn _polychip_ort(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(reports, module)?)
}

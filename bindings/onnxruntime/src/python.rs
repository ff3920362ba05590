//! The library as a module of Python's, by which the wheel's maker knows it. It holds nothing: what a person imports is in
//! `python/polychip_ort`, which calls the library as any program does.

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
fn _polychip_ort(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}

//! The library as a Python module, so that the wheel builder recognises it. It is empty; the
//! importable package is `python/polychip_ort`, which calls the library as any program does.

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
fn _polychip_ort(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}

//! `python -m polychip`: the command line, in the Python process.

use std::path::PathBuf;

use pyo3::prelude::*;

/// Runs the command line with these arguments, the program name first, and returns its exit code.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, arguments: Vec<String>) -> PyResult<u8> {
    // the path within a virtual environment, not that of the file behind it
    let interpreter: Option<String> = py.import("sys")?.getattr("executable")?.extract()?;
    let interpreter = interpreter.filter(|path| !path.is_empty()).map(PathBuf::from);
    Ok(py.detach(|| polychip_cli::run_in(interpreter, arguments)))
}

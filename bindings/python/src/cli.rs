//! `python -m polychip`: the command line, in the Python process.

use pyo3::prelude::*;

/// Runs the command line with these arguments, the program name first, and returns its exit code.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, arguments: Vec<String>) -> u8 {
    py.detach(|| polychip_cli::run(arguments))
}

//! `python -m polychip`: the program, in the process of Python.

use pyo3::prelude::*;

/// Runs the command line of these words, the program's name first, and gives its exit code.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, arguments: Vec<String>) -> u8 {
    py.detach(|| polychip_cli::run(arguments))
}

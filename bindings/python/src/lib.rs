//! The Python module: the types of `polychip` for Python. The public package is `python/polychip`.
//!
//! Invariants:
//! 1. Python's lock is not held while a model is read, planned, compiled or run.
//! 2. An input array is read in place if its elements are in row-major order without gaps.
//! 3. Memory that Python sees is held as long as Python sees it, and no run writes it meanwhile.
//! 4. A child of `fork` receives an error: it has none of the threads that devices need.

#![deny(unsafe_code)]

mod array;
mod cli;
mod dlpack;
mod element;
mod error;
mod export;
mod fork;
mod input;
mod measure;
mod model;
mod outputs;
mod plan;
mod policy;
mod pool;
mod report;
mod run;
mod runtime;
mod session;
mod shared;
mod tensor;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
fn _polychip(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<runtime::Runtime>()?;
    module.add_class::<runtime::Device>()?;
    module.add_class::<model::Model>()?;
    module.add_class::<policy::Policy>()?;
    module.add_class::<plan::Plan>()?;
    module.add_class::<plan::Explained>()?;
    module.add_class::<session::Session>()?;
    module.add_class::<session::TensorInfo>()?;
    module.add_class::<input::Input>()?;
    module.add_class::<run::Run>()?;
    module.add_class::<tensor::Tensor>()?;
    module.add_class::<report::Report>()?;
    module.add_function(wrap_pyfunction!(cli::main, module)?)?;
    error::add(module)
}
